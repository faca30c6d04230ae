r"""Expected errors in closed form, over several populations: of regressions and of quantiles.

*Regressions by objective perturbation.* In scaled units the released theta is off from the fit
without noise by about

    b - H^-1 (V + gamma theta),   H = n p E[w x x'] + gamma I,

with V the tilt, gamma the ridge, and b the bias of Huber's loss. For squared loss p w = 2. For
Huber's w = 1, and p is the share of records within the threshold. For the logistic loss p = 1 and
w = sigma'(x'theta). V's law is public, so a number a'theta with a'E[error] = m errs by

    E|N(m, s)| = s sqrt(2 / pi) exp(-m^2 / 2 s^2) + |m| (1 - 2 Phi(-|m| / s)),
    s = sd(V_j) ||H^-1 a||_2,

to first order, which is about 20% where n E[w x x'] exceeds V and gamma. Sanitized moments (the
functional mechanism) err likewise, with n E[x x'] for H, its eigenvalues at least about the noise,
and for V the noise of X'y - X'X theta. They are then shrunk, by the mean factor where their squares
are half, once or twice their mean. E[x x'] is that of a few synthetic rows. The rest is unknown, so
errors are computed in several populations:

- the *assumed* one: features as they are assumed, independent; residuals normal, with the share
  1 - R^2 of the target's variance, or a deviation of 0.1 of half the target's width where nothing
  is stated of the target;
- *skewed* residuals, wider where the first feature is large. Of an unstated target they are as wide
  as one that spreads evenly over its bounds;
- *correlated* features, each two by 0.9, which oppose each other in the target;
- features that *explain* 80% of the target's variance, or of its log-odds';
- *narrow* features, if nothing is stated of them: a fifth of their bounds, near the lower one;
- all of these at once.

What 95% of errors are within is the largest over those that are not narrow: how far features
spread is in the sentence of the verdict, and what is unknown of residuals is in the number.

*Quantiles by the K-norm gradient mechanism*, from the law of their ranks. On sorted values
x_1 <= .. <= x_n of a column with bounds x_0 and x_(n+1), a released quantile of level l is between
x_i and x_(i+1) with a probability in proportion to

    nu(x_i, x_(i+1)) f((i - n l) / u),

about evenly, nu the base measure and f the law of an error in rank in units of u. For one level
f(z) = exp(-|z|), and this is the mechanism's law itself. Of several levels drawn jointly it is that
of each with the others' values spread as densely as its own: f is a bridge's
(:mod:`mechanisms.statistics.ranks.draw`). The answer without noise is spread evenly between the
values next to rank n l. Of whole numbers, x_i is a value of its own, with the ranks of all records
that have it: one level has the least of their distances to n l, and several drawn jointly have the
mean of f over them.

The difference of two quantiles errs by about ``c sqrt(v_1 + v_2 - 2 rho sqrt(v_1 v_2))``, v their
mean squared errors, c the mean ratio of E|e| to sqrt(E e^2), and rho = u / (2 u + 2) for quartiles
drawn jointly: that of a Brownian bridge at 1/3 and 2/3 where errors are many ranks.

Errors are those of several populations: the assumed one; one that is skewed, a lognormal of the
same mean and deviation, where the column's are stated; a narrow one, where they are not; and one
whose numbers are recorded in steps: of a 250th of their deviation, about three digits of where most
of them are, or of 1, where the bounds are whole numbers and the deviation is at least 10. There the
records next to a quantile have one value, and an answer is half a step off.

**Privacy.** Nothing here receives data.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import exp, pi, sqrt
from typing import Any, ClassVar, Protocol, cast

import numpy as np
from scipy.special import erf, expit, ndtri

from mechanisms.contract import ErrorLaw, Json, Plan, Statistic
from mechanisms.domain import NumberColumn, Schema, exact
from mechanisms.estimates.asked import Asked, relation_of, stored
from mechanisms.estimates.assumptions import Assumptions, Spread
from mechanisms.estimates.synthetic import synthetic_rows
from mechanisms.estimates.trees import ErrorsOver
from mechanisms.exact.floats import Floats
from mechanisms.exact.fractions import decimal_text
from mechanisms.functional.sanitized import answer_slopes, directions_of, james_stein
from mechanisms.parted import parts_of
from mechanisms.perturbation.linear import design_by_cells
from mechanisms.perturbation.thresholds import Law, cut, moment_spread, question_of
from mechanisms.statistics.cells.parting import Parting
from mechanisms.statistics.designs.scaling import RegressionScaling
from mechanisms.statistics.quantile import scale_of
from mechanisms.statistics.questions import Viewed, plain, viewed
from mechanisms.statistics.ranks.draw import bridge_law

_SQUARED: ErrorLaw = "squared loss"
_LOGISTIC: ErrorLaw = "logistic loss"
_RANKS: ErrorLaw = "ranks"
_PERTURBED = "objective_perturbation"
_MOMENTS = "functional"
_GAUSSIAN = "gaussian"
_HULL = 0.76
"""How much less than that of its box the noise of the hull's norm moves coefficients, about."""
_FEWEST = 50
_TINY = 1e-300
_LEAST = 1e-6
"""The least curvature of a record, so that a constant column has an error too."""
_ROWS = 1024
_TOGETHER = 0.9
_EXPLAINED = 0.8
_RESIDUAL, _EVEN = 0.1, 1 / sqrt(3)
_VARYING = 0.5
_LOGISTIC_VARIANCE = pi**2 / 3
_REACH = 1.96
_LEVELS = (0.5, 1.0, 2.0)
"""Squares of a block of coefficients, relative to their mean, for the factors of shrinkage."""


class Fit(Protocol):
    """What the forms ask of a regression: all that is its own is a fact of its class."""

    error_law: ClassVar[ErrorLaw]

    @property
    def names(self) -> tuple[str, ...]: ...
    @property
    def bound(self) -> float | None: ...
    @property
    def where(self) -> Sequence[object]: ...
    def parting(self, schema: Schema, /) -> Parting: ...
    def code_rows(self, schema: Schema, /) -> Any: ...
    def row_scaling(self, schema: Schema, /) -> RegressionScaling: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class _Population:
    """What is unknown of the records that a fit is about."""

    law: Law = "normal"
    wider: float = 1.0
    together: float = 0.0
    narrow: bool = False
    explained: float | None = None


def has_closed_form(statistic: Statistic, schema: Schema) -> bool:
    """Return whether errors of a statistic have these forms, by the mechanisms that mostly draw it.

    It need not have been checked: what is refused is said where it is planned.
    """
    asked: Any = statistic
    if statistic.error_law not in (_SQUARED, _LOGISTIC, _RANKS) or asked.weights is not None:
        return False
    if statistic.error_law == _RANKS:
        return isinstance(schema.columns.get(asked.column), NumberColumn)
    return True


def errors_of_fit(asked: Asked, plan: Plan, assumptions: Assumptions) -> ErrorsOver | None:
    """Return the expected errors of a regression; None where they have no closed form here."""
    wanted = viewed(asked.statistic, asked.schema)
    fit: Any = wanted.statistic
    if fit.error_law not in (_SQUARED, _LOGISTIC):
        return None
    if fit.weights is not None or fit.by or assumptions.coefficients:
        return None
    facts = plan.details
    if plan.mechanism in (_MOMENTS, _GAUSSIAN) and fit.ridge is None:
        schema = wanted.view.schema
        if fit.where:  # as it is planned
            schema = replace(schema, selected=True)
        gaussian = plan.mechanism == _GAUSSIAN
        question = question_of(plain(fit), schema, asked.epsilon, "auto")
        spread = moment_spread(replace(question, gaussian=gaussian), schema.adjacency)
        facts = {"loss": _MOMENTS, "spread": spread * (1 if gaussian else _HULL)}
    elif plan.mechanism != _PERTURBED:
        return None
    return _over_populations(_Fitted(asked, wanted, facts, assumptions))


def _over_populations(fitted: _Fitted) -> ErrorsOver:
    populations = list(fitted.populations())
    found = [fitted.errors(each) for each in populations]
    errors = np.array([each for each, _, _ in found])
    within = [
        reach for one, (_, _, reach) in zip(populations, found, strict=True) if not one.narrow
    ]
    mean, bias, _ = found[0]
    names = fitted.scaling.names

    def tree(row: Floats) -> Json:
        return {"coefficients": dict(zip(names, map(float, row), strict=True))}

    return ErrorsOver(
        mean=tree(mean),
        low=tree(errors.min(axis=0)),
        high=tree(errors.max(axis=0)),
        reach=float(np.max(within)),
        bias=float((bias / np.maximum(mean, _TINY)).max()),
    )


def _shrunk(noise: Floats, inverse: Floats, theta: Floats, pull: Floats) -> tuple[Floats, Floats]:
    """Return the inverse and the pull of coefficients that are shrunk: (functional.sanitized)."""
    directions, stds = directions_of(noise)
    squares = (directions.T @ (theta - pull)) ** 2 + stds**2
    levels = np.array(_LEVELS)[:, None]
    factors = np.array([james_stein(level * squares, stds) for level in _LEVELS])
    means = factors.mean(axis=0)
    # the more noise there is, the less of it is shrunk
    spreads = np.sqrt((levels * factors**2).sum(axis=0) / levels.sum())
    kept = (directions * means) @ directions.T
    return (directions * spreads) @ directions.T @ inverse, theta - kept @ (theta - pull)


@dataclass(frozen=True, slots=True)
class _Fitted:
    """A regression as it is drawn, and what is assumed of its records."""

    asked: Asked
    wanted: Viewed[Statistic]
    facts: Mapping[str, Any]
    assumptions: Assumptions

    @property
    def fit(self) -> Fit:
        return cast(Fit, self.wanted.statistic)

    @property
    def scaling(self) -> RegressionScaling:
        return self.fit.row_scaling(self.wanted.view.schema)

    def populations(self) -> Iterator[_Population]:
        """Yield the assumed population first."""
        yield _Population()
        worst = _Population()
        if self.fit.error_law == _SQUARED:
            stated = self._stated_target() is not None or self.assumptions.even
            wider = 1.0 if stated else _EVEN / self._target_std()
            worst = replace(worst, law="skewed", wider=wider)
            yield worst
        if len(self._features()) > 1:
            yield _Population(together=_TOGETHER)
            worst = replace(worst, together=_TOGETHER)
        yield _Population(explained=_EXPLAINED)
        if self.fit.error_law == _LOGISTIC:
            worst = replace(worst, explained=_EXPLAINED)
        if self._unstated():
            yield _Population(narrow=True)
            worst = replace(worst, narrow=True)
        yield worst

    def errors(self, one: _Population) -> tuple[Floats, Floats, Floats]:
        """Return the mean errors, the biases and what 95% are within, in the columns' units."""
        rows, design, signs = self._rows(one)
        slopes = answer_slopes(self.scaling)
        theta, share, bias = self._theta(one, design, signs)
        weights = 2.0 * np.ones(len(design))
        if self.fit.error_law == _LOGISTIC:
            tilted = expit(design @ theta)
            weights = tilted * (1 - tilted)
        elif self.facts.get("loss") == "huber":
            weights = share * np.ones(len(design))
        joined = self._joined()
        hessian: Floats = rows * (design.T * weights) @ design / max(len(design), 1)
        if self.facts.get("loss") == _MOMENTS:
            noise = float(self.facts["spread"]) * sqrt(1 + float(theta @ theta))
            inverse, pull = self._solved(hessian / 2, theta)  # of squared loss it is twice X'X
            inverse, pull = _shrunk(noise * inverse @ joined, inverse, theta, pull)
        else:
            noise = float(self.facts["tilt_std"])
            gamma = float(self.facts["gamma"]) * joined @ joined.T
            held = hessian + gamma + _LEAST * rows * np.eye(len(theta))
            inverse = np.asarray(np.linalg.inv(held), dtype=np.float64)
            pull = inverse @ (gamma @ theta)
        mean = np.abs(slopes @ pull) + np.abs(slopes) @ bias
        std = noise * np.linalg.norm(slopes @ inverse @ joined, axis=1)
        most = np.full(len(mean), np.inf)
        if self.fit.bound is not None:  # no draw is further from another
            most = 2 * float(self.fit.bound) * np.abs(slopes).max(axis=1)
        error = std * sqrt(2 / pi) * np.exp(-(mean**2) / (2 * std**2))
        error += mean * erf(mean / (sqrt(2) * std))
        return (
            np.minimum(error, most),
            np.minimum(mean, most),
            np.minimum(mean + _REACH * std, most),
        )

    def _solved(self, gram: Floats, theta: Floats) -> tuple[Floats, Floats]:
        """Return the inverse by which sanitized moments are solved, and the pull of its rule.

        Eigenvalues within the noise count as large as that: (functional.sanitized).
        """
        values, vectors = np.linalg.eigh(gram)
        edge = 2 * float(self.facts["spread"]) * sqrt(len(theta))
        divisors = np.maximum(values, edge)
        kept = (vectors * (values / divisors)) @ vectors.T
        return (vectors / divisors) @ vectors.T, theta - kept @ theta

    def _joined(self) -> Floats:
        """Return F: ridge and tilt are of F'theta, where a factor's values are blocks."""
        asked: Any = self.fit
        by_cells = "cells_of" in self.facts or self.facts.get("loss") == _MOMENTS
        found = design_by_cells(asked, self.wanted.view.schema) if by_cells else None
        if found is None:
            return np.eye(self.scaling.dimension)
        return np.array(found.joined.matrix, dtype=np.float64)

    def _rows(self, one: _Population) -> tuple[float, Floats, Floats]:
        """Return how many records there are, some of them in scaled units, and their targets."""
        schema, view = self.asked.schema, self.wanted.view
        sample = synthetic_rows(
            schema, self._assumed(one), _ROWS, relation_of(self.wanted), together=one.together
        )
        data: Any = view.over(sample.data)
        total = float(self.assumptions.rows_of(schema))
        if self.fit.where:
            (part,) = parts_of(data, self.fit.parting(view.schema))
            total *= part.rows / _ROWS
            data = part if part.rows >= _FEWEST else data  # too few say nothing of their spread
        codes, signs = self._codes(data)
        columns = [np.ones((len(codes), 1))] if self.scaling.intercept else []
        for place, column in enumerate(self.scaling.features):
            start = column.offset / column.divisor
            columns.append(start + float(column.slope) * codes[:, [place]])
        return max(total, 1.0), np.hstack(columns), signs

    def _codes(self, data: Any) -> tuple[Floats, Floats]:
        """Return the features' codes over F, and the target's signs (all 1 of a number)."""
        read = self.fit.code_rows(self.wanted.view.schema)
        chunks = [chunk for block in data.blocks(read.columns) for chunk in read(block)]
        rows = np.vstack(chunks)
        codes = rows[:, 1 : 1 + len(self.scaling.features)] * rows[:, :1]
        return codes, -rows[:, 0]

    def _theta(
        self, one: _Population, design: Floats, signs: Floats
    ) -> tuple[Floats, float, Floats]:
        """Return theta, the share of records that Huber's loss squares, and its bias."""
        explained = one.explained or self.assumptions.r_squared
        features = design[:, self.scaling.intercept :]
        theta, bias, share = np.zeros(design.shape[1]), np.zeros(design.shape[1]), 1.0
        if self.fit.error_law == _LOGISTIC:
            size = sqrt(explained / (1 - explained) * _LOGISTIC_VARIANCE)
            level = float(np.clip(np.mean(signs), -0.98, 0.98))
            level = np.log((1 + level) / (1 - level))
        else:
            target = self._target_std()
            size, residual, level = target * sqrt(explained), target * sqrt(1 - explained), 0.0
            residual *= one.wider
            if self.facts["loss"] == "huber":
                width = float(self.scaling.target_width)
                ratio = float(self.facts["threshold"]) / width / residual
                found = cut(one.law, ratio, _VARYING if one.law == "skewed" else 0.0)
                share = found.share
                bias[: self.scaling.intercept] = residual * abs(found.constant)
                if features.shape[1]:  # of the first one, as no public fact says which
                    first = int(self.scaling.intercept)
                    spread = max(float(np.std(features[:, 0])) * sqrt(3), 1e-9)
                    bias[first] = residual * abs(found.slope) / spread
        if features.shape[1]:
            slopes = _slopes(features, size, opposed=one.together > 0)
            theta[self.scaling.intercept :] = slopes
            level -= float(features.mean(axis=0) @ slopes)
        if self.scaling.intercept:
            theta[0] = level
        bound = self.fit.bound
        length = float(np.abs(theta).sum())
        if bound is not None and length > bound:
            theta *= bound / length
        return theta, share, bias

    def _target_std(self) -> float:
        """Return the deviation of the target in scaled units."""
        stated = self._stated_target()
        if stated is None and self.assumptions.even:
            return _EVEN
        if stated is None:
            return _RESIDUAL / sqrt(1 - self.assumptions.r_squared)
        return stated.std / float(self.scaling.target_width)

    def _stated_target(self) -> Spread | None:
        target = getattr(self.fit, "target", None)
        return self.assumptions.spread_of(target) if isinstance(target, str) else None

    def _features(self) -> list[str]:
        """Return the stored number columns that features are made of."""
        names = stored(self.wanted, [*self.fit.names])
        columns = self.asked.schema.columns
        return [name for name in names if isinstance(columns[name], NumberColumn)]

    def _unstated(self) -> list[str]:
        return self.assumptions.unstated(self._features(), self.asked.schema)

    def _assumed(self, one: _Population) -> Assumptions:
        """Return what a population's columns are like."""
        if not one.narrow:
            return self.assumptions
        return self.assumptions.narrowed(self._unstated(), self.asked.schema)


def _slopes(features: Floats, size: float, *, opposed: bool) -> Floats:
    """Return slopes whose sum x'slopes has this deviation: of equally strong features.

    ``opposed``: along the direction in which features vary least, where a fit is least certain.
    """
    spreads = np.maximum(np.std(features, axis=0), 1e-9)
    direction = 1 / spreads
    if opposed:
        correlation = np.atleast_2d(np.corrcoef(features / spreads, rowvar=False))
        direction = np.linalg.eigh(np.nan_to_num(correlation))[1][:, 0] / spreads
    found = float(np.std(features @ direction))
    return np.asarray(direction * size / max(found, 1e-9))


# Quantiles

_GRADIENT = "kng"
_RANKED, _SAMPLES = 1000, 24
_SIGMA = 0.8  # of the logarithm: a skewness of 3.7
_JOINTLY = 0.5
_WITHIN = 2.5  # what 95% of errors are within, in their mean
_STEP = 1 / 250  # of a deviation, so about a thousandth of where most values are
_TWO_DIGITS = 10  # a deviation with which whole numbers may well be all that was recorded
_EXACT = 12  # levels; more have about the law of the middle one


def errors_of_quantiles(asked: Asked, plan: Plan, assumptions: Assumptions) -> ErrorsOver | None:
    """Return the expected errors of quantiles; None where their law is another."""
    wanted = viewed(asked.statistic, asked.schema)
    question: Any = wanted.statistic
    if plan.mechanism != _GRADIENT or question.error_law != _RANKS or question.weights is not None:
        return None
    column = wanted.view.schema.columns[question.column]
    if not isinstance(column, NumberColumn) or question.by:
        return None
    drawn = question.drawn_by() or question  # a difference of levels is read off both
    scale = scale_of(column, drawn.base_measure, drawn.exact_levels())
    law = _Law.of(plan, drawn.levels, None if scale is None else float(scale))
    found, wide, deviations = [], [], list[float]()
    for population, skewed in _shapes(asked, assumptions, question.column):
        wide.append(skewed or population is assumptions)
        samples = list(_samples(asked, population, question.column, skewed=skewed))
        total = population.rows_of(asked.schema)
        squares = np.mean([law.errors(each, total, column) for each in samples], axis=0)
        found.append(squares)
        deviations.append(float(np.mean([np.std(each) for each in samples])))
    if not _is_whole(column):
        found.append(_recorded(found[0], _step(column, deviations[0])))
        wide.append(False)
    if drawn is not question:
        errors = [_difference(each, law.rho) for each in found]

        def tree(row: Floats) -> Json:
            return {question.column: float(row[0])}
    else:
        errors = [each[0] for each in found]

        def tree(row: Floats) -> Json:
            return {
                "quantiles": [
                    {"level": decimal_text(level), "value": float(error)}
                    for level, error in zip(question.exact_levels(), row, strict=True)
                ]
            }

    every = np.array(errors)
    return ErrorsOver(
        mean=tree(every[0]),
        low=tree(every.min(axis=0)),
        high=tree(every.max(axis=0)),
        reach=_WITHIN * float(every[wide].max()),
    )


def _shapes(
    asked: Asked, assumptions: Assumptions, column: str
) -> Iterator[tuple[Assumptions, bool]]:
    """Yield populations, the assumed one first, and whether values are skewed in them."""
    yield assumptions, False
    if assumptions.spread_of(column) is not None:
        yield assumptions, True
        return
    stored = [column] if column in asked.schema.columns else []
    if unstated := assumptions.unstated(stored, asked.schema):
        yield assumptions.narrowed(unstated, asked.schema), False


def _samples(
    asked: Asked, assumptions: Assumptions, column: str, *, skewed: bool
) -> Iterator[Floats]:
    """Yield sorted values of the column in samples of rows, those that conditions choose."""
    wanted = viewed(asked.statistic, asked.schema)
    statistic: Any = wanted.statistic
    spread = assumptions.spread_of(column)
    count = min(assumptions.rows_of(asked.schema), _RANKED)
    for sample in range(_SAMPLES):
        rows = synthetic_rows(asked.schema, assumptions, max(count, 1), None, sample=sample)
        data: Any = wanted.view.over(rows.data)
        if statistic.where:
            (part,) = parts_of(data, statistic.parting(wanted.view.schema))
            values = _values(part, column)
            values = values if len(values) else _values(data, column)[:1]  # there may be fewer
        else:
            values = _values(data, column)
        values = np.sort(values.astype(np.float64))
        if skewed and spread is not None and len(values):
            normal = ndtri((np.arange(len(values)) + 0.5) / len(values))
            wide = exp(_SIGMA**2)
            lognormal = (np.exp(_SIGMA * normal) - sqrt(wide)) / sqrt((wide - 1) * wide)
            values = spread.mean + spread.std * lognormal
            if _is_whole(wanted.view.schema.columns[column]):
                values = np.rint(values)
        yield values


def _is_whole(column: Any) -> bool:
    """Return whether a number column has whole numbers alone, so that records share values."""
    return bool(column.whole or column.boolean)


def _values(data: Any, column: str) -> Floats:
    return np.concatenate([block[exact(column)] for block in data.blocks([exact(column)])])


@dataclass(frozen=True, slots=True)
class _Law:
    """The law of errors in rank: its unit for each level, and s of a logarithmic base measure."""

    levels: tuple[float, ...]
    units: tuple[float, ...]
    jointly: bool
    epsilon: float
    scale: float | None

    @classmethod
    def of(cls, plan: Plan, levels: Sequence[float], scale: float | None) -> _Law:
        jointly = plan.details["levels_drawn"] == "jointly"
        means = cast(Sequence[float], plan.details["mean_rank_errors"])
        units = []
        for level, mean in zip(levels, means, strict=True):
            place = 1 + sorted(levels).index(level)
            points, odds = _bridge(len(levels), place, jointly=jointly)
            units.append(float(mean) / float(odds @ np.abs(points)))
        epsilon = float(plan.guarantee.epsilon.fraction)
        return cls(tuple(levels), tuple(units), jointly, epsilon, scale)

    @property
    def rho(self) -> float:
        """Return how much errors of the first two levels correlate."""
        unit = self.units[0]
        return _JOINTLY * unit / (unit + 1) if self.jointly else 0.0

    def errors(self, values: Floats, total: float, column: NumberColumn) -> Floats:
        """Return E|e| and E e^2 of each level, shape (2, levels), on a sample of the rows.

        Few rows stand for many at a larger epsilon, of at most 1; beyond, errors are in proportion.
        """
        found = np.zeros((2, len(self.levels)))
        cells = _Cells.of(values, column, self.scale)
        wanted = max(total / _RANKED, 1.0)
        # Among records that share values few stand for many whatever epsilon is.
        taken = wanted if cells.shared else min(wanted, max(1 / self.epsilon, 1.0))
        for place, (level, unit) in enumerate(zip(self.levels, self.units, strict=True)):
            order = 1 + sorted(self.levels).index(level)
            bridge = _logs(len(self.levels), order, jointly=self.jointly)
            grid, log_odds, _ = bridge
            rank = level * len(values)
            off = cells.off(rank)
            inside = int(np.argmin(np.where(cells.masses > 0, off, np.inf)))
            z = off / (unit / taken)
            # Beyond the grid as exp(-2 |z|), which is how it ends.
            logs = np.interp(z, grid, log_odds) - 2 * np.maximum(z - grid[-1], 0.0)
            if self.jointly:  # records of one value are spread evenly over its ranks
                logs = cells.spread(logs, rank, unit / taken, bridge)
            chances = cells.masses * np.exp(logs - logs[cells.masses > 0].max())
            chances /= chances.sum()
            away = np.abs(cells.middles - cells.middles[inside])
            away[inside] = cells.widths[inside] / 3
            factor = taken / wanted
            found[:, place] = factor * (chances @ away), factor**2 * (chances @ away**2)
        return found


@dataclass(frozen=True, slots=True)
class _Cells:
    """The values that may be released, in cells of one rank: gaps between values, and values.

    A cell of whole numbers that records have is one number, and its ranks are those from
    ``below`` to ``upto``; of other cells both are the same. ``shared`` says whether most records
    share their value with another.
    """

    masses: Floats
    middles: Floats
    widths: Floats
    below: Floats
    upto: Floats
    shared: bool

    @classmethod
    def of(cls, values: Floats, column: NumberColumn, scale: float | None) -> _Cells:
        """Return the cells, with what the base measure gives each."""
        ends = float(column.lower), float(column.upper)
        values = np.clip(values, *ends)
        if not _is_whole(column):
            points = np.concatenate([[ends[0]], values, [ends[1]]])
            masses = np.diff(_measured(points, scale))
            middles, ranks = (points[1:] + points[:-1]) / 2, np.arange(len(masses), dtype=float)
            return cls(masses, middles, np.diff(points), ranks, ranks, shared=False)
        own, counts = np.unique(values, return_counts=True)
        upto = np.concatenate([[0], np.cumsum(counts)]).astype(np.float64)
        # A number t is the cell [t, t + 1): its gap ends where the next number begins.
        starts = np.empty(2 * len(own) + 2)
        starts[0], starts[-1] = ends[0], ends[1] + 1
        starts[1:-1:2], starts[2:-1:2] = own, own + 1
        masses, widths = np.diff(_measured(starts, scale)), np.diff(starts)
        below, above = np.empty(len(masses)), np.empty(len(masses))
        below[::2], above[::2] = upto, upto
        below[1::2], above[1::2] = upto[:-1], upto[1:]
        middles = (starts[1:] + starts[:-1] - 1) / 2
        shared = 2 * len(own) <= len(values)
        return cls(masses, middles, widths - 1, below, above, shared=shared)

    def off(self, rank: float) -> Floats:
        """Return how far each cell is from a rank."""
        return np.maximum(np.maximum(self.below - rank, rank - self.upto), 0.0)

    def spread(self, logs: Floats, rank: float, unit: float, bridge: _Bridge) -> Floats:
        """Return the logs of odds, of cells with several ranks in their mean over those."""
        many = self.upto > self.below
        if not many.any():
            return logs
        grid, _, upto = bridge
        ends = (self.below[many] - rank) / unit, (self.upto[many] - rank) / unit
        first, last = (np.interp(end, grid, upto) for end in ends)
        mean = (last - first) * (grid[1] - grid[0]) / (ends[1] - ends[0])
        found = logs.copy()
        found[many] = np.log(np.maximum(mean, _TINY))
        return found


def _measured(points: Floats, scale: float | None) -> Floats:
    """Return points on the scale on which the base measure is uniform."""
    return points if scale is None else np.arcsinh(points / scale)


def _bridge(count: int, place: int, *, jointly: bool) -> tuple[Floats, Floats]:
    if not jointly or count == 1:
        return bridge_law(1)
    return bridge_law(count, place) if count <= _EXACT else bridge_law(_EXACT)


_Bridge = tuple[Floats, Floats, Floats]
"""Points of a law, the logs of their odds, and the sums of the odds up to each."""


@lru_cache(maxsize=64)
def _logs(count: int, place: int, *, jointly: bool) -> _Bridge:
    points, odds = _bridge(count, place, jointly=jointly)
    return points, np.log(odds), np.cumsum(odds)


def _step(column: NumberColumn, deviation: float) -> float:
    """Return the widest steps in which such numbers are usually recorded."""
    is_whole = column.lower.denominator == column.upper.denominator == 1
    return max(deviation * _STEP, float(is_whole and deviation >= _TWO_DIGITS))


def _recorded(moments: Floats, step: float) -> Floats:
    """Return E|e| and E e^2 where values are recorded in steps: half a step is added to errors."""
    sizes, squares = moments
    off = step / 2
    return np.array([np.hypot(sizes, off), squares + off**2])


def _difference(moments: Floats, rho: float) -> Floats:
    """Return E|e_2 - e_1| of two levels from E|e| and E e^2 of each."""
    sizes, squares = moments
    roots = np.sqrt(squares)
    ratio = float(np.mean(sizes / np.maximum(roots, _TINY)))
    return np.array([ratio * sqrt(max(squares.sum() - 2 * rho * roots.prod(), 0.0))])
