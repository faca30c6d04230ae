"""``make bench scale``: runs the missing cells, with a bar; then slopes and a cost model.

Writes ``scale.csv`` into the folder of results, and leaves no data there. With ``--page`` nothing
is run: results are stored in a page of the documents instead.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from app.engine.choice import Passes
from studies.scale import page, rows
from studies.scale.measuring import Measured, measured
from studies.scale.store import Row, read, write
from studies.scale.work import by_polars, draw, statistics, take_in

SIZES = tuple(10**power for power in range(3, 9))
QUICK_ROWS = 10**5
SERIAL, POOL, DASK = "serial", "pool of 2", "Dask of 2"
INGEST, POLARS = "ingest", "polars"
NOT_INSTALLED = "not installed"
_WORKERS = 2
_FEW = 10**5
"""Up to this number of rows a data set has one part, and is never divided."""


@dataclass(frozen=True, slots=True)
class Cell:
    """The measured work, the place of its passes, and the number of rows."""

    what: str
    executor: str
    rows: int


def cells(most: int) -> Iterator[Cell]:
    """Yield every cell of at most ``most`` rows, in ascending order of rows."""
    for size in SIZES:
        if size > most:
            return
        yield Cell(POLARS, SERIAL, size)
        places = (SERIAL,) if size <= _FEW else (SERIAL, POOL, DASK)
        yield from (Cell(INGEST, place, size) for place in places)
        for kind, (_, _, reads) in statistics().items():
            for place in places if reads else (SERIAL,):
                yield Cell(kind, place, size)


def run(wanted: Sequence[Cell], out: Path, say: Console, *, most_s: float) -> list[Row]:
    """Run the missing ones of these cells, and return the rows of all."""
    path = out / "scale.csv"
    done = {row.cell: row for row in read(path)}
    missing = [each for each in wanted if (each.what, each.executor, each.rows) not in done]
    say.print(f"{len(wanted)} cells, {len(missing)} of them to run; rows in {path}")
    with ExitStack() as stack:
        places = {SERIAL: Passes(), POOL: Passes(processes=_WORKERS)}
        if any(each.executor == DASK for each in missing) and find_spec("distributed"):
            places[DASK] = Passes(scheduler=stack.enter_context(_cluster()))
        bar = stack.enter_context(_bar(say))
        task = bar.add_task("cells", total=len(missing))
        for size in sorted({each.rows for each in missing}):
            folder = out / f"scale-{size}"
            try:
                for cell in (each for each in missing if each.rows == size):
                    description = f"{cell.rows:,} rows: {cell.what}, {cell.executor}"
                    bar.update(task, description=description)
                    row = _row(cell, folder, places, most_s)
                    done[row.cell] = row
                    write(path, list(done.values()))
                    bar.advance(task)
            finally:
                shutil.rmtree(folder, ignore_errors=True)
    return list(done.values())


def _row(cell: Cell, folder: Path, places: Mapping[str, Passes], most_s: float) -> Row:
    """Measure a cell, after making the data that it needs."""
    named = {"what": cell.what, "executor": cell.executor, "rows": cell.rows}
    if cell.executor not in places:
        return Row(**named, status=NOT_INSTALLED)  # type: ignore[arg-type]
    file, passes = folder / "rows.parquet", places[cell.executor]
    if not file.exists():
        folder.mkdir(parents=True, exist_ok=True)
        rows.write(file, cell.rows)
    try:
        found = _measured(cell, folder, passes, most_s)
    except TimeoutError:
        return Row(**named, status=f"over {most_s:.0f} s")  # type: ignore[arg-type]
    return Row(
        **named,  # type: ignore[arg-type]
        seconds=found.seconds,
        cpu_s=found.cpu_s,
        peak_mb=found.peak_mb,
        **found.result,
    )


def _measured(cell: Cell, folder: Path, passes: Passes, most_s: float) -> Measured:
    file = folder / "rows.parquet"
    if cell.what == POLARS:
        return measured(by_polars, file, folder / "codes.parquet")
    if cell.what == INGEST:
        shutil.rmtree(folder / "datasets", ignore_errors=True)
        return measured(take_in, file, folder, passes)
    if not (folder / "datasets").exists():
        measured(take_in, file, folder, Passes())
    return measured(draw, cell.what, cell.rows, folder, passes, most_s=most_s)


@contextmanager
def _cluster() -> Iterator[str]:
    """Run a scheduler and its workers on this machine, and give the address."""
    from distributed import LocalCluster  # noqa: PLC0415 - where it is installed

    with LocalCluster(
        n_workers=_WORKERS, threads_per_worker=1, dashboard_address=None, host="127.0.0.1"
    ) as cluster:
        yield str(cluster.scheduler_address)


def _bar(say: Console) -> Progress:
    columns = (TextColumn("{task.completed:.0f}/{task.total:.0f} {task.description}"),)
    return Progress(*columns, BarColumn(), TimeElapsedColumn(), console=say)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the missing cells and print their tables, or write the page."""
    parser = argparse.ArgumentParser(prog="python -m studies.bench scale", description=__doc__)
    parser.add_argument("--rows", type=float, default=SIZES[-1], help="largest number of rows")
    parser.add_argument("--quick", action="store_true", help=f"at most {QUICK_ROWS:,} rows")
    parser.add_argument("--serial", action="store_true", help="no pool and no Dask")
    parser.add_argument("--longest", type=float, default=1800, help="seconds that a draw may take")
    parser.add_argument("--out", type=Path, default=Path("build/bench"), help="folder of results")
    parser.add_argument("--page", type=Path, help="run nothing; keep results in this page instead")
    asked = parser.parse_args(arguments)
    if asked.page is not None:
        page.keep(asked.out / "scale.csv", asked.page)
        return
    console = Console(file=sys.stdout, soft_wrap=True, highlight=False)
    most = min(int(asked.rows), QUICK_ROWS if asked.quick else SIZES[-1])
    wanted = [each for each in cells(most) if each.executor == SERIAL or not asked.serial]
    found = run(wanted, asked.out, console, most_s=asked.longest)
    for line in page.lines(found):
        console.print(line, markup=False)
