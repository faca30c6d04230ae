"""What a statistic says of itself: facts that have one answer for most statistics.

Everything that the service knows of a statistic is an attribute or a method of its class. No
other module names kinds: it asks the class. :class:`mechanisms.contract.Statistic` lists the facts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal, Self

from mechanisms.contract import ErrorLaw, FieldHint, Json, NearZero, Place, Reading, Statistic
from mechanisms.domain import NumberColumn, Schema
from mechanisms.privacy import MOST_ROWS_OF_ONE
from mechanisms.probes import Probe
from mechanisms.words import worded

Range = list[float]

_SHARES = 5


class Facts:
    """The facts of :class:`~mechanisms.contract.Statistic`, as most statistics have them."""

    __slots__ = ()

    limits: ClassVar[Mapping[str, int]] = {}
    advice: ClassVar[Mapping[str, str]] = {}
    probes: ClassVar[tuple[Probe, ...]] = ()
    clamped_to: ClassVar[frozenset[float] | None] = None
    ratios: ClassVar[str] = ""

    error_law: ClassVar[ErrorLaw] = "simulated"
    near_zero: ClassVar[NearZero] = "a value"
    reason_of_bias: ClassVar[str] = worded("the ridge pulls coefficients towards 0.")
    counts_records: ClassVar[bool] = False
    in_unit_of_column: ClassVar[bool] = False
    chosen_by_error: ClassVar[bool] = False
    lies_among_values: ClassVar[bool] = False
    rows_for_each_draw: ClassVar[bool] = False
    follows_from_moments: ClassVar[bool] = False

    has_inference: ClassVar[bool] = False
    no_inference: ClassVar[str] = ""
    by_design: ClassVar[Literal["mean", "total"] | None] = None

    name: ClassVar[str] = ""
    named_by: ClassVar[Mapping[str, Mapping[str, str]]] = {}
    name_on_diagonal: ClassVar[str] = ""
    precedes_columns: ClassVar[bool] = False
    stated_fields: ClassVar[frozenset[str]] = frozenset()
    hints: ClassVar[Mapping[str, FieldHint]] = {}
    suggested: ClassVar[bool] = False
    compares_target: ClassVar[bool] = False
    explains_category: ClassVar[bool] = False
    usually_conditioned: ClassVar[bool] = False
    usual_inference: ClassVar[str] = ""

    most_rows_per_person: ClassVar[int] = MOST_ROWS_OF_ONE
    column_by_column: ClassVar[bool] = False
    has_cells: ClassVar[bool] = False

    def possible_ranges(self, _schema: Schema, _rows: float, /) -> Json | None:
        """Return no range."""
        return None

    def answer_numbers(self, _schema: Schema, /) -> int:
        """Return that the answer has one number."""
        return 1

    def relation(self) -> tuple[str, tuple[str, ...]] | None:
        """Return that no column explains another."""
        return None

    @property
    def value_columns(self) -> tuple[str, ...]:
        """Return no column: the numbers are no values of any."""
        return ()

    def column_at(self, place: Place, /) -> str | None:
        """Return the column that the number at this place is called after, if it is its value."""
        name = str(place[-1]) if place else ""
        return name if name in self.value_columns else None

    def moment_columns(self, _schema: Schema, /) -> tuple[str, ...] | None:
        """Return None: no moments determine the answer."""
        return None

    def reading(self, _source: Statistic, _schema: Schema, /) -> Reading | None:
        """Return None: the answer follows from no other."""
        return None

    def drawn_by(self) -> Statistic | None:
        """Return None: mechanisms draw this statistic."""
        return None

    def estimand(self) -> Self:
        """Return the same question: its answers aim at what they say."""
        return self


def most_of(expected: float, rows: float) -> float:
    """Return the largest number of rows an answer may be about, where ``expected`` are expected."""
    return min(rows, _SHARES * expected)


def largest_weight(schema: Schema, weights: str | None) -> float:
    """Return the largest weight of a record, 1 where each counts once."""
    return bounds_of(schema, weights)[1] if weights else 1.0


def bounds_of(schema: Schema, name: str) -> Range:
    """Return the public bounds of a number column."""
    column = schema.columns[name]
    assert isinstance(column, NumberColumn)  # the statistic has been checked
    return [float(column.lower), float(column.upper)]


def width_of(schema: Schema, name: str) -> float:
    """Return how far apart the public bounds of a number column are."""
    low, high = bounds_of(schema, name)
    return high - low
