"""CSV by ranges of bytes: where whole records begin and end, found before any is read.

A line end ends a record if the quotes before it are even in number. One pass looks at ranges of
equal size, each by itself: it counts quotes, and finds the line ends for both cases, an even
number of quotes before the range and an odd one. Adding up from the first range on says which
case each is in. So quoted line ends survive wherever a range is cut, and any of the ranges that
come of it can be read without those before.

*Conventions.* Places are bytes from the start of the file. The ranges, and the numbers of their
rows, are those of :meth:`app.uploads.csv_records.Records.runs`, cut by cut: what is digested on
the way depends on neither.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from app.uploads.csv_records import Places, Records, Run, record_too_long
from app.uploads.encodings import Source

_LINE_END, _QUOTE = b"\n" + b'"'
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
