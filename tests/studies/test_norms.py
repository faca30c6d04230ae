"""The figures that compare norms: their designs, their data, and what is read off their lines."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from mechanisms.domain import SUM_MAX
from mechanisms.functional.linear import FunctionalDraw
from mechanisms.privacy import Epsilon
from mechanisms.testing import seeded_randomness
from studies.figures import housing, ss_2, ss_3, ss_4
from studies.figures.budgets import budget_ratios, described, typical
from studies.figures.sanitized import NORMS, Estimator, Summed, planned
from tests.tiers import in_one

# Ratios of budgets --------------------------------------------------------------------------


def test_half_the_budget_for_the_same_error() -> None:
    """Of errors 1 / epsilon and 2 / epsilon, off the grid too."""
    grid = [(2.0**power, 2.0**-power) for power in range(-3, 4)]
    dearer = [(epsilon, 2 * error) for epsilon, error in grid]
    logarithms = [[(epsilon, float(np.log(y))) for epsilon, y in line] for line in (grid, dearer)]
    found = budget_ratios(*logarithms, least_change=0.1)
    assert found == pytest.approx({2.0**power: 0.5 for power in range(-3, 3)})
    between = [(1.5, float(np.log(1 / 1.5)))]
    assert budget_ratios(between, logarithms[1], least_change=0.1) == pytest.approx({1.5: 0.5})
    assert typical(found) == pytest.approx(0.5)
    assert described(found) == "0.50 (0.50 to 0.50 at 6 points)"
    assert described({}) == "no common height"


def test_rising_lines_are_read_too() -> None:
    line, other = [(1.0, 0.5)], [(1.0, 0.0), (4.0, 1.0)]
    assert budget_ratios(line, other, least_change=0.1) == pytest.approx({1.0: 0.5})


def test_flat_stretches_and_heights_passed_twice_do_not_count() -> None:
    line = [(1.0, 0.5)]
    assert budget_ratios(line, [(1.0, 0.49), (4.0, 0.51)], least_change=0.1) == {}
    assert budget_ratios(line, [(1.0, 1.0), (2.0, 0.0), (4.0, 1.0)], least_change=0.1) == {}
    assert budget_ratios(line, [(1.0, 2.0), (2.0, 1.0)], least_change=0.1) == {}


# ss-2 ---------------------------------------------------------------------------------------


def test_the_logistic_design_is_algorithm_3() -> None:
    features, labels = ss_2.sample(40_000, np.random.default_rng(1))
    assert features.shape == (40_000, 7)
    assert np.abs(features).max() <= 1
    assert features.mean(axis=0) == pytest.approx(np.zeros(7), abs=0.02)
    assert set(labels) == {0.0, 1.0}
    assert ss_2.most_likely(features, labels) == pytest.approx(ss_2.BETA, abs=0.15)
    assert np.linalg.norm(ss_2.BETA) == pytest.approx(2.031, abs=1e-3)


def test_every_norm_has_every_share() -> None:
    found = {(cell.method, cell.norm, cell.epsilon) for cell in ss_2.FIGURE.cells(True)}
    assert len(found) == 1 + 3 * 3 * 9
    assert {Fraction(epsilon) for _, _, epsilon in found if epsilon} == {
        Fraction(2) ** power for power in range(-6, 3)
    }


# ss-3 ---------------------------------------------------------------------------------------


def test_the_linear_design_is_algorithm_4() -> None:
    assert pytest.approx([0, -1.5, -0.75, 0, 0.75, 1.5]) == ss_3.BETA
    known = ss_3.replicate(20_000, 7)
    assert known.fit == pytest.approx(ss_3.BETA, abs=0.1)
    # standard deviations: 1 / sqrt(n) for the constant, sqrt 3 times that for slopes
    wanted = 1.96 / np.sqrt(20_000) * np.array([1, *[np.sqrt(3)] * 5])
    assert known.half_widths == pytest.approx(wanted, rel=0.05)
    sums = known.data.gram(ss_3.COLUMNS)
    assert sums[0][0] == 20_000
    assert sums[1][1] / 20_000 / SUM_MAX**2 == pytest.approx(1 / 3, abs=0.02)
    assert sums[6][6] / 20_000 / SUM_MAX**2 * 64 == pytest.approx(1 + 5.625 / 3, abs=0.1)


def test_sums_are_kept_for_all_columns_alone() -> None:
    known = ss_3.replicate(50, 1)
    with pytest.raises(ValueError, match="all columns"):
        known.data.gram(("x1",))
    assert isinstance(known.data, Summed)
    assert known.data.rows == 0, "no row is kept"


def test_the_sizes_and_replicates_are_the_paper_s() -> None:
    cells = ss_3.FIGURE.cells(False)
    assert {(cell.n, cell.replicate_count) for cell in cells} == {(10**4, 200), (10**6, 200)}
    assert {cell.norm for cell in cells if cell.epsilon} == set(NORMS)
    assert {float(cell.epsilon) for cell in cells if cell.epsilon} == {
        2.0**power for power in range(-4, 3)
    }


def test_the_noise_by_l_infinity_is_half_that_by_l1() -> None:
    """SS Proposition 4.13: sqrt(27 28 / 3) 2 against sqrt 2 46, for m = 26."""
    wanted = np.sqrt(27 * 28 / 3) * 2 / (np.sqrt(2) * 46)
    assert ss_3.noise_ratio("linf", "l1") == pytest.approx(wanted, rel=0.01)
    assert 0.8 < ss_3.noise_ratio("optimal", "linf") < 1


@in_one("norm", NORMS)
@in_one("ridge", [None, 0.0, 50.0])
def test_an_estimate_is_the_release_s_own(norm: str, ridge: float | None) -> None:
    """The same bits give the answer that a release gives, its bootstrap left out."""
    known = ss_3.replicate(2_000, 3)
    plan = planned(ss_3.schema(2_000), "y", Epsilon.parse("4"), norm, ridge=ridge)
    theta = Estimator.of(plan).released(known.data, seeded_randomness(5))
    released = plan.draw(known.data, seeded_randomness(5)).value["coefficients"]
    assert list(released.values()) == pytest.approx(list(ss_3.TARGET_BOUND * theta))  # type: ignore[attr-defined]


def test_only_regressions_from_moments_are_drawn_so() -> None:
    plan = planned(ss_3.schema(50), "y", Epsilon.parse("1"), "l1", ridge=0.0)
    assert isinstance(plan.draw, FunctionalDraw)
    other = ss_2.calibrate(
        ss_2.LogisticRegression(target="y", features=("x1",)),
        ss_2.schema(50),
        Epsilon.parse("1"),
    )
    with pytest.raises(TypeError, match="functional"):
        Estimator.of(other)


# ss-4 ---------------------------------------------------------------------------------------


def test_the_block_groups_are_all_there() -> None:
    table = housing.table()
    assert {len(column) for column in table.values()} == {ss_4.ROWS}
    assert table["total_bedrooms"].count("") == 207
    for name, measure in housing.MEASURES.items():
        values = measure.values(table)
        assert np.isfinite(values).all(), name


def test_bounds_hold_nearly_all_values_and_spread_them() -> None:
    """They are public numbers: some values are moved to one, and none is near to all of them."""
    known = housing.housing(housing.ALL)
    for name, measure in housing.MEASURES.items():
        column, values = known.schema.columns[name], measure.values(housing.table())
        scaled = (values - float(column.midpoint)) / float(column.half_width)  # type: ignore[union-attr]
        assert np.mean(np.abs(scaled) > 1) < 0.02, name
        assert np.std(np.clip(scaled, -1, 1)) > 0.15, name


def test_a_logarithm_s_bounds_are_those_of_the_number() -> None:
    income = housing.MEASURES["income"].column
    assert float(income.lower) == pytest.approx(np.log(0.5))
    assert float(income.upper) == pytest.approx(np.log(15))
    flag = housing.MEASURES["coast"].values(housing.table())
    assert flag.sum() == 2658 + 5


@pytest.mark.parametrize("panel", ss_4.MODELS)
def test_as_many_moments_are_released_as_the_ridge_counts(panel: str) -> None:
    names = ss_4.MODELS[panel]
    known = housing.housing(names)
    plan = planned(known.schema, housing.TARGET, Epsilon.parse("1"), "linf", ridge=0.0)
    assert plan.details["sanitized_moments"] == ss_4.released_moments(len(names))
    assert known.schema.rows == ss_4.ROWS


def test_the_ridge_is_twice_lambda() -> None:
    assert ss_4.released_moments(12) == 103, "the paper's"
    cells = [cell for cell in ss_4.FIGURE.cells(True) if cell.epsilon == "0.5"]
    found = {(cell.panel, cell.method): ss_4.ridge(cell) for cell in cells}
    assert found[ss_4.NARROW, ss_4.RIDGE] == 2 * 16 * 19 / 0.5
    assert found[ss_4.WIDE, ss_4.PLAIN] == 0
    assert found[ss_4.WIDE, ss_4.RULE] is None


@pytest.mark.wide
def test_without_noise_the_estimate_is_least_squares() -> None:
    known = housing.housing(housing.FEW)
    plan = planned(known.schema, housing.TARGET, Epsilon.parse("10000"), "linf", ridge=0.0)
    theta = Estimator.of(plan).theta(known.data, seeded_randomness(1))
    assert theta == pytest.approx(known.fit, abs=1e-3)
