"""Patterns of dates and moments, as ``strptime`` has them: what may stand in one."""

from __future__ import annotations

import re
from collections.abc import Mapping

DIRECTIVES: Mapping[str, str] = {
    "Y": "year", "y": "year", "m": "month", "b": "month", "B": "month", "d": "day",
    "j": "day of the year", "a": "weekday", "A": "weekday", "H": "hour", "I": "hour of twelve",
    "p": "half of the day", "M": "minute", "S": "second", "f": "fraction", "z": "offset", "%": "",
}  # fmt: skip
"""The letters that may follow a ``%``, and what each stands for."""
_TIMES = {"hour", "hour of twelve", "minute", "second", "fraction", "offset"}
_PARTS = re.compile(r"%(.?)", re.DOTALL)
_LONGEST = 100


def parts_of(pattern: str) -> frozenset[str]:
    """Return the letters of a pattern's directives."""
    return frozenset(_PARTS.findall(pattern))


def has_time(pattern: str) -> bool:
    """Say whether a pattern has a time of day."""
    return bool(parts_of(pattern) & set("HIMSfpz"))


def has_offset(pattern: str) -> bool:
    """Say whether a pattern has an offset from UTC."""
    return "z" in parts_of(pattern)


def format_fault(pattern: str) -> str | None:
    """Return what is wrong with a pattern, or None.

    >>> format_fault("%d.%m.%Y"), format_fault("%d.%m")
    (None, 'a pattern needs a year, a month and a day, as "%d.%m.%Y" or "%Y-%m-%d %H:%M:%S" has')
    """
    if not 1 <= len(pattern) <= _LONGEST or not pattern.isprintable():
        return f"a pattern must be printable text of 1 to {_LONGEST} characters"
    found = parts_of(pattern)
    if not found <= DIRECTIVES.keys():
        return "a pattern has these directives only: " + " ".join(f"%{each}" for each in DIRECTIVES)
    named = {DIRECTIVES[each] for each in found}
    dated = "year" in named and ({"month", "day"} <= named or "day of the year" in named)
    clocked = "minute" in named and named & {"hour", "hour of twelve"}
    rules = (
        (not dated, 'needs a year, a month and a day, as "%d.%m.%Y" or "%Y-%m-%d %H:%M:%S" has'),
        (("I" in found) != ("p" in found), "needs %I and %p together, as in %I:%M %p"),
        (bool(named & _TIMES) and not clocked, "with a time needs its hour and minute: %H:%M"),
        ("%f" in pattern.replace("%S.%f", ""), "has %f only after seconds and a point: %S.%f"),
    )
    return next((f"a pattern {words}" for broken, words in rules if broken), None)
