"""Parquet uploads: batches of the declared columns in, blocks of values out.

For the reading process alone (:mod:`app.processes.upload_reader`): a Parquet file is a
program for its decoder, and a few bytes can declare gigabytes.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import BinaryIO

import polars as pl
from polars import selectors

from app.domain.columns import CategorySpec, ColumnSpec, NumberSpec, type_of
from app.domain.datasets import ColumnsSpec
from app.engine.schema import column_of
from app.uploads.cells import RowEncoder
from app.uploads.csv_file import name_troubles
from app.uploads.sources.places import Layout
from app.uploads.spellings import numbers
from app.uploads.trouble import (
    OTHER_COLUMNS,
    OTHER_TYPE,
    UNREADABLE,
    Limits,
    Trouble,
    Troubles,
    UnreadableError,
    too_large,
)
from mechanisms.domain import NumberColumn, Values, time_kind

# Offsets such as +05:30 are no zones to the decoder, which would give up the whole file for them.
os.environ.setdefault("POLARS_IGNORE_TIMEZONE_PARSE_ERROR", "1")

MAGIC = b"PAR1"
_MOST_DECIMAL_DIGITS = 38  # of a decimal of 128 bits; wider ones are not read
NEEDS_ZONE = (
    "holds instants in the file, with a time zone, and a date is a day somewhere: declare its "
    'timezone, such as "timezone": "Europe/Berlin", or declare the column as a datetime'
)
MAX_FOOTER_BYTES = 1 << 26  # a file says itself how long its footer is, and all of that is read
_EXACT_INTEGERS = 1 << 53
_BATCH_ROWS = 1 << 17
_BATCH_CELLS = 1 << 21  # in memory several times over, as cells, values and digests


def parquet_blocks(
    file: BinaryIO,
    spec: ColumnsSpec,
    *,
    layout: Layout,
    encoder: RowEncoder,
    limits: Limits,
    troubles: Troubles,
) -> Iterator[Mapping[str, Values] | None]:
    """Yield the declared columns of a Parquet file as blocks of values, in order.

    After the first trouble there are no blocks any more, but None for each.

    The encoder's digester sees the first columns of the file too, declared or not.

    Raises
    ------
    UnreadableError, Problem
        The file is no whole Parquet file; ``too-large``.
    """
    _check_ends(file, limits)
    frame = scanned(file)
    yield from table_blocks(
        frame,
        frame.collect_schema(),
        spec,
        # It is read by jumps, from its end on: so much of it as of its rows.
        size=os.fstat(file.fileno()).st_size,
        layout=layout,
        encoder=encoder,
        limits=limits,
        troubles=troubles,
    )


def scanned(file: BinaryIO) -> pl.LazyFrame:
    """Return the table in a file that is open: the decoder maps it, and opens nothing by name."""
    file.seek(0)
    return pl.scan_parquet(file, glob=False, hive_partitioning=False, low_memory=True)


def table_blocks(
    frame: pl.LazyFrame,
    types: Mapping[str, pl.DataType],
    spec: ColumnsSpec,
    *,
    size: int,
    layout: Layout,
    encoder: RowEncoder,
    limits: Limits,
    troubles: Troubles,
    kind: str = "parquet",
) -> Iterator[Mapping[str, Values] | None]:
    """Yield what :func:`parquet_blocks` does of a table with types, from a file of ``size`` bytes.

    Raises
    ------
    UnreadableError, Problem
        The table has not the rows that it declares; ``too-large``.
    """
    if len(types) > limits.max_file_columns:
        raise too_large("max_file_columns", limits.max_file_columns)
    layout.require_same(kind, list(types))
    troubles.extend(name_troubles(layout.all_of(list(types)), spec))
    if troubles:
        return
    renamed = dict(zip(types, layout.named(list(types), spec.headers), strict=True))
    changed = {old: new for old, new in renamed.items() if old != new}
    if changed:
        types = {renamed[name]: kind for name, kind in types.items()}
        frame = frame.rename(changed)
    troubles.extend(_type_troubles(types, spec))
    others = layout.of_other_kinds({name: _kind_of(each) for name, each in types.items()})
    troubles.extend(Trouble(OTHER_TYPE, name) for name in others if name in spec.read)
    if others and not troubles:  # undeclared columns are not named
        raise UnreadableError(OTHER_COLUMNS)
    if troubles:
        return
    declared = frame.select(pl.len()).collect().item()
    if declared > limits.max_upload_rows:
        raise too_large("max_upload_rows", limits.max_upload_rows)
    wanted = _wanted(types, spec)
    row = 1
    layout.place = lambda: size * (row - 1) // max(1, declared)
    for batch in _batches(frame.select(wanted), len(wanted)):
        block = encoder.encode(layout.completed(batch), row, troubles)
        row += batch.height
        yield block
    # A footer may declare rows that its pages do not hold, or fewer than they do.
    if row - 1 != declared:
        raise UnreadableError(UNREADABLE)


def _type_troubles(types: Mapping[str, pl.DataType], spec: ColumnsSpec) -> Iterator[Trouble]:
    """Yield a trouble for every declared column of the file whose type does not fit."""
    for name, column in spec.in_file.items():
        if name in types and not _fits(types[name], column):
            yield Trouble(_wrong_type(types[name], *_READ_FROM[type_of(column)]), name)
        elif name in types and _needs_zone(types[name], column):
            yield Trouble(NEEDS_ZONE, name)
    unit = None if spec.unit is None else spec.unit.column
    if unit is not None and unit in types and not _names_people(types[unit]):
        yield Trouble(_wrong_type(types[unit], "an id", "texts or numbers"), unit)


_READ_FROM: Mapping[str, tuple[str, str]] = {
    "number": ("a number", "numbers or texts"),
    "integer": ("an integer", "numbers or texts"),
    "date": ("a date", "dates, times or texts"),
    "datetime": ("a datetime", "dates, times or texts"),
    "category": ("a category", "texts or numbers"),
    "boolean": ("a boolean", "booleans, numbers or texts"),
}
"""What columns of each type are read from."""


def _wrong_type(kind_in_file: pl.DataType, declared: str, readable: str) -> str:
    """Return what is wrong with a column that is declared as something else."""
    return f"has the type {type_name(kind_in_file)} in the file; {declared} is read from {readable}"


def type_name(kind: pl.DataType) -> str:
    """Return what a type is called; never the texts of a dictionary, which are cells.

    >>> type_name(pl.List(pl.Enum(["a cell"]))), type_name(pl.Decimal(60, 2))
    ('list of dictionary', 'decimal(60, 2)')
    """
    match kind:
        case pl.List() | pl.Array():
            return f"list of {type_name(kind.inner)}"  # type: ignore[arg-type]
        case pl.Enum() | pl.Categorical():
            return "dictionary"
        case pl.Decimal():
            return f"decimal({kind.precision}, {kind.scale})"
        case pl.Datetime():
            return "datetime" if kind.time_zone is None else "datetime with a time zone"
    return type(kind).__name__.lower()


def _is_wide(kind: pl.DataType) -> bool:
    """Say whether a decimal has more digits than can be read."""
    return isinstance(kind, pl.Decimal) and (kind.precision or 0) > _MOST_DECIMAL_DIGITS


def _wanted(types: Mapping[str, pl.DataType], spec: ColumnsSpec) -> Sequence[pl.Expr]:
    """Return the columns of the file that are read: the declared ones."""
    declared = {name: types[name] for name in spec.in_file if name in types}
    wanted = [_cast(name, kind, spec.in_file[name]) for name, kind in declared.items()]
    if spec.unit is not None and spec.unit.column in types:
        wanted.append(_ids(spec.unit.column, types[spec.unit.column]))
    return wanted or [_named(next(iter(types)))]


def _check_ends(file: BinaryIO, limits: Limits) -> None:
    """Check both magic words and that the footer lies within the file."""
    size = file.seek(0, os.SEEK_END)
    if size > limits.max_upload_bytes:
        raise too_large("max_upload_bytes", limits.max_upload_bytes)
    if size < 3 * len(MAGIC):
        raise UnreadableError(UNREADABLE)
    file.seek(size - 8)
    tail = file.read(8)
    footer = int.from_bytes(tail[:4], "little")
    if tail[4:] != MAGIC or footer > min(size - 12, MAX_FOOTER_BYTES):
        raise UnreadableError(UNREADABLE)


def _batches(frame: pl.LazyFrame, columns: int) -> Iterator[pl.DataFrame]:
    rows = max(1, min(_BATCH_ROWS, _BATCH_CELLS // columns))
    yield from frame.collect_batches(chunk_size=rows, maintain_order=True)


def _fits(kind_in_file: pl.DataType, column: ColumnSpec) -> bool:
    if kind_in_file == pl.Null:
        return True
    if _is_wide(kind_in_file):
        return False
    texts = isinstance(kind_in_file, pl.String | pl.Categorical | pl.Enum)
    match column:
        case NumberSpec(kind="number" | "integer"):
            return kind_in_file.is_numeric() or texts
        case NumberSpec():
            return texts or kind_in_file in (pl.Date, pl.Datetime)
        case CategorySpec():
            return texts or kind_in_file.is_numeric()
    return texts or kind_in_file == pl.Boolean or kind_in_file.is_numeric()


def _needs_zone(kind_in_file: pl.DataType, column: ColumnSpec) -> bool:
    """Say whether a column of days has instants in the file: its day depends on a time zone."""
    dated = isinstance(column, NumberSpec) and column.kind == "date"
    instants = isinstance(kind_in_file, pl.Datetime) and kind_in_file.time_zone is not None
    return dated and instants and column.reading.timezone is None


def _kind_of(kind_in_file: pl.DataType) -> str:
    """Return what the files of a source agree on: cells of one kind are the same in any width."""
    if isinstance(kind_in_file, pl.String | pl.Categorical | pl.Enum):
        return "text"
    if kind_in_file.is_numeric():
        return "number"
    return "time" if kind_in_file in (pl.Date, pl.Datetime) else str(kind_in_file)


def _cast(name: str, kind: pl.DataType, column: ColumnSpec) -> pl.Expr:
    """Cast numbers and times to floats; leave what stands for texts to be read once each."""
    cells = _named(name)
    if kind == pl.Null:
        return cells.cast(pl.String)
    if not isinstance(column, NumberSpec):
        return _as_codes(cells) if kind.is_float() else cells
    if isinstance(kind, pl.String | pl.Categorical | pl.Enum):
        return cells.cast(pl.String)
    if (timed := time_kind(column.kind)) is not None:
        read = partial(numbers, kind=timed, zone=column.reading.timezone)
        return cells.map_batches(read, return_dtype=pl.Float64)
    facts = column_of(column)
    assert isinstance(facts, NumberColumn)
    return cells if facts.beyond_floats and kind.is_integer() else cells.cast(pl.Float64)


def _as_codes(cells: pl.Expr) -> pl.Expr:
    """Read floats as texts: whole ones, as programs write codes where some are missing, as such."""
    integers = cells.cast(pl.Int64, strict=False)
    whole = (integers.cast(pl.Float64) == cells.cast(pl.Float64)) & (cells.abs() < _EXACT_INTEGERS)
    return pl.when(whole).then(integers.cast(pl.String)).otherwise(cells.cast(pl.String))


def _names_people(kind: pl.DataType) -> bool:
    """Say whether a column of this type can hold ids."""
    texts = isinstance(kind, pl.String | pl.Categorical | pl.Enum)
    return texts or (kind.is_numeric() and not _is_wide(kind)) or kind == pl.Null


def _ids(name: str, kind: pl.DataType) -> pl.Expr:
    """Leave floats and decimals as they are, and read other ids as texts, with all digits."""
    column = _named(name)
    return column if kind.is_float() or kind.is_decimal() else column.cast(pl.String)


def _named(name: str) -> pl.Expr:
    """Return the column of that name, which may be spelt like a pattern."""
    return selectors.by_name(name).as_expr()
