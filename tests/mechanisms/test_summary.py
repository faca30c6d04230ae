"""Summaries: the split that balances, rows that agree, intervals, and what they are read off."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from math import sqrt
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mechanisms.analysis.rows import Law, Number, agreed, difference, rounded
from mechanisms.analysis.summary import WIDTHS, Summary
from mechanisms.catalog import calibrate
from mechanisms.contract import InvalidStatisticError, Outcome
from mechanisms.derivations import Released, derive
from mechanisms.domain import CategoryColumn, NumberColumn, Schema
from mechanisms.estimates.accuracy import smallest_epsilon
from mechanisms.estimates.asked import Asked, parts_asked
from mechanisms.estimates.assumptions import Assumptions
from mechanisms.estimates.estimate import estimate_error, estimating_ms
from mechanisms.privacy import Adjacency, Epsilon, Protected
from mechanisms.sketches import ArrayData
from mechanisms.statistics.quantile import joint_sensitivity
from mechanisms.statistics.ranks.draw import bridge_law
from mechanisms.testing import seeded_randomness
from tests.tiers import in_one

REPLACE, ADD = Adjacency.REPLACE_ONE, Adjacency.ADD_REMOVE
COLUMNS = {
    "age": NumberColumn(Fraction(0), Fraction(100)),
    "born": NumberColumn(Fraction(0), Fraction(20_000), kind="date"),
    "sex": CategoryColumn(("f", "m")),
    "smoker": NumberColumn(Fraction(0), Fraction(1), boolean=True),
    "arm": CategoryColumn(("drug", "placebo", "none")),
}
ROWS = 3000
WHOLE = Summary(columns=("age", "sex", "smoker"))
BY = replace(WHOLE, by=("arm",), differences=True)


def schema(adjacency: Adjacency, rows: int = ROWS, **facts: Any) -> Schema:
    return Schema(COLUMNS, adjacency, rows if adjacency is REPLACE else None, rows, **facts)


def values(rows: int = ROWS, seed: int = 1) -> dict[str, Any]:
    made = np.random.default_rng(seed)
    return {
        "age": made.normal(50, 12, rows).clip(0, 100),
        "born": made.integers(0, 20_000, rows),
        "sex": made.choice(["f", "m"], rows, p=[0.7, 0.3]),
        "smoker": made.integers(0, 2, rows),
        "arm": made.choice(["drug", "placebo", "none"], rows),
    }


def drawn(
    asked: Summary, adjacency: Adjacency, epsilon: str = "20", seed: int = 1, **facts: Any
) -> Outcome:
    own = values()
    data = ArrayData.from_values(schema(REPLACE), {name: list(each) for name, each in own.items()})
    plan = calibrate(asked, schema(adjacency, **facts), Epsilon.parse(epsilon))
    return plan.draw(data, seeded_randomness(seed))


def rows_of(outcome: Outcome, name: str = "rows") -> list[dict[str, Any]]:
    found: Any = outcome.value[name]
    return list(found)


def by_measure(outcome: Outcome) -> Mapping[tuple[Any, ...], dict[str, Any]]:
    return {
        (tuple(row["by"].values()), row["column"], row["measure"], row["level"]): row
        for row in rows_of(outcome)
    }


@pytest.mark.parametrize("adjacency", list(Adjacency))
@pytest.mark.parametrize("asked", [WHOLE, BY], ids=["all", "in groups"])
def test_with_little_noise_the_rows_are_what_numpy_computes(
    asked: Summary, adjacency: Adjacency
) -> None:
    found = by_measure(drawn(asked, adjacency, "5000"))
    own = values()
    for label in ("drug", "placebo", "none") if asked.by else (None,):
        mask = own["arm"] == label if label else np.ones(ROWS, dtype=bool)
        ages, sexes = own["age"][mask], own["sex"][mask]
        by = (label,) if label else ()
        expected = {
            (None, "n", None): mask.sum(),
            ("age", "mean", None): ages.mean(),
            ("age", "sd", None): ages.std(),
            ("age", "median", None): np.median(ages),
            ("age", "lower_quartile", None): np.quantile(ages, 0.25),
            ("age", "upper_quartile", None): np.quantile(ages, 0.75),
            ("sex", "count", "f"): (sexes == "f").sum(),
            ("sex", "share", "m"): (sexes == "m").mean(),
            ("smoker", "count", "true"): own["smoker"][mask].sum(),
        }
        for key, exact in expected.items():
            row = found[by, *key]
            assert row["value"] == pytest.approx(exact, rel=0.02, abs=0.01)
            assert row["interval"][0] <= row["value"] <= row["interval"][1]


@pytest.mark.parametrize("adjacency", list(Adjacency))
def test_the_cells_of_each_category_add_up_to_the_group(adjacency: Adjacency) -> None:
    found = by_measure(drawn(replace(BY, columns=("sex", "age")), adjacency, "0.5"))
    for label in ("drug", "placebo", "none"):
        cells = [found[(label,), "sex", "count", level]["value"] for level in "fm"]
        assert sum(cells) == found[(label,), None, "n", None]["value"]
        shares = [found[(label,), "sex", "share", level]["value"] for level in "fm"]
        assert sum(shares) == pytest.approx(1)


def test_a_public_number_of_rows_is_the_count() -> None:
    (n, *_) = rows_of(drawn(WHOLE, REPLACE, "1"))
    assert (n["value"], n["interval"]) == (ROWS, [ROWS, ROWS])


def test_missing_values_leave_a_category_out_of_the_agreement() -> None:
    own = {name: list(each) for name, each in values(400).items()}
    own["sex"] = [None if at % 4 == 0 else each for at, each in enumerate(own["sex"])]
    facts = schema(REPLACE, 400, optional=frozenset({"sex"}))
    data = ArrayData.from_values(facts, own)
    asked = Summary(columns=("sex",), show=("n", "share"))
    plan = calibrate(asked, facts, Epsilon.parse("500"))
    found = by_measure(plan.draw(data, seeded_randomness(1)))
    assert found[(), None, "n", None]["value"] == 400
    cells = [found[(), "sex", "count", level]["value"] for level in "fm"]
    assert sum(cells) == pytest.approx(300, abs=2)
    assert found[(), "sex", "share", "f"]["value"] == pytest.approx(cells[0] / sum(cells))


def test_differences_are_from_the_first_group() -> None:
    outcome = drawn(BY, ADD)
    found = by_measure(outcome)
    contrasts = rows_of(outcome, "differences")
    assert {row["measure"] for row in contrasts} == {"mean", "median", "share"}
    for row in contrasts:
        key = (row["column"], row["measure"], row["level"])
        one, other = (found[tuple(row[name].values()), *key] for name in ("by", "from"))
        assert row["from"] == {"arm": "drug"}
        assert row["value"] == pytest.approx(one["value"] - other["value"])
        low, high = row["interval"]
        widths = [each["interval"][1] - each["interval"][0] for each in (one, other)]
        assert max(widths) <= high - low <= sum(widths)
    assert outcome.inference is not None
    places = {term.place[0] for term in outcome.inference.terms}
    assert places == {"rows", "differences"}


def test_of_people_of_several_rows_quartiles_alone_have_intervals_for_the_population() -> None:
    outcome = drawn(BY, ADD, protects=Protected(rows=2))
    assert outcome.inference is not None
    quartiles = {"lower_quartile", "median", "upper_quartile"}
    for row in rows_of(outcome):
        assert row["interval"] is not None
        assert row["interval_of"] == ("population" if row["measure"] in quartiles else "data")


# The split of epsilon


def half_width(part: Any, path: list[Any], facts: Schema, *, by: bool) -> float:
    noise = calibrate(part, facts, Epsilon.parse("1")).preview(facts.row_bound)
    found: Any = noise.interval_95 if noise is not None else None
    for step in (*(("groups", 0, "value") if by else ()), *path):
        found = found[step]
    return float(found[1] - found[0]) / 2


@pytest.mark.parametrize("adjacency", list(Adjacency))
@pytest.mark.parametrize("by", [(), ("arm",)], ids=["all", "in groups"])
def test_the_constants_are_the_half_widths_of_the_parts_noise(
    adjacency: Adjacency, by: tuple[str, ...]
) -> None:
    rows = 300_000
    facts = schema(adjacency, rows)
    parts = {p.statistic.kind: p for p in replace(WHOLE, by=by).source_question(facts).parts}
    own = WIDTHS[adjacency, bool(by)]
    grouped, each = bool(by), rows / (3 if by else 1)
    if "count" in parts:
        found = half_width(parts["count"].statistic, ["count"], facts, by=grouped)
        assert own["n"] == pytest.approx(found, rel=0.4)
    cells = half_width(parts["histogram"].statistic, ["cells", 0, "count"], facts, by=grouped)
    assert own["share"] == pytest.approx(cells, rel=0.4)
    mean = half_width(parts["moments"].statistic, ["means", "age"], facts, by=grouped)
    assert own["mean_sd"] == pytest.approx(mean / 100 * each, rel=0.1)
    levels = [Fraction(1, 4), Fraction(1, 2), Fraction(3, 4)]
    private = ADD if by else adjacency
    spent = Fraction(1, 2) * (Fraction(1, 2) if by and adjacency is REPLACE else 1)
    points, odds = bridge_law(3)
    rank = float(points[np.searchsorted(np.cumsum(odds), 0.975)])
    ranks = float(2 * joint_sensitivity(levels, private) / spent) * rank
    assert own["median_iqr"] == pytest.approx(ranks, rel=0.1)


def test_shares_override_the_split_of_their_measure() -> None:
    stack = replace(WHOLE, shares={"mean_sd": 2}).source_question(schema(ADD))
    shares = {part.statistic.kind: part.share for part in stack.parts}
    assert shares == {"count": 3.0, "moments": 2.0, "quantile": 14.5, "histogram": 3.0}


# Agreement of counts


@given(
    st.lists(st.floats(-50, 500), min_size=2, max_size=6),
    st.integers(-20, 3000),
)
def test_rounded_numbers_add_up(numbers: list[float], total: int) -> None:
    found = rounded([Fraction(each) for each in numbers], total)
    assert sum(found) == total
    assert all(each.is_integer() for each in found)


def test_counts_that_agree_err_less_than_each_alone() -> None:
    """The count and two tables of Laplace noise: the mean by weights of 1 / variance."""
    made, errors = np.random.default_rng(3), []
    for _ in range(2000):
        noisy = made.laplace(0, 1 / sqrt(2), 5) * 10

        def law(at: int, exact: float, noisy: Any = noisy) -> Law:
            return exact + float(noisy[at]), 10.0, 21.2

        tables = {0: [law(1, 40), law(2, 60)], 1: [law(3, 10), law(4, 90)]}
        found = agreed(law(0, 100), tables, frozenset(tables))
        errors.append(found.rows - 100)
        assert found.std == pytest.approx(10 / sqrt(2))
    assert np.std(errors) == pytest.approx(10 / sqrt(2), rel=0.1)
    assert agreed(None, {}, frozenset()).rows == 0


@given(st.lists(st.integers(-20, 20), min_size=5, max_size=5), st.sampled_from([10.0, 7.25]))
def test_counts_that_agree_are_the_same_on_every_machine(drawn: list[int], std: float) -> None:
    """Standard deviations whose last bits differ, as libraries' do: ties must stay ties."""

    def found(bits: int) -> list[list[float]]:
        other = std * (1 + bits * 2.0**-52)
        n, *cells = drawn
        laws = [(float(each), other, 2.1 * other) for each in cells]
        tables = {0: laws[:2], 1: laws[2:]}
        counted = (float(n), std, 2.1 * std)
        agreeing = agreed(counted, tables, frozenset(tables))
        return [[agreeing.rows], *([*each.cells] for each in agreeing.tables.values())]

    assert found(0) == found(1) == found(-3)


def test_the_difference_of_what_has_no_value_has_none() -> None:
    assert difference(Number(value=None), Number(value=1.0)).value is None
    assert difference(Number(value=3.0), Number(value=1.0)).interval is None


@pytest.mark.wide
@pytest.mark.statistical
def test_intervals_cover_the_population_as_often_as_they_say() -> None:
    """Means, quartiles, shares and differences over 120 samples, at an epsilon that matters."""
    truth = {"mean": 50.0, "median": 50.0, "share": 0.7}
    inside: dict[str, list[bool]] = {}
    asked = Summary(columns=("age", "sex"), by=("arm",), differences=True)
    plan = calibrate(asked, schema(ADD), Epsilon.parse("4"))
    for seed in range(120):
        own = {name: list(each) for name, each in values(seed=seed).items()}
        outcome = plan.draw(ArrayData.from_values(schema(REPLACE), own), seeded_randomness(seed))
        for name, exact in (("rows", truth), ("differences", dict.fromkeys(truth, 0.0))):
            for row in rows_of(outcome, name):
                if row["measure"] in truth and row["level"] in (None, "f"):
                    low, high = row["interval"]
                    key = f"{name} {row['measure']}"
                    inside.setdefault(key, []).append(low <= exact[row["measure"]] <= high)
    assert {key: np.mean(each) >= 0.93 for key, each in inside.items()} == dict.fromkeys(
        inside, True
    ), {key: float(np.mean(each)) for key, each in inside.items()}


# Before it is paid


def test_each_row_has_an_expected_error_and_a_range() -> None:
    found = estimate_error(
        BY, schema(ADD), Epsilon.parse("4"), mechanism="auto", norm="auto",
        assumptions=Assumptions(rows=ROWS),
    )  # fmt: skip
    errors: Any = found.expected_error
    ranges: Any = found.possible_range
    for name in ("rows", "differences"):
        for error, possible in zip(errors[name], ranges[name], strict=True):
            assert error["value"] > 0
            assert possible["value"][0] < possible["value"][1]
    known = {(row["measure"], row["level"]): row["value"] for row in errors["rows"]}
    assert known["share", "f"] == pytest.approx(known["count", "f"] / (ROWS / 3), rel=0.2)
    assert found.usefulness.verdict in ("good", "weak", "noise", "depends")
    assert estimating_ms(BY, schema(ADD)) > 0
    assert estimating_ms(replace(BY, missing="cell"), schema(ADD)) > 0


def test_an_epsilon_is_found_for_an_accuracy() -> None:
    facts = schema(ADD)
    asked = replace(WHOLE, show=("n", "mean_sd"), columns=("age",))

    def asked_at(epsilon: Epsilon) -> list[Asked]:
        return parts_asked(
            Asked(statistic=asked, schema=facts, epsilon=epsilon, mechanism="auto", norm="auto")
        )

    found = smallest_epsilon(Epsilon.parse("1"), asked_at, Assumptions(rows=ROWS), wanted=20.0)
    assert found is not None
    assert Fraction(1, 100) < found.fraction < 5


def test_a_preview_states_the_noise_of_what_has_a_law() -> None:
    noise = calibrate(BY, schema(ADD), Epsilon.parse("4")).preview(ROWS)
    assert noise is not None
    listed: Any = noise.std["rows"]
    stated = {row["measure"]: row["value"] is not None for row in listed}
    assert stated == {
        "n": True, "mean": True, "sd": False, "lower_quartile": False, "median": False,
        "upper_quartile": False, "count": True, "share": True,
    }  # fmt: skip


# Refusals

BAD: list[tuple[dict[str, Any], str]] = [
    ({"columns": ()}, "columns"),
    ({"columns": ("age", "age")}, "columns"),
    ({"columns": ("absent",)}, "columns"),
    ({"columns": ("born",)}, "columns"),
    ({"columns": ("age", "arm"), "by": ("arm",)}, "columns"),
    ({"show": ()}, "show"),
    ({"show": ("n", "n")}, "show"),
    ({"show": ("n", "share")}, "show"),
    ({"shares": {"mean": 2}}, "shares"),
    ({"shares": {"mean_sd": 0.0}}, "shares"),
    ({"shares": {"mean_sd": float("nan")}}, "shares"),
    ({"shares": {"mean_sd": 0.1234567891}}, "shares"),
    ({"differences": True}, "by"),
    ({"by": ("age",)}, "by[0]"),
    ({"missing": "cell", "by": ("arm",)}, "missing"),
    ({"columns": tuple(f"d{at}" for at in range(11)),
      "derive": {f"d{at}": f"age + {at}" for at in range(11)}}, "columns"),
]  # fmt: skip


@in_one(("fields", "place"), BAD)
def test_what_does_not_fit_is_refused_at_its_field(fields: dict[str, Any], place: str) -> None:
    asked = replace(WHOLE, **{"columns": ("age",), **fields})
    with pytest.raises(InvalidStatisticError) as refused:
        calibrate(asked, schema(ADD, optional=frozenset({"arm"})), Epsilon.parse("1"))
    assert refused.value.field_name == place
    assert asked.planning_ms(schema(ADD), "auto") > 0


def test_a_mechanism_of_its_own_is_refused() -> None:
    with pytest.raises(InvalidStatisticError, match="composition") as refused:
        calibrate(WHOLE, schema(ADD), Epsilon.parse("1"), mechanism="k_norm")
    assert refused.value.field_name == "mechanism"


def test_nothing_but_a_public_count_is_refused() -> None:
    asked = Summary(columns=("age",), show=("n", "mean_sd"))
    assert asked.source_question(schema(REPLACE)).parts
    with pytest.raises(InvalidStatisticError, match="nothing is shown"):
        calibrate(replace(asked, show=("n",)), schema(REPLACE), Epsilon.parse("1"))


def test_a_summary_is_not_derived() -> None:
    released = Released(
        statistic=WHOLE,
        mechanism="composition",
        norm=None,
        epsilon=Epsilon.parse("1"),
        value={},
        noise=None,
        details={},
    )
    with pytest.raises(InvalidStatisticError, match="release it"):
        derive(WHOLE, released, schema(ADD))
