"""CSV uploads: whole records in, blocks of values out.

A run of records is parsed in one go with numbers as floats. Only when that
fails is it parsed again as text, to say which cells are to blame.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import polars as pl
from polars import selectors

from app.domain.columns import ColumnSpec, NumberSpec
from app.domain.datasets import ColumnsSpec
from app.engine.schema import column_of
from app.uploads.cells import RowEncoder
from app.uploads.csv_records import Records, Run
from app.uploads.encodings import Source
from app.uploads.moments import Points
from app.uploads.recognition import other_delimiter
from app.uploads.sources.csv_ranges import RangedRecords
from app.uploads.sources.folders import Layout
from app.uploads.trouble import Limits, Trouble, Troubles, UnreadableError, too_large
from mechanisms.domain import NumberColumn, Values
from mechanisms.words import header_text

ABSENT = (
    "is not in the file's header; texts match exactly (a column's source says which one is its), "
    "the spec's delimiter separates columns, and skip_rows title lines are above the header"
)
UNREAD = "is among records that cannot be read as CSV"
TWICE = "is in the file twice"


def csv_blocks(
    source: Source,
    spec: ColumnsSpec,
    *,
    file: int | None,
    layout: Layout,
    encoder: RowEncoder,
    limits: Limits,
    troubles: Troubles,
) -> Iterator[Mapping[str, Values] | None]:
    """Yield the declared columns of a CSV file as blocks of values, in order.

    With the descriptor of the ``file``, of which ``source`` is the start, it is read by ranges of
    bytes.

    After the first trouble there are no blocks any more, but None for each: the rest of the file is
    read to count what else is wrong.

    Raises
    ------
    UnreadableError, Problem
        The structure is broken; ``too-large``.
    """
    options: dict[str, Any] = {
        "chunk_bytes": limits.chunk_bytes,
        "max_record_bytes": limits.max_record_bytes,
        "delimiter": spec.text.delimiter,
        "skip_rows": spec.text.skip_rows,
    }
    records = Records(source, **options)
    if file is not None:
        records = RangedRecords(file, source, **options)
        layout.place = lambda: records.taken
    names = records.header()
    if len(names) > limits.max_file_columns:
        raise too_large("max_file_columns", limits.max_file_columns)
    layout.require_same("csv", names)
    wanted = {*spec.headers.values()} - layout.partitions.keys()
    if (other := other_delimiter(names, spec.text.delimiter, wanted)) is not None:
        raise UnreadableError(other)
    troubles.extend(name_troubles(layout.all_of(names), spec))
    if troubles:
        return
    names = layout.named(names, spec.headers)
    parser = _Parser(names, spec, layout, troubles)
    if layout.points is None:
        layout.points = Points(name for name, column in spec.in_file.items() if _is_typed(column))
    for run in records.runs(width=len(names)):
        if run.first_row + run.rows - 1 > limits.max_upload_rows:
            raise too_large("max_upload_rows", limits.max_upload_rows)
        frame = parser.parse(run)
        if frame is not None:
            layout.points.look(frame, partial(parser.texts, run))
        block = None if frame is None else encoder.encode(frame, run.first_row, troubles)
        yield block


def name_troubles(names: Sequence[str], spec: ColumnsSpec) -> Iterator[Trouble]:
    """Yield a trouble for every declared column that is not in the file just once."""
    texts = [header_text(name) for name in names]
    for name, header in spec.headers.items():
        occurrences = texts.count(header)
        if occurrences != 1:
            yield Trouble(TWICE if occurrences else ABSENT, name)


def _is_typed(column: ColumnSpec | None) -> bool:
    """Say whether the parser reads a column's numbers itself."""
    if not isinstance(column, NumberSpec) or column.kind not in ("number", "integer"):
        return False
    facts = column_of(column)
    assert isinstance(facts, NumberColumn)
    return column.reading.plain_numbers and not facts.beyond_floats


class _Parser:
    """Parses runs of records of one file into frames of the declared columns."""

    def __init__(
        self,
        names: Sequence[str],
        spec: ColumnsSpec,
        layout: Layout,
        troubles: Troubles,
    ) -> None:
        self._width = len(names)
        self._delimiter = spec.text.delimiter
        self._layout = layout
        self._troubles = troubles
        # One at least: without a column the parser would not say how many rows there are.
        own = {*spec.read} - layout.partitions.keys() or {names[0]}
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
            unread = Trouble(UNREAD, None, (run.first_row,), run.rows)
            self._troubles.extend(misfits or [unread])
        return frame

    def texts(self, run: Run, names: Sequence[str]) -> pl.DataFrame | None:
        """Return some of a run's columns as they are written."""
        frame = self._read(run, self._texts)
        return None if frame is None else frame.select(selectors.by_name(*names))

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
        # The parser sees other records than we do, so no row number would be reliable.
        if frame.height != run.rows:
            return None
        frame.columns = self._names
        return self._layout.completed(frame)
