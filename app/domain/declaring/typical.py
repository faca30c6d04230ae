"""What is typical of a column, as a curator may state it from public knowledge.

It shapes synthetic rows and nothing else: no bound, no mechanism and no released number depends
on it. Like all of a declaration it is public, and never read off the rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

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
