"""What sanitized moments determine: an answer, its noise, and its inference.

*Means of the population.* Of each possible mean m and variance v of n rows without privacy noise,
the population's mean is ``m + sqrt(v / (n - 1)) t`` with t of n - 1 degrees of freedom: the
interval of any textbook, and of a yes-or-no column that of a share. A possible variance is no less
than 0, and no more than bounds and mean allow, (U - m)(m - L) (Bhatia & Davis 2000).

*Correlations in the population.* With u, v the standardised columns and r their correlation, that
of n rows has about the variance E w^2 / n (Steiger & Hakstian 1982, without normality), where

    w = u v - r (u^2 + v^2) / 2 = ((1 - r) (u + v)^2 - (1 + r) (u - v)^2) / 4.

For normal columns E w^2 = (1 - r^2)^2, which is Fisher's interval. Of heavy tails it may be ten
times as much, and it needs fourth moments, which are not released. But columns have bounds: with
|u| <= A and |v| <= B, (u + v)^2 and (u - v)^2 are at most (A + B)^2, and have the means 2 (1 + r)
and 2 (1 - r). So

    E w^2 <= (A + B)^2 (2 (1 - r)^2 (1 + r) + 2 (1 + r)^2 (1 - r)) / 16 = (A + B)^2 (1 - r^2) / 4,

and the population's correlation is ``tanh(artanh(r) + z (A + B) / (2 sqrt((1 - r^2) n)))``, z
standard normal: an interval that holds whatever the columns' distributions are, and is wide where
bounds are far apart. Where a possible variance is not positive nothing is said of r.

*At no cost.* Where standard errors are asked for, the whole epsilon may be spent on the moments of
all columns:

    release S(D) + V, epsilon-DP, S the sums of products of (1, all columns),
    and of it the answer and its standard errors, both functions of S(D) + V alone.

- *The functional mechanism* sanitizes moments already. If they include the target's square, its
  coefficients have standard errors at no further cost.
- Means, variances, standard deviations, covariances and correlations by added noise are drawn as
  moments where standard errors are asked for. A mean then has more noise than by itself, since the
  squares are drawn with it.

**Privacy.** The guarantee is that of the moments (:mod:`mechanisms.statistics.moments`), under
whatever adjacency they are planned for. All else is post-processing (Awan & Slavkovic, Proposition
2.11).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import combinations
from typing import Any, cast

import numpy as np

from mechanisms.contract import (
    Calibrate,
    Data,
    Drawing,
    Inference,
    InvalidStatisticError,
    Outcome,
    Parameters,
    Plan,
    Statistic,
    require_numbers,
)
from mechanisms.domain import Schema
from mechanisms.exact.floats import Floats
from mechanisms.functional.linear import FunctionalDraw, coordinate_noise, rule_of
from mechanisms.functional.moments import RegressionMoments, regression_moments
from mechanisms.functional.sanitized import CoordinateNoise, equations, regression_outcome
from mechanisms.gaussian import noise as gaussian
from mechanisms.gaussian.noise import AddedGaussian, GaussianNoise
from mechanisms.inference.evidence import Evidence, Infer, Simulation, noise_of, term
from mechanisms.inference.regression import METHOD as LINEAR
from mechanisms.inference.regression import of_equations, of_regression
from mechanisms.knorm import (
    THEOREM,
    AddedNoise,
    AdditiveNoise,
    IntegerNoise,
    ball_of,
    draw_coordinates,
    guarantee_of,
    plan_form,
)
from mechanisms.privacy import EpsilonShare, PrivacyLoss
from mechanisms.randomness import Randomness
from mechanisms.statistics.additive import AdditiveStatistic, Coordinates, describe_noise, render
from mechanisms.statistics.correlation import Correlation
from mechanisms.statistics.covariance import Covariance, moment_layout
from mechanisms.statistics.designs.scaling import RegressionScaling
from mechanisms.statistics.linear_regression import LinearRegression
from mechanisms.statistics.mean import Mean
from mechanisms.statistics.moments import Moments
from mechanisms.statistics.second_order import Jet, Layout, MomentStatistic, Selection
from mechanisms.statistics.std import Std
from mechanisms.statistics.variance import Variance

# Means of the population

METHOD_OF_MEANS = (
    "simulated from the noisy moments and the law of their noise, for rows drawn independently "
    "from the population; sampling and privacy noise together; values outside their bounds count "
    "as the bound"
)


def of_means(_statistic: Statistic, evidence: Evidence) -> Inference:
    """Return the inference about the means of all columns."""
    size = len(evidence.names)
    places = [(0, 0), *((0, j) for j in range(1, 1 + size)), *((j, j) for j in range(1, 1 + size))]
    sums = evidence.simulated.possible([evidence.sums[place] for place in places])
    # A variance needs two rows, even if a noisy count is smaller.
    counts = np.maximum(sums[:, :1], 2.0)
    means = sums[:, 1 : 1 + size] / counts
    widest = np.maximum(1 - means**2, 0.0)
    variances = np.clip(sums[:, 1 + size :] / counts - means**2, 0.0, widest)
    degrees = counts - 1
    scales = np.sqrt(degrees[:, 0] / evidence.simulated.chi_squares("scale", degrees[:, 0]))
    students = evidence.simulated.normals("means", size) * scales[:, None]
    possible = means + np.sqrt(variances / degrees) * students
    terms = [
        term(
            name,
            cast(float, evidence.outcome.value[name]),
            float(column.midpoint) + float(column.sum_half_width) * possible[:, j],
            (float(column.lower), float(column.upper)),
            noise_of(evidence.outcome.noise, name),
            place=(name,),
        )
        for j, (name, column) in enumerate(zip(evidence.names, evidence.numbers, strict=True))
    ]
    return Inference(terms=tuple(terms), method=METHOD_OF_MEANS)


# Correlations in the population

METHOD_OF_CORRELATIONS = (
    "simulated from the noisy moments and the law of their noise, with the largest sampling error "
    "that columns within their bounds may have, for rows drawn independently and many; sampling "
    "and privacy noise together; values outside their bounds count as the bound"
)
_NEAREST = 1 - 1e-12  # artanh is infinite at 1


def of_correlations(_statistic: Statistic, evidence: Evidence) -> Inference:
    """Return the inference about the correlation of every two columns."""
    places = list(evidence.sums)
    rows = evidence.simulated.possible(list(evidence.sums.values())).T
    sums = dict(zip(places, rows, strict=True))
    pairs = list(combinations(range(len(evidence.names)), 2))
    errors = evidence.simulated.normals("correlations", len(pairs)).T
    matrix = cast(Sequence[Sequence[float]], evidence.outcome.value["matrix"])
    terms = [
        term(
            f"{evidence.names[j]}:{evidence.names[k]}",
            float(matrix[j][k]) if _is_determined(evidence.sums, 1 + j, 1 + k) else np.nan,
            _sampled(_found(sums, 1 + j, 1 + k), sums, (1 + j, 1 + k), error),
            (-1.0, 1.0),
            noise_of(evidence.outcome.noise, "matrix", j, k),
            place=("matrix", j, k),
            edges=True,
        )
        for (j, k), error in zip(pairs, errors, strict=True)
    ]
    return Inference(terms=tuple(terms), method=METHOD_OF_CORRELATIONS)


def _is_determined(sums: Mapping[tuple[int, int], Jet], j: int, k: int) -> bool:
    """Return whether the released sums determine a correlation: both variances are positive."""
    released = {place: np.array([float(jet.value)]) for place, jet in sums.items()}
    return bool(np.isfinite(_found(released, j, k)[0]))


def _found(sums: Mapping[tuple[int, int], Floats], j: int, k: int) -> Floats:
    """Return the correlation in each of the possible sums, NaN where a variance is not positive."""
    counts = np.maximum(sums[0, 0], 1.0)
    one, two = sums[0, j] / counts, sums[0, k] / counts
    # Noise may leave a variance that is not positive: of that nothing follows.
    variances = sums[j, j] / counts - one**2, sums[k, k] / counts - two**2
    known = (variances[0] > 0) & (variances[1] > 0)
    scale = np.sqrt(np.where(known, variances[0] * variances[1], np.nan))
    return np.asarray((sums[j, k] / counts - one * two) / scale, dtype=np.float64)


def _sampled(
    found: Floats, sums: Mapping[tuple[int, int], Floats], pair: tuple[int, int], error: Floats
) -> Floats:
    """Return the possible correlations of the population, given a sample's.

    Each column's farthest bound is A deviations from its mean: sum codes are in [-1, 1].
    """
    counts = np.maximum(sums[0, 0], 1.0)
    reach = np.zeros_like(found)
    for place in pair:
        mean = np.clip(sums[0, place] / counts, -1.0, 1.0)
        variance = sums[place, place] / counts - mean**2
        reach += (1 + np.abs(mean)) / np.sqrt(np.where(variance > 0, variance, np.nan))
    r = np.clip(found, -_NEAREST, _NEAREST)
    spread = reach / (2 * np.sqrt((1 - r**2) * counts))
    return np.asarray(np.tanh(np.arctanh(r) + error * spread))


# Variances, standard deviations and covariances of the population

METHOD_OF_SPREADS = (
    "simulated from the noisy moments and the law of their noise, with the largest sampling error "
    "that columns within their bounds may have, for rows drawn independently and many; sampling "
    "and privacy noise together; values outside their bounds count as the bound"
)


def of_spreads(statistic: Statistic, evidence: Evidence) -> Inference:
    """Return the inference about the variance of every column, or its root."""
    root = statistic.in_unit_of_column
    size = len(evidence.names)
    places = [(0, 0), *((0, j) for j in range(1, 1 + size)), *((j, j) for j in range(1, 1 + size))]
    sums = evidence.simulated.possible([evidence.sums[place] for place in places])
    errors = evidence.simulated.normals("spreads", size)
    terms = []
    for j, (name, column) in enumerate(zip(evidence.names, evidence.numbers, strict=True)):
        possible = _spread(sums[:, 0], sums[:, 1 + j], sums[:, 1 + size + j], errors[:, j])
        most = float(column.half_width)
        scaled = possible * float(column.sum_half_width) ** 2
        terms.append(
            term(
                name,
                cast(float, evidence.outcome.value[name]),
                np.sqrt(scaled) if root else scaled,
                (0.0, most if root else most**2),
                noise_of(evidence.outcome.noise, name),
                place=(name,),
                edges=True,
            )
        )
    return Inference(terms=tuple(terms), method=METHOD_OF_SPREADS)


def _spread(n: Floats, total: Floats, squares: Floats, error: Floats) -> Floats:
    """Return the possible variances of the population, in squared sum half-widths."""
    n = np.maximum(n, 2.0)
    mean = np.clip(total / n, -1.0, 1.0)
    widest = 1 - mean**2
    farthest = (1 + np.abs(mean)) ** 2
    share = np.clip(squares / n - mean**2, 0.0, widest) / farthest
    turned = np.arcsin(np.sqrt(share)) + error / (2 * np.sqrt(n))
    # The population's mean is not the sample's, so its variance may exceed what that one allows.
    return np.asarray(farthest * np.sin(np.clip(turned, 0.0, np.pi / 2)) ** 2, dtype=np.float64)


def of_covariances(_statistic: Statistic, evidence: Evidence) -> Inference:
    """Return the inference about the covariance of every two columns, and each variance."""
    places = list(evidence.sums)
    rows = evidence.simulated.possible(list(evidence.sums.values())).T
    sums = dict(zip(places, rows, strict=True))
    size = len(evidence.names)
    pairs = [(j, k) for j in range(size) for k in range(j, size)]
    errors = evidence.simulated.normals("covariances", len(pairs)).T
    matrix = cast(Sequence[Sequence[float]], evidence.outcome.value["matrix"])
    halves = [float(column.sum_half_width) for column in evidence.numbers]
    terms = [
        term(
            evidence.names[j] if j == k else f"{evidence.names[j]}:{evidence.names[k]}",
            float(matrix[j][k]),
            halves[j] * halves[k] * _covariance(sums, 1 + j, 1 + k, error),
            (0.0 if j == k else -halves[j] * halves[k], halves[j] * halves[k]),
            noise_of(evidence.outcome.noise, "matrix", j, k),
            place=("matrix", j, k),
            edges=True,
        )
        for (j, k), error in zip(pairs, errors, strict=True)
    ]
    return Inference(terms=tuple(terms), method=METHOD_OF_SPREADS)


def _covariance(sums: Mapping[tuple[int, int], Floats], j: int, k: int, error: Floats) -> Floats:
    """Return the possible covariances of the population, in sum half-widths of both columns."""
    if j == k:
        return _spread(sums[0, 0], sums[0, j], sums[j, j], error)
    n = np.maximum(sums[0, 0], 2.0)
    one, two = (np.clip(sums[0, each] / n, -1.0, 1.0) for each in (j, k))
    spreads = [
        np.clip(sums[each, each] / n - mean**2, 0.0, 1 - mean**2)
        for each, mean in ((j, one), (k, two))
    ]
    reaches = (1 + np.abs(one)) ** 2, (1 + np.abs(two)) ** 2
    most = np.sqrt(spreads[0] * spreads[1])
    found = np.clip(sums[j, k] / n - one * two, -most, most)
    square = np.minimum(reaches[0] * spreads[1], reaches[1] * spreads[0])
    return np.asarray(
        found + error * np.sqrt(np.maximum(square - found**2, 0.0) / n), dtype=np.float64
    )


# What sanitized moments determine: an answer, its noise, and its inference

_BY_STATISTIC: dict[type[Statistic], Infer] = {
    LinearRegression: of_regression,
    Mean: of_means,
    Variance: of_spreads,
    Std: of_spreads,
    Covariance: of_covariances,
    Correlation: of_correlations,
}
_METHODS: Mapping[type[Statistic], str] = {
    Mean: METHOD_OF_MEANS,
    Variance: METHOD_OF_SPREADS,
    Std: METHOD_OF_SPREADS,
    Covariance: METHOD_OF_SPREADS,
    Correlation: METHOD_OF_CORRELATIONS,
}


def method_of(statistic: Statistic) -> str | None:
    """Return how an answer that is read off moments gets its intervals; None where it has none."""
    return _METHODS.get(type(statistic))


def _regression(
    statistic: Statistic,
    sums: Mapping[tuple[int, int], Jet],
    law: CoordinateNoise,
    seed: bytes,
    schema: Schema,
) -> Outcome:
    asked = cast(LinearRegression, statistic)
    scaling = asked.scaling(schema)
    return regression_outcome(
        equations(scaling, sums), scaling, rule_of(asked), law, seed=seed, centred=True
    )


_FITTED: Mapping[type[Statistic], Callable[..., Outcome]] = {LinearRegression: _regression}
"""Statistics that moments determine by a fit."""


def answer(
    statistic: Statistic,
    columns: Sequence[str],
    *,
    layout: Layout,
    coordinates: Coordinates,
    noise: AdditiveNoise,
    schema: Schema,
) -> Outcome | None:
    """Return the answer from moments; None where they do not determine it.

    Parameters
    ----------
    columns
        Those the statistic is about, of the layout's.
    coordinates, noise
        The noisy vector, and the law of its noise.
    """
    numbers = require_numbers(schema, columns, "columns") if columns else []
    chosen = Selection(layout, tuple(layout.names.index(name) for name in columns))
    sums, seed = chosen.sums(coordinates), str(coordinates).encode()
    law = coordinate_noise(noise)
    if isinstance(statistic, MomentStatistic):
        tree = statistic.from_moments(chosen, numbers, coordinates)
        laws, unit = noise.describe()
        outcome = Outcome(
            value=render(tree, lambda leaf: leaf.number()),
            noise=describe_noise(tree, laws, unit, centred=True, correlation=noise.correlation),
        )
    elif (fit := _FITTED.get(type(statistic))) is not None:
        outcome = fit(statistic, sums, law, seed, schema)
    else:
        return None
    infer = _BY_STATISTIC.get(type(statistic))
    if infer is None:
        return outcome
    evidence = Evidence(
        schema=schema,
        names=chosen.names,
        numbers=numbers,
        sums=sums,
        simulated=Simulation(noise=law, seed=seed),
        outcome=outcome,
    )
    return replace(outcome, inference=infer(statistic, evidence))


# At no cost


def facts_of(method: str, own: EpsilonShare | None = None) -> dict[str, object]:
    """Return a plan's facts about its standard errors, and what of epsilon they cost."""
    return {"cost": "0" if own is None else str(own), "method": method}


# Answers that are read off moments


def read_off_moments(
    calibrate: Calibrate,
    statistic: Statistic,
    schema: Schema,
    epsilon: PrivacyLoss,
    norm: str,
) -> Plan:
    """Return the plan of the moments of a statistic's columns, from which its answer is derived.

    Raises
    ------
    InvalidStatisticError
        What the mechanism raises; the moments of these columns do not determine the answer.
    """
    calibrate(statistic, schema, epsilon, norm)  # which checks the question and the norm
    method = method_of(statistic)
    if method is None or not statistic.moment_columns(schema):
        raise InvalidStatisticError(
            "standard errors are not offered for this question", field_name="inference"
        )
    drawn = calibrate(_of_moments(statistic, schema), schema, epsilon, norm)
    return replace(
        drawn,
        statistic=statistic,
        parameters=ReadOffMoments(cast(AddedNoise | AddedGaussian, drawn.parameters)),
        grid={"read_off": drawn.grid},
        details={
            **drawn.details,
            "noise": "derived from noisy moments: to first order; sampling error is not in it",
            "inference": facts_of(method),
        },
    )


def planning_ms_of_moments(statistic: Statistic, schema: Schema) -> float:
    """Return about how many milliseconds of one core it takes to plan those moments."""
    columns = statistic.moment_columns(schema) or ()
    return Moments(columns=columns).planning_ms(schema, "k_norm")


@dataclass(frozen=True, slots=True)
class ReadOffMoments:
    """The noise of the moments of all columns that an answer is about."""

    moments: AddedNoise | AddedGaussian

    def drawing(self, statistic: Any, schema: Schema) -> Drawing:
        """Return a drawing of moments, from which the answer and its errors are derived."""
        asked = _of_moments(statistic, schema)
        form, layout = asked.additive(schema), moment_layout(asked.columns, schema)
        noise = self.moments.on(form.space)
        numbers = require_numbers(schema, asked.columns, "columns")
        own = cast(AdditiveStatistic, statistic).additive(schema)
        known = layout.rows

        def reference(rows: int | None) -> Coordinates | None:
            rows = rows if known is None else known
            if rows is None:
                return None
            # A correlation has no slopes at a corner: its form has coordinates of its own.
            alike = own.space.dimension == form.space.dimension
            return own.reference(rows) if alike else layout.corner(rows)

        def draw(data: Data, randomness: Randomness) -> Outcome:
            outcome = answer(
                statistic,
                asked.columns,
                layout=layout,
                coordinates=draw_coordinates(form, noise, data, randomness),
                noise=noise,
                schema=schema,
            )
            if outcome is None:
                raise ValueError("moments determine the answer")
            return outcome

        read = replace(
            form,
            answer=lambda coordinates: statistic.from_moments(layout, numbers, coordinates),
            reference=reference,
            linear=False,
        )
        return replace(self.moments.drawing_of(read), draw=draw)


# The functional mechanism


def sanitized(
    statistic: LinearRegression, schema: Schema, epsilon: PrivacyLoss, plan: Plan
) -> Plan:
    """Return the plan of coefficients derived from the moments of all columns, or by cells."""
    by_cells = _by_cells(statistic, schema)
    if by_cells is not None:
        return _sanitized_by_cells(by_cells, schema, epsilon, plan)
    asked = _of_moments(statistic, schema)
    form = asked.additive(schema)
    if plan.norm is None:
        drawn = gaussian.plan_form(asked, form, schema, epsilon, "auto")
    else:
        drawn = plan_form(asked, form, schema, epsilon, plan.norm)
    return replace(
        plan,
        parameters=OfMoments(plan.parameters, cast(AddedNoise | AddedGaussian, drawn.parameters)),
        guarantee=replace(drawn.guarantee, theorem=plan.guarantee.theorem),
        grid=drawn.grid,
        expected_ms=plan.expected_ms + drawn.expected_ms,
        alternatives=(),
        details={
            **plan.details,
            "sanitized_moments": form.space.dimension,
            "adjacent_output_space": drawn.details["adjacent_output_space"],
            "inference": facts_of(LINEAR),
        },
    )


def _by_cells(statistic: LinearRegression, schema: Schema) -> RegressionMoments | None:
    """Return the moments by cells, the target's square among them; None without cells."""
    found = regression_moments(statistic.scaling(schema), schema, squared=True)
    return found if found.split else None


def _sanitized_by_cells(
    moments: RegressionMoments, schema: Schema, epsilon: PrivacyLoss, plan: Plan
) -> Plan:
    space = moments.space
    if plan.norm is None:
        wide = GaussianNoise.calibrated(space, epsilon.fraction)
        added: AddedNoise | AddedGaussian = AddedGaussian(variance=wide.variance)
        guarantee = gaussian.guarantee_of(space, schema, epsilon)
    else:
        ball = ball_of(space, plan.norm)
        noise = IntegerNoise.calibrated(space, ball, epsilon.fraction)
        added = AddedNoise.of(plan.norm, noise)
        guarantee = guarantee_of(space, ball, schema, epsilon, THEOREM)
    return replace(
        plan,
        parameters=OfMoments(plan.parameters, added),
        guarantee=replace(guarantee, theorem=plan.guarantee.theorem),
        grid={"coordinate_step": float(Fraction(1, space.unit * added.on(space).refinement))},
        alternatives=(),
        details={
            **plan.details,
            "sanitized_moments": space.dimension,
            "adjacent_output_space": space.description,
            "inference": facts_of(LINEAR),
        },
    )


def _of_moments(statistic: Statistic, schema: Schema) -> Moments:
    return Moments(columns=statistic.moment_columns(schema) or ())


@dataclass(frozen=True, slots=True)
class OfMoments:
    """The noise of the moments of all columns, and what previews coefficients."""

    previewed: Parameters
    noise: AddedNoise | AddedGaussian

    def drawing(self, statistic: LinearRegression, schema: Schema) -> Drawing:
        """Return a drawing of moments, from which coefficients and their errors are derived."""
        by_cells = _by_cells(statistic, schema)
        if by_cells is not None:
            drawn = CellsDraw(statistic, statistic.scaling(schema), by_cells, self.noise)
            return replace(self.previewed.drawing(statistic, schema), draw=drawn)
        asked = _of_moments(statistic, schema)
        form, layout = asked.additive(schema), moment_layout(asked.columns, schema)
        noise = self.noise.on(form.space)

        def draw(data: Data, randomness: Randomness) -> Outcome:
            outcome = answer(
                statistic,
                asked.columns,
                layout=layout,
                coordinates=draw_coordinates(form, noise, data, randomness),
                noise=noise,
                schema=schema,
            )
            if outcome is None:
                raise ValueError("moments determine a linear regression")
            return outcome

        return replace(self.previewed.drawing(statistic, schema), draw=draw)


@dataclass(frozen=True, slots=True)
class CellsDraw:
    """Draws moments by cells, from which coefficients and their errors are derived."""

    statistic: LinearRegression
    scaling: RegressionScaling
    moments: RegressionMoments
    added: AddedNoise | AddedGaussian

    def __call__(self, data: Data, randomness: Randomness) -> Outcome:
        """Return one release."""
        drawn = FunctionalDraw(
            scaling=self.scaling,
            moments=self.moments,
            noise=self.added.on(self.moments.space),
            rule=rule_of(self.statistic),
        )
        coordinates = drawn.coordinates(data, randomness)
        outcome = drawn.outcome(coordinates, centred=True)
        simulated = Simulation(
            noise=coordinate_noise(drawn.noise),
            # Of what is released alone: the same answer then has the same standard errors.
            seed=str(coordinates).encode(),
        )
        equations = self.moments.equations(coordinates)
        found = of_equations(self.statistic, self.scaling, equations, simulated, outcome)
        return replace(outcome, inference=found)
