"""Help with bounds: what they typically are, and which look as if they were read off the file.

Both are judged from what a curator has typed, or from a column's name, and never from a row.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

_NUMBER = re.compile(r"[+-]?(\d+)(?:\.(\d+))?", re.ASCII)
_DAY = re.compile(r"\d{4}-(\d{2})-(\d{2})(T.*)?", re.ASCII)
_ENDS = {"01-01", "12-31", "06-30", "07-01"}
_FAMILIAR = frozenset({"127", "128", "168", "255", "256", "365", "366", "511", "512", "1023"}) | {
    str(power) for power in (1024, 1440, 2047, 2048, 3600, 4095, 4096, 65535, 65536, 86400)
}
_YEARS = frozenset(
    map(str, range(1800, 2101))
)  # a number between is taken for a year, and years are round in their own way
_OF_BODIES = {"kg", "body", "birth", "patient"}
_DIGITS = 3  # a number of more digits that say something is seldom public knowledge


class Typical(NamedTuple):
    """The public bounds that a kind of quantity usually has; ``words`` are of its names."""

    kind: str
    unit: str
    lower: str
    upper: str
    words: Sequence[str]


TYPICAL: Sequence[Typical] = (
    Typical("age", "years", "0", "120", ("age",)),
    Typical("percentage", "per cent", "0", "100", ("percent", "percentage", "pct")),
    Typical("share", "of one", "0", "1", ("share", "fraction", "proportion", "probability")),
    Typical("yearly income", "currency", "0", "200000", ("income", "salary", "earnings", "wage")),
    Typical("hours a week", "hours", "0", "80", ("hours", "worktime")),
    Typical("year of birth", "year", "1900", "this year", ("birthyear", "yob")),
    Typical("people in a household", "people", "1", "20", ("household", "hhsize", "persons")),
    Typical("children", "people", "0", "15", ("children", "kids")),
    Typical("rooms", "rooms", "1", "20", ("rooms",)),
    Typical("height of a person", "cm", "50", "230", ("height",)),
    Typical("weight of a person", "kg", "2", "250", ("weight",)),
    Typical("blood pressure", "mmHg", "40", "250", ("pressure", "systolic", "diastolic", "bp")),
    Typical("body temperature", "°C", "30", "45", ("temperature",)),
    Typical("heart rate", "a minute", "20", "250", ("pulse", "heartrate")),
    Typical("rating", "points", "1", "5", ("rating", "likert", "satisfaction")),
    Typical("test score", "points", "0", "100", ("score", "points", "marks")),
    Typical("minutes of a day", "minutes", "0", "1440", ("minutes",)),
    Typical("latitude", "degrees", "-90", "90", ("latitude", "lat")),
    Typical("longitude", "degrees", "-180", "180", ("longitude", "lon", "lng")),
)


def typical_of(name: str) -> Typical | None:
    """Return what a column of this name usually has as bounds, if its name shows it.

    >>> typical_of("Age [years]").upper, typical_of("wages_2020"), typical_of("weight")
    ('120', None, None)
    """
    words = set(re.split(r"[^a-z]+", name.lower()))
    if words.isdisjoint(_OF_BODIES):
        words.discard("weight")  # it may be that of a survey
    return next((each for each in TYPICAL if words & set(each.words)), None)


def looks_read_off(bound: str) -> bool:
    """Say whether a bound is so precise that it was probably read off the file.

    >>> [looks_read_off(text) for text in ("5000", "120", "0.5", "2030-12-31", "1440", "1950")]
    [False, False, False, False, False, False]
    >>> [looks_read_off(text) for text in ("4957.81", "11733", "98.6", "1987-03-17")]
    [True, True, True, True]
    """
    if (day := _DAY.fullmatch(bound)) is not None:
        return f"{day[1]}-{day[2]}" not in _ENDS
    if (number := _NUMBER.fullmatch(bound)) is None:
        return False
    whole, decimals = number[1].lstrip("0"), (number[2] or "").rstrip("0")
    if not decimals and (whole in _FAMILIAR or whole in _YEARS):
        return False
    digits = (whole + decimals).strip("0") if decimals else whole.rstrip("0")
    return len(digits) > _DIGITS or (len(digits) == _DIGITS and decimals not in ("", "5", "25"))
