"""Quantiles of one column.

The objective is the check loss, whose gradient at t is ``#{y_i <= t} - tau n``:
a record contributes ``1{y <= t} - tau``, which is ``1 - tau`` or ``-tau``.

*Sensitivity.* Replacing a record changes the gradient by at most 1, whatever
tau; adding or removing one by at most ``max(tau, 1 - tau)``. (KNG section 4.5
prints ``2 (1 - tau)``, which is not private for tau above 1/2.)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise
from typing import ClassVar, Literal

from mechanisms.contract import (
    FieldHint,
    InvalidStatisticError,
    Json,
    Place,
    meaning,
    require_numbers,
)
from mechanisms.domain import Schema
from mechanisms.exact.fractions import as_written, has_decimals
from mechanisms.privacy import Adjacency
from mechanisms.probes import MIDDLE, NEAR, Probe
from mechanisms.statistics.facts.defaults import bounds_of
from mechanisms.statistics.questions import Question

MAX_LEVELS = 100
MOST_DECIMALS = 9


_MEDIAN: Json = {"kind": "quantile", "column": "x", "levels": [0.5]}


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantile(Question):
    """Quantiles of a number or boolean column at the given levels.

    By the K-norm gradient mechanism several levels are drawn jointly (norm l1) or one by
    one with an equal part of epsilon each (norm linf). Norm auto takes the one whose
    ranks miss by less, which is jointly but for a few levels close together under
    add-remove, and one by one where epsilon is small for the public bound on rows.
    """

    __pydantic_config__: ClassVar[dict[str, object]] = {"extra": "forbid"}
    mechanisms: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "kng": ("linf", "l1"),
        "exponential": (),
    }
    advice: ClassVar[Mapping[str, str]] = {
        "kng": "Norm l1 draws several levels jointly (Gillenwater, Joseph and Kulesza 2021): the "
        "better one for nearly every set of levels, the more so the more there are. Norm linf "
        "draws them one by one with an equal part of epsilon each: better for a few levels close "
        "together under add_remove, and where epsilon is small for the public bound on rows. A "
        "preview compares both for the levels asked for. For very many levels a histogram with "
        "fine edges is one release that answers them all.",
        "exponential": "Permute-and-flip, one level after the other with an equal part of epsilon "
        "each: for a single level never worse than the exponential mechanism; for several the "
        "joint draw of kng usually misses by less.",
    }
    example: ClassVar[Json] = {"kind": "quantile", "column": "income", "levels": [0.1, 0.5, 0.9]}
    probes: ClassVar[tuple[Probe, ...]] = (
        Probe(_MEDIAN, MIDDLE),
        Probe(_MEDIAN, NEAR, adjacency=Adjacency.ADD_REMOVE.value),
    )
    hints: ClassVar[Mapping[str, FieldHint]] = {
        "levels": FieldHint("Levels", "Between 0 and 1, with commas between them: 0.25, 0.5, 0.75.")
    }
    lies_among_values: ClassVar[bool] = True
    rows_for_each_draw: ClassVar[bool] = True

    kind: Literal["quantile"] = "quantile"
    column: str = field(metadata=meaning("A number or boolean column."))
    levels: tuple[float, ...] = field(
        metadata=meaning(
            "Distinct levels strictly between 0 and 1, with at most 9 decimals; at most 100. "
            "0.5 is the median."
        )
    )

    def check(self, schema: Schema) -> None:
        """Raise :class:`InvalidStatisticError` when the question does not fit the schema."""
        require_numbers(schema, [self.column], "column")
        self.exact_levels()

    def answer_numbers(self, _schema: Schema, /) -> int:
        """Return about how many numbers an answer has: one for each level."""
        return len(self.levels) + 1

    def possible_ranges(self, schema: Schema, _rows: float, /) -> Json:
        """Return the bounds of the column, for each level."""
        ends = bounds_of(schema, self.column)
        return {"quantiles": [{"value": ends}] * len(self.levels)}

    @property
    def value_columns(self) -> tuple[str, ...]:
        """Return the column: a quantile of dates is a date."""
        return (self.column,)

    def column_at(self, place: Place, /) -> str | None:
        """Return the column for each quantile; a level is no value of it."""
        return self.column if place and place[-1] == "value" else None

    def planning_ms(self, _schema: Schema, _mechanism: str, /) -> float:
        """Return about how many milliseconds of one core a plan takes."""
        return 1.0

    def exact_levels(self) -> tuple[Fraction, ...]:
        """Return the levels as the decimals they were written as.

        Raises
        ------
        InvalidStatisticError
            None or too many, out of range, too fine, or repeated.
        """
        if not 1 <= len(self.levels) <= MAX_LEVELS:
            raise _invalid(f"give between 1 and {MAX_LEVELS} levels")
        levels = tuple(_exact_level(level) for level in self.levels)
        if len(set(levels)) != len(levels):
            raise _invalid("a level is given twice")
        return levels


def gradient_sensitivity(level: Fraction, adjacency: Adjacency) -> Fraction:
    """Return the exact Delta of ``#{y <= t} - level * n``: 1, or max(level, 1 - level)."""
    return Fraction(1) if adjacency is Adjacency.REPLACE_ONE else max(level, 1 - level)


def joint_sensitivity(levels: Sequence[Fraction], adjacency: Adjacency) -> Fraction:
    """Return the exact Delta of the joint score: 2, or 2 (1 - smallest gap).

    The gaps are those between neighbouring levels, 0 and 1 included.
    """
    if adjacency is Adjacency.REPLACE_ONE:
        return Fraction(2)
    edges = (Fraction(0), *sorted(levels), Fraction(1))
    return 2 * (1 - min(after - before for before, after in pairwise(edges)))


def _exact_level(level: float) -> Fraction:
    if not 0 < level < 1:  # also refuses NaN
        raise _invalid("levels must lie strictly between 0 and 1")
    exact = as_written(level)
    if not has_decimals(exact, MOST_DECIMALS):
        raise _invalid("levels must have at most 9 decimals")
    return exact


def _invalid(detail: str) -> InvalidStatisticError:
    return InvalidStatisticError(detail, field_name="levels")
