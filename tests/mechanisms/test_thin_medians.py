"""Geometric medians whose law is thin, or whose rows lie close together: what a draw takes.

What is counted is the effort of the envelope, in tries: it is the same on any machine.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from mechanisms.domain import NumberColumn, Schema
from mechanisms.exact.arrays import Floats
from mechanisms.objectives.points import Points, PointsLaw, survey
from mechanisms.privacy import Adjacency
from mechanisms.samplers.boxes import Cover, Space
from mechanisms.sketches import ArrayData
from mechanisms.testing import seeded_randomness

BITS = 38
K = np.arange(3000)
HUNDRED, FIVE_THOUSAND, ONE = (0, 100), (0, 5000), (0, 1)
Column = tuple[Floats, tuple[int, int]]


def clusters(spread: float, constant: float) -> list[Column]:
    """Return short lines of rows beside each other, with a column that is constant."""
    ages, incomes = 30 + K % 3 + K * spread, 1000.0 + K % 7
    return [(ages, HUNDRED), (incomes, FIVE_THOUSAND), (np.full(len(K), constant), ONE)]


def even(dimension: int) -> list[Column]:
    random = np.random.default_rng(2)
    return [(random.uniform(0, 100, len(K)), HUNDRED) for _ in range(dimension)]


def effort(columns: list[Column], epsilon: Fraction = Fraction(1), most: float = math.inf) -> int:
    """Return what a few draws took, each from a cover of its own; they are ended above the most."""
    names = tuple("xyzw"[: len(columns)])
    numbers = [NumberColumn(Fraction(low), Fraction(high)) for _, (low, high) in columns]
    schema = Schema(dict(zip(names, numbers, strict=True)), Adjacency.REPLACE_ONE, len(K))
    values = {name: values for name, (values, _) in zip(names, columns, strict=True)}
    source = survey(ArrayData.from_values(schema, values), Points(names, BITS - 20), 1 << BITS)
    law, space = PointsLaw(source, rate=epsilon / 4), Space.cubic(len(names), 1 << BITS)
    total = 0
    for seed in range(3):
        cover, random = Cover(law, space), seeded_randomness(seed)
        while total + cover.envelope.effort <= most and cover.attempt(random) is None:
            pass
        total += cover.envelope.effort
    return total


@pytest.mark.parametrize(("spread", "constant"), [(1e-6, 1.0), (1e-6, 0.5)])
def test_rows_closer_than_cells_are_looked_into(spread: float, constant: float) -> None:
    """Where blurs of cells passed for what the box itself costs, draws hardly ended."""
    most = 12 * effort(even(3))
    assert effort(clusters(spread, constant), most=most) < most
