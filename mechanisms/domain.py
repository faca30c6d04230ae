"""The public domain of a data set: columns, bounds, and their fixed-point encoding.

Everything here is public. Bounds are declared by a curator and never read off
the rows; a value outside is clamped.

*Conventions.* A number column with bounds [L, U], midpoint M and half-width H
maps a value x to the integer code ``rint(F (clamp(x) - M) / H)`` with
``F = 2**CODE_BITS``, so every code lies in [-F, F]. Codes are what is stored,
summed, compared and released from: sums of codes are exact integers, whatever
the order. Edges and thresholds pass through the same encoding before a
comparison, so a value equal to an edge stays equal to it.
A boolean column is a number column with bounds [0, 1]. One of whole numbers has its own grid,
of step 1, where its codes tell them apart; dates and moments are whole days and seconds.
A category column is stored as the index into its closed list of values.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from mechanisms.privacy import ONE_ROW, Adjacency, Protected
from mechanisms.times import TimeKind, number_of, text_of, time_kind

CODE_BITS = 20  # products of two codes then sum exactly in floats, 2**13 at a time
CODE_MAX = 1 << CODE_BITS

NumberKind = Literal["number", "integer", "date", "datetime"]

EXACT_ROWS = 1 << (53 - 2 * CODE_BITS)
"""So many products of two codes sum to an exact integer in ``float64``, in any order."""


@dataclass(frozen=True, slots=True)
class NumberColumn:
    """A bounded number; ``boolean`` marks a 0/1 column with bounds [0, 1].

    All kinds but ``number`` hold whole numbers, between whole bounds.
    """

    lower: Fraction
    upper: Fraction
    boolean: bool = False
    kind: NumberKind = "number"

    def __post_init__(self) -> None:
        if not self.lower < self.upper:
            raise ValueError("lower must be below upper")

    @property
    def whole(self) -> bool:
        """Return whether every cell is a whole number."""
        return self.kind != "number"

    @property
    def grid_step(self) -> Fraction:
        """Return the step of the grid that quantiles are drawn on, in the column's units."""
        fine = self.whole and self.upper - self.lower <= CODE_MAX
        return Fraction(1) if self.boolean or fine else self.step

    @property
    def timed(self) -> TimeKind | None:
        """Return whether it holds dates or moments, and which."""
        return time_kind(self.kind)

    def number_of(self, value: object) -> float | None:
        """Return what a public value stands for: ISO text in a column of times, else a number."""
        if self.timed is not None:
            try:
                return float(number_of(self.timed, value)) if isinstance(value, str) else None
            except ValueError:
                return None
        plain = isinstance(value, int | float) and not isinstance(value, bool)
        return value if plain else None  # type: ignore[return-value]

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

    def shown(self, number: float) -> str:
        """Return a number of the column's as people write it."""
        return f"{number:.9g}" if self.timed is None else text_of(self.timed, number)

    def encode(self, values: NDArray[np.float64]) -> NDArray[np.int32]:
        """Clamp finite or infinite values (not NaN) and return their int32 codes."""
        with np.errstate(over="ignore"):  # an overflow is an infinity, which is clamped
            scaled = values - float(self.midpoint)
            scaled *= CODE_MAX / float(self.half_width)
        np.clip(scaled, -CODE_MAX, CODE_MAX, out=scaled)
        return np.rint(scaled, out=scaled).astype(np.int32)

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
