"""CSV as bytes: cut into runs of whole records, and checked for structure.

The dialect is RFC 4180 in UTF-8: a delimiter, double quote, records ended by LF or
CRLF. A quoted cell may hold line ends. A quote may open only at the start of a
cell and close only at its end; anything else is refused, since two readers of
such a file could see different rows.

*Conventions.* A run is a ``bytes`` that starts at a record's start and ends
with a record's line end, so the number of quotes in it is even. Structure is
found by arrays of byte positions; no record is looked at one by one unless it
is in trouble.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from app.uploads.encodings import Source, likely_encoding, not_utf_8
from app.uploads.trouble import TOO_FEW, TOO_MANY, Trouble, UnreadableError

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
            raise UnreadableError(f"the file {not_utf_8(buffer)}")
        buffer = buffer.removeprefix(_BOM)
        if not buffer.strip(b" \t\r\n"):
            raise UnreadableError("the file is empty")
        if not len(ends):
            if len(buffer) > self.max_record_bytes:
                raise UnreadableError(f"the header {record_too_long(self.max_record_bytes)}")
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
                    raise UnreadableError(f"the file {not_utf_8(chunk)}")
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
            raise UnreadableError(f"the header {error.trouble.reason}") from None
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
