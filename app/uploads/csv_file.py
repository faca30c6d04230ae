"""CSV uploads: whole records in, blocks of values out.

The dialect is RFC 4180 in UTF-8: a delimiter, double quote, records ended by LF or CRLF. A quoted
cell may hold line ends. A quote may open only at the start of a cell and close only at its end;
anything else is refused, since two readers of such a file could see different rows.

*Conventions.* A run is a ``bytes`` that starts at a record's start and ends with a record's line
end, so the number of quotes in it is even. Structure is found by arrays of byte positions; no
record is looked at one by one unless it is in trouble. A run of records is parsed in one go with
numbers as floats. Only when that fails is it parsed again as text, to say which cells are to blame.

*Ranges.* In a file that can be read at any place, a line end ends a record if the quotes before it
are even in number. One pass looks at ranges of equal size, each by itself: it counts quotes, and
finds the line ends for both cases, an even number of quotes before the range and an odd one. Adding
up from the first range on says which case each is in. So quoted line ends survive wherever a range
is cut, and each range can be read without those before. The ranges, and the numbers of their rows,
are those of :meth:`Records.runs`, cut by cut: what is digested on the way depends on neither.
"""

from __future__ import annotations

import csv
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from polars import selectors

from app.domain.columns import ColumnSpec, NumberSpec
from app.domain.datasets import ColumnsSpec
from app.engine.schema import column_of
from app.uploads.cells import RowEncoder
from app.uploads.recognition import Source, likely_encoding, not_utf_8, of_content, other_delimiter
from app.uploads.sources.places import Layout
from app.uploads.spellings import Points
from app.uploads.trouble import (
    TOO_FEW,
    TOO_MANY,
    Limits,
    Trouble,
    Troubles,
    UnreadableError,
    too_large,
)
from mechanisms.domain import NumberColumn, Values
from mechanisms.words import header_text, worded

_LINE_END, _RETURN, _QUOTE = b"\n\r" + b'"'
_BOM = b"\xef\xbb\xbf"
_OTHER_BOMS = (b"\xff\xfe", b"\xfe\xff")

Places = NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class Run:
    """Some whole records.

    ``first_row`` is the number of the first record, ``ends`` are the places of
    the records' line ends and ``quotes`` those of all quotes. ``delimiter`` is the byte between
    cells.
    """

    content: bytes
    first_row: int
    ends: Places
    quotes: Places
    delimiter: int

    @property
    def rows(self) -> int:
        """Return the number of records."""
        return len(self.ends)

    def row_at(self, place: int) -> int:
        """Return the number of the record that holds a byte."""
        return self.first_row + int(np.searchsorted(self.ends, place))

    def misfits(self, width: int, *, long_noticed: bool) -> list[Trouble]:
        """Return which records do not have ``width`` cells.

        With ``long_noticed`` a record with too many cells may go unlisted while
        another has too few, because the parser that follows refuses it itself.
        """
        content = np.frombuffer(self.content, dtype=np.uint8)
        if long_noticed and not len(self.quotes):
            delimiters = int(np.count_nonzero(content == self.delimiter))
            if delimiters == self.rows * (width - 1):
                return []
        between = _outside(np.flatnonzero(content == self.delimiter), self.quotes)
        cells = np.diff(np.searchsorted(between, self.ends), prepend=0) + 1
        wrong = ((TOO_FEW, cells < width), (TOO_MANY, cells > width))
        return [
            Trouble.of(reason, None, np.flatnonzero(which), self.first_row)
            for reason, which in wrong
            if which.any()
        ]

    def check(self, *, max_record_bytes: int) -> None:
        """Check everything but the number of cells.

        Raises
        ------
        UnreadableError
            A NUL byte, a byte that is not UTF-8, a stray or unclosed quote, or
            a record that is too long.
        """
        if (place := self.content.find(0)) >= 0:
            raise UnreadableError(
                not_utf_8(self.content)
                if likely_encoding(self.content) == "utf-16"
                else "holds a NUL byte, which no text has",
                row=self.row_at(place),
            )
        if not self.content.isascii():
            try:
                self.content.decode()
            except UnicodeDecodeError as error:
                row = self.row_at(error.start)
                raise UnreadableError(not_utf_8(self.content), row=row) from None
        if (stray := self._stray_quote()) is not None:
            raise UnreadableError("holds a stray or unclosed quote", row=self.row_at(stray))
        sizes = np.diff(self.ends, prepend=-1)
        if len(sizes) and int(sizes.max()) > max_record_bytes:
            raise record_too_long(max_record_bytes, self.first_row + int(np.argmax(sizes)))

    def _stray_quote(self) -> int | None:
        """Return the place of a quote that neither opens nor closes a cell, or None."""
        if not len(self.quotes):
            return None
        content = np.frombuffer(self.content, dtype=np.uint8)
        opening, closing = self.quotes[0::2], self.quotes[1::2]
        before = np.where(opening > 0, content[opening - 1], _LINE_END)
        after = content[closing + 1]
        # Only a quote before the last byte wraps around, and that byte is a line end, no return.
        returns = (after == _RETURN) & (content[(closing + 2) % len(content)] == _LINE_END)
        # Next to another quote it is one of a pair that stands for a quote in the cell.
        bad = [
            opening[~np.isin(before, (self.delimiter, _LINE_END, _QUOTE))],
            closing[~(np.isin(after, (self.delimiter, _LINE_END, _QUOTE)) | returns)],
            self.quotes[-1:] if len(self.quotes) % 2 else self.quotes[:0],
        ]
        return min((int(places[0]) for places in bad if len(places)), default=None)


def record_too_long(max_record_bytes: int, row: int | None = None) -> UnreadableError:
    """Return what is wrong with a record whose end has not come."""
    return UnreadableError(
        f"is longer than {max_record_bytes} bytes, or holds a quote that is never closed", row=row
    )


class Records:
    """Reads a CSV source as a header and then runs of records.

    Parameters
    ----------
    source
        Where the bytes come from.
    chunk_bytes
        About how large a run is.
    max_record_bytes
        Longest record accepted, its line end included.
    delimiter
        What stands between cells: one character of ASCII.
    skip_rows
        How many lines above the header are left out, whatever is in them.

    Attributes
    ----------
    taken
        How many bytes have been read with the header.
    rest
        Those of them that come after it.
    """

    def __init__(
        self,
        source: Source,
        *,
        chunk_bytes: int,
        max_record_bytes: int,
        delimiter: str = ",",
        skip_rows: int = 0,
    ) -> None:
        self._source = source
        self._skip_rows = skip_rows
        self.chunk_bytes = chunk_bytes
        self.max_record_bytes = max_record_bytes
        self._delimiter = delimiter
        self.taken = 0
        self.rest = b""

    def header(self) -> list[str]:
        """Return the names in the first record; call it once, before ``runs``.

        Raises
        ------
        UnreadableError
            The file is empty, or its first record is not UTF-8 CSV.
        """
        buffer = self._below_titles()
        ends = _ends(buffer[: self.max_record_bytes])[0]
        while not len(ends) and len(buffer) <= self.max_record_bytes:
            chunk = self._source.read(self.chunk_bytes)
            self.taken += len(chunk)
            # A file may be its header alone, without a line end.
            buffer += chunk or b"\n"
            ends = _ends(buffer[: self.max_record_bytes])[0]
            if not chunk:
                break
        if buffer.startswith(_OTHER_BOMS):
            raise UnreadableError(of_content(not_utf_8(buffer)))
        buffer = buffer.removeprefix(_BOM)
        if not buffer.strip(b" \t\r\n"):
            raise UnreadableError("the file is empty")
        if not len(ends):
            if len(buffer) > self.max_record_bytes:
                reason = record_too_long(self.max_record_bytes).trouble.reason
                raise UnreadableError(_of_header(reason))
            raise UnreadableError("the header is not a line of CSV")
        ends = _ends(buffer[: self.max_record_bytes])[0]
        line, self.rest = buffer[: ends[0] + 1], buffer[ends[0] + 1 :]
        return self._names(line)

    def _below_titles(self) -> bytes:
        """Return what has been read below the title lines: nothing, where there are none.

        They are lines as an editor counts them: a title may hold a quote.

        Raises
        ------
        UnreadableError
            The file has fewer lines.
        """
        buffer = b""
        for _ in range(self._skip_rows):
            while (end := buffer.find(b"\n")) < 0:
                chunk = self._source.read(self.chunk_bytes)
                self.taken += len(chunk)
                if not self.taken - len(chunk) and chunk.startswith(_OTHER_BOMS):
                    raise UnreadableError(of_content(not_utf_8(chunk)))
                buffer += chunk
                if not chunk or len(buffer) > self.max_record_bytes:
                    raise UnreadableError("the file has no header below skip_rows title lines")
            buffer = buffer[end + 1 :]
        return buffer

    def _names(self, line: bytes) -> list[str]:
        try:
            self._run(line, first_row=0).check(max_record_bytes=self.max_record_bytes)
            text = line.decode().rstrip("\r\n")
            (names,) = csv.reader([text], delimiter=self._delimiter, strict=True)
        except UnreadableError as error:
            raise UnreadableError(_of_header(error.trouble.reason)) from None
        except (csv.Error, ValueError):
            raise UnreadableError("the header is not a line of CSV") from None
        return names

    def runs(self, *, width: int) -> Iterator[Run]:
        """Yield the records after the header, ``width`` cells each when all is well.

        Blank lines at the end of the file do not count, except in a file of one
        column, where a blank line is a record with an empty cell.

        Raises
        ------
        UnreadableError
            See :meth:`Run.check`.
        """
        next_row = 1
        while chunk := self._source.read(self.chunk_bytes):
            buffer = self.rest + chunk
            cut = _cut(buffer, keep_blank=width == 1)
            self.rest = buffer[cut:]
            if cut:
                run = self.checked_run(buffer[:cut], next_row)
                next_row += run.rows
                yield run
            if len(self.rest) > self.max_record_bytes:
                raise record_too_long(self.max_record_bytes, next_row)
        yield from self.last_run(self.rest, next_row, width)

    def checked_run(self, content: bytes, first_row: int) -> Run:
        """Return some whole records as a run.

        Raises
        ------
        UnreadableError
            See :meth:`Run.check`.
        """
        run = self._run(content, first_row=first_row)
        run.check(max_record_bytes=self.max_record_bytes)
        return run

    def last_run(self, rest: bytes, first_row: int, width: int) -> Iterator[Run]:
        """Yield what comes behind the last line end that ends a record, if it is anything."""
        last = rest if width == 1 else rest.rstrip(b"\r\n")
        if last:
            yield self.checked_run(last if last.endswith(b"\n") else last + b"\n", first_row)

    def _run(self, content: bytes, *, first_row: int) -> Run:
        return Run(content, first_row, *_ends(content), ord(self._delimiter))


def _ends(content: bytes) -> tuple[Places, Places]:
    """Return the places of the line ends outside quotes, and of the quotes."""
    places = np.frombuffer(content, dtype=np.uint8)
    quotes = np.flatnonzero(places == _QUOTE) if b'"' in content else np.zeros(0, dtype=np.intp)
    return _outside(np.flatnonzero(places == _LINE_END), quotes), quotes


def _outside(places: Places, quotes: Places) -> Places:
    """Keep the places before which the number of quotes is even."""
    return places[np.searchsorted(quotes, places) % 2 == 0] if len(quotes) else places


def _cut(buffer: bytes, *, keep_blank: bool) -> int:
    """Return where the last whole record ends, before the blank lines that may follow it."""
    if b'"' in buffer:
        ends = _ends(buffer)[0]
        cut = int(ends[-1]) + 1 if len(ends) else 0
    else:
        cut = buffer.rfind(b"\n") + 1
    if keep_blank:
        return cut
    while cut and not buffer[buffer.rfind(b"\n", 0, cut - 1) + 1 : cut].strip(b"\r\n"):
        cut = buffer.rfind(b"\n", 0, cut - 1) + 1
    return cut


_LOOK_BACK_BYTES = 1 << 12  # blank lines are few, if there are any


@dataclass(frozen=True, slots=True)
class Looked:
    """What one range holds: its quotes, and the line ends for an even and an odd number before.

    Of these how many there are, and where the last one is, from the range's start; -1 if none.
    """

    quotes: int
    ends: tuple[int, int]
    last: tuple[int, int]

    @classmethod
    def at(cls, content: bytes) -> Looked:
        """Look at a range."""
        quotes = content.count(b'"')
        if not quotes:
            return cls(0, (content.count(b"\n"), 0), (content.rfind(b"\n"), -1))
        held = np.frombuffer(content, dtype=np.uint8)
        ends = np.flatnonzero(held == _LINE_END)
        odd = np.searchsorted(np.flatnonzero(held == _QUOTE), ends) % 2 == 1
        either = ends[~odd], ends[odd]
        return cls(
            quotes,
            (len(either[0]), len(either[1])),
            (_last_of(either[0]), _last_of(either[1])),
        )


def _last_of(places: Places) -> int:
    return int(places[-1]) if len(places) else -1


@dataclass(frozen=True, slots=True)
class Range:
    """Some whole records: their bytes, and the number of the first one."""

    start: int
    stop: int
    first_row: int


@dataclass(frozen=True, slots=True)
class Ranges:
    """A file's records by ranges.

    ``rest`` is what comes after them: a record without a line end, blank lines, or nothing.
    With ``too_long`` it is not even read, since a record in it is.
    """

    whole: tuple[Range, ...]
    rest: Range
    too_long: bool


def ranges_of(file: int, records: Records, *, keep_blank: bool) -> Ranges:
    """Return the records behind the header, by ranges; reads all of the file once.

    Parameters
    ----------
    file
        A descriptor that can be read at any place.
    records
        What has read the header.
    keep_blank
        Whether blank lines before a cut are records.
    """
    place, start = records.taken, records.taken - len(records.rest)
    looked = Looked.at(records.rest)
    odd, row, ends = looked.quotes % 2, 1, looked.ends[0]
    last = start + looked.last[0] + 1
    whole: list[Range] = []
    too_long = False
    while not too_long and (piece := _read(file, place, place + records.chunk_bytes)):
        looked = Looked.at(piece)
        if looked.last[odd] >= 0:
            last = place + looked.last[odd] + 1
        ends += looked.ends[odd]
        odd = (odd + looked.quotes) % 2
        place += len(piece)
        cut, blank = (last, 0) if keep_blank else _before_blank_lines(file, start, last)
        if cut > start:
            whole.append(Range(start, cut, row))
            row, ends, start = row + ends - blank, blank, cut
        too_long = place - start > records.max_record_bytes
    return Ranges(tuple(whole), Range(start, place, row), too_long)


def _before_blank_lines(file: int, start: int, last: int) -> tuple[int, int]:
    """Return where the blank lines before a place begin, and how many there are."""
    size = _LOOK_BACK_BYTES
    while True:
        low = max(start, last - size)
        content = _read(file, low, last)
        cut, lines = len(content), 0
        while cut and not content[content.rfind(b"\n", 0, cut - 1) + 1 : cut].strip(b"\r\n"):
            cut, lines = content.rfind(b"\n", 0, cut - 1) + 1, lines + 1
        if cut or low == start:
            return low + cut, lines
        size *= 2


def _read(file: int, start: int, stop: int) -> bytes:
    """Return the bytes of a range, fewer only at the end of the file."""
    pieces = []
    # it may give less than was asked for
    while start < stop and (piece := os.pread(file, stop - start, start)):
        pieces.append(piece)
        start += len(piece)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


class RangedRecords(Records):
    """Reads a CSV file as a header and then runs of records, each by its range of bytes.

    Parameters
    ----------
    file
        A descriptor of the file, which can be read at any place.
    source, options
        As for :class:`Records`; the header is read from there.
    """

    def __init__(self, file: int, source: Source, **options: Any) -> None:
        super().__init__(source, **options)
        self._file = file

    def runs(self, *, width: int) -> Iterator[Run]:
        """Yield the records after the header; see :meth:`Records.runs`."""
        ranges = ranges_of(self._file, self, keep_blank=width == 1)
        for each in ranges.whole:
            self.taken = each.stop
            yield self.checked_run(_read(self._file, each.start, each.stop), each.first_row)
        rest = ranges.rest
        self.taken = rest.stop
        if ranges.too_long:
            raise record_too_long(self.max_record_bytes, rest.first_row)
        yield from self.last_run(_read(self._file, rest.start, rest.stop), rest.first_row, width)


ABSENT = worded(
    "is not in the file's header; texts match exactly (a column's source says which one is its), "
    "the spec's delimiter separates columns, and skip_rows title lines are above the header"
)
UNREAD = worded("is among records that cannot be read as CSV")
TWICE = worded("is in the file twice")


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


def _of_header(sentence: str) -> str:
    return worded("the header of the file %(sentence)s", sentence=sentence)
