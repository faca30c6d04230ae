"""Answers as people read them: dates and moments as texts, and numbers that say nothing named."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from fractions import Fraction
from math import exp
from typing import Any

import numpy as np
import pytest

from app.tidy.rows import rows_of
from mechanisms.catalog import calibrate
from mechanisms.contract import Inference, Noise, Outcome, Term
from mechanisms.derivations import Released, derive
from mechanisms.domain import CategoryColumn, NumberColumn, Schema
from mechanisms.presentation import shown
from mechanisms.privacy import Adjacency, Epsilon
from mechanisms.sketches import ArrayData
from mechanisms.statistics.conditions import Condition
from mechanisms.statistics.correlation import Correlation
from mechanisms.statistics.count import Count
from mechanisms.statistics.covariance import Covariance
from mechanisms.statistics.designs.cox_regression import CoxRegression
from mechanisms.statistics.designs.multinomial_regression import MultinomialRegression
from mechanisms.statistics.designs.poisson_regression import PoissonRegression
from mechanisms.statistics.histogram import Histogram
from mechanisms.statistics.linear_regression import LinearRegression
from mechanisms.statistics.logistic_regression import LogisticRegression
from mechanisms.statistics.mean import Mean
from mechanisms.statistics.moments import Moments
from mechanisms.statistics.quantile import Quantile
from mechanisms.statistics.registry import SINGLE_STATISTICS
from mechanisms.statistics.stack import Part, Stack
from mechanisms.statistics.std import Std
from mechanisms.statistics.total import Sum
from mechanisms.statistics.variance import Variance
from mechanisms.testing import seeded_randomness
from tests.tiers import in_one


def test_noise_keeps_all_that_is_known_of_it() -> None:
    born = NumberColumn(Fraction(0), Fraction(20_000), kind="date")
    schema = Schema({"born": born}, Adjacency.REPLACE_ONE, 100)
    noise = Noise(
        std={"born": 2.0}, interval_95={"born": [8.0, 12.0]}, expected_error={"born": 1.5}
    )
    presented = shown(Outcome(value={"born": 10.0}, noise=noise), Mean(columns=("born",)), schema)
    assert presented.value == {"born": "1970-01-11"}
    assert presented.edges == ()
    assert presented.noise == Noise(
        std=noise.std,
        interval_95={"born": ["1970-01-09", "1970-01-13"]},
        expected_error=noise.expected_error,
    )


SLOPES = {"(intercept)": -3.0, "age": 0.5}
TERMS = tuple(
    Term(
        term=name,
        estimate=slope,
        std_error=0.25,
        confidence_95=(slope - 0.5, slope + 1e4),
        noise_95=(slope - 0.25, slope + 0.25),
        place=("coefficients", name),
    )
    for name, slope in SLOPES.items()
)
RATIOS: Mapping[str, Any] = {
    "odds_ratios": LogisticRegression(target="ill", features=("age",)),
    "rate_ratios": PoissonRegression(target="pay", features=("age",)),
    "hazard_ratios": CoxRegression(time="pay", event="ill", features=("age",)),
}
FIT = Outcome(
    value={"coefficients": SLOPES}, noise=None, inference=Inference(terms=TERMS, method="m")
)


@pytest.mark.parametrize("ratios", RATIOS)
def test_slopes_have_ratios_with_the_exponentials_of_their_intervals(ratios: str) -> None:
    found = shown(FIT, RATIOS[ratios], FEW)
    assert found.value == {"coefficients": SLOPES, ratios: {"age": exp(0.5)}}
    assert found.inference is not None
    *coefficients, ratio = found.inference.terms
    assert tuple(coefficients) == TERMS
    assert ratio.term == f"{ratios[:-1].replace('_', ' ')} of age"
    assert ratio.place == (ratios, "age")
    assert ratio.estimate == exp(0.5)
    assert ratio.std_error == 0.25 * exp(0.5)
    assert ratio.confidence_95[0] == 1.0
    assert ratio.confidence_95[1] == pytest.approx(1e300)  # JSON has no infinity
    assert ratio.noise_95 == (exp(0.25), exp(0.75))


def test_each_level_and_group_and_part_has_its_own_ratios() -> None:
    levels = MultinomialRegression(target="sex", features=("age",))
    logistic = RATIOS["odds_ratios"]
    several = {"coefficients": {"m:(intercept)": 1.0, "m:age": 0.5}}
    found = shown(Outcome(value=several, noise=None), levels, FEW)
    assert found.value["odds_ratios"] == {"m:age": exp(0.5)}

    groups = {"groups": [{"by": {"sex": each}, "value": FIT.value} for each in "fm"]}
    place = ("groups", 1, "value", "coefficients", "age")
    term = replace(TERMS[1], by={"sex": "m"}, place=place)
    inference = Inference(terms=(term,), method="m")
    answer = shown(Outcome(value=groups, noise=None, inference=inference), logistic, FEW)
    both: Any = answer.value["groups"]
    assert [each["value"]["odds_ratios"] for each in both] == [{"age": exp(0.5)}] * 2
    assert answer.inference is not None
    assert answer.inference.terms[1].by == {"sex": "m"}
    assert answer.inference.terms[1].place == ("groups", 1, "value", "odds_ratios", "age")

    stack = Stack(parts=(Part(statistic=Count()), Part(statistic=logistic)))
    parts = {"parts": [{"count": 3.0}, FIT.value]}
    term = replace(TERMS[1], place=("parts", 1, "coefficients", "age"))
    inference = Inference(terms=(term,), method="m")
    answer = shown(Outcome(value=parts, noise=None, inference=inference), stack, FEW)
    own: Any = answer.value["parts"]
    assert own == [{"count": 3.0}, {**FIT.value, "odds_ratios": {"age": exp(0.5)}}]
    assert answer.inference is not None
    assert answer.inference.terms[1].place == ("parts", 1, "odds_ratios", "age")


def test_slopes_of_a_line_and_a_constant_alone_have_no_ratios() -> None:
    line = LinearRegression(target="pay", features=("age",))
    assert shown(FIT, line, FEW) is FIT
    alone = Outcome(value={"coefficients": {"(intercept)": 1.0}}, noise=None)
    assert shown(alone, LogisticRegression(target="ill", features=()), FEW) is alone


def test_every_ratio_is_known_to_tables() -> None:
    """A client draws ratios around 1, and keeps them apart from coefficients."""
    kinds = {each.ratios for each in SINGLE_STATISTICS.values() if each.ratios}
    assert len(kinds) == 3
    for each in kinds:
        value = {"coefficients": SLOPES, each: {"age": 2.0}}
        *coefficients, ratio = rows_of({"statistic": {"kind": "k"}, "value": value})
        assert {row.statistic for row in coefficients} == {"coefficient"}
        assert ratio.statistic == each.removesuffix("s").replace("_", " ")
        assert [row.key.is_ratio for row in (*coefficients, ratio)] == [False, False, True]


BOUNDS = {"age": (10, 90), "pay": (0, 5_000)}
ROWS = 40
COLUMNS: dict[str, Any] = {
    **{name: NumberColumn(Fraction(low), Fraction(high)) for name, (low, high) in BOUNDS.items()},
    "sex": CategoryColumn(("f", "m")),
}
FEW = Schema(COLUMNS, Adjacency.ADD_REMOVE, None, ROWS)
PAIR: Any = {"columns": ("age", "pay")}
MOMENTS = Moments(**PAIR)
CLAMPED: Mapping[str, Any] = {
    each.kind: each
    for each in (
        Mean(**PAIR), MOMENTS, Variance(**PAIR), Std(**PAIR), Covariance(**PAIR),
        Correlation(**PAIR),
    )
}  # fmt: skip
FREE: tuple[Any, ...] = (Sum(**PAIR), Histogram(columns=("sex",)))
PARTS = (*(each for each in CLAMPED.values() if each.kind != "moments"), *FREE)
CHOSEN: Mapping[str, Any] = {
    "all": {},
    "where": {"where": (Condition(column="sex", op="==", value="f"),)},
    "by": {"by": ("sex",)},
}


def limits_of(kind: str, place: tuple[Any, ...]) -> tuple[float, ...]:
    """Return what a number of a kind may be clamped to: a rule apart from that of the library."""
    if kind in ("mean", "moments"):
        return BOUNDS.get(place[-1], ())
    if kind in ("variance", "std"):
        low, high = BOUNDS[place[-1]]
        half = (high - low) / 2
        return (0, half**2 if kind == "variance" else half)
    if kind == "correlation":
        return (-1, 0, 1) if place[-1] != place[-2] else ()
    if kind == "covariance":
        one, two = ((BOUNDS[name][1] - BOUNDS[name][0]) / 2 for name in pair_of(place))
        return (-one * two if place[-1] != place[-2] else 0, one * two)
    return ()


def pair_of(place: tuple[Any, ...]) -> Iterator[str]:
    return (PAIR["columns"][at] for at in place[-2:])


def leaves(part: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], float]]:
    """Yield the numbers of an answer by their places."""
    if isinstance(part, Mapping):
        for name, inner in part.items():
            if name not in ("by", "cell"):
                yield from leaves(inner, (*place, name))
    elif isinstance(part, list | tuple):
        for at, inner in enumerate(part):
            yield from leaves(inner, (*place, at))
    else:
        yield place, part


def expected(value: Any, statistic: Any) -> set[tuple[Any, ...]]:
    """Return the places of numbers that are at a limit."""
    found = set()
    for place, number in leaves(value):
        kind = statistic.kind
        if kind == "stack":
            kind = statistic.parts[place[1]].statistic.kind
        if any(abs(number - end) < 1e-9 * max(1, abs(end)) for end in limits_of(kind, place)):
            found.add(place)
    return found


def draw(statistic: Any, epsilon: str, seed: int) -> Outcome:
    rng = np.random.default_rng(seed)
    codes = {
        name: COLUMNS[name].encode(rng.uniform(low, high, ROWS))
        for name, (low, high) in BOUNDS.items()
    }
    codes["sex"] = rng.integers(0, 2, ROWS).astype(np.int32)
    data = ArrayData(columns=COLUMNS, codes=codes)
    plan = calibrate(statistic, FEW, Epsilon.parse(epsilon))
    return plan.draw(data, seeded_randomness(seed))


@in_one("chosen", CHOSEN)
@in_one("kind", CLAMPED)
def test_a_number_that_a_clamp_has_moved_is_named(kind: str, chosen: str) -> None:
    asked = replace(CLAMPED[kind], **CHOSEN[chosen])
    edges = 0
    for seed, epsilon in enumerate(("0.01", "0.05", "0.2", "1", "50")):
        drawn = draw(asked, epsilon, seed)
        presented = shown(drawn, asked, FEW)
        assert presented.value == drawn.value, "a value stays as it was drawn"
        assert {edge.place for edge in presented.edges} == expected(drawn.value, asked)
        assert all("noise interval" in edge.reason for edge in presented.edges)
        edges += len(presented.edges)
    assert edges, "nothing was tested"


def test_parts_of_a_stack_name_their_own_numbers() -> None:
    parts = tuple(
        Part(statistic=replace(each, **CHOSEN[chosen]))
        for each in PARTS
        for chosen in (("all", "by") if each.kind in CLAMPED else ("all",))
    )
    asked = Stack(parts=parts)
    drawn = draw(asked, "0.1", 1)
    found = {edge.place for edge in shown(drawn, asked, FEW).edges}
    assert found == expected(drawn.value, asked)
    assert {asked.parts[place[1]].statistic.kind for place in found} == {*CLAMPED} - {"moments"}  # type: ignore[index]


def test_terms_of_a_stack_are_dates_where_their_part_s_column_is() -> None:
    born = NumberColumn(Fraction(0), Fraction(20_000), kind="date")
    facts = Schema({"born": born}, Adjacency.REPLACE_ONE, 100)
    term = Term(
        term="0.5", estimate=10.0, std_error=2.0, confidence_95=(8.0, 12.0),
        place=("parts", 0, "quantiles", 0, "value"),
    )  # fmt: skip
    asked = Stack(parts=(Part(statistic=Quantile(column="born", levels=(0.5,))),))
    found = shown(
        Outcome(
            value={"parts": [{"quantiles": [{"level": "0.5", "value": 10.0}]}]},
            noise=None,
            inference=Inference(terms=(term,), method="m"),
        ),
        asked,
        facts,
    ).inference
    assert found is not None
    assert found.terms[0].place == term.place
    assert found.terms[0].confidence_95 == ("1970-01-09", "1970-01-13")


def test_what_is_not_clamped_is_an_estimate() -> None:
    """Counts and sums below 0 may be added up to one that is not, and lose that by a clamp."""
    for asked in (*FREE, Count()):
        drawn = draw(asked, "0.001", 3)
        assert shown(drawn, asked, FEW) == drawn


@pytest.mark.parametrize("wanted", [Mean(**PAIR), Correlation(**PAIR)])
def test_an_inference_has_no_estimate_of_such_a_number(wanted: Any) -> None:
    edges = 0
    for seed in range(6):
        drawn = draw(MOMENTS, "0.1", seed)
        released = Released(
            statistic=MOMENTS, mechanism="k_norm", norm="optimal", epsilon=Epsilon.parse("0.1"),
            value=drawn.value, noise=drawn.noise, details={},
        )  # fmt: skip
        presented = shown(derive(wanted, released, FEW), wanted, FEW)
        assert presented.inference is not None
        unsaid = {edge.place for edge in presented.edges}
        for term in presented.inference.terms:
            if term.place in unsaid:
                assert term.estimate is None
                assert "confidence interval" in str(term.reason)
                edges += 1
    assert edges, "nothing was tested"


def test_a_correlation_of_released_covariances_has_edges_without_an_interval() -> None:
    """Its noise is not known, and what a clamp answers is."""
    covariances = Covariance(columns=("age", "pay", "more"))
    matrix = [[1.0, 9.0, 0.5], [9.0, 4.0, 1.0], [0.5, 1.0, 0.0]]
    columns = {**COLUMNS, "more": COLUMNS["pay"]}
    schema = Schema(columns, Adjacency.ADD_REMOVE, None, ROWS)
    released = Released(
        statistic=covariances, mechanism="k_norm", norm="optimal", epsilon=Epsilon.parse("1"),
        value={"matrix": matrix}, noise=None, details={},
    )  # fmt: skip
    wanted = Correlation(columns=("age", "pay", "more"))
    presented = shown(derive(wanted, released, schema), wanted, schema)
    assert presented.value["matrix"][0][:2] == [1.0, 1.0]  # type: ignore[index]
    places = {edge.place for edge in presented.edges}
    assert places == {("matrix", j, k) for j in range(3) for k in range(3) if j != k}
    assert all("interval" not in edge.reason for edge in presented.edges)
