r"""Closed-form errors of linear regressions, and the choice of Huber's threshold.

*Objective perturbation.* In scaled units the released theta is off from the least squares of all
records by about

    b_k - (n p_k S + gamma)^-1 (V + U + gamma theta),

with k the threshold, b_k the bias of Huber's loss, p_k the share of records within k of the line,
S = E[x x'] and gamma the ridge. V's variance is known. U is by how much Huber's line of a sample
differs from its least squares: its variance is n p_k^2 c_k S, c_k that of ``psi_k(r) / p_k - r``.
p_k, b_k and c_k depend on the residuals, of which nothing is public.
So errors are computed for a few populations. Squared loss is the case of no threshold: p = 1
(twice, as its Hessian is 2 x x'), b = c = 0.

*Functional.* Sanitized moments X'X + N, X'y + M give theta + (X'X)^-1 (M - N theta), so the error
in the direction of an eigenvalue l of X'X is

    s sqrt(1 + ||theta||^2) / max(l, tau),  and  (1 - l / max(l, tau)) of theta,

s the standard deviation of an entry and tau the rule's edge, ``2 s sqrt(d)``. s is that of the
l-infinity norm: the hull's is .8 to .95 of it. In accounts with a delta it is that of Gaussian
noise (:mod:`mechanisms.gaussian`), unless a norm is named. Moments by the cells of a factor have
that of a cell (:mod:`mechanisms.statistics.designs.cells`), and records are spread evenly over the
cells.

*Populations.* Residuals are normal, skewed or heavy, the skewed ones wider where the first feature
is large. Their deviation is 1/4, 1/2 or all of what is typical of the target, as the curator states
it, or .05, .1 and .2. Features are spread evenly, as is typical of them; where that is not stated
of each, over their bounds or over a quarter of them, off centre.

*The rule* is minimax regret: the choice whose error, as a ratio to the least one in the same
population, is smallest in the worst population. Errors of answers that do not state their noise
count 1.1-fold, so intervals are given up for a gain alone. The candidates of a threshold are those
of the mechanism too: a choice in two steps, first of the loss and then of the mechanism, takes
moments where some loss errs less than they do in all populations. ``studies/choices.py`` compares
the choice with draws.

**Privacy.** Public facts alone enter.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import product
from math import exp, log, log2, sqrt
from statistics import fmean
from typing import Literal, TypeVar

import numpy as np
from scipy.special import ndtri, stdtrit

from mechanisms.domain import NumberColumn, Schema
from mechanisms.exact.floats import Floats
from mechanisms.geometry.smooth import BALLS
from mechanisms.objectives.huber import huber_loss, huber_loss_by_cells
from mechanisms.objectives.losses import Loss, Norm, squared_loss
from mechanisms.perturbation.calibration import OWN_RIDGE, automatic_q, ridge
from mechanisms.privacy import Adjacency, PrivacyLoss
from mechanisms.samplers.bodies import Joined
from mechanisms.statistics.designs.cells import Cells, joined_of, shapes_of
from mechanisms.statistics.designs.scaling import RegressionScaling, ScaledColumn
from mechanisms.statistics.linear_regression import LinearRegression

THRESHOLDS = tuple(Fraction(1, 2**power) for power in range(6))
"""Candidates, in half-widths of the target's bounds."""

Law = Literal["normal", "skewed", "heavy"]
MOMENTS: Literal["functional"] = "functional"
Candidate = Fraction | Literal["functional"] | None
"""A threshold of Huber's loss, None for squared loss, or sanitized moments."""
UNSTATED = 1.1
"""The factor on the error of a mechanism whose answers do not state their noise."""
C = TypeVar("C")

_NODES = (np.arange(400) + 0.5) / 400
_PLACES = np.linspace(-1, 1, 17)
_ASSUMED_ROWS = 1000  # where their number is private
_EVEN = sqrt(3)
_LARGEST_SCALE = 0.2  # of residuals, where nothing is stated of the target
SLOPES = 0.5
"""The l1 norm of the slopes, in scaled units."""
_SIGMA = 0.5  # of the logarithm: a skewness of 1.75
_DEGREES = 3
_LEAST = 1e-6  # of the largest eigenvalue: less is a direction that a design lacks
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


def populations(statistic: LinearRegression, schema: Schema) -> tuple[Population, ...]:
    """Return the populations of which errors are computed, by what is typical of the columns."""
    scaling = statistic.row_scaling(schema)
    assert scaling.target is not None
    target = _typical(scaling.target, schema)
    widest = _LARGEST_SCALE if target is None else min(target.spread / _EVEN, 1.0)
    laws: tuple[tuple[Law, float], ...] = (("normal", 0.0), ("skewed", 0.5), ("heavy", 0.0))
    return tuple(
        Population(law, widest * part, place.spread, place.centre, varying * place.spread)
        for (law, varying), part, place in product(laws, (0.25, 0.5, 1.0), _places(scaling, schema))
    )


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a column is in scaled units: spread evenly over ``centre`` +- ``spread``."""

    spread: float
    centre: float


def _typical(column: ScaledColumn, schema: Schema) -> _Place | None:
    """Return where a column's values are, as is stated of it; to a factor of 1.1."""
    declared = schema.columns[column.name]
    if not isinstance(declared, NumberColumn) or declared.typical is None:
        return None
    spread = _EVEN * float(declared.typical.std / column.width)
    centre = float((declared.typical.mean - column.centre) / column.width)
    # few different ones, so that what is computed of them is found again
    return _Place(2 ** (round(4 * log2(spread)) / 4), round(8 * centre) / 8)


def _places(scaling: RegressionScaling, schema: Schema) -> tuple[_Place, ...]:
    """Return where features may be: all at one place, by the means of what is stated of each."""
    stated = [_typical(column, schema) for column in scaling.features]
    known = [each for each in stated if each is not None]
    if not known or len(known) < len(stated):
        return (_Place(1.0, 0.0), _Place(0.25, 0.2))
    spread = min(exp(fmean(log(each.spread) for each in known)), 1.0)
    return (_Place(spread, sqrt(fmean(each.centre**2 for each in known))),)


_USUAL = Population("normal", 0.05)


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

    The bias is that of the constant, and of the slope by the first feature's place. ``excess`` is
    the variance of a record's influence on the line, less its influence on least squares.
    """

    share: float
    constant: float
    slope: float
    excess: float


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
    off = r - line @ design
    share = float((np.abs(off) < ratio).mean())
    excess = float(((np.clip(off, -ratio, ratio) / share - r) ** 2).mean())
    return Cut(share, float(line[0]), float(line[1]), excess)


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """The public facts of a regression that its error depends on.

    ``rows`` are known or assumed, and records are of one of the ``populations``. ``cells`` are
    those of its design, none where records are in one, ``joined`` their matrices together, and
    ``moments`` how many moments a cell has, its count included. ``gaussian`` says that their noise
    may be Gaussian: the account has a delta, and no norm is named.
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
    populations: tuple[Population, ...]
    gaussian: bool

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
        found = _SQUARED if threshold is None else _huber(asked, one, threshold)
        bent = asked.rows * found.share * asked.curvatures(one)
        noise = tilt**2 + pulled + found.share * found.excess * bent
        return sqrt(found.bias + float((noise / (bent + gamma) ** 2).sum()))

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
        found = _huber(asked, one, threshold)
        bent = asked.rows * found.share * second_moments(asked.cells, one)
        inverse = np.linalg.inv(bent + pull)
        both = noise + found.share * found.excess * bent
        return sqrt(found.bias + float(np.trace(inverse @ both @ inverse)))

    return [error(one) for one in over]


@dataclass(frozen=True, slots=True)
class _Fit:
    """A loss in a population: p_k (twice for squared loss), the squared bias of the line, c_k."""

    share: float
    bias: float
    excess: float


_SQUARED = _Fit(2.0, 0.0, 0.0)


def _huber(asked: Question, one: Population, threshold: Fraction) -> _Fit:
    found = cut(one.law, float(threshold) / one.scale, one.varying)
    steep = one.scale * found.slope / one.spread
    level = one.scale * found.constant - steep * one.centre
    bias = steep**2 * bool(asked.features) + level**2 * asked.intercept
    return _Fit(found.share, bias, found.excess * one.scale**2)


def chosen_threshold(
    statistic: LinearRegression, schema: Schema, epsilon: PrivacyLoss, norm: str
) -> Fraction | None:
    """Return the threshold of least regret; None for squared loss.

    Where one of the losses is asked for, it is that one's.
    """
    if statistic.loss == "squared":
        return None
    if statistic.is_huber:
        errors = fit_errors(statistic, schema, epsilon, norm)
        del errors[None]
        return least_regret(errors)
    found = regrets(all_errors(statistic, schema, epsilon, norm))
    return min((each for each in found if each != MOMENTS), key=found.__getitem__)


def all_errors(
    statistic: LinearRegression, schema: Schema, epsilon: PrivacyLoss, norm: str
) -> dict[Candidate, list[float]]:
    """Return the errors of all candidates, moments first; those of fits count :data:`UNSTATED`."""
    asked = question_of(statistic, schema, epsilon, norm)
    fits = fit_errors(statistic, schema, epsilon, norm)
    if statistic.loss == "squared":
        fits = {None: fits[None]}
    return {
        MOMENTS: [moments_error(asked, schema.adjacency, one) for one in asked.populations],
        **{each: [UNSTATED * error for error in errors] for each, errors in fits.items()},
    }


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
        each: expected_errors(asked, loss, asked.populations, threshold=each)
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
        populations=populations(statistic, schema),
        gaussian=schema.zcdp and norm == "auto",
    )


def least_regret(errors: Mapping[C, Sequence[float]]) -> C:
    """Return the candidate whose largest ratio to the least error of a population is smallest.

    Of equal ones the first. Errors are of the same populations in the same order.
    """
    found = regrets(errors)
    return min(found, key=found.__getitem__)


def regrets(errors: Mapping[C, Sequence[float]]) -> dict[C, float]:
    """Return each candidate's largest ratio to the least error of a population."""
    least = [min(each) for each in zip(*errors.values(), strict=True)]

    def regret(candidate: C) -> float:
        ratios: Iterable[float] = (
            error / best if best > 0 else 1.0
            for error, best in zip(errors[candidate], least, strict=True)
        )
        return max(ratios, default=1.0)

    return {each: regret(each) for each in errors}


# Sanitized moments


def moment_spread(asked: Question, adjacency: Adjacency) -> float:
    """Return about the standard deviation of the noise in an entry of sanitized moments."""
    change = 2 if adjacency is Adjacency.REPLACE_ONE else 1
    d, counted = asked.dimension, asked.moments
    if not asked.intercept and not asked.cells:
        counted = d * (d + 1) // 2 + d
    if asked.intercept and not asked.cells and asked.known_rows is not None:
        counted -= 1
    return entry_std(change, counted, gaussian=asked.gaussian) / float(asked.epsilon)


def entry_std(change: float, entries: float, *, gaussian: bool) -> float:
    """Return the deviation of noise at epsilon 1 in each of these, all of which may so change."""
    return change * (sqrt(entries) if gaussian else sqrt((entries + 1) * (entries + 2) / 3))


def moments_error(asked: Question, adjacency: Adjacency, population: Population) -> float:
    """Return about the root mean square of the error of sanitized moments, in scaled units."""
    spread, d = moment_spread(asked, adjacency), asked.dimension
    length = 2 * SLOPES**2 / d
    if asked.cells:
        return _cells_error(asked, spread, length, population)
    edge = 2 * spread * sqrt(d)
    values = asked.rows * asked.curvatures(population)
    divisors = np.maximum(values, edge)
    noise = spread**2 * (1 + length) / divisors**2
    shrunk = (1 - values / divisors) ** 2 * length / d
    return sqrt(float((noise + shrunk).sum()))


def _cells_error(asked: Question, spread: float, length: float, population: Population) -> float:
    """Return it for sums by cell, solved in coordinates in which usual records have X'X = n I.

    In those, W'^-1 theta, an entry of X'X has the mean variance s^2 over the entries of
    ``sum_g A_g V_g A_g'``, A_g = W F_g, V_g symmetric with entries of variance spread^2 (half of it
    on the diagonal, but for the count).
    """
    values, vectors = np.linalg.eigh(second_moments(asked.cells, _USUAL))
    root = vectors.T / np.sqrt(np.maximum(values, _LEAST * values[-1]))[:, None]
    squares = 0.0
    for cell in asked.cells:
        inner = (root @ cell.matrix).T @ (root @ cell.matrix)
        lengths = np.diag(inner)
        pairs = np.outer(lengths, lengths) + inner**2  # of i and j together, i < j, twice
        squares += pairs.sum() - np.trace(pairs) + lengths[0] ** 2 + (lengths[1:] ** 2).sum() / 2
    d = asked.dimension
    entry = spread * sqrt(squares) / d
    turned = root @ second_moments(asked.cells, population) @ root.T
    values, vectors = np.linalg.eigh(asked.rows * turned)
    divisors = np.maximum(values, 2 * entry * sqrt(d))
    # how long a unit step along each direction is in theta
    sizes = ((root.T @ vectors) ** 2).sum(axis=0)
    noise = entry**2 * (1 + length) / divisors**2 * sizes
    shrunk = (1 - values / divisors) ** 2 * length / d
    return sqrt(float((noise + shrunk).sum()))
