"""Stated sensitivities of additive statistics, and what rows can do, exhaustively and exactly.

An additive statistic is a sum over rows; that is checked on every data set of two rows. So a change
of one row moves it by the difference of two rows' contributions, or by one of them, whatever the
other rows are. The largest is found by trying all rows of a grid of values, in rationals.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import combinations_with_replacement, product
from typing import Any, cast

from mechanisms.contract import Statistic
from mechanisms.domain import NumberColumn, Schema
from mechanisms.privacy import Adjacency
from mechanisms.sketches import ArrayData
from mechanisms.statistics.additive import AdditiveForm, AdditiveStatistic
from mechanisms.statistics.conditions import Condition
from mechanisms.statistics.correlation import Correlation
from mechanisms.statistics.count import Count
from mechanisms.statistics.covariance import Covariance
from mechanisms.statistics.curves.counts import ReadFromCounts
from mechanisms.statistics.curves.kaplan_meier import KaplanMeier
from mechanisms.statistics.curves.roc import Roc
from mechanisms.statistics.histogram import Histogram
from mechanisms.statistics.mean import Mean
from mechanisms.statistics.moments import Moments
from mechanisms.statistics.questions import Question, viewed
from mechanisms.statistics.std import Std
from mechanisms.statistics.total import Sum
from mechanisms.statistics.variance import Variance
from tests.mechanisms.forms import form_of
from tests.mechanisms.offers import COLUMNS, record

F = Fraction
Row = Mapping[str, object]
Vector = tuple[int, ...]

WITH_WEIGHTS = {**COLUMNS, "w": NumberColumn(F(0), F(4))}
RELATIONS = {
    "replace_one": (Adjacency.REPLACE_ONE, False),
    "add_remove": (Adjacency.ADD_REMOVE, False),
    "any_one_change": (Adjacency.REPLACE_ONE, True),
}
"""How data sets may differ; under the last one a row may be replaced, added or removed."""

QUARTERS = [k / 4 for k in range(-4, 5)]
ENDS = (-1.0, 0.0, 1.0)
SOME = (Condition(column="group", op="!=", value="c"),)


def row(x: float = 0.0, y: float = 0.0, group: str = "a", w: float = 0.0) -> Row:
    """Return a row."""
    return {**record(x=x, y=y, group=group), "w": w}


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """A statistic, the rows it is tried on, and the norms whose Delta must be reached.

    ``nearly`` are those reached up to a thousandth: at rows that no finite grid has. ``optional``
    are columns in which a row may have no value.
    """

    name: str
    statistic: Question
    rows: Sequence[Row]
    tight: frozenset[str] = frozenset({"l1", "l2", "linf", "optimal"})
    nearly: frozenset[str] = frozenset()
    optional: frozenset[str] = frozenset()

    def with_missing_cells(self) -> Tried:
        """Return the same question of rows that may lack any of their values."""
        some = self.rows[:: max(len(self.rows) // 9, 1)]
        lacking = [{**each, name: None} for each in some[:2] for name in WITH_WEIGHTS]
        nothing = dict.fromkeys(WITH_WEIGHTS)
        optional = frozenset(WITH_WEIGHTS)
        return replace(self, rows=[*some, *lacking, nothing], optional=optional)

    def asked(self, schema: Schema) -> Question:
        """Return the question as one about the rows that have the values it needs.

        Of one that is read off the counts of a histogram it is that of the counts.
        """
        asked = viewed(cast(Statistic, self.statistic), schema)
        found = asked.statistic
        if isinstance(found, ReadFromCounts):
            found = found.histogram(asked.view.schema)
        assert isinstance(found, Question)
        return found

    def form(self, relation: str) -> AdditiveForm:
        """Return the statistic's form where data sets may differ in this way."""
        adjacency, selected = RELATIONS[relation]
        public = adjacency is Adjacency.REPLACE_ONE
        schema = Schema(
            WITH_WEIGHTS,
            adjacency,
            2 if public else None,
            9,
            selected=selected,
            optional=self.optional,
        )
        asked = self.asked(schema)
        assert isinstance(asked, AdditiveStatistic)
        return form_of(asked, schema)

    def relations(self) -> list[str]:
        """Return how data sets may differ: a filter always makes rows come and go."""
        filtered = bool(self.statistic.where)
        return [name for name in RELATIONS if not (filtered and name == "any_one_change")]

    def changes(self, form: AdditiveForm, relation: str) -> list[Vector]:
        """Return all that one change of a row does to the statistic, in lattice units."""
        alone = contributions(form, self.rows, self.optional)
        adjacency, selected = RELATIONS[relation]
        found: set[Vector] = set()
        if adjacency is Adjacency.REPLACE_ONE:
            found |= {
                tuple(a - b for a, b in zip(*two, strict=True)) for two in product(alone, alone)
            }
        if adjacency is Adjacency.ADD_REMOVE or selected or self.statistic.where:
            found |= set(alone)
        return sorted(found)


def data_of(rows: Sequence[Row], optional: frozenset[str] = frozenset()) -> ArrayData:
    """Return a data set."""
    schema = Schema(WITH_WEIGHTS, Adjacency.REPLACE_ONE, len(rows), 9, optional=optional)
    return ArrayData.from_values(
        schema, {name: [each[name] for each in rows] for name in WITH_WEIGHTS}
    )


def contributions(
    form: AdditiveForm, rows: Sequence[Row], optional: frozenset[str] = frozenset()
) -> list[Vector]:
    """Return what each row adds to the statistic."""
    nothing = form.total(data_of([], optional))
    return [
        tuple(a - b for a, b in zip(form.total(data_of([each], optional)), nothing, strict=True))
        for each in rows
    ]


def is_a_sum(form: AdditiveForm, rows: Sequence[Row]) -> bool:
    """Say whether the statistic of every two rows is the sum of what they add."""
    nothing = form.total(data_of([]))
    added = contributions(form, rows)
    pairs = combinations_with_replacement(range(len(rows)), 2)
    return all(
        form.total(data_of([rows[i], rows[j]]))
        == [c + a + b for c, a, b in zip(nothing, added[i], added[j], strict=True)]
        for i, j in pairs
    )


def largest_squared(changes: Sequence[Vector], norm: str, unit: int) -> Fraction:
    """Return the square of the largest norm, in scaled units."""
    if norm == "l2":
        return Fraction(max(sum(u * u for u in change) for change in changes), unit**2)
    size = sum if norm == "l1" else max
    return Fraction(max(size(map(abs, change)) for change in changes), unit) ** 2


def require_sensitivity(
    stated: Fraction, found: Fraction, *, tight: bool, nearly: bool = False
) -> None:
    """Assert that nothing found is above what is stated, and that it is reached where it must be.

    Raises
    ------
    AssertionError
        A change of one row is larger than stated, or the statement is larger than need be.
    """
    assert found <= stated, f"a row changes it by {found}, more than {stated}"
    if nearly:
        assert found >= stated * F(999, 1000), f"{stated} is not nearly reached: {found}"
    elif tight:
        assert found == stated, f"{stated} is not reached: {found}"


def cells() -> list[Row]:
    """Return a row of each group."""
    return [row(group=group) for group in "abc"]


def flagged() -> list[Row]:
    """Return a row of every cell of ``x``, with and without a flag."""
    return [{**row(x=x), "yes": yes} for x in (-0.5, 0.5) for yes in (0, 1)]


def points(values: Sequence[float], **others: Any) -> list[Row]:
    """Return rows at every pair of values."""
    return [row(x=x, y=y, **others) for x, y in product(values, repeat=2)]


def chosen() -> Iterator[Row]:
    """Yield rows that a filter takes, and some that it does not."""
    for group in "ac":
        yield from points(ENDS, group=group)


def weighed() -> Iterator[Row]:
    """Yield rows of every weight."""
    for w in (0.0, 2.0, 4.0):
        yield from points(ENDS, w=w)


_FINE = [row(x=k / 64) for k in range(-64, 65)]
_ROOT = frozenset({"l2"})
_SQUARES = frozenset({"l1", "linf", "optimal"})
_MOMENTS = frozenset({"linf", "optimal"})

QUESTIONS: tuple[Tried, ...] = (
    Tried(name="count", statistic=Count(where=SOME), rows=cells()),
    Tried(name="histogram", statistic=Histogram(columns=("group",)), rows=cells()),
    Tried(
        name="histogram, filtered",
        statistic=Histogram(columns=("group",), where=SOME),
        rows=cells(),
    ),
    Tried(
        name="kaplan_meier",
        statistic=KaplanMeier(time="x", event="yes", edges={"x": (-1, 0, 1)}),
        rows=flagged(),
    ),
    Tried(
        name="roc",
        statistic=Roc(score="x", label="yes", edges={"x": (-1, 0, 1)}),
        rows=flagged(),
    ),
    Tried(name="sum", statistic=Sum(columns=("x", "y")), rows=points(ENDS)),
    Tried(name="sum, filtered", statistic=Sum(columns=("x", "y"), where=SOME), rows=list(chosen())),
    Tried(
        name="sum, weighed", statistic=Sum(columns=("x", "y"), weights="w"), rows=list(weighed())
    ),
    Tried(name="mean", statistic=Mean(columns=("x", "y")), rows=points(ENDS)),
    Tried(
        name="mean, filtered", statistic=Mean(columns=("x", "y"), where=SOME), rows=list(chosen())
    ),
    Tried(
        name="mean, weighed", statistic=Mean(columns=("x", "y"), weights="w"), rows=list(weighed())
    ),
    Tried(
        name="variance",
        statistic=Variance(columns=("x",)),
        rows=_FINE,
        tight=_SQUARES,
        nearly=_ROOT,
    ),
    Tried(
        name="variance, weighed",
        statistic=Variance(columns=("x", "y"), weights="w"),
        rows=list(weighed()),
        tight=frozenset({"linf", "optimal"}),
    ),
    Tried(name="std", statistic=Std(columns=("x",)), rows=_FINE, tight=_SQUARES, nearly=_ROOT),
    Tried(
        name="variance of two columns",
        statistic=Variance(columns=("x", "y")),
        rows=points(QUARTERS),
        tight=_SQUARES,
    ),
    Tried(
        name="moments",
        statistic=Moments(columns=("x", "y")),
        rows=points(QUARTERS),
        tight=_MOMENTS,
    ),
    Tried(
        name="covariance",
        statistic=Covariance(columns=("x", "y")),
        rows=points(QUARTERS),
        tight=_MOMENTS,
    ),
    Tried(
        name="correlation",
        statistic=Correlation(columns=("x", "y")),
        rows=points(QUARTERS),
        tight=_MOMENTS,
    ),
)
