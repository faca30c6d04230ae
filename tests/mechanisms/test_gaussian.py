"""Gaussian noise costs the rho that is charged: every neighbour, laws, groups, people, stacks.

By itself a draw is at most ``epsilon**2 / 2`` on every neighbour of small data sets, in exact
rationals, and reaches it; at half the variance it is above it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import kstest, norm

from app.services.datasets.accounting import ZcdpMeter
from mechanisms.auditing import certified_epsilon
from mechanisms.catalog import calibrate, read_plan, settled, written_plan
from mechanisms.combined import combine
from mechanisms.contract import InvalidStatisticError, Statistic
from mechanisms.derivations import Released, derive
from mechanisms.domain import CategoryColumn, NumberColumn, Schema
from mechanisms.estimates.assumptions import Assumptions
from mechanisms.estimates.estimate import estimate_error
from mechanisms.exact.floats import Floats
from mechanisms.functional.linear import rule_of, sanitized_draw, space_of
from mechanisms.gaussian.noise import (
    AddedGaussian,
    GaussianNoise,
    SanitizedGaussian,
    additive_noise,
)
from mechanisms.privacy import (
    ONE_ROW,
    PURE,
    ZCDP,
    Adjacency,
    Epsilon,
    Guarantee,
    Protected,
    definition_of,
    pure_rho,
)
from mechanisms.samplers.knorm import gaussian_rho
from mechanisms.single import OfRows
from mechanisms.sketches import ArrayData
from mechanisms.statistics.conditions import Condition
from mechanisms.statistics.correlation import Correlation
from mechanisms.statistics.count import Count
from mechanisms.statistics.histogram import Histogram
from mechanisms.statistics.linear_regression import LinearRegression
from mechanisms.statistics.mean import Mean
from mechanisms.statistics.moments import Moments
from mechanisms.statistics.quantile import Quantile
from mechanisms.statistics.stack import Part, Stack
from mechanisms.statistics.tables import Tables
from mechanisms.statistics.total import Sum
from mechanisms.testing import Law, check_draws, draws_to_refuse, seeded_randomness
from studies.choices import Setting
from tests.enumeration.sensitivities import QUESTIONS, Tried
from tests.tiers import in_one

REPLACE, ADD = Adjacency.REPLACE_ONE, Adjacency.ADD_REMOVE
EPSILON = Epsilon.parse("1")
COLUMNS = {
    "x": NumberColumn(Fraction(-1), Fraction(1)),
    "y": NumberColumn(Fraction(-1), Fraction(1)),
    "group": CategoryColumn(("a", "b", "c")),
    "sex": CategoryColumn(("f", "m")),
}
ROWS = 400
GENERATOR = np.random.default_rng(3)
DATA = ArrayData.from_values(
    Schema(COLUMNS, REPLACE, ROWS),
    {
        "x": GENERATOR.uniform(-1, 1, ROWS).tolist(),
        "y": GENERATOR.uniform(-1, 1, ROWS).tolist(),
        "group": GENERATOR.choice(list("abc"), ROWS).tolist(),
        "sex": GENERATOR.choice(list("fm"), ROWS).tolist(),
    },
)


def schema_of(adjacency: Adjacency, *, zcdp: bool = True) -> Schema:
    return Schema(COLUMNS, adjacency, ROWS if adjacency is REPLACE else None, 1000, zcdp=zcdp)


def cost(changes: Sequence[Sequence[int]], variance: Fraction) -> Fraction:
    """The largest zCDP cost of changes, exactly."""
    squares = (Fraction(sum(entry * entry for entry in change)) for change in changes)
    return max(gaussian_rho(square, variance) for square in squares)


# Every neighbour

EVERY = [(tried, relation) for tried in QUESTIONS for relation in tried.relations()]


@in_one("pair", EVERY)
def test_the_worst_neighbours_cost_what_is_charged_and_no_more(pair: tuple[Tried, str]) -> None:
    """All rows of a grid, replaced, added and removed, with conditions and with missing cells."""
    tried, relation = pair
    form = tried.form(relation)
    changes, noise = (
        tried.changes(form, relation),
        GaussianNoise.calibrated(form.space, Fraction(2)),
    )
    worst, charged = cost(changes, noise.variance), pure_rho(Epsilon.parse("2"))
    assert worst <= charged
    if relation == "add_remove" or "l2" in tried.tight:
        assert worst > charged * (1 - Fraction(1, 10**20))  # roots are rounded at the 80th bit
    else:
        assert worst > charged * Fraction(3, 5)
    assert cost(changes, noise.variance / 2) > charged or "l2" not in tried.tight


def divergence(one: Floats, other: Floats, order: float) -> float:
    """The Renyi divergence of two laws on the same points, given their logarithms."""
    return float(logsumexp(order * one + (1 - order) * other)) / (order - 1)


@pytest.mark.parametrize("adjacency", [REPLACE, ADD])
def test_the_law_of_a_histogram_by_enumeration(adjacency: Adjacency) -> None:
    """Every data set of up to three rows on three cells: all divergences are at most alpha rho."""
    plan = calibrate(
        Histogram(columns=("group",)), schema_of(adjacency), EPSILON, mechanism="gaussian"
    )
    variance = float(plan.parameters.viewed.variance)  # type: ignore[attr-defined]
    points = np.arange(-60, 64)
    laws = [-((points - cell) ** 2) / (2 * variance) for cell in range(4)]
    laws = [each - logsumexp(each) for each in laws]
    tables = [cells for cells in product(range(4), repeat=3) if sum(cells) <= 3]
    changes = ([-1, 0, 1],) if adjacency is REPLACE else ([0, 0, 1], [-1, 0, 0])
    found: dict[float, list[float]] = {1.01: [], 1.5: [], 2.0: [], 8.0: []}
    for one, other in product(tables, repeat=2):
        pairs = list(zip(one, other, strict=True))
        if sorted(a - b for a, b in pairs) not in changes:
            continue
        for order, losses in found.items():
            losses.append(sum(divergence(laws[a], laws[b], order) for a, b in pairs) / order)
    for losses in found.values():
        assert 0.49 < max(losses) <= 0.5 * (1 + 1e-9), "rho is one half at epsilon 1"


@pytest.mark.statistical
def test_releases_follow_the_law_and_no_other_scale() -> None:
    """The count of a filter, drawn through the whole plan."""
    asked = Count(where=(Condition(column="x", op=">", value=0),))
    plan = calibrate(asked, schema_of(REPLACE), Epsilon.parse("0.5"))
    assert plan.mechanism == "gaussian"
    exact = sum(1 for code in DATA.codes["x"] if code > 0)
    points = np.arange(-40, 41, dtype=np.float64)
    law, *controls = (
        Law.discrete(points, np.exp(-(points**2) / (2 * 4 * scale**2))) for scale in (1, 0.7, 1.3)
    )
    randomness = seeded_randomness(3)
    count = draws_to_refuse(controls, law, points)
    drawn = [plan.draw(DATA, randomness).value["count"] - exact for _ in range(count)]  # type: ignore[operator]
    check_draws(drawn, law, twins=controls)


# What is charged


@pytest.mark.parametrize("adjacency", [REPLACE, ADD])
def test_a_draw_is_charged_as_a_pure_one(adjacency: Adjacency) -> None:
    for asked in (Mean(columns=("x", "y")), Sum(columns=("x",)), Moments(columns=("x", "y"))):
        plan = calibrate(asked, schema_of(adjacency), EPSILON)
        assert (plan.mechanism, plan.norm) == ("gaussian", None)
        assert plan.guarantee.definition == ZCDP
        assert plan.guarantee.zcdp == Fraction(1, 2)
        meter = ZcdpMeter(Fraction(1, 10**6))
        assert meter.cost(plan.guarantee) == 10**12 // 2
        pure = calibrate(asked, schema_of(adjacency), EPSILON, mechanism="k_norm")
        assert meter.cost(pure.guarantee) == 10**12 // 2
        again = read_plan(json.loads(json.dumps(written_plan(plan))), asked, schema_of(adjacency))
        assert again.guarantee == plan.guarantee
        drawn = [each.draw(DATA, seeded_randomness(1)).value for each in (plan, again)]
        assert drawn[0] == drawn[1]


def test_accounts_without_a_delta_refuse_it() -> None:
    asked = Mean(columns=("x",))
    pure = schema_of(ADD, zcdp=False)
    with pytest.raises(InvalidStatisticError, match="accounts that have a delta") as refusal:
        calibrate(asked, pure, EPSILON, mechanism="gaussian")
    assert refusal.value.field_name == "mechanism"
    assert "k_norm" in refusal.value.detail
    assert calibrate(asked, pure, EPSILON).mechanism == "k_norm"
    part = Part(statistic=asked, mechanism="gaussian")
    with pytest.raises(InvalidStatisticError, match="accounts that have a delta"):
        calibrate(Stack(parts=(part, part)), pure, EPSILON)


def test_there_is_no_norm_to_choose() -> None:
    asked = Mean(columns=("x",))
    with pytest.raises(InvalidStatisticError, match="norm"):
        calibrate(asked, schema_of(ADD), EPSILON, mechanism="gaussian", norm="l2")
    by = replace(asked, by=("group",))
    with pytest.raises(InvalidStatisticError, match="norm"):
        calibrate(by, schema_of(REPLACE), EPSILON, mechanism="gaussian", norm="l2")
    assert calibrate(asked, schema_of(ADD), EPSILON, norm="l2").mechanism == "k_norm"


# The choice


@pytest.mark.parametrize(("columns", "ratio"), [(5, "2.4"), (10, "4.76")])
def test_moments_have_a_fraction_of_the_noise(columns: int, ratio: str) -> None:
    names = tuple(f"c{place}" for place in range(columns))
    made = Schema(dict.fromkeys(names, COLUMNS["x"]), REPLACE, 1000, zcdp=True)
    plan = calibrate(Moments(columns=names), made, EPSILON)
    (other,) = plan.alternatives
    assert (plan.mechanism, other.mechanism, other.norm) == ("gaussian", "k_norm", "optimal")
    assert other.comparison.startswith(f"{ratio} times the standard deviation")


@pytest.mark.parametrize("adjacency", [REPLACE, ADD])
def test_the_smaller_variance_is_taken(adjacency: Adjacency) -> None:
    for asked in (
        Histogram(columns=("sex",)),
        Histogram(columns=("group",)),
        Sum(columns=("x", "y")),
        Count(by=("sex",)),
    ):
        taken = calibrate(asked, schema_of(adjacency), EPSILON)
        stds = {}
        for mechanism in ("k_norm", "gaussian"):
            noise = calibrate(asked, schema_of(adjacency), EPSILON, mechanism=mechanism).preview(9)
            assert noise is not None
            stds[mechanism] = json.dumps(noise.std)
        numbers = {name: [float(each) for each in _floats(text)] for name, text in stds.items()}
        least = min(numbers, key=lambda name: sum(each**2 for each in numbers[name]))
        assert taken.mechanism == least
        assert {"k_norm", "gaussian"} - {least} <= {each.mechanism for each in taken.alternatives}
        assert "smaller variance" in taken.reason
    two = calibrate(Histogram(columns=("sex",)), schema_of(REPLACE), EPSILON)
    assert two.mechanism == "k_norm", "the hull of two cells whose sum is public"


def _floats(text: str) -> list[float]:
    found: list[float] = []
    json.loads(text, parse_float=lambda each: found.append(float(each)))
    return found


def test_auto_is_spelled_where_nothing_is_compared() -> None:
    mean, median = Mean(columns=("x",)), Quantile(column="x", levels=(0.5,))
    assert settled(mean, "auto", zcdp=False)[1] == "k_norm"
    assert settled(mean, "auto", zcdp=True)[1] == "auto"
    assert settled(median, "auto", zcdp=True)[1] == "kng"
    stack, name = settled(Stack(parts=(Part(statistic=mean),)), "auto", zcdp=True)
    assert name == "composition"
    assert stack.parts[0].mechanism == "auto"  # type: ignore[attr-defined]


# Linear regression from moments

FIT = LinearRegression(target="y", features=("x",), bound=2.0)
BY_GROUP = LinearRegression(formula="y ~ x * group")


@pytest.mark.parametrize("adjacency", [REPLACE, ADD])
@pytest.mark.parametrize("fit", [FIT, BY_GROUP, replace(FIT, intercept=False)])
def test_a_regression_is_charged_as_its_moments(
    fit: LinearRegression, adjacency: Adjacency
) -> None:
    plan = calibrate(fit, schema_of(adjacency), EPSILON, mechanism="gaussian")
    assert (plan.norm, plan.guarantee.definition, plan.guarantee.zcdp) == (None, ZCDP, HALF)
    again = read_plan(json.loads(json.dumps(written_plan(plan))), fit, schema_of(adjacency))
    drawn = [each.draw(DATA, seeded_randomness(1)).settled() for each in (plan, again)]
    assert drawn[0] == drawn[1]
    noise = drawn[0].noise
    assert noise is not None
    other = calibrate(fit, schema_of(adjacency), EPSILON, mechanism="functional")
    wider = other.draw(DATA, seeded_randomness(1)).settled().noise
    assert wider is not None
    assert other.guarantee.is_pure
    (alternative,) = plan.alternatives
    assert float(alternative.comparison.split()[0]) > 1.2


HALF = Fraction(1, 2)


def _coordinates(fit: LinearRegression, schema: Schema, variance: Fraction, count: int) -> Floats:
    """The noise in all moments of draws, in lattice units."""
    draw = sanitized_draw(fit, schema, rule_of(fit), AddedGaussian(variance=variance).on)
    randomness, exact = seeded_randomness(8), draw.moments.total(DATA)
    drawn = [draw.coordinates(DATA, randomness) for _ in range(count)]
    return np.array([[float(a - b) for a, b in zip(each, exact, strict=True)] for each in drawn])


@pytest.mark.statistical
def test_noise_of_a_regressions_moments_follows_the_law_and_no_other_scale() -> None:
    """That which is charged; 0.9 and 1.1 times as wide are the negative controls."""
    facts = schema_of(ADD)
    plan = calibrate(FIT, facts, EPSILON, mechanism="gaussian")
    assert isinstance(plan.parameters, OfRows)
    parameters = plan.parameters.viewed
    assert isinstance(parameters, SanitizedGaussian)
    sigma = math.sqrt(parameters.noise.variance)
    # one record's count, sums, square and products: (1, x, y, 2 x^2 - 1, x y), each at most 1
    space = space_of(FIT, facts)
    assert parameters.noise.variance == 5 * space.unit**2 == space.l2_squared * space.unit**2
    found = _coordinates(FIT, facts, parameters.noise.variance, 1200).ravel() / sigma
    laws = {scale: kstest(found, norm(scale=scale).cdf).pvalue for scale in (1.0, 0.9, 1.1)}
    assert laws[1.0] > 1e-4
    assert laws[0.9] < 1e-4
    assert laws[1.1] < 1e-4


def test_moments_of_a_regression_have_it_in_accounts_with_a_delta_alone() -> None:
    many = Schema(COLUMNS, REPLACE, 10**6, zcdp=True)
    taken = calibrate(FIT, many, Epsilon.parse("4"))
    assert taken.mechanism == "gaussian"
    assert taken.reason.startswith("gaussian ")
    pure = calibrate(FIT, replace(many, zcdp=False), Epsilon.parse("4"))
    assert pure.mechanism == "functional"
    named = calibrate(FIT, many, Epsilon.parse("4"), norm="linf")
    assert (named.mechanism, named.norm) in {("functional", "linf"), (PERTURBED, "linf")}
    assert named.guarantee.is_pure
    assert calibrate(replace(FIT, ridge=2.0), many, EPSILON).mechanism == "gaussian"
    with pytest.raises(InvalidStatisticError, match="accounts that have a delta"):
        calibrate(FIT, replace(many, zcdp=False), EPSILON, mechanism="gaussian")
    with pytest.raises(InvalidStatisticError, match="norm"):
        calibrate(FIT, many, EPSILON, mechanism="gaussian", norm="l2")
    with pytest.raises(InvalidStatisticError, match="Huber"):
        calibrate(replace(FIT, loss="huber"), many, EPSILON, mechanism="gaussian")


PERTURBED = "objective_perturbation"


@pytest.mark.parametrize("mechanism", ["functional", "gaussian"])
def test_the_expected_error_of_a_regression_is_that_of_its_noise(mechanism: str) -> None:
    """With the other mechanism's noise it would be off by half or more."""
    setting = Setting(20_000, 3)
    facts = replace(setting.schema(), zcdp=True)
    estimate = estimate_error(
        setting.statistic,
        facts,
        EPSILON,
        mechanism=mechanism,
        norm="auto",
        assumptions=Assumptions(rows=20_000),
    )
    plan = calibrate(setting.statistic, facts, EPSILON, mechanism=mechanism)
    errors = []
    for seed in range(20):
        data, truth = setting.sample(np.random.default_rng(seed))
        value = plan.draw(data, seeded_randomness(seed)).value["coefficients"]
        errors.append(np.abs(setting.scaled(value) - truth))  # type: ignore[arg-type]
    expected = estimate.expected_error["coefficients"]  # type: ignore[index]
    found = np.mean(errors, axis=0)[1:] / np.array([expected["x1"], expected["x2"]])  # type: ignore[index]
    assert 0.7 < float(np.mean(found)) < 1.45


@pytest.mark.parametrize("fit", [FIT, BY_GROUP])
def test_standard_errors_of_gaussian_moments_cost_nothing(fit: LinearRegression) -> None:
    facts = schema_of(REPLACE)
    plan = calibrate(fit, facts, EPSILON, mechanism="gaussian", inference=Fraction(1, 4))
    assert (plan.mechanism, plan.guarantee.zcdp) == ("gaussian", HALF)
    assert plan.details["inference"]["cost"] == "0"  # type: ignore[index]
    again = read_plan(json.loads(json.dumps(written_plan(plan))), fit, facts)
    outcome = again.draw(DATA, seeded_randomness(1)).settled()
    assert outcome.inference is not None
    assert len(outcome.inference.terms) == len(outcome.value["coefficients"])  # type: ignore[arg-type]


# Groups, people, stacks


@pytest.mark.parametrize("adjacency", [REPLACE, ADD])
def test_groups_and_people_cost_no_more(adjacency: Adjacency) -> None:
    for asked in (
        Mean(columns=("x",), by=("group",)),
        Sum(columns=("x",), by=("group",)),
        Sum(columns=("x",), by=("group",), where=(Condition(column="y", op=">", value=0),)),
        Count(by=("group",)),
    ):
        plan = calibrate(asked, schema_of(adjacency), EPSILON, mechanism="gaussian")
        assert (plan.guarantee.definition, plan.guarantee.zcdp) == (ZCDP, Fraction(1, 2))
        value = plan.draw(DATA, seeded_randomness(1)).value
        assert len(value["groups"]) == 3  # type: ignore[arg-type]


def test_several_rows_of_a_person_cost_the_square() -> None:
    several = replace(schema_of(ADD), protects=Protected(3, "one person, up to 3 rows"))
    plan = calibrate(Sum(columns=("x",)), several, EPSILON)
    assert plan.guarantee.zcdp == Fraction(1, 2)
    assert "Proposition 1.9" in plan.guarantee.theorem
    one = calibrate(Sum(columns=("x",)), replace(several, protects=ONE_ROW), EPSILON)
    widths = [each.preview(None).std["x"] for each in (plan, one)]  # type: ignore[union-attr]
    assert widths[0] == pytest.approx(3 * widths[1])  # type: ignore[operator]


def test_a_stack_is_pure_only_if_all_parts_are() -> None:
    mean, median = Mean(columns=("x",)), Quantile(column="x", levels=(0.5,))
    mixed = calibrate(
        Stack(parts=(Part(statistic=mean), Part(statistic=median))), schema_of(ADD), EPSILON
    )
    assert mixed.guarantee.definition == ZCDP
    assert mixed.guarantee.zcdp == Fraction(1, 8) + Fraction(1, 32)
    pure = calibrate(Stack(parts=(Part(statistic=median),) * 2), schema_of(ADD), EPSILON)
    assert pure.guarantee.definition == PURE
    assert definition_of([]) == PURE
    assert "Lemma 1.7" in mixed.guarantee.theorem


# What is made of it


def released(asked: Statistic, schema: Schema, seed: int) -> Released:
    plan = calibrate(asked, schema, EPSILON)
    outcome = plan.draw(DATA, seeded_randomness(seed)).settled()
    return Released(
        statistic=asked,
        mechanism=plan.mechanism,
        norm=plan.norm,
        epsilon=EPSILON,
        value=outcome.value,
        noise=outcome.noise,
        details=plan.details,
    )


def test_two_releases_combine_by_the_law_of_their_noise() -> None:
    asked, facts = Sum(columns=("x", "y")), schema_of(REPLACE)
    both = [released(asked, facts, seed) for seed in (1, 2)]
    together = combine(asked, both, facts)
    assert together.noise is not None
    assert both[0].noise is not None
    for name in ("x", "y"):
        single, joint = (each.noise.std[name] for each in (both[0], together))  # type: ignore[union-attr]
        assert joint == pytest.approx(single / math.sqrt(2))  # type: ignore[operator]
        middle = sum(each.value[name] for each in both) / 2  # type: ignore[misc]
        assert together.value[name] == pytest.approx(middle)


def test_what_follows_from_moments_states_the_same_noise() -> None:
    facts = schema_of(ADD)
    moments = released(Moments(columns=("x", "y")), facts, 1)
    assert moments.mechanism == "gaussian"
    fit = derive(LinearRegression(target="y", features=("x",)), moments, facts)
    assert fit.inference is not None
    correlated = derive(Correlation(columns=("x", "y")), moments, facts)
    assert correlated.noise is not None
    other = replace(moments, mechanism="k_norm", norm="optimal")
    wider = derive(Mean(columns=("x",)), other, facts)
    mean = derive(Mean(columns=("x",)), moments, facts)
    assert mean.noise is not None
    assert wider.noise is not None
    assert mean.noise.std["x"] < wider.noise.std["x"]  # type: ignore[operator]


def test_the_noise_of_a_release_is_known_from_its_facts() -> None:
    form = Mean(columns=("x", "y")).additive(schema_of(ADD))
    noise = additive_noise(form.space, "gaussian", None, Fraction(1))
    assert noise.uncorrelated
    assert noise.correlation(0, 1) == 0
    laws, unit = noise.describe()
    simulated = noise.simulate(4000, seed=b"a") / float(noise.unit_rate)
    assert simulated.shape == (4000, 3)
    assert simulated.std() == pytest.approx(laws[0].std * float(unit), rel=0.03)


# Audits in zCDP


def test_events_of_gaussian_laws_certify_at_most_their_rho_and_nearly_all_of_it() -> None:
    """Two normal laws one standard deviation apart are 1/2-zCDP and epsilon-DP for no epsilon."""

    def above(cut: float, mean: float) -> float:
        return 0.5 * math.erfc((cut - mean) / math.sqrt(2))

    cuts = [place / 10 for place in range(-30, 60)]
    found = [certified_epsilon(above(cut, 1), above(cut, 0), pure=False) for cut in cuts]
    assert 0.75 < max(found) <= 1
    assert max(certified_epsilon(above(cut, 1), above(cut, 0), pure=True) for cut in cuts) > 4
    half = [certified_epsilon(above(cut, 2), above(cut, 0), pure=False) for cut in cuts]
    assert max(half) > 1, "at half of sigma it is flagged"
    assert certified_epsilon(1.0, 0.1, pure=False) > 2
    assert certified_epsilon(0.1, 0.1, pure=False) == 0


def test_a_guarantee_in_words_of_zcdp_costs_what_it_states() -> None:
    stated = Guarantee(
        epsilon=EPSILON,
        adjacency=ADD,
        sensitivity="1",
        sensitivity_unit="records",
        theorem="a theorem",
        definition=ZCDP,
        rho=Fraction(1, 8),
    )
    assert not stated.is_pure
    assert stated.zcdp == Fraction(1, 8)


# Tables


TABLES = Tables(columns=("group", "sex"), margins="all_two_way")


@pytest.mark.parametrize("adjacency", [REPLACE, ADD])
def test_tables_have_gaussian_noise_on_residuals(adjacency: Adjacency) -> None:
    facts = schema_of(adjacency)
    plan = calibrate(TABLES, facts, EPSILON)
    assert (plan.mechanism, plan.details["measured"]) == ("gaussian", "residuals")
    assert (plan.guarantee.definition, plan.guarantee.zcdp) == (ZCDP, Fraction(1, 2))
    (other,) = plan.alternatives
    assert other.mechanism == "margins"
    assert "smaller variance" in plan.reason
    again = read_plan(json.loads(json.dumps(written_plan(plan))), TABLES, facts)
    drawn = [each.draw(DATA, seeded_randomness(1)) for each in (plan, again)]
    assert drawn[0] == drawn[1]
    cells = drawn[0].value["tables"][0]["cells"]  # type: ignore[index]
    assert all(each["count"] >= 0 for each in cells)
    pure = calibrate(TABLES, facts, EPSILON, mechanism="margins")
    assert pure.guarantee.definition == PURE
    stds = [each.preview(9).std["tables"][0]["cells"][0]["count"] for each in (plan, pure)]  # type: ignore[union-attr,index]
    assert stds[1] / stds[0] == pytest.approx(float(other.comparison.split()[0]), rel=0.01)


def test_tables_of_accounts_without_a_delta_are_pure() -> None:
    facts = schema_of(ADD, zcdp=False)
    assert calibrate(TABLES, facts, EPSILON).mechanism == "margins"
    with pytest.raises(InvalidStatisticError, match="ask for margins"):
        calibrate(TABLES, facts, EPSILON, mechanism="gaussian")


def test_tables_of_two_cells_are_drawn_by_the_smaller_variance() -> None:
    """One boolean of a public number of records: at a large epsilon whole Laplace noise wins."""
    asked = Tables(columns=("sex",), margins="all_one_way")
    taken = [calibrate(asked, schema_of(REPLACE), Epsilon.parse(each)) for each in ("0.1", "20")]
    for plan in taken:
        (other,) = plan.alternatives
        assert float(other.comparison.split()[0]) >= 1
    assert {plan.mechanism for plan in taken} <= {"gaussian", "margins"}


def test_variances_of_other_tables_are_refused() -> None:
    plan = calibrate(TABLES, schema_of(ADD), EPSILON)
    parameters = plan.parameters.viewed  # type: ignore[attr-defined]
    other = replace(TABLES, columns=("group", "sex"), margins="all_one_way")
    with pytest.raises(ValueError, match="variances for other margins"):
        parameters.drawing(other, schema_of(ADD))


def test_sums_of_clipped_values_are_gaussian_as_they_are_planned() -> None:
    """The bounds cost what a draw of bounded range costs, the sum what a pure draw does."""
    asked = Mean(columns=("x",), clip="private")
    plan = calibrate(asked, schema_of(ADD), EPSILON)
    assert (plan.mechanism, plan.guarantee.definition) == ("gaussian", ZCDP)
    assert plan.guarantee.zcdp == Fraction(1, 8) + 2 * Fraction(1, 16) / 8
    assert "Lemma 1.7" in plan.guarantee.theorem
    drawn = plan.draw(DATA, seeded_randomness(1)).value["x"]
    assert -1 <= drawn <= 1  # type: ignore[operator]
    pure = calibrate(asked, schema_of(ADD, zcdp=False), EPSILON)
    assert (pure.mechanism, pure.guarantee.definition) == ("k_norm", PURE)
    drawn = plan.parameters.viewed.mechanism, pure.parameters.viewed.mechanism  # type: ignore[attr-defined]
    assert drawn == ("gaussian", "k_norm")
