"""CSV uploads: whole records in, blocks of codes out.

A run of records is parsed in one go with numbers as floats. Only when that
fails is it parsed again as text, to say which cells are to blame.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import polars as pl

from app.domain.columns import ColumnSpec, NumberSpec
from app.domain.datasets import ColumnsSpec
from app.uploads.cells import RowEncoder
from app.uploads.csv_records import Records, Run, Source
from app.uploads.limits import Limits
from app.uploads.read_cells import Codes
from app.uploads.sources.csv_ranges import RangedRecords
from app.uploads.sources.layout import Layout
from app.uploads.trouble import Trouble, Troubles, too_large

ABSENT = "is not in the file; names match exactly, and the spec's delimiter separates columns"
TWICE = "is in the file twice"
MOST_LOOKED_AT = 24


def csv_blocks(
    source: Source,
    spec: ColumnsSpec,
    *,
    file: int | None,
    layout: Layout,
    encoder: RowEncoder,
    limits: Limits,
    troubles: Troubles,
) -> Iterator[Mapping[str, Codes]]:
    """Yield the declared columns of a CSV file as blocks of codes, in order.

    The encoder's digester sees the first columns of the file too, declared or not. With the
    descriptor of the ``file``, of which ``source`` is the start, it is read by ranges of bytes.

    After the first trouble nothing more is yielded, and the rest of the file is
    read only until there are enough troubles to list.

    Raises
    ------
    UnreadableError, Problem
        The structure is broken; ``too-large``.
    """
    options: dict[str, Any] = {
        "chunk_bytes": limits.chunk_bytes,
        "max_record_bytes": limits.max_record_bytes,
        "delimiter": spec.delimiter,
    }
    records = Records(source, **options)
    if file is not None:
        records = RangedRecords(file, source, **options)
        layout.place = lambda: records.taken
    names = records.header()
    if len(names) > limits.max_file_columns:
        raise too_large("max_file_columns", limits.max_file_columns)
    layout.require_same("csv", names)
    troubles.extend(name_troubles(layout.all_of(names), spec))
    if troubles:
        return
    looked_at = () if encoder.digester is None else first_columns(layout.all_of(names))
    parser = _Parser(names, spec, looked_at, layout, troubles)
    for run in records.runs(width=len(names)):
        if run.first_row + run.rows - 1 > limits.max_upload_rows:
            raise too_large("max_upload_rows", limits.max_upload_rows)
        frame = parser.parse(run)
        block = None if frame is None else encoder.encode(frame, run.first_row, troubles, looked_at)
        if troubles.full:
            return
        if block is not None and not troubles:
            yield block


def name_troubles(names: Sequence[str], spec: ColumnsSpec) -> Iterator[Trouble]:
    """Yield a trouble for every declared column that is not in the file just once."""
    for name in spec.read:
        occurrences = names.count(name)
        if occurrences != 1:
            yield Trouble(None, name, TWICE if occurrences else ABSENT)


def first_columns(names: Sequence[str]) -> Sequence[str]:
    """Return the columns that are looked at whatever is declared: the first so many.

    More would tell little more, and those that are not declared cost time and memory too.
    """
    return tuple(dict.fromkeys(names[:MOST_LOOKED_AT]))


def _is_typed(column: ColumnSpec | None) -> bool:
    """Say whether the parser reads a column's numbers itself."""
    counted = isinstance(column, NumberSpec) and column.kind in ("number", "integer")
    return counted and column is not None and column.reading.plain_numbers


class _Parser:
    """Parses runs of records of one file into frames: declared columns, and more as text."""

    def __init__(
        self,
        names: Sequence[str],
        spec: ColumnsSpec,
        more: Sequence[str],
        layout: Layout,
        troubles: Troubles,
    ) -> None:
        self._width = len(names)
        self._delimiter = spec.delimiter
        self._layout = layout
        self._troubles = troubles
        # One at least: without a column the parser would not say how many rows there are.
        own = {*spec.read, *more} - layout.partitions.keys() or {names[0]}
        wanted = sorted((names.index(name), name) for name in own)
        self._places = [place for place, _ in wanted]
        self._names = [name for _, name in wanted]
        texts: dict[str, Any] = {str(place): pl.String() for place in range(len(names))}
        numbers = {
            str(place): pl.Float64() for place, name in wanted if _is_typed(spec.in_file.get(name))
        }
        self._typed, self._texts = texts | numbers, texts

    def parse(self, run: Run) -> pl.DataFrame | None:
        """Return the run's columns, or None and a trouble."""
        every = len(self._places) == self._width
        misfits = run.misfits(self._width, long_noticed=every)
        frame = None if misfits else self._read(run, self._typed)
        if frame is None and not misfits:
            misfits = run.misfits(self._width, long_noticed=False)
            frame = None if misfits else self._read(run, self._texts)
        if frame is None:
            unread = Trouble(run.first_row, None, "starts records that cannot be read as CSV")
            self._troubles.extend(misfits or [unread])
        return frame

    def _read(self, run: Run, schema: Mapping[str, Any]) -> pl.DataFrame | None:
        """Parse, or return None; what the parser has to say may quote cells and is dropped."""
        try:
            frame = pl.read_csv(
                run.content,
                has_header=False,
                separator=self._delimiter,
                schema=schema,
                columns=self._places if len(self._places) < self._width else None,
            )
        except (Exception, pl.exceptions.PanicException):
            return None
        # The parser sees other records than we do, so nobody could say which row is which.
        if frame.height != run.rows:
            return None
        frame.columns = self._names
        return self._layout.completed(frame)
