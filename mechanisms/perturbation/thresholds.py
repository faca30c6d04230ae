r"""Closed-form errors of linear regressions by objective perturbation, and Huber's threshold.

In scaled units the released theta is off from the least squares of all records by about

    b_k - (n p_k S + gamma)^-1 (V + gamma theta),

with k the threshold, b_k the bias of Huber's loss, p_k the share of records within k of the line,
S = E[x x'] and gamma the ridge. V's variance is known. p_k and b_k depend on the residuals, of
which nothing is public. So errors are computed for a few :func:`populations`: features spread
evenly over their bounds or over a quarter of them, off centre; residuals normal, skewed or heavy,
the skewed ones wider where the first feature is large; and three scales. Squared loss is the case
of no threshold: p = 1 (twice, as its Hessian is 2 x x') and b = 0.

The rule is minimax regret: the choice whose error, as a ratio to the least one in the same
population, is smallest in the worst population. ``studies/choices.py`` compares it with draws.

**Privacy.** Public facts alone enter.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import product
from math import exp, sqrt
from typing import Literal, TypeVar

import numpy as np
from scipy.special import ndtri, stdtrit

from mechanisms.domain import Schema
from mechanisms.exact.floats import Floats
from mechanisms.geometry.smooth import BALLS
from mechanisms.objectives.huber import huber_loss, huber_loss_by_cells
from mechanisms.objectives.losses import Loss, Norm, squared_loss
from mechanisms.perturbation.calibration import OWN_RIDGE, automatic_q, ridge
from mechanisms.privacy import PrivacyLoss
from mechanisms.samplers.bodies import Joined
from mechanisms.statistics.designs.cells import Cells, joined_of, shapes_of
from mechanisms.statistics.linear_regression import LinearRegression

THRESHOLDS = tuple(Fraction(1, 2**power) for power in range(6))
"""Candidates, in half-widths of the target's bounds."""

Law = Literal["normal", "skewed", "heavy"]
C = TypeVar("C")

_NODES = (np.arange(400) + 0.5) / 400
_PLACES = np.linspace(-1, 1, 17)
_ASSUMED_ROWS = 1000  # where their number is private
SLOPES = 0.5
"""The l1 norm of the slopes, in scaled units."""
_SIGMA = 0.5  # of the logarithm: a skewness of 1.75
_DEGREES = 3
_STEPS, _STILL = 30, 1e-12


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """A cell of a design: F, by which a row is F (1, effects), and how many effects are numbers."""

    matrix: Floats
    numbers: int


@dataclass(frozen=True, slots=True)
class Population:
    """A law of records in scaled units.

    Features are spread evenly over ``centre`` +- ``spread``. A residual has the deviation
    ``scale (1 + varying u)``, u the first feature's place between -1 and 1.
    """

    law: Law
    scale: float
    spread: float = 1.0
    centre: float = 0.0
    varying: float = 0.0

    def curvatures(self, features: int, *, intercept: bool) -> Floats:
        """Return the eigenvalues of E[x x'], x with the constant where there is one.

        With c the centre and v the features' variance, E[x x'] has v for every direction across
        features of sum 0, and else acts on the constant and the features' common direction.
        """
        variance, common = self.spread**2 / 3, features * self.centre**2
        across = [variance] * (features - 1)
        if not intercept:
            return np.array([*across, variance + common])
        if not features:
            return np.ones(1)
        side = sqrt(common)
        both = np.array([[1.0, side], [side, variance + common]])
        return np.array([*across, *np.linalg.eigvalsh(both)])


def populations(scales: Sequence[float] = (0.05, 0.1, 0.2)) -> tuple[Population, ...]:
    """Return the populations with residuals of these deviations."""
    laws: tuple[tuple[Law, float], ...] = (("normal", 0.0), ("skewed", 0.5), ("heavy", 0.0))
    places = ((1.0, 0.0), (0.25, 0.2))
    return tuple(
        Population(law, scale, spread, centre, varying * spread)
        for (law, varying), scale, (spread, centre) in product(laws, scales, places)
    )


@lru_cache(maxsize=8)
def residuals(law: Law) -> Floats:
    """Return residuals of mean 0, of deviation about 1, each as probable as the others."""
    if law == "normal":
        found = ndtri(_NODES)
    elif law == "heavy":
        found = stdtrit(_DEGREES, _NODES) / sqrt(_DEGREES)
    else:
        spread = exp(_SIGMA**2)
        found = (np.exp(_SIGMA * ndtri(_NODES)) - sqrt(spread)) / sqrt((spread - 1) * spread)
    made: Floats = found - found.mean()
    return made


@dataclass(frozen=True, slots=True)
class Cut:
    """What a threshold does in a population: the share within it, and the bias of the line.

    The bias is that of the constant, and of the slope by the first feature's place.
    """

    share: float
    constant: float
    slope: float


@lru_cache(maxsize=1024)
def cut(law: Law, ratio: float, varying: float) -> Cut:
    """Return what a threshold of ``ratio`` deviations does; in units of the deviation.

    Newton's method on E[psi(r - a - b u)] = E[u psi(r - a - b u)] = 0.
    """
    places = _PLACES if varying else np.zeros(1)
    r = np.outer(residuals(law), 1 + varying * places)
    design = np.stack([np.ones_like(places), places])
    line = np.zeros(2)
    for _ in range(_STEPS):
        off = r - line @ design
        slope = design @ np.clip(off, -ratio, ratio).mean(axis=0) / len(places)
        within = (np.abs(off) < ratio).mean(axis=0)
        hessian = (design * within) @ design.T / len(places) + 1e-9 * np.eye(2)
        step = np.linalg.solve(hessian, slope)
        line = line + step
        if np.abs(step).max() < _STILL:
            break
    share = float((np.abs(r - line @ design) < ratio).mean())
    return Cut(share, float(line[0]), float(line[1]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """The public facts of a regression that its error depends on.

    ``rows`` are known or assumed. ``cells`` are those of its design, none where records are in one,
    ``joined`` their matrices together, and ``moments`` how many moments a cell has, its count
    included.
    """

    features: int
    intercept: bool
    rows: float
    epsilon: Fraction
    norm: Norm
    known_rows: int | None
    cells: tuple[Part, ...]
    joined: Joined | None
    moments: int

    @property
    def dimension(self) -> int:
        """Return d."""
        return self.features + self.intercept

    def curvatures(self, one: Population) -> Floats:
        """Return the eigenvalues of E[x x'] in a population."""
        if self.cells:
            return np.asarray(np.linalg.eigvalsh(second_moments(self.cells, one)))
        return _curvatures(one, self.features, self.intercept)


@lru_cache(maxsize=1024)  # the same for every loss
def _curvatures(one: Population, features: int, intercept: bool) -> Floats:
    return one.curvatures(features, intercept=intercept)


@lru_cache(maxsize=256)  # of the same cells for every loss
def second_moments(cells: tuple[Part, ...], one: Population) -> Floats:
    """Return E[x x'] of records spread evenly over the cells of a design."""
    variance, found = one.spread**2 / 3, []
    for cell in cells:
        numbers = np.arange(1, cell.matrix.shape[1]) <= cell.numbers
        means = np.concatenate([[1.0], np.where(numbers, one.centre, 0.0)])
        within = np.diag(np.concatenate([[0.0], np.where(numbers, variance, 1.0)]))
        found.append(cell.matrix @ (np.outer(means, means) + within) @ cell.matrix.T)
    return np.asarray(np.mean(found, axis=0))


def expected_errors(
    asked: Question, loss: Loss, over: Sequence[Population], *, threshold: Fraction | None
) -> list[float]:
    """Return about the root mean square of the l2 distance to least squares, in each population.

    In scaled units.
    """
    if loss.joined is not None and threshold is not None:
        return _errors_by_cells(asked, loss, over, threshold)
    q = automatic_q(asked.epsilon, loss, asked.norm, asked.known_rows)
    gamma = float(ridge(asked.epsilon, q, loss.eigenvalue))
    tilt = loss.tilt_std(asked.norm, float(asked.epsilon * q))
    pulled = gamma**2 * 2 * SLOPES**2 / asked.dimension**2

    def error(one: Population) -> float:
        share, bias = (2.0, 0.0) if threshold is None else _huber(asked, one, threshold)
        values = asked.rows * share * asked.curvatures(one) + gamma
        return sqrt(bias + float(((tilt**2 + pulled) / values**2).sum()))

    return [error(one) for one in over]


def _errors_by_cells(
    asked: Question, loss: Loss, over: Sequence[Population], threshold: Fraction
) -> list[float]:
    """Return it for Huber's loss by cells.

    With F of all cells and M the ridge's matrix theta is off by
    ``(n p S + gamma M)^-1 (F V + gamma M theta)``.
    """
    assert loss.joined is not None
    q = automatic_q(asked.epsilon, loss, asked.norm, asked.known_rows)
    gamma = float(ridge(asked.epsilon, q, loss.eigenvalue))
    stds = loss.joined_stds(asked.norm, float(asked.epsilon * q))
    matrix = np.array(loss.joined.matrix, dtype=np.float64)
    spread, tilt = matrix @ matrix.T, (matrix * stds**2) @ matrix.T
    pull = gamma * (spread + float(OWN_RIDGE) * np.eye(asked.dimension))
    noise = tilt + 2 * (SLOPES / asked.dimension) ** 2 * pull @ pull

    def error(one: Population) -> float:
        share, bias = _huber(asked, one, threshold)
        inverse = np.linalg.inv(asked.rows * share * second_moments(asked.cells, one) + pull)
        return sqrt(bias + float(np.trace(inverse @ noise @ inverse)))

    return [error(one) for one in over]


def _huber(asked: Question, one: Population, threshold: Fraction) -> tuple[float, float]:
    """Return the share of records within a threshold, and the bias of the line, squared."""
    found = cut(one.law, float(threshold) / one.scale, one.varying)
    steep = one.scale * found.slope / one.spread
    level = one.scale * found.constant - steep * one.centre
    return found.share, steep**2 * bool(asked.features) + level**2 * asked.intercept


def chosen_threshold(
    statistic: LinearRegression, schema: Schema, epsilon: PrivacyLoss, norm: str
) -> Fraction | None:
    """Return the threshold of least regret; None for squared loss.

    Where one of the losses is asked for, it is that one's.
    """
    if statistic.loss == "squared":
        return None
    errors = fit_errors(statistic, schema, epsilon, norm)
    if statistic.is_huber:
        del errors[None]
    return least_regret(errors)


def fit_errors(
    statistic: LinearRegression, schema: Schema, epsilon: PrivacyLoss, norm: str
) -> dict[Fraction | None, list[float]]:
    """Return the errors of each threshold, and of squared loss (None), in every population."""
    asked = question_of(statistic, schema, epsilon, norm)
    bound = statistic.exact_bound
    losses: dict[Fraction | None, Loss] = {
        each: huber_loss(asked.dimension, each, schema.adjacency, bound)
        if asked.joined is None
        else huber_loss_by_cells(asked.joined, each, schema.adjacency)
        for each in THRESHOLDS
    }
    losses[None] = squared_loss(asked.dimension, bound, schema.adjacency)
    return {
        each: expected_errors(asked, loss, populations(), threshold=each)
        for each, loss in losses.items()
    }


def question_of(
    statistic: LinearRegression, schema: Schema, epsilon: PrivacyLoss, norm: str
) -> Question:
    """Return the public facts of a question."""
    cells = Cells.chosen(statistic.names, schema)
    parts: tuple[Part, ...] = ()
    joined: Joined | None = None
    if cells.placing is not None:
        shapes = shapes_of(cells, statistic.scaling(schema), schema)
        parts = tuple(Part(shape.matrix(), shape.numbers) for shape in shapes)
        joined = joined_of(shapes)
    return Question(
        features=len(statistic.names),
        intercept=statistic.intercept,
        rows=schema.known_rows or min(_ASSUMED_ROWS, schema.row_bound),
        epsilon=epsilon.fraction,
        norm=next((each for each in BALLS if each == norm), "linf"),
        known_rows=schema.known_rows,
        cells=parts,
        joined=joined,
        moments=max(cell.dimension for cell in cells.each),
    )


def least_regret(errors: Mapping[C, Sequence[float]]) -> C:
    """Return the candidate whose largest ratio to the least error of a population is smallest.

    Of equal ones the first. Errors are of the same populations in the same order.
    """
    least = [min(each) for each in zip(*errors.values(), strict=True)]

    def regret(candidate: C) -> float:
        ratios: Iterable[float] = (
            error / best if best > 0 else 1.0
            for error, best in zip(errors[candidate], least, strict=True)
        )
        return max(ratios, default=1.0)

    return min(errors, key=regret)
