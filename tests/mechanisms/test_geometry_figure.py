"""Figure 1 of Structure and Sensitivity, and its sensitivities found by optimisation."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from fractions import Fraction
from xml.etree import ElementTree

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import minimize

from mechanisms.catalog import calibrate
from mechanisms.contract import Statistic
from mechanisms.domain import CategoryColumn, NumberColumn, Schema
from mechanisms.geometry.advisor import adjacent_output_space_svg
from mechanisms.privacy import Adjacency, Epsilon
from mechanisms.statistics.histogram import Histogram
from mechanisms.statistics.mean import Mean
from mechanisms.statistics.second_order import Layout
from mechanisms.statistics.total import Sum
from mechanisms.statistics.variance import Variance

Floats = NDArray[np.float64]
COLUMNS = {
    "x": NumberColumn(Fraction(0), Fraction(1)),
    "y": NumberColumn(Fraction(-3), Fraction(4)),
    "sex": CategoryColumn(("f", "m")),
}
NORMS: dict[str, Callable[[Floats], float]] = {
    "l1": lambda u: float(np.abs(u).sum()),
    "l2": lambda u: float(np.sqrt((u**2).sum())),
    "linf": lambda u: float(np.abs(u).max()),
}


def sensitivity(contribution: Callable[[Floats], Floats], columns: int, norm: str) -> float:
    """The largest norm of a difference of two records, by ascent from many starts."""

    def loss(records: Floats) -> float:
        difference = contribution(records[:columns]) - contribution(records[columns:])
        return -NORMS[norm](difference)

    best = 0.0
    starts = itertools.product((-1.0, -0.3, 0.2, 1.0), repeat=2 * columns)
    for start in itertools.islice(starts, 256):
        found = minimize(
            loss, start, method="Nelder-Mead", bounds=[(-1, 1)] * (2 * columns), tol=1e-10
        )
        best = max(best, -float(found.fun))
    return best


@pytest.mark.parametrize(
    ("norm", "expected"),
    [("l1", 3.125), ("l2", math.sqrt(71 + 8 * math.sqrt(2)) / 4), ("linf", 2.0)],
)
def test_example_3_1_by_optimisation(norm: str, expected: float) -> None:
    found = sensitivity(lambda x: np.array([x[0], 2 * x[0] ** 2]), 1, norm)
    assert found == pytest.approx(expected, rel=1e-6)
    space = Layout(("x",), cross=False, rows=5).space()
    stated = {"l1": space.l1, "l2": space.l2_squared, "linf": space.linf}[norm]
    assert float(stated) ** (0.5 if norm == "l2" else 1) == pytest.approx(found, rel=1e-6)


@pytest.mark.parametrize(
    ("norm", "expected"), [("l1", 4.0), ("l2", 2 * math.sqrt(2)), ("linf", 2.0)]
)
def test_k_3_by_optimisation(norm: str, expected: float) -> None:
    """(x, y, xy): 4, 2 sqrt 2 and 2, at a swap of two corners."""
    found = sensitivity(lambda x: np.array([x[0], x[1], x[0] * x[1]]), 2, norm)
    assert found == pytest.approx(expected, rel=1e-6)


def test_negligible_structure_is_reaching_every_corner() -> None:
    """Definition 3.2, by enumeration: means have it, moments and histograms do not."""
    extremes = [np.array(x) for x in itertools.product((-1.0, 1.0), repeat=2)]

    def reaches(contribution: Callable[[Floats], Floats], side: float) -> bool:
        seen = {
            tuple(contribution(a) - contribution(b))
            for a, b in itertools.product(extremes, extremes)
        }
        size = len(contribution(extremes[0]))
        return all(corner in seen for corner in itertools.product((-side, side), repeat=size))

    assert reaches(lambda x: x, 2.0)
    assert not reaches(lambda x: np.array([x[0], 2 * x[0] ** 2]), 2.0)
    assert not reaches(lambda x: np.array([x[0], x[1], x[0] * x[1]]), 2.0)
    assert (
        Mean(columns=("x", "y")).additive(schema(Adjacency.REPLACE_ONE)).space.negligible_structure
    )
    for kind in (Variance(columns=("x",)), Histogram(columns=("sex",))):
        assert not kind.additive(schema(Adjacency.REPLACE_ONE)).space.negligible_structure


def schema(adjacency: Adjacency) -> Schema:
    return Schema(COLUMNS, adjacency, 9 if adjacency is Adjacency.REPLACE_ONE else None)


@pytest.mark.parametrize(
    ("statistic", "adjacency", "outlines"),
    [
        (Variance(columns=("x",)), Adjacency.REPLACE_ONE, 5),
        (Sum(columns=("x", "y")), Adjacency.REPLACE_ONE, 4),
        (Mean(columns=("x",)), Adjacency.ADD_REMOVE, 4),
        (Histogram(columns=("sex",)), Adjacency.REPLACE_ONE, 5),
        (Histogram(columns=("sex",)), Adjacency.ADD_REMOVE, 4),
    ],
)
def test_two_coordinates_have_a_figure(
    statistic: Statistic, adjacency: Adjacency, outlines: int
) -> None:
    svg = calibrate(statistic, schema(adjacency), Epsilon.parse("1")).figure()
    assert svg is not None
    assert len(svg) < 40_000
    root = ElementTree.fromstring(svg)
    polygons = [node.get("points", "") for node in root if node.tag.endswith("polygon")]
    assert len(polygons) == outlines
    for points in polygons:
        for pair in points.split():
            assert all(0 <= float(number) <= 320 for number in pair.split(","))


def test_other_dimensions_have_none() -> None:
    assert adjacent_output_space_svg(Layout(("x",), cross=False, rows=None).space()) is None
    assert (
        calibrate(Sum(columns=("x",)), schema(Adjacency.REPLACE_ONE), Epsilon.parse("1")).figure()
        is None
    )
