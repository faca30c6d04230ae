"""Inference from released moments: textbook intervals without noise, coverage with it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
import statsmodels.api as sm
from numpy.typing import NDArray
from scipy import stats

from mechanisms.catalog import calibrate
from mechanisms.contract import Inference, Statistic, Term
from mechanisms.derivations import Released, derive
from mechanisms.domain import CategoryColumn, NumberColumn, Schema
from mechanisms.privacy import Adjacency, Epsilon, Protected
from mechanisms.sketches import ArrayData
from mechanisms.statistics.correlation import Correlation
from mechanisms.statistics.linear_regression import LinearRegression
from mechanisms.statistics.mean import Mean
from mechanisms.statistics.moments import Moments
from mechanisms.statistics.stack import Part, Stack
from mechanisms.statistics.variance import Variance
from mechanisms.testing import seeded_randomness
from studies.coverage import SETTINGS, Housing, measured
from tests.tiers import in_one

REPLACE, ADD = Adjacency.REPLACE_ONE, Adjacency.ADD_REMOVE
COLUMNS = {
    "x": NumberColumn(Fraction(0), Fraction(10)),
    "z": NumberColumn(Fraction(-5), Fraction(5)),
    "y": NumberColumn(Fraction(-20), Fraction(40)),
    "region": CategoryColumn(("north", "south")),
}
NAMES = ("x", "z", "y")
LINE = LinearRegression(target="y", features=("x", "z"))
TRUTH = {"(intercept)": 2.0, "x": 1.5, "z": -2.0}
NO_NOISE = "10000"
FLOATS = NDArray[np.float64]


def sample(rows: int, seed: int, spread: float = 1.0) -> dict[str, FLOATS]:
    generator = np.random.default_rng(seed)
    x = 5 + spread * generator.uniform(-5, 5, rows)
    z = spread * generator.uniform(-5, 5, rows)
    y = 2 + 1.5 * x - 2 * z + generator.normal(0, 3, rows)
    return {"x": x, "z": z, "y": y}


def schema(adjacency: Adjacency, rows: int) -> Schema:
    return Schema(COLUMNS, adjacency, rows if adjacency is REPLACE else None, max_rows=10_000)


def data_of(values: Mapping[str, FLOATS], made: Schema) -> ArrayData:
    rows = len(values["x"])
    regions = ["north", "south"] * (rows // 2) + ["north"] * (rows % 2)
    listed = {name: list(column) for name, column in values.items()}
    return ArrayData.from_values(replace(made, rows=rows), {**listed, "region": regions})


def release(
    values: Mapping[str, FLOATS],
    made: Schema,
    epsilon: str,
    seed: int = 1,
    statistic: Statistic | None = None,
) -> Released:
    asked = Moments(columns=NAMES) if statistic is None else statistic
    plan = calibrate(asked, made, Epsilon.parse(epsilon))
    outcome = plan.draw(data_of(values, made), seeded_randomness(seed))
    return Released(
        statistic=asked,
        mechanism=plan.mechanism,
        norm=plan.norm,
        epsilon=Epsilon.parse(epsilon),
        value=outcome.value,
        noise=outcome.noise,
        details=plan.details,
    )


def inferred(statistic: Statistic, released: Released, made: Schema) -> Inference:
    found = derive(statistic, released, made).inference
    assert found is not None
    return found


def terms(found: Inference) -> dict[str, Term]:
    return {term.term: term for term in found.terms}


@pytest.mark.parametrize("adjacency", [REPLACE, ADD])
def test_without_noise_a_regression_has_the_textbook_s_intervals(adjacency: Adjacency) -> None:
    values, made = sample(200, 1), schema(adjacency, 200)
    fitted = sm.OLS(values["y"], sm.add_constant(np.column_stack([values["x"], values["z"]]))).fit()
    found = inferred(LINE, release(values, made, NO_NOISE), made)
    for place, name in enumerate(TRUTH):
        term = terms(found)[name]
        assert term.estimate == pytest.approx(fitted.params[place], abs=0.02)
        assert term.std_error == pytest.approx(fitted.bse[place], rel=0.08)
        width = np.diff(fitted.conf_int()[place])[0]
        assert term.confidence_95 == pytest.approx(fitted.conf_int()[place], abs=0.06 * width)
        assert term.noise_95 is not None
        low, high = term.noise_95
        assert term.confidence_95[0] < low < term.estimate < high < term.confidence_95[1]
    share, variance = found.fit
    assert (share.term, variance.term) == ("r_squared", "residual_variance")
    assert share.estimate == pytest.approx(fitted.rsquared, abs=0.01)
    assert variance.estimate == pytest.approx(fitted.mse_resid, rel=0.02)
    ends = fitted.ssr / stats.chi2.ppf([0.975, 0.025], 197)
    assert variance.confidence_95 == pytest.approx(ends, rel=0.04)


def test_without_noise_means_have_the_textbook_s_intervals_and_correlations_wider_ones() -> None:
    values, made = sample(100, 2), schema(REPLACE, 100)
    released = release(values, made, NO_NOISE)
    mean = terms(inferred(Mean(columns=("x", "y")), released, made))["y"]
    error = stats.sem(values["y"])
    half = error * stats.t.ppf(0.975, 99)
    assert mean.std_error == pytest.approx(error, rel=0.08)
    middle = values["y"].mean()
    assert mean.confidence_95 == pytest.approx((middle - half, middle + half), abs=0.1 * half)
    found = terms(inferred(Correlation(columns=("z", "y")), released, made))["z:y"]
    expected = stats.pearsonr(values["z"], values["y"]).confidence_interval()
    # Fisher's holds for normal columns; this one for all within the bounds, so it is wider.
    reach = sum(
        (half_width + abs(np.mean(values[name]) - middle)) / np.std(values[name])
        for name, middle, half_width in (("z", 0, 5), ("y", 10, 30))
    )
    r = stats.pearsonr(values["z"], values["y"]).statistic
    half = 1.96 * reach / 2 / np.sqrt((1 - r**2) * 100)
    ends = np.tanh(np.arctanh(r) + np.array([-half, half]))
    assert found.confidence_95 == pytest.approx(tuple(ends), abs=0.08)  # 2,000 simulated ones
    assert found.confidence_95[0] < expected.low
    assert found.confidence_95[1] > expected.high


@pytest.mark.statistical
def test_intervals_of_correlations_hold_with_heavy_tails() -> None:
    """Fisher's held in .68 of data sets for population and households, at epsilon 20."""
    setting = next(
        each
        for each in SETTINGS
        if isinstance(each.design, Housing) and each.design.columns == ("population", "households")
        and each.epsilon == "20"
    )  # fmt: skip
    row = measured(setting, replicates=20, seed=1)
    assert row.coverage == 1
    assert row.open_share == 0


def test_without_an_intercept_there_is_none_in_the_terms() -> None:
    values, made = sample(500, 3), schema(REPLACE, 500)
    asked = LinearRegression(target="y", features=("x", "z"), intercept=False)
    found = inferred(asked, release(values, made, NO_NOISE), made)
    fitted = sm.OLS(values["y"], np.column_stack([values["x"], values["z"]])).fit()
    for place, term in enumerate(found.terms):
        assert term.std_error == pytest.approx(fitted.bse[place], rel=0.08)
    assert found.fit[0].estimate == pytest.approx(fitted.rsquared, abs=0.01)


def coverage(adjacency: Adjacency, *, rows: int, draws: int, naive: bool = False) -> float:
    """How often slopes' intervals hold the truth; ``naive``: those that ignore the noise."""
    made, hits = schema(adjacency, rows), 0
    for seed in range(draws):
        released = release(sample(rows, seed, 0.7), made, "1", seed)
        if naive:
            released = replace(released, epsilon=Epsilon.parse(NO_NOISE))
        found = terms(inferred(LINE, released, made))
        for name in ("x", "z"):
            low, high = found[name].confidence_95
            hits += low <= TRUTH[name] <= high
    return hits / (2 * draws)


@pytest.mark.wide
@pytest.mark.statistical
@pytest.mark.parametrize("adjacency", [REPLACE, ADD])
def test_intervals_hold_the_population_s_slopes(adjacency: Adjacency) -> None:
    """``studies/coverage.py`` has the figures; here the noise is most of the error."""
    assert coverage(adjacency, rows=300, draws=50) >= 0.89


@pytest.mark.wide
@pytest.mark.statistical
def test_intervals_that_ignore_the_noise_would_be_found_out() -> None:
    assert coverage(REPLACE, rows=300, draws=30, naive=True) < 0.7


@in_one("statistic", [LINE, Mean(columns=NAMES), Correlation(columns=NAMES)])
@in_one("epsilon", ["0.000000001", "0.001", "1", NO_NOISE])
@in_one("adjacency", [REPLACE, ADD])
def test_every_release_has_finite_intervals_around_its_numbers(
    adjacency: Adjacency, epsilon: str, statistic: Statistic
) -> None:
    made = schema(adjacency, 60)
    found = inferred(statistic, release(sample(60, 4), made, epsilon), made)
    for term in (*found.terms, *found.fit):
        low, high = term.confidence_95
        assert term.estimate is None if term.reason else low <= term.estimate <= high
        assert low <= high
        assert term.std_error >= 0
        json.dumps([term.estimate, term.std_error, low, high, term.noise_95], allow_nan=False)


def test_where_the_noise_is_all_there_is_the_interval_is_what_bounds_allow() -> None:
    made = schema(REPLACE, 60)
    found = inferred(LINE, release(sample(60, 4), made, "0.001"), made)
    assert all(term.open for term in found.terms)
    reach = 10 * 30 / 5  # bound, half-widths of target and feature
    assert terms(found)["x"].confidence_95 == pytest.approx((-reach, reach))
    clear = inferred(LINE, release(sample(60, 4), made, NO_NOISE), made)
    assert not any(term.open for term in clear.terms)


def test_a_mean_at_its_bound_is_no_more_certain() -> None:
    """Its interval ends at the bound, and its standard error is not nothing."""
    made = schema(REPLACE, 100)
    values = sample(100, 11) | {"x": np.zeros(100)}
    for seed in range(5):
        released = release(values, made, "1", seed)
        [term] = inferred(Mean(columns=("x",)), released, made).terms
        assert term.noise_95 is not None
        assert term.confidence_95[0] == min(0.0, term.estimate)
        assert term.std_error > (term.noise_95[1] - term.noise_95[0]) / 6


def test_a_ridge_biases_the_answer_and_not_the_interval() -> None:
    values, made = sample(400, 5), schema(REPLACE, 400)
    released = release(values, made, NO_NOISE)
    shrunk = LinearRegression(target="y", features=("x", "z"), ridge=400.0)
    term = terms(inferred(shrunk, released, made))["z"]
    assert abs(term.estimate) < 1.6
    assert term.confidence_95[0] < TRUTH["z"] < term.confidence_95[1]


def test_the_same_release_has_the_same_intervals() -> None:
    values, made = sample(300, 6), schema(REPLACE, 300)
    released = release(values, made, "1")
    assert inferred(LINE, released, made) == inferred(LINE, released, made)


def test_groups_have_intervals_of_their_own() -> None:
    values, made = sample(400, 7), schema(REPLACE, 400)
    released = release(values, made, "8", statistic=Moments(columns=NAMES, by=("region",)))
    asked = LinearRegression(target="y", features=("x", "z"), by=("region",))
    found = inferred(asked, released, made)
    assert [(term.by, term.term) for term in found.terms] == [
        ({"region": region}, name) for region in ("north", "south") for name in TRUTH
    ]
    assert len(found.fit) == 4


def test_a_stack_s_moments_have_them_too() -> None:
    values, made = sample(400, 8), schema(ADD, 400)
    stack = Stack(
        parts=(Part(statistic=Moments(columns=NAMES)), Part(statistic=Mean(columns=NAMES)))
    )
    assert inferred(LINE, release(values, made, "8", statistic=stack), made).terms


def test_what_moments_do_not_tell_has_none() -> None:
    """A mean alone has no variance; a variance has the largest error that its bounds allow."""
    values, made = sample(100, 9), schema(REPLACE, 100)
    spread = inferred(Variance(columns=("x",)), release(values, made, NO_NOISE), made).terms[0]
    low, high = spread.confidence_95
    assert low < spread.estimate < high
    means = release(values, made, "1", statistic=Mean(columns=NAMES))
    assert derive(Mean(columns=("x",)), means, made).inference is None


def test_rows_of_one_person_have_the_noise_of_their_part_and_no_standard_errors() -> None:
    """Each of two rows was planned for at half of epsilon."""
    values, made = sample(400, 10), schema(ADD, 400)
    people = replace(made, protects=Protected(rows=2))
    whole, half = (
        derive(Mean(columns=("x",)), release(values, facts, epsilon), facts)
        for facts, epsilon in ((people, "2"), (made, "1"))
    )
    assert whole.noise == half.noise
    assert whole.inference is None
    assert half.inference is not None
