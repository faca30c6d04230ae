"""Running figures: missing cells on some processes, with a bar, then pictures and findings.

Writes ``<figure>.csv``, ``<figure>.json`` (seeds), ``<figure>.svg``, ``<figure>.png`` and a page
``studies.md`` of all findings into the folder of results. Another run resumes where it stopped.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from studies.figures import page
from studies.figures.cells import Cell, Result
from studies.figures.figure import Figure
from studies.figures.registry import FIGURES
from studies.figures.store import Store

_PAGE = "studies.md"
_TITLE = "# The papers' figures, made again\n"


def run_cells(cells: Sequence[Cell], jobs: int) -> Iterator[tuple[Cell, Result]]:
    """Yield each cell with its result, as they are done."""
    if jobs == 1:
        for cell in cells:
            yield cell, cell.run()
        return
    waiting = list(reversed(cells))
    # spawned, not forked: the bar has a thread
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        running = {pool.submit(run_cell, cell): cell for cell in _taken(waiting, jobs)}
        while running:
            done, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                cell = running.pop(future)
                for following in _taken(waiting, 1):
                    running[pool.submit(run_cell, following)] = following
                yield cell, future.result()


def run_cell(cell: Cell) -> Result:
    """Measure a cell, in a process of its own."""
    return cell.run()


def _taken(waiting: list[Cell], count: int) -> Iterator[Cell]:
    for _ in range(min(count, len(waiting))):
        yield waiting.pop()


def study(figures: Sequence[Figure], *, quick: bool, out: Path, jobs: int, say: Console) -> None:
    """Run the missing cells of these figures; then draw each, and write the page of findings."""
    stores = [Store(folder=out, figure=each.name, covers=each.covers) for each in figures]
    wanted = [each.cells(quick) for each in figures]
    missing: list[Cell] = []
    for store, cells in zip(stores, wanted, strict=True):
        store.keep(cells)
        missing += store.missing(cells)
    by_figure = {store.figure: store for store in stores}
    say.print(
        f"{sum(map(len, wanted))} cells, {len(missing)} of them to run, on {jobs} processes; "
        f"rows and seeds in {out}"
    )
    with _bar(say, missing) as advance:
        for cell, row in run_cells(missing, jobs):
            by_figure[cell.figure].add(cell, row)
            advance(cell)
    for figure, store, cells in zip(figures, stores, wanted, strict=True):
        rows = store.in_order(cells)
        text = store.csv.read_text("utf-8")
        for suffix in ("svg", "png"):
            page.draw(figure, rows, out / f"{figure.name}.{suffix}", text=text)
        _tell(figure, rows, say)
    _write_page(out)


def _tell(figure: Figure, rows: Sequence[Result], say: Console) -> None:
    say.print(f"\n{figure.name}: {figure.title}", style="bold", markup=False)
    for finding in figure.findings(rows):
        mark = "holds" if finding.holds else "DOES NOT HOLD"
        say.print(f"  {mark}: {finding.claim}\n    {finding.measured}", markup=False)


def _write_page(out: Path) -> None:
    """Write the findings of every figure that has rows in the folder."""
    sections: list[str] = []
    for figure in FIGURES.values():
        rows = Store(folder=out, figure=figure.name, covers=figure.covers).rows()
        if page.size_of(figure, rows) is not None:
            sections += page.section(figure, rows, pictures=Path(), csv=Path())
    (out / _PAGE).write_text("\n".join([_TITLE, *sections]), "utf-8")


@contextmanager
def _bar(say: Console, cells: Sequence[Cell]) -> Iterator[_Advance]:
    """Show a bar of the expected seconds, and the remaining time at the present speed."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=say, speed_estimate_period=300) as progress:
        task = progress.add_task("cells", total=sum(cell.cost_s for cell in cells) or None)
        yield _Advance(progress, task, len(cells))


class _Advance:
    """Moves a bar on by one cell."""

    def __init__(self, progress: Progress, task: object, count: int) -> None:
        self._progress, self._task, self._count = progress, task, count
        self._done = 0

    def __call__(self, cell: Cell) -> None:
        self._done += 1
        progress = f"{self._done}/{self._count} {cell.figure} {cell.method} n={cell.n:,}"
        self._progress.update(self._task, advance=cell.cost_s, description=progress)  # type: ignore[arg-type]


def main() -> None:
    """Run the requested figures, or write the page of their results."""
    parser = argparse.ArgumentParser(prog="python -m studies.figures", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer replicates and sizes")
    parser.add_argument("--only", help="figures, with commas between them")
    parser.add_argument("--out", type=Path, default=Path("build/studies"), help="folder of results")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--page", type=Path, help="run nothing; keep results in this page instead")
    asked = parser.parse_args()
    figures = _chosen(parser, asked.only)
    if asked.page is None:
        console = Console(file=sys.stdout, soft_wrap=True, highlight=False)
        study(figures, quick=asked.quick, out=asked.out, jobs=asked.jobs, say=console)
        return
    folder = asked.page.parent
    for figure in figures:
        page.keep(figure, made_in=asked.out, folder=folder)
    text = asked.page.read_text("utf-8")
    asked.page.write_text(page.rewritten(text, list(FIGURES.values()), folder), "utf-8")


def _chosen(parser: argparse.ArgumentParser, only: str | None) -> list[Figure]:
    names = list(FIGURES) if only is None else only.split(",")
    for name in names:
        if name not in FIGURES:
            parser.error(f"there is no figure {name}; there are {', '.join(FIGURES)}")
    return [FIGURES[name] for name in names]
