"""Small data sets for the tests of objective perturbation."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from mechanisms.domain import EXACT_ROWS, NumberColumn, Schema
from mechanisms.objectives.design import Design
from mechanisms.objectives.sigmoid import LogisticObjective
from mechanisms.privacy import Adjacency
from mechanisms.sketches import ArrayData

UNIT = NumberColumn(Fraction(-1), Fraction(1))
FLAG = NumberColumn(Fraction(0), Fraction(1), boolean=True)


def simulate(
    rows: int,
    *,
    seed: int,
    slopes: Sequence[float] = (0, -1, -0.5, -0.25, 0, 0.75, 1.5),
    adjacency: Adjacency = Adjacency.REPLACE_ONE,
) -> tuple[Schema, ArrayData]:
    """Return data of Awan & Slavkovic's Algorithm 3: columns x0.., boolean target y."""
    generator = np.random.default_rng(seed)
    x = generator.uniform(-1, 1, size=(rows, len(slopes)))
    odds = 1 / (1 + np.exp(-x @ np.asarray(slopes, dtype=float)))
    return labelled(x, generator.uniform(size=rows) < odds, adjacency=adjacency)


def labelled(
    x: NDArray[np.float64],
    y: Sequence[bool] | NDArray[np.bool_],
    *,
    adjacency: Adjacency = Adjacency.REPLACE_ONE,
) -> tuple[Schema, ArrayData]:
    """Return a schema and data with the given columns in [-1, 1] and target."""
    names = [f"x{j}" for j in range(x.shape[1])]
    replace = adjacency is Adjacency.REPLACE_ONE
    schema = Schema(
        columns={**dict.fromkeys(names, UNIT), "y": FLAG},
        adjacency=adjacency,
        rows=len(x) if replace else None,
        max_rows=None if replace else 1 << 20,
    )
    values = {name: x[:, j] for j, name in enumerate(names)}
    return schema, ArrayData.from_values(schema, {**values, "y": np.asarray(y, dtype=float)})


def features(schema: Schema) -> tuple[str, ...]:
    """Return the feature names of such a schema."""
    return tuple(name for name in schema.columns if name != "y")


def plain_design(size: int, *, intercept: bool = False) -> Design:
    """Return the design of columns that already lie in [-1, 1]."""
    return Design(offsets=(Fraction(0),) * size, slopes=(Fraction(1),) * size, intercept=intercept)


def objective(
    codes: NDArray[np.int64], labels: NDArray[np.bool_], design: Design
) -> LogisticObjective:
    """Return the logistic loss of integer codes (n x k) and labels."""
    rows = np.column_stack([np.ones(len(codes)), codes / 2.0**20]) * (1 - 2 * labels)[:, None]
    chunks = [rows[start : start + EXACT_ROWS] for start in range(0, len(rows), EXACT_ROWS)]
    return LogisticObjective(lambda function: map(function, [chunks]), design)
