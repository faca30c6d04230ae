"""The page of findings, made from the CSV files: a paper's claims and the measurements."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

from studies.figures.cells import Result
from studies.figures.figure import Figure
from studies.figures.plots import save, style
from studies.figures.store import Store

BEGIN, END = "<!-- figures -->", "<!-- /figures -->"
ROWS, PICTURES = Path("studies"), Path("images") / "studies"
"""Where the page's folder keeps CSVs and pictures."""


def draw(figure: Figure, rows: Sequence[Result], path: Path, *, text: str) -> None:
    """Draw a figure into a file."""
    with style():
        made = figure.draw(rows)
    save(made, path, rows=text)


def kept_rows(figure: Figure, folder: Path) -> list[Result]:
    """Return the rows of a figure that the page's folder keeps; none before its first run."""
    return Store(folder=folder / ROWS, figure=figure.name, covers=figure.covers).rows()


def keep(figure: Figure, *, made_in: Path, folder: Path) -> None:
    """Copy a figure's rows from where all of them were run, and draw its picture for the page."""
    there = Store(folder=made_in, figure=figure.name, covers=figure.covers)
    if size_of(figure, there.rows()) is None:
        return
    (folder / ROWS).mkdir(parents=True, exist_ok=True)
    shutil.copyfile(there.csv, folder / ROWS / there.csv.name)
    text = there.csv.read_text("utf-8")
    draw(figure, there.rows(), folder / PICTURES / f"{figure.name}.svg", text=text)


def rewritten(page: str, figures: Sequence[Figure], folder: Path) -> str:
    """Return the page with the findings of the folder's rows between its markers.

    Raises
    ------
    ValueError
        The page has no markers.
    """
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"the page has no {BEGIN} and {END}")
    sections = [
        "\n".join(section(figure, rows, pictures=PICTURES, csv=ROWS))
        for figure in figures
        if (rows := kept_rows(figure, folder))
    ]
    return f"{before}{begin}\n" + "\n".join(sections) + f"{end}{after}"


def section(figure: Figure, rows: Sequence[Result], *, pictures: Path, csv: Path) -> Iterator[str]:
    """Yield the lines of one figure's section."""
    yield f"## {figure.name}: {figure.title}\n"
    yield f"**Paper.** {figure.claim}\n"
    yield f"**Here.** {figure.method} {replicates_text(figure, rows)}\n"
    yield f"![{figure.title}]({(pictures / figure.name).as_posix()}.svg)\n"
    yield "| the paper says | measured here | holds |"
    yield "| --- | --- | --- |"
    for finding in figure.findings(rows):
        verdict = "yes" if finding.holds else "**no**"
        yield f"| {_cell(finding.claim)} | {_cell(finding.measured)} | {verdict} |"
    yield f"\nAll numbers: [{figure.name}.csv]({(csv / figure.name).as_posix()}.csv).\n"


def replicates_text(figure: Figure, rows: Sequence[Result]) -> str:
    """Return which study the rows are of, and how often its points were repeated."""
    counts = sorted({row.replicate_count for row in rows})
    if counts == [1]:
        return "Nothing here is random."
    size = size_of(figure, rows)
    if len(counts) == 1:
        return f"This is the {size} study, each point of {counts[0]:,} replicates."
    return f"This is the {size} study, its points of {counts[0]:,} to {counts[-1]:,} replicates."


def size_of(figure: Figure, rows: Sequence[Result]) -> str | None:
    """Return whether these are the rows of the full study or the quick one; None if neither."""
    found = {row.name: row.replicate_count for row in rows}
    for size, quick in (("full", False), ("quick", True)):
        if found == {cell.name: cell.replicate_count for cell in figure.cells(quick)}:
            return size
    return None


def _cell(text: str) -> str:
    return re.sub(r"\s+", " ", text).replace("|", r"\|")
