"""The style of figures: one colour and mark for each method, SVG and PNG.

Pictures are made without a display. An SVG has the same bytes on every machine with the same
matplotlib, and states the digest of its rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Picture

from studies.figures.cells import Result

BLACK, ORANGE, BLUE, GREEN, RED, PURPLE, SKY, YELLOW = (
    "#000000", "#e69f00", "#0072b2", "#009e73", "#d55e00", "#cc79a7", "#56b4e9", "#b8a500",
)  # fmt: skip
"""Okabe and Ito's colours, which are distinct in every kind of colour vision."""

PNG_DPI = 130
_STYLE: Any = {
    "font.size": 10.0,
    "axes.titlesize": 11.0,
    "axes.grid": True,
    "grid.alpha": 0.3,
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "svg.hashsalt": "studies",
    "svg.fonttype": "path",
    "path.simplify": True,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """How one method is drawn: which rows, its name in the legend, colour, mark and dashes."""

    method: str
    norm: str = ""
    label: str
    colour: str
    mark: str = "o"
    dashes: str = "-"


def picture(panels: int = 1, *, columns: int | None = None) -> tuple[Picture, list[Axes]]:
    """Return an empty picture of some panels side by side, or in rows of ``columns``."""
    wide = columns or panels
    high = -(-panels // wide)
    made = Picture(figsize=(1.2 + 4.8 * wide, 0.4 + 3.9 * high), layout="constrained")
    axes = made.subplots(high, wide, squeeze=False)
    every = [each for row in axes for each in row]
    for unused in every[panels:]:
        unused.set_visible(False)
    return made, every[:panels]


def errors_by(
    axes: Axes,
    rows: Sequence[Result],
    lines: Iterable[Line],
    *,
    by: str,
    reading: str = "error_mean",
) -> None:
    """Draw one line per method on logarithmic axes, with two standard errors of its means.

    ``by`` is "n" or "epsilon"; ``reading`` "error_mean" or "error_median". Medians have no bars.
    """
    for line in lines:
        found = sorted(
            (float(getattr(row, by)), getattr(row, reading), row.error_se)
            for row in rows
            if (row.method, row.norm) == (line.method, line.norm)
        )
        if not found:
            continue
        x, y, spread = zip(*found, strict=True)
        # a bar may not reach down to zero on a logarithmic axis
        bars = [[min(2 * s, 0.9 * e) for e, s in zip(y, spread, strict=True)],
                [2 * s for s in spread]]  # fmt: skip
        axes.errorbar(
            x,
            y,
            yerr=bars if reading == "error_mean" else None,
            label=line.label,
            color=line.colour,
            marker=line.mark,
            linestyle=line.dashes,
            markersize=4.5,
            linewidth=1.4,
            capsize=2.0,
        )
    axes.set_xscale("log")
    axes.set_yscale("log")


def digest(text: str) -> str:
    """Return a picture's text about the CSV that it was drawn from."""
    return f"SHA-256 of the rows: {sha256(text.encode()).hexdigest()}"


def save(made: Picture, path: Path, *, rows: str) -> None:
    """Write a picture in the format that the path's suffix names."""
    path.parent.mkdir(parents=True, exist_ok=True)
    metadata: dict[str, str | None] = {"Description": digest(rows)}
    if path.suffix == ".svg":
        metadata["Date"] = None
    with style():
        made.savefig(path, dpi=PNG_DPI, metadata=metadata)


def style() -> AbstractContextManager[None]:
    """Return the context in which figures are made and saved."""
    return rc_context(_STYLE)
