"""Patterns of dates and moments, as ``strptime`` has them: what may stand in one.

*What is typical of a column, as a curator may state it from public knowledge.* It shapes synthetic
rows and nothing else: no bound, no mechanism and no released number depends on it. Like all of a
declaration it is public, and never read off the rows.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

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


# What is typical of a column, as a curator may state it from public knowledge

Fault = tuple[str, str]
"""A place within ``typical``, and what is wrong there."""


@dataclass(frozen=True, slots=True)
class TypicalNumber:
    """Where the values of a number column usually lie, and how far apart, in its units."""

    mean: Fraction
    std: Fraction

    def faults(self, lower: Fraction, upper: Fraction) -> Iterator[Fault]:
        """Yield what is wrong with it in a column of these bounds."""
        if not lower <= self.mean <= upper:
            yield "mean", "must lie between the bounds"
        if not 0 < self.std <= upper - lower:
            yield "std", "must be above 0, and at most what the bounds are apart"


@dataclass(frozen=True, slots=True)
class TypicalShares:
    """How often each value of a category occurs; shares are of their sum, and 0 if not named."""

    shares: tuple[tuple[str, Fraction], ...]

    def faults(self, values: Sequence[str]) -> Iterator[Fault]:
        """Yield what is wrong with it in a column of these values."""
        named = [name for name, _ in self.shares]
        if not {*named} <= {*values}:
            yield "", "may name declared values only"
        elif len({*named}) < len(named):
            yield "", "a value has two shares"
        numbers = [share for _, share in self.shares]
        if any(share < 0 for share in numbers) or not sum(numbers) > 0:
            yield "", "must be shares of 0 or more, and not all 0"

    def of(self, values: Sequence[str]) -> tuple[Fraction, ...]:
        """Return the share of each of these values; they sum to 1."""
        known: Mapping[str, Fraction] = dict(self.shares)
        whole = sum(known.values())
        return tuple(known.get(value, Fraction(0)) / whole for value in values)
