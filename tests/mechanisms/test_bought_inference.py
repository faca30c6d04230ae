"""Standard errors for a share of epsilon: every offer of a regression that has them."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from mechanisms.catalog import calibrate
from mechanisms.contract import Inference, InvalidStatisticError, Outcome, Plan, Statistic
from mechanisms.domain import CategoryColumn, NumberColumn, Schema, Typical
from mechanisms.inference.bought import COMPOSITION
from mechanisms.inference.curvature import Curvature
from mechanisms.inference.neighbours import (
    ALIKE_METHOD,
    COUNT_SHARE,
    Bracket,
    CountedRows,
    brackets,
    surely,
)
from mechanisms.privacy import Adjacency, Epsilon, PrivacyLoss, Protected, split
from mechanisms.sketches import ArrayData
from mechanisms.statistics.conditions import Condition
from mechanisms.statistics.count import Count
from mechanisms.statistics.linear_regression import LinearRegression
from mechanisms.statistics.logistic_regression import LogisticRegression
from mechanisms.statistics.quantile import Quantile
from mechanisms.statistics.quantile_regression import QuantileRegression
from mechanisms.testing import seeded_randomness
from studies.coverage import Linear, Setting, measured
from tests.mechanisms.offers import ADD, LISTED, REPLACE
from tests.mechanisms.test_every_offer import CASES, Case
from tests.mechanisms.test_every_selection import asked
from tests.tiers import in_one, wide

SHARE = Fraction(1, 3)
EPSILON = Epsilon.parse("1.5")
MECHANISMS = ("kng", "objective_perturbation", "functional", "exponential")
OFFERED = [
    case
    for case in CASES
    if case.proof in LISTED
    and isinstance(case.proof.statistic, LinearRegression | LogisticRegression)
    and case.proof.mechanism in MECHANISMS
    and getattr(case.proof.statistic, "weights", None) is None
]
FIRST = {
    (case.proof.statistic.kind, case.proof.mechanism, case.adjacency): case for case in OFFERED
}
every_offer = pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, marks=[] if case in FIRST.values() else pytest.mark.wide, id=str(case))
        for case in OFFERED
    ],
)


def plan_of(
    case: Case, rows: int, *, epsilon: PrivacyLoss = EPSILON, share: Fraction | None = SHARE
) -> Plan:
    return plan_for(case.proof.statistic, case, rows, epsilon=epsilon, share=share)


def plan_for(
    statistic: Statistic,
    case: Case,
    rows: int,
    *,
    epsilon: PrivacyLoss = EPSILON,
    share: Fraction | None = SHARE,
) -> Plan:
    return calibrate(
        statistic,
        case.proof.schema(case.adjacency, rows),
        epsilon,
        mechanism=case.proof.mechanism,
        norm=case.norm,
        inference=share,
    )


def inferred(outcome: Outcome) -> Inference:
    assert outcome.inference is not None
    return outcome.inference


def test_every_regression_that_can_have_them_is_tried() -> None:
    tried = {(case.proof.statistic.kind, case.proof.mechanism) for case in OFFERED}
    assert tried == {
        *itertools.product(("linear_regression",), MECHANISMS),
        ("logistic_regression", "objective_perturbation"),
    }


@every_offer
def test_the_plan_tells_the_cost_and_promises_the_whole(case: Case) -> None:
    plan, bare = plan_of(case, 20), plan_of(case, 20, share=None)
    assert plan.guarantee.epsilon == EPSILON
    assert plan.mechanism == bare.mechanism
    told = plan.details["inference"]
    assert isinstance(told, Mapping)
    assert json.loads(json.dumps(told)) == told
    if case.proof.mechanism == "functional":
        assert told["cost"] == "0"
        assert plan.guarantee.zcdp == EPSILON.fraction**2 / 2
        return
    assert told["cost"] == "0.5"
    rest, own = split(EPSILON, [1 - SHARE, SHARE])
    main = plan_of(case, 20, epsilon=rest, share=None)
    assert plan.guarantee.zcdp == main.guarantee.zcdp + own.fraction**2 / 2
    assert COMPOSITION in plan.guarantee.theorem
    assert plan.guarantee.sensitivity.startswith(f"{main.guarantee.sensitivity}; ")
    assert plan.expected_ms > main.expected_ms


@every_offer
def test_coefficients_are_drawn_with_the_rest_of_epsilon(case: Case) -> None:
    """Bit for bit as by the plan that has that much alone: standard errors come after."""
    if case.proof.mechanism == "functional":
        return
    rows = [*case.proof.common, *case.proof.changed]
    rest, _ = split(EPSILON, [1 - SHARE, SHARE])
    alone = plan_of(case, len(rows), epsilon=rest, share=None)
    data = case.proof.data(rows)
    outcome = plan_of(case, len(rows)).draw(data, seeded_randomness(1))
    assert outcome.value == alone.draw(data, seeded_randomness(1)).value


@every_offer
@pytest.mark.parametrize("epsilon", ["0.000000001", "100"])
def test_degenerate_data_have_finite_intervals_around_the_answer(case: Case, epsilon: str) -> None:
    for data in case.proof.tiny(case.adjacency):
        plan = plan_of(case, data.rows, epsilon=Epsilon.parse(epsilon))
        outcome = plan.draw(data, seeded_randomness(2))
        coefficients = outcome.value["coefficients"]
        assert isinstance(coefficients, dict)
        found = inferred(outcome)
        assert {term.term: term.estimate for term in found.terms} == coefficients
        for term in found.terms:
            low, high = term.confidence_95
            assert low <= term.estimate <= high
            json.dumps([low, high, term.std_error, term.noise_95], allow_nan=False)


@every_offer
def test_filters_and_groups_have_them(case: Case) -> None:
    rows = [{**each, "here": here} for each in case.proof.common for here in (0, 1)] * 6
    data = case.proof.data(rows)
    here = asked(case.proof.statistic, where=(Condition(column="here", op="==", value=True),))
    plan = plan_for(here, case, len(rows))
    assert plan.guarantee.epsilon == EPSILON
    assert inferred(plan.draw(data, seeded_randomness(3))).terms
    grouped = plan_for(asked(case.proof.statistic, by=("here",)), case, len(rows))
    found = inferred(grouped.draw(data, seeded_randomness(4)))
    assert {term.by["here"] for term in found.terms} == {"false", "true"}
    each = EPSILON.fraction / (3 if case.adjacency is ADD else 6)
    costs = {"0"} if case.proof.mechanism == "functional" else {str(float(each))}
    assert {found.cost} == costs


@pytest.mark.parametrize(
    ("statistic", "mechanism", "words"),
    [
        (LinearRegression(target="y", features=(), weights="x"), "functional", "with weights"),
        (Count(), "auto", "of the records of this data set"),
        (QuantileRegression(target="y", features=("x",)), "kng", "density of the residuals"),
        (
            Quantile(column="x", levels=tuple(k / 10 for k in range(1, 7))),
            "kng",
            "at most 5 levels",
        ),
    ],
)
def test_what_has_none_is_refused(statistic: Statistic, mechanism: str, words: str) -> None:
    made = LISTED[0].schema(REPLACE, 20)
    with pytest.raises(InvalidStatisticError, match=words) as refused:
        calibrate(statistic, made, EPSILON, mechanism=mechanism, inference=SHARE)
    assert refused.value.field_name == "inference"


def test_rows_of_one_person_are_not_independent() -> None:
    made = replace(LISTED[0].schema(ADD, 20), protects=Protected(rows=2))
    statistic = LinearRegression(target="y", features=("x",))
    with pytest.raises(InvalidStatisticError, match="independently") as refused:
        calibrate(statistic, made, EPSILON, mechanism="functional", inference=SHARE)
    assert refused.value.field_name == "inference"


def test_too_many_coefficients_are_refused() -> None:
    unit = NumberColumn(Fraction(-1), Fraction(1))
    names = tuple(f"x{place}" for place in range(30))
    made = Schema({**dict.fromkeys(names, unit), "y": unit}, REPLACE, 100)
    statistic = LinearRegression(target="y", features=names)
    with pytest.raises(InvalidStatisticError, match="at most 30"):
        calibrate(statistic, made, EPSILON, mechanism="objective_perturbation", inference=SHARE)


# The curvature: what one record can change, exactly


COLUMNS = {
    "x": NumberColumn(Fraction(-1), Fraction(1)),
    "z": NumberColumn(Fraction(0), Fraction(10)),
    "yes": NumberColumn(Fraction(0), Fraction(1), boolean=True),
}
LOGIT = LogisticRegression(target="yes", features=("x", "z"))
THETAS = [
    [Fraction(0)] * 3,
    [Fraction(1, 3), Fraction(-2), Fraction(5, 7)],
    [Fraction(-300), Fraction(10**9), Fraction(4)],
]


def curvature(statistic: LogisticRegression, made: Schema) -> Curvature:
    scaling, read = statistic.scaling(made), (*statistic.names, "yes")
    return Curvature.calibrated(scaling, made, EPSILON, read=read)


def data_of(records: Sequence[tuple[float, float]]) -> ArrayData:
    made = Schema(COLUMNS, REPLACE, len(records))
    x, z = [each[0] for each in records], [each[1] for each in records]
    return ArrayData.from_values(made, {"x": x, "z": z, "yes": [1.0] * len(records)})


def largest_change(statistic: LogisticRegression, adjacency: object) -> Fraction:
    """The largest change of an entry, in units of the noise's Delta, over single records."""
    made = Schema(COLUMNS, REPLACE if adjacency is REPLACE else ADD, 20, max_rows=50)
    taken = curvature(statistic, made)
    bound = taken.space.linf * taken.space.unit
    corners = [*itertools.product((-1.0, 0.0, 0.123, 1.0), (0.0, 5.0, 7.7, 10.0))]
    most = Fraction(0)
    for theta in THETAS:
        point = theta if statistic.intercept else theta[1:]
        single = [taken.total(point, data_of([corner])) for corner in corners]
        none = taken.total(point, data_of([]))
        pairs = itertools.product(single, [none] if adjacency is ADD else [none, *single])
        for one, other in pairs:
            most = max(most, *(abs(a - b) / bound for a, b in zip(one, other, strict=True)))
    return most


@pytest.mark.parametrize("adjacency", [REPLACE, ADD])
@pytest.mark.parametrize("intercept", [True, False])
def test_no_record_changes_the_curvature_by_more_than_its_bound(
    adjacency: object, intercept: bool
) -> None:
    """Replaced, added and removed under replace-one, as a filter needs; and it is attained."""
    statistic = replace(LOGIT, intercept=intercept)
    assert 0.99 <= largest_change(statistic, adjacency) <= 1


def test_a_bound_for_records_that_come_or_go_would_be_found_out() -> None:
    """The twin: under replace-one, planned as under add-remove."""
    made = Schema(COLUMNS, ADD, None, max_rows=50)
    taken = curvature(LOGIT, made)
    bound = taken.space.linf * taken.space.unit
    one, other = (taken.total(THETAS[0], data_of([(x, 10.0)])) for x in (1.0, -1.0))
    assert max(abs(a - b) for a, b in zip(one, other, strict=True)) > bound


def test_the_curvature_is_that_of_the_loss() -> None:
    generator = np.random.default_rng(1)
    x, z = generator.uniform(-1, 1, 300), generator.uniform(0, 10, 300)
    made = Schema(COLUMNS, REPLACE, 300)
    taken = curvature(LOGIT, made)
    theta = [Fraction(1, 2), Fraction(2), Fraction(-3, 2)]
    total = taken.total(theta, data_of(list(zip(x, z, strict=True))))
    rows = np.column_stack([np.ones(300), x, z / 5 - 1])
    odds = np.exp(-rows @ np.array([float(entry) for entry in theta]))
    hessian = rows.T @ (rows * (odds / (1 + odds) ** 2)[:, None])
    expected = [
        float(4 * hessian[j, k] * taken.space.unit * (2 if j == k else 1)) for j, k in taken.pairs
    ]
    assert total == pytest.approx(expected, rel=0.01, abs=0.5 * taken.space.unit)


LINE = LinearRegression(target="x", features=("z",), loss="huber", threshold=0.3)


@pytest.mark.parametrize("adjacency", [REPLACE, ADD])
def test_no_record_changes_huber_s_sandwich_by_more_than_its_bound(adjacency: Adjacency) -> None:
    """Replaced, added and removed under replace-one; and it is attained, in both matrices."""
    made = Schema(COLUMNS, adjacency, 20 if adjacency is REPLACE else None, max_rows=50)
    taken = sandwich(made)
    bound = taken.space.linf * taken.space.unit
    corners = [*itertools.product((-1.0, 0.0, 0.123, 1.0), (0.0, 5.0, 7.7, 10.0))]
    most = [Fraction(0)] * 2
    for theta in ([Fraction(0)] * 2, [Fraction(1, 3), Fraction(-2)], [Fraction(9**9), Fraction(1)]):
        single = [taken.total(theta, data_of([corner])) for corner in corners]
        none = taken.total(theta, data_of([]))
        for one, other in itertools.product(
            single, [none, *single] if adjacency is REPLACE else [none]
        ):
            changes = [abs(a - b) / bound for a, b in zip(one, other, strict=True)]
            halves = changes[: len(taken.pairs)], changes[len(taken.pairs) :]
            most = [max(before, *half) for before, half in zip(most, halves, strict=True)]
    assert all(0.99 <= each <= 1 for each in most)


def sandwich(made: Schema) -> Curvature:
    return Curvature.calibrated(
        LINE.row_scaling(made), made, EPSILON, read=("z", "x"), threshold=Fraction(3, 10)
    )


def test_huber_s_sandwich_is_that_of_the_loss() -> None:
    generator = np.random.default_rng(1)
    z = generator.uniform(0, 10, 300)
    x = np.clip(0.1 * z - 0.5 + 0.3 * generator.standard_normal(300), -1, 1)
    made = Schema(COLUMNS, REPLACE, 300)
    taken = sandwich(made)
    theta = [Fraction(1, 8), Fraction(1, 4)]
    total = taken.total(theta, data_of(list(zip(x, z, strict=True))))
    rows = np.column_stack([np.ones(300), z / 5 - 1])
    off = rows @ np.array([1 / 8, 1 / 4]) - x
    hessian = rows.T @ (rows * (np.abs(off) < 0.3)[:, None])
    score = rows.T @ (rows * (np.clip(off / 0.3, -1, 1) ** 2)[:, None])
    expected = [
        float(matrix[j, k] * taken.space.unit * (2 if j == k else 1))
        for matrix in (hessian, score)
        for j, k in taken.pairs
    ]
    assert total == pytest.approx(expected, rel=0.01, abs=taken.space.unit)


@pytest.mark.parametrize("heavy", [False, *wide(True)])
@pytest.mark.statistical
def test_intervals_of_huber_s_line_hold_and_those_without_the_noise_would_not(heavy: bool) -> None:
    """``studies/coverage.py`` has the figures: .95 and .96. At .93, 80 of them hold 68 or more."""
    design = Linear(rows=2000, features=1, loss="huber", heavy=heavy)
    setting = Setting(
        design=design, epsilon="1", mechanism="objective_perturbation", share=Fraction(1, 3)
    )
    row = measured(setting, replicates=80, seed=5)
    assert row.coverage >= 68 / 80
    assert row.open_share == 0


def test_intervals_that_would_say_nothing_say_which_epsilon_would_do() -> None:
    """At that epsilon they say something, and far below it all are open."""
    made, share = Schema(COLUMNS, REPLACE, 1000), Fraction(1, 4)
    few = calibrate(LOGIT, made, Epsilon.parse("0.05"), inference=share)
    assert open_terms(few)
    enough = calibrate(LOGIT, made, Epsilon.parse(enough_epsilon(few)), inference=share)
    assert not open_terms(enough)
    more = calibrate(LOGIT, made, Epsilon.parse("2"), inference=share)
    assert "enough_epsilon" not in more.details["inference"]  # type: ignore[operator]


@in_one("adjacency", Adjacency)
@in_one(("rows", "epsilon"), [(5, "20"), (40, "0.1"), (5000, "0.0001")])
def test_quantiles_whose_intervals_are_the_bounds_say_which_epsilon_would_do(
    adjacency: Adjacency, rows: int, epsilon: str
) -> None:
    """Of a private number of rows, where half of the bound are assumed."""
    known = rows if adjacency is REPLACE else None
    made, share = Schema(COLUMNS, adjacency, known, max_rows=2 * rows), Fraction(1, 4)
    few = calibrate(MEDIAN, made, Epsilon.parse(epsilon), inference=share)
    enough = Epsilon.parse(enough_epsilon(few))
    assert "enough_epsilon" not in facts_of_inference(
        calibrate(MEDIAN, made, enough, inference=share)
    )
    near = Epsilon(round(enough.nanos * 0.85))
    assert "enough_epsilon" in facts_of_inference(calibrate(MEDIAN, made, near, inference=share))


def test_one_row_has_no_interval_of_a_median_at_any_epsilon() -> None:
    made = Schema(COLUMNS, REPLACE, 1)
    plan = calibrate(MEDIAN, made, Epsilon.parse("1"), inference=Fraction(1, 4))
    assert facts_of_inference(plan)["enough_epsilon"] is None


def test_booleans_need_less_than_numbers_since_they_spread_further() -> None:
    def named(*, boolean: bool) -> float:
        column = NumberColumn(Fraction(0), Fraction(1), boolean=boolean)
        made = Schema({**COLUMNS, "x": column, "z": column}, REPLACE, 1000)
        few = calibrate(LOGIT, made, Epsilon.parse("0.01"), inference=Fraction(1, 4))
        return float(enough_epsilon(few))

    assert named(boolean=False) == pytest.approx(1.5 * named(boolean=True), rel=0.1)


@pytest.mark.parametrize(
    "asked_of", [Quantile(column="x", levels=(0.5,)), LOGIT], ids=["median", "logit"]
)
def test_of_a_private_number_of_rows_half_of_the_bound_is_assumed_and_a_quarter_considered(
    asked_of: Quantile | LogisticRegression,
) -> None:
    """A plan for half or a quarter of the bound, as public facts, needs the same epsilon."""
    typical = {
        name: replace(column, typical=Typical(Fraction(0), column.upper / 2))
        for name, column in COLUMNS.items()
        if isinstance(column, NumberColumn)
    }
    bound, low, share = 1600, Epsilon.parse("0.01"), Fraction(1, 4)

    def facts(most: int) -> Mapping[str, object]:
        made = Schema({**COLUMNS, **typical}, Adjacency.ADD_REMOVE, None, max_rows=most)
        return facts_of_inference(calibrate(asked_of, made, low, inference=share))

    assert facts(bound)["safe_epsilon"] == facts(bound // 2)["enough_epsilon"]
    enough, safe = (float(str(facts(bound)[name])) for name in ("enough_epsilon", "safe_epsilon"))
    assert 1.5 * enough < safe < 2.2 * enough


def test_what_is_typical_of_features_decides_which_epsilon_would_do() -> None:
    """At a tenth of the spread a variance is a hundredth; nothing stated is considered narrow."""

    def facts(typical: Typical | None) -> Mapping[str, object]:
        column = NumberColumn(Fraction(-1), Fraction(1), typical=typical)
        made = Schema({**COLUMNS, "x": column, "z": column}, REPLACE, 1000)
        plan = calibrate(LOGIT, made, Epsilon.parse("0.01"), inference=Fraction(1, 4))
        return facts_of_inference(plan)

    wide, narrow, unknown = (
        facts(Typical(Fraction(0), Fraction(1, 2))),
        facts(Typical(Fraction(0), Fraction(1, 20))),
        facts(None),
    )
    assert float(str(narrow["enough_epsilon"])) == pytest.approx(
        100 * float(str(wide["enough_epsilon"])), rel=0.1
    )
    assert wide["safe_epsilon"] == wide["enough_epsilon"]
    assert float(str(unknown["safe_epsilon"])) > 20 * float(str(unknown["enough_epsilon"]))


def test_auto_takes_moments_where_a_curvature_would_say_nothing() -> None:
    made, asked_of = Schema(COLUMNS, REPLACE, 200), LinearRegression(target="z", features=("x",))
    tenth, share = Epsilon.parse("0.1"), Fraction(1, 4)
    lost = calibrate(asked_of, made, tenth, mechanism="objective_perturbation", inference=share)
    assert float(enough_epsilon(lost)) > 0.1
    assert calibrate(asked_of, made, tenth, inference=share).mechanism == "functional"


def enough_epsilon(plan: Plan) -> str:
    return str(facts_of_inference(plan)["enough_epsilon"])


def facts_of_inference(plan: Plan) -> Mapping[str, object]:
    stated = plan.details["inference"]
    assert isinstance(stated, Mapping)
    return stated


def open_terms(plan: Plan) -> bool:
    return all(
        term.open for term in inferred(plan.draw(uniform_logistic(), seeded_randomness(3))).terms
    )


def uniform_logistic() -> ArrayData:
    generator = np.random.default_rng(4)
    x, z = generator.uniform(-1, 1, 1000), generator.uniform(0, 10, 1000)
    yes = generator.uniform(size=1000) < 1 / (1 + np.exp(-x))
    made = Schema(COLUMNS, REPLACE, 1000)
    return ArrayData.from_values(made, {"x": x, "z": z, "yes": yes.astype(float)})


def test_auto_takes_huber_s_loss_with_standard_errors_where_it_errs_less() -> None:
    unit = NumberColumn(Fraction(-1), Fraction(1))
    made = Schema(dict.fromkeys(("x", "z", "w", "y"), unit), REPLACE, 2_000)
    asked_of = LinearRegression(target="y", features=("x", "z", "w"))
    plan = calibrate(asked_of, made, Epsilon.parse("1"), inference=Fraction(1, 4))
    assert plan.mechanism == "objective_perturbation"
    assert plan.details["loss"] == "huber"
    assert plan.details["inference"]["cost"] == "0.25"  # type: ignore[index]
    few = replace(made, rows=120)  # its curvature would say nothing
    assert calibrate(asked_of, few, Epsilon.parse("0.2"), inference=SHARE).mechanism == "functional"
    tiny = replace(asked_of, loss="huber", threshold=1e-5)
    with pytest.raises(InvalidStatisticError, match="thresholds of at least"):
        calibrate(tiny, made, Epsilon.parse("1"), inference=SHARE)


# Coverage


def logistic_data(seed: int, rows: int = 1000) -> ArrayData:
    """Awan and Wang's design: x = 2 Beta(1/2, 1/2) - 1, log-odds 1/2 + 2 x."""
    generator = np.random.default_rng(seed)
    x = 2 * generator.beta(0.5, 0.5, rows) - 1
    yes = generator.uniform(size=rows) < 1 / (1 + np.exp(-0.5 - 2 * x))
    made = Schema(COLUMNS, REPLACE, rows)
    return ArrayData.from_values(made, {"x": x, "z": np.zeros(rows), "yes": yes.astype(float)})


@pytest.mark.wide
@pytest.mark.statistical
def test_intervals_hold_the_population_s_log_odds() -> None:
    """``studies/coverage.py`` has the figures; widths are to stay below 0.969."""
    made, held, widths = Schema(COLUMNS, REPLACE, 1000), 0, []
    statistic = LogisticRegression(target="yes", features=("x",))
    plan = calibrate(statistic, made, Epsilon.parse("1"), inference=SHARE)
    for seed in range(60):
        outcome = plan.draw(logistic_data(seed), seeded_randomness(seed))
        low, high = inferred(outcome).terms[1].confidence_95
        held += low <= 2 <= high
        widths.append(high - low)
    assert held / 60 >= 0.87
    assert np.mean(widths) < 0.8


@pytest.mark.wide
@pytest.mark.statistical
def test_intervals_by_the_exponential_mechanism_hold_the_slope() -> None:
    """Its noise depends on the curvature: half of it, or twice, would be found out."""
    made, off, held = Schema(COLUMNS, REPLACE, 4000), [], 0
    statistic = LinearRegression(target="z", features=("x",), bound=1)
    plan = calibrate(statistic, made, Epsilon.parse("4"), mechanism="exponential", inference=SHARE)
    for seed in range(80):
        generator = np.random.default_rng(seed)
        x, zeros = generator.uniform(-1, 1, 4000), np.zeros(4000)
        z = 4 + 1.5 * x + generator.normal(0, 1, 4000)
        data = ArrayData.from_values(made, {"x": x, "z": z, "yes": zeros})
        term = inferred(plan.draw(data, seeded_randomness(seed))).terms[1]
        low, high = term.confidence_95
        held += low <= 1.5 <= high
        off.append((term.estimate - 1.5) / term.std_error)
    assert held / 80 >= 0.87
    assert 0.75 < np.std(off) < 1.25


# Quantiles


MEDIAN = Quantile(column="z", levels=(0.5,))


def median_plan(rows: int, epsilon: str, statistic: Quantile = MEDIAN) -> Plan:
    made = Schema(COLUMNS, REPLACE, rows)
    return calibrate(statistic, made, Epsilon.parse(epsilon), mechanism="kng", inference=SHARE)


MEDIAN_PLAN = median_plan(500, "1")


def spread_of_rows(seed: int, rows: int) -> ArrayData:
    generator = np.random.default_rng(seed)
    zeros, z = np.zeros(rows), generator.normal(4, 1, rows)
    made = Schema(COLUMNS, REPLACE, rows)
    return ArrayData.from_values(made, {"x": zeros, "z": z, "yes": zeros})


def test_a_median_is_followed_by_its_neighbours_for_the_share() -> None:
    plan = median_plan(500, "1.5")
    rest, own = split(EPSILON, [1 - SHARE, SHARE])
    alone = calibrate(MEDIAN, Schema(COLUMNS, REPLACE, 500), rest, mechanism="kng")
    outcome = plan.draw(spread_of_rows(1, 500), seeded_randomness(1))
    assert outcome.value == alone.draw(spread_of_rows(1, 500), seeded_randomness(1)).value
    assert plan.guarantee.epsilon == EPSILON
    # both draws are of bounded range
    assert plan.guarantee.zcdp == (rest.fraction**2 + own.fraction**2) / 8
    [term] = inferred(outcome).terms
    assert (term.term, inferred(outcome).cost) == ("0.5", "0.5")
    assert term.confidence_95[0] <= term.estimate <= term.confidence_95[1]


@pytest.mark.wide
@pytest.mark.statistical
def test_intervals_of_quantiles_hold_the_population_s() -> None:
    levels, truths = (0.25, 0.5), (4 - 0.67449, 4.0)
    plan = median_plan(1000, "1", Quantile(column="z", levels=levels))
    held, widths = 0, []
    for seed in range(80):
        outcome = plan.draw(spread_of_rows(seed, 1000), seeded_randomness(seed))
        for term, truth in zip(inferred(outcome).terms, truths, strict=True):
            low, high = term.confidence_95
            held += low <= truth <= high
            widths.append(high - low)
    assert held / 160 >= 0.9
    assert np.mean(widths) < 2 * 2 * 1.96 * 1.25 / 1000**0.5  # twice as wide as without privacy


# Quantiles of a private number of rows


WHERE = (Condition(column="yes", op="==", value=True),)


def private_plan(
    adjacency: Adjacency, rows: int, epsilon: str, *, mechanism: str = "kng", **asked: Any
) -> Plan:
    known = rows if adjacency is REPLACE else None
    made = Schema(COLUMNS, adjacency, known, max_rows=10 * rows)
    statistic = replace(MEDIAN, **asked)
    return calibrate(
        statistic, made, Epsilon.parse(epsilon), mechanism=mechanism, inference=Fraction(1, 2)
    )


def some_yes(seed: int, rows: int) -> ArrayData:
    """The median of z is 4 among those with yes, and about 4 among the others."""
    generator = np.random.default_rng(seed)
    yes = (generator.uniform(size=rows) < 0.6).astype(float)
    z = generator.normal(4, 1, rows)
    made = Schema(COLUMNS, REPLACE, rows)
    return ArrayData.from_values(made, {"x": np.zeros(rows), "z": z, "yes": yes})


@in_one("mechanism", ["kng", "exponential"])
@in_one(
    ("adjacency", "asked"),
    [(ADD, {}), (ADD, {"where": WHERE}), (REPLACE, {"where": WHERE}), (ADD, {"by": ("yes",)})],
)
def test_a_private_number_of_rows_is_counted_for_a_part_of_the_share(
    adjacency: Adjacency, asked: dict[str, Any], mechanism: str
) -> None:
    plan = private_plan(adjacency, 500, "1.5", mechanism=mechanism, **asked)
    rest, own = split(EPSILON, [Fraction(1), Fraction(1)])
    counting, near = own.fraction / 5, own.fraction * 4 / 5
    made = Schema(COLUMNS, adjacency, 500 if adjacency is REPLACE else None, max_rows=5000)
    alone = calibrate(replace(MEDIAN, **asked), made, rest, mechanism=mechanism)
    data = some_yes(1, 500)
    outcome = plan.draw(data, seeded_randomness(1))
    if "by" not in asked:
        assert outcome.value == alone.draw(data, seeded_randomness(1)).value
    assert plan.guarantee.epsilon == EPSILON
    assert plan.guarantee.zcdp == alone.guarantee.zcdp + near**2 / 8 + counting**2 / 2
    # the largest there is, whatever the levels are that the noisy count chooses
    assert plan.guarantee.sensitivity.endswith("; 2; 1")
    assert inferred(outcome).cost == "0.75"


@pytest.mark.parametrize("adjacency", [ADD, REPLACE])
def test_neighbours_and_count_are_drawn_with_their_parts(adjacency: Adjacency) -> None:
    """Bit for bit as by plans that have those parts alone, one after the other."""
    plan = private_plan(adjacency, 500, "1.5")
    rest, own = split(EPSILON, [Fraction(1), Fraction(1)])
    counting, near = split(own, [COUNT_SHARE, 1 - COUNT_SHARE])
    made = Schema(COLUMNS, adjacency, 500 if adjacency is REPLACE else None, max_rows=5000)
    alone = calibrate(MEDIAN, made, rest, mechanism="kng")
    for seed in range(20):
        data, randomness = some_yes(seed, 500), seeded_randomness(seed)
        alone.draw(data, randomness)
        if adjacency is REPLACE:
            [found] = brackets(MEDIAN.exact_levels(), rows=500, epsilon=own.fraction)
            part = own
        else:
            counted = calibrate(Count(), made, counting).draw(data, randomness).value["count"]
            sure = surely(counted, epsilon=counting.fraction)
            levels = MEDIAN.exact_levels()
            [found] = brackets(levels, rows=sure, epsilon=near.fraction, outside=0.04)
            part = near
        assert found.below is not None
        assert found.above is not None
        ends = Quantile(column="z", levels=(float(found.below), float(found.above)))
        widest = Schema(COLUMNS, REPLACE, 500 if adjacency is REPLACE else 5000)
        drawn = calibrate(ends, widest, part, mechanism="kng", norm="l1").draw(data, randomness)
        [term] = inferred(plan.draw(data, seeded_randomness(seed))).terms
        low, high = (drawn.value["quantiles"][at]["value"] for at in (0, 1))
        assert term.confidence_95 == (min(low, term.estimate), max(high, term.estimate))


def test_groups_that_a_record_may_change_have_half_of_each_part() -> None:
    plan = private_plan(REPLACE, 500, "1.5", by=("yes",))
    found = inferred(plan.draw(some_yes(1, 500), seeded_randomness(1)))
    assert found.cost == "0.375"
    assert [term.by["yes"] for term in found.terms] == ["false", "true"]


@in_one("epsilon", ["0.000000001", "0.1", "100"])
@in_one("rows", [0, 1, 3])
def test_nobody_has_an_interval_too(rows: int, epsilon: str) -> None:
    for chosen in ({}, {"where": WHERE}, {"by": ("yes",)}):
        plan = private_plan(ADD, 100, epsilon, **chosen)
        for term in inferred(plan.draw(some_yes(1, rows), seeded_randomness(1))).terms:
            assert 0 <= term.confidence_95[0] <= term.estimate <= term.confidence_95[1] <= 10


def test_levels_are_chosen_by_the_noisy_count_alone() -> None:
    def chosen(count: int, data: ArrayData) -> Sequence[Bracket]:
        rows = CountedRows(
            count=lambda _data, _randomness: Outcome(value={"count": count}, noise=None),
            count_epsilon=Fraction(1, 10),
            levels=(Fraction(1, 2),),
            epsilon=Fraction(1),
            most=10_000,
            alike=1,
            planned=lambda _ends: MEDIAN_PLAN.draw,
        )
        return rows(data, seeded_randomness(1))[0]

    many, few = some_yes(1, 500), some_yes(2, 3)
    assert chosen(1000, many) == chosen(1000, few)
    [narrow], [wide] = chosen(2000, few), chosen(1000, many)
    assert narrow.below is not None
    assert wide.below is not None
    assert wide.below < narrow.below
    assert chosen(10**9, few) == chosen(20_000, few)  # there are no more than may be
    assert chosen(-5, few)[0].below is None


@pytest.mark.parametrize("epsilon", [Fraction(1, 1000), Fraction(1, 10), Fraction(1), Fraction(9)])
def test_fewer_rows_than_are_counted_on_are_rare(epsilon: Fraction) -> None:
    """The odds of two-sided geometric noise beyond the margin, summed; a step less is too few."""
    margin = 10**6 - surely(10**6, epsilon=epsilon)
    p = np.exp(-float(epsilon))

    def beyond(steps: int) -> float:
        return float(p ** (steps + 1) / (1 + p))

    assert beyond(margin) <= 0.01
    assert margin == 0 or beyond(margin - 1) > 0.01


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("adjacency", "asked"), [(ADD, {}), (ADD, {"by": ("yes",)}), (REPLACE, {"where": WHERE})]
)
def test_intervals_hold_the_median_where_rows_are_private(
    adjacency: Adjacency, asked: dict[str, Any]
) -> None:
    plan, held, widths = private_plan(adjacency, 2000, "2", **asked), [], []
    for seed in range(80):
        for term in inferred(plan.draw(some_yes(seed, 2000), seeded_randomness(seed))).terms:
            low, high = term.confidence_95
            held.append(low <= 4 <= high)
            widths.append(high - low)
    assert np.mean(held) >= 0.88
    # less than twice as wide as those of the smaller group without privacy
    assert np.mean(widths) < 2 * 2 * 1.96 * 1.25 / (0.4 * 2000) ** 0.5


def of_persons(seed: int, persons: int, rows: int) -> ArrayData:
    """Rows of persons, all about alike within a person; the population's median of z is 4."""
    generator = np.random.default_rng(seed)
    z = np.repeat(generator.normal(4, 1, persons), rows)
    z = z + generator.normal(0, 1e-6, z.size)  # as ties have no law of ranks
    made = Schema(COLUMNS, REPLACE, z.size)
    return ArrayData.from_values(made, {"x": np.zeros(z.size), "z": z, "yes": np.zeros(z.size)})


@pytest.mark.statistical
def test_intervals_hold_the_median_where_rows_of_a_person_are_alike() -> None:
    """Those that take the rows to be independent are too short: half of them miss."""
    rows, persons = 9, 400
    made = Schema(COLUMNS, ADD, None, max_rows=10**4, protects=Protected(rows=rows))
    held: dict[int, list[bool]] = {rows: [], 1: []}
    plan = calibrate(MEDIAN, made, Epsilon.parse("90"), mechanism="kng", inference=Fraction(1, 2))
    parameters: Any = plan.parameters
    assert plan.details["inference"]["method"] == ALIKE_METHOD  # type: ignore[index]
    assert "no_inference" not in plan.details
    for alike, found in held.items():
        neighbours = replace(parameters.viewed.neighbours, alike=alike)
        viewed = replace(parameters.viewed, neighbours=neighbours)
        drawn = replace(plan, parameters=replace(parameters, viewed=viewed))
        for seed in range(60):
            outcome = drawn.draw(of_persons(seed, persons, rows), seeded_randomness(seed))
            (term,) = inferred(outcome).terms
            low, high = term.confidence_95
            found.append(low <= 4 <= high)
    assert np.mean(held[rows]) >= 0.88
    assert np.mean(held[1]) < 0.8


def test_too_few_rows_leave_the_bounds() -> None:
    plan = median_plan(40, "0.1")
    [term] = inferred(plan.draw(spread_of_rows(1, 40), seeded_randomness(1))).terms
    assert term.confidence_95 == (0.0, 10.0)
    assert term.open


def test_no_level_is_drawn_twice() -> None:
    """Levels a step apart have neighbours of their own."""
    found = brackets(
        [Fraction(1, 2), Fraction(1, 2) + Fraction(1, 10**6)], rows=10**9, epsilon=Fraction(1)
    )
    drawn = [end for each in found for end in (each.level, each.below, each.above)]
    assert len(set(drawn)) == 6


def test_a_slope_at_its_bound_has_an_interval_that_says_nothing() -> None:
    """The bound held it, so its distance to the equation's solution is not known."""
    made = Schema(COLUMNS, REPLACE, 1000)
    statistic = LogisticRegression(target="yes", features=("x",), bound=0.5)
    plan = calibrate(statistic, made, Epsilon.parse("20"), inference=SHARE)
    found = inferred(plan.draw(logistic_data(1), seeded_randomness(1)))
    assert all(term.open for term in found.terms)


@pytest.mark.parametrize("adjacency", Adjacency)
def test_quantiles_of_more_groups_than_rows_are_planned(adjacency: Adjacency) -> None:
    rows = 1 if adjacency is Adjacency.REPLACE_ONE else None
    columns = {"x": NumberColumn(Fraction(0), Fraction(1)), "g": CategoryColumn(("a", "b"))}
    schema = Schema(columns, adjacency, rows, max_rows=1)
    question = Quantile(column="x", levels=(0.5,), by=("g",))
    plan = calibrate(question, schema, Epsilon.parse("1"), inference=Fraction(1, 3))
    data = ArrayData.from_values(schema, {"x": [0.5], "g": ["b"]})
    found = plan.draw(data, seeded_randomness(1)).inference
    assert found is not None
    assert [dict(term.by) for term in found.terms] == [{"g": "a"}, {"g": "b"}]
    assert all(term.open for term in found.terms)


@pytest.mark.parametrize("adjacency", Adjacency)
@pytest.mark.parametrize("asked_of", [MEDIAN, LOGIT], ids=["median", "logit"])
def test_the_epsilon_that_would_do_is_that_of_all_groups(
    adjacency: Adjacency, asked_of: Quantile | LogisticRegression
) -> None:
    known = 2000 if adjacency is REPLACE else None
    made, grouped = Schema(COLUMNS, adjacency, known, max_rows=2000), replace(asked_of, by=("g",))
    made = replace(made, columns={**COLUMNS, "g": CategoryColumn(("a", "b"))})
    few = calibrate(grouped, made, Epsilon.parse("0.001"), inference=Fraction(1, 4))
    enough = Epsilon.parse(enough_epsilon(few))
    again = calibrate(grouped, made, enough, inference=Fraction(1, 4))
    assert "enough_epsilon" not in facts_of_inference(again)
