"""Tables that are selected where they are drawn: the tree, its price, and what reads the answer."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mechanisms.catalog import calibrate, read_plan, written_plan
from mechanisms.combined.squares import combine
from mechanisms.contract import InvalidStatisticError, Noise, with_drawn
from mechanisms.derivations import derive
from mechanisms.domain import CategoryColumn, Column, NumberColumn, Schema
from mechanisms.margins.release import measurement_of
from mechanisms.margins.synthetic import synthesize
from mechanisms.privacy import PURE, ZCDP, Adjacency, Epsilon
from mechanisms.sketches import ArrayData
from mechanisms.statistics.conditions import Condition
from mechanisms.statistics.facts.readings import Released
from mechanisms.statistics.histogram import Histogram
from mechanisms.statistics.tables import Tables
from mechanisms.tables.planning import Estimates, TreeChoice, scores
from mechanisms.tables.residuals import cell_variance, summed
from mechanisms.tables.sensitivities import Changes
from mechanisms.tables.workload import Workload, count_margins
from mechanisms.testing import seeded_randomness
from tests.tiers import in_one

NAMES = ("a", "b", "c", "d")
COLUMNS: dict[str, Column] = {
    "a": CategoryColumn(("x", "y", "z")),
    "b": CategoryColumn(("x", "y", "z")),
    "c": CategoryColumn(("x", "y")),
    "d": CategoryColumn(("x", "y")),
    "w": NumberColumn(Fraction(0), Fraction(2)),
}
ROWS = 600
ASKED = Tables(columns=NAMES, select="auto")
BOTH = (Adjacency.REPLACE_ONE, Adjacency.ADD_REMOVE)


def schema(adjacency: Adjacency = Adjacency.REPLACE_ONE, **facts: Any) -> Schema:
    rows = ROWS if adjacency is Adjacency.REPLACE_ONE else None
    return replace(Schema(COLUMNS, adjacency, rows, 1000), **facts)


def data() -> ArrayData:
    """Return a chain: b follows from a, c nearly from b, d from nothing."""
    generator = np.random.default_rng(5)
    a = generator.integers(0, 3, ROWS)
    b = (a + 1) % 3
    c = (b > 0) ^ (generator.random(ROWS) < 0.1)
    codes = {"a": a, "b": b, "c": c.astype(int), "d": generator.integers(0, 2, ROWS)}
    values: dict[str, Any] = {name: ["xyz"[each] for each in own] for name, own in codes.items()}
    return ArrayData.from_values(schema(), {**values, "w": [1.0] * ROWS})


DATA = data()


def release(
    facts: Schema, asked: Tables = ASKED, *, epsilon: str = "4", seed: int = 1
) -> tuple[Any, Any]:
    """Return a release as it is stored, through JSON, and the outcome."""
    plan = calibrate(asked, facts, Epsilon.parse(epsilon))
    outcome = plan.draw(DATA, seeded_randomness(seed)).settled()
    assert outcome.noise is not None
    details = with_drawn(plan.details, outcome.facts)
    value, std, ends, details = json.loads(
        json.dumps([outcome.value, outcome.noise.std, outcome.noise.interval_95, details])
    )
    stored = Released(
        statistic=asked,
        mechanism=plan.mechanism,
        norm=plan.norm,
        epsilon=Epsilon.parse(epsilon),
        value=value,
        noise=Noise(std=std, interval_95=ends),
        details=details,
    )
    return stored, outcome


@in_one("adjacency", BOTH)
@in_one("seed", range(4))
def test_the_tables_are_a_tree_that_joins_all_columns(adjacency: Adjacency, seed: int) -> None:
    stored, _ = release(schema(adjacency), seed=seed, epsilon="0.1")
    pairs = [tuple(table["columns"]) for table in stored.value["tables"]]
    assert len(set(pairs)) == 3
    joined = {"a"}
    for _ in pairs:
        joined |= {name for pair in pairs if joined & set(pair) for name in pair}
    assert joined == set(NAMES)
    for table in stored.value["tables"]:
        assert sum(cell["count"] for cell in table["cells"]) == stored.value["rows"]
        assert min(cell["count"] for cell in table["cells"]) >= 0


@pytest.mark.parametrize("adjacency", BOTH)
def test_pairs_that_depend_on_each_other_are_chosen(adjacency: Adjacency) -> None:
    for seed in range(5):
        stored, _ = release(schema(adjacency), seed=seed)
        pairs = [table["columns"] for table in stored.value["tables"]]
        assert ["a", "b"] in pairs
        assert ["a", "c"] in pairs or ["b", "c"] in pairs


def test_little_epsilon_chooses_anything() -> None:
    drawn = [release(schema(), epsilon="0.0001", seed=seed)[0] for seed in range(12)]
    found = {str(each.details["select"]["chosen"]) for each in drawn}
    assert len(found) > 5


def test_the_answer_says_what_was_chosen_and_at_which_price() -> None:
    stored, _ = release(schema(), replace(ASKED, select_share=0.25))
    assert stored.details["select"] == {
        "private": True,
        "share": "1/4",
        "candidates": 6,
        "chosen": [table["columns"] for table in stored.value["tables"]],
    }


def test_the_rest_of_epsilon_is_for_the_tables() -> None:
    """Noise is less than what the same tables have at 3/4 of epsilon: columns add to it."""
    facts, asked = schema(), replace(ASKED, select_share=0.25)
    stored, _ = release(facts, asked)
    assert stored.noise is not None
    margins = tuple(tuple(table["columns"]) for table in stored.value["tables"])
    same = Tables(columns=NAMES, margins=margins)
    # no less than if the counts of columns were free, and no more than without them
    for epsilon, bounds in (("3", (0.8, 1.0)), ("4", (1.0, 1.34))):
        noise = calibrate(same, facts, Epsilon.parse(epsilon)).preview(None)
        assert noise is not None
        for own, other in zip(stored.noise.std["tables"], noise.std["tables"], strict=True):
            ratio = own["cells"][0]["count"] / other["cells"][0]["count"]
            assert bounds[0] < ratio < bounds[1]
    assert calibrate(asked, facts, Epsilon.parse("4")).guarantee.epsilon == Epsilon.parse("4")


@pytest.mark.parametrize("adjacency", BOTH)
def test_intervals_hold_the_exact_counts(adjacency: Adjacency) -> None:
    exact: dict[Any, list[float]] = {}
    held = total = 0
    for seed in range(30):
        stored, outcome = release(schema(adjacency), seed=seed, epsilon="1")
        for table, ends in zip(
            stored.value["tables"], outcome.noise.interval_95["tables"], strict=True
        ):
            names = tuple(table["columns"])
            if names not in exact:
                asked = Tables(columns=NAMES, margins=(names,))
                exact[names] = [
                    cell["count"]
                    for cell in release(schema(adjacency), asked, epsilon="9000")[0].value[
                        "tables"
                    ][0]["cells"]
                ]
            for number, cell in zip(exact[names], ends["cells"], strict=True):
                low, high = cell["count"]
                held += low <= number <= high
                total += 1
    assert held > 0.93 * total


@pytest.mark.parametrize("zcdp", [False, True])
@pytest.mark.parametrize("adjacency", BOTH)
def test_a_plan_is_read_as_it_was_written(adjacency: Adjacency, zcdp: bool) -> None:
    facts = schema(adjacency, zcdp=zcdp)
    plan = calibrate(ASKED, facts, Epsilon.parse("1"))
    again = read_plan(json.loads(json.dumps(written_plan(plan))), ASKED, facts)
    one, other = (each.draw(DATA, seeded_randomness(3)).value for each in (plan, again))
    assert one == other
    # what noise there is depends on the choice
    assert plan.preview(None) is None


@pytest.mark.parametrize("adjacency", BOTH)
def test_an_account_with_a_delta_pays_exactly_for_the_choice_and_gaussian_tables(
    adjacency: Adjacency,
) -> None:
    facts, epsilon = schema(adjacency, zcdp=True), Epsilon.parse("2")
    plan = calibrate(ASKED, facts, epsilon)
    assert (plan.mechanism, plan.guarantee.definition) == ("gaussian", ZCDP)
    assert plan.guarantee.zcdp == epsilon.fraction**2 / 2
    asked = replace(ASKED, margins=(("a", "b"), ("a", "c"), ("c", "d")))
    joined: Any = measurement_of(asked, facts, epsilon, "gaussian")
    choice = TreeChoice.in_zcdp(
        (3, 3, 2, 2), joined.changes, Fraction(3, 10) * epsilon.fraction**2 / 2
    )
    assert joined.singles == choice.singles
    paid = joined.tables.rho + choice.rho
    assert 0 <= plan.guarantee.zcdp - paid < 1e-20
    # a draw costs an eighth of its square, so its rate is larger than in a pure account
    pure = TreeChoice.calibrated((3, 3, 2, 2), joined.changes, epsilon.fraction * Fraction(3, 10))
    assert choice.rate > pure.rate
    assert (pure.flips, choice.flips) == (True, False)
    with pytest.raises(TypeError):
        assert pure.rho
    stored, _ = release(facts)
    assert stored.mechanism == "gaussian"
    alone = calibrate(ASKED, facts, epsilon, mechanism="margins")
    assert (alone.mechanism, alone.guarantee.definition) == ("margins", PURE)


@pytest.mark.parametrize("adjacency", BOTH)
def test_gaussian_tables_that_are_selected_are_what_the_stated_noise_says(
    adjacency: Adjacency,
) -> None:
    """Errors over draws have the stated spread, and it is smaller than that of a pure draw."""
    facts, exact, errors, stated = schema(adjacency, zcdp=True), {}, [], []
    for seed in range(40):
        stored, outcome = release(facts, epsilon="1", seed=seed)
        for table, noise in zip(stored.value["tables"], outcome.noise.std["tables"], strict=True):
            names = tuple(table["columns"])
            if names not in exact:
                whole, _ = release(facts, Tables(columns=NAMES, margins=(names,)), epsilon="9000")
                exact[names] = [cell["count"] for cell in whole.value["tables"][0]["cells"]]
            cells = zip(exact[names], table["cells"], noise["cells"], strict=True)
            for number, cell, std in cells:
                errors.append(cell["count"] - number)
                stated.append(std["count"])
    ratio = np.std(errors) / np.sqrt(np.mean(np.square(stated)))
    assert 0.6 < ratio < 1.1  # whole counts that agree are nearer than the estimates
    pure, _ = release(schema(adjacency), epsilon="1")
    assert pure.noise is not None
    assert np.mean(stated) < 0.8 * pure.noise.std["tables"][0]["cells"][0]["count"]


@in_one(
    ("changes", "place", "words"),
    [
        ({"margins": "all_one_way"}, "select", "without margins"),
        ({"margins": (("a", "b"),)}, "select", "without margins"),
        ({"raw": True}, "select", "without raw"),
        ({"weights": "w"}, "select", "without weights"),
        ({"hierarchy": "a"}, "select", "without hierarchy"),
        ({"by": ("d",), "columns": ("a", "b", "c")}, "select", "without by"),
        ({"columns": ("a", "b")}, "select", "at least 3 columns"),
        ({"select_share": 0.0}, "select_share", "more than 0"),
        ({"select_share": 1.0}, "select_share", "less than 1"),
        ({"select": None, "select_share": 0.4}, "select_share", "goes with"),
    ],
)
def test_what_does_not_go_with_it_is_refused(
    changes: dict[str, Any], place: str, words: str
) -> None:
    with pytest.raises(InvalidStatisticError, match=words) as refused:
        calibrate(replace(ASKED, **changes), schema(), Epsilon.parse("1"))
    assert refused.value.field_name == place


def test_a_filter_selects_the_records_that_count() -> None:
    asked = replace(ASKED, where=(Condition(column="d", op="==", value="x"),))
    stored, _ = release(schema(), asked, epsilon="20")
    assert 200 < stored.value["rows"] < 400
    assert len(stored.details["select"]["chosen"]) == 3


@pytest.mark.parametrize("zcdp", [False, True])
@pytest.mark.parametrize("adjacency", BOTH)
def test_what_follows_from_the_answer_reads_its_own_tables(
    adjacency: Adjacency, zcdp: bool
) -> None:
    facts = schema(adjacency, zcdp=zcdp)
    stored, _ = release(facts)
    made = synthesize(ASKED, stored.value, facts, rows=500, seed=1)
    assert [list(fit.columns) for fit in made.fits] == stored.details["select"]["chosen"]
    assert all(fit.in_model for fit in made.fits)
    table = stored.value["tables"][0]
    names = tuple(table["columns"])
    again: Any = derive(Tables(columns=names), stored, facts)
    assert again.value["tables"][0]["cells"] == table["cells"]
    assert stored.noise is not None
    assert again.noise is not None
    std = stored.noise.std["tables"][0]["cells"][0]["count"]
    assert again.noise.std["tables"][0]["cells"][0]["count"] == pytest.approx(std)
    with pytest.raises(InvalidStatisticError):
        derive(ASKED, stored, facts)
    counted, _ = release(facts, Tables(columns=("d",), margins="all_one_way"), seed=9)
    joined: Any = combine(Histogram(columns=("d",)), [stored, counted], facts)
    for cell in joined.value["cells"]:
        assert cell["count"] == pytest.approx(300, abs=60)


# The choice


@given(
    st.lists(st.tuples(*[st.integers(0, 2)] * 3), min_size=1, max_size=12),
    st.tuples(*[st.integers(0, 2)] * 3),
    st.tuples(*[st.integers(0, 2)] * 3),
    st.lists(st.integers(-5, 20), min_size=9, max_size=9),
    st.sampled_from([None, 0, 3, 12]),
)
def test_a_record_moves_no_score_by_more_than_is_charged(
    rows: list[Any], added: Any, other: Any, noisy: list[int], people: int | None
) -> None:
    workload, public = Workload.of_order((3, 3, 3), 2), list(np.reshape(noisy, (3, 3)))

    def of(records: list[Any]) -> dict[Any, int]:
        counts = count_margins(np.array(records, dtype=np.int64), workload)
        return scores(counts, public, people)

    here, there, instead = of(rows), of([*rows, added]), of([*rows, other])
    assert max(abs(there[pair] - here[pair]) for pair in here) <= 1
    assert max(abs(there[pair] - instead[pair]) for pair in here) <= 2


def test_sensitivities_are_reached() -> None:
    """The control: a bound of half of these would be wrong."""
    workload, public = Workload.of_order((2, 2), 2), [np.array([0, 0])] * 2
    one, other = (
        scores(count_margins(np.array(rows, dtype=np.int64), workload), public, 1)
        for rows in ([[0, 0]], [[0, 0], [1, 1]])
    )
    assert other[0, 1] - one[0, 1] == 1
    public = [np.array([1, 0])] * 2
    one, other = (
        scores(count_margins(np.array([row], dtype=np.int64), workload), public, 1)
        for row in ([0, 0], [1, 1])
    )
    assert other[0, 1] - one[0, 1] == 2


@pytest.mark.parametrize("adjacency", BOTH)
def test_the_shares_of_the_choice_add_up(adjacency: Adjacency) -> None:
    replaced = adjacency is Adjacency.REPLACE_ONE
    changes = Changes(replaced=replaced, added=not replaced)
    choice = TreeChoice.calibrated((2, 3, 4, 5), changes, Fraction(1, 5))
    pairs = choice.rate * 2 * changes.l1 * 3
    assert choice.singles.epsilon == 3 * pairs == Fraction(3, 20)
    asked = replace(ASKED, margins=(("a", "b"),))
    joined: Any = measurement_of(asked, schema(adjacency), Epsilon.parse("1"), "margins")
    stated = replace(asked, select=None)
    whole = measurement_of(stated, schema(adjacency), Epsilon.parse("0.7"), "margins")
    assert joined.tables == whole
    assert joined.singles.epsilon == Fraction(9, 40)
    with pytest.raises(ValueError, match="two columns"):
        TreeChoice.calibrated((2,), changes, Fraction(1))


@pytest.mark.parametrize("zcdp", [False, True])
@pytest.mark.parametrize("adjacency", BOTH)
def test_joined_estimates_are_unbiased_with_the_stated_variance(
    adjacency: Adjacency, zcdp: bool
) -> None:
    """Over draws of given tables: columns' counts and tables are weighted as they should be."""
    facts, pairs = schema(adjacency, zcdp=zcdp), (("a", "b"), ("b", "c"), ("c", "d"))
    asked = replace(ASKED, margins=pairs)
    name = "gaussian" if zcdp else "margins"
    joined: Any = measurement_of(asked, facts, Epsilon.parse("2"), name)
    counts = asked.counted(DATA, facts)
    people = ROWS if joined.changes.records_known else None
    found: dict[Any, list[float]] = {}
    for seed in range(200):
        measured = joined.draw(counts, seeded_randomness(seed))
        estimates = Estimates(joined.workload, joined.residuals(measured, people))
        for margin in ((0,), (1,), (1, 2)):
            found.setdefault(margin, []).append(estimates.margin(margin).floats())
    spreads, alone = joined.spreads(), joined.tables.spreads()
    for margin, each in found.items():
        holder = next(pair for pair in counts if set(margin) <= set(pair))
        errors = np.array(each) - summed(counts[holder], holder, margin)
        variance = cell_variance(joined.workload, spreads, margin)
        assert errors.mean() == pytest.approx(0, abs=4 * np.sqrt(variance / 200))
        assert (errors**2).mean() == pytest.approx(variance, rel=0.25)
        # the control: tables by themselves say less of columns
        share = variance / cell_variance(joined.workload, alone, margin)
        assert share < (0.95 if len(margin) == 1 else 1)
    nominal = joined.nominal()
    assert {A: float(each) for A, each in nominal.items()} == pytest.approx(spreads, rel=0.2)
