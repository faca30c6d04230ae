"""The page of the documents: tables, pictures and a cost model, from the rows of a run."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

from studies.figures.plots import BLUE, ORANGE, picture, save, style
from studies.scale.fitting import Points, model, slope
from studies.scale.rows import csv_bytes
from studies.scale.store import OK, Row, read
from studies.scale.work import plan_of, statistics

BEGIN, END = "<!-- figures -->", "<!-- /figures -->"
CSV, PICTURE = Path("studies") / "scale.csv", Path("images") / "studies" / "scale.svg"
_AHEAD = (10**9, 10**11)
_SERIAL = "serial"


def keep(made: Path, page: Path) -> None:
    """Store a run's rows next to a page, draw them, and update the page's part.

    Raises
    ------
    ValueError
        The page has no markers.
    """
    folder = page.parent
    shutil.copyfile(made, folder / CSV)
    rows = read(folder / CSV)
    _draw(rows, folder / PICTURE, text=(folder / CSV).read_text("utf-8"))
    before, begin, rest = page.read_text("utf-8").partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"the page has no {BEGIN} and {END}")
    text = "\n".join(lines(rows))
    page.write_text(f"{before}{begin}\n\n{text}\n\n{end}{after}", "utf-8")


def lines(rows: Sequence[Row]) -> Iterator[str]:
    """Yield the tables of rows, as lines of Markdown."""
    yield from _taking_in(rows)
    yield ""
    yield from _statistics(rows)


def _taking_in(rows: Sequence[Row]) -> Iterator[str]:
    yield (
        "| rows | taken in, s | Polars, s | ratio | ratio of CPU time | peak, MB "
        "| bytes over Parquet's | over the CSV's |"
    )
    found = {row.cell: row for row in rows if row.status == OK}
    yield "| --- | --- | --- | --- | --- | --- | --- | --- |"
    for size in sorted({row.rows for row in rows}):
        ours = found.get(("ingest", _SERIAL, size))
        theirs = found.get(("polars", _SERIAL, size))
        if ours is None or theirs is None:
            continue
        yield (
            f"| {size:,} | {ours.seconds:.2f} | {theirs.seconds:.2f} "
            f"| {ours.seconds / theirs.seconds:.1f} | {_over(ours.cpu_s, theirs.cpu_s)} "
            f"| {ours.peak_mb:,.0f} | {_over(ours.bytes, theirs.bytes)} "
            f"| {_over(ours.bytes, csv_bytes(size))} |"
        )


def _over(one: float, other: float) -> str:
    return f"{one / other:.2f}" if other else "–"


def _statistics(rows: Sequence[Row]) -> Iterator[str]:
    ahead = " | ".join(f"at {size:.0e}, s" for size in _AHEAD)
    yield (
        "| what | executor | rows | s | first, s | CPU, s | expected, s | peak, MB | slope "
        f"| {ahead} |"
    )
    yield "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |"
    for what, executor in dict.fromkeys((row.what, row.executor) for row in rows):
        own = [row for row in rows if (row.what, row.executor) == (what, executor)]
        largest = max(own, key=lambda row: row.rows)
        place = f"{_words(what)} | {executor} | {largest.rows:,}"
        if largest.status != OK:
            yield f"| {place} | {largest.status} | | | | | | | |"
            continue
        points = [(row.rows, _cost(row)) for row in own if row.status == OK]
        processor = largest.cpu_s if _grows(what) else 0.0
        yield (
            f"| {place} | {largest.seconds:.3g} | {_or_none(largest.first_s)} "
            f"| {_or_none(processor)} | {_or_none(_expected(largest))} "
            f"| {largest.peak_mb:,.0f} | {_slope(slope(points))} "
            f"| {_ahead(what, points)} |"
        )


def _words(what: str) -> str:
    return what.replace("_", " ")


def _or_none(seconds: float) -> str:
    return f"{seconds:.3g}" if seconds else ""


def _slope(found: float | None) -> str:
    return "" if found is None else f"{round(found, 2) + 0.0:.2f}"  # no -0.00


def _grows(what: str) -> bool:
    """Return whether something reads rows; a sketched statistic does not."""
    asked = statistics().get(what)
    return asked is None or asked[2]


def _expected(row: Row) -> float:
    """Return the expected seconds in a plan that reads rows, in one process; 0 otherwise."""
    reads = row.what in statistics() and row.executor == _SERIAL and _grows(row.what)
    return plan_of(row.what, row.rows).expected_ms / 1000 if reads else 0.0


def _cost(row: Row) -> float:
    """Return the seconds that are fitted.

    That is the CPU time where rows are read, which other work does not affect. A draw from a sketch
    is too short for the resolution of CPU time.
    """
    return row.cpu_s if _grows(row.what) else row.seconds


def _ahead(what: str, points: Points) -> str:
    """Return the cost model's time for more rows; that of a sketched statistic is constant."""
    if not _grows(what):
        return " | ".join("as now" for _ in _AHEAD)
    found = model(points)
    return " | ".join("" if found is None else f"{found.at(size):,.3g}" for size in _AHEAD)


def _draw(rows: Sequence[Row], path: Path, *, text: str) -> None:
    """Draw the times of ingesting rows, and of the statistics that read them."""
    with style():
        made, (taking, asking) = picture(2)
        for what, colour in (("ingest", BLUE), ("polars", ORANGE)):
            _line(taking, rows, what, color=colour)
        for what in sorted({row.what for row in rows} - {"ingest", "polars"}):
            _line(asking, rows, what)
        both = (taking, "Taking rows in", "processor seconds"), (asking, "Draws", "seconds")
        for axes, title, label in both:
            axes.set(xscale="log", yscale="log", title=title, xlabel="rows", ylabel=label)
            axes.legend(fontsize=6)
    save(made, path, rows=text)


def _line(axes: object, rows: Sequence[Row], what: str, **look: object) -> None:
    points = sorted(
        (row.rows, _cost(row))
        for row in rows
        if (row.what, row.executor, row.status) == (what, _SERIAL, OK)
    )
    if points:
        axes.plot(*zip(*points, strict=True), label=_words(what), marker="o", **look)  # type: ignore[attr-defined]
