"""What ``auto`` stands for: decided by public facts, the same for every caller."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pytest
from scipy.optimize import minimize

from mechanisms.catalog import calibrate
from mechanisms.contract import InvalidStatisticError
from mechanisms.domain import NumberColumn, Schema, Typical
from mechanisms.objectives.huber import huber_loss
from mechanisms.perturbation.thresholds import (
    MOMENTS,
    THRESHOLDS,
    Candidate,
    Law,
    Population,
    all_errors,
    chosen_threshold,
    cut,
    expected_errors,
    fit_errors,
    least_regret,
    populations,
    question_of,
    residuals,
)
from mechanisms.privacy import Adjacency, Epsilon
from mechanisms.statistics.linear_regression import LinearRegression
from mechanisms.statistics.mean import Mean
from mechanisms.statistics.quantile_regression import QuantileRegression
from mechanisms.statistics.stack import Part, Stack
from mechanisms.testing import seeded_randomness
from studies.choices import Setting, study
from tests.tiers import in_one

ONE = Epsilon.parse("1")
PERTURBED = "objective_perturbation"


def schema_of(adjacency: Adjacency, rows: int, features: int) -> Schema:
    names = [*(f"x{place}" for place in range(features)), "y"]
    columns = {name: NumberColumn(Fraction(-1), Fraction(1)) for name in names}
    public = rows if adjacency is Adjacency.REPLACE_ONE else None
    return Schema(columns, adjacency, public, rows)


def regression(features: int, **more: object) -> LinearRegression:
    names = tuple(f"x{place}" for place in range(features))
    return LinearRegression(target="y", features=names, **more)  # type: ignore[arg-type]


def test_the_choice_has_the_smallest_largest_ratio() -> None:
    assert least_regret({"a": [1.0, 4.0], "b": [2.0, 2.0], "c": [8.0, 1.9]}) == "b"
    assert least_regret({"a": [0.0, 1.0], "b": [0.0, 1.0]}) == "a"


@pytest.mark.parametrize("adjacency", list(Adjacency))
def test_few_rows_go_to_hubers_loss(adjacency: Adjacency) -> None:
    plan = calibrate(regression(3), schema_of(adjacency, 500, 3), ONE)
    assert plan.mechanism == PERTURBED
    assert plan.details["loss"] == "huber"
    assert plan.reason.startswith(f"{PERTURBED} errs least")
    assert "functional errs" in plan.reason


def test_many_rows_go_to_least_squares() -> None:
    """The noise of either falls with the rows, and Huber's bias does not."""
    plan = calibrate(regression(1), schema_of(Adjacency.REPLACE_ONE, 10**6, 1), Epsilon.parse("4"))
    assert plan.mechanism == "functional"
    assert plan.reason.startswith("functional ")


def test_moments_are_not_taken_where_a_loss_errs_less_in_every_population() -> None:
    """As a choice in two steps would: first the loss of least regret, then it or moments."""
    asked, schema = regression(3, bound=1.0), schema_of(Adjacency.REPLACE_ONE, 10_000, 3)
    errors = all_errors(asked, schema, Epsilon.parse("4"), "auto")
    wide = zip(errors[Fraction(1)], errors[MOMENTS], strict=True)
    assert all(of_a_fit < of_moments for of_a_fit, of_moments in wide)
    first = chosen_threshold(asked, schema, Epsilon.parse("4"), "auto")
    pair: dict[Candidate, list[float]] = {each: errors[each] for each in (MOMENTS, first)}
    assert least_regret(pair) == MOMENTS
    plan = calibrate(asked, schema, Epsilon.parse("4"))
    assert plan.mechanism == PERTURBED


def test_the_choice_is_the_candidate_of_least_regret_of_all() -> None:
    for rows, features, epsilon in ((500, 2, "0.5"), (10_000, 5, "2"), (10**6, 1, "4")):
        asked, schema = regression(features), schema_of(Adjacency.REPLACE_ONE, rows, features)
        best = least_regret(all_errors(asked, schema, Epsilon.parse(epsilon), "auto"))
        plan = calibrate(asked, schema, Epsilon.parse(epsilon))
        taken = plan.details["threshold"] if plan.mechanism == PERTURBED else plan.mechanism
        assert taken == best


def stated(mean: str, std: str) -> NumberColumn:
    typical = Typical(Fraction(mean), Fraction(std))
    return NumberColumn(Fraction(-1), Fraction(1), typical=typical)


def test_populations_are_those_that_are_typical() -> None:
    """Of narrow features a smaller threshold errs least: noise is larger and bias is not."""
    plain = schema_of(Adjacency.REPLACE_ONE, 10_000, 5)
    columns = {name: stated("0.3", "0.14") for name in plain.columns}
    known = Schema({**columns, "y": stated("0", "0.4")}, plain.adjacency, plain.rows)
    asked = regression(5)
    found = populations(asked, known)
    ((spread, centre),) = {(one.spread, one.centre) for one in found}
    assert (spread, centre) == (pytest.approx(0.14 * 3**0.5, rel=0.1), pytest.approx(0.3, abs=0.07))
    scales = sorted({one.scale for one in found})
    assert scales == pytest.approx([0.1, 0.2, 0.4], rel=0.1)
    assert len({one.spread for one in populations(asked, plain)}) == 2
    some = Schema({**columns, "x0": plain.columns["x0"]}, plain.adjacency, plain.rows)
    assert len({one.spread for one in populations(asked, some)}) == 2, "not of each"
    narrow, unknown = (
        calibrate(asked, schema, ONE).details["threshold"]
        for schema in (Schema({**columns, "y": stated("0", "0.2")}, plain.adjacency, 10_000), plain)
    )
    assert isinstance(narrow, float)
    assert isinstance(unknown, float)
    assert narrow < unknown


@pytest.mark.parametrize("threshold", [Fraction(1, 16), Fraction(1, 4)])
@pytest.mark.parametrize("law", ["normal", "heavy"])
def test_without_noise_hubers_line_of_a_sample_differs_as_computed(
    law: Law, threshold: Fraction
) -> None:
    """At a large epsilon what is left is by how much it differs from least squares."""
    one = Population(law, 0.1)
    asked, schema = regression(2), schema_of(Adjacency.REPLACE_ONE, 2_000, 2)
    question = question_of(asked, schema, Epsilon.parse("1000"), "linf")
    loss = huber_loss(3, threshold, schema.adjacency, asked.exact_bound)
    (expected,) = expected_errors(question, loss, [one], threshold=threshold)
    rng, squares = np.random.default_rng(4), []
    for _ in range(60):
        x = np.column_stack([np.ones(2_000), rng.uniform(-1, 1, (2_000, 2))])
        y = 0.1 * rng.choice(residuals(law), 2_000)
        least = np.linalg.lstsq(x, y, rcond=None)[0]
        line = least.copy()
        for _ in range(30):
            off = y - x @ line
            within = np.abs(off) < float(threshold)
            psi = np.clip(off, -float(threshold), float(threshold))
            line += np.linalg.solve((x[within].T @ x[within]), x.T @ psi)
        squares.append(((line - least) ** 2).sum())
    assert expected == pytest.approx(np.sqrt(np.mean(squares)), rel=0.25)


def test_thresholds_fall_with_the_noise() -> None:
    def threshold(rows: int) -> object:
        plan = calibrate(regression(4), schema_of(Adjacency.REPLACE_ONE, rows, 4), ONE)
        return plan.details["threshold"]

    found = [threshold(rows) for rows in (300, 3_000, 30_000)]
    assert found == sorted(found)
    assert found[0] != found[-1]


def test_squared_loss_is_the_largest_error_of_few_rows() -> None:
    errors = fit_errors(regression(3), schema_of(Adjacency.REPLACE_ONE, 1_000, 3), ONE, "auto")
    assert errors.keys() == {None, *THRESHOLDS}
    for population in zip(*errors.values(), strict=True):
        assert max(population) == population[list(errors).index(None)]


@pytest.mark.wide
@pytest.mark.parametrize(
    "setting",
    [Setting(1_000, 4), Setting(1_000, 11), Setting(10_000, 4, spread=0.25)],
    ids=["3 features", "10 features", "narrow features"],
)
def test_what_is_chosen_errs_far_less_than_by_moments(setting: Setting) -> None:
    (row,) = study((setting,), draws=8, randomness=seeded_randomness(5))
    assert row.errors[row.taken] < row.errors["functional"] / 2
    assert row.errors[row.taken] < row.errors["kng"] / 2


def test_a_loss_that_is_asked_for_is_drawn() -> None:
    schema = schema_of(Adjacency.REPLACE_ONE, 10**6, 1)
    huber = calibrate(regression(1, loss="huber"), schema, ONE)
    assert (huber.mechanism, huber.details["loss"]) == (PERTURBED, "huber")
    own = calibrate(regression(1, loss="huber", threshold=0.3), schema, ONE)
    assert own.details["threshold"] == 0.3
    assert "most records" in str(own.details["estimates"])
    squared = calibrate(regression(1, loss="squared"), schema, ONE, mechanism=PERTURBED)
    assert squared.details["loss"] == "squared"
    assert "least squares" in str(squared.details["estimates"])
    ridged = calibrate(regression(1, ridge=4.0), schema, ONE)
    assert ridged.mechanism == "functional"


@in_one(
    ("more", "mechanism", "place"),
    [
        ({"threshold": 0.0}, "auto", "threshold"),
        ({"threshold": 1.5}, "auto", "threshold"),
        ({"threshold": 0.5, "loss": "squared"}, "auto", "threshold"),
        ({"loss": "huber"}, "kng", "loss"),
        ({"loss": "huber"}, "functional", "loss"),
        ({"threshold": 0.5}, "exponential", "loss"),
        ({"loss": "huber", "ridge": 1.0}, "auto", "ridge"),
    ],
)
def test_what_is_not_drawn_is_refused(more: dict[str, object], mechanism: str, place: str) -> None:
    schema = schema_of(Adjacency.REPLACE_ONE, 100, 1)
    with pytest.raises(InvalidStatisticError) as refused:
        calibrate(regression(1, **more), schema, ONE, mechanism=mechanism)
    assert refused.value.field_name == place


def test_standard_errors_go_with_either_loss() -> None:
    """Where rows are few the curvature would say nothing, and moments cost nothing more."""
    schema = schema_of(Adjacency.REPLACE_ONE, 400, 1)
    plan = calibrate(regression(1), schema, ONE, inference=Fraction(1, 3))
    assert plan.mechanism == "functional"
    plan = calibrate(regression(1, loss="huber"), schema, ONE, inference=Fraction(1, 3))
    assert (plan.mechanism, plan.details["loss"]) == (PERTURBED, "huber")


def test_a_mechanism_that_is_not_offered_is_not_taken() -> None:
    large = schema_of(Adjacency.REPLACE_ONE, 100_000, 70)
    plan = calibrate(regression(70), large, Epsilon.parse("10"), norm="l1")
    assert plan.mechanism == PERTURBED, "too many columns for moments"
    small = schema_of(Adjacency.REPLACE_ONE, 100, 1)
    with pytest.raises(InvalidStatisticError):
        calibrate(regression(1), small, ONE, norm="optimum")
    with pytest.raises(InvalidStatisticError, match="no such column"):
        calibrate(regression(2), small, ONE)


def test_other_statistics_keep_their_first() -> None:
    schema = schema_of(Adjacency.REPLACE_ONE, 100, 1)
    for asked in (Mean(columns=("y",)), QuantileRegression(target="y", features=("x0",))):
        assert calibrate(asked, schema, ONE).mechanism == next(iter(asked.mechanisms))


def test_a_part_of_a_stack_is_chosen_like_a_question_of_its_own() -> None:
    schema = schema_of(Adjacency.REPLACE_ONE, 431, 1)
    parts = (regression(1), Mean(columns=("y",)))
    stack = Stack(parts=tuple(Part(statistic=each, share=1) for each in parts))
    alone = calibrate(regression(1), schema, Epsilon.parse("0.5"))
    (part, _) = calibrate(stack, schema, ONE).details["parts"]  # type: ignore[misc]
    assert part["mechanism"] == alone.mechanism


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("features", [1, 4])
def test_curvatures_are_those_of_records(features: int, intercept: bool) -> None:
    one = Population("normal", 0.1, 0.25, 0.2)
    found = sorted(one.curvatures(features, intercept=intercept))
    rng = np.random.default_rng(1)
    x = one.centre + one.spread * rng.uniform(-1, 1, (400_000, features))
    x = np.column_stack([np.ones(len(x)), x]) if intercept else x
    assert found == pytest.approx(np.linalg.eigvalsh(x.T @ x / len(x)), rel=0.02)


@in_one("law", ["normal", "skewed", "heavy"])
@in_one("ratio", [0.5, 2.0])
def test_a_cut_is_the_line_of_least_loss(law: Law, ratio: float) -> None:
    found = cut(law, ratio, 0.3)
    u = np.linspace(-1, 1, 17)
    r = np.outer(residuals(law), 1 + 0.3 * u)

    def loss(line: Sequence[float]) -> float:
        off = np.abs(r - line[0] - line[1] * u)
        return float(np.where(off < ratio, off**2 / 2, ratio * off - ratio**2 / 2).mean())

    least = minimize(loss, np.zeros(2), method="Nelder-Mead", options={"xatol": 1e-7}).x
    assert (found.constant, found.slope) == pytest.approx(least, abs=2e-3)
    assert (law == "skewed") == (abs(found.constant) > 1e-3)
