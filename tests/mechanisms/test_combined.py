"""Combined releases: least squares by the noise's own variances, and totals that agree exactly."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest

from mechanisms.catalog import calibrate
from mechanisms.combined import combine, combining_ms
from mechanisms.contract import InvalidStatisticError, Noise, Statistic
from mechanisms.derivations import Released
from mechanisms.domain import CategoryColumn, NumberColumn, Schema
from mechanisms.privacy import Adjacency, Epsilon, Protected
from mechanisms.sketches import ArrayData
from mechanisms.statistics.conditions import Condition
from mechanisms.statistics.count import Count
from mechanisms.statistics.histogram import Histogram
from mechanisms.statistics.mean import Mean
from mechanisms.statistics.moments import Moments
from mechanisms.statistics.quantile import Quantile
from mechanisms.statistics.stack import Part, Stack
from mechanisms.statistics.total import Sum
from mechanisms.testing import seeded_randomness
from tests.tiers import in_one

REPLACE, ADD = Adjacency.REPLACE_ONE, Adjacency.ADD_REMOVE
ROWS = 300
COLUMNS = {
    "x": NumberColumn(Fraction(0), Fraction(10)),
    "y": NumberColumn(Fraction(-4), Fraction(2)),
    "group": CategoryColumn(("a", "b", "c")),
    "kind": CategoryColumn(("u", "v")),
}
GROUP, KIND = Histogram(columns=("group",)), Histogram(columns=("kind",))
BOTH = Histogram(columns=("group", "kind"))
WHERE = (Condition(column="x", op=">", value=5),)


def schema(adjacency: Adjacency) -> Schema:
    return Schema(COLUMNS, adjacency, ROWS if adjacency is REPLACE else None, max_rows=1000)


def sample() -> ArrayData:
    random = np.random.default_rng(1)
    return ArrayData.from_values(
        schema(REPLACE),
        {
            "x": list(random.uniform(0, 10, ROWS)),
            "y": list(random.uniform(-4, 2, ROWS)),
            "group": [("a", "b", "c")[code] for code in random.integers(0, 3, ROWS)],
            "kind": [("u", "v")[code] for code in random.integers(0, 2, ROWS)],
        },
    )


DATA = sample()


def release(
    statistic: Statistic, adjacency: Adjacency, epsilon: str, *, norm: str = "auto", seed: int = 1
) -> Released:
    """A release as it is stored: through JSON."""
    plan = calibrate(statistic, schema(adjacency), Epsilon.parse(epsilon), norm=norm)
    outcome = plan.draw(DATA, seeded_randomness(seed))
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
    return [] if isinstance(part, str) else [float(part)]


def stds(answer: Any) -> list[float]:
    return numbers(answer.noise.std)


# Single numbers: the mean by weights


@in_one("adjacency", [REPLACE, ADD])
@in_one("norm", ["l1", "l2", "linf"])
def test_sums_are_weighted_by_their_variances(adjacency: Adjacency, norm: str) -> None:
    asked = Sum(columns=("x",))
    parts = [
        release(asked, adjacency, epsilon, norm=norm, seed=seed)
        for seed, epsilon in enumerate(("0.5", "1", "0.25"))
    ]
    found = combine(asked, parts, schema(adjacency))
    weights = [1 / stds(part)[0] ** 2 for part in parts]
    values = [numbers(part.value)[0] for part in parts]
    mean = sum(w * v for w, v in zip(weights, values, strict=True)) / sum(weights)
    assert numbers(found.value) == pytest.approx([mean])
    assert stds(found) == pytest.approx([1 / math.sqrt(sum(weights))])
    assert stds(found)[0] < min(stds(part)[0] for part in parts)


def test_sums_means_and_moments_know_of_each_other_where_rows_are_public() -> None:
    parts = [
        release(Sum(columns=("x", "y")), REPLACE, "1"),
        release(Mean(columns=("x",)), REPLACE, "0.5", seed=2),
        release(Moments(columns=("x", "y")), REPLACE, "4", seed=3),
    ]
    mean = combine(Mean(columns=("x", "y")), parts, schema(REPLACE))
    total = combine(Sum(columns=("x", "y")), parts, schema(REPLACE))
    moments = combine(Moments(columns=("x", "y")), parts, schema(REPLACE))
    means = mean.value
    assert moments.value["means"] == means
    for name in ("x", "y"):
        assert total.value[name] == pytest.approx(ROWS * means[name], rel=1e-15)  # type: ignore[operator]
    one = 1 / stds(parts[0])[0] ** 2 * ROWS**2
    mean_stds = (1 / (one + 1 / stds(parts[1])[0] ** 2 + 1 / stds(parts[2])[0] ** 2)) ** 0.5
    assert stds(mean)[0] == pytest.approx(mean_stds)
    second = moments.value["second"]
    assert second[0][1] == second[1][0]  # type: ignore[index]
    alone = stds(parts[2])
    assert all(new <= old * (1 + 1e-9) for new, old in zip(stds(moments), alone, strict=True))
    # a better mean makes a better second moment, which its noise is part of
    assert stds(moments)[2] < alone[2] * 0.999


# Tables


@in_one("adjacency", [REPLACE, ADD])
@in_one("norm", ["auto", "l1", "l2", "linf"])
def test_totals_agree_with_the_sums_of_their_parts_exactly(adjacency: Adjacency, norm: str) -> None:
    parts = [
        release(asked, adjacency, epsilon, norm=norm, seed=seed)
        for seed, (asked, epsilon) in enumerate([(GROUP, "0.3"), (KIND, "0.7"), (BOTH, "0.5")])
    ]
    if adjacency is ADD:
        parts.append(release(Count(), ADD, "0.2", norm="l1", seed=7))
    found = {
        asked.columns: combine(asked, parts, schema(adjacency)) for asked in (GROUP, KIND, BOTH)
    }
    cells = np.array(numbers(found["group", "kind"].value)).reshape(3, 2)
    assert numbers(found["group",].value) == cells.sum(axis=1).tolist()
    assert numbers(found["kind",].value) == cells.sum(axis=0).tolist()
    if adjacency is REPLACE:
        assert cells.sum() == ROWS
    else:
        count = combine(Count(), parts, schema(adjacency))
        assert numbers(count.value) == [cells.sum()]
        assert stds(count)[0] < stds(parts[3])[0]
    for part in parts[:3]:
        better = found[part.statistic.columns]  # type: ignore[attr-defined]
        assert [each.get("cell") for each in better.value["cells"]] == [  # type: ignore[attr-defined]
            each.get("cell")
            for each in part.value["cells"]  # type: ignore[attr-defined]
        ]
        assert all(a < b for a, b in zip(stds(better), stds(part), strict=True))


def test_a_table_of_independent_noise_is_what_the_textbook_makes_of_it() -> None:
    """Cells of variance v and their total of variance w: the total's is v m w / (v m + w)."""
    parts = [release(GROUP, ADD, "0.5"), release(Count(), ADD, "0.5", norm="l1", seed=2)]
    cells, total = np.array(numbers(parts[0].value)), numbers(parts[1].value)[0]
    v, w = stds(parts[0])[0] ** 2, stds(parts[1])[0] ** 2
    found, count = (combine(asked, parts, schema(ADD)) for asked in (GROUP, Count()))
    share = v / (3 * v + w)
    expected = cells + share * (total - cells.sum())
    assert numbers(found.value) == pytest.approx(expected, abs=2**-19)
    assert stds(found) == pytest.approx([math.sqrt(v - v * share)] * 3)
    assert stds(count) == pytest.approx([math.sqrt(3 * v * w / (3 * v + w))])


def test_edges_are_refined() -> None:
    wide = Histogram(columns=("x",), edges={"x": (0, 5, 10)})
    fine = Histogram(columns=("x",), edges={"x": (0, 2, 5, 7, 10)})
    parts = [release(wide, ADD, "1"), release(fine, ADD, "0.5", seed=2)]
    few, many = (numbers(combine(asked, parts, schema(ADD)).value) for asked in (wide, fine))
    assert few == [many[0] + many[1], many[2] + many[3]]
    unknown = Histogram(columns=("x",), edges={"x": (0, 3, 10)})
    with pytest.raises(InvalidStatisticError, match="do not distinguish the edges of x"):
        combine(unknown, parts, schema(ADD))


def test_a_filter_and_a_stack() -> None:
    filtered = replace(GROUP, where=WHERE)
    stack = Stack(
        parts=(
            Part(statistic=replace(KIND, where=WHERE)),
            Part(statistic=Quantile(column="x", levels=(0.5,))),
            Part(statistic=Count(where=WHERE), share=2.0),
        )
    )
    parts = [release(filtered, REPLACE, "1"), release(stack, REPLACE, "2", seed=2)]
    tables = [
        numbers(combine(replace(asked, where=WHERE), parts, schema(REPLACE)).value)
        for asked in (GROUP, KIND)
    ]
    count = combine(Count(where=WHERE), parts, schema(REPLACE))
    assert sum(tables[0]) == sum(tables[1]) == numbers(count.value)[0]


def test_people_of_several_rows_are_planned_for_at_their_part_of_epsilon() -> None:
    facts = replace(schema(ADD), protects=Protected(rows=4))
    asked = Sum(columns=("x",))
    parts = [release(asked, ADD, "2"), release(asked, ADD, "1", seed=2)]
    each = [combine(asked, parts, one) for one in (facts, schema(ADD))]
    assert stds(each[0]) == pytest.approx([4 * stds(each[1])[0]])
    assert each[0].value == pytest.approx(each[1].value)


# The law


@pytest.mark.wide
@pytest.mark.statistical
@pytest.mark.parametrize("norm", ["l1", "linf"])
def test_the_error_is_as_stated_and_intervals_hold_it(norm: str) -> None:
    """Fixed seeds; a std that is off by a third, or an interval of 85%, would be seen."""
    asks: list[tuple[Statistic, str]] = [(GROUP, "0.5"), (BOTH, "1"), (KIND, "0.4")]
    truth = [float(count) for count in DATA.category_counts("group")]
    errors, held = [], []
    for seed in range(250):
        parts = [
            release(asked, ADD, epsilon, norm=norm, seed=3 * seed + place)
            for place, (asked, epsilon) in enumerate(asks)
        ]
        found = combine(GROUP, parts, schema(ADD))
        errors.append(numbers(found.value)[0] - truth[0])
        low, high = found.noise.interval_95["cells"][0]["count"]  # type: ignore[index,union-attr]
        held.append(low <= truth[0] <= high)
    std = stds(found)[0]
    assert np.sqrt(np.mean(np.square(errors))) == pytest.approx(std, rel=1 / 6)
    assert 0.91 <= np.mean(held) <= 0.99


# Refusals


def cannot(
    wanted: Statistic, asked: Sequence[Statistic], match: str, adjacency: Adjacency = REPLACE
) -> None:
    parts = [release(each, adjacency, "1", seed=seed) for seed, each in enumerate(asked)]
    with pytest.raises(InvalidStatisticError, match=match):
        combine(wanted, parts, schema(adjacency))


QUANTILE = Quantile(column="x", levels=(0.5,))
MEAN, SUM = Mean(columns=("x",)), Sum(columns=("x",))
REFUSED: list[Callable[[], None]] = [
    lambda: cannot(GROUP, [GROUP, QUANTILE], "quantile is no sum over records"),
    lambda: cannot(QUANTILE, [GROUP, GROUP], "only count, histogram, tables, sum, mean, moments"),
    lambda: cannot(GROUP, [GROUP, replace(GROUP, where=WHERE)], "about different records"),
    lambda: cannot(GROUP, [GROUP, replace(GROUP, by=("kind",))], "groups of their own"),
    lambda: cannot(MEAN, [MEAN, replace(MEAN, weights="x")], "weights of their own"),
    lambda: cannot(MEAN, [MEAN, MEAN], "ratio of noisy numbers", ADD),
    lambda: cannot(BOTH, [GROUP, KIND], "do not determine that"),
    lambda: cannot(GROUP, [KIND, MEAN], "do not determine that"),
    lambda: cannot(GROUP, [MEAN, MEAN], "do not determine that"),
    lambda: cannot(Mean(columns=("x", "y")), [MEAN, MEAN], "do not determine that"),
    lambda: cannot(
        replace(MEAN, derive={"z": "x + 1"}), [MEAN, MEAN], "derived columns of their own"
    ),
]


@in_one("refused", REFUSED)
def test_what_cannot_be_combined_is_refused_in_words(refused: Callable[[], None]) -> None:
    refused()


def test_margins_alone_still_make_each_other_better_by_their_total() -> None:
    parts = [release(GROUP, ADD, "0.2"), release(KIND, ADD, "2", seed=2)]
    groups, kinds = (combine(asked, parts, schema(ADD)) for asked in (GROUP, KIND))
    assert sum(numbers(groups.value)) == sum(numbers(kinds.value))
    assert stds(groups)[0] < stds(parts[0])[0]


def test_counts_of_very_many_cells_are_combined() -> None:
    """Residual by residual: of 1,010 cells, and of 25 releases with 2,525 numbers."""
    edges = {"x": tuple(range(11)), "y": tuple(np.linspace(-4, 2, 102).tolist())}
    large = Histogram(columns=("x", "y"), edges=edges)
    parts = [release(large, ADD, "1", seed=seed) for seed in range(2)]
    found = combine(large, parts, schema(ADD))
    means = np.mean([numbers(part.value) for part in parts], axis=0)
    assert numbers(found.value) == pytest.approx(means.tolist(), abs=1e-5)
    assert stds(found)[0] == pytest.approx(stds(parts[0])[0] / math.sqrt(2))
    narrow = Histogram(columns=("y",), edges={"y": edges["y"]})
    many = [release(narrow, ADD, "1", seed=seed) for seed in range(25)]
    assert stds(combine(narrow, many, schema(ADD)))[0] == pytest.approx(stds(many[0])[0] / 5)


@pytest.mark.wide
def test_there_is_a_most_that_is_combined() -> None:
    many = Histogram(columns=("x", "y"), edges={"x": range(11), "y": np.linspace(-4, 2, 103)})
    edges = {"x": tuple(range(11)), "y": tuple(float(edge) for edge in many.edges["y"])}
    large = Histogram(columns=("x", "y"), edges=edges)
    cannot(large, [large, SUM], "more than 1000 different cells")
    fits = Histogram(columns=("y",), edges={"y": tuple(edges["y"][:102])})
    cannot(fits, [fits] * 20 + [SUM], "more than 2000 numbers")
    times = [combining_ms([GROUP] * count, schema(REPLACE)) for count in (1, 2, 4)]
    assert times == sorted(times)
    assert combining_ms([Stack(parts=(Part(statistic=BOTH),))], schema(REPLACE)) > times[0]


def test_every_pair_of_tables_has_one_answer_whatever_their_order() -> None:
    parts = [release(each, ADD, "1", seed=seed) for seed, each in enumerate((GROUP, KIND, BOTH))]
    answers = {
        tuple(numbers(combine(BOTH, [parts[at] for at in order], schema(ADD)).value))
        for order in product(range(3), repeat=3)
        if len(set(order)) == 3
    }
    spread = np.ptp(np.array(list(answers)), axis=0)
    assert spread.max() <= 2**-19
