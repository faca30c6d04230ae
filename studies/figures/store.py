"""A figure's rows on disk: ``<figure>.csv``, and ``<figure>.json`` with the seeds.

A row is written as soon as its cell is done. A stopped study resumes: a cell is done if its row is
present, with the same number of replicates and the same seed. An incomplete last line is dropped.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from app.tidy.pivots import csv_text
from studies.figures.cells import Cell, Result

COLUMNS = (
    "figure",
    "panel",
    "method",
    "norm",
    "n",
    "epsilon",
    "replicate_count",
    "error_mean",
    "error_median",
    "error_se",
)
COVERAGE = "coverage"


def written(rows: Sequence[Result], *, covers: bool) -> str:
    """Return rows as the text of a CSV file."""
    names = _columns(covers=covers)
    cells = ([_cell_text(getattr(row, name)) for name in names] for row in rows)
    return csv_text(names, cells, line_end="\n")


def read(text: str) -> list[Result]:
    """Return the rows of a CSV file; a last line that is not whole is left out.

    Raises
    ------
    ValueError
        The columns are others.
    """
    whole, _, _ = text.rpartition("\n")
    lines = list(csv.reader(io.StringIO(whole)))
    if not lines:
        return []
    if tuple(lines[0]) not in {_columns(covers=False), _columns(covers=True)}:
        raise ValueError(f"a figure's CSV has the columns {', '.join(COLUMNS)}")
    return [_row(dict(zip(lines[0], line, strict=True))) for line in lines[1:]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Store:
    """The files of one figure in a folder."""

    folder: Path
    figure: str
    covers: bool = False

    @property
    def csv(self) -> Path:
        """Return where the rows are."""
        return self.folder / f"{self.figure}.csv"

    @property
    def notes(self) -> Path:
        """Return where the seeds are noted."""
        return self.folder / f"{self.figure}.json"

    def rows(self) -> list[Result]:
        """Return all rows."""
        return read(self.csv.read_text("utf-8")) if self.csv.exists() else []

    def seeds(self) -> Mapping[str, int]:
        """Return the seeds that cells were run by."""
        if not self.notes.exists():
            return {}
        return {name: int(seed) for name, seed in json.loads(self.notes.read_text("utf-8")).items()}

    def missing(self, cells: Sequence[Cell]) -> list[Cell]:
        """Return the cells that are still to be run."""
        done, seeds = {row.name: row for row in self.rows()}, self.seeds()
        return [
            cell
            for cell in cells
            if cell.name not in done
            or done[cell.name].replicate_count != cell.replicate_count
            or seeds.get(cell.name) != cell.seed
        ]

    def keep(self, cells: Sequence[Cell]) -> None:
        """Drop rows of cells that are not among these, or are to be run again."""
        missing = {cell.name for cell in self.missing(cells)}
        kept = {cell.name for cell in cells} - missing
        self._write([row for row in self.rows() if row.name in kept])

    def add(self, cell: Cell, row: Result) -> None:
        """Write a cell's row, and its seed first: a row without one does not count."""
        self.folder.mkdir(parents=True, exist_ok=True)
        seeds = {**self.seeds(), cell.name: cell.seed}
        _replace(self.notes, json.dumps(seeds, indent=1, sort_keys=True) + "\n")
        self._write([*self.rows(), row])

    def in_order(self, cells: Sequence[Cell]) -> list[Result]:
        """Return the rows of these cells, in their order, and leave the file in that order."""
        found = {row.name: row for row in self.rows()}
        rows = [found[cell.name] for cell in cells]
        self._write(rows)
        return rows

    def _write(self, rows: Sequence[Result]) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        _replace(self.csv, written(rows, covers=self.covers))


def _replace(path: Path, text: str) -> None:
    """Write a file whole or not at all."""
    partial = path.with_name(f"{path.name}.part")
    partial.write_text(text, "utf-8")
    partial.replace(path)


def _columns(*, covers: bool) -> tuple[str, ...]:
    return (*COLUMNS, COVERAGE) if covers else COLUMNS


def _cell_text(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float) else "" if value is None else str(value)


def _row(fields: Mapping[str, str]) -> Result:
    covered = fields.get(COVERAGE)
    return Result(
        figure=fields["figure"],
        panel=fields["panel"],
        method=fields["method"],
        norm=fields["norm"],
        n=int(fields["n"]),
        epsilon=fields["epsilon"],
        replicate_count=int(fields["replicate_count"]),
        error_mean=float(fields["error_mean"]),
        error_median=float(fields["error_median"]),
        error_se=float(fields["error_se"]),
        coverage=float(covered) if covered else None,
    )
