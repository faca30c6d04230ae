"""The rows of a run on disk: one for each cell, written as soon as it is done."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import astuple, dataclass, fields
from pathlib import Path

from app.tidy.pivots import csv_text

OK = "ok"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """The result of a cell: ``status`` is "ok", or a short reason for a missing figure.

    ``first_s`` is a statistic's first draw, with its data opened; ``seconds`` one when all is at
    hand. ``bytes`` are what is stored, or what Polars wrote.
    """

    what: str
    executor: str
    rows: int
    status: str = OK
    seconds: float = 0.0
    first_s: float = 0.0
    cpu_s: float = 0.0
    peak_mb: float = 0.0
    bytes: int = 0

    @property
    def cell(self) -> tuple[str, str, int]:
        """Return which cell it is the row of."""
        return self.what, self.executor, self.rows


_COLUMNS = [each.name for each in fields(Row)]


def read(path: Path) -> list[Row]:
    """Return the rows of a file; of a last line that is not whole nothing."""
    if not path.exists():
        return []
    whole, _, _ = path.read_text("utf-8").rpartition("\n")
    return [_row(each) for each in csv.DictReader(io.StringIO(whole + "\n"))]


def write(path: Path, rows: Sequence[Row]) -> None:
    """Write all rows, whole or not at all."""
    cells = (
        [f"{cell:.6g}" if type(cell) is float else cell for cell in astuple(row)] for row in rows
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".part")
    partial.write_text(csv_text(_COLUMNS, cells, line_end="\n"), "utf-8")
    partial.replace(path)


def _row(cells: dict[str, str]) -> Row:
    return Row(
        what=cells["what"],
        executor=cells["executor"],
        rows=int(cells["rows"]),
        status=cells["status"],
        seconds=float(cells["seconds"]),
        first_s=float(cells["first_s"]),
        cpu_s=float(cells["cpu_s"]),
        peak_mb=float(cells["peak_mb"]),
        bytes=int(cells["bytes"]),
    )
