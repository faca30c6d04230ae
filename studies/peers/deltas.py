"""Linear regressions of ours next to methods that need a delta: AdaSSP, NoisyGD and TukeyEM.

Ours are what ``auto`` takes for an account without a delta, which guarantees more at the same
epsilon, objective perturbation in the same account, and moments with Gaussian noise in one with the
delta. A method that is tuned on the answer is compared with ours tuned likewise: by Huber's
threshold. Errors are distances to least squares of the same rows, in units where all columns fill
[-1, 1].
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import cast

import numpy as np

from mechanisms.accounting import RHO_UNIT, total_units
from mechanisms.catalog import calibrate
from mechanisms.derivations import Released, derive
from mechanisms.domain import Schema
from mechanisms.privacy import Epsilon
from mechanisms.randomness import system_randomness
from mechanisms.sketches import ArrayData
from mechanisms.statistics.linear_regression import LinearRegression
from mechanisms.statistics.moments import Moments
from studies.peers.cells import REPLACE, Cell, Values
from studies.peers.comparing import count
from studies.peers.measures import MOST_ERROR, Ratio, distance, ratio, summary
from studies.peers.published.estimates import (
    PLAIN,
    Draw,
    Rows,
    adaptive_moments,
    deep_model,
    tuned_descent,
)
from studies.peers.published.methods import DELTA
from studies.peers.regressions import fitted, replaced
from studies.peers.simple import SEED
from studies.peers.urban import STUDIES, Study

EPSILONS = ("1", "4")
BOUND_OF_FILES = 5.0
"""That of the regressions of :mod:`studies.peers.urban`: both files' coefficients are within it."""
OURS = "ours"
PERTURBED, GAUSSIAN = "ours, objective perturbation", "ours, moments with Gaussian noise"
TUNED = "tuned on the answer"
_THRESHOLDS = (0.5, 0.25, 0.125)
_TRIALS = 10
_DRAWS, _MANY_ROWS = 100, 50_000


@dataclass(frozen=True, slots=True, kw_only=True)
class WithDelta:
    """Errors of a method in one cell; a draw without an answer counts as zeros.

    ``delta`` is that of its guarantee, 0 for a pure one.
    """

    cell: str
    rows: int
    coefficients: int
    epsilon: str
    method: str
    delta: float
    replicate_count: int
    unanswered: int
    error_mean: float
    error_se: float
    ms: float


def cells() -> Iterator[Cell]:
    """Yield the designs, then the two files with their columns moved to [-1, 1]."""
    yield from replaced()
    for study in STUDIES:
        yield _of_file(study)


def _of_file(study: Study) -> Cell:
    table = study.table()
    scaled = {
        name: 2 * (np.array(values) - low) / (high - low) - 1
        for (name, values), (low, high) in ((pair, study.bounds[pair[0]]) for pair in table.items())
    }
    sample = np.column_stack([scaled[name] for name in study.features]), scaled[study.target]
    cell = fitted(f"linear, {study.name}", "a file", sample, adjacency=REPLACE, peers=())
    return replace(cell, question=replace(_linear(cell), bound=BOUND_OF_FILES))


def epsilon_in_zcdp(epsilon: str, delta: float) -> Epsilon:
    """Return the epsilon whose pure draw costs an account all that its epsilon and delta allow.

    >>> epsilon_in_zcdp("1", 1e-6).fraction < Fraction(1, 4)
    True
    """
    rho = total_units(Fraction(epsilon), Fraction(repr(delta))) * RHO_UNIT
    return Epsilon.parse(f"{math.floor(math.sqrt(2 * rho) * 1e9) / 1e9:.9f}")


def with_delta(*, quick: bool, only: str = "") -> Iterator[WithDelta]:
    """Yield a row for each cell, epsilon and method, ours first."""
    for cell in cells():
        if only not in cell.name:
            continue
        draws = count(_DRAWS // (4 if cell.rows > _MANY_ROWS else 1), quick=quick)
        data = ArrayData.from_values(cell.schema, cell.values)
        for epsilon in EPSILONS:
            one = replace(cell, epsilon=epsilon)
            yield measured(one, OURS, 0.0, _plain(one, data, "auto"), draws)
            perturbed = _plain(one, data, "objective_perturbation")
            yield measured(one, PERTURBED, 0.0, perturbed, draws)
            yield measured(one, f"ours, {TUNED}", 0.0, _tuned(one, data), draws)
            yield measured(one, GAUSSIAN, DELTA, _moments(one, data), draws)
            for name, draw in _theirs(one).items():
                yield measured(one, name, DELTA, draw, draws)


Answer = Callable[[], Sequence[float] | None]


def measured(cell: Cell, method: str, delta: float, draw: Answer, draws: int) -> WithDelta:
    """Return the errors of that many draws."""
    nothing = [0.0] * len(cell.truth)
    errors, spent_ms, unanswered = [], [], 0
    for _ in range(draws):
        begin_s = time.process_time()
        found = draw()
        spent_ms.append(1000 * (time.process_time() - begin_s))
        unanswered += found is None
        errors.append(distance(nothing if found is None else found, cell.truth))
    summed = summary(errors, spent_ms)
    return WithDelta(
        cell=cell.name,
        rows=cell.rows,
        coefficients=len(cell.truth),
        epsilon=cell.epsilon,
        method=method,
        delta=delta,
        replicate_count=draws,
        unanswered=unanswered,
        error_mean=summed.error_mean,
        error_se=summed.error_se,
        ms=summed.ms,
    )


def _plain(cell: Cell, data: ArrayData, mechanism: str) -> Answer:
    epsilon = Epsilon.parse(cell.epsilon)
    plan = calibrate(cell.question, cell.schema, epsilon, mechanism=mechanism)
    return lambda: cell.read(plan.draw(data, system_randomness()).value)


def _linear(cell: Cell) -> LinearRegression:
    return cast(LinearRegression, cell.question)


def _tuned(cell: Cell, data: ArrayData) -> Answer:
    """Return Huber's loss with the threshold that is nearest to the truth in a few draws."""
    tried = []
    for threshold in _THRESHOLDS:
        question = replace(_linear(cell), loss="huber", threshold=threshold)
        one = replace(cell, question=question)
        draw = _plain(one, data, "objective_perturbation")
        found = [distance(draw() or [], cell.truth) for _ in range(_TRIALS)]
        tried.append((float(np.mean(found)), draw))
    return min(tried, key=lambda each: each[0])[1]


def _moments(cell: Cell, data: ArrayData) -> Answer:
    """Return a function that releases Gaussian moments and derives the regression of them."""
    schema: Schema = replace(cell.schema, zcdp=True)
    asked, epsilon = Moments(columns=tuple(cell.columns)), epsilon_in_zcdp(cell.epsilon, DELTA)
    plan = calibrate(asked, schema, epsilon, mechanism="gaussian")

    def draw() -> list[float]:
        outcome = plan.draw(data, system_randomness())
        released = Released(
            statistic=asked,
            mechanism=plan.mechanism,
            norm=plan.norm,
            epsilon=epsilon,
            value=outcome.value,
            noise=outcome.noise,
            details=plan.details,
        )
        return cell.read(derive(cell.question, released, schema).value)

    return draw


def _theirs(cell: Cell) -> Mapping[str, Answer]:
    rng = np.random.default_rng(SEED)
    names = [name for name in cell.columns if name != "y"]
    ones = np.ones(cell.rows)
    rows = Rows(
        design=np.column_stack([ones, *(cell.plain[name] for name in names)]),
        target=np.array(cell.plain["y"]),
        length=math.sqrt(len(names) + 1),
        epsilon=float(cell.epsilon),
        delta=DELTA,
    )
    truth: Values = np.array(cell.truth)
    methods: Mapping[str, Draw] = {
        "AdaSSP": adaptive_moments,
        "NoisyGD": PLAIN,
        f"NoisyGD, {TUNED}": tuned_descent(rows, truth, rng),
        "TukeyEM": deep_model,
    }

    def drawing(method: Draw) -> Answer:
        def draw() -> list[float] | None:
            found = method(rows, rng)
            return None if found is None else [float(each) for each in found]

        return draw

    return {name: drawing(method) for name, method in methods.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Against:
    """A method next to ours in one cell."""

    row: WithDelta
    auto: Ratio
    best: Ratio
    best_method: str
    own_draws: int

    @property
    def errs_more(self) -> bool:
        """Return whether what ``auto`` takes errs more than allowed, by two standard errors."""
        return _exceeds(self.auto)

    @property
    def best_errs_more(self) -> bool:
        """Return the same of the best of ours."""
        return _exceeds(self.best)


def _exceeds(found: Ratio) -> bool:
    return found.value - 2 * found.se > MOST_ERROR


def against(rows: Sequence[WithDelta]) -> Iterator[Against]:
    """Yield one for each row that is not ours."""
    for row in rows:
        if row.method.startswith(OURS):
            continue
        own = [
            each
            for each in rows
            if (each.cell, each.epsilon) == (row.cell, row.epsilon)
            and each.method.startswith(OURS)
            and (TUNED in row.method or TUNED not in each.method)
        ]
        auto = next(each for each in own if each.method == OURS)
        best = min(own, key=lambda each: each.error_mean)
        yield Against(
            row=row,
            auto=ratio(auto, row),
            best=ratio(best, row),
            best_method=best.method.removeprefix("ours, "),
            own_draws=auto.replicate_count,
        )


def lines(rows: Sequence[WithDelta]) -> Iterator[str]:
    """Yield the table of the page."""
    found = list(against(rows))
    more = [each for each in found if each.errs_more]
    yield f"Of {len(found)} cells, error at most {MOST_ERROR} times theirs, by 2 standard errors:\n"
    yield f"- `auto`: {len(found) - len(more)}"
    yield f"- the best of ours: {sum(not each.best_errs_more for each in found)}\n"
    yield "Where `auto` errs more:\n"
    for each in more:
        row = each.row
        yield (
            f"- **{row.cell}, epsilon {row.epsilon}, {row.method}**: `auto` {_shown(each.auto)} "
            f"times, the best of ours {_shown(each.best)} times ({_name(each)})."
        )
    yield (
        "\n| question | rows | epsilon | published | its error | without answer | `auto` / its "
        "| best of ours / its | draws |"
    )
    yield "| --- | --- | --- | --- | --- | --- | --- | --- | --- |"
    for each in found:
        row = each.row
        yield (
            f"| {row.cell} | {row.rows:,} | {row.epsilon} | {row.method} | {row.error_mean:.3g} "
            f"| {row.unanswered} of {row.replicate_count} "
            f"| {_shown(each.auto)} | {_shown(each.best)} ({_name(each)}) "
            f"| {each.own_draws:,} / {row.replicate_count:,} |"
        )


def _shown(found: Ratio) -> str:
    return f"{found.value:.2f} ± {found.se:.2f}"


def _name(found: Against) -> str:
    return "`auto`" if found.best_method == OURS else found.best_method
