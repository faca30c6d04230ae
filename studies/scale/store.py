"""The rows of a run on disk: one for each cell, written as soon as it is done."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path

OK = "ok"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What came of a cell: ``status`` is "ok", or says in a word why there is no figure.

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
    text = io.StringIO()
    writer = csv.DictWriter(text, _COLUMNS, lineterminator="\n")
    writer.writeheader()
    for row in rows:
        told = asdict(row)
        writer.writerow({**told, **{k: f"{v:.6g}" for k, v in told.items() if type(v) is float}})
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_suffix(".part")
    beside.write_text(text.getvalue(), "utf-8")
    beside.replace(path)


def _row(told: dict[str, str]) -> Row:
    return Row(
        what=told["what"],
        executor=told["executor"],
        rows=int(told["rows"]),
        status=told["status"],
        seconds=float(told["seconds"]),
        first_s=float(told["first_s"]),
        cpu_s=float(told["cpu_s"]),
        peak_mb=float(told["peak_mb"]),
        bytes=int(told["bytes"]),
    )
