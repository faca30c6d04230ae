"""The public domain of a data set: columns, bounds, and their fixed-point encoding.

Everything here is public. Bounds are declared by a curator and never read off
the rows; a value outside is clamped.

*Conventions.* A number column with bounds [L, U], midpoint M and half-width H
maps a value x to the integer code ``rint(F (clamp(x) - M) / H)`` with
``F = 2**CODE_BITS``, so every code lies in [-F, F]. Codes are what is stored,
summed, compared and released from: sums of codes are exact integers, whatever
the order. Edges and thresholds pass through the same encoding before a
comparison, so a value equal to an edge stays equal to it.
A boolean column is a number column with bounds [0, 1].
A category column is stored as the index into its closed list of values.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from mechanisms.privacy import ONE_ROW, Adjacency, Protected

CODE_BITS = 20
CODE_MAX = 1 << CODE_BITS

EXACT_ROWS = 1 << (53 - 2 * CODE_BITS)
"""So many products of two codes sum to an exact integer in ``float64``, in any order."""


@dataclass(frozen=True, slots=True)
class NumberColumn:
    """A bounded number; ``boolean`` marks a 0/1 column with bounds [0, 1]."""

    lower: Fraction
    upper: Fraction
    boolean: bool = False

    def __post_init__(self) -> None:
        if not self.lower < self.upper:
            raise ValueError("lower must be below upper")

    @property
    def midpoint(self) -> Fraction:
        """Return M, the centre of the bounds, in the column's units."""
        return (self.lower + self.upper) / 2

    @property
    def half_width(self) -> Fraction:
        """Return H, half the width of the bounds, in the column's units."""
        return (self.upper - self.lower) / 2

    @property
    def step(self) -> Fraction:
        """Return H / F, the width of one code, in the column's units."""
        return self.half_width / CODE_MAX

    @property
    def extent(self) -> Fraction:
        """Return max(|L|, |U|), what a column is divided by when there is no intercept."""
        return max(abs(self.lower), abs(self.upper))

    def encode(self, values: NDArray[np.float64]) -> NDArray[np.int32]:
        """Clamp finite or infinite values (not NaN) and return their int32 codes."""
        with np.errstate(over="ignore"):  # an overflow is an infinity, which is clamped
            scaled = (values - float(self.midpoint)) * (CODE_MAX / float(self.half_width))
        return np.rint(np.clip(scaled, -CODE_MAX, CODE_MAX)).astype(np.int32)

    def encode_one(self, value: float) -> int:
        """Return the code of one public value, by the same rounding as the data's."""
        return int(self.encode(np.array([value], dtype=np.float64))[0])

    def decode(self, code: Fraction | int) -> Fraction:
        """Return the value, in the column's units, that a (fractional) code stands for."""
        return self.midpoint + code * self.step


@dataclass(frozen=True, slots=True)
class CategoryColumn:
    """A closed list of values; a record's code is its index."""

    values: tuple[str, ...]

    def __post_init__(self) -> None:
        if not self.values or len(set(self.values)) != len(self.values):
            raise ValueError("category values must be distinct and not empty")


Column = NumberColumn | CategoryColumn


@dataclass(frozen=True, slots=True)
class Schema:
    """The public facts a mechanism may depend on.

    ``rows`` is the public row count under replace-one and None under
    add-remove, where only ``max_rows``, a declared bound, is public.
    ``selected`` says that a mechanism is given a part of the rows only, chosen row by row
    (:mod:`mechanisms.filtered`). Under replace-one that part may then have one record replaced,
    added or removed, and ``rows`` is but a bound on how many there are.
    ``protects`` says how many rows one person may have (:mod:`mechanisms.people`).
    """

    columns: Mapping[str, Column]
    adjacency: Adjacency
    rows: int | None
    max_rows: int | None = None
    selected: bool = False
    protects: Protected = ONE_ROW

    @property
    def known_rows(self) -> int | None:
        """Return the row count where it is public, else None."""
        public = self.adjacency is Adjacency.REPLACE_ONE and not self.selected
        return self.rows if public else None

    @property
    def row_bound(self) -> int:
        """Return the public upper bound on the row count that grids and costs may use."""
        bound = self.rows if self.adjacency is Adjacency.REPLACE_ONE else self.max_rows
        if bound is None:
            raise ValueError("the schema lacks its public row count or bound")
        return bound
