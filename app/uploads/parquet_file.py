"""Parquet uploads: batches of the declared columns in, blocks of codes out.

For the reading process alone (:mod:`app.processes.upload_reader_child`): a Parquet file is a
program for its decoder, and a few bytes can declare gigabytes.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import BinaryIO

import polars as pl
from polars import selectors

from app.domain.columns import CategorySpec, ColumnSpec, NumberSpec
from app.domain.datasets import ColumnsSpec
from app.uploads.cells import RowEncoder
from app.uploads.csv_file import first_columns, name_troubles
from app.uploads.limits import Limits
from app.uploads.read_cells import Codes
from app.uploads.sources.layout import Layout
from app.uploads.trouble import (
    OTHER_COLUMNS,
    OTHER_TYPE,
    UNREADABLE,
    Trouble,
    Troubles,
    UnreadableError,
    too_large,
)

MAGIC = b"PAR1"
WRONG_TYPE = "has a type in the file that does not fit the declared one"
MAX_FOOTER_BYTES = 1 << 26  # a file says itself how long its footer is, and all of that is read
_MICROSECONDS = 1_000_000
_BATCH_ROWS = 1 << 17
_BATCH_CELLS = 1 << 21  # in memory several times over, as cells, codes and digests
MOST_VALUES = 1 << 26  # half a gigabyte, as the reader has a limit of its own
_VALUES_PER_TEXT = 4
"""In the columns that are looked at: all may be in one row group, which is in memory as a whole."""


def parquet_blocks(
    file: BinaryIO,
    spec: ColumnsSpec,
    *,
    layout: Layout,
    encoder: RowEncoder,
    limits: Limits,
    troubles: Troubles,
) -> Iterator[Mapping[str, Codes]]:
    """Yield the declared columns of a Parquet file as blocks of codes, in order.

    The encoder's digester sees the first columns of the file too, declared or not.

    Raises
    ------
    UnreadableError, Problem
        The file is no whole Parquet file; ``too-large``.
    """
    _check_ends(file, limits)
    # The decoder wants a path; this one names the file that is open already.
    path = f"/dev/fd/{file.fileno()}"
    types = pl.read_parquet_schema(path)
    if len(types) > limits.max_file_columns:
        raise too_large("max_file_columns", limits.max_file_columns)
    layout.require_same("parquet", list(types))
    troubles.extend(name_troubles(layout.all_of(list(types)), spec))
    if troubles:
        return
    troubles.extend(_type_troubles(types, spec))
    others = layout.of_other_kinds({name: _kind_of(each) for name, each in types.items()})
    troubles.extend(Trouble(None, name, OTHER_TYPE) for name in others if name in spec.read)
    if others and not troubles:  # what nobody declares is not named
        raise UnreadableError(OTHER_COLUMNS)
    if troubles:
        return
    frame = pl.scan_parquet(path, glob=False, hive_partitioning=False, low_memory=True)
    declared = frame.select(pl.len()).collect().item()
    if declared > limits.max_upload_rows:
        raise too_large("max_upload_rows", limits.max_upload_rows)
    if layout.looked_at is None:
        known = {**types, **dict.fromkeys(layout.partitions, pl.Boolean())}
        first = () if encoder.digester is None else first_columns(layout.all_of(list(types)))
        layout.looked_at = _affordable({name: known[name] for name in first}, declared)
    looked_at = layout.looked_at
    wanted = _wanted(types, spec, looked_at)
    row = 1
    # It is read by jumps, from its end on: so much of it as of its rows.
    size = os.fstat(file.fileno()).st_size
    layout.place = lambda: size * (row - 1) // max(1, declared)
    for batch in _batches(frame.select(wanted), len(wanted)):
        block = encoder.encode(layout.completed(batch), row, troubles, looked_at)
        row += batch.height
        if troubles.full:
            return
        if not troubles:
            yield block
    # A footer may declare rows that its pages do not hold, or fewer than they do.
    if row - 1 != declared:
        raise UnreadableError(UNREADABLE)


def _type_troubles(types: Mapping[str, pl.DataType], spec: ColumnsSpec) -> Iterator[Trouble]:
    """Yield a trouble for every declared column of the file whose type does not fit."""
    for name, column in spec.in_file.items():
        if name in types and not _fits(types[name], column):
            yield Trouble(None, name, WRONG_TYPE)
    unit = None if spec.unit is None else spec.unit.column
    if unit is not None and unit in types and not _names_people(types[unit]):
        yield Trouble(None, unit, WRONG_TYPE)


def _wanted(
    types: Mapping[str, pl.DataType], spec: ColumnsSpec, looked_at: Sequence[str]
) -> Sequence[pl.Expr]:
    """Return the columns of the file that are read: the declared ones, and those looked at."""
    declared = {name: types[name] for name in spec.in_file if name in types}
    others = [name for name in looked_at if name in types and name not in spec.read]
    wanted = [
        *(_cast(name, kind, spec.in_file[name]) for name, kind in declared.items()),
        *(_plain(name, types[name]) for name in others),
    ]
    if spec.unit is not None and spec.unit.column in types:
        wanted.append(_texts(spec.unit.column, types[spec.unit.column]))
    return wanted or [_named(next(iter(types)))]


def _affordable(types: Mapping[str, pl.DataType], rows: int) -> Sequence[str]:
    """Return the columns that are looked at: of plain cells, and not too many of them."""
    left = MOST_VALUES
    chosen = []
    for name, kind in types.items():
        texts = isinstance(kind, pl.String | pl.Categorical | pl.Enum)
        if texts or kind.is_numeric() or kind in (pl.Boolean, pl.Date, pl.Datetime):
            left -= rows * (_VALUES_PER_TEXT if texts else 1)
            if left >= 0:
                chosen.append(name)
    return chosen


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
    texts = isinstance(kind_in_file, pl.String | pl.Categorical | pl.Enum)
    match column:
        case NumberSpec(kind="number" | "integer"):
            return kind_in_file.is_numeric() or texts
        case NumberSpec():
            return texts or kind_in_file in (pl.Date, pl.Datetime)
        case CategorySpec():
            return texts or kind_in_file.is_integer()
    return texts or kind_in_file == pl.Boolean or kind_in_file.is_integer()


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
        return cells
    if isinstance(kind, pl.String | pl.Categorical | pl.Enum):
        return cells.cast(pl.String)
    if column.kind == "date":
        return cells.cast(pl.Date).cast(pl.Int32).cast(pl.Float64)
    if column.kind == "datetime":
        return cells.cast(pl.Datetime("us")).dt.epoch("us").cast(pl.Float64) / _MICROSECONDS
    return cells.cast(pl.Float64)


def _names_people(kind: pl.DataType) -> bool:
    """Say whether a column of this type can hold ids."""
    texts = isinstance(kind, pl.String | pl.Categorical | pl.Enum)
    return texts or kind.is_numeric() or kind == pl.Null


def _texts(name: str, kind: pl.DataType) -> pl.Expr:
    """Read ids as the texts that a CSV file would have."""
    column = _named(name)
    return (column.fill_nan(None) if kind.is_float() else column).cast(pl.String)


def _plain(name: str, kind: pl.DataType) -> pl.Expr:
    """Read a column that nobody declares: as text, or as the numbers that a text stands for."""
    column = _named(name)
    if isinstance(kind, pl.String | pl.Categorical | pl.Enum):
        return column.cast(pl.String)
    if kind in (pl.Date, pl.Datetime):
        return column.cast(pl.Datetime("us")).dt.epoch("us").cast(pl.Float64) / 1_000
    return column.cast(pl.Float64, strict=False)


def _named(name: str) -> pl.Expr:
    """Return the column of that name, which may be spelt like a pattern."""
    return selectors.by_name(name).as_expr()
