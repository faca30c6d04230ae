"""Which mechanism ``auto`` takes for a regression that several draw: the one of least regret.

Errors are closed forms in public facts (:mod:`mechanisms.perturbation.thresholds`), each a root
mean square in scaled units, for a few populations:

- *objective perturbation*: with squared loss or a threshold of Huber's, whichever it takes;
- *functional*: sanitized moments X'X + N, X'y + M give theta + (X'X)^-1 (M - N theta), so the
  error in the direction of an eigenvalue l of X'X is

      s sqrt(1 + ||theta||^2) / max(l, tau),  and  (1 - l / max(l, tau)) of theta,

  s the standard deviation of an entry and tau the rule's edge, ``2 s sqrt(d)``. s is that of the
  l-infinity norm: the hull's is .8 to .95 of it. Moments by the cells of a factor have that of a
  cell (:mod:`mechanisms.statistics.designs.cells`), and records are spread evenly over the cells.

The candidate is taken whose error, as a ratio to the least one in the same population, is smallest
in the worst population. Errors of answers that do not state their noise count 1.1-fold, so
intervals are given up for a gain alone. ``studies/choices.py`` compares the choice with draws.

The K-norm gradient and exponential mechanisms are no candidates: in every setting of the study they
err more than Huber's loss. They are drawn where they are asked for, and where no candidate fits the
question.

**Privacy.** The choice is a function of the question, the schema and epsilon, all public. It reads
no data, and the same question always gets the same mechanism.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import exp, log, sqrt
from statistics import fmean
from typing import cast

import numpy as np

from mechanisms.contract import Calibrate, InvalidStatisticError, Plan, Statistic
from mechanisms.domain import Schema
from mechanisms.perturbation.thresholds import (
    SLOPES,
    Population,
    Question,
    fit_errors,
    least_regret,
    populations,
    question_of,
    second_moments,
)
from mechanisms.privacy import Adjacency, PrivacyLoss
from mechanisms.statistics.linear_regression import LinearRegression

UNSTATED = 1.1
"""The factor on the error of a mechanism whose answers do not state their noise."""
_LEAST = 1e-6  # of the largest eigenvalue: less is a direction that a design lacks
_NEAR = 1.05
"""Errors that differ by a smaller factor are reported as about the same."""
_FREE = "functional"
"""Its standard errors cost nothing."""
_PERTURBED = "objective_perturbation"
_LEFT = 3.0
"""Epsilon for coefficients in that for standard errors, of a usual share of a quarter."""
_SQUARED, _UNCLEAR = 0.5, 5.0
"""The share of records that Huber's loss usually squares; how errors count without intervals."""
_NOWHERE = 1e6
"""How they count where no population has intervals."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """A ``calibrate`` that takes the mechanism of least regret among these.

    ``inferring`` says whether standard errors are wanted too.
    """

    calibrates: Mapping[str, Calibrate]
    inferring: bool = False

    def __call__(
        self, statistic: Statistic, schema: Schema, epsilon: PrivacyLoss, norm: str, /
    ) -> Plan:
        """Return the plan by the first mechanism that fits the question, the preferred one first.

        Raises
        ------
        InvalidStatisticError
            None fits: the refusal of the first.
        """
        fit = cast(LinearRegression, statistic)  # the one that is chosen by its error
        preferred, reason = _preferred(fit, schema, epsilon, norm, inferring=self.inferring)
        refused: list[InvalidStatisticError] = []
        for name in dict.fromkeys((preferred, *self.calibrates)):
            if name not in self.calibrates:
                continue
            try:
                plan = self.calibrates[name](statistic, schema, epsilon, norm)
            except InvalidStatisticError as error:
                refused.append(error)
                continue
            words = reason if name == preferred else "No other mechanism fits this question."
            return replace(plan, reason=f"{words} {plan.reason}")
        raise refused[0]


def _preferred(
    statistic: LinearRegression,
    schema: Schema,
    epsilon: PrivacyLoss,
    norm: str,
    *,
    inferring: bool,
) -> tuple[str, str]:
    """Return the mechanism of least regret, and why."""
    statistic.check(schema)
    if statistic.ridge is not None:
        return _FREE, "A ridge was asked for."
    if statistic.is_huber:
        return _PERTURBED, "Huber's loss was asked for."
    fits = fit_errors(statistic, schema, epsilon, norm)
    fit = fits[None if statistic.loss == "squared" else least_regret(fits)]
    asked = question_of(statistic, schema, epsilon, norm)
    errors = {
        _FREE: [_moments_error(asked, schema.adjacency, one) for one in populations()],
        _PERTURBED: [UNSTATED * error for error in fit],
    }
    if inferring:
        errors = _with_standard_errors(errors, asked, schema.adjacency)
    taken = least_regret(errors)
    other = _PERTURBED if taken == _FREE else _FREE
    pairs = zip(errors[other], errors[taken], strict=True)
    return taken, _reason(taken, other, exp(fmean(log(more / own) for more, own in pairs)))


def _with_standard_errors(
    errors: Mapping[str, Sequence[float]], asked: Question, adjacency: Adjacency
) -> dict[str, list[float]]:
    """Return errors with those of standard errors, at the epsilon that they leave.

    Sanitized moments have all of epsilon. A perturbed fit needs the curvature too: two matrices.
    Where the noise of a matrix may be as large as it is, intervals would say nothing: errors count
    fivefold.
    """
    change = 2 if adjacency is Adjacency.REPLACE_ONE else 1
    d, epsilon = asked.dimension, float(asked.epsilon)

    def clear(one: Population, entries: float, spent: float, share: float) -> bool:
        noise = change * sqrt((entries + 1) * (entries + 2) / 3) / spent
        least = float(asked.curvatures(one).min()) * asked.rows * share
        return least > 2 * noise * sqrt(d)

    whole, own = epsilon * (1 + 1 / _LEFT), epsilon / _LEFT
    moments = asked.moments or d * (d + 3) / 2
    free = [clear(one, moments, whole, 1.0) for one in populations()]
    curved = [clear(one, d * (d + 1), own, _SQUARED) for one in populations()]
    nowhere = 1.0 if any(curved) else _NOWHERE
    return {
        _FREE: [
            error / (1 + 1 / _LEFT) * (1 if plain else _UNCLEAR)
            for error, plain in zip(errors[_FREE], free, strict=True)
        ],
        _PERTURBED: [
            error * (1 if plain else _UNCLEAR) * nowhere
            for error, plain in zip(errors[_PERTURBED], curved, strict=True)
        ],
    }


def _reason(taken: str, other: str, ratio: float) -> str:
    """Return the reason; ``ratio`` is how much the other errs, a geometric mean."""
    ratio *= UNSTATED if taken == _PERTURBED else 1 / UNSTATED  # of the errors themselves
    by = "about as much" if 1 / _NEAR < ratio < _NEAR else f"{ratio:.2g} times as much"
    if ratio < 1 / _NEAR:
        return f"{taken} states its noise, or errs less in the worst case; {other} errs {by}."
    return f"{taken} errs least in the worst of several public populations; {other} errs {by}."


def moment_spread(asked: Question, adjacency: Adjacency) -> float:
    """Return about the standard deviation of the noise in an entry of sanitized moments."""
    change = 2 if adjacency is Adjacency.REPLACE_ONE else 1
    d, counted = asked.dimension, asked.moments
    if not asked.intercept and not asked.cells:
        counted = d * (d + 1) // 2 + d
    if asked.intercept and not asked.cells and asked.known_rows is not None:
        counted -= 1
    return change * sqrt((counted + 1) * (counted + 2) / 3) / float(asked.epsilon)


def _moments_error(asked: Question, adjacency: Adjacency, population: Population) -> float:
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
    values, vectors = np.linalg.eigh(second_moments(asked.cells, populations()[0]))
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
