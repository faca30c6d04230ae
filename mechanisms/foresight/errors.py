"""The expected absolute error of each number of an answer, against the answer without noise.

*Known laws.* Where a plan states the law of its noise and the answer is linear in it, E|noise| is
read off the law.

*All others.* The very plan is drawn again and again, on one sample of synthetic rows after
another, and compared with what a draw at an epsilon of 10,000 finds there. One sample would not
do: where values lie far apart by chance, a quantile errs twice as much as elsewhere. A mean of k
absolute differences has a standard error of about 1 / sqrt(k): 8% for quantiles, of 160 draws on
160 samples, 9% for other quick laws, of 128 on 16, and up to 25% for what takes long to draw.

*Many rows.* What counts for these laws is epsilon times the rows: a gradient, a loss or a
perturbation of n rows at epsilon weighs what n / k rows weigh at k epsilon. So at most a few
thousand rows are simulated, at an epsilon as much larger. Where an answer is itself one of the
rows' values, as a quantile is, few rows at a large epsilon would answer on too coarse a grid; there
epsilon grows to 1 at most, and the error is divided by what is left.

*Bounded time.* How many rows and draws follows from the plan's expected time. An offer that would
still take too long is reckoned by objective perturbation of the same question, whose error is near.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import lru_cache
from math import ceil
from typing import cast

import numpy as np

from mechanisms.contract import InvalidStatisticError, Json, Plan, Statistic
from mechanisms.domain import Schema
from mechanisms.foresight.assumptions import Assumptions
from mechanisms.foresight.memory import Memory
from mechanisms.foresight.synthetic import Relation, SyntheticRows, drawn, synthetic_rows
from mechanisms.foresight.trees import mapped, numbers
from mechanisms.parted import parts_of
from mechanisms.privacy import MAX_EPSILON_NANOS, ONE_ROW, Adjacency, Epsilon, PrivacyLoss
from mechanisms.single import SINGLE_MECHANISMS, calibrate_by
from mechanisms.statistics.questions import (
    Question,
    Viewed,
    viewed,
)

_LINEAR = frozenset({"count", "histogram", "sum"})
"""Kinds whose answers are linear in noise of a known law."""
_LINEAR_OF_KNOWN_ROWS = frozenset({"mean", "moments"})
"""Kinds whose answers are, too, where a number of rows that is public divides them."""
ADDITIVE = frozenset({"mean", "variance", "std", "moments", "covariance", "correlation"})
"""Kinds that are made of sums with noise of a known law: fewer draws tell enough of them."""
_RELATED = frozenset({"correlation", "covariance", "moments"})
_QUANTILE = "quantile"
_OF_VALUES = frozenset({_QUANTILE, "quantile_regression"})
"""Kinds whose answers lie among the rows' values."""

_ROWS = (4096, 1024, 256)
_ROWS_ON_BOXES = (1024, 256)
_ROWS_OF_VALUES = (1000,)
"""Of which most levels are whole numbers, as of most data sets' rows."""
_MOST_DRAWS, _LEAST_DRAWS = 128, 6
_SAMPLES = 16
_QUANTILE_DRAWS = 160
_SIMULATED_MS = 2000.0
_QUICK_MS = 250.0
"""More draws than the fewest that do are made in this time alone."""
_FEW_DRAWS = 16
_STAND_IN = "objective_perturbation"
_MOMENTS = "functional"
_DESCRIBING = 6
"""As many times longer a draw of moments takes with the description of its noise."""
_BRIEFLY = 1 / 12
"""The part of that which the numbers take alone; noise that nobody reads is not described."""
_DIGITS = 3
_MOST_ERRORS = 0.95


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A question as it is drawn: everything that its error depends on."""

    statistic: Statistic
    schema: Schema
    epsilon: PrivacyLoss
    mechanism: str
    norm: str
    inference: Fraction | None = None
    """The share of epsilon that standard errors take, where they are wanted."""

    def plan(self) -> Plan:
        """Return the plan of its numbers, standard errors apart."""
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
        # Rounded up: a tiny share must not become no epsilon at all.
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


def simulated_error(asked: Asked, assumptions: Assumptions) -> Json:
    """Return the mean absolute error of draws on synthetic rows; the last ones are remembered."""
    return _found(asked, assumptions).mean


def simulated_reach(asked: Asked, assumptions: Assumptions) -> float:
    """Return what 95% of such errors are within: of the number for which that is most."""
    return _found(asked, assumptions).reach


def simulated_truths(asked: Asked, assumptions: Assumptions) -> list[Json]:
    """Return the answers without noise of the samples that errors are simulated on."""
    samples = _samples_of(asked, _size(asked, assumptions), assumptions)
    return [samples[sample][1] for sample in range(_SAMPLES)]


def simulating_ms(asked: Asked, assumptions: Assumptions) -> float:
    """Return about how many milliseconds its draws take that are simulated, by public facts."""
    size = _size(asked, assumptions)
    return max(size.draws * size.asked.plan().expected_ms, 1.0)


@dataclass(frozen=True, slots=True)
class _Found:
    mean: Json
    reach: float


# Errors of this process, as the same question comes many times.
_KNOWN: Memory[_Found] = Memory(512)


def _found(asked: Asked, assumptions: Assumptions) -> _Found:
    # By repr, which holds every field: one that is added later tells questions apart as well.
    text = f"{asked!r} {assumptions!r}"
    known = _KNOWN.get(text)
    if known is None:
        known = _simulated(asked, assumptions)
        _KNOWN.keep({text: known})
    return known


def _simulated(asked: Asked, assumptions: Assumptions) -> _Found:
    size = _size(asked, assumptions)
    errors = list(_errors(asked, size, assumptions))
    # The errors of all draws, number by number.
    reaches = mapped(lambda *each: float(np.quantile(each, _MOST_ERRORS)) / size.divisor, *errors)
    return _Found(
        mapped(lambda *each: _rounded(sum(each) / len(each) / size.divisor), *errors),
        max((reach for _, reach in numbers(reaches)), default=0.0),
    )


def _errors(asked: Asked, size: _Size, assumptions: Assumptions) -> Iterator[Json]:
    """Yield the absolute errors of each draw, in the shape of the value."""
    plan, samples = size.asked.plan(), _samples_of(asked, size, assumptions)
    for sample in range(size.samples):
        rows, exact = samples[sample]
        for turn in range(sample, size.draws, size.samples):
            value = drawn(plan, rows, turn).value
            yield mapped(lambda one, true: abs(one - true), value, exact)


@dataclass(frozen=True, slots=True)
class _Sampling:
    """Samples of so many rows and what is true of them, as a text and as it is: no epsilon is."""

    text: str
    asked: Asked = field(compare=False)
    rows: int = field(compare=False)
    sure: Asked = field(compare=False)
    assumptions: Assumptions = field(compare=False)


class _Samples(dict[int, tuple[SyntheticRows, Json]]):
    """Numbered samples and the answers without noise, each made when it is first read."""

    def __init__(self, sampling: _Sampling) -> None:
        self._sampling = sampling
        self._relation = relation_of(viewed(sampling.asked.statistic, sampling.asked.schema))
        self._plan = sampling.sure.plan()

    def __missing__(self, sample: int) -> tuple[SyntheticRows, Json]:
        given = self._sampling
        rows = synthetic_rows(
            given.asked.schema, given.assumptions, given.rows, self._relation, sample=sample
        )
        # Turns of the question itself are counted from 0: this one shares no bits with them.
        self[sample] = rows, drawn(self._plan, rows, -1).value
        return self[sample]


def _samples_of(asked: Asked, size: _Size, assumptions: Assumptions) -> _Samples:
    sure = _sure(size.asked)
    text = f"{asked.schema!r} {size.rows} {sure!r} {assumptions!r}"
    return _samples(_Sampling(text, asked, size.rows, sure, assumptions))


# Every epsilon and nearly every mechanism is tried on the same samples, in two populations.
@lru_cache(maxsize=4)
def _samples(sampling: _Sampling) -> _Samples:
    return _Samples(sampling)


def _rounded(number: float) -> float:
    return float(f"{number:.{_DIGITS}g}")


def _sure(asked: Asked) -> Asked:
    """Return the same question with nearly no noise."""
    sure = _stand_in(asked) or asked
    return replace(
        sure,
        # At the largest epsilon there is: no part of it is for a person's other rows.
        schema=replace(sure.schema, protects=ONE_ROW),
        epsilon=Epsilon(MAX_EPSILON_NANOS),
    )


def _stand_in(asked: Asked) -> Asked | None:
    """Return the same question by objective perturbation; None where it is not offered."""
    if _STAND_IN not in asked.statistic.mechanisms:
        return None
    other = replace(asked, mechanism=_STAND_IN, norm="auto")
    try:
        other.plan()
    except InvalidStatisticError:  # as with a ridge, which it sets itself
        return None
    return other


@dataclass(frozen=True, slots=True, kw_only=True)
class _Size:
    """How a question is simulated: by so many draws in all, on so many samples of rows.

    ``divisor`` is what its errors are too large by.
    """

    asked: Asked
    rows: int
    samples: int
    draws: int
    divisor: float


def is_tried_in_time(asked: Asked, assumptions: Assumptions) -> bool:
    """Return whether this very plan can be simulated in bounded time."""
    return _fitting(asked, assumptions)[1] * _LEAST_DRAWS <= _SIMULATED_MS


def _fitting(asked: Asked, assumptions: Assumptions) -> tuple[int, float]:
    """Return how many rows are simulated, and about how many milliseconds a draw then takes."""
    total = max(assumptions.rows_of(asked.schema), 1)
    for most in _rows_tried(asked):
        count = min(total, most)
        expected_ms = asked.on(count).plan().expected_ms
        if asked.mechanism == _MOMENTS:
            expected_ms *= _DESCRIBING
        if expected_ms * _LEAST_DRAWS <= _SIMULATED_MS:
            break
    return count, expected_ms


def _rows_tried(asked: Asked) -> tuple[int, ...]:
    if asked.plan().drawn_on_boxes:
        return _ROWS_ON_BOXES
    return _ROWS_OF_VALUES if asked.statistic.kind in _OF_VALUES else _ROWS


def _size(asked: Asked, assumptions: Assumptions) -> _Size:
    """Return how a question is simulated in bounded time: by public facts alone."""
    total = max(assumptions.rows_of(asked.schema), 1)
    if not is_tried_in_time(asked, assumptions):
        asked = _stand_in(asked) or asked
    # Fewer rows at a larger epsilon: the product is what errors follow from.
    count, expected_ms = _fitting(asked, assumptions)
    wanted = asked.epsilon.fraction * total / count
    most_epsilon = Fraction(MAX_EPSILON_NANOS, 10**9)
    if asked.statistic.kind in _OF_VALUES:
        most_epsilon = max(asked.epsilon.fraction, Fraction(1))
    # What epsilon could not grow to, the errors are divided by.
    taken = min(wanted, most_epsilon)
    if asked.mechanism == _MOMENTS and not getattr(asked.statistic, "by", ()):
        expected_ms *= _BRIEFLY
    draws = _draws(asked, expected_ms)
    samples = _QUANTILE_DRAWS if asked.statistic.kind == _QUANTILE else _SAMPLES
    return _Size(
        asked=asked.on(count).at(taken),
        rows=count,
        samples=min(samples, draws),
        draws=draws,
        divisor=float(wanted / taken),
    )


def _draws(asked: Asked, expected_ms: float) -> int:
    """Return how many draws are made, of so many milliseconds each."""
    each = max(expected_ms, 1.0)
    least = min(max(int(_SIMULATED_MS / each), _LEAST_DRAWS), _FEW_DRAWS)
    most = _QUANTILE_DRAWS if asked.statistic.kind == _QUANTILE else _MOST_DRAWS
    return min(max(int(_QUICK_MS / each), least), most)


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
