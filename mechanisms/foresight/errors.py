"""The expected absolute error of each number of an answer, against the answer without noise.

*Known laws.* Where a plan states the law of its noise and the answer is linear in it, E|noise| is
read off the law.

*All others.* The very plan is drawn again and again on synthetic rows, and compared with what a
draw at an epsilon of 10,000 finds there. Mean absolute differences of 16 to 32 draws are right
to about 20%.

*Many rows.* What counts for these laws is epsilon times the rows: a gradient, a loss or a
perturbation of n rows at epsilon weighs what n / k rows weigh at k epsilon. So at most a few
thousand rows are simulated, at an epsilon as much larger. Where an answer is itself one of the
rows' values, as a quantile is, few rows at a large epsilon would answer on too coarse a grid; there
epsilon grows to 1 at most, and the error is divided by what is left.

*Bounded time.* How many rows and draws follows from the plan's expected time. An offer that would
still take too long is reckoned by objective perturbation of the same question, whose error is near.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil
from typing import cast

from mechanisms.contract import Json, Plan, Statistic
from mechanisms.domain import Schema
from mechanisms.foresight.assumptions import Assumptions
from mechanisms.foresight.synthetic import Relation, SyntheticRows, drawn, synthetic_rows
from mechanisms.foresight.trees import mapped
from mechanisms.parted import parts_of
from mechanisms.privacy import MAX_EPSILON_NANOS, ONE_ROW, Adjacency, Epsilon, PrivacyLoss
from mechanisms.single import SINGLE_MECHANISMS, calibrate_by
from mechanisms.statistics.questions import (
    Question,
    Viewed,
    offered_mechanisms,
    viewed,
)

_LINEAR = frozenset({"count", "histogram", "sum"})
"""Kinds whose answers are linear in noise of a known law."""
_LINEAR_OF_KNOWN_ROWS = frozenset({"mean", "moments"})
"""Kinds whose answers are, too, where a number of rows that is public divides them."""
ADDITIVE = frozenset({"mean", "variance", "std", "moments", "covariance", "correlation"})
"""Kinds that are made of sums with noise of a known law: fewer draws tell enough of them."""
_RELATED = frozenset({"correlation", "covariance", "moments"})
_OF_VALUES = frozenset({"quantile", "quantile_regression"})
"""Kinds whose answers lie among the rows' values."""

_ROWS = (4096, 1024, 256)
_ROWS_ON_BOXES = (1024, 256)
_MOST_DRAWS, _LEAST_DRAWS, _ADDITIVE_DRAWS = 32, 6, 16
_SIMULATED_MS = 2000.0
_STAND_IN = "objective_perturbation"
_DIGITS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A question as it is drawn: everything that its error depends on."""

    statistic: Statistic
    schema: Schema
    epsilon: PrivacyLoss
    mechanism: str
    norm: str

    def plan(self) -> Plan:
        """Return its plan."""
        return calibrate_by(
            SINGLE_MECHANISMS,
            self.statistic,
            self.schema,
            self.epsilon,
            mechanism=self.mechanism,
            norm=self.norm,
        )

    def on(self, rows: int) -> Asked:
        """Return the same question about a data set of so many rows."""
        if self.schema.adjacency is Adjacency.REPLACE_ONE:
            return replace(self, schema=replace(self.schema, rows=rows))
        return replace(self, schema=replace(self.schema, max_rows=rows))

    def at(self, epsilon: Fraction) -> Asked:
        """Return the same question at another epsilon, to the next billionth above."""
        nanos = min(max(ceil(epsilon * 10**9), 1), MAX_EPSILON_NANOS)
        return replace(self, epsilon=Epsilon(nanos))


def is_simulated(statistic: Statistic, schema: Schema) -> bool:
    """Return whether the error of an answer takes a simulation.

    Of a ratio or a product a plan states the widest noise there can be, which is no expectation.
    """
    if statistic.kind in _LINEAR:
        return False
    known = schema.known_rows is not None and getattr(statistic, "weights", None) is None
    if isinstance(statistic, Question) and not statistic.is_of_all_rows:
        known = False
    return not (known and statistic.kind in _LINEAR_OF_KNOWN_ROWS)


def expected_error(asked: Asked, plan: Plan, assumptions: Assumptions) -> Json | None:
    """Return the expected absolute error of each number, in the shape of the value."""
    if is_simulated(asked.statistic, asked.schema):
        return simulated_error(asked, assumptions)
    noise = plan.preview(max(rows_met(asked, assumptions), 1))
    return None if noise is None else noise.expected_error


def rows_met(asked: Asked, assumptions: Assumptions) -> int:
    """Return how many of the assumed rows meet the question's conditions."""
    rows = assumptions.rows_of(asked.schema)
    wanted = viewed(asked.statistic, asked.schema)
    if not (isinstance(wanted.statistic, Question) and wanted.statistic.where):
        return rows
    sample = synthetic_rows(asked.schema, assumptions, _ROWS[0], None)
    conditions = replace(wanted.statistic, by=()).parting(wanted.view.schema)
    (part,) = parts_of(wanted.view.over(sample.data), conditions)
    return round(rows * part.rows / _ROWS[0])


def simulated_error(asked: Asked, assumptions: Assumptions) -> Json | None:
    """Return the mean absolute error of draws on synthetic rows; None where none could be made."""
    size = _size(asked, assumptions)
    plan = size.asked.plan()
    exact = _exact(size.asked, size.rows)
    draws = [drawn(plan, size.rows, turn).value for turn in range(size.draws)]
    errors = [mapped(lambda one, true: abs(one - true), draw, exact) for draw in draws]
    return mapped(lambda *each: _rounded(sum(each) / len(each) / size.divisor), *errors)


def _rounded(number: float) -> float:
    return float(f"{number:.{_DIGITS}g}")


def _exact(asked: Asked, rows: SyntheticRows) -> Json:
    """Return the answer to the same question without noise, nearly."""
    offered = offered_mechanisms(asked.statistic)
    mechanism = _STAND_IN if _STAND_IN in offered else asked.mechanism
    norm = asked.norm if mechanism == asked.mechanism else "auto"
    sure = replace(
        asked,
        schema=replace(asked.schema, protects=ONE_ROW),
        mechanism=mechanism,
        norm=norm,
        epsilon=Epsilon(MAX_EPSILON_NANOS),
    )
    return drawn(sure.plan(), rows, -1).value


@dataclass(frozen=True, slots=True, kw_only=True)
class _Size:
    """How a question is simulated; ``divisor`` is what its errors are too large by."""

    asked: Asked
    rows: SyntheticRows
    draws: int
    divisor: float


def _size(asked: Asked, assumptions: Assumptions) -> _Size:
    """Return how a question is simulated in bounded time: by public facts alone."""
    total = max(assumptions.rows_of(asked.schema), 1)
    for most in _ROWS_ON_BOXES if asked.plan().drawn_on_boxes else _ROWS:
        count = min(total, most)
        smaller = asked.on(count)
        expected_ms = smaller.plan().expected_ms
        if expected_ms * _LEAST_DRAWS <= _SIMULATED_MS:
            break
    else:
        if _STAND_IN in offered_mechanisms(asked.statistic) and asked.mechanism != _STAND_IN:
            return _size(replace(asked, mechanism=_STAND_IN, norm="auto"), assumptions)
    most_draws = _ADDITIVE_DRAWS if asked.statistic.kind in ADDITIVE else _MOST_DRAWS
    wanted = asked.epsilon.fraction * total / count
    most_epsilon = Fraction(MAX_EPSILON_NANOS, 10**9)
    if asked.statistic.kind in _OF_VALUES:
        most_epsilon = max(asked.epsilon.fraction, Fraction(1))
    taken = min(wanted, most_epsilon)
    relation = relation_of(viewed(asked.statistic, asked.schema))
    return _Size(
        asked=smaller.at(taken),
        rows=synthetic_rows(asked.schema, assumptions, count, relation),
        draws=int(min(max(_SIMULATED_MS / max(expected_ms, 1.0), _LEAST_DRAWS), most_draws)),
        divisor=float(wanted / taken),
    )


def relation_of(asked: Viewed[Statistic]) -> Relation | None:
    """Return which stored column a question's others explain; None where none needs to."""
    wanted = getattr(asked.statistic, "target", None)
    features = [str(each) for each in getattr(asked.statistic, "features", ())]
    if asked.statistic.kind in _RELATED:
        *features, wanted = cast(tuple[str, ...], getattr(asked.statistic, "columns", ()))
    target = [] if wanted is None else _stored(asked, [getattr(wanted, "column", wanted)])
    if not target:
        return None
    features = _stored(asked, features)
    return Relation(
        target=target[0], features=tuple(each for each in features if each != target[0])
    )


def _stored(asked: Viewed[Statistic], names: list[str]) -> list[str]:
    """Return the stored columns that these are made of."""
    added = asked.view.added
    reads = [*names, *(each for name in asked.view.needed(names) for each in added[name].reads)]
    return [
        name
        for name in dict.fromkeys(reads)
        if name in asked.view.schema.columns and name not in added
    ]
