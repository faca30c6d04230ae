"""What ``auto`` stands for: decided by a public simulation, the same for whoever asks."""

from __future__ import annotations

from fractions import Fraction

import pytest

from mechanisms.catalog import calibrate
from mechanisms.contract import InvalidStatisticError
from mechanisms.domain import NumberColumn, Schema
from mechanisms.foresight import choice as choice_module
from mechanisms.foresight.asked import Memory
from mechanisms.foresight.assumptions import Assumptions
from mechanisms.foresight.choice import choose, decided, remember, undecided
from mechanisms.foresight.foresee import foresee
from mechanisms.privacy import Adjacency, Epsilon
from mechanisms.statistics.linear_regression import LinearRegression
from mechanisms.statistics.mean import Mean
from mechanisms.statistics.quantile_regression import QuantileRegression
from mechanisms.statistics.stack import Part, Stack

ONE = Epsilon.parse("1")


def schema_of(adjacency: Adjacency, rows: int, features: int) -> Schema:
    names = [*(f"x{place}" for place in range(features)), "y"]
    columns = {name: NumberColumn(Fraction(-1), Fraction(1)) for name in names}
    public = rows if adjacency is Adjacency.REPLACE_ONE else None
    return Schema(columns, adjacency, public, rows)


def regression(features: int, **more: float | None) -> LinearRegression:
    names = tuple(f"x{place}" for place in range(features))
    return LinearRegression(target="y", features=names, **more)  # type: ignore[arg-type]


@pytest.mark.wide
@pytest.mark.parametrize("adjacency", list(Adjacency))
def test_few_rows_and_coefficients_go_to_sanitized_moments(adjacency: Adjacency) -> None:
    schema = schema_of(adjacency, 235, 1)
    choice = choose(regression(1), schema, ONE, norm="auto")
    assert choice is not None
    assert choice.mechanism == "functional"
    assert "runner-up" in choice.reason
    assert choice.reason.endswith(("errs about as much.", "times as much."))
    plan = calibrate(regression(1), schema, ONE)
    assert plan.mechanism == "functional"
    assert plan.reason.startswith(choice.reason)


@pytest.mark.wide
def test_what_is_chosen_errs_least_of_all() -> None:
    schema = schema_of(Adjacency.REPLACE_ONE, 1000, 3)
    choice = choose(regression(3), schema, ONE, norm="auto")
    assert choice is not None

    def error(mechanism: str) -> float:
        found = foresee(
            regression(3), schema, ONE, mechanism=mechanism, norm="auto", assumptions=Assumptions()
        )
        coefficients = found.expected_error["coefficients"] if found.expected_error else {}
        return float(sum(coefficients.values()))  # type: ignore[attr-defined]

    others = ("kng", "objective_perturbation", "functional")
    assert error(choice.mechanism) == min(map(error, others)), "here the margin is not needed"
    assert error("auto") == error(choice.mechanism), "a preview foresees what will be drawn"


@pytest.mark.wide
@pytest.mark.parametrize(
    ("rows", "coefficients", "bound", "errors"),
    [
        (40, 2, 10.0, {"functional": 0.177, "kng": 0.407, "objective_perturbation": 0.605}),
        (1_000, 6, 10.0, {"functional": 0.219, "kng": 0.145, "objective_perturbation": 0.394}),
        (10_000, 4, 10.0, {"functional": 0.119, "kng": 0.147, "objective_perturbation": 0.539}),
        (10_000, 8, 2.0, {"functional": 0.042, "kng": 0.027, "objective_perturbation": 0.033}),
    ],
)
def test_what_is_chosen_errs_little_more_than_the_best_where_that_was_measured(
    rows: int, coefficients: int, bound: float, errors: dict[str, float]
) -> None:
    """Measured of real draws from other rows: see ``studies/choices.py``."""
    schema = schema_of(Adjacency.REPLACE_ONE, rows, coefficients - 1)
    choice = choose(regression(coefficients - 1, bound=bound), schema, ONE, norm="auto")
    assert choice is not None
    assert errors[choice.mechanism] <= 1.3 * min(errors.values())


@pytest.mark.parametrize(
    ("error", "taken", "reason"),
    [
        (1.2, "kng", ("kng errs least in a public simulation of this question; the runner-up, "
         "functional, errs 1.2 times as much.")),
        (1.08, "functional", ("functional states its noise; the runner-up, kng, does not, and errs "
         "0.93 times as much in a public simulation of this question.")),
        (1.03, "functional", ("functional states its noise; the runner-up, kng, does not, and errs "
         "about as much in a public simulation of this question.")),
        (0.8, "functional", ("functional errs least in a public simulation of this question; the "
         "runner-up, kng, errs 1.2 times as much.")),
    ],
)  # fmt: skip
def test_an_error_counts_more_where_the_answers_do_not_state_their_noise(
    error: float, taken: str, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = {"kng": 1.0, "functional": error, "objective_perturbation": 5.0}
    monkeypatch.setattr(choice_module, "_errors", lambda _: (found, 1.0))
    monkeypatch.setattr(choice_module, "_KNOWN", Memory(512))
    choice = choose(regression(2), schema_of(Adjacency.REPLACE_ONE, 433, 2), ONE, norm="auto")
    assert choice is not None
    assert (choice.mechanism, choice.reason) == (taken, reason)


def test_a_mechanism_that_is_not_offered_is_no_candidate() -> None:
    schema = schema_of(Adjacency.REPLACE_ONE, 100_000, 24)
    choice = choose(regression(24), schema, Epsilon.parse("10"), norm="l1")
    assert choice is not None
    assert "kng" not in choice.mechanism + choice.reason, (
        "it draws at most 20 coefficients, by linf"
    )
    small = schema_of(Adjacency.REPLACE_ONE, 100, 1)
    with pytest.raises(InvalidStatisticError):
        choose(regression(1), small, ONE, norm="optimum")
    with pytest.raises(InvalidStatisticError, match="no such column"):
        choose(regression(2), small, ONE, norm="auto")


def test_other_statistics_keep_their_first() -> None:
    schema = schema_of(Adjacency.REPLACE_ONE, 100, 1)
    assert choose(Mean(columns=("y",)), schema, ONE, norm="auto") is None
    quantile = QuantileRegression(target="y", features=("x0",))
    assert choose(quantile, schema, ONE, norm="auto") is None


@pytest.mark.wide
def test_a_choice_may_be_made_elsewhere_and_is_remembered() -> None:
    schema = schema_of(Adjacency.REPLACE_ONE, 431, 1)
    parts = (regression(1), Mean(columns=("y",)))
    stack = Stack(parts=tuple(Part(statistic=each, share=1) for each in parts))
    waiting = undecided(stack, schema, ONE, mechanism="auto", norm="auto")
    assert [asked.epsilon.fraction for asked in waiting] == [Fraction(1, 2)]
    remember(decided(waiting))
    assert undecided(stack, schema, ONE, mechanism="auto", norm="auto") == []
    plan = calibrate(stack, schema, ONE)
    assert "functional errs least" in str(plan.details["parts"])
    assert undecided(regression(1), schema, ONE, mechanism="kng", norm="auto") == []
    wrong = undecided(regression(2), schema, ONE, mechanism="auto", norm="auto")
    assert decided(wrong) == {}, "what is refused is refused by whoever plans"
