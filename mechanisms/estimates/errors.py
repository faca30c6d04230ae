"""The expected absolute error of each number of an answer, against the answer without noise.

*Known laws.* Where a plan states the law of its noise and the answer is linear in it, E|noise| is
read off the law.

*Sums with noise of a known law.* Answers computed from them, such as ratios and products, are
simulated. The simulation adds vectors of that noise to the sums of synthetic rows, in floats, and
computes all answers in one pass. Two samples are enough, because the errors depend only on the
moments of the rows.

*Fits and clamped values.* Most regressions, geometric medians and clamped answers are simulated in
floats too: a plan says how its own law moves the answer about synthetic rows, without an exact
draw. A row stands for several records, so about a thousand rows of one sample are enough.

*All others.* The simulation draws with the release's own plan, on several samples of synthetic
rows. It compares each draw with a draw at an epsilon of 10,000 on the same sample. One sample is
not enough: where values are far apart by chance, a quantile errs twice as much as elsewhere. A mean
of k absolute differences has a standard error of about 1 / sqrt(k): 8% for quantiles (160 draws on
160 samples), 9% for other quick laws (128 draws on 16 samples), and up to 25% for slow draws.

*Many rows.* These laws depend on epsilon times the number of rows: n rows at epsilon have the same
effect on a gradient, a loss or a perturbation as n / k rows at k epsilon. So at most a few thousand
rows are simulated, at a proportionally larger epsilon. Where an answer is itself one of the rows'
values, as a quantile is, few rows at a large epsilon would answer on too coarse a grid. There
epsilon grows to 1 at most, and the error is divided by the remaining factor.

*Groups.* All groups have the same law, each on its own rows. So groups of about one size are one
calculation: a data set of that size, with the neighbours and the epsilon of a group. Of sizes that
differ by less than a factor, one is simulated, and the errors of the others are in inverse
proportion to their sizes.

*Bounded time.* The plan's expected time determines the numbers of rows and draws. A plan that is
still too slow is estimated by objective perturbation of the same question, whose error is similar.
A release does not wait: 12 draws give the order of magnitude of its error (``COARSE``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import lru_cache, partial
from typing import cast

import numpy as np

from mechanisms.contract import ErrorsOn, InvalidStatisticError, Json, Plan
from mechanisms.estimates.asked import (
    Asked,
    Memory,
    columns_of,
    is_of_its_groups,
    is_simulated,
    one_group,
    relation_of,
    stored,
)
from mechanisms.estimates.assumptions import Assumptions
from mechanisms.estimates.closed_forms import errors_of_fit, errors_of_quantiles
from mechanisms.estimates.synthetic import SyntheticRows, drawn, synthetic_rows
from mechanisms.estimates.trees import mapped, mapped_arrays, numbers
from mechanisms.estimates.verdicts import Estimate
from mechanisms.exact.floats import Floats
from mechanisms.parted import parts_of
from mechanisms.privacy import MAX_EPSILON_NANOS, ONE_ROW, Epsilon
from mechanisms.statistics.facts.clipping import is_clipped
from mechanisms.statistics.questions import (
    Question,
    viewed,
)

ROWS = 4096
_ROWS = (ROWS, 1024, 256)
_ROWS_FITTED = (1024, 256)
_FIT_MS = 20.0
"""A draw that is expected to take longer is of a fit that reads rows slowly."""
_ROWS_ON_BOXES = (256,)
_ROWS_OF_VALUES = (1000,)
"""Of which most levels are whole numbers, as of most data sets' rows."""
_LEAST_DRAWS, _LEAST_ON_BOXES = 6, 4
_SIMULATED_MS = 2000.0
_FEW_DRAWS = 16
"""An estimate from fewer draws is coarse."""
_AT_ONCE_DRAWS = 128
_MANY_NUMBERS = 300
"""Of which one sample of rows is enough."""
_SIZED_ROWS = 4 * 4096
MOST_SIZES = 4
_STAND_IN = "objective_perturbation"
_OF_MOMENTS = ("functional", "gaussian")
_DESCRIBING = 6
"""The factor by which describing the noise prolongs a draw of moments."""
_BRIEFLY = 1 / 12
"""The share of that time for the numbers alone: a simulation does not describe the noise."""
_DIGITS = 3
_MOST_ERRORS = 0.95
_WITHOUT_NOISE = 1e9
"""Each row stands for as many records: ridge and noise weigh next to nothing."""
_EXPLAINED = (0.02, 0.8)
"""Shares of a variance that other columns explain, in populations to consider."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """How thoroughly errors are simulated: at most ``draws`` draws, on ``samples`` samples of rows.

    ``quantile_draws`` is the number of both for quantiles, where each draw has its own rows. A
    simulation exceeds ``few`` draws only within ``quick_ms``.
    """

    draws: int
    samples: int
    quantile_draws: int
    few: int
    quick_ms: float


FULL = Effort(draws=128, samples=16, quantile_draws=160, few=16, quick_ms=100.0)
COARSE = Effort(draws=12, samples=4, quantile_draws=12, few=6, quick_ms=25.0)


@dataclass(frozen=True, slots=True)
class ExpectedErrors:
    """The expected absolute error of each number, in the shape of the value, and how it was found.

    ``low`` and ``high`` are the least and the largest over several populations, where what is
    unknown of the records matters. ``bias`` is the largest share of an error that is bias.
    """

    mean: Json | None
    estimate: Estimate
    low: Json | None = None
    high: Json | None = None
    bias: float = 0.0


def expected_error(
    asked: Asked, plan: Plan, assumptions: Assumptions, effort: Effort = FULL
) -> ExpectedErrors:
    """Return the expected absolute error of each number, in the shape of the value."""
    if is_simulated(asked.statistic, asked.schema):
        found = _found(asked, assumptions, effort)
        estimate: Estimate = "coarse" if found.coarse else "simulated"
        if found.high is not None:
            return ExpectedErrors(
                found.mean,
                estimate if found.coarse else "approximated",
                found.low,
                found.high,
                found.bias,
            )
        others = _others(asked, plan, assumptions)
        if not others:
            return ExpectedErrors(found.mean, estimate, bias=found.bias)
        means = [found.mean, *(_found(asked, each, effort).mean for each in others)]
        return ExpectedErrors(
            found.mean, estimate, mapped(min, *means), mapped(max, *means), found.bias
        )
    noise = plan.preview(max(rows_met(asked, assumptions), 1))
    return ExpectedErrors(None if noise is None else noise.expected_error, "closed form")


def _others(asked: Asked, plan: Plan, assumptions: Assumptions) -> list[Assumptions]:
    """Return other populations to consider, of answers whose errors are quickly found.

    Columns of which nothing is stated are narrow in one, and columns that are related are so hardly
    or closely.
    """
    if plan.errors_on is None:
        return []
    wanted = viewed(asked.statistic, asked.schema)
    unstated = assumptions.unstated(stored(wanted, [*columns_of(wanted.statistic)]), asked.schema)
    found = [assumptions.narrowed(unstated, asked.schema)] if unstated else []
    if wanted.statistic.relation() is not None:
        # Fits hardly depend on features that explain next to nothing.
        shares = _EXPLAINED[1:] if _is_fitted(plan) else _EXPLAINED
        found += [replace(assumptions, r_squared=each) for each in shares]
    return found


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


def simulated_reach(asked: Asked, assumptions: Assumptions) -> float:
    """Return the 95% quantile of such errors: the largest over the answer's numbers."""
    return _found(asked, assumptions, FULL).reach


def simulating_ms(asked: Asked, assumptions: Assumptions) -> float:
    """Return about how many milliseconds its simulated draws take, from public facts."""
    if asked.plan().errors_on is not None:
        return 1.0
    size = _size(asked, assumptions, FULL)
    return max(size.draws * size.asked.plan().expected_ms, 1.0)


@dataclass(frozen=True, slots=True)
class _Found:
    """Mean errors, what 95% are within, and the least and largest means over populations.

    ``bias`` is the largest share of an error that is bias, where that is known.
    """

    mean: Json
    reach: float
    coarse: bool
    low: Json | None = None
    high: Json | None = None
    bias: float = 0.0


# Errors of this process, as the same question comes many times.
_KNOWN: Memory[_Found] = Memory(512)


def _found(asked: Asked, assumptions: Assumptions, effort: Effort) -> _Found:
    # repr holds every field, so fields that are added later also distinguish questions.
    text = f"{asked!r} {assumptions!r}"
    known = _KNOWN.get(f"{text} {FULL}") or _KNOWN.get(f"{text} {effort}")
    if known is None:
        grouped = getattr(asked.statistic, "by", ())
        known = (_of_groups if grouped else _simulated)(asked, assumptions, effort)
        _KNOWN.keep({f"{text} {effort}": known})
    return known


def _simulated(asked: Asked, assumptions: Assumptions, effort: Effort) -> _Found:
    plan = asked.plan()
    found = errors_of_fit(asked, plan, assumptions) or errors_of_quantiles(asked, plan, assumptions)
    if found is not None:
        low, mean, high = (mapped(_rounded, each) for each in (found.low, found.mean, found.high))
        return _Found(mean, found.reach, coarse=False, low=low, high=high, bias=found.bias)
    if plan.errors_on is not None:
        with suppress(np.linalg.LinAlgError):  # a fit may break down in floats
            return _at_once(asked, plan.errors_on, assumptions)
    size = _size(asked, assumptions, effort)
    plan = size.asked.plan()
    errors = list(_errors(asked, plan, size, assumptions))
    # The errors of all draws, number by number.
    reaches = mapped(lambda *each: _reached(np.array(each)) / size.divisor, *errors)
    return _Found(
        mapped(lambda *each: _rounded(sum(each) / len(each) / size.divisor), *errors),
        max((reach for _, reach in numbers(asked.shown(reaches))), default=0.0),
        size.draws < _FEW_DRAWS,
    )


def _at_once(asked: Asked, errors_on: ErrorsOn, assumptions: Assumptions) -> _Found:
    """Return the errors of answers that are simulated all at once."""
    relation = relation_of(viewed(asked.statistic, asked.schema))
    total = max(assumptions.rows_of(asked.schema), 1)
    count, samples = _rows_at_once(asked, total)
    means: list[Json] = []
    reach = 0.0
    for sample in range(samples):
        rows = synthetic_rows(asked.schema, assumptions, count, relation, sample=sample)
        errors = errors_on(rows.data, _AT_ONCE_DRAWS, rows.seed + b"errors", total / count)
        means.append(mapped_arrays(lambda each: float(each.sum()) / len(each), errors))
        reaches = mapped_arrays(_reached, errors)
        reach += max((each for _, each in numbers(asked.shown(reaches))), default=0.0) / samples
    bias = 0.0
    if asked.statistic.estimand() != asked.statistic and not is_clipped(asked.statistic):
        # of a loss that has an answer of its own; answers about clipped values say so themselves
        alone = errors_on(rows.data, 1, rows.seed + b"errors", _WITHOUT_NOISE)
        bias = _largest_share(mapped_arrays(lambda each: float(each[0]), alone), means[-1], asked)
    return _Found(
        mapped(lambda *each: _rounded(sum(each) / len(each)), *means),
        reach,
        coarse=False,
        bias=bias,
    )


def _largest_share(parts: Json, errors: Json, asked: Asked) -> float:
    """Return the largest share that a part has of its error."""
    shares = mapped(lambda part, error: min(part / error, 1.0) if error else 0.0, parts, errors)
    return max((each for _, each in numbers(asked.shown(shares))), default=0.0)


def _of_groups(asked: Asked, assumptions: Assumptions, effort: Effort) -> _Found:
    """Return the errors in all groups: simulated in some of them, from which the others follow."""
    wanted = viewed(asked.statistic, asked.schema)
    statistic = cast(Question, wanted.statistic)
    parting = statistic.parting(wanted.view.schema)
    rows = [
        max(assumptions.rows_of(asked.schema) * each, 1.0) for each in _shares(asked, assumptions)
    ]
    simulated: dict[int, tuple[_Found, float]] = {}
    lows = np.log2(rows)
    step = max(1.0, (lows.max() - lows.min() + 1e-9) / MOST_SIZES)
    places = ((lows - lows.min()) / step).astype(int)
    for place in dict.fromkeys(places.tolist()):
        typical = float(np.exp2(np.mean(lows[places == place])))
        one = one_group(asked)
        found = _found(one, replace(assumptions, rows=max(round(typical), 1)), effort)
        simulated[place] = found, typical
    reach, factors = 0.0, []
    for place, own in zip(places.tolist(), rows, strict=True):
        found, typical = simulated[place]
        factors.append((found, typical / own))
        reach = max(reach, typical / own * found.reach)

    def grouped(part: Callable[[_Found], Json | None]) -> Json | None:
        """Return a tree of each group's, in proportion to its size."""
        values = []
        for (found, factor), by in zip(factors, parting.labels, strict=True):
            own = part(found)
            if own is None:
                return None
            values.append({"by": dict(by), "value": mapped(partial(_scaled, factor), own)})
        return {"groups": values}

    every = [found for found, _ in simulated.values()]
    return _Found(
        cast(Json, grouped(lambda found: found.mean)),
        reach,
        any(found.coarse for found in every) or is_of_its_groups(wanted),
        grouped(lambda found: found.low),
        grouped(lambda found: found.high),
        max(found.bias for found in every),
    )


def _scaled(factor: float, error: float) -> float:
    return _rounded(factor * error)


def _shares(asked: Asked, assumptions: Assumptions) -> list[float]:
    """Return the share of the assumed rows in each group, whether they meet conditions or not."""
    wanted = viewed(asked.statistic, asked.schema)
    statistic = replace(cast(Question, wanted.statistic), where=())
    sample = synthetic_rows(asked.schema, assumptions, _SIZED_ROWS, None)
    parts = parts_of(wanted.view.over(sample.data), statistic.parting(wanted.view.schema))
    return [part.rows / _SIZED_ROWS for part in parts]


def _errors(asked: Asked, plan: Plan, size: _Size, assumptions: Assumptions) -> Iterator[Json]:
    """Yield the absolute errors of each draw, in the shape of the value."""
    samples = _samples_of(asked, size, assumptions)
    for sample in range(size.samples):
        rows, exact = samples[sample]
        for turn in range(sample, size.draws, size.samples):
            value = drawn(plan, rows, turn).value
            yield mapped(lambda one, true: abs(one - true), value, exact)


@dataclass(frozen=True, slots=True)
class _Sampling:
    """The key of numbered samples of ``rows`` rows each; ``text`` identifies it (no epsilon)."""

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


def _reached(errors: Floats) -> float:
    """Return what 95% of errors are within; ``np.quantile`` takes ten times as long for so few."""
    place = _MOST_ERRORS * (len(errors) - 1)
    below, above = np.sort(errors)[[int(place), -int(-place // 1)]]
    return float(below + (place % 1) * (above - below))


def _rounded(number: float) -> float:
    return float(f"{number:.{_DIGITS}g}")


def _sure(asked: Asked) -> Asked:
    """Return the same question with nearly no noise, and without the bias of its loss."""
    asked = replace(asked, statistic=asked.statistic.estimand())
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
    """How a question is simulated: ``draws`` draws in total, on ``samples`` samples of rows.

    ``divisor`` is the factor by which the simulated errors are too large.
    """

    asked: Asked
    rows: int
    samples: int
    draws: int
    divisor: float


def _is_tried_in_time(asked: Asked, assumptions: Assumptions) -> bool:
    """Return whether this very plan can be simulated in bounded time."""
    return _fitting(asked, assumptions)[1] * _LEAST_DRAWS <= _SIMULATED_MS


def _fitting(asked: Asked, assumptions: Assumptions) -> tuple[int, float]:
    """Return how many rows are simulated, and about how many milliseconds a draw then takes."""
    total = max(assumptions.rows_of(asked.schema), 1)
    for most in _rows_tried(asked):
        count = min(total, most)
        expected_ms = asked.on(count).plan().expected_ms
        if _describes(asked):
            expected_ms *= _DESCRIBING
        if expected_ms * _LEAST_DRAWS <= _SIMULATED_MS:
            break
    return count, expected_ms


def _describes(asked: Asked) -> bool:
    """Return whether a draw simulates the noise of what is computed from moments."""
    return asked.mechanism in _OF_MOMENTS and asked.plan().time_depends_on_data


def _rows_tried(asked: Asked) -> tuple[int, ...]:
    if asked.plan().drawn_on_boxes:
        return _ROWS_ON_BOXES
    return _ROWS_OF_VALUES if asked.statistic.lies_among_values else _ROWS


def _size(asked: Asked, assumptions: Assumptions, effort: Effort) -> _Size:
    """Return how a question is simulated in bounded time: by public facts alone."""
    total = max(assumptions.rows_of(asked.schema), 1)
    if not _is_tried_in_time(asked, assumptions):
        asked = _stand_in(asked) or asked
    count, expected_ms = _fitting(asked, assumptions)
    # Fewer rows at a larger epsilon: the product is what errors follow from.
    wanted = asked.epsilon.fraction * total / count
    most_epsilon = Fraction(MAX_EPSILON_NANOS, 10**9)
    if asked.statistic.lies_among_values:
        most_epsilon = max(asked.epsilon.fraction, Fraction(1))
    # What epsilon could not grow to, the errors are divided by.
    taken = min(wanted, most_epsilon)
    if _describes(asked):
        expected_ms *= _BRIEFLY
    draws = _draws(asked, expected_ms, effort)
    samples = effort.quantile_draws if asked.statistic.rows_for_each_draw else effort.samples
    if asked.plan().drawn_on_boxes:
        samples = 1  # what is true of a sample takes about as long as a draw
    return _Size(
        asked=asked.on(count).at(taken),
        rows=count,
        samples=min(samples, draws),
        draws=draws,
        divisor=float(wanted / taken),
    )


def _is_fitted(plan: Plan) -> bool:
    """Return whether answers that are simulated at once are fits, which read rows many times."""
    return plan.errors_on is not None and plan.time_depends_on_data


def _rows_at_once(asked: Asked, total: int) -> tuple[int, int]:
    """Return how many rows and samples there are for answers that are simulated at once."""
    plan = asked.plan()
    if _is_fitted(plan):
        count = min(total, _ROWS_FITTED[0])
        if plan.drawn_on_boxes:  # and simulated quickly: in a sample values may be far apart
            return count, 2
        slow = asked.on(count).plan().expected_ms > _FIT_MS
        return min(total, _ROWS_FITTED[1]) if slow else count, 1
    columns = getattr(asked.statistic, "columns", ())
    return min(total, ROWS), 1 if len(columns) ** 2 > _MANY_NUMBERS else 2


def _draws(asked: Asked, expected_ms: float, effort: Effort) -> int:
    """Return the number of draws, where each takes ``expected_ms`` milliseconds."""
    plan = asked.plan()
    each = max(expected_ms, 1.0) * plan.slowness
    fewest = _LEAST_ON_BOXES if plan.drawn_on_boxes else _LEAST_DRAWS
    least = min(max(int(_SIMULATED_MS / each), fewest), effort.few)
    most = effort.quantile_draws if asked.statistic.rows_for_each_draw else effort.draws
    return min(max(int(effort.quick_ms / each), least), most)
