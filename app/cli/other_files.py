"""Files of other programs, read on this machine: Excel, Stata, SPSS and SAS become Parquet.

The service reads CSV and Parquet alone: what reads these formats is large, and not written for
files of strangers. So they are read here, by whoever has the file anyway.

A missing cell stays missing, and a whole number is a whole number though the format knows only
floats. An Excel cell that holds an error is its text, such as ``#DIV/0!``, for the service to
refuse.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    import polars as pl

_EXCEL = (".xlsx", ".xlsm")
_STATISTICAL = {
    ".dta": "read_dta",
    ".por": "read_por",
    ".sas7bdat": "read_sas7bdat",
    ".sav": "read_sav",
    ".xpt": "read_xport",
    ".zsav": "read_sav",
}
_WITHOUT = "to read {} files install the extra: pip install 'release-desk[files]'"


@contextmanager
def readable(file: Path) -> Iterator[Path]:
    """Give a file that a service reads: the file itself, or what it holds as Parquet.

    Raises
    ------
    click.ClickException
        It is of another program, and cannot be read.
    """
    kind = file.suffix.lower()
    if kind not in (*_EXCEL, *_STATISTICAL):
        yield file
        return
    try:
        frame = _sheet(file) if kind in _EXCEL else _statistical(file, _STATISTICAL[kind])
    except ImportError:
        raise click.ClickException(_WITHOUT.format(kind)) from None
    except click.ClickException:
        raise
    except Exception as error:  # whatever a reader thinks of a file that is none
        name = type(error).__name__
        raise click.ClickException(f"{file.name} cannot be read as {kind}: {name}") from None
    with tempfile.TemporaryDirectory(prefix="release-desk-") as folder:
        parquet = Path(folder) / f"{file.stem}.parquet"
        frame.write_parquet(parquet)
        yield parquet


def _statistical(file: Path, reader: str) -> pl.DataFrame:
    import pyreadstat  # noqa: PLC0415 - of the extra

    frame, _ = getattr(pyreadstat, reader)(str(file), output_format="polars")
    return _tidied(frame)


def _sheet(file: Path) -> pl.DataFrame:
    """Return the first sheet of an Excel file, whose first row is the header."""
    import openpyxl  # noqa: PLC0415 - of the extra
    import polars as pl  # noqa: PLC0415

    book = openpyxl.load_workbook(file, read_only=True, data_only=True)
    try:
        rows = book.worksheets[0].iter_rows(values_only=True)
        names = ["" if name is None else str(name) for name in next(rows, ())]
        cells = list(zip(*rows, strict=True))
    finally:
        book.close()
    while names and not names[-1]:  # columns that are only formatted
        names.pop()
    if not names or len(set(names)) < len(names):
        raise click.ClickException(f"{file.name}: the first row must name each column once")
    columns = cells[: len(names)] or [()] * len(names)
    return _tidied(pl.DataFrame(list(map(_column, names, columns))))


def _column(name: str, cells: Sequence[Any]) -> pl.Series:
    """Return a column of one type; where types are mixed, its texts."""
    import polars as pl  # noqa: PLC0415

    kinds = {type(cell) for cell in cells if cell is not None}
    if kinds <= {int, float}:
        return pl.Series(name, cells, dtype=pl.Float64, strict=False)
    if kinds <= {bool}:
        return pl.Series(name, cells, dtype=pl.Boolean)
    if kinds <= {date, datetime}:
        # Excel knows no zones, and a date is midnight: both are made one type.
        moments = [cell and datetime(*cell.timetuple()[:6]) for cell in cells]
        return pl.Series(name, moments, dtype=pl.Datetime("us"))
    texts = [None if cell is None else _text(cell) for cell in cells]
    return pl.Series(name, texts, dtype=pl.String)


def _text(cell: object) -> str:
    if isinstance(cell, bool):
        return str(cell).lower()
    if isinstance(cell, float) and cell.is_integer():
        return str(int(cell))
    return cell.isoformat() if isinstance(cell, date | datetime) else str(cell)


def _tidied(frame: pl.DataFrame) -> pl.DataFrame:
    """Return a table with whole numbers as such, and nothing where a float is no number."""
    import polars as pl  # noqa: PLC0415

    def tidied(column: pl.Series) -> pl.Series:
        if not column.dtype.is_float():
            return column
        numbers = column.fill_nan(None)
        # Above it floats skip whole numbers, so that a whole one says nothing.
        whole = (numbers == numbers.round()) & (numbers.abs() < 2**53)
        return numbers.cast(pl.Int64) if whole.all() else numbers

    return frame.with_columns([tidied(column) for column in frame.iter_columns()])
