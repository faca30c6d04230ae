"""The first rows of a file as a table, with how the file is written.

The delimiter, the decimal mark, the encoding and the title lines above the header are guessed, each
by which of a fixed list fits best. A Parquet file and an Excel workbook say all of this themselves.

What a dictionary says of columns, whatever it is written in.

*What files of SPSS, Stata and SAS say of their columns: labels, value labels, missing codes.* The
metadata are those that ``pyreadstat`` returns. A file's values have been read by then with the
codes for missing values as missing cells.
"""

from __future__ import annotations

import codecs
import csv
import io
import re
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, BinaryIO

import polars as pl

from app.domain.datasets import MAX_SKIPPED_ROWS
from app.uploads.parquet_file import scanned
from app.uploads.recognition import (
    DELIMITERS,
    GZIP,
    LOOKED_AT,
    PARQUET,
    is_workbook,
    likely_encoding,
    recognised,
)
from app.uploads.trouble import Limits, UnreadableError
from app.uploads.workbook import workbook_frame
from mechanisms.words import worded

SAMPLE_BYTES = 1 << 20
"""So much of a text file a draft looks at."""
_SAMPLE_ROWS = 10_000
_MOST_LOOKED_AT = 200  # records that say where the header is, and what is between cells
_CODECS = {"utf-8": "utf-8-sig", "windows-1252": "cp1252", "iso-8859-1": "iso-8859-1"}
_MOST_CELL = 1 << 20


@dataclass(frozen=True, slots=True)
class Sample:
    """Some first rows of a file.

    ``rows`` has a column for each of the header's texts in ``header``, by their place. ``dialect``
    are members of a spec that say how the file is written, where it is not by default. ``whole``
    says whether these are all rows.
    """

    header: Sequence[str]
    rows: pl.DataFrame
    dialect: Mapping[str, Any] = field(default_factory=dict)
    whole: bool = True
    notes: Sequence[str] = ()


def sample_of(stream: BinaryIO, limits: Limits | None = None) -> Sample:
    """Return the first rows of a file.

    Raises
    ------
    UnreadableError
        It is no table, or has no header.
    Problem
        ``too-large``: an Excel workbook above the limits.
    """
    start = stream.read(LOOKED_AT)
    packed = start.startswith(GZIP)
    if packed:
        stream.seek(0)
        start, whole = _unpacked(stream.read(SAMPLE_BYTES))
    if (kind := recognised(start)) is not None:
        raise UnreadableError(kind.sentence)
    if start.startswith(PARQUET) and not packed:
        return _of_frame(_parquet(stream))
    if is_workbook(start) and not packed:
        return _of_frame(workbook_frame(stream, limits, most_rows=_SAMPLE_ROWS))
    if packed:
        return _of_text(start, whole=whole)
    start += stream.read(SAMPLE_BYTES - len(start))
    return _of_text(start, whole=len(start) < SAMPLE_BYTES)


def _of_frame(frame: pl.DataFrame) -> Sample:
    numbered = frame.rename({name: str(place) for place, name in enumerate(frame.columns)})
    return Sample(frame.columns, numbered, whole=frame.height < _SAMPLE_ROWS)


def _parquet(stream: BinaryIO) -> pl.DataFrame:
    try:
        return scanned(stream).head(_SAMPLE_ROWS).collect()
    except (Exception, pl.exceptions.PanicException):
        raise UnreadableError("the file is no whole Parquet file") from None


def _unpacked(content: bytes) -> tuple[bytes, bool]:
    """Return the beginning of a gzip file's content, which may be cut short, and if it is all."""
    reader = zlib.decompressobj(31)
    try:
        return reader.decompress(content, SAMPLE_BYTES), reader.eof
    except zlib.error:
        raise UnreadableError("the file is no whole gzip file") from None


def _of_text(content: bytes, *, whole: bool) -> Sample:
    if not content.strip(b" \t\r\n\x00"):
        raise UnreadableError("the file is empty")
    encoding = likely_encoding(content) or "utf-8"
    text = decoded(content, encoding)
    if not text.strip("\ufeff\ufffd \t\r\n"):
        raise UnreadableError("the file has no header")
    if "\x00" in text:
        raise UnreadableError("the file holds NUL bytes, which no text has: it is no table of text")
    delimiter, skipped = _shape(text)
    records = list(records_in(_below(text, skipped), delimiter))
    if not whole and len(records) > 1:
        records.pop()  # it may be cut
    if not records or not any(each.isprintable() for each in "".join(records[0]).strip()):
        raise UnreadableError("the file has no header")
    header, rows = records[0], [row for row in records[1:] if len(row) == len(records[0])]
    dialect: dict[str, Any] = {}
    if encoding != "utf-8":
        dialect["encoding"] = encoding
    if skipped:
        dialect["skip_rows"] = skipped
    if delimiter != ",":
        dialect["delimiter"] = delimiter
    columns = {
        str(place): pl.Series([row[place] for row in rows], dtype=pl.String)
        for place in range(len(header))
    }
    return Sample(header, pl.DataFrame(columns), dialect, whole, [*_notes(header, rows, records)])


def decoded(content: bytes, encoding: str) -> str:
    """Return a text in an encoding that a spec may name, with a sign for what is no text in it."""
    if encoding != "utf-16":
        return content.decode(_CODECS[encoding], "replace")
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return content.decode("utf-16", "replace")
    big = content[0::2].count(0) > content[1::2].count(0)
    return content.decode("utf-16-be" if big else "utf-16-le", "replace")


def _shape(text: str) -> tuple[str, int]:
    """Return what separates cells, and how many title lines there are above the header.

    It is what most records have in equal numbers: the more of them, and then the more columns.
    """
    best = (0.0, 1, ",", 0)
    for delimiter in DELIMITERS:
        some: list[tuple[int, int]] = []  # cells of a record, and the lines before it
        lines = 0
        reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
        try:
            for record in reader:
                some.append((len(record), lines))
                lines = reader.line_num
                if len(some) == _MOST_LOOKED_AT:
                    break
        except csv.Error:
            continue
        filled = [(width, line) for width, line in some if width > 0]
        if not filled:
            continue
        # below a header there is at least one row, or nothing but the header
        body = [width for width, _ in filled[len(filled) // 2 :]]
        width, often = Counter(body).most_common(1)[0]
        if width == 1:
            continue
        first = next((line for each, line in filled if each == width), 0)
        found = (often / len(body), width, delimiter, first)
        if (round(found[0], 1), found[1]) > (round(best[0], 1), best[1]):
            best = found
    return best[2], best[3] if best[3] <= MAX_SKIPPED_ROWS else 0


def _below(text: str, lines: int) -> str:
    return text.split("\n", lines)[-1]


def records_in(text: str, delimiter: str) -> Iterator[list[str]]:
    """Yield the records of a CSV text that are not empty."""
    csv.field_size_limit(_MOST_CELL)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    try:
        yield from (record for record in reader if record)
    except csv.Error:
        return


_LIKE_DATA = re.compile(r"[+-]?[\d.,]*\d|\d{1,4}[-./]\d{1,2}[-./]\d{1,4}", re.ASCII)


def _notes(
    header: Sequence[str], rows: Sequence[Sequence[str]], records: Sequence[Sequence[str]]
) -> Iterator[str]:
    """Yield what a person should look at in how the file is written."""
    if len(header) == 1 and rows:
        yield worded(
            "the file has one column; if it should have more, separate them with a comma, "
            "semicolon, tab or bar"
        )
    if any(_LIKE_DATA.fullmatch(name.strip()) for name in header):
        yield worded(
            "the first line holds a number or a date, so it may be a row: the file needs a line "
            "with the columns' names above its rows"
        )
    if other := len(records) - 1 - len(rows):
        yield worded(
            "%(other)s of the first %(count)s records have another number of cells than the header "
            "has; the service refuses such a file",
            other=other, count=len(records) - 1,
        )  # fmt: skip


# What a dictionary says of columns, whatever it is written in


# What files of SPSS, Stata and SAS say of their columns: labels, value labels, missing codes

_MOST_CODES = 100  # of a range of codes for missing values
_SCALE = "scale"


def statistical_dictionary(meta: Any) -> Dictionary:
    """Return what the metadata of a file say.

    A column with labels for at least two of its values is a category, unless the file calls it a
    scale. Its other columns have the types of the file's cells.
    """
    labels = getattr(meta, "column_names_to_labels", None) or {}
    of_values = getattr(meta, "variable_value_labels", None) or {}
    measures = getattr(meta, "variable_measure", None) or {}
    columns = {
        name: _column(
            labels.get(name),
            of_values.get(name) or {},
            [*_missing_codes(meta, name)],
            measures.get(name),
        )
        for name in meta.column_names
    }
    return Dictionary(columns=columns, name=_one_line(getattr(meta, "file_label", None)))


def _one_line(text: str | None) -> str | None:
    return " ".join(text.split())[:100] or None if text else None


def _column(
    label: str | None, labels: Mapping[Any, str], missing: list[str], measure: str | None
) -> Described:
    named = {code_text(value): str(text) for value, text in labels.items()}
    kept = [each for each in named if each not in missing]
    category = len(kept) > 1 and measure != _SCALE
    notes = []
    if kept and not category:
        notes.append(worded(
            "some of its values have labels in the file; where one stands for a missing value, put "
            "it into `na`"
        ))  # fmt: skip
    return Described(
        type="category" if category else None,
        label=label,
        values=kept if category else (),
        labels=named if category else {},
        na=missing,
        notes=notes,
    ).tidied()


def _missing_codes(meta: Any, name: str) -> Iterator[str]:
    for each in (getattr(meta, "missing_ranges", None) or {}).get(name, ()):
        low, high = each["lo"], each["hi"]
        if low == high:
            yield code_text(low)
            continue
        first, last = number_in(low), number_in(high)
        if isinstance(first, int) and isinstance(last, int) and last - first < _MOST_CODES:
            yield from map(str, range(first, last + 1))
        else:  # an open range: those of its codes that have labels
            values = (getattr(meta, "variable_value_labels", None) or {}).get(name) or {}
            inside = (v for v in values if isinstance(v, int | float) and low <= v <= high)
            yield from map(code_text, inside)
    for letter in (getattr(meta, "missing_user_values", None) or {}).get(name, ()):
        yield f".{letter}" if str(letter).isalpha() else code_text(letter)


# What a dictionary says of columns, whatever it is written in

Number = int | float | str


class DictionaryError(Exception):
    """A dictionary cannot be read; its text is for people."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Described:
    """What is said of one column, in the words of a spec; None and nothing where it is not said.

    ``lower`` and ``upper`` are ends of what the dictionary calls valid. ``reading`` are further
    members of the column, such as its ``format``.
    """

    type: str | None = None
    label: str | None = None
    values: Sequence[str] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    na: Sequence[str] = ()
    unit: str | None = None
    lower: Number | None = None
    upper: Number | None = None
    reading: Mapping[str, Any] = field(default_factory=dict)
    notes: Sequence[str] = ()

    @property
    def names_texts(self) -> bool:
        """Return whether this says of a column at most that its cells are texts."""
        return self.type in (None, "category") and not self.values

    @property
    def states_numbers(self) -> bool:
        """Return whether a column without a type has what numbers alone have: bounds or a unit."""
        ends = (self.lower, self.upper)
        measured = self.unit is not None or any(isinstance(each, int | float) for each in ends)
        return measured and self.names_texts

    def tidied(self) -> Described:
        """Return the same without what a spec would refuse: a code is missing or a value."""
        missing = {*self.na}
        values = [each for each in dict.fromkeys(self.values) if each not in missing]
        shortened = {each: " ".join(self.labels.get(each, "").split())[:200] for each in values}
        labels = {each: label for each, label in shortened.items() if label}
        label = None if self.label is None else " ".join(self.label.split())[:200] or None
        return replace(
            self,
            values=values,
            labels=labels,
            label=label,
            na=[*dict.fromkeys(filter(None, self.na))],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Dictionary:
    """What is said of a file: of its columns by their headers, and how it is written.

    ``dialect`` are members of a spec such as its ``delimiter``; ``style`` is the decimal mark and
    the thousands separator.
    """

    columns: Mapping[str, Described] = field(default_factory=dict)
    na: Sequence[str] = ()
    name: str | None = None
    description: str = ""
    dialect: Mapping[str, Any] = field(default_factory=dict)
    style: tuple[str, str | None] | None = None
    notes: Sequence[str] = ()

    def of(self, header: str) -> Described:
        """Return what is said of the column with a header, in any case if in no other way."""
        if (found := self.columns.get(header)) is not None:
            return found
        alike = [
            each for name, each in self.columns.items() if name.casefold() == header.casefold()
        ]
        return alike[0] if len(alike) == 1 else Described()

    def missing_from(self, headers: Iterable[str]) -> Iterator[str]:
        """Yield the columns that a file with these headers does not have."""
        there = {each.strip().casefold() for each in headers}
        return (name for name in self.columns if name.casefold() not in there)


_WHOLE = re.compile(r"[+-]?\d{1,15}(\.0*)?", re.ASCII)
_DECIMAL = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,3})?", re.ASCII)


def number_in(value: object) -> int | float | None:
    """Return a number that a dictionary states as such or as text, None for anything else.

    >>> number_in("7.0"), number_in(".5"), number_in("many"), number_in(True)
    (7, 0.5, None, None)
    """
    if isinstance(value, bool):
        return None
    text = str(value).strip()
    if _WHOLE.fullmatch(text):
        return int(text.partition(".")[0])
    return float(text) if _DECIMAL.fullmatch(text) else None


def code_text(value: object) -> str:
    """Return a code as a file has it: 1.0 is 1, and true is true.

    >>> code_text(1.0), code_text(-9), code_text("a"), code_text(True)
    ('1', '-9', 'a', 'true')
    """
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value).strip()
