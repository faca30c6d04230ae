"""Standard errors and confidence intervals as a table, as R prints a regression's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from textwrap import wrap
from typing import Any

_HEAD = ("", "estimate", "std. error", "t value", "95% confidence", "95% noise")
_WIDTH = 88
_NONE = (
    "There are no standard errors. A regression or a quantile that is asked for with an inference, "
    'as in inference="1/3", has them for that share of its epsilon. What is derived from moments '
    "has them free: means, correlations and linear regressions."
)


def summary_of(inference: Mapping[str, Any] | None, numbers: str) -> str:
    """Return an answer's ``inference`` as text: a line for each number, then how it was made.

    ``numbers`` is what can be told without.
    """
    if inference is None:
        return "\n".join([*([numbers, ""] if numbers else []), *wrap(_NONE, _WIDTH)])
    terms = [_row(term) for term in inference["terms"]]
    fit = [_row(term, tested=False) for term in inference["fit"]]
    rows = [_HEAD, *terms, *fit]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [*_aligned(rows, widths), "", *wrap(f"Method: {inference['method']}", _WIDTH)]
    return "\n".join(lines)


def _row(term: Mapping[str, Any], *, tested: bool = True) -> tuple[str, ...]:
    """Return the cells of a number; of R squared and the like nobody asks whether they are 0."""
    error = term["std_error"]
    return (
        " ".join([*(term.get("by") or {}).values(), term["term"]]),
        f"{term['estimate']:.4g}",
        f"{error:.4g}",
        f"{term['estimate'] / error:.2f}" if error and tested else "",
        _interval(term["confidence_95"]),
        "" if term["noise_95"] is None else _interval(term["noise_95"]),
    )


def _interval(ends: Sequence[float]) -> str:
    return f"[{ends[0]:.4g}, {ends[1]:.4g}]"


def _aligned(rows: Sequence[Sequence[str]], widths: Sequence[int]) -> Iterator[str]:
    for name, *cells in rows:
        numbers = (cell.rjust(width) for cell, width in zip(cells, widths[1:], strict=True))
        yield "  ".join([name.ljust(widths[0]), *numbers]).rstrip()
