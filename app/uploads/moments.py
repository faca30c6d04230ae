"""Texts of a closed list: which cells are which of them.

Nearly all cells are spelt as the list has them, and those are looked up as they are. What is left
is compared as :mod:`app.domain.declaring` says, each different text once.

*Points that may be thousands separators: numbers that all look like ``12.345``.* Such a column is
read as decimals, and may be meant as thousands. The cells do not show which, so the report warns
the sender. A look at a few cells of each block settles it for nearly every column; the texts of a
block are read again only where all of those few look so.

*Dates and moments that are not ISO 8601 in UTC: by patterns, and in a time zone.* Local times
become instants by one rule, which is that of :func:`mechanisms.times.instant_of`: one that occurs
twice, as clocks go back, is the first of both, and one that clocks skip is read with the offset
before the change. Nearly all are converted at once; the few that clocks skip one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import polars as pl

from app.domain.columns import Reading
from app.domain.declaring import has_offset, has_time
from app.uploads.spellings import iso_parts, times
from mechanisms.times import SECONDS_PER_DAY, TimeKind, instant_of, zone_named
from mechanisms.words import WHITE


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
    return texts.str.strptime(form, pattern.replace(".%f", "%.f"), strict=False)


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
