"""Which mechanism ``auto`` takes for a regression that several draw: the one of least regret.

Errors are closed forms in public facts (:mod:`mechanisms.perturbation.thresholds`), each a root
mean square in scaled units, for a few populations:

- *objective perturbation*: with squared loss and with each threshold of Huber's;
- *functional*: least squares of sanitized moments; with ``gaussian`` noise where the account has a
  delta and no norm is named, as its variance is smaller at the same charge.

All are candidates of one choice: that one is taken whose error, as a ratio to the least one in the
same population, is smallest in the worst population. ``studies/choices.py`` compares it with draws.

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

from mechanisms.contract import Calibrate, InvalidStatisticError, Plan, Statistic
from mechanisms.domain import Schema
from mechanisms.perturbation.thresholds import (
    MOMENTS,
    UNSTATED,
    Candidate,
    Population,
    Question,
    all_errors,
    chosen_threshold,
    entry_std,
    question_of,
    regrets,
)
from mechanisms.privacy import Adjacency, PrivacyLoss
from mechanisms.statistics.linear_regression import LinearRegression
from mechanisms.words import rounded

_NEAR = 1.05
"""Errors that differ by a smaller factor are reported as about the same."""
_FREE = MOMENTS
"""Standard errors cost nothing with these; ``_GAUSSIAN`` is their mechanism in other accounts."""
_GAUSSIAN = "gaussian"
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
    asked = question_of(statistic, schema, epsilon, norm)
    by_moments = _GAUSSIAN if asked.gaussian else _FREE
    if statistic.ridge is not None:
        return by_moments, "A ridge was asked for."
    if statistic.is_huber:
        return _PERTURBED, "Huber's loss was asked for."
    errors = all_errors(statistic, schema, epsilon, norm)
    if inferring:
        errors = _with_standard_errors(errors, asked, schema.adjacency)
    found, fit = regrets(errors), chosen_threshold(statistic, schema, epsilon, norm)
    free = found[_FREE] <= found[fit]
    taken, other = (by_moments, _PERTURBED) if free else (_PERTURBED, by_moments)
    pairs = zip(errors[_FREE], errors[fit], strict=True)
    ratio = exp(fmean(log(moments / fitted) for moments, fitted in pairs))
    return taken, _reason(taken, other, 1 / ratio if free else ratio)


def _with_standard_errors(
    errors: Mapping[Candidate, Sequence[float]], asked: Question, adjacency: Adjacency
) -> dict[Candidate, list[float]]:
    """Return errors with those of standard errors, at the epsilon that they leave.

    Sanitized moments have all of epsilon. A perturbed fit needs the curvature too: two matrices.
    Where the noise of a matrix may be as large as it is, intervals would say nothing: errors count
    fivefold.
    """
    change = 2 if adjacency is Adjacency.REPLACE_ONE else 1
    d, epsilon = asked.dimension, float(asked.epsilon)

    def clear(one: Population, noise: float, share: float) -> bool:
        least = float(asked.curvatures(one).min()) * asked.rows * share
        return least > 2 * noise * sqrt(d)

    moments = asked.moments or d * (d + 3) / 2
    whole = entry_std(change, moments, gaussian=asked.gaussian) / (epsilon * (1 + 1 / _LEFT))
    spent = entry_std(change, d * (d + 1), gaussian=False) / (epsilon / _LEFT)
    free = [clear(one, whole, 1.0) for one in asked.populations]
    curved = [clear(one, spent, _SQUARED) for one in asked.populations]
    of_moments = [(1 if plain else _UNCLEAR) / (1 + 1 / _LEFT) for plain in free]
    nowhere = 1.0 if any(curved) else _NOWHERE
    of_a_fit = [(1 if plain else _UNCLEAR) * nowhere for plain in curved]
    return {
        each: [
            error * factor
            for error, factor in zip(own, of_moments if each == _FREE else of_a_fit, strict=True)
        ]
        for each, own in errors.items()
    }


def _reason(taken: str, other: str, ratio: float) -> str:
    """Return the reason; ``ratio`` is how much the other errs, a geometric mean."""
    ratio *= UNSTATED if taken == _PERTURBED else 1 / UNSTATED  # of the errors themselves
    by = "about as much" if 1 / _NEAR < ratio < _NEAR else f"{rounded(ratio, 2)} times as much"
    if ratio < 1 / _NEAR:
        return f"{taken} states its noise, or errs less in the worst case; {other} errs {by}."
    return f"{taken} errs least in the worst of several public populations; {other} errs {by}."
