"""Histograms with `ranges`: sensitivity, variances in closed form, curves that never fall."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise, product
from math import sqrt
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mechanisms.catalog import PlanChangedError, calibrate, read_plan, written_plan
from mechanisms.combined.squares import combine
from mechanisms.contract import InvalidStatisticError, Outcome
from mechanisms.derivations import Released, derive
from mechanisms.domain import NumberColumn, Schema
from mechanisms.privacy import Adjacency, Epsilon
from mechanisms.sketches import ArrayData
from mechanisms.statistics.conditions import Condition
from mechanisms.statistics.count import Count
from mechanisms.statistics.histogram import Histogram
from mechanisms.statistics.quantile import Quantile
from mechanisms.tables.ranges import STEP, Law, RangeTree, candidates, whole_curve
from mechanisms.tables.sensitivities import Changes
from mechanisms.testing import seeded_randomness
from tests.mechanisms.proof import COLUMNS, record
from tests.tiers import in_one

REPLACE, ADD = Adjacency.REPLACE_ONE, Adjacency.ADD_REMOVE
REPLACED = Changes(replaced=True, added=False)
ADDED = Changes(replaced=False, added=True)
BOTH = Changes(replaced=True, added=True)
EVERY = [REPLACED, ADDED, BOTH]
ROWS = 2_000
AGES = 128
SHOWN: dict[str, Any] = {"age": NumberColumn(Fraction(0), Fraction(AGES - 1), kind="integer")}
ASKED = Histogram(columns=("age",), edges={"age": "values"}, ranges=True)
STORED = [0, 0, 1996, 1997]
LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)


def schema(adjacency: Adjacency = ADD, *, zcdp: bool = False) -> Schema:
    return Schema({**COLUMNS, **SHOWN}, adjacency, ROWS if adjacency is REPLACE else None, 5_000,
                  zcdp=zcdp)  # fmt: skip


def data(ages: np.ndarray[Any, Any]) -> ArrayData:
    rows = [{**record(yes=int(age) % 2), "age": int(age)} for age in ages]
    values = {name: [each[name] for each in rows] for name in (*COLUMNS, *SHOWN)}
    return ArrayData.from_values(schema(REPLACE), values)


AGE = np.random.default_rng(3).normal(50, 15, ROWS).round().clip(0, AGES - 1).astype(int)
DATA = data(AGE)
TRUE = np.bincount(AGE, minlength=AGES)


def released(asked: Histogram, facts: Schema, *, epsilon: str = "1", seed: int = 1) -> Any:
    plan = calibrate(asked, facts, Epsilon.parse(epsilon))
    outcome = plan.draw(DATA, seeded_randomness(seed)).settled()
    return Released(
        statistic=asked,
        mechanism=plan.mechanism,
        norm=plan.norm,
        epsilon=Epsilon.parse(epsilon),
        value=outcome.value,
        noise=outcome.noise,
        details=plan.details,
    )


# Sensitivity


def changes_of(cells: int, changes: Changes) -> list[list[int]]:
    """All that one record does to the counts of cells."""
    units = np.eye(cells, dtype=int)
    found = [u - v for u, v in product(units, units) if changes.replaced]
    found += [sign * u for u in units for sign in (1, -1) if changes.added]
    return [each.tolist() for each in found]


def cost(tree: RangeTree, change: list[int]) -> Fraction:
    """What a change costs: epsilon with Laplace noise, rho with Gaussian noise."""
    total = Fraction(0)
    for width, noise in zip(tree.widths, tree.noise, strict=True):
        moved = [sum(change[at : at + width]) for at in range(0, tree.cells, width)]
        if tree.law == "laplace":
            total += noise * sum(map(abs, moved))
        else:
            total += sum(each**2 for each in moved) / (2 * noise)
    return total


@in_one("changes", EVERY)
@in_one("law", ["laplace", "gaussian"])
@in_one("cells", [2, 5, 16, 40])
def test_the_worst_neighbours_cost_what_is_charged(cells: int, law: Any, changes: Changes) -> None:
    charged = Fraction(3) if law == "laplace" else Fraction(9, 2)
    for widths in candidates(cells, rooted=changes.added):
        tree = RangeTree.split(cells, changes, Fraction(3), law, widths)
        worst = max(cost(tree, each) for each in changes_of(cells, changes))
        assert worst <= charged
        # a block of all cells is not moved by a replacement: then a part is spared
        if changes is not BOTH or widths[0] < cells:
            assert worst > 0.99 * charged


def test_noise_for_one_changed_count_of_a_level_is_caught() -> None:
    """The control: records that come and go move one count of each level, replaced ones two."""
    charges: dict[Law, Fraction] = {"laplace": Fraction(3), "gaussian": Fraction(9, 2)}
    for law, charged in charges.items():
        tree = RangeTree.calibrated(40, ADDED, Fraction(3), law)
        assert max(cost(tree, each) for each in changes_of(40, REPLACED)) > charged


def test_parameters_of_other_blocks_are_refused() -> None:
    for widths in ((3, 2, 1), (4, 2), (2, 1, 1)):
        with pytest.raises(ValueError, match="blocks"):
            RangeTree(8, ADDED, "laplace", widths, (Fraction(1),) * 2)
    with pytest.raises(ValueError, match="positive"):
        RangeTree(8, ADDED, "laplace", (1,), (Fraction(0),))
    with pytest.raises(ValueError, match="positive"):
        RangeTree.calibrated(8, ADDED, Fraction(0))


# Least squares, against linear algebra


def covariance(tree: RangeTree) -> tuple[Any, Any, Any]:
    """The design, its weights and the covariance of the least squares estimate of cells."""
    rows, variances = [], []
    for width, variance in zip(tree.widths, tree.variances, strict=True):
        for at in range(0, tree.cells, width):
            rows.append([at <= cell < at + width for cell in range(tree.cells)])
            variances.append(variance)
    if tree.changes.records_known:
        rows.append([True] * tree.cells)
        variances.append(1e-7)
    design, weights = np.array(rows, dtype=float), 1 / np.array(variances)
    return design, weights, np.linalg.inv(design.T @ (design * weights[:, None]))


TREES = [
    (cells, changes, law, widths)
    for changes in EVERY
    for law, cells, widths in (
        ("laplace", 18, (9, 3, 1)),
        ("laplace", 17, (6, 2, 1)),
        ("gaussian", 16, (8, 4, 2, 1)),
        ("gaussian", 13, (8, 2, 1)),
        ("laplace", 6, (1,)),
    )
]


@in_one(("cells", "changes", "law", "widths"), TREES)
def test_estimates_are_those_of_least_squares(
    cells: int, changes: Changes, law: Any, widths: tuple[int, ...]
) -> None:
    tree = RangeTree(cells, changes, law, widths, (Fraction(1, 3),) * len(widths))
    design, weights, spread = covariance(tree)
    generator = np.random.default_rng(4)
    measured = [generator.integers(-5, 50, size).tolist() for size in tree.sizes]
    known = 200 if changes.records_known else None
    flat = [each for level in measured for each in level] + ([known] if known else [])
    expected = np.cumsum(spread @ (design.T @ (weights * np.array(flat))))
    assert np.array(tree.estimate(measured, known)) / STEP == pytest.approx(expected, abs=1e-3)
    own, below = tree.deviations()
    sums = np.tril(np.ones((cells, cells)))
    assert own == pytest.approx(np.sqrt(np.diag(spread)), abs=1e-3)
    assert below**2 == pytest.approx(np.diag(sums @ spread @ sums.T), abs=1e-4)


@in_one("changes", EVERY)
@in_one(("cells", "widths"), [(16, (4, 1)), (18, (9, 3, 1)), (17, (6, 2, 1))])
def test_the_score_is_the_mean_variance_of_all_ranges(
    cells: int, widths: tuple[int, ...], changes: Changes
) -> None:
    tree = RangeTree(cells, changes, "laplace", widths, (Fraction(1, 2),) * len(widths))
    _, _, spread = covariance(tree)
    ranges = [spread[a:b, a:b].sum() for a in range(cells) for b in range(a + 1, cells + 1)]
    mean = float(np.mean(ranges))
    if cells % widths[0]:  # narrow blocks know more
        assert mean <= tree.mean_variance() + 1e-6 < 1.2 * mean
    else:
        assert tree.mean_variance() == pytest.approx(mean, rel=1e-4)


def test_a_split_is_near_the_best_that_a_search_finds() -> None:
    laws: tuple[Law, ...] = ("laplace", "gaussian")
    for law in laws:
        tree = RangeTree.split(100, ADDED, Fraction(1), law, (10, 1))
        scores = []
        for share in np.linspace(0.05, 0.95, 181).tolist():
            own = (Fraction(share), Fraction(1 - share))
            noise = own if law == "laplace" else tuple(1 / each for each in own)
            scores.append(RangeTree(100, ADDED, law, (10, 1), noise).mean_variance())
        assert tree.mean_variance() <= 1.001 * min(scores)


def test_a_thousand_cells_have_half_the_error_of_a_histogram() -> None:
    tree = RangeTree.calibrated(1024, ADDED, Fraction(1))
    flat = RangeTree(1024, ADDED, "laplace", (1,), (Fraction(1),))
    assert sqrt(tree.mean_variance()) < 12.5
    assert sqrt(flat.mean_variance()) > 25.9
    gaussian = RangeTree.calibrated(1024, ADDED, Fraction(1), "gaussian")
    assert sqrt(gaussian.mean_variance()) < 4.3
    generator, errors = np.random.default_rng(5), []
    ends = np.triu_indices(1025, 1)
    counts = generator.multinomial(5_000, [1 / 1024] * 1024)
    for seed in range(12):
        measured = tree.draw(counts.tolist(), seeded_randomness(seed))
        curve = whole_curve(tree.estimate(measured, None), None)
        off = np.concatenate([[0], curve - np.cumsum(counts)])
        errors.append(np.mean((off[ends[1]] - off[ends[0]]) ** 2))
    assert sqrt(float(np.mean(errors))) < 14  # of twelve draws, whose errors are correlated


# Curves


@given(st.lists(st.integers(-20 * STEP, 60 * STEP), min_size=1, max_size=40), st.booleans())
def test_curves_rise_within_their_limits(raw: list[int], known: bool) -> None:
    records = 30 if known else None
    curve = whole_curve(raw, records)
    assert all(before <= after for before, after in pairwise([0, *curve]))
    assert not known or curve[-1] == 30
    # the least squares curve by its formula: the largest mean of starts, of the least of ends
    free = raw[:-1] if known else raw
    for at, value in enumerate(curve[: len(free)]):
        means = [
            min(Fraction(sum(free[a : b + 1]), b - a + 1) for b in range(at, len(free)))
            for a in range(at + 1)
        ]
        best = max(*means, Fraction(0)) / STEP
        assert abs((min(best, Fraction(30)) if known else best) - value) <= Fraction(1, 2)


@pytest.mark.parametrize("adjacency", [REPLACE, ADD])
@pytest.mark.parametrize("zcdp", [False, True])
def test_answers_agree_and_intervals_hold(adjacency: Adjacency, zcdp: bool) -> None:
    facts, inside, quantiles = schema(adjacency, zcdp=zcdp), [], []
    true = np.cumsum(TRUE)
    for seed in range(20):
        found = released(ASKED, facts, epsilon="0.3", seed=seed)
        cells = found.value["cells"]
        curve = [each["cumulative"] for each in cells]
        assert np.cumsum([each["count"] for each in cells]).tolist() == curve
        assert min(each["count"] for each in cells) >= 0
        assert adjacency is ADD or curve[-1] == ROWS
        ends = found.noise.interval_95["cells"]
        for each, count, below in zip(ends, TRUE, true, strict=True):
            inside.append(each["count"][0] <= count <= each["count"][1])
            inside.append(each["cumulative"][0] <= below <= each["cumulative"][1])
        read = derive(Quantile(column="age", levels=LEVELS), found, facts)
        levels: Any = read.value["quantiles"]
        values = [each["value"] for each in levels]
        assert values == sorted(values)
        assert read.noise is not None
        sure: Any = read.noise.interval_95["quantiles"]
        for each, level in zip(sure, LEVELS, strict=True):
            low, high = each["value"]
            quantiles.append(low <= np.quantile(AGE, level, method="inverted_cdf") <= high)
    assert np.mean(inside) > 0.93
    assert np.mean(quantiles) > 0.93


def test_quantiles_without_noise_are_those_of_the_rows() -> None:
    for levels in (LEVELS, tuple(each / 50 for each in range(1, 50))):
        found = released(ASKED, schema(), epsilon="10000")
        read = derive(Quantile(column="age", levels=levels), found, schema())
        values: Any = read.value["quantiles"]
        wanted = np.quantile(AGE, levels, method="inverted_cdf").tolist()
        assert [each["value"] for each in values] == wanted


def test_quantiles_of_fractions_are_spread_over_their_cells() -> None:
    asked = Histogram(columns=("x",), edges={"x": (-1, 0, 1)}, ranges=True)
    value = {"cells": [{"count": 4, "cumulative": 4}, {"count": 4, "cumulative": 8}]}
    reading = Quantile(column="x", levels=(0.25, 0.5, 0.75)).reading(asked, schema())
    assert reading is not None
    found: Any = reading(Outcome(value=value, noise=None)).value["quantiles"]
    assert [each["value"] for each in found] == [-0.5, 0.0, 0.5]


def test_other_columns_and_plain_histograms_have_no_quantiles() -> None:
    plain = replace(ASKED, ranges=False)
    assert Quantile(column="age", levels=(0.5,)).reading(plain, schema()) is None
    assert Quantile(column="x", levels=(0.5,)).reading(ASKED, schema()) is None
    found = released(ASKED, schema())
    with pytest.raises(InvalidStatisticError):
        combine(Count(), [found, found], schema())


def test_conditions_and_groups_are_as_those_of_any_histogram() -> None:
    for adjacency in (REPLACE, ADD):
        facts = schema(adjacency)
        some = replace(ASKED, where=(Condition(column="yes", op="==", value=True),))
        value: Any = released(some, facts, epsilon="10000").value
        odd = np.bincount(AGE[AGE % 2 == 1], minlength=AGES).tolist()
        assert [each["count"] for each in value["cells"]] == odd
        value = released(replace(ASKED, by=("yes",)), facts, epsilon="10000").value
        shown = [[each["count"] for each in group["value"]["cells"]] for group in value["groups"]]
        assert shown == [(TRUE - odd).tolist(), odd]


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        (Histogram(columns=("group",), ranges=True), "number column"),
        (Histogram(columns=("yes",), ranges=True), "number column"),
        (replace(ASKED, columns=("age", "group")), "one number column"),
        (replace(ASKED, weights="x"), "never negative"),
        (replace(ASKED, edges={}), "edges"),
    ],
)
def test_what_has_no_ranges_is_refused(asked: Histogram, says: str) -> None:
    with pytest.raises(InvalidStatisticError, match=says):
        calibrate(asked, schema(), Epsilon.parse("1"))


WEIGHED = {**SHOWN, "w": NumberColumn(Fraction(0), Fraction(4))}


def weighed(adjacency: Adjacency, rows: int = ROWS) -> Schema:
    return Schema(WEIGHED, adjacency, rows if adjacency is REPLACE else None, 5_000)


def weighed_data(rows: list[tuple[int, float]]) -> ArrayData:
    ages, weights = [age for age, _ in rows], [weight for _, weight in rows]
    return ArrayData.from_values(weighed(REPLACE, len(rows)), {"age": ages, "w": weights})


@pytest.mark.parametrize("adjacency", [REPLACE, ADD])
def test_weighted_ranges_are_sums_of_weights(adjacency: Adjacency) -> None:
    weights = np.where(AGE > 50, 4.0, 1.0)
    facts, asked = weighed(adjacency), replace(ASKED, weights="w")
    plan = calibrate(asked, facts, Epsilon.parse("10000"))
    rows = weighed_data(list(zip(AGE.tolist(), weights.tolist(), strict=True)))
    outcome = plan.draw(rows, seeded_randomness(3)).settled()
    value: Any = outcome.value
    true = np.bincount(AGE, weights=weights, minlength=AGES)
    assert [each["count"] for each in value["cells"]] == pytest.approx(true.tolist(), abs=2)
    curve = [each["cumulative"] for each in value["cells"]]
    assert curve == pytest.approx(np.cumsum(true).tolist(), abs=2)
    assert all(before <= after for before, after in pairwise(curve))
    one = Released(
        statistic=asked, mechanism="k_norm", norm="l1", epsilon=Epsilon.parse("10000"),
        value=value, noise=outcome.noise, details=plan.details,
    )  # fmt: skip
    median = Quantile(column="age", levels=(0.5,), weights="w")
    found: Any = derive(median, one, facts).value
    below = weights[found["quantiles"][0]["value"] >= AGE].sum()
    assert below == pytest.approx(weights.sum() / 2, rel=0.06)
    with pytest.raises(InvalidStatisticError):
        derive(replace(median, weights=None), one, facts)


def test_small_weights_are_not_rounded_away() -> None:
    """Weights that add up to 1, say: their sums are parts of the largest, and not whole numbers."""
    columns = {**SHOWN, "w": NumberColumn(Fraction(0), Fraction(1, 1000))}
    facts, asked = replace(weighed(REPLACE), columns=columns), replace(ASKED, weights="w")
    rows = ArrayData.from_values(facts, {"age": AGE.tolist(), "w": [1 / 1000] * ROWS})
    outcome = calibrate(asked, facts, Epsilon.parse("10000")).draw(rows, seeded_randomness(3))
    drawn: Any = outcome.settled()
    true = np.cumsum(np.bincount(AGE, minlength=AGES)) / 1000
    curve = [each["cumulative"] for each in drawn.value["cells"]]
    assert curve == pytest.approx(true.tolist(), abs=0.001)
    spread = [each["cumulative"] for each in drawn.noise.std["cells"]]
    assert 0 < max(spread) < 0.001


@pytest.mark.parametrize("law", ["laplace", "gaussian"])
@pytest.mark.parametrize("adjacency", [REPLACE, ADD])
def test_neighbours_of_weighted_ranges_cost_at_most_epsilon(adjacency: Adjacency, law: Law) -> None:
    """Every pair of records: the noise of all levels costs what is charged, and not less."""
    facts, asked = (
        weighed(adjacency, 1),
        replace(ASKED, edges={"age": [0, 32, 64, 96]}, weights="w"),
    )
    mechanism = "k_norm" if law == "laplace" else "gaussian"
    facts = replace(facts, zcdp=law == "gaussian")
    plan = calibrate(asked, facts, Epsilon.parse("1"), mechanism=mechanism)
    drawing: Any = plan.parameters.drawing(asked._in_order(), facts).draw
    tree: RangeTree = drawing.tree
    records = [[], *([(age, w)] for age in (1, 40, 70, 120) for w in (0, 1, 4))]
    sets = [np.array(drawing.statistic.counted(weighed_data(each), facts)) for each in records[1:]]
    nothing = [np.zeros_like(sets[0])]
    pairs = [*product(sets, sets if adjacency is REPLACE else nothing)]

    def cost(noises: Any, one: Any, other: Any) -> float:
        total = 0.0
        for width, noise in zip(tree.widths, noises, strict=True):
            moved = [sum((one - other)[at : at + width]) for at in range(0, tree.cells, width)]
            if law == "laplace":
                total += float(noise) * sum(map(abs, moved))
            else:
                total += sum(each**2 for each in moved) / (2 * float(noise))
        return total

    charged = 1.0 if law == "laplace" else 0.5
    worst = max(cost(tree.noise, *pair) for pair in pairs)
    assert charged * 0.75 < worst <= charged * 1.000001
    # negative control: noise for whole records, and counts in parts
    whole = RangeTree.split(tree.cells, tree.changes, Fraction(1), law, tree.widths)
    assert whole.widths == tree.widths
    assert max(cost(whole.noise, *pair) for pair in pairs) > 1000 * charged


def test_other_norms_are_refused_and_the_smaller_noise_is_taken() -> None:
    for norm in ("optimal", "l2", "linf"):
        with pytest.raises(InvalidStatisticError, match="norms l1"):
            calibrate(ASKED, schema(), Epsilon.parse("1"), norm=norm)
    best = calibrate(ASKED, schema(zcdp=True), Epsilon.parse("1"))
    named = calibrate(ASKED, schema(zcdp=True), Epsilon.parse("1"), norm="l1")
    assert (best.mechanism, named.mechanism) == ("gaussian", "k_norm")
    assert best.alternatives[0].mechanism == "k_norm"
    assert best.details["std_of_ranges"] < named.details["std_of_ranges"]  # type: ignore[operator]
    assert best.guarantee.zcdp == named.guarantee.zcdp


def test_stored_parameters_are_drawn_as_they_were() -> None:
    """Whatever would be calibrated today: else stored plans must be refused."""
    asked = Histogram(columns=("x",), edges={"x": (-1, -0.5, 0, 0.5, 1)}, ranges=True)
    plan = calibrate(asked, schema(), Epsilon.parse("1"))
    kept: Any = json.loads(json.dumps(written_plan(plan)))
    noise = {"by": "ranges", "law": "laplace", "widths": [2, 1], "noise": ["1/2", "1/2"]}
    stored = read_plan({**kept, "parameters": {"by": "rows", "viewed": noise}}, asked, schema())
    value: Any = stored.draw(DATA, seeded_randomness(7)).value
    assert [each["cumulative"] for each in value["cells"]] == STORED
    for wrong in ({"widths": [3, 2]}, {"noise": ["1/2"]}, {"law": "cauchy"}):
        changed = {**kept, "parameters": {"by": "rows", "viewed": {**noise, **wrong}}}
        with pytest.raises(PlanChangedError):
            read_plan(changed, asked, schema())
