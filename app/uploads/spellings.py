"""Texts of a file as numbers, by how the file spells them; and texts that it does not spell out.

Numbers may have a decimal comma and signs between groups of three digits. Where all look like
``12.345``, the points may be thousands separators: the column is read as decimals, and the report
warns the sender, since the cells do not show which is meant.

Dates and moments become days and seconds since 1970 (UTC), as in :mod:`mechanisms.domain`. They are
ISO 8601, or as patterns say, and in a time zone. Local times become instants by one rule, which is
that of :func:`mechanisms.domain.instant_of`: one that occurs twice, as clocks go back, is the first
of both, and one that clocks skip is read with the offset before the change.

Truths, dictionaries and small whole numbers stand for few different texts, those that a CSV file
of the same cells has. They are places in a list of them, so that each text is read once. Of a
closed list nearly all cells are spelt as the list has them, and those are looked up as they are.
What is left is compared as :mod:`app.domain.columns` says, each different text once.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import polars as pl
from numpy.typing import NDArray

from app.domain.columns import Reading, has_offset, has_time
from app.uploads.prf import BLANK
from mechanisms.domain import SECONDS_PER_DAY, TEXT, TimeKind, instant_of, zone_named
from mechanisms.words import WHITE

_FLOAT = pl.Float64()
_DAY = "%Y-%m-%d"
_KINDS: Mapping[str, str] = dict.fromkeys(" \u00a0\u2009\u202f", "[ \u00a0\u2009\u202f]") | (
    dict.fromkeys("'\u2019", "['\u2019]")
)
"""Signs between groups of digits that stand for one another, as patterns."""
_HOURS, _SIXTY = 24, 60
_MOST_PLACES = 1 << 16
"""Cells count by their own numbers below this: a list of that length is cheap to make."""

_AS_ARRAYS: Mapping[pl.DataType, pl.DataType] = {
    pl.Boolean(): pl.UInt8(), pl.Int128(): pl.Float64(), pl.UInt128(): pl.Float64()
}  # fmt: skip
"""What no array holds: truths, and more than 64 bits, of which places are exact."""

Places = NDArray[np.intp]


def plain_numbers(texts: pl.Series, kind: pl.DataType = _FLOAT) -> pl.Series:
    """Return numbers that are spelt as programs do; null where a text is none."""
    return texts.str.strip_chars(BLANK).cast(kind, strict=False)


_AROUND = r"[\p{L}\p{Sc}%‰\s]*"
"""What may be around a number that is not bare: letters, currency and percent signs, spaces."""


def bare_numbers(texts: pl.Series, around: str = _AROUND) -> pl.Series:
    """Return texts without what is around their numbers; a sign before it is the number's."""
    found = rf"^([+-]?){around}([+-]?(?:[0-9]|[.,][0-9])(?:.*[0-9.,])?){around}$"
    return texts.str.strip_chars(BLANK).str.replace(found, "${1}${2}")


def spelt_numbers(
    texts: pl.Series,
    *,
    decimal: str,
    thousands: str | None,
    bare: bool = True,
    kind: pl.DataType = _FLOAT,
) -> pl.Series:
    """Return numbers that are spelt in a way that was declared; null where a text is none.

    Signs between groups count only where each group has three digits: ``1.5`` is no fifteen.
    """
    stripped = texts.str.strip_chars(BLANK) if bare else bare_numbers(texts)
    point = re.escape(decimal)
    plain = rf"^[+-]?[0-9]*(?:{point}[0-9]*)?(?:[eE][+-]?[0-9]+)?$"
    fits = stripped.str.contains(plain)
    numbers = stripped
    if thousands is not None:
        sign = _KINDS.get(thousands, re.escape(thousands))
        grouped = rf"^[+-]?[0-9]{{1,3}}(?:{sign}[0-9]{{3}})+(?:{point}[0-9]*)?$"
        fits = fits | stripped.str.contains(grouped)
        numbers = numbers.str.replace_all(sign, "")
    numbers = numbers.str.replace(decimal, ".", literal=True)
    found = numbers.cast(kind, strict=False)
    # The parser knows more spellings than were declared, such as inf.
    return found.set(~fits.fill_null(value=False), None)


def iso_parts(texts: pl.Series) -> pl.DataFrame:
    """Return the parts of ISO 8601 texts, null where there is none."""
    return (
        texts.str.strip_chars(BLANK)
        .str.extract_groups(TEXT)
        .struct.rename_fields(["day", "hour", "minute", "second", "fraction", "offset"])
        .struct.unnest()
    )


def times(texts: pl.Series, kind: TimeKind) -> pl.Series:
    """Return the days of dates, or the seconds of moments; null where a text is none.

    A moment without an offset is one in UTC; :func:`instants` reads other zones.
    """
    parts = iso_parts(texts)
    # polars counts days from 1970 too
    day = pl.col("day").str.strptime(pl.Date, _DAY, strict=False).cast(pl.Int32).cast(pl.Float64)
    if kind == "date":
        found = pl.when(pl.col("hour").is_null()).then(day)
        return parts.select(found.alias("found"))["found"]
    hour, minute, second = (
        pl.col(name).cast(pl.Float64).fill_null(0) for name in ("hour", "minute", "second")
    )
    clock = (hour * 60 + minute) * 60 + second + pl.col("fraction").cast(pl.Float64).fill_null(0)
    ahead = pl.when(pl.col("offset").str.starts_with("-")).then(-1.0).otherwise(1.0)
    hours = pl.col("offset").str.slice(1, 2).cast(pl.Float64, strict=False).fill_null(0)
    minutes = pl.col("offset").str.slice(-2, 2).cast(pl.Float64, strict=False).fill_null(0)
    sound = (hour < _HOURS) & (minute < _SIXTY) & (second < _SIXTY) & (hours < _HOURS)
    moment = day * SECONDS_PER_DAY + clock - ahead * (hours * 60 + minutes) * 60
    found = pl.when(sound & (minutes < _SIXTY)).then(moment)
    return parts.select(found.alias("found"))["found"]


def dictionary_of(cells: pl.Series) -> tuple[pl.Series, Places | None]:
    """Return different texts, each in use, and which of them every cell is.

    Null is one of them where some cell is. Texts themselves, large dictionaries and other whole
    numbers come back as texts, row by row, and None.
    """
    if cells.dtype == pl.String:
        return cells, None
    written = isinstance(cells.dtype, pl.Categorical | pl.Enum)
    numbers = cells.to_physical() if written else cells
    numbers = numbers.cast(_AS_ARRAYS.get(numbers.dtype, numbers.dtype))
    # of an array, since each question to a column costs as much as thousands of rows
    present = (numbers.drop_nulls() if numbers.null_count() else numbers).to_numpy()
    ends = (int(present.min()), int(present.max())) if len(present) else ()
    if not all(0 <= end < _MOST_PLACES for end in ends):
        return cells.cast(pl.String), None
    none = 1 + max(ends, default=-1)
    if len(present) < len(numbers):
        present = numbers.cast(pl.Int64).fill_null(none).to_numpy()
    rows = present.astype(np.intp)
    used = np.flatnonzero(np.bincount(rows))
    own = [None if place == none else place for place in used.tolist()]
    different = pl.Series(own, dtype=pl.UInt32)
    kept = different.cat.to(cells.dtype) if written else different.cast(cells.dtype)
    if len(used) <= used.max(initial=-1):  # some places are of no cell
        places = np.empty(none + 1, dtype=np.intp)
        places[used] = np.arange(len(used))
        rows = places[rows]
    return kept.cast(pl.String), rows


@dataclass(frozen=True, slots=True)
class Listed:
    """A list of texts; ``compared`` makes of a text what it is compared by."""

    kind: pl.Enum
    compared: Callable[[str], str]
    texts: Mapping[str, str]

    @classmethod
    def of(cls, texts: Iterable[str], compared: Callable[[str], str]) -> Listed:
        """Return a list, none of whose texts are compared by the same."""
        listed = list(texts)
        return cls(pl.Enum(listed), compared, {compared(text): text for text in listed})

    def among(self, cells: pl.Series) -> pl.Series:
        """Return the cells as texts of the list, null where one is none."""
        known = cells.cast(self.kind, strict=False)
        if known.null_count() == cells.null_count():
            return known
        left = cells.filter(known.is_null()).drop_nulls().unique()
        meant = {
            text: found
            for text in left.to_list()
            if (found := self.texts.get(self.compared(text))) is not None
        }
        if not meant:
            return known
        return cells.replace(meant).cast(self.kind, strict=False)


# Points that may be thousands separators: numbers that all look like ``12.345``

_LOOKED_AT = 256
_GROUP = 1_000
_NUMBER = r"[0-9]"
_LIKE = r"^\s*[+-]?(?:0|[1-9][0-9]{0,2}(?:\.[0-9]{3})?)\s*$"

Texts = Callable[[Sequence[str]], pl.DataFrame | None]


class Points:
    """Counts cells such as ``12.345`` in columns where every cell with a point is such a one."""

    def __init__(self, columns: Iterable[str]) -> None:
        self._counts = dict.fromkeys(columns, 0)

    @property
    def counts(self) -> Mapping[str, int]:
        """Return how many cells look so, in columns where all that have a point do."""
        return {name: count for name, count in self._counts.items() if count}

    def look(self, frame: pl.DataFrame, texts: Texts) -> None:
        """Look at a block of rows, whose cells ``texts`` gives as they are written."""
        suspects = [name for name in tuple(self._counts) if self._suspect(name, frame[name])]
        if not suspects:
            return
        as_written = frame[suspects[0]].dtype == pl.String
        written = frame if as_written else texts(suspects)
        if written is None:
            return
        for name in suspects:
            cells = written[name].drop_nulls()
            cells = cells.filter(cells.str.contains(_NUMBER))
            if cells.str.contains(_LIKE).all():
                self._counts[name] += int(cells.str.contains(".", literal=True).sum())
            else:
                del self._counts[name]

    def _suspect(self, name: str, cells: pl.Series) -> bool:
        """Say whether the texts are to be looked at; forget a column that cannot look so."""
        few = cells.head(_LOOKED_AT).cast(pl.Float64, strict=False).drop_nulls().drop_nans()
        values = np.abs(few.to_numpy())
        scaled = values * _GROUP
        if ((values >= _GROUP) | ((values > 0) & (values < 1))).any() or not np.allclose(
            scaled, np.rint(scaled), rtol=1e-12, atol=1e-9
        ):
            del self._counts[name]
            return False
        return bool((np.rint(values) != values).any())


# Dates and moments that are not ISO 8601 in UTC: by patterns, and in a time zone

_SECOND_US = 1_000_000
_FOUR_DIGITS = 1_000
_UTC = "UTC"
_MOMENT = pl.Datetime("us")

Parser = Callable[[pl.Series], pl.Series]


def parser_of(kind: TimeKind, reading: Reading) -> Parser:
    """Return what makes days or seconds since 1970 (UTC) of a column's texts, null of no time."""
    if reading.format:
        return partial(_by_patterns, kind=kind, patterns=reading.format, zone=reading.timezone)
    if reading.timezone is not None:
        return partial(_iso, kind=kind, zone=reading.timezone)
    return partial(times, kind=kind)


def instants(local: pl.Series, zone: str) -> pl.Series:
    """Return the instants (UTC) of local times, which have no zone."""
    found = local.dt.replace_time_zone(zone, ambiguous="earliest", non_existent="null")
    skipped = found.is_null() & local.is_not_null()
    found = found.dt.convert_time_zone(_UTC).cast(_MOMENT)
    if not skipped.any():
        return found
    place = zone_named(zone)
    assert place is not None  # it was declared, and checked
    different = local.filter(skipped).unique()
    read = [instant_of(each.replace(microsecond=0), place) * _SECOND_US for each in different]
    meant = pl.Series(read, dtype=pl.Int64).cast(_MOMENT)
    few = local.replace_strict(different, meant, default=None, return_dtype=_MOMENT)
    return found.zip_with(~skipped, few)


def numbers(moments: pl.Series, kind: TimeKind, zone: str | None) -> pl.Series:
    """Return the days or seconds of dates, of local times, or of instants, which have a zone.

    The day of an instant is that of the ``zone``; a local time has a day of its own.
    """
    stored = moments.dtype
    if kind == "date":
        if isinstance(stored, pl.Datetime) and stored.time_zone is not None:
            moments = moments.dt.convert_time_zone(zone or _UTC).dt.date()
        return moments.cast(pl.Date).cast(pl.Int32).cast(pl.Float64)
    if isinstance(stored, pl.Datetime) and stored.time_zone is not None:
        moments = moments.dt.convert_time_zone(_UTC).cast(_MOMENT)
    elif zone is not None:
        moments = instants(moments.cast(_MOMENT), zone)
    return moments.cast(_MOMENT).dt.epoch("us").cast(pl.Float64) / _SECOND_US


def _by_patterns(
    texts: pl.Series, *, kind: TimeKind, patterns: tuple[str, ...], zone: str | None
) -> pl.Series:
    """Return what the first pattern that fits makes of each text."""
    stripped = texts.str.strip_chars(WHITE)
    found = pl.Series(texts.name, [None], dtype=pl.Float64).new_from_index(0, len(texts))
    for pattern in patterns:
        left = found.is_null()
        if not left.any():
            break
        read = _strptime(stripped.filter(left), pattern)
        found = found.scatter(left.arg_true(), numbers(read, kind, zone))
    return found


def _strptime(texts: pl.Series, pattern: str) -> pl.Series:
    form: pl.Date | pl.Datetime = _MOMENT if has_time(pattern) else pl.Date()
    if has_offset(pattern):
        form = pl.Datetime("us", _UTC)
    read = texts.str.strptime(form, pattern.replace(".%f", "%.f"), strict=False)
    if "%Y" not in pattern:
        return read
    # The parser takes the 22 of 1.5.22 for the year 22 of our era.
    short = (read.dt.year() < _FOUR_DIGITS) & ~texts.str.contains(r"0\d{3}")
    return read.set(short.fill_null(value=False), None)


def _iso(texts: pl.Series, *, kind: TimeKind, zone: str) -> pl.Series:
    """Return what ISO 8601 texts stand for in a time zone."""
    parts = iso_parts(texts)
    dated = times(texts, kind="date")
    moments = times(texts, kind="datetime")
    given = parts["offset"].is_not_null()
    if kind == "date":
        # a local time is of its own day: that of its text
        days = (moments / SECONDS_PER_DAY).floor()
        local = dated.zip_with(dated.is_not_null(), days)
        if not given.any():
            return local
        return local.zip_with(~given, numbers(_as_instants(moments), kind, zone))
    if given.all():
        return moments
    own = instants((moments.floor() * _SECOND_US).cast(pl.Int64).cast(_MOMENT), zone)
    return moments.zip_with(given, own.dt.epoch("us").cast(pl.Float64) / _SECOND_US)


def _as_instants(seconds: pl.Series) -> pl.Series:
    whole = (seconds.floor() * _SECOND_US).cast(pl.Int64)
    return whole.cast(_MOMENT).dt.replace_time_zone(_UTC)
