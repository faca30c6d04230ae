"""Margins that released tables cover: derived from one release, and combined from several."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import pytest

from mechanisms.catalog import calibrate
from mechanisms.combined import combine, squares
from mechanisms.contract import InvalidStatisticError, Noise, Outcome, Statistic
from mechanisms.derivations import Released, derivable, derive
from mechanisms.domain import CategoryColumn, NumberColumn, Schema
from mechanisms.privacy import Adjacency, Epsilon, Protected
from mechanisms.sketches import ArrayData
from mechanisms.statistics.conditions import Condition
from mechanisms.statistics.count import Count
from mechanisms.statistics.histogram import Histogram
from mechanisms.statistics.mean import Mean
from mechanisms.statistics.tables import Tables
from mechanisms.statistics.total import Sum
from mechanisms.testing import seeded_randomness
from tests.tiers import in_one

REPLACE, ADD = Adjacency.REPLACE_ONE, Adjacency.ADD_REMOVE
ROWS = 600
LETTERS = tuple("abcdefgh")
COLUMNS = {
    "a": CategoryColumn(LETTERS),
    "b": CategoryColumn(LETTERS),
    "c": CategoryColumn(LETTERS),
    "d": CategoryColumn(LETTERS),
    "age": NumberColumn(Fraction(0), Fraction(100), kind="integer"),
    "weight": NumberColumn(Fraction(0), Fraction(10)),
    "owner": NumberColumn(Fraction(0), Fraction(1), boolean=True),
}
EDGES = {"age": (0, 18, 40, 65, 100), "weight": (0, 2.5, 5, 10)}
ASKED = Tables(columns=("a", "age", "owner", "weight"), edges=EDGES)


def schema(adjacency: Adjacency = REPLACE) -> Schema:
    return Schema(COLUMNS, adjacency, ROWS if adjacency is REPLACE else None, 2000)


def sample() -> ArrayData:
    random = np.random.default_rng(4)
    letters = random.integers(0, 8, (ROWS, 4))
    letters[:, 1:] = np.where(random.random((ROWS, 3)) < 0.4, letters[:, :1], letters[:, 1:])
    values: dict[str, Any] = {
        name: [LETTERS[each] for each in letters[:, place].tolist()]
        for place, name in enumerate("abcd")
    }
    values["age"] = (random.integers(0, 60, ROWS) + 5 * letters[:, 0]).clip(0, 100).tolist()
    values["weight"] = random.uniform(0, 10, ROWS).tolist()
    values["owner"] = random.integers(0, 2, ROWS).tolist()
    return ArrayData.from_values(schema(), values)


DATA = sample()


def release(statistic: Statistic, facts: Schema, epsilon: str = "1", seed: int = 1) -> Released:
    """A release as it is stored: through JSON."""
    plan = calibrate(statistic, facts, Epsilon.parse(epsilon))
    outcome = plan.draw(DATA, seeded_randomness(seed)).settled()
    noise = outcome.noise
    parts = [outcome.value, noise and noise.std, noise and noise.interval_95, plan.details]
    value, std, interval, details = json.loads(json.dumps(parts))
    return Released(
        statistic=statistic,
        mechanism=plan.mechanism,
        norm=plan.norm,
        epsilon=Epsilon.parse(epsilon),
        value=value,
        noise=None if noise is None else Noise(std=std, interval_95=interval),
        details=details,
    )


def numbers(part: Any) -> list[float]:
    if isinstance(part, dict | list):
        children = part.values() if isinstance(part, dict) else part
        return [number for child in children for number in numbers(child)]
    return [] if isinstance(part, str) else [part]


def exact(statistic: Statistic) -> list[float]:
    """Return the exact answer: tables at an epsilon that leaves no noise."""
    return numbers(release(statistic, schema(ADD), "9000").value)


@pytest.mark.parametrize("adjacency", [REPLACE, ADD])
@pytest.mark.parametrize("raw", [True, False])
def test_every_table_follows_from_the_release_itself(adjacency: Adjacency, raw: bool) -> None:
    """Its own tables come back with their numbers, standard deviations and all."""
    asked, facts = replace(ASKED, raw=raw), schema(adjacency)
    one = release(asked, facts)
    found = derive(asked, one, facts)
    assert numbers(found.value) == pytest.approx(numbers(one.value), abs=1e-5 if raw else 0)
    assert isinstance(numbers(found.value)[0], int) is not raw
    assert found.noise is not None
    assert one.noise is not None
    assert numbers(found.noise.std) == pytest.approx(numbers(one.noise.std))
    if raw:
        assert numbers(found.noise.interval_95) == pytest.approx(
            numbers(one.noise.interval_95), abs=1e-4
        )
    else:
        for low, high in zip(*[iter(numbers(found.noise.interval_95))] * 2, strict=True):
            assert 0 <= low <= high <= 2000


MERGED = [
    Histogram(columns=("a",)),
    Histogram(columns=("age", "a"), edges={"age": (0, 40, 100)}),
    Histogram(columns=("age",), edges={"age": (0, 18, 65, 100)}),
    Tables(
        columns=("owner", "weight"), edges={"weight": (0, 5, 10)}, margins="all_one_way", raw=True
    ),
    Count(where=(Condition(column="a", op="in", value=("a", "c")),)),
    Count(
        where=(
            Condition(column="a", op="!=", value="b"),
            Condition(column="age", op=">=", value=40),
        )
    ),
    Count(where=(Condition(column="age", op="<=", value=17),)),
    Count(where=(Condition(column="weight", op="<", value=5),)),
    Histogram(columns=("a",), where=(Condition(column="owner", op="==", value=True),)),
    Histogram(
        columns=("age",),
        edges={"age": (0, 40, 100)},
        where=(Condition(column="a", op="==", value="a"),),
    ),
]


SEEDS = 100


@cache
def raw_releases() -> list[Released]:
    raw = replace(ASKED, raw=True)
    plan = calibrate(raw, schema(ADD), Epsilon.parse("1"))
    return [
        Released(
            statistic=raw,
            mechanism="margins",
            norm=None,
            epsilon=Epsilon.parse("1"),
            value=plan.draw(DATA, seeded_randomness(seed)).value,
            noise=None,
            details={},
        )
        for seed in range(SEEDS)
    ]


@in_one("statistic", MERGED)
def test_merged_cells_are_sums_with_their_variance(statistic: Statistic) -> None:
    """Unbiased, and as noisy as stated, over 100 raw releases: within five standard errors."""
    facts, drawn, stated = schema(ADD), [], []
    for one in raw_releases():
        outcome = derive(statistic, one, facts)
        assert outcome.noise is not None
        drawn.append(numbers(outcome.value))
        stated = numbers(outcome.noise.std)
    found, std = np.array(drawn), np.array(stated)
    centre = np.array(exact(statistic))
    assert np.all(np.abs(found.mean(axis=0) - centre) < 5 * std / SEEDS**0.5)
    # a fourth moment of at most 6 variances squared: that of a Laplace variable
    assert np.all(np.abs(found.var(axis=0) / std**2 - 1) < 5 * (5 / SEEDS) ** 0.5)
    # negative control: as if the cells that are merged had independent noise
    if isinstance(statistic, Count) and len(statistic.where) == 2:
        cells = derive(Histogram(columns=("a", "age"), edges=EDGES_OF_AGE), one, facts)
        assert cells.noise is not None
        wrong = 14 * numbers(cells.noise.std)[0] ** 2
        assert abs(float(found.var()) / wrong - 1) > 0.05


EDGES_OF_AGE = {"age": EDGES["age"]}


def test_sums_agree_and_are_whole_where_counts_are() -> None:
    one = release(ASKED, schema(), "0.3")
    both = derive(Histogram(columns=("a", "age"), edges=EDGES_OF_AGE), one, schema())
    alone = derive(Histogram(columns=("age",), edges=EDGES_OF_AGE), one, schema())
    table = np.array(numbers(both.value)).reshape(8, 4)
    assert table.sum(axis=0).tolist() == numbers(alone.value)
    assert all(isinstance(each, int) and each >= 0 for each in numbers(both.value))


@pytest.mark.statistical
def test_intervals_of_whole_counts_hold_the_exact_ones() -> None:
    """At least 93% of all derived cells over 60 releases, less five standard errors."""
    asked = Histogram(columns=("age", "a"), edges={"age": (0, 40, 100)})
    centre, held = np.array(exact(asked)), []
    plan = calibrate(ASKED, schema(), Epsilon.parse("0.5"))
    for seed in range(60):
        value = plan.draw(DATA, seeded_randomness(seed)).value
        one = Released(
            statistic=ASKED, mechanism="margins", norm=None, epsilon=Epsilon.parse("0.5"),
            value=value, noise=None, details={},
        )  # fmt: skip
        outcome = derive(asked, one, schema())
        assert outcome.noise is not None
        ends = np.array(numbers(outcome.noise.interval_95)).reshape(-1, 2)
        held.append((ends[:, 0] <= centre) & (centre <= ends[:, 1]))
    share = float(np.mean(held))
    assert share > 0.93 - 5 * (0.93 * 0.07 / 60) ** 0.5


@in_one(
    ("statistic", "words"),
    [
        (Histogram(columns=("a", "b")), "columns together: b"),
        (Tables(columns=("a", "age", "owner"), edges=EDGES_OF_AGE, margins="all_three_way"),
         "columns together"),
        (Histogram(columns=("age",), edges={"age": (0, 30, 100)}), "edges of age"),
        (Count(where=(Condition(column="age", op=">", value=40),)), "condition on age"),
        (Count(where=(Condition(column="age", op="==", value=40),)), "condition on age"),
        (Count(where=(Condition(column="weight", op="<=", value=5),)), "condition on weight"),
        (Tables(columns=("a",), margins="all_one_way", raw=True), "unbiased"),
        (Mean(columns=("age",)), "does not determine"),
        (Count(where=(Condition(column="b", op="==", value="a"),)), "columns together: b"),
    ],
)  # fmt: skip
def test_what_the_tables_do_not_cover_is_refused(statistic: Statistic, words: str) -> None:
    facts = schema(ADD)
    with pytest.raises(InvalidStatisticError, match=words):
        derive(statistic, release(ASKED, facts), facts)


def test_a_release_says_what_can_be_derived_from_it() -> None:
    words = derivable(release(ASKED, schema()), schema())
    assert words.startswith("tables, ")
    assert "histogram" in words
    assert words.endswith("of a, age, owner, weight")


# Several releases


def together(
    statistic: Statistic, parts: Sequence[Released], facts: Schema, *, dense: bool
) -> Outcome:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(squares, "MOST_ATOMS", 1000 if dense else 0)
        return combine(statistic, parts, facts)


@pytest.mark.parametrize("adjacency", [REPLACE, ADD])
def test_residual_by_residual_is_least_squares_of_all_cells(adjacency: Adjacency) -> None:
    """The same numbers as solving for all cells at once, and the same standard deviations."""
    facts = schema(adjacency)
    parts = [
        release(Histogram(columns=("a", "owner")), facts, "1", 1),
        release(Histogram(columns=("age", "a"), edges=EDGES_OF_AGE), facts, "0.5", 2),
        release(Histogram(columns=("a",)), facts, "0.7", 3),
    ]
    for wanted in (
        Histogram(columns=("a",)),
        Histogram(columns=("age", "a"), edges=EDGES_OF_AGE),
        Histogram(columns=("owner",)),
    ):
        one, other = (together(wanted, parts, facts, dense=dense) for dense in (True, False))
        assert numbers(one.value) == pytest.approx(numbers(other.value), abs=1e-3)
        assert one.noise is not None
        assert other.noise is not None
        assert numbers(one.noise.std) == pytest.approx(numbers(other.noise.std), rel=1e-4)
    # negative control: weights of another release
    wrong = [replace(parts[0], epsilon=Epsilon.parse("0.2")), *parts[1:]]
    off = together(Histogram(columns=("a",)), wrong, facts, dense=False)
    right = together(Histogram(columns=("a",)), parts, facts, dense=False)
    assert numbers(off.value) != pytest.approx(numbers(right.value), abs=1e-3)


def test_three_tables_of_8_by_8_over_4_columns_are_combined() -> None:
    facts = schema()
    parts = [
        release(Histogram(columns=pair), facts, "2", seed)
        for seed, pair in enumerate([("a", "b"), ("b", "c"), ("c", "d")])
    ]
    for name in "abcd":
        found = combine(Histogram(columns=(name,)), parts, facts)
        assert sum(numbers(found.value)) == pytest.approx(ROWS, abs=1e-3)
        assert found.noise is not None
        for each in parts:
            if name in each.statistic.columns:  # type: ignore[attr-defined]
                # of eight cells, each with the noise of a histogram's
                assert each.noise is not None
                summed = 8**0.5 * numbers(each.noise.std)[0]
                assert numbers(found.noise.std)[0] < 1.01 * summed
    table = np.array(numbers(combine(Histogram(columns=("b", "c")), parts, facts).value))
    margin = numbers(combine(Histogram(columns=("b",)), parts, facts).value)
    assert table.reshape(8, 8).sum(axis=1).tolist() == pytest.approx(margin, abs=1e-6)
    with pytest.raises(InvalidStatisticError, match="columns together: a, d"):
        combine(Histogram(columns=("a", "d")), parts, facts)


def test_tables_and_histograms_are_combined_into_whole_tables_that_agree() -> None:
    facts = schema()
    asked = Tables(columns=("a", "b", "owner"))
    parts = [
        release(asked, facts, "1", 1),
        release(Histogram(columns=("a", "b")), facts, "3", 2),
        release(replace(asked, raw=True), facts, "1", 3),
    ]
    found = combine(asked, parts, facts)
    tables = {tuple(each["columns"]): each for each in found.value["tables"]}
    own = {
        pair: np.array(numbers(table["cells"])).reshape([len(LETTERS) if n != "owner" else 2
                                                         for n in pair])
        for pair, table in tables.items()
    }  # fmt: skip
    assert all(isinstance(each, int) and each >= 0 for each in numbers(found.value))
    assert own["a", "b"].sum(axis=1).tolist() == own["a", "owner"].sum(axis=1).tolist()
    assert found.value["rows"] == ROWS
    raw = combine(replace(asked, raw=True), parts, facts)
    assert raw.noise is not None
    alone = release(replace(asked, raw=True), facts, "1", 3)
    assert alone.noise is not None
    pairs = zip(numbers(raw.noise.std), numbers(alone.noise.std), strict=True)
    assert all(one < other for one, other in pairs if other)
    distance = np.abs(np.array(numbers(raw.value)) - np.array(numbers(found.value))).mean()
    assert distance < 3


def test_what_cannot_be_combined_is_refused() -> None:
    facts = schema()
    one = release(ASKED, facts)
    coarse = release(Histogram(columns=("age",), edges={"age": (0, 40, 100)}), facts)
    with pytest.raises(InvalidStatisticError, match="different cells of age"):
        combine(Histogram(columns=("a",)), [one, coarse], facts)
    with pytest.raises(InvalidStatisticError, match="says nothing about tables"):
        combine(Histogram(columns=("a",)), [one, release(Sum(columns=("age",)), facts)], facts)
    two = [one, release(ASKED, facts, "1", 2)]
    wanted = Tables(columns=("age", "owner"), edges={"age": (0, 40, 100)})
    with pytest.raises(InvalidStatisticError, match="cells and the records"):
        combine(wanted, two, facts)
    assert combine(replace(wanted, raw=True), two, facts).value["rows"] == ROWS


def test_several_rows_of_a_person_count_in_both() -> None:
    facts = replace(schema(ADD), protects=Protected(rows=3))
    one = release(ASKED, facts, "3")
    found = derive(ASKED, one, facts)
    assert found.noise is not None
    assert one.noise is not None
    assert numbers(found.noise.std) == pytest.approx(numbers(one.noise.std))


def test_conditions_of_the_release_itself_are_the_same_records() -> None:
    where = (Condition(column="b", op="==", value="a"),)
    asked = replace(ASKED, where=where)
    one = release(asked, schema())
    found = derive(Histogram(columns=("a",), where=where), one, schema())
    table = np.array(numbers(one.value["tables"][0]["cells"])).reshape(8, 4)
    assert numbers(found.value) == table.sum(axis=1).tolist()
    with pytest.raises(InvalidStatisticError):
        derive(Histogram(columns=("a",)), one, schema())


def test_cells_of_whole_numbers_are_selected_one_by_one() -> None:
    narrow = replace(
        schema(ADD), columns={"n": NumberColumn(Fraction(1), Fraction(5), kind="integer")}
    )
    asked = Tables(columns=("n",), edges={"n": "values"}, margins="all_one_way")
    value = asked.answer(narrow, {(0,): [1, 2, 4, 8, 16]}, 31)
    one = Released(
        statistic=asked,
        mechanism="margins",
        norm=None,
        epsilon=Epsilon.parse("1"),
        value=value,
        noise=None,
        details={},
    )
    for op, number, wanted in (
        ("==", 1, 1), ("==", 5, 16), ("!=", 3, 27), ("in", (1, 3), 5), ("<", 3, 3),
        ("<=", 4, 15), (">", 1, 30), (">=", 5, 16),
    ):  # fmt: skip
        where = (Condition(column="n", op=op, value=number),)  # type: ignore[arg-type]
        assert derive(Count(where=where), one, narrow).value == {"count": wanted}
