"""Dates and times as numbers, and back: days, or seconds, since the start of 1970 (UTC).

>>> text_of("date", number_of("date", "1970-01-11") + 1)
'1970-01-12'
>>> text_of("datetime", number_of("datetime", "2020-02-29T12:30+01:00"))
'2020-02-29T11:30:00Z'
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from fractions import Fraction
from functools import lru_cache
from typing import Literal
from zoneinfo import ZoneInfo

TimeKind = Literal["date", "datetime"]

TEXT = (
    r"^([0-9]{4}-[0-9]{2}-[0-9]{2})"
    r"(?:[Tt ]([0-9]{2}):([0-9]{2})(?::([0-9]{2})(\.[0-9]{1,9})?)?([Zz]|[+-][0-9]{2}:?[0-9]{2})?)?$"
)
"""A date, and after it a time of day with its offset from UTC, if any."""

SECONDS_PER_DAY = 86_400
_FORM = re.compile(TEXT, re.ASCII)
_NO_ZONES = frozenset({"Factory", "localtime", "posixrules"})
"""Other names in a system's folder of zones: they differ between machines."""
UNITS: Mapping[TimeKind, str] = {"date": "days", "datetime": "seconds"}
"""The units of the numbers."""

_START = date(1970, 1, 1)
_FIRST_DAY, _LAST_DAY = (date.min - _START).days, (date.max - _START).days
_KINDS: Mapping[str, TimeKind] = {"date": "date", "datetime": "datetime"}


def time_kind(kind: str) -> TimeKind | None:
    """Return which of both a kind of column is, None for any other."""
    return _KINDS.get(kind)


@lru_cache(maxsize=1024)
def zone_named(name: str) -> tzinfo | None:
    """Return an IANA time zone, or None where there is none of this name."""
    if name in _NO_ZONES or name.startswith(("posix/", "right/")):
        return None
    try:
        return ZoneInfo(name)
    except (ValueError, OSError, KeyError):  # not a name, a folder, not found
        return None


def instant_of(local: datetime, zone: tzinfo) -> int:
    """Return the seconds since 1970 (UTC) of a local time, which has no zone, in whole seconds.

    A local time that occurs twice, as clocks go back, is the first of both. One that clocks skip
    is read with the offset before the change.

    >>> berlin = zone_named("Europe/Berlin")
    >>> [text_of("datetime", instant_of(datetime(*day), berlin))
    ...  for day in [(2024, 3, 31, 2, 30), (2024, 10, 27, 2, 30)]]
    ['2024-03-31T01:30:00Z', '2024-10-27T00:30:00Z']
    """
    moment = local.replace(tzinfo=zone, fold=0)
    ahead = moment.utcoffset() or timedelta()
    return int((local - ahead - datetime.combine(_START, time())) // timedelta(seconds=1))


def number_of(kind: TimeKind, text: str, zone: str | None = None) -> Fraction:
    """Return the days of a date, or the seconds of a moment.

    A moment without an offset is local time of the ``zone``, see :func:`instant_of`; None is UTC.

    >>> text_of("datetime", number_of("datetime", "2024-03-09T20:30", "America/New_York"))
    '2024-03-10T01:30:00Z'

    The midnight that begins a day of the zone is that date.

    >>> number_of("date", "1970-01-11T00:00Z"), number_of("date", "1970-01-11T00:00", "Asia/Tokyo")
    (Fraction(10, 1), Fraction(10, 1))

    Raises
    ------
    ValueError
        The text is no such thing.
    """
    form = _FORM.fullmatch(text)
    if form is None:
        raise ValueError("not an ISO 8601 date or time")
    days = (date.fromisoformat(form[1]) - _START).days
    if kind == "date" and form[2] is not None:
        return _day_begun(number_of("datetime", text, zone), zone)
    if kind == "date":
        return Fraction(days)
    # The pattern lets 99:99 pass; the constructor does not.
    clock = time(int(form[2] or 0), int(form[3] or 0), int(form[4] or 0))
    fraction = Fraction(form[5] or 0)
    if form[6] is None and zone is not None:
        place = zone_named(zone)
        if place is None:
            raise ValueError("not a time zone")
        return instant_of(datetime.combine(date.fromisoformat(form[1]), clock), place) + fraction
    seconds = (clock.hour * 60 + clock.minute) * 60 + clock.second - offset_s(form[6] or "Z")
    return days * SECONDS_PER_DAY + seconds + fraction


def _day_begun(seconds: Fraction, zone: str | None) -> Fraction:
    """Return the date that a midnight of a zone begins."""
    place = UTC if zone is None else zone_named(zone)
    local = datetime.fromtimestamp(0, UTC) + timedelta(seconds=int(seconds))
    local = local.astimezone(place)
    if seconds.denominator != 1 or local.time() != time():
        raise ValueError("neither a date nor the midnight that begins one")
    return Fraction((local.date() - _START).days)


def offset_s(text: str) -> int:
    """Return the seconds by which clocks are ahead of UTC: of ``Z``, ``+01:00`` or ``+0100``."""
    if text in "Zz":
        return 0
    hours, minutes = int(text[1:3]), int(text[-2:])
    if hours >= 24 or minutes >= 60:
        raise ValueError("not an offset")
    return (-1 if text[0] == "-" else 1) * (hours * 60 + minutes) * 60


def text_of(kind: TimeKind, number: Fraction | float) -> str:
    """Return the nearest date, or second, as ISO 8601: of the years 1 to 9999.

    A mean with much noise may lie beyond them, and so may the ends of its interval.

    >>> text_of("date", 1e12), text_of("datetime", -1e12)
    ('9999-12-31', '0001-01-01T00:00:00Z')
    """
    days = 1 if kind == "date" else SECONDS_PER_DAY
    whole = min(max(round(number), _FIRST_DAY * days), (_LAST_DAY + 1) * days - 1)
    if kind == "date":
        return (_START + timedelta(days=whole)).isoformat()
    moment = datetime.combine(_START, time(), UTC) + timedelta(seconds=whole)
    return moment.isoformat().replace("+00:00", "Z")
