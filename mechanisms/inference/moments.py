"""What sanitized moments determine: an answer, its noise, and its inference."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import cast

from mechanisms.contract import Outcome, Statistic, require_numbers
from mechanisms.domain import Schema
from mechanisms.functional.linear import coordinate_noise, rule_of
from mechanisms.functional.sanitized import CoordinateNoise, equations, regression_outcome
from mechanisms.inference.correlations import of_correlations
from mechanisms.inference.evidence import Evidence, Infer, Simulation
from mechanisms.inference.means import of_means
from mechanisms.inference.regression import of_regression
from mechanisms.knorm import IntegerNoise
from mechanisms.statistics.additive import Coordinates, describe_noise, render
from mechanisms.statistics.correlation import Correlation
from mechanisms.statistics.linear_regression import LinearRegression
from mechanisms.statistics.mean import Mean
from mechanisms.statistics.second_order import Jet, Layout, MomentStatistic, Selection

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
