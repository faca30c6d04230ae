"""What sanitized moments determine: an answer, its noise, and its inference.

*Means of the population.* Of each possible mean m and variance v of n rows without privacy noise,
the population's mean is ``m + sqrt(v / (n - 1)) t`` with t of n - 1 degrees of freedom: the
interval of any textbook, and of a yes-or-no column that of a share. A possible variance is no less
than 0, and no more than bounds and mean allow, (U - m)(m - L) (Bhatia & Davis 2000).

*Correlations in the population.* Of each possible correlation r of n rows without privacy noise,
the population's is ``tanh(artanh(r) + z / sqrt(n - 3))``, z standard normal: Fisher's interval,
for columns that are about normal together. Where a possible variance is not positive nothing is
said of r.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import cast

import numpy as np

from mechanisms.contract import Inference, Outcome, Statistic, require_numbers
from mechanisms.domain import Schema
from mechanisms.exact.many import Floats
from mechanisms.functional.linear import coordinate_noise, rule_of
from mechanisms.functional.sanitized import CoordinateNoise, equations, regression_outcome
from mechanisms.inference.evidence import Evidence, Infer, Simulation, noise_of, term
from mechanisms.inference.regression import of_regression
from mechanisms.knorm import IntegerNoise
from mechanisms.statistics.additive import Coordinates, describe_noise, render
from mechanisms.statistics.correlation import Correlation
from mechanisms.statistics.linear_regression import LinearRegression
from mechanisms.statistics.mean import Mean
from mechanisms.statistics.second_order import Jet, Layout, MomentStatistic, Selection

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
    "simulated from the noisy moments and the law of their noise, with Fisher's z for the "
    "sampling, which takes two columns to be about normal together; sampling and privacy noise "
    "together; values outside their bounds count as the bound"
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
            _sampled(_found(sums, 1 + j, 1 + k), sums[0, 0], error),
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


def _sampled(found: Floats, counts: Floats, error: Floats) -> Floats:
    """Return the possible correlations of the population, given a sample's."""
    # 1 / (n - 3) is no variance up to 3 rows: there it counts as 1.
    angle = np.arctanh(np.clip(found, -_NEAREST, _NEAREST))
    return np.asarray(np.tanh(angle + error / np.sqrt(np.maximum(counts - 3, 1.0))))


# What sanitized moments determine: an answer, its noise, and its inference

_BY_STATISTIC: dict[type[Statistic], Infer] = {
    LinearRegression: of_regression,
    Mean: of_means,
    Correlation: of_correlations,
}


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
    noise: IntegerNoise,
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
