"""Tests of hypotheses: p-values next to those without noise, levels, derivations, refusals."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from mechanisms.analysis import null
from mechanisms.catalog import calibrate
from mechanisms.contract import InvalidStatisticError, Outcome
from mechanisms.derivations import Released, derive
from mechanisms.domain import Schema
from mechanisms.estimates.assumptions import Assumptions
from mechanisms.estimates.estimate import estimate_error, estimating_ms
from mechanisms.privacy import Adjacency, Epsilon, Protected
from mechanisms.sketches import ArrayData
from mechanisms.statistics.conditions import Condition
from mechanisms.statistics.curves import hypotheses
from mechanisms.statistics.histogram import Histogram
from mechanisms.statistics.mean import Mean
from mechanisms.statistics.moments import Moments
from mechanisms.statistics.stack import Part, Stack
from mechanisms.testing import seeded_randomness
from studies import hypothesis_tests as study
from tests.tiers import in_one

REPLACE, ADD = Adjacency.REPLACE_ONE, Adjacency.ADD_REMOVE
ROWS = 600
ASKED = study.ASKED
T = ASKED["t"]


def schema(adjacency: Adjacency, rows: int = ROWS, **facts: Any) -> Schema:
    public = rows if adjacency is REPLACE else None
    return Schema(study.COLUMNS, adjacency, public, 2 * rows, **facts)


def values_of(seed: int, *, effect: float) -> study.Values:
    return study.values_of(seed, study.Design(test="t", rows=ROWS), effect=effect)


def data_of(values: study.Values) -> ArrayData:
    facts = schema(REPLACE, len(values["x"]))
    return ArrayData.from_values(facts, {name: list(each) for name, each in values.items()})


def drawn(
    asked: Any, adjacency: Adjacency, epsilon: str, *, effect: float = 0.3, seed: int = 1
) -> Outcome:
    values = values_of(seed, effect=effect)
    plan = calibrate(asked, schema(adjacency), Epsilon.parse(epsilon))
    return plan.draw(data_of(values), seeded_randomness(seed))


def p_of(outcome: Outcome) -> float:
    value: Any = outcome.value
    return float(value["p_value"])


@pytest.mark.parametrize(
    "adjacency", [ADD, pytest.param(REPLACE, marks=pytest.mark.wide)], ids=["add", "replace"]
)
@pytest.mark.parametrize("name", ASKED)
@pytest.mark.parametrize("effect", [pytest.param(0.0, marks=pytest.mark.wide), 0.08])
def test_with_little_noise_it_is_the_test_without(
    name: str, adjacency: Adjacency, effect: float
) -> None:
    """To the error of a simulation, and of tests by ranks of the cells."""
    values = values_of(7, effect=effect)
    asked = replace(ASKED[name], bins=100) if "rank" in name else ASKED[name]
    plan = calibrate(asked, schema(adjacency), Epsilon.parse("10000"))
    found = p_of(plan.draw(data_of(values), seeded_randomness(1)))
    exact = study.PLAIN[name](values)
    assert found == pytest.approx(exact, abs=0.05)


@in_one("name", ASKED)
def test_the_same_release_has_the_same_p_value(name: str) -> None:
    one, other = (drawn(ASKED[name], ADD, "1") for _ in range(2))
    assert one == other
    assert 1 / (hypotheses.REPLICATES + 1) <= p_of(one) <= 1


@pytest.mark.parametrize("name", ["t", "welch", "correlation", "t, one mean", "proportion"])
def test_the_interval_excludes_what_the_test_rejects(name: str) -> None:
    """Zero, or the value of one mean; it holds the estimate."""
    for seed in range(3):
        outcome = drawn(ASKED[name], ADD, "2", effect=0.15, seed=seed)
        assert outcome.inference is not None
        (term,) = outcome.inference.terms
        low, high = term.confidence_95
        hypothesis = 45.0 if name == "t, one mean" else 0.0
        assert low <= term.estimate <= high
        p = p_of(outcome)
        if abs(p - 0.05) > 0.02:
            assert (p <= 0.05) == (not low <= hypothesis <= high)


@pytest.mark.wide
@pytest.mark.statistical
@pytest.mark.parametrize("adjacency", list(Adjacency))
@pytest.mark.parametrize("name", ["t", "welch", "correlation", "proportion", "signed_rank"])
def test_a_true_hypothesis_is_rejected_seldom_enough(name: str, adjacency: Adjacency) -> None:
    """At most .055, to three standard errors of 200 repetitions; and a wrong one is, with power."""
    design = study.Design(test=name, rows=1_000, adjacency=adjacency)
    level = study.rejected(design, effect=0.0, repetitions=150)
    assert level.share <= 0.055 + 3 * np.sqrt(0.055 * 0.945 / 150)
    power = study.rejected(design, effect=0.6, repetitions=20)
    assert power.share > 0.5
    assert power.plain > 18
    assert power.held is None or power.held >= 15


def test_noise_that_is_left_out_rejects_far_too_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """The negative control: a simulation of sampling alone."""
    own = null.Law.simulated
    monkeypatch.setattr(null.Law, "simulated", lambda law, count, seed: own(law, count, seed) / 10)
    design = study.Design(test="t", rows=300, epsilon="0.3")
    assert study.rejected(design, effect=0.0, repetitions=30).share > 0.2


def test_parameters_at_noisy_estimates_alone_reject_more_often(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The p-value is the largest of a confidence set, so never below that at its centre."""
    full = [p_of(drawn(T, ADD, "0.5", seed=seed)) for seed in range(4)]
    monkeypatch.setattr(null, "corners", lambda dimension: iter([(0,) * dimension]))
    alone = [p_of(drawn(T, ADD, "0.5", seed=seed)) for seed in range(4)]
    assert all(one >= other for one, other in zip(full, alone, strict=True))
    assert full != alone


def test_the_p_value_of_pure_chance_is_not_too_small_too_often() -> None:
    """At one set of parameters it is exact, to b, and never below b."""
    made = np.random.default_rng(3)
    found = []
    for turn in range(2_000):
        simulation = hypotheses.Simulation.of(np.array([turn]))
        numbers = made.normal(size=1_000)
        found.append(simulation.p_value(numbers[0], numbers[None, 1:]))
    assert np.mean(np.array(found) <= 0.05) == pytest.approx(0.048, abs=4 * 0.0048)
    assert min(found) >= simulation.left_out + 1 / (simulation.replicates + 1)
    assert all(len(str(each)) <= len("0.044") for each in found), "digits of rounding"


@pytest.mark.parametrize("size", [1, 1_000])
def test_an_interval_ends_where_the_p_value_is_5_percent(size: int) -> None:
    simulation = hypotheses.Simulation.of(np.zeros(size))
    sizes = np.abs(np.random.default_rng(1).normal(size=(1, simulation.replicates)))
    widest = simulation.widest(sizes)
    assert simulation.p_value(widest, sizes) > 0.05
    assert simulation.p_value(widest * (1 + 1e-9), sizes) <= 0.05
    assert (simulation.replicates + 1) % 20 == 0


# Derivations


@pytest.mark.parametrize("adjacency", list(Adjacency))
def test_one_release_of_moments_gives_several_tests(adjacency: Adjacency) -> None:
    source = Moments(columns=("x", "y"), by=("g",))
    plan = calibrate(source, schema(adjacency), Epsilon.parse("5"))
    values = values_of(1, effect=0.3)
    outcome = plan.draw(data_of(values), seeded_randomness(1)).settled()
    released = Released(
        statistic=source, mechanism=plan.mechanism, norm=plan.norm,
        epsilon=Epsilon.parse("5"), value=outcome.value,
        noise=outcome.noise, details=plan.details,
    )  # fmt: skip
    for asked in (T, ASKED["welch"], replace(T, columns=("y",))):
        assert 0 < p_of(derive(asked, released, schema(adjacency))) <= 1
    with pytest.raises(InvalidStatisticError):
        derive(ASKED["correlation"], released, schema(adjacency))  # of all records


def test_a_histogram_gives_tests_too_and_so_does_a_part_of_a_stack() -> None:
    source = Histogram(columns=("g", "yes"))
    stack = Stack(parts=(Part(statistic=Mean(columns=("x",))), Part(statistic=source)))
    facts = schema(REPLACE)
    plan = calibrate(stack, facts, Epsilon.parse("8"))
    outcome = plan.draw(data_of(values_of(1, effect=0.3)),
                        seeded_randomness(1))  # fmt: skip
    released = Released(
        statistic=stack, mechanism=plan.mechanism, norm=None,
        epsilon=Epsilon.parse("8"), value=outcome.value,
        noise=outcome.noise, details=plan.details,
    )  # fmt: skip
    both = [derive(ASKED[name], released, facts) for name in ("chi_square", "proportion")]
    assert p_of(both[0]) == pytest.approx(p_of(both[1]), abs=0.05)
    with pytest.raises(InvalidStatisticError):
        derive(ASKED["rank_sum"], released, facts)


def test_a_release_of_finer_cells_is_not_the_source() -> None:
    """It determines the cells, with another law than theirs."""
    fine = Histogram(columns=("g", "yes", "h"))
    plan = calibrate(fine, schema(REPLACE), Epsilon.parse("8"))
    outcome = plan.draw(data_of(values_of(1, effect=0)),
                        seeded_randomness(1))  # fmt: skip
    released = Released(
        statistic=fine, mechanism=plan.mechanism, norm=plan.norm,
        epsilon=Epsilon.parse("8"), value=outcome.value,
        noise=outcome.noise, details={},
    )  # fmt: skip
    with pytest.raises(InvalidStatisticError):
        derive(ASKED["chi_square"], released, schema(REPLACE))


# Before it is paid


@in_one("name", ASKED)
def test_a_preview_says_what_the_noise_takes_of_the_power(name: str) -> None:
    def found(epsilon: str) -> Any:
        return estimate_error(
            ASKED[name], schema(ADD), Epsilon.parse(epsilon), mechanism="auto", norm="auto",
            assumptions=Assumptions(rows=ROWS),
        ).usefulness  # fmt: skip

    much, little = found("0.02"), found("100")
    assert (much.verdict, little.verdict) == ("noise", "good")
    assert "times this epsilon" in much.sentence
    assert "has the power of one with" in little.sentence
    assert estimating_ms(ASKED[name], schema(ADD)) > 0


def test_the_epsilon_that_is_named_leaves_four_fifths_of_the_rows_worth() -> None:
    from mechanisms.estimates.asked import Asked, Weight

    def weight(epsilon: str) -> Weight:
        return T.weighed(
            Asked(statistic=T, schema=schema(ADD), epsilon=Epsilon.parse(epsilon),
                  mechanism="auto", norm="auto"), ROWS,
        )  # fmt: skip

    first = weight("0.1")
    enough = weight(f"{0.1 * first.more_epsilon:.6f}")
    assert enough.worth / enough.rows == pytest.approx(0.8, rel=0.05)


def test_conditions_choose_the_records_of_a_test() -> None:
    where = (Condition(column="h", op="==", value="a"),)
    for name in ("t, one mean", "chi_square"):
        assert 0 < p_of(drawn(replace(ASKED[name], where=where), REPLACE, "3")) <= 1


# In groups, and with Gaussian noise


@in_one("adjacency", list(Adjacency))
@in_one("name", ["t, one mean", "welch", "proportion", "signed_rank"])
def test_a_test_in_every_group(name: str, adjacency: Adjacency) -> None:
    """One test for each, about the rows of the group, with its labels; all cost what one does."""
    asked = replace(ASKED[name], by=("h",))
    plan = calibrate(asked, schema(adjacency), Epsilon.parse("10000"))
    values = values_of(3, effect=0.15)
    outcome: Any = plan.draw(data_of(values), seeded_randomness(1))
    groups = outcome.value["groups"]
    assert [group["by"] for group in groups] == [{"h": label} for label in "abc"]
    for group in groups:
        own = {each: column[values["h"] == group["by"]["h"]] for each, column in values.items()}
        exact = study.PLAIN[name](own)
        if "rank" not in name:
            assert group["value"]["p_value"] == pytest.approx(exact, abs=0.05)
    if name != "signed_rank":
        assert [term.by for term in outcome.inference.terms] == [group["by"] for group in groups]
        assert [term.place[1] for term in outcome.inference.terms] == [0, 1, 2]
    assert plan.guarantee.epsilon == Epsilon.parse("10000")
    assert asked.reading_ms(schema(adjacency)) > ASKED[name].reading_ms(schema(adjacency))


@pytest.mark.parametrize("name", ["t", "chi_square"])
def test_a_release_in_groups_gives_the_tests_of_each(name: str) -> None:
    asked = replace(ASKED[name], by=("h",))
    facts = schema(REPLACE)
    source = asked.source_question(facts)
    plan = calibrate(source, facts, Epsilon.parse("8"))
    outcome = plan.draw(data_of(values_of(1, effect=0.3)), seeded_randomness(1)).settled()
    released = Released(
        statistic=source, mechanism=plan.mechanism, norm=plan.norm, epsilon=Epsilon.parse("8"),
        value=outcome.value, noise=outcome.noise, details=plan.details,
    )  # fmt: skip
    found: Any = derive(asked, released, facts).value
    assert len(found["groups"]) == 3
    with pytest.raises(InvalidStatisticError):
        derive(ASKED[name], released, facts)


@pytest.mark.parametrize("name", ["t", "correlation", "chi_square"])
def test_accounts_with_a_delta_have_tests_with_gaussian_noise(name: str) -> None:
    facts = schema(ADD, zcdp=True)
    for mechanism in ("auto", "gaussian"):
        plan = calibrate(ASKED[name], facts, Epsilon.parse("1"), mechanism=mechanism)
        assert plan.mechanism == "gaussian"
        assert plan.guarantee.rho is not None
        outcome = plan.draw(data_of(values_of(1, effect=0.3)), seeded_randomness(1))
        assert 0 < p_of(outcome) <= 1
    with pytest.raises(InvalidStatisticError):
        calibrate(ASKED[name], schema(ADD), Epsilon.parse("1"), mechanism="gaussian")
    plan = calibrate(ASKED[name], facts, Epsilon.parse("1"), mechanism="k_norm")
    assert plan.mechanism == "k_norm"


def test_a_preview_of_a_test_in_groups_is_about_the_rows_of_each() -> None:
    asked = replace(T, by=("h",))
    useful = estimate_error(
        asked, schema(ADD), Epsilon.parse("1"), mechanism="auto", norm="auto",
        assumptions=Assumptions(rows=ROWS),
    ).usefulness  # fmt: skip
    assert "200 rows in each group" in useful.sentence
    assert useful.rows == ROWS


# Refusals

BAD: list[tuple[dict[str, Any], str]] = [
    ({"columns": ()}, "columns"),
    ({"columns": ("x", "y")}, "columns"),
    ({"columns": ("absent",)}, "columns"),
    ({"columns": ("g",)}, "columns"),
    ({"groups": "absent"}, "groups"),
    ({"groups": "y"}, "groups"),
    ({"groups": "h"}, "groups"),
    ({"groups": "x"}, "groups"),
    ({"test": "welch", "groups": None}, "groups"),
    ({"test": "signed_rank"}, "groups"),
    ({"test": "proportion"}, "columns"),
    ({"test": "chi_square", "columns": ("x", "g"), "groups": None}, "columns"),
    ({"test": "signed_rank", "groups": None, "value": 0.0}, "value"),
    ({"test": "signed_rank", "groups": None, "columns": ("yes",), "value": 0.5}, "columns"),
    ({"bins": 3}, "bins"),
    ({"by": ("g",)}, "by"),
    ({"by": ("absent",)}, "by[0]"),
    ({"missing": "cell"}, "missing"),
]


@in_one(("fields", "place"), BAD)
def test_what_does_not_fit_is_refused_at_its_field(fields: dict[str, Any], place: str) -> None:
    asked = replace(T, **fields)
    with pytest.raises(InvalidStatisticError) as refused:
        calibrate(asked, schema(ADD, optional=frozenset({"g"})), Epsilon.parse("1"))
    assert refused.value.field_name == place
    assert asked.planning_ms(schema(ADD), "auto") > 0


@in_one("name", ["t", "welch", "proportion"])
def test_an_estimate_is_what_is_said_of_it(name: str) -> None:
    """With hardly any noise it is the number in the second group minus that in the first."""
    values = values_of(1, effect=0.8)
    plan = calibrate(ASKED[name], schema(REPLACE), Epsilon.parse("10000"))
    assert "where g is b minus that where it is a." in str(plan.details["estimates"])
    (column,) = ASKED[name].columns
    first, second = (
        np.mean([x for x, own in zip(values[column], values["g"], strict=True) if own == group])
        for group in ("a", "b")
    )
    estimate: Any = plan.draw(data_of(values), seeded_randomness(1)).value
    assert estimate["estimate"] == pytest.approx(second - first, abs=0.02)


def test_a_test_without_an_estimate_says_nothing_of_one() -> None:
    for name in ("anova", "chi_square", "rank_sum", "signed_rank"):
        plan = calibrate(ASKED[name], schema(REPLACE), Epsilon.parse("1"))
        assert "estimates" not in plan.details


def test_people_of_several_rows_are_not_tested() -> None:
    people = schema(ADD, protects=Protected(rows=2))
    with pytest.raises(InvalidStatisticError, match="several"):
        calibrate(T, people, Epsilon.parse("1"))
    with pytest.raises(InvalidStatisticError, match="no norm"):
        calibrate(T, schema(ADD), Epsilon.parse("1"), norm="l1")
