"""Error estimates before a release: expected errors are those of draws from other rows."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from fractions import Fraction
from math import sqrt
from typing import Any, Literal

import numpy as np
import pytest

from app.services.plans.questions import read_question
from mechanisms.catalog import STATISTICS, calibrate
from mechanisms.contract import (
    Inference,
    InvalidStatisticError,
    Json,
    Noise,
    Outcome,
    Plan,
    Statistic,
    Term,
)
from mechanisms.domain import CategoryColumn, NumberColumn, Schema, number_of
from mechanisms.estimates import verdicts
from mechanisms.estimates.accuracy import dry_rows, dry_run
from mechanisms.estimates.asked import Memory
from mechanisms.estimates.assumptions import Assumptions, Spread
from mechanisms.estimates.estimate import ErrorEstimate, estimate_error
from mechanisms.estimates.synthetic import Relation, SyntheticRows, drawn, synthetic_rows
from mechanisms.estimates.trees import at, mapped, mapped_arrays, numbers
from mechanisms.estimates.verdicts import (
    GOOD,
    WEAK,
    Usefulness,
    judged,
    judged_by_noise,
    judged_release,
    known_errors,
)
from mechanisms.privacy import Adjacency, Epsilon
from mechanisms.sketches import ArrayData
from mechanisms.testing import seeded_randomness
from tests.tiers import in_one

BOTH = tuple(Adjacency)
COLUMNS: Mapping[str, Any] = {
    "age": NumberColumn(Fraction(0), Fraction(100)),
    "pay": NumberColumn(Fraction(-20), Fraction(80)),
    "owner": NumberColumn(Fraction(0), Fraction(1), boolean=True),
    "sex": CategoryColumn(("f", "m")),
}
FEMALE = [{"column": "sex", "op": "==", "value": "f"}]


def schema_of(adjacency: Adjacency, rows: int) -> Schema:
    public = rows if adjacency is Adjacency.REPLACE_ONE else None
    return Schema(COLUMNS, adjacency, public, rows)


def question(fields: Mapping[str, Any]) -> Statistic:
    whole = {"statistic": fields, "mechanism": "auto", "norm": "auto", "epsilon": "1"}
    return read_question(json.dumps(whole)).statistic


def estimated(
    fields: Mapping[str, Any],
    adjacency: Adjacency = Adjacency.REPLACE_ONE,
    *,
    rows: int = 1000,
    epsilon: str = "1",
    mechanism: str = "auto",
    norm: str = "auto",
    assumptions: Assumptions | None = None,
) -> ErrorEstimate:
    return estimate_error(
        question(fields),
        schema_of(adjacency, rows),
        Epsilon.parse(epsilon),
        mechanism=mechanism,
        norm=norm,
        assumptions=assumptions or Assumptions(rows=rows),
    )


def uniform_rows(rows: int, seed: int = 5) -> ArrayData:
    """Return rows that are spread evenly, the pay following age: no row of the simulation's."""
    generator = np.random.default_rng(seed)
    age = 100 * (generator.permutation(rows) + 0.5) / rows  # else chance decides at the median
    share = generator.uniform(0, 100, rows)
    values = {
        "age": age,
        "pay": -20 + 0.55 * age + 0.45 * share,
        "owner": generator.integers(0, 2, rows),
        "sex": generator.choice(["f", "m"], rows),
    }
    return ArrayData.from_values(schema_of(Adjacency.REPLACE_ONE, rows), values)


def mean_errors(
    fields: Mapping[str, Any], schema: Schema, data: ArrayData, *, draws: int, **choice: str
) -> Mapping[str, object]:
    """Return how far draws are off what the same question finds at an epsilon of 10,000."""
    statistic = question(fields)
    plan = calibrate(statistic, schema, Epsilon.parse("1"), **choice)
    exact = calibrate(statistic, schema, Epsilon.parse("10000"), **choice)
    truth = exact.draw(data, seeded_randomness(0)).value
    values = [plan.draw(data, seeded_randomness(turn)).value for turn in range(1, draws + 1)]
    errors = [mapped(lambda one, true: abs(one - true), value, truth) for value in values]
    return mapped(lambda *each: sum(each) / len(each), *errors)


STATED: list[tuple[dict[str, Any], str]] = [
    ({"kind": "histogram", "columns": ["sex"]}, "auto"),
    ({"kind": "sum", "columns": ["age"]}, "auto"),
    *(
        ({"kind": "mean", "columns": ["age", "pay", "owner"]}, norm)
        for norm in ("l1", "l2", "linf")
    ),
    ({"kind": "moments", "columns": ["age"]}, "auto"),
    ({"kind": "sum", "columns": ["pay"], "by": ["owner"], "where": FEMALE}, "auto"),
]


@pytest.mark.parametrize(("fields", "norm"), STATED, ids=lambda part: str(part)[:60])
def test_a_stated_error_is_the_mean_size_of_the_noise(fields: dict[str, Any], norm: str) -> None:
    schema, data = schema_of(Adjacency.REPLACE_ONE, 1000), uniform_rows(1000)
    result = estimated(fields, norm=norm)
    assert result.usefulness.estimate == "closed form"
    seen = mean_errors(fields, schema, data, draws=600, norm=norm)
    for path, error in numbers(result.expected_error):
        # 600 draws: a standard error of 4%
        assert at(seen, path) == pytest.approx(error, rel=0.2), path


SIMULATED: list[tuple[dict[str, Any], str, int]] = [
    ({"kind": "linear_regression", "target": "pay", "features": ["age"]}, "kng", 300),
    ({"kind": "linear_regression", "target": "pay", "features": ["age"]}, "kng", 60_000),
    (  # the bias of Huber's loss differs between these populations
        {"kind": "linear_regression", "target": "pay", "features": ["age"], "loss": "squared"},
        "objective_perturbation",
        60_000,
    ),
    ({"kind": "linear_regression", "target": "pay", "features": ["age"]}, "functional", 2000),
    ({"kind": "quantile", "column": "age", "levels": [0.5]}, "kng", 300),
    ({"kind": "quantile", "column": "age", "levels": [0.5]}, "kng", 60_000),
    ({"kind": "mean", "columns": ["age"], "where": FEMALE}, "k_norm", 1000),
    ({"kind": "mean", "columns": ["age"], "by": ["sex"]}, "k_norm", 1000),
    ({"kind": "covariance", "columns": ["age", "pay"]}, "k_norm", 1000),
    ({"kind": "std", "columns": ["age"]}, "k_norm", 60_000),
    ({"kind": "correlation", "columns": ["age", "pay"]}, "k_norm", 1000),
]


@pytest.mark.parametrize("adjacency", BOTH)
@pytest.mark.parametrize(
    ("fields", "mechanism", "rows"), SIMULATED, ids=lambda part: str(part)[:50]
)
def test_a_simulated_error_is_that_of_draws_from_other_rows_however_many(
    fields: dict[str, Any], mechanism: str, rows: int, adjacency: Adjacency
) -> None:
    result = estimated(fields, adjacency, rows=rows, mechanism=mechanism)
    assert result.usefulness.estimate in ("approximated", "simulated", "coarse")
    schema, data = schema_of(adjacency, rows), uniform_rows(rows)
    seen = mean_errors(fields, schema, data, draws=60, mechanism=mechanism)
    for path, error in numbers(result.expected_error):
        assert at(seen, path) / 2 <= error <= 2 * at(seen, path), (path, error, at(seen, path))


def test_the_bias_of_a_logistic_regression_is_expected_and_named() -> None:
    """Its ridge pulls slopes to 0: errors were 14 times as large as a simulation said."""
    rows, generator = 5000, np.random.default_rng(2)
    schema = schema_of(Adjacency.REPLACE_ONE, rows)
    age, pay = generator.uniform(30, 60, rows), generator.uniform(-20, 80, rows)
    odds = np.exp(0.25 * (age - 45) + 0.02 * pay)
    owner = (generator.uniform(size=rows) < odds / (1 + odds)).astype(float)
    values = {"age": age, "pay": pay, "owner": owner, "sex": generator.choice(["f", "m"], rows)}
    data = ArrayData.from_values(schema, values)
    asked = {"kind": "logistic_regression", "target": "owner", "features": ["age", "pay"]}
    typical = (("age", Spread(mean=45, std=9)), ("pay", Spread(mean=30, std=29)))
    found = estimated(asked, rows=rows, assumptions=Assumptions(population=typical))
    seen = mean_errors(asked, schema, data, draws=12)
    for path, error in numbers(seen):
        assert at(found.low, path) / 2 <= error <= 2 * at(found.high, path), path
    assert (
        "of an error is bias: the ridge pulls coefficients towards 0" in found.usefulness.sentence
    )


def test_records_chosen_by_related_columns_may_be_fewer() -> None:
    """A quarter as many are considered, and the verdict is of those."""
    asked: dict[str, Any] = {"kind": "mean", "columns": ["pay"], "by": ["sex"]}
    known = Assumptions(population=(PAY, AGE), shares=(OWNERS,))
    alone = estimated(asked, rows=4000, epsilon="0.1", assumptions=known)
    assert alone.high is None
    asked["where"] = [{"column": "age", "op": "<", "value": 30}]
    both = estimated(asked, rows=4000, epsilon="0.1", assumptions=known)
    for path, error in numbers(both.expected_error):
        assert at(both.high, path) == pytest.approx(4 * error, rel=0.01)
    assert "in the worst of several populations" in both.usefulness.sentence


FRESH: list[tuple[dict[str, Any], str, int, str]] = [
    *(
        ({"kind": "quantile", "column": "age", "levels": [0.5]}, "kng", rows, epsilon)
        for rows in (50, 1500)
        for epsilon in ("0.1", "1", "8")
    ),
    ({"kind": "quantile", "column": "age", "levels": [0.1, 0.5]}, "kng", 300, "1"),
    ({"kind": "mean", "columns": ["age"], "where": FEMALE}, "k_norm", 200, "0.5"),
    ({"kind": "std", "columns": ["age"]}, "k_norm", 2000, "1"),
    ({"kind": "linear_regression", "target": "pay", "features": ["age"]}, "kng", 300, "4"),
    (
        {"kind": "linear_regression", "target": "pay", "features": ["age"], "loss": "squared"},
        "objective_perturbation",
        2000,
        "1",
    ),
]


def errors_on_fresh_rows(
    fields: Mapping[str, Any], mechanism: str, rows: int, epsilon: str, *, sets: int
) -> list[float]:
    """Return the mean error of each number over data sets that chance made, one draw of each."""
    schema, generator = schema_of(Adjacency.REPLACE_ONE, rows), np.random.default_rng(3)
    plan, sure = (
        calibrate(question(fields), schema, Epsilon.parse(each), mechanism=mechanism)
        for each in (epsilon, "10000")
    )
    found = []
    for turn in range(sets):
        age, noise = generator.uniform(0, 100, rows), generator.normal(0, 1, rows)
        latent = np.sqrt(0.3) * (age - 50) * np.sqrt(12) / 100 + np.sqrt(0.7) * noise
        values = {
            "age": age,
            "pay": -20 + 100 * (np.argsort(np.argsort(latent)) + 0.5) / rows,
            "owner": generator.integers(0, 2, rows),
            "sex": generator.choice(["f", "m"], rows),
        }
        data = ArrayData.from_values(schema, values)
        one, true = (
            each.draw(data, seeded_randomness(2 * turn + place)).value
            for place, each in enumerate((plan, sure))
        )
        found.append([abs(at(one, path) - number) for path, number in numbers(true)])
    return [float(mean) for mean in np.mean(found, axis=0)]


@pytest.mark.slow
def test_expected_errors_are_right_to_a_fifth_on_average_and_to_a_third_each() -> None:
    """Of rows that chance made: distances between their values differ, as in all data.

    The standard errors of the estimate and of the observed error are about 8% and 5%.
    """
    ratios = []
    for fields, mechanism, rows, epsilon in FRESH:
        result = estimated(fields, rows=rows, epsilon=epsilon, mechanism=mechanism).expected_error
        seen = errors_on_fresh_rows(fields, mechanism, rows, epsilon, sets=300)
        for (_, error), mean in zip(numbers(result), seen, strict=True):
            ratios.append(error / mean)
            assert 2 / 3 <= ratios[-1] <= 3 / 2, (fields, rows, epsilon, ratios)
    assert np.sqrt(np.mean(np.log(ratios) ** 2)) <= 0.2, ratios
    assert abs(np.mean(np.log(ratios))) <= 0.1, ratios


def _mean(each: Any) -> float:
    return float(np.mean(each))


AT_ONCE: list[tuple[dict[str, Any], str]] = [
    ({"kind": "geometric_median", "columns": ["age", "pay"]}, "4"),
    ({"kind": "quantile_regression", "target": "pay", "features": ["age"], "bound": 2}, "1"),
    ({"kind": "quantile_regression", "target": "pay", "features": ["age"], "tau": 0.8}, "4"),
    ({"kind": "poisson_regression", "target": "age", "features": ["pay"]}, "1"),
    ({"kind": "multinomial_regression", "target": "sex", "features": ["age"]}, "4"),
    ({"kind": "mean", "columns": ["age"], "clip": "private"}, "1"),
    ({"kind": "std", "columns": ["pay"], "clip": {"lower": 0, "upper": 50}}, "1"),
]


@pytest.mark.parametrize(
    ("fields", "epsilon"),
    [pytest.param(*AT_ONCE[0], marks=pytest.mark.wide), *AT_ONCE[1:]],  # its draws take seconds
)
def test_errors_that_are_simulated_at_once_are_those_of_draws(
    fields: Mapping[str, Any], epsilon: str
) -> None:
    """Of 60 draws and of the simulation the standard errors are about 10% each."""
    rows = 100 if fields["kind"] == "geometric_median" else 300
    data, schema = uniform_rows(rows), schema_of(Adjacency.REPLACE_ONE, rows)
    asked = question(fields)
    plan = calibrate(asked, schema, Epsilon.parse(epsilon))
    sure = calibrate(asked.estimand(), schema, Epsilon.parse("10000"))
    if "clip" in fields:
        sure = calibrate(question({**fields, "clip": "none"}), schema, Epsilon.parse("10000"))
    exact = sure.draw(data, seeded_randomness(0)).value
    values = [plan.draw(data, seeded_randomness(turn)).value for turn in range(1, 61)]
    assert plan.errors_on is not None
    expected = mapped_arrays(_mean, plan.errors_on(data, 128, b"seed", 1.0))
    for path, error in numbers(expected):
        seen = np.mean([abs(at(value, path) - at(exact, path)) for value in values])
        assert 2 / 3 <= error / seen <= 3 / 2, (path, error, seen)


@in_one(("fields", "epsilon"), AT_ONCE)
def test_a_row_that_stands_for_several_records_is_as_they_are(
    fields: Mapping[str, Any], epsilon: str
) -> None:
    asked = question(fields)
    plan = calibrate(asked, schema_of(Adjacency.REPLACE_ONE, 1200), Epsilon.parse(epsilon))
    rows = uniform_rows(300)
    repeated = ArrayData(
        columns=COLUMNS,
        codes={name: np.tile(rows.codes[name], 4) for name in COLUMNS},
        values={name: np.tile(each, 4) for name, each in (rows.values or {}).items()},
    )
    assert plan.errors_on is not None
    for data, times in ((rows, 4.0), (repeated, 1.0)):
        found = mapped_arrays(_mean, plan.errors_on(data, 128, b"seed", times))
        if data is rows:
            one = found
    for path, error in numbers(found):
        assert at(one, path) == pytest.approx(error, rel=0.02), path


def test_the_errors_of_a_geometric_median_of_no_rows_are_those_of_draws() -> None:
    asked = {
        "kind": "geometric_median", "columns": ["age", "pay"],
        "where": [{"column": "age", "op": ">=", "value": 99.9999}],
    }  # fmt: skip
    found = estimated(asked, rows=50, epsilon="0.7").expected_error
    assert all(0 < error < 100 for _, error in numbers(found))


def test_a_geometric_median_that_is_noise_errs_as_a_point_anywhere(
    recwarn: pytest.WarningsRecorder,
) -> None:
    """Noise far wider than the bounds leaves no proposal within them; the law is uniform then."""
    asked = {"kind": "geometric_median", "columns": ["age", "pay"]}
    found = estimated(asked, rows=2, epsilon="0.000001")
    assert not recwarn.list
    # the mean distance of a uniform point from the middle is a quarter of the width of 100
    for _, error in numbers(found.expected_error):
        assert 24 < error < 35
    assert found.usefulness.verdict == "noise"


WHOLE = NumberColumn(lower=Fraction(0), upper=Fraction(60), kind="integer")


@pytest.mark.parametrize(
    ("levels", "rows", "epsilon"),
    [
        ([0.5], 300, "0.2"),
        ([0.9], 3000, "0.5"),
        pytest.param([0.25, 0.5, 0.75], 300, "1", marks=pytest.mark.wide),
    ],
)
def test_quantiles_of_whole_numbers_err_as_draws_do(
    levels: list[float], rows: int, epsilon: str
) -> None:
    schema = Schema({"age": WHOLE}, Adjacency.REPLACE_ONE, rows)
    asked = question({"kind": "quantile", "column": "age", "levels": levels})
    found = estimate_error(
        asked, schema, Epsilon.parse(epsilon), mechanism="auto", norm="auto",
        assumptions=Assumptions(),
    )  # fmt: skip
    assert found.usefulness.estimate == "approximated"
    plan, sure = (calibrate(asked, schema, Epsilon.parse(each)) for each in (epsilon, "10000"))
    generator, errors = np.random.default_rng(8), []
    for turn in range(200):
        values: dict[str, Any] = {"age": generator.integers(0, 61, rows)}
        data = ArrayData.from_values(schema, values)
        value, true = (each.draw(data, seeded_randomness(turn)).value for each in (plan, sure))
        errors.append([abs(at(value, path) - number) for path, number in numbers(true)])
    seen = np.mean(errors, axis=0)
    for (_, error), mean in zip(numbers(found.expected_error), seen, strict=True):
        assert 2 / 3 <= error / mean <= 3 / 2, (error, mean)


@pytest.mark.parametrize(
    ("kind", "std", "in_one", "epsilon"),
    [
        ("quantile", 8, 20, "3"),
        ("interquartile_range", 8, 20, "3"),
        ("quantile", 12, 1, "0.2"),
        ("interquartile_range", 12, 1, "0.2"),
    ],
)
def test_quantiles_of_numbers_that_were_rounded_err_by_half_a_step(
    kind: str, std: int, in_one: int, epsilon: str
) -> None:
    """A number may be recorded to three digits, or whole: then noise of few ranks has a step."""
    fields = {"quantile": {"levels": [0.25]}, "interquartile_range": {}}[kind]
    asked = question({"kind": kind, "column": "age", **fields})
    mean = 41.5 + 0.6745 * std  # so that the lower quartile is where a number begins
    rows, spread = 20_000, Spread(mean=mean, std=float(std))
    found = estimate_error(
        asked, schema_of(Adjacency.REPLACE_ONE, rows), Epsilon.parse(epsilon), mechanism="auto",
        norm="auto", assumptions=Assumptions(population=(("age", spread),)),
    )  # fmt: skip
    assert found.usefulness.verdict == "good"
    assert found.low is not None
    assert found.high is not None
    generator, errors = np.random.default_rng(8), []
    schema = Schema({"age": COLUMNS["age"]}, Adjacency.REPLACE_ONE, rows)
    plan, sure = (calibrate(asked, schema, Epsilon.parse(each)) for each in (epsilon, "10000"))
    for turn in range(40):
        ages = generator.normal(mean, std, rows).clip(0, 100)
        data = ArrayData.from_values(schema, {"age": np.round(in_one * ages) / in_one})
        value, true = (each.draw(data, seeded_randomness(turn)).value for each in (plan, sure))
        errors.append([abs(at(value, path) - number) for path, number in numbers(true)])
    ((_, error),) = numbers(found.low)
    ((_, most),) = numbers(found.high)
    (seen,) = np.mean(errors, axis=0)
    assert seen > 3 * error  # what smooth values would have
    assert seen <= 3 * most


def test_a_simulation_describes_no_noise_that_nobody_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    def describe(*arguments: object, **more: object) -> None:
        raise ZeroDivisionError("it is read")

    monkeypatch.setattr("mechanisms.knorm.noise_describer", describe)
    asked = {"kind": "covariance", "columns": ["age", "pay"]}
    found = estimated(asked, epsilon="0.71").expected_error  # no other test asks at this epsilon
    assert all(number > 0 for _, number in numbers(found))
    plan = calibrate(question(asked), schema_of(Adjacency.REPLACE_ONE, 1000), Epsilon.parse("0.71"))
    outcome = plan.draw(uniform_rows(1000), seeded_randomness(1))
    assert outcome.value is not None
    with pytest.raises(ZeroDivisionError):
        _ = outcome.noise.std


def test_a_memory_keeps_the_last_results() -> None:
    known: Memory[int] = Memory(2)
    known.keep({"a": 1, "b": 2})
    assert (known.get("a"), known.get("b"), known.get("c")) == (1, 2, None)
    known.keep({"c": 3})
    assert (known.get("a"), known.get("b"), known.get("c")) == (None, 2, 3)


def test_a_question_is_simulated_once(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn_turns: list[int] = []

    def counting(plan: Plan, rows: SyntheticRows, turn: int) -> Outcome:
        drawn_turns.append(turn)
        return drawn(plan, rows, turn)

    monkeypatch.setattr("mechanisms.estimates.errors.drawn", counting)
    asked = {"kind": "geometric_median", "columns": ["age"]}
    found = estimated(asked, rows=50, epsilon="0.73")  # no other test asks at this epsilon
    assert drawn_turns
    drawn_turns.clear()
    assert estimated(asked, rows=50, epsilon="0.73").expected_error == found.expected_error
    assert not drawn_turns


def test_samples_differ_and_columns_that_nobody_reads_are_not_made() -> None:
    schema = schema_of(Adjacency.REPLACE_ONE, 300)
    samples = [
        synthetic_rows(schema, Assumptions(), 300, None, sample=each).data for each in (0, 0, 1)
    ]
    first, again, other = (rows.ordered("age")[0] for rows in samples)
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)
    gaps = np.diff(first) * float(COLUMNS["age"].step)
    assert np.std(gaps) == pytest.approx(np.mean(gaps), rel=0.25), "as of independent values"
    own = samples[0].values
    assert own is not None
    whole = ArrayData(
        columns=COLUMNS,
        codes={name: samples[0].codes[name] for name in COLUMNS},
        values={name: own[name] for name in COLUMNS if name in own},
    )
    assert samples[0].gram(["pay", "age"]) == whole.gram(["pay", "age"])
    assert np.array_equal(samples[0].category_counts("sex"), whole.category_counts("sex"))


KINDS: list[dict[str, Any]] = [
    {"kind": "count", "where": FEMALE},
    {"kind": "count", "where": FEMALE, "by": ["owner"]},
    {"kind": "histogram", "columns": ["sex", "owner"]},
    {"kind": "sum", "columns": ["pay"], "where": FEMALE},
    {"kind": "variance", "columns": ["age"], "by": ["sex"]},
    {"kind": "std", "columns": ["age"], "where": FEMALE},
    {"kind": "moments", "columns": ["age", "pay"]},
    {"kind": "correlation", "columns": ["age", "pay"]},
    {"kind": "quantile", "column": "pay", "levels": [0.25, 0.5], "by": ["sex"]},
    {"kind": "geometric_median", "columns": ["age", "pay"]},
    {"kind": "linear_regression", "formula": "log(pay + 30) ~ age * owner + C(sex)"},
    {"kind": "linear_regression", "target": "pay", "features": ["age"], "by": ["sex"]},
    {"kind": "linear_regression", "target": "pay", "features": ["age"], "ridge": 50},
    {"kind": "logistic_regression", "target": "owner", "features": ["age"]},
    {
        "kind": "logistic_regression",
        "target": {"column": "sex", "op": "==", "value": "m"},
        "features": ["age"],
    },
    {"kind": "quantile_regression", "target": "pay", "features": ["age"]},
    {
        "kind": "stack",
        "parts": [
            {"statistic": {"kind": "mean", "columns": ["age"]}, "share": 1},
            {"statistic": {"kind": "quantile", "column": "pay", "levels": [0.5]}, "share": 3},
        ],
    },
]


@pytest.mark.parametrize("adjacency", BOTH)
@pytest.mark.parametrize("fields", KINDS, ids=lambda part: str(part)[:60])
def test_errors_and_ranges_have_the_shape_of_the_value_which_lies_within(
    fields: dict[str, Any], adjacency: Adjacency
) -> None:
    result = estimated(fields, adjacency, rows=400, epsilon="5")
    schema, data = schema_of(adjacency, 400), uniform_rows(400)
    plan = calibrate(question(fields), schema, Epsilon.parse("5"))
    value = plan.draw(data, seeded_randomness(1)).value
    errors, ranges = result.expected_error, result.possible_range
    assert errors is not None
    assert [path for path, _ in numbers(errors)] == [path for path, _ in numbers(value)]
    for path, number in numbers(value):
        low, high = at(ranges, path)
        error = at(errors, path)
        assert error >= 0
        assert low - 8 * error - 1e-9 <= number <= high + 8 * error + 1e-9, path


@in_one(
    ("kind", "ends", "unit"),
    [
        ("date", ["1990-01-01", "2020-01-01"], "days"),
        ("datetime", ["2020-01-01T00:00:00Z", "2020-01-02T00:00:00Z"], "seconds"),
    ],
)
@in_one(
    "asked",
    [
        {"kind": "mean", "columns": ["at"], "by": ["owner"]},
        {"kind": "quantile", "column": "at", "levels": [0.5]},
        {
            "kind": "stack",
            "parts": [{"statistic": {"kind": "mean", "columns": ["at"]}, "share": 1}],
        },
    ],
)
def test_of_dates_the_range_has_texts_and_the_error_a_unit(
    asked: dict[str, Any], kind: Literal["date", "datetime"], ends: list[str], unit: str
) -> None:
    lower, upper = (number_of(kind, end) for end in ends)
    columns = {"at": NumberColumn(lower, upper, kind=kind), "owner": COLUMNS["owner"]}
    schema = Schema(columns, Adjacency.REPLACE_ONE, 1000)
    epsilon, assumed = Epsilon.parse("1"), Assumptions(even=True)
    result = estimate_error(
        question(asked), schema, epsilon, mechanism="auto", norm="auto", assumptions=assumed
    )
    ((path, error), *_) = numbers(result.expected_error)
    assert at(result.possible_range, path) == ends
    width = float(upper - lower)
    assert result.usefulness.share is not None
    assert result.usefulness.share >= error / width > 0
    assert (
        f" {unit} (at" in result.usefulness.sentence or f" {unit} (q" in result.usefulness.sentence
    )
    assert f"values from {ends[0]} to {ends[1]} are typical" in result.usefulness.sentence
    bare = estimate_error(
        question(asked), schema, epsilon, mechanism="auto", norm="auto", assumptions=Assumptions()
    )
    assert bare.usefulness.verdict == "depends", "the width of the bounds is no scale"


@pytest.mark.parametrize("adjacency", BOTH)
@pytest.mark.parametrize(
    "fields",
    [
        {"kind": "mean", "columns": ["age"]},
        {"kind": "histogram", "columns": ["sex"]},
        {"kind": "quantile", "column": "age", "levels": [0.5]},
        {"kind": "linear_regression", "target": "pay", "features": ["age"]},
        {"kind": "logistic_regression", "target": "owner", "features": ["age"]},
        {"kind": "correlation", "columns": ["age", "pay"]},
    ],
    ids=lambda part: str(part["kind"]),
)
def test_the_verdict_follows_what_is_paid(fields: dict[str, Any], adjacency: Adjacency) -> None:
    even = Assumptions(rows=1000, even=True)
    rich, poor = (
        estimated(fields, adjacency, epsilon=each, assumptions=even) for each in ("20", "0.001")
    )
    assert rich.usefulness.verdict == "good", rich.usefulness.sentence
    assert poor.usefulness.verdict == "noise", poor.usefulness.sentence
    assert "are typical" in rich.usefulness.sentence


def test_the_verdict_compares_the_largest_error_with_what_was_possible() -> None:
    ranges = {"a": [0, 100], "b": [0, 10]}
    cases = [({"a": 2, "b": 0}, "good"), ({"a": 0, "b": 0.3}, "weak"), ({"a": 0, "b": 2}, "noise")]
    for errors, verdict in cases:
        assert judged(errors, ranges).verdict == verdict
    assert "2 (b), where values from 0 to 10 are typical" in judged(cases[2][0], ranges).sentence
    assert judged(None, None).verdict == "depends", "what is not known is neither praise nor blame"
    assert "no noise" not in judged({"a": 0.0}, None).sentence, (
        "an error that rounds to 0 is noise too"
    )


def test_released_numbers_that_could_be_nothing_are_noise() -> None:
    before = judged({"count": 1.0}, {"count": [0, 1000]})
    assert before.verdict == "good"
    assert judged_release(before, ["nothing"], {"count": 1}, {"count": 1.0}).verdict == "noise"
    far = judged_release(before, ["nothing"], {"count": 500}, {"count": 1.0})
    assert (far.verdict, before.sentence in far.sentence) == ("good", True)
    # of a mean zero is a value like any other, and so is an intercept
    assert judged_release(before, ["a value"], {"x": 0.1}, {"x": 1.0}) == before
    open_ = replace(before, verdict="depends", share=None)
    rows = {"rows": [{"value": 58.0}], "differences": [{"value": 0.01}]}
    sizes_of_rows = {"rows": [{"value": 0.3}], "differences": [{"value": 0.4}]}
    assert judged_release(open_, ["a value"], rows, sizes_of_rows).verdict == "good"
    for size in (0.7, 0.9, 1.1):  # whatever its error leaves of a difference that may be none
        rows["differences"] = [{"value": size}]
        assert judged_release(open_, ["a value"], rows, sizes_of_rows).verdict != "noise"
    slopes = {"coefficients": {"(intercept)": 9.0, "x": 0.1}}
    errors = {"coefficients": {"(intercept)": 1.0, "x": 1.0}}
    # a slope near 0 is as well known as any other
    near = judged_release(before, ["no effect"], slopes, errors)
    assert (near.verdict, "x is not further from 0" in near.sentence) == ("good", True)
    matrix, sizes = {"matrix": [[1.0, 0.1], [0.1, 1.0]]}, {"matrix": [[0.0, 1.0], [1.0, 0.0]]}
    assert "is not further" in judged_release(before, ["no effect"], matrix, sizes).sentence
    edge = {("matrix", 0, 1)}  # a number that cannot be said is not judged
    assert judged_release(before, ["no effect"], matrix, sizes, edges=edge) == before
    assert judged_release(before, ["nothing"], {"count": 1}, None) == before


@pytest.mark.parametrize("fields", [{"by": ["sex"]}, {"where": FEMALE}, {"by": ["young"]}])
def test_a_verdict_about_records_nobody_can_count_depends_on_their_number(
    fields: dict[str, Any],
) -> None:
    derive = {"young": "age < 10"} if fields.get("by") == ["young"] else {}
    asked = {"kind": "mean", "columns": ["pay"], "derive": derive, **fields}
    pay = Assumptions(population=(PAY,))
    result = estimated(asked, rows=4000, epsilon="0.2", assumptions=pay).usefulness
    assert result.verdict == "depends"
    column = "age" if derive else "sex"
    assert f"nothing is stated of {column}" in result.sentence
    # whatever the sizes: a price that is too low for equal groups, and one that does for any
    for epsilon, verdict in (("0.001", "noise"), ("1000", "good")):
        sure = estimated(asked, rows=4000, epsilon=epsilon, assumptions=pay).usefulness
        assert sure.verdict == verdict
    # stated, or equal by the asker's own word
    stated = {
        "sex": Assumptions(population=(PAY,), shares=(("sex", (("f", 0.03),)),)),
        "age": Assumptions(population=(PAY, ("age", Spread(mean=20, std=5)))),
    }
    known = estimated(asked, rows=4000, epsilon="0.2", assumptions=stated[column]).usefulness
    even = estimated(asked, rows=4000, epsilon="0.2", assumptions=Assumptions(even=True)).usefulness
    assert known.verdict != "depends"
    assert even.verdict in ("good", "weak")
    assert (even.share or 0) < (known.share or 0)
    # how much noise a sum has does not depend on what is added up; whether it is above 0 does
    amount = estimated({**asked, "kind": "sum"}, rows=4000, assumptions=pay).usefulness
    assert amount.verdict == ("depends" if "where" in fields else "good")
    released = judged_by_noise(result, {"pay": 1.0}, {"pay": 40.0}, {"pay": [-20, 80]})
    assert released.verdict == "noise"


AGE = ("age", Spread(mean=40, std=29))
PAY = ("pay", Spread(mean=30, std=29))
OWNERS = ("sex", (("f", 0.5),))
MIDDLES = (("age", 50), ("pay", 30))


@pytest.mark.parametrize(
    "fields",
    [
        {"kind": "correlation", "columns": ["age", "pay"]},
        {"kind": "std", "columns": ["age"]},
        {"kind": "linear_regression", "target": "pay", "features": ["age"], "loss": "squared"},
        {"kind": "linear_regression", "formula": "pay ~ log(age + 1)", "loss": "squared"},
        {"kind": "logistic_regression", "target": "owner", "features": ["age"]},
        {"kind": "quantile_regression", "target": "pay", "features": ["age"], "tau": 0.5},
        {"kind": "linear_regression", "formula": "pay ~ sex", "loss": "squared"},
    ],
    ids=lambda part: str(part)[:50],
)  # fmt: skip
def test_a_verdict_of_what_is_divided_by_a_spread_depends_on_it(fields: dict[str, Any]) -> None:
    """Where nothing is stated of it, no verdict says good or weak; a correlation has a scale."""
    more: Any = {"epsilon": "0.05" if fields["kind"] == "std" else "8", "rows": 4000}
    result = estimated(fields, **more).usefulness
    assert result.verdict == "depends", result.sentence
    if fields["kind"] == "correlation":
        assert "how far the values of age and pay spread" in result.sentence
        assert estimated(fields, epsilon="0.0002").usefulness.verdict == "noise"
    else:
        assert "how large a difference matters" in result.sentence
    assert "Good. " not in result.sentence
    assert "Weak. " not in result.sentence
    known = Assumptions(population=(AGE, PAY), shares=(OWNERS,))
    assert estimated(fields, assumptions=known, **more).usefulness.verdict in ("good", "weak")
    even = Assumptions(even=True)
    assert estimated(fields, assumptions=even, **more).usefulness.verdict in ("good", "weak")


@pytest.mark.parametrize("epsilon", ["0.1", "0.5", "2"])
def test_the_spread_that_a_verdict_takes_is_about_right(epsilon: str) -> None:
    """A column as narrow as the sentence says is as good as it says."""
    asked = {"kind": "correlation", "columns": ["age", "pay"]}
    result = estimated(asked, rows=4000, epsilon=epsilon).usefulness
    assert result.verdict == "depends"
    said = r"about ([\d.]+)% of the assumed .* is good, from ([\d.]+)% on"
    from_on = re.search(said, result.sentence)
    assert from_on is not None
    for percent, limit in zip(from_on.groups(), (GOOD, WEAK), strict=True):
        std = float(percent) * 100 / sqrt(12) / 100
        narrow = tuple((name, Spread(mean=middle, std=std)) for name, middle in MIDDLES)
        found = estimated(
            asked, rows=4000, epsilon=epsilon, assumptions=Assumptions(population=narrow)
        ).usefulness
        assert found.share is not None
        assert limit / 3 < found.share < 3 * limit, (percent, found.sentence)


@pytest.mark.parametrize(
    "fields",
    [
        {"kind": "count"}, {"kind": "count", "by": ["owner"]},
        {"kind": "sum", "columns": ["age"]}, {"kind": "histogram", "columns": ["owner"]},
    ],
    ids=str,
)  # fmt: skip
def test_a_verdict_on_amounts_depends_on_how_large_they_are(fields: dict[str, Any]) -> None:
    """A release that can distinguish none of them from 0 is noise; others stay what they were."""
    asked = {**fields, "where": FEMALE}
    result = estimated(asked, rows=4000, epsilon="0.1").usefulness
    assert result.verdict == "depends", result.sentence
    assert "cannot be distinguished from 0" in result.sentence
    assert "Good" not in result.sentence
    kept = Usefulness.from_json({**result.to_json(), "share": result.share})
    small, large = (
        judged_release(
            kept, [STATISTICS[fields["kind"]].near_zero], {"count": number}, {"count": 10.0}
        )
        for number in (19, 400)  # of 21 an error of 10 is nearly half
    )
    assert (small.verdict, large.verdict) == ("noise", "good")
    assert "depends" not in small.sentence + large.sentence
    known = Assumptions(shares=(OWNERS,), population=(AGE,))
    for stated in (known, Assumptions(even=True)):
        each = estimated(asked, rows=4000, epsilon="0.1", assumptions=stated).usefulness
        assert each.verdict == "good", each.sentence
    # a single record differs from none, whatever else there is
    exact = estimated(asked, rows=4000, epsilon="100").usefulness
    assert exact.verdict == ("depends" if fields["kind"] == "sum" else "good")


def test_a_stack_says_of_which_part_its_verdict_is() -> None:
    parts = [
        {"kind": "mean", "columns": ["pay"]},
        {"kind": "correlation", "columns": ["age", "pay"]},
    ]
    stack = {"kind": "stack", "parts": [{"statistic": each} for each in parts]}
    result = estimated(stack).usefulness
    assert result.verdict == "depends"
    assert result.sentence.startswith("Part 2: It depends on how far the values of age and pay")


def test_groups_of_unknown_size_and_spread_say_both() -> None:
    asked = {"kind": "correlation", "columns": ["age", "pay"], "by": ["sex"]}
    result = estimated(asked, rows=4000, epsilon="5").usefulness
    assert result.verdict == "depends"
    assert "how many records the smallest group has" in result.sentence
    assert "age and pay are assumed to spread evenly" in result.sentence


def test_shares_of_a_category_make_its_groups() -> None:
    asked = {"kind": "mean", "columns": ["pay"], "by": ["sex"]}
    shares = Assumptions(shares=(("sex", (("f", 0.05), ("m", 0.95))),))
    errors: Any = estimated(asked, rows=4000, assumptions=shares).expected_error
    few, many = (group["value"]["pay"] for group in errors["groups"])
    assert few > 8 * many
    counts: Any = estimated({"kind": "count", "by": ["sex"]}, assumptions=shares).possible_range
    tops = [group["value"]["count"][1] for group in counts["groups"]]
    assert tops[0] == pytest.approx(250, rel=0.1)


def test_rows_that_are_assumed_are_reported() -> None:
    asked, private = {"kind": "mean", "columns": ["age"]}, Adjacency.ADD_REMOVE
    result = estimated(asked, private, rows=20_000, assumptions=Assumptions()).usefulness
    assert result.sentence.endswith(" 10,000 rows are assumed.")
    assert Usefulness.from_json({**result.to_json(), "rows": result.rows}).rows == 10_000
    more = estimated(asked, private, rows=20_000, assumptions=Assumptions(rows=15_000)).usefulness
    assert more.sentence.endswith(" 15,000 rows are assumed.")
    assert "assumed" not in estimated(asked).usefulness.sentence
    errors = {"count": 1.0}
    before = judged(errors, {"count": [0, 1000]}, rows=1)
    nothing = judged_release(before, ["nothing"], {"count": 1}, errors)
    assert nothing.sentence.endswith("twice its expected error. 1 row is assumed.")


def drawn_with(std: Json | None, *terms: Term) -> Outcome:
    """Return an outcome whose noise has these deviations, with inference of these terms."""
    noise = None if std is None else Noise(std=std, interval_95={})
    return Outcome(value={}, noise=noise, inference=Inference(terms=terms, method=""))


def test_noise_far_larger_than_expected_changes_the_verdict() -> None:
    """A mean of five records, where a thousand were assumed."""
    errors, ranges = {"income": 50.0}, {"income": [0.0, 10_000.0]}
    before = judged(errors, ranges)
    assert before.verdict == "good"

    def after(std: float) -> Usefulness:
        known = known_errors(errors, drawn_with({"income": std}))
        return judged_by_noise(before, errors, known, ranges)

    assert after(70.0) is before
    assert after(500.0).verdict == "weak"
    assert after(5_000.0).verdict == "noise"
    assert after(5_000.0).sentence == (
        "Mostly noise. The expected error is 4,000 (income), where values from 0 to 10,000 are "
        "typical: 40% of that range. Less was expected beforehand."
    )


def test_noise_that_grew_is_compared_with_its_own_range_and_named() -> None:
    errors, ranges = {"a": 1.9, "b": 0.01}, {"a": [0, 100], "b": [0, 100]}
    before = judged(errors, ranges)
    known = known_errors(errors, drawn_with({"a": 2.0, "b": 1.0}))
    assert judged_by_noise(before, errors, known, ranges) is before, "0.8% of the range of b"
    known = known_errors(errors, drawn_with({"a": 2.0, "b": 9.0}))
    wide = judged_by_noise(before, errors, known, ranges)
    assert (wide.verdict, "7.2 (b)" in wide.sentence) == ("weak", True)


def test_released_numbers_are_held_against_the_noise_that_was_drawn() -> None:
    errors, std = {"matrix": [[1.0, 1.0], [1.0, 1.0]]}, {"matrix": [[9.0, 9.0], [9.0, 9.0]]}
    before = judged(errors, {"matrix": [[[-1000, 1000]] * 2] * 2})
    value = {"matrix": [[50.0, 10.0], [10.0, 60.0]]}
    assert "is further" in judged_release(before, ["no effect"], value, errors).sentence
    known = known_errors(errors, drawn_with(std))
    assert "is not further" in judged_release(before, ["no effect"], value, known).sentence


def test_ranges_reach_to_what_was_released() -> None:
    errors, ranges = (
        {"count": 0.9, "cells": [0.9, 0.9]},
        {"count": [0, 1], "cells": [[0, 1], [0, 9]]},
    )
    before = judged(errors, ranges, rows=5)
    assert before.verdict == "noise"
    value: Json = {"count": 746.0, "cells": [500.0, 400.0]}
    assert judged_by_noise(before, errors, errors, ranges, value).verdict == "good"
    value = {"count": 746.0, "cells": [500.0, -3.0]}
    after = judged_by_noise(before, errors, errors, ranges, value)
    assert "values from -3 to 9" in after.sentence


def test_an_error_in_time_has_a_unit() -> None:
    day, possible = {"first": 2.5}, {"first": ["2020-01-01", "2024-12-31"]}
    assert "error is 2.5 days (first)" in judged(day, None, possible=possible).sentence


def test_what_has_no_known_noise_is_held_against_its_standard_error() -> None:
    errors = {"rows": [{"value": 9.0}, {"value": 9.0}]}
    place = ("rows", 0, "value")
    term = Term(term="median", estimate=5.0, std_error=1.0, confidence_95=(3.0, 7.0), place=place)
    outcome = drawn_with({"rows": [{"value": None}] * 2}, term)
    known = known_errors(errors, outcome, guessed=True)
    assert known == {"rows": [{"value": pytest.approx(0.8)}, {"value": 9.0}]}
    assert known_errors(errors, outcome) == errors, "what was estimated of the law stays"
    noisy = drawn_with(None, replace(term, noise_95=(0.0, 10.0)))
    said = known_errors(errors, noisy, guessed=True)
    assert said == {"rows": [{"value": 2.0}, {"value": 9.0}]}, "without the sampling error"
    nothing = drawn_with(None, replace(term, std_error=None))
    assert known_errors(errors, nothing, guessed=True) == errors


def test_shares_that_are_read_off_counts_have_the_errors_that_these_state() -> None:
    errors = {"curve": [{"survival": 0.01}, {"survival": 0.01}]}
    off: Json = {"curve": [{"survival": 0.015}, {"survival": 0.2}]}
    outcome = Outcome(value={}, noise=None, shares_off=off)
    assert known_errors(errors, outcome, guessed=True) == off
    one = {"curve": [{"survival": 0.01}, {"survival": 0.2}]}
    assert known_errors(errors, outcome) == one, "what is twice as large as expected, and no less"


def test_without_a_scale_each_column_has_its_largest_error_and_that_of_the_worst_records() -> None:
    usual = {"coefficients": {"age": 0.1, "pay": 3.0}}
    assert "of 2 expected errors: 0.1 (age) and 3 (pay)." in judged(usual, None).sentence
    worst = {"coefficients": {"age": 0.5, "pay": 3.0}}
    said = judged(usual, None, high=worst).sentence
    assert "errors: 0.1 - 0.5 (age) and 3 (pay). Two numbers: as usual, and" in said
    groups = {"groups": [{"by": {"sex": sex}, "value": usual} for sex in "fm"]}
    said = judged(groups, None).sentence
    assert "of 4 expected errors: 0.1 (age, sex = f)" in said


def test_both_halves_of_a_matrix_count_once() -> None:
    errors = {"matrix": [[1.0, 2.0, 3.0], [2.0, 1.0, 1.0], [3.0, 1.0, 1.0]]}
    before = judged(errors, {"matrix": [[[-100, 100]] * 3] * 3})
    assert before.sentence.startswith("Good. Of 6 numbers")
    assert "matrix, row 1, column 3" in before.sentence
    value = {"matrix": [[9.0, 9.0, 0.0], [9.0, 9.0, 0.0], [0.0, 0.0, 9.0]]}
    assert "1 of 3 released" in judged_release(before, ["no effect"], value, errors).sentence


def test_the_verdict_of_the_worst_group_says_how_many_are_good() -> None:
    def groups(*errors: float) -> str:
        cells = [{"by": {"sex": each}, "value": {"x": error}} for each, error in enumerate(errors)]
        ranges = {"groups": [{"value": {"x": [0, 100]}} for _ in errors]}
        return judged({"groups": cells}, ranges).sentence

    assert groups(1, 0.5, 40).endswith("40% of that range. 2 of the 3 are good.")
    assert groups(9, 0.5).endswith("1 of the 2 is good.")
    assert groups(1, 1).endswith("of that range.")
    assert groups(9, 40).endswith("of that range.")
    value = {"groups": [{"value": {"x": number}} for number in (100.0, 100.0, 2.0)]}
    errors = {"groups": [{"value": {"x": 1.0}}] * 3}
    after = judged_release(judged(errors, None), ["a value"], value, errors)
    assert after.verdict == "noise"
    assert "50% of what was released. 2 of the 3 are good." in after.sentence


def test_sentences_say_which_part_and_which_coefficient() -> None:
    part = {"coefficients": {"(intercept)": 1.0, "x": 1.0}}
    ends = {"coefficients": {"(intercept)": [0, 100], "x": [0, 50]}}
    before = judged({"parts": [{"x": 0.1}, part]}, {"parts": [{"x": [0, 100]}, ends]})
    assert "(coefficients" not in before.sentence
    assert "1 (x, part 2)" in before.sentence
    value = {"coefficients": {"(intercept)": 5.0, "x": 5.0}}
    one = judged_release(before, ["no effect"], value, part).sentence
    assert "The number released for x is further from 0" in one
    two = {"coefficients": {**value["coefficients"], "y": 5.0}}
    errors = {"coefficients": {**part["coefficients"], "y": 1.0}}
    both = judged_release(before, ["no effect"], two, errors).sentence
    assert "2 of 2 released numbers, constants apart, are further" in both


def test_a_population_is_what_was_assumed() -> None:
    assumptions = Assumptions(
        rows=5000,
        population=(("age", Spread(mean=40, std=10)), ("owner", Spread(mean=0.2, std=0.4))),
        r_squared=0.6,
    )
    schema = schema_of(Adjacency.ADD_REMOVE, 10_000)
    relation = Relation(target="pay", features=("age",))
    rows = synthetic_rows(schema, assumptions, 5000, relation).data.codes
    again = synthetic_rows(schema, assumptions, 5000, relation).data.codes
    assert all(np.array_equal(rows[name], again[name]) for name in rows), "it is no chance"
    age, pay, owner, sex = (
        rows[name] * (1.0 if name == "sex" else float(COLUMNS[name].step)) for name in rows
    )
    assert np.mean(age) + 50 == pytest.approx(40, abs=0.6)
    assert np.std(age) == pytest.approx(10, rel=0.05)
    assert np.mean(owner) + 0.5 == pytest.approx(0.2, abs=0.02)
    assert np.mean(sex) == pytest.approx(0.5, abs=0.03)
    assert np.mean(pay) == pytest.approx(0, abs=1.5), "spread evenly over its bounds"
    assert np.std(pay) == pytest.approx(100 / np.sqrt(12), rel=0.03)
    assert np.corrcoef(age, pay)[0, 1] ** 2 == pytest.approx(0.6, abs=0.05)


def test_a_target_follows_the_coefficients_that_were_assumed() -> None:
    assumptions = Assumptions(
        population=(("age", Spread(mean=50, std=10)),),
        r_squared=0.5,
        coefficients=(("age", 0.7),),
    )
    schema = schema_of(Adjacency.REPLACE_ONE, 4000)
    relation = Relation(target="pay", features=("age",))
    rows = synthetic_rows(schema, assumptions, 4000, relation).data.codes
    slope, _ = np.polyfit(rows["age"], rows["pay"], 1)
    assert slope == pytest.approx(0.7, abs=0.05), "both columns are 100 units wide"


def test_a_target_follows_values_of_a_category_and_products() -> None:
    assumptions = Assumptions(
        population=(("age", Spread(mean=50, std=10)),),
        r_squared=0.9,
        coefficients=(("sexm", 20.0), ("age:sexm", 0.5), ("owner", 8.0)),
    )
    schema = schema_of(Adjacency.REPLACE_ONE, 4000)
    relation = Relation(target="pay", features=("age", "sex"))
    rows = synthetic_rows(schema, assumptions, 4000, relation).data.codes
    m = (rows["sex"] == 1).astype(float)
    owner, age, pay = (
        float(COLUMNS[name].midpoint) + float(COLUMNS[name].step) * rows[name]
        for name in ("owner", "age", "pay")
    )
    design = np.column_stack([np.ones(4000), m, m * age, owner, age])
    found = np.linalg.lstsq(design, pay, rcond=None)[0]
    assert found[1:] == pytest.approx([20, 0.5, 8, 0], abs=2)
    assert found[2] == pytest.approx(0.5, abs=0.05)


@in_one(
    ("wrong", "place"),
    [
        (Assumptions(population=(("nothing", Spread(mean=0, std=1)),)), "assume.population"),
        (Assumptions(population=(("sex", Spread(mean=0, std=1)),)), "assume.population"),
        (Assumptions(population=(("age", Spread(mean=0, std=0)),)), "assume.population"),
        (Assumptions(coefficients=(("age", float("inf")),)), "assume.coefficients"),
        (Assumptions(coefficients=(("sex", 1.0),)), "assume.coefficients"),
        (Assumptions(coefficients=(("sexnobody", 1.0),)), "assume.coefficients"),
        (Assumptions(coefficients=(("age:nothing", 1.0),)), "assume.coefficients"),
        (Assumptions(shares=(("sex", (("nobody", 0.5),)),)), "assume.population"),
        (Assumptions(shares=(("sex", (("f", 0.5), ("m", 0.6))),)), "assume.population"),
        (Assumptions(shares=(("age", (("f", 0.5),)),)), "assume.population"),
        (Assumptions(r_squared=1.0), "assume.r_squared"),
    ],
)
def test_assumptions_that_do_not_fit_are_refused(wrong: Assumptions, place: str) -> None:
    with pytest.raises(InvalidStatisticError) as refused:
        estimated({"kind": "mean", "columns": ["age"]}, assumptions=wrong)
    assert refused.value.field_name == place


def test_the_rows_assumed_are_public_or_the_asker_s() -> None:
    public, private = (schema_of(adjacency, 5000) for adjacency in BOTH)
    assert Assumptions(rows=7).rows_of(public) == 5000
    assert Assumptions().rows_of(private) == 2500, "half of what there may be"
    assert Assumptions(rows=3000).rows_of(private) == 3000
    assert Assumptions().rows_of(schema_of(Adjacency.ADD_REMOVE, 31)) == 16
    assert Assumptions(rows=99).rows_of(schema_of(Adjacency.ADD_REMOVE, 30)) == 30
    errors = [
        estimated({"kind": "mean", "columns": ["age"]}, Adjacency.ADD_REMOVE, rows=9000,
                 assumptions=Assumptions(rows=rows)).expected_error
        for rows in (100, 10_000)
    ]  # fmt: skip
    few, many = (dict(numbers(each))[("age",)] for each in errors)
    assert few > 50 * many


def test_draws_on_synthetic_rows_are_the_same_each_time_and_differ_by_turn() -> None:
    schema = schema_of(Adjacency.REPLACE_ONE, 50)
    plan = calibrate(question({"kind": "mean", "columns": ["age"]}), schema, Epsilon.parse("1"))
    rows = synthetic_rows(schema, Assumptions(), 50, None)
    turns = [drawn(plan, rows, turn) for turn in (0, 0, 1)]
    assert turns[0] == turns[1] != turns[2]


def test_noise_is_cut_and_joined_with_its_size() -> None:
    noise = Noise(std={"a": 1.0}, interval_95={"a": [-2.0, 2.0]})
    assert noise.mapped(lambda part: {"b": part["a"]}) == Noise(
        std={"b": 1.0}, interval_95={"b": [-2.0, 2.0]}
    )
    assert Outcome(value={"a": 1}, noise=noise).noise is noise


def planned_of(fields: Mapping[str, Any]) -> Callable[[Schema], Plan]:
    """Return how a question is planned for a schema."""
    return lambda schema: calibrate(question(fields), schema, Epsilon.parse("5"))


@pytest.mark.parametrize("adjacency", BOTH)
def test_a_dry_run_has_as_many_rows_as_can_be_made(adjacency: Adjacency) -> None:
    asked = {"kind": "mean", "columns": ["age"]}
    for rows, most in ((70, 70), (10**7, 100_000)):
        schema = schema_of(adjacency, rows)
        run = dry_run(question(asked), schema, Assumptions(rows=rows), planned_of(asked))
        assert run.rows == most
        assert dict(numbers(run.outcome.value))[("age",)] == pytest.approx(50, abs=10)
    middle = {"kind": "geometric_median", "columns": ["age", "pay"]}
    schema = schema_of(adjacency, 5000)
    boxed = dry_run(question(middle), schema, Assumptions(rows=5000), planned_of(middle))
    assert boxed.rows == 1000


def test_synthetic_cells_of_whole_columns_are_whole() -> None:
    column = NumberColumn(Fraction(0), Fraction(7), kind="integer")
    schema = Schema({"n": column}, Adjacency.REPLACE_ONE, 100)
    for population in ((), (("n", Spread(mean=3.3, std=1.1)),)):
        codes = dry_rows(schema, Assumptions(population=population), most=60).codes["n"]
        assert len(codes) == 60
        cells = [float(column.decode(int(code))) for code in codes]
        assert max(abs(cell - round(cell)) for cell in cells) < 1e-5


@pytest.mark.parametrize("scaled", [True, False])
def test_of_many_numbers_only_the_one_that_decides_gets_a_name(
    monkeypatch: pytest.MonkeyPatch, scaled: bool
) -> None:
    """Names take longer than all the rest, and tables may have a million numbers."""
    made: list[object] = []
    name = verdicts._name
    monkeypatch.setattr(verdicts, "_name", lambda *each: made.append(each) or name(*each))

    def tree(number: Any) -> Any:
        cells = [{"cell": {"a": str(place)}, "count": number} for place in range(2_000)]
        return {"tables": [{"columns": ["a"], "cells": cells}]}

    errors = tree(2.0)
    before = judged(errors, tree([0, 100]) if scaled else None)
    judged_release(before, ["nothing"], tree(40), errors)
    assert 1 <= len(made) <= 2
    if scaled:
        assert "count, a = 0" in before.sentence
