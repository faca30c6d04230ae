"""Dates and times as numbers, and back: days, or seconds, since the start of 1970 (UTC).

>>> text_of("date", number_of("date", "1970-01-11") + 1)
'1970-01-12'
>>> text_of("datetime", number_of("datetime", "2020-02-29T12:30+01:00"))
'2020-02-29T11:30:00Z'
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, date, datetime, time, timedelta
from fractions import Fraction
from typing import Literal

TimeKind = Literal["date", "datetime"]

TEXT = (
    r"^([0-9]{4}-[0-9]{2}-[0-9]{2})"
    r"(?:[Tt ]([0-9]{2}):([0-9]{2})(?::([0-9]{2})(\.[0-9]{1,9})?)?([Zz]|[+-][0-9]{2}:?[0-9]{2})?)?$"
)
"""A date, and after it a time of day with its offset from UTC, if any."""

SECONDS_PER_DAY = 86_400
_FORM = re.compile(TEXT, re.ASCII)
UNITS: Mapping[TimeKind, str] = {"date": "days", "datetime": "seconds"}
"""What the numbers count."""

_START = date(1970, 1, 1)
_FIRST_DAY, _LAST_DAY = (date.min - _START).days, (date.max - _START).days
_KINDS: Mapping[str, TimeKind] = {"date": "date", "datetime": "datetime"}


def time_kind(kind: str) -> TimeKind | None:
    """Return which of both a kind of column is, None for any other."""
    return _KINDS.get(kind)


def number_of(kind: TimeKind, text: str) -> Fraction:
    """Return the days of a date, or the seconds of a moment; without an offset it is one in UTC.

    Raises
    ------
    ValueError
        The text is no such thing.
    """
    form = _FORM.fullmatch(text)
    if form is None or (kind == "date" and form[2] is not None):
        raise ValueError("not an ISO 8601 date or time")
    days = (date.fromisoformat(form[1]) - _START).days
    if kind == "date":
        return Fraction(days)
    # The pattern lets 99:99 pass; the constructor does not.
    clock = time(int(form[2] or 0), int(form[3] or 0), int(form[4] or 0))
    seconds = (clock.hour * 60 + clock.minute) * 60 + clock.second - offset_s(form[6] or "Z")
    return days * SECONDS_PER_DAY + seconds + Fraction(form[5] or 0)


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
