"""Small data sets and closed forms for the tests of the smoothed check loss."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from mechanisms.domain import Schema
from mechanisms.objectives.losses import SmoothedCheckObjective
from mechanisms.perturbation.likelihoods import smoothed_check_objective
from mechanisms.privacy import Adjacency
from mechanisms.sketches import ArrayData
from mechanisms.statistics.quantile_regression import QuantileRegression
from tests.mechanisms.logistic_data import UNIT

Floats = NDArray[np.float64]


def table(
    x: Floats, y: Floats, adjacency: Adjacency = Adjacency.REPLACE_ONE
) -> tuple[Schema, ArrayData]:
    """Return a schema and data with columns x0.. and y in [-1, 1]."""
    replace = adjacency is Adjacency.REPLACE_ONE
    names = [f"x{j}" for j in range(x.shape[1])]
    schema = Schema(
        columns=dict.fromkeys([*names, "y"], UNIT),
        adjacency=adjacency,
        rows=len(x) if replace else None,
        max_rows=None if replace else 1 << 20,
    )
    values = {name: x[:, j] for j, name in enumerate(names)}
    return schema, ArrayData.from_values(schema, {**values, "y": y})


def question(
    schema: Schema, *, tau: float = 0.5, intercept: bool = False, bound: float = 10.0
) -> QuantileRegression:
    """Return the regression of y on every other column."""
    names = tuple(name for name in schema.columns if name != "y")
    return QuantileRegression(target="y", features=names, intercept=intercept, tau=tau, bound=bound)


def objective(
    x: Floats, y: Floats, *, tau: float, width: Fraction, intercept: bool = False
) -> SmoothedCheckObjective:
    """Return the smoothed check loss of such data."""
    schema, data = table(x, y)
    asked = question(schema, tau=tau, intercept=intercept)
    return smoothed_check_objective(asked, width, schema, data)
