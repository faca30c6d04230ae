"""The study of factors: its designs are those that formulas become, and cells err less."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mechanisms.domain import Schema
from mechanisms.privacy import Adjacency
from mechanisms.statistics.linear_regression import LinearRegression
from mechanisms.statistics.questions import viewed
from mechanisms.testing import seeded_randomness
from studies import factors
from studies.factors import COLUMNS, FORMULAS, columns_of, errors, population, study


@pytest.mark.parametrize("formula", FORMULAS)
def test_designs_are_those_of_the_formulas(formula: str) -> None:
    schema = Schema(COLUMNS, Adjacency.ADD_REMOVE, None, 100)
    statistic = viewed(LinearRegression(formula=formula), schema).statistic
    found = columns_of(formula, population(30, np.random.default_rng(1)))
    assert sorted(found) == sorted(statistic.names)


@pytest.mark.parametrize("plain", [True, False])
@pytest.mark.parametrize("candidate", ["functional", "huber 25"])
def test_without_noise_nothing_errs(candidate: str, plain: bool) -> None:
    values = population(2_000, np.random.default_rng(2))
    schema = Schema(COLUMNS, Adjacency.ADD_REMOVE, None, 20_000)
    given: dict[str, Any] = {"plain": plain, "epsilon": "10000", "bits": seeded_randomness(1)}
    for formula in ("y ~ x*flag",) if plain else ("y ~ x*group", "y ~ x*flag"):
        found = errors(formula, candidate, schema, values, **given)
        # Huber's line is off by its bias where a target is cut at its bounds
        assert max(found) < (0.001 if candidate == "functional" else 0.05)


def test_cells_err_less(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(factors, "FORMULAS", {"y ~ group": ("group",)})
    rows = [*study(4, (3_000,), candidates=("functional",), randomness=seeded_randomness(3))]
    assert [(row.adjacency, row.plain) for row in rows] == [
        (adjacency, plain) for adjacency in Adjacency for plain in (True, False)
    ]
    for plain, cells in zip(rows[::2], rows[1::2], strict=True):
        assert cells.dummies < plain.dummies / 2
        assert cells.slope == cells.products == 0
