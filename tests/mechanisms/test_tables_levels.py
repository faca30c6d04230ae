"""Tables of nested places: they agree at all levels, are whole, and cost what is charged."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Mapping
from dataclasses import replace
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mechanisms.catalog import calibrate
from mechanisms.contract import InvalidStatisticError, Plan
from mechanisms.derivations import Released, derive
from mechanisms.domain import CategoryColumn, Nested, NumberColumn, Schema
from mechanisms.margins.synthetic import synthesize
from mechanisms.privacy import Adjacency, Epsilon
from mechanisms.sketches import ArrayData
from mechanisms.statistics.conditions import Condition
from mechanisms.statistics.histogram import Histogram
from mechanisms.statistics.questions import viewed
from mechanisms.statistics.tables import Tables
from mechanisms.tables.gaussian import GaussianResiduals
from mechanisms.tables.laplace import LaplaceMargins
from mechanisms.tables.levels import Hierarchy, nearest, split_table
from mechanisms.tables.records import SCALE, quotas
from mechanisms.tables.residuals import exact
from mechanisms.tables.sensitivities import Changes, squared_sensitivity
from mechanisms.tables.workload import ColumnSet, Workload, WorkloadError, count_margins
from mechanisms.testing import seeded_randomness
from tests.tiers import in_one

F = Fraction
TOWNS = tuple("abcdefgh")
COUNTIES = ("p", "q", "r")
SCHEMA = Schema(
    columns={
        "town": CategoryColumn(TOWNS),
        "county": CategoryColumn(COUNTIES),
        "nation": CategoryColumn(("west", "east")),
        "age": NumberColumn(F(0), F(90), kind="integer"),
        "sex": CategoryColumn(("f", "m")),
    },
    adjacency=Adjacency.ADD_REMOVE,
    rows=None,
    max_rows=4_000,
    nested={
        "county": Nested("town", (0, 0, 1, 1, 1, 2, 2, 0, 3)),
        "nation": Nested("county", (1, 0, 0, 2)),
    },
)
ROWS = 1_500
REPLACED = replace(SCHEMA, adjacency=Adjacency.REPLACE_ONE, rows=ROWS)
EDGES: Mapping[str, Any] = {"age": (0, 30, 60, 90)}
ASKED = Tables(columns=("age", "town"), edges=EDGES, hierarchy="town")
LEVELS = ("nation", "county", "town")


def people() -> dict[str, list[Any]]:
    generator = np.random.default_rng(5)
    towns = generator.choice(len(TOWNS), ROWS, p=np.arange(1, 9) / 36)
    return {
        "town": [TOWNS[each] for each in towns],
        "age": np.minimum(generator.integers(0, 60, ROWS) + 5 * towns, 90).tolist(),
        "sex": [("f", "m")[each] for each in generator.integers(0, 2, ROWS)],
    }


def data_of(schema: Schema) -> ArrayData:
    return ArrayData.from_values(schema, people())


def drawn(asked: Tables, schema: Schema, epsilon: str, seed: int = 1) -> Mapping[str, Any]:
    plan = calibrate(asked, schema, Epsilon.parse(epsilon))
    return plan.draw(data_of(schema), seeded_randomness(seed)).value


def above(place: str, level: str) -> str:
    """Return the place of a level that a lower one is in."""
    for below, name in (("town", "county"), ("county", "nation")):
        column, up = SCHEMA.columns[below], SCHEMA.columns[name]
        assert isinstance(column, CategoryColumn)
        assert isinstance(up, CategoryColumn)
        if place in column.values and level != below:
            place = up.values[SCHEMA.nested[name].codes[column.values.index(place)]]
            if name == level:
                break
    return place


def table(value: Any, *columns: str) -> dict[tuple[str, ...], Any]:
    (found,) = (each for each in value["tables"] if set(each["columns"]) == set(columns))
    return {tuple(each["cell"][name] for name in columns): each["count"] for each in found["cells"]}


def require_agreement(value: Mapping[str, Any], *others: str) -> None:
    """Each place is the sum of the places in it, cell by cell."""
    tables = {level: table(value, level, *others) for level in LEVELS}
    for low, high in (("town", "county"), ("county", "nation"), ("town", "nation")):
        sums = dict.fromkeys(tables[high], 0)
        for (place, *rest), count in tables[low].items():
            assert isinstance(count, int)
            assert count >= 0
            sums[above(place, high), *rest] += count
        assert sums == tables[high]
    assert sum(tables["nation"].values()) == value["rows"]


@in_one("epsilon", ["0.02", "0.3", "5"])
@in_one("schema", [SCHEMA, REPLACED])
@in_one("zcdp", [False, True])
def test_all_levels_agree_in_whole_counts(schema: Schema, epsilon: str, zcdp: bool) -> None:
    schema = replace(schema, zcdp=zcdp)
    asked = replace(
        ASKED,
        columns=("age", "town", "sex"),
        margins=(("age", "town"), ("sex", "age"), ("town",), ("sex",)),
    )
    value = drawn(asked, schema, epsilon)
    names = [each["columns"] for each in value["tables"]]
    assert names[:3] == [["age", "nation"], ["age", "county"], ["age", "town"]]
    assert names[3:] == [["age", "sex"], ["nation"], ["county"], ["town"], ["sex"]]
    require_agreement(value, "age")
    require_agreement(value)
    ages = table(value, "age", "sex")
    for age in dict.fromkeys(age for age, _ in ages):
        own = sum(count for (name, _), count in ages.items() if name == age)
        assert own == sum(
            count for (_, name), count in table(value, "town", "age").items() if name == age
        )
    if schema.rows is not None:
        assert value["rows"] == ROWS


def test_at_a_large_epsilon_the_counts_are_exact() -> None:
    value, found = drawn(ASKED, SCHEMA, "2000"), people()
    for (town, age), count in table(value, "town", "age").items():
        low = int(age[1:].split(",")[0])
        inside = [low <= each < low + 30 or each == 90 == low + 30 for each in found["age"]]
        here = [each == town for each in found["town"]]
        assert count == sum(a and b for a, b in zip(inside, here, strict=True))


def test_raw_estimates_are_those_of_each_level() -> None:
    asked = replace(ASKED, raw=True)
    plan = calibrate(asked, SCHEMA, Epsilon.parse("0.5"))
    data, randomness = data_of(SCHEMA), seeded_randomness(2)
    truth = drawn(ASKED, SCHEMA, "2000")
    draws = [plan.draw(data, randomness) for _ in range(150)]
    for level in LEVELS:
        exact = np.array([*table(truth, level, "age").values()])
        found = np.array([[*table(each.value, level, "age").values()] for each in draws])
        assert draws[0].noise is not None
        std = next(iter(table(draws[0].noise.std, level, "age").values()))
        assert np.abs(found.mean(axis=0) - exact).max() < 4.5 * std / np.sqrt(150)
        assert np.sqrt(((found - exact) ** 2).mean()) == pytest.approx(std, rel=0.12)


def test_whole_counts_are_nearer_and_intervals_hold() -> None:
    plan = calibrate(ASKED, SCHEMA, Epsilon.parse("0.2"))
    data, randomness = data_of(SCHEMA), seeded_randomness(3)
    truth = drawn(ASKED, SCHEMA, "2000")
    inside: list[bool] = []
    errors: dict[str, list[float]] = {level: [] for level in LEVELS}
    stds: dict[str, float] = {}
    for _ in range(60):
        outcome = plan.draw(data, randomness)
        assert outcome.noise is not None
        for level in LEVELS:
            exact = np.array([*table(truth, level, "age").values()])
            ends = np.array([*table(outcome.noise.interval_95, level, "age").values()])
            inside += ((ends[:, 0] <= exact) & (exact <= ends[:, 1])).tolist()
            counts = np.array([*table(outcome.value, level, "age").values()])
            errors[level].append(np.mean((counts - exact) ** 2))
            stds[level] = next(iter(table(outcome.noise.std, level, "age").values()))
    assert np.mean(inside) >= 0.95
    for level in LEVELS:
        assert np.sqrt(np.mean(errors[level])) < 0.95 * stds[level]


# Public totals


KNOWN = {"nation": {"east": 400}, "county": {"q": 700}, "town": {"h": 350, "a": 3}}


@pytest.mark.parametrize("schema", [SCHEMA, REPLACED], ids=["added", "replaced"])
@pytest.mark.parametrize("epsilon", ["0.01", "1"])
def test_public_totals_are_kept_exactly(schema: Schema, epsilon: str) -> None:
    asked = replace(ASKED, known=KNOWN, margins=(("age", "town"), ("town",)))
    plan = calibrate(asked, schema, Epsilon.parse(epsilon))
    outcome = plan.draw(data_of(schema), seeded_randomness(4))
    require_agreement(outcome.value, "age")
    assert outcome.noise is not None
    for level, totals in KNOWN.items():
        found = table(outcome.value, level)
        ends, stds = (table(each, level) for each in (outcome.noise.interval_95, outcome.noise.std))
        for place, total in totals.items():
            assert found[place,] == total
            assert (ends[place,], stds[place,]) == ([total, total], 0.0)
        assert min(std for (place,), std in stds.items() if place not in totals) > 0
    assert plan.details["public_totals"] == KNOWN
    assert plan.details["levels"] == ["nation", "county", "town"]


def test_totals_of_all_places_are_the_number_of_rows() -> None:
    asked = replace(ASKED, known={"nation": {"west": 1_000, "east": 450}})
    plan = calibrate(asked, SCHEMA, Epsilon.parse("0.05"))
    outcome = plan.draw(data_of(SCHEMA), seeded_randomness(4))
    assert outcome.value["rows"] == 1_450
    assert outcome.noise is not None
    assert outcome.noise.interval_95["rows"] == [1_450, 1_450]


@in_one(
    ("changed", "schema", "place"),
    [
        ({"hierarchy": "age"}, SCHEMA, "hierarchy"),
        ({"hierarchy": "sex"}, SCHEMA, "hierarchy"),
        ({"hierarchy": "nation"}, SCHEMA, "hierarchy"),
        ({"columns": ("town", "county"), "edges": {}}, SCHEMA, "columns"),
        ({"columns": ("town", "age", "sex")}, SCHEMA, "margins"),
        ({"columns": ("town", "age", "sex"), "margins": (("age", "sex"),)}, SCHEMA, "margins"),
        ({"hierarchy": None, "known": KNOWN}, SCHEMA, "known"),
        ({"known": {"sex": {"f": 1}}}, SCHEMA, "known"),
        ({"known": {"county": {"z": 1}}}, SCHEMA, "known"),
        ({"known": {"county": {"q": -1}}}, SCHEMA, "known"),
        ({"known": {"county": {"q": 1, " q": 1}}}, SCHEMA, "known"),
        ({"known": {"county": {"q": 5_000}}}, SCHEMA, "known"),
        ({"known": {"county": {"q": 5}, "town": {"c": 6}}}, SCHEMA, "known"),
        ({"known": {"nation": {"east": 9}, "county": {"p": 8}}}, SCHEMA, "known"),
        ({"known": {"nation": {"east": 9, "west": 9}}}, REPLACED, "known"),
        ({"known": KNOWN, "raw": True}, SCHEMA, "known"),
        ({"known": KNOWN, "by": ("sex",)}, SCHEMA, "known"),
    ],
)
def test_what_does_not_fit_is_refused(changed: dict[str, Any], schema: Schema, place: str) -> None:
    with pytest.raises(InvalidStatisticError) as refused:
        calibrate(replace(ASKED, **changed), schema, Epsilon.parse("1"))
    assert refused.value.field_name.partition("[")[0] == place


def test_a_wrong_total_is_named_by_its_place() -> None:
    for totals, place, said in (
        (
            {"p": 1, "quu": 2},
            "known[1][1]",
            "that is not a declared value of county; those are p, q",
        ),
        ({"q": -1}, "known[1][0]", "the total of q must be between 0 and 4,294,967,296"),
        ({"q": 1, " q": 2}, "known[1][1]", "q has two totals"),
    ):
        asked = replace(ASKED, known={"nation": {}, "county": totals})
        with pytest.raises(InvalidStatisticError) as refused:
            calibrate(asked, SCHEMA, Epsilon.parse("1"))
        assert refused.value.field_name == place
        assert refused.value.detail.startswith(said)


def test_totals_of_places_that_disagree_are_found_before_anything_is_measured() -> None:
    tree = Hierarchy((0, 1), ((0, 0), (0, 0, 1)), ({0: 5}, {0: 3, 1: 3}))
    with pytest.raises(WorkloadError):
        tree.stated()
    least, exact = replace(tree, known=({}, {0: 3, 1: 3})).stated()
    assert (least, exact) == (
        [[6], [6, 0], [3, 3, 0]],
        [[False], [True, False], [True, True, False]],
    )


# The split of a place


sums = st.lists(st.integers(0, 40), min_size=1, max_size=5)


@given(sums, st.integers(1, 6), st.data())
def test_any_table_is_split_into_whole_counts_with_both_sums(
    columns: list[int], places: int, data: st.DataObject
) -> None:
    near = np.array(
        data.draw(
            st.lists(
                st.lists(st.integers(-900, 900), min_size=len(columns), max_size=len(columns)),
                min_size=places,
                max_size=places,
            )
        ),
        dtype=np.int64,
    )
    rows = np.array(quotas(near.sum(axis=1).tolist(), sum(columns)))
    made = split_table(near, np.array(columns), rows)
    assert made.min() >= 0
    assert made.sum(axis=0).tolist() == columns
    assert made.sum(axis=1).tolist() == rows.tolist()
    # column by column, what one column's rule makes
    alone = nearest(near, np.array(columns))
    assert alone.T.tolist() == [
        quotas(near[:, place].tolist(), total) for place, total in enumerate(columns)
    ]


@given(st.integers(0, 2**32))
def test_what_fits_is_left_as_it_is(seed: int) -> None:
    table = np.random.default_rng(seed).integers(0, 50, (4, 6))
    assert np.array_equal(split_table(table * SCALE, table.sum(axis=0), table.sum(axis=1)), table)


def test_a_small_split_is_near_the_nearest_of_all() -> None:
    """Against every whole table of these sums."""
    generator = np.random.default_rng(1)
    lost = []
    for _ in range(40):
        columns, near = generator.integers(0, 4, 3), generator.integers(-40, 60, (2, 3))
        rows = np.array(quotas(near.sum(axis=1).tolist(), int(columns.sum())))
        best = min(
            ((np.array([first, columns - first]) * SCALE - near) ** 2).sum()
            for each in product(*(range(int(column) + 1) for column in columns))
            if sum(each) == rows[0]
            for first in [np.array(each)]
        )
        own = ((split_table(near, columns, rows) * SCALE - near) ** 2).sum()
        lost.append((own - best) / SCALE**2)
    assert min(lost) >= 0
    assert np.mean(lost) < 0.1


# Sensitivity, over all pairs of neighbours


TREE = Workload((2, 3, 2), ((0, 2), (1, 2)))
"""A region, a place and a sex: three places in two regions."""
CELLS = [(region, place, sex) for region, place in ((0, 0), (0, 1), (1, 2)) for sex in (0, 1)]
CHANGES = [Changes(replaced=True, added=False), Changes(replaced=False, added=True),
           Changes(replaced=True, added=True)]  # fmt: skip


def moves(changes: Changes) -> Iterator[dict[ColumnSet, np.ndarray[Any, Any]]]:
    """Yield the differences of all tables between neighbours."""
    points = [count_margins(np.array([cell]), TREE) for cell in CELLS]
    if changes.added:
        yield from points
    if changes.replaced:
        for one, other in product(points, points):
            yield {margin: one[margin] - other[margin] for margin in one}


@pytest.mark.parametrize("changes", CHANGES)
def test_the_worst_neighbours_use_all_of_epsilon_and_none_more(changes: Changes) -> None:
    made = LaplaceMargins.calibrated(TREE, changes, F(1))
    shares = [made.epsilon * F(each, sum(made.shares)) for each in made.shares]
    losses = []
    for move in moves(changes):
        loss = F(0)
        for margin, share in zip(made.sets, shares, strict=True):
            change = move[margin]
            if changes.replaced:  # the hull's norm of counts, with a cell for those not counted
                loss += share * F(
                    max(int(change[change > 0].sum()), -int(change[change < 0].sum()))
                )
            else:
                loss += share * int(np.abs(change).sum())
        losses.append(loss)
    assert max(losses) == made.epsilon
    # the control: to charge one level alone, as if the other followed from it
    assert max(losses) > max(shares)


@pytest.mark.parametrize("changes", CHANGES)
def test_gaussian_noise_is_charged_for_the_worst_neighbours(changes: Changes) -> None:
    made = GaussianResiduals.calibrated(TREE, changes, F(1, 2))
    weights = {
        A: TREE.size(A) ** 2 / variance
        for A, variance in zip(made.sets, made.variances, strict=True)
    }
    bound = squared_sensitivity(TREE, weights, changes)
    worst = F(0)
    for move in moves(changes):
        total = F(0)
        for A, weight in weights.items():
            margin = next(each for each in move if set(A) <= set(each))
            gone = tuple(place for place, i in enumerate(margin) if i not in A)
            own = exact(exact(move[margin]).sum(axis=gone))
            for axis, size in enumerate(TREE.shape(A)):
                own = own - own.sum(axis=axis, keepdims=True) * F(1, size)
            total += weight * sum((F(each) ** 2 for each in np.ravel(own)), F(0))
        worst = max(worst, total)
    assert worst <= bound
    assert bound / 2 <= made.rho
    assert worst > 0.6 * bound


# What follows from a release, and plans


def plan_again(plan: Plan) -> Plan:
    return pickle.loads(pickle.dumps(plan))  # type: ignore[no-any-return]


def test_a_plan_draws_the_same_wherever_it_goes() -> None:
    plan = calibrate(replace(ASKED, known=KNOWN), SCHEMA, Epsilon.parse("1"))
    data = data_of(SCHEMA)
    one, other = (each.draw(data, seeded_randomness(9)) for each in (plan, plan_again(plan)))
    assert one.value == other.value
    assert one.noise == other.noise


def test_conditions_choose_the_records_of_all_levels() -> None:
    asked = replace(ASKED, where=(Condition(column="county", op="==", value="q"),))
    value = drawn(asked, SCHEMA, "2000")
    require_agreement(value, "age")
    assert value["rows"] == people()["town"].count("c") + sum(
        people()["town"].count(each) for each in "de"
    )


def test_groups_have_levels_each() -> None:
    groups = drawn(replace(ASKED, by=("sex",)), SCHEMA, "1")["groups"]
    assert len(groups) == 2
    for each in groups:
        require_agreement(each["value"], "age")


def test_margins_of_any_level_are_free() -> None:
    epsilon = Epsilon.parse("1")
    plan = calibrate(ASKED, SCHEMA, epsilon)
    outcome = plan.draw(data_of(SCHEMA), seeded_randomness(6))
    released = Released(
        statistic=ASKED, value=outcome.value, noise=outcome.noise, mechanism=plan.mechanism,
        norm="auto", epsilon=epsilon, details=plan.details,
    )  # fmt: skip
    found = derive(Histogram(columns=("county",)), released, SCHEMA)
    cells: Any = found.value["cells"]
    county = {each["cell"]["county"]: each["count"] for each in cells}
    sums = dict.fromkeys(COUNTIES, 0)
    for (place, _), count in table(outcome.value, "county", "age").items():
        sums[place] += count
    assert county == sums


def test_synthetic_rows_have_the_levels_of_their_places() -> None:
    asked = viewed(ASKED, SCHEMA)
    value = drawn(ASKED, SCHEMA, "5")
    made = synthesize(asked.statistic, value, asked.view.schema, rows=400, seed=1)
    assert list(made.columns) == ["age", "nation", "county", "town"]
    for town, county, nation in zip(*(made.columns[each] for each in LEVELS[::-1]), strict=True):
        assert above(town, "county") == county
        assert above(town, "nation") == nation
    assert max(fit.total_variation for fit in made.fits) < 0.05
    assert made.unmeasured == []
