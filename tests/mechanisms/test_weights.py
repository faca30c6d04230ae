"""Weights: exact sums, every neighbour of tiny data, and twins that must be caught."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import combinations_with_replacement, product
from typing import Any

import numpy as np
import pytest

from mechanisms.catalog import calibrate
from mechanisms.contract import InvalidStatisticError, Json
from mechanisms.derivations import Released, derive
from mechanisms.domain import CODE_MAX, SUM_MAX, CategoryColumn, Column, NumberColumn, Schema
from mechanisms.functional.moments import RegressionMoments, regression_moments, weighted_moments
from mechanisms.knorm import integer_noise, offered_norms
from mechanisms.margins.release import measurement_of
from mechanisms.privacy import Adjacency, Epsilon
from mechanisms.sketches import ArrayData
from mechanisms.statistics.additive import AdditiveForm
from mechanisms.statistics.conditions import Condition
from mechanisms.statistics.count import Count
from mechanisms.statistics.histogram import Histogram
from mechanisms.statistics.linear_regression import LinearRegression
from mechanisms.statistics.mean import Mean
from mechanisms.statistics.moments import Moments
from mechanisms.statistics.quantile import Quantile
from mechanisms.statistics.std import Std
from mechanisms.statistics.tables import Tables
from mechanisms.statistics.total import Sum
from mechanisms.statistics.variance import Variance
from mechanisms.statistics.weights import HELD_PARTS, Weights, private_rows, weighted_data
from mechanisms.tables.planning import WeighedMeasurement, pure_measurement
from mechanisms.testing import seeded_randomness
from tests.mechanisms.offers import ADD, REPLACE
from tests.mechanisms.test_knorm_privacy import loss
from tests.tiers import in_one

COLUMNS: dict[str, Column] = {
    "x": NumberColumn(Fraction(-1), Fraction(1)),
    "far": NumberColumn(Fraction(5), Fraction(10)),
    "w": NumberColumn(Fraction(1), Fraction(3)),
    "group": CategoryColumn(("a", "b")),
}
KINDS = [
    {"x": x, "far": far, "w": w, "group": "ab"[far == 5]}
    for (x, far), w in product(((-1, 5), (1, 10), (0.3, 10)), (1, 1.7, 3))
]
WEIGHTS = Weights("w", NumberColumn(Fraction(1), Fraction(3)))
LARGE = Epsilon.parse("10000")
SUMMED = [
    Sum(columns=("far",), weights="w"),
    Sum(columns=("x", "far"), weights="w"),
    Mean(columns=("x",), weights="w"),
    Mean(columns=("x", "far"), weights="w"),
    Variance(columns=("x",), weights="w"),
    Std(columns=("x", "far"), weights="w"),
    Count(weights="w"),
    Histogram(columns=("group",), weights="w"),
]
FITS = [
    LinearRegression(target="far", features=("x",), weights="w", intercept=intercept)
    for intercept in (True, False)
]


def data_of(rows: Sequence[Any]) -> ArrayData:
    schema = Schema(COLUMNS, REPLACE, len(rows))
    return ArrayData.from_values(schema, {name: [r[name] for r in rows] for name in COLUMNS})


def schema_of(adjacency: Adjacency, rows: int = 2) -> Schema:
    return Schema(COLUMNS, adjacency, rows if adjacency is REPLACE else None, rows)


def moved(total: Any, adjacency: Adjacency) -> Iterator[list[int]]:
    """What changes in a total between any two neighbours of two records, or of one and two."""
    pairs: list[tuple[Any, Any]] = [(each, None) for each in KINDS]
    if adjacency is REPLACE:
        pairs = list(combinations_with_replacement(KINDS, 2))
    for common in KINDS[:2]:
        for one, other in pairs:
            there = [common] if other is None else [common, other]
            both = zip(total(data_of([common, one])), total(data_of(there)), strict=True)
            yield [a - b for a, b in both]


def losses(form: AdditiveForm | RegressionMoments, adjacency: Adjacency) -> Iterator[Fraction]:
    """The largest loss of every norm at epsilon 1."""
    moves = list(moved(form.total, adjacency))
    for norm in offered_norms(form.space):
        noise = integer_noise(form.space, norm, Fraction(1))
        yield max(loss(noise, move) for move in moves)


def fitted(statistic: LinearRegression, schema: Schema, facts: Schema) -> RegressionMoments:
    """What a weighted regression sums, planned with these facts."""
    moments = regression_moments(statistic.scaling(schema), facts)
    return weighted_moments(moments, WEIGHTS, rows=schema.known_rows)


@in_one("adjacency", [REPLACE, ADD])
@in_one("statistic", SUMMED)
def test_every_neighbour_of_weighted_sums_loses_at_most_epsilon(
    statistic: Sum | Mean | Variance | Std | Count | Histogram, adjacency: Adjacency
) -> None:
    """In exact integers, for every norm; and most of it is used."""
    found = list(losses(statistic.additive(schema_of(adjacency)), adjacency))
    assert max(found) <= 1
    assert max(found) > Fraction(2, 3)


@pytest.mark.parametrize("adjacency", [REPLACE, ADD])
@pytest.mark.parametrize("statistic", FITS, ids=["intercept", "without"])
def test_every_neighbour_of_weighted_moments_loses_at_most_epsilon(
    statistic: LinearRegression, adjacency: Adjacency
) -> None:
    schema = schema_of(adjacency)
    assert max(losses(fitted(statistic, schema, private_rows(schema)), adjacency)) <= 1


def test_weights_planned_as_if_each_record_counted_once_are_caught() -> None:
    """With the row count public: a number that moves with a weight would be told without noise."""
    schema = schema_of(REPLACE)
    apart, together = (fitted(FITS[0], schema, facts) for facts in (schema, private_rows(schema)))
    assert together.space.dimension == apart.space.dimension + 1
    assert Mean(columns=("x",)).additive(schema).space.dimension == 1
    weighted = Mean(columns=("x",), weights="w")
    assert weighted.additive(schema).space.dimension == 2
    assert any(move[0] for move in moved(together.total, REPLACE)), "the weights' own sum"


def test_weights_that_are_not_divided_by_the_largest_are_caught() -> None:
    schema = schema_of(ADD)
    form = Sum(columns=("far",)).additive(private_rows(schema))

    def total(data: Any) -> list[int]:
        return [3 * each for each in form.total(weighted_data(data, WEIGHTS))]

    wrong = replace(form, space=replace(form.space, unit=CODE_MAX * form.space.unit), total=total)
    assert max(losses(wrong, ADD)) > 1


def test_counts_by_whole_records_in_place_of_weights_are_caught() -> None:
    """Planned with each record counting once: a record of weight 3 moves the sum by 3."""
    schema = schema_of(ADD)
    form = Count().additive(private_rows(schema))
    weighted = Count(weights="w").additive(schema)
    wrong = replace(form, total=lambda data: [each // SHARE for each in weighted.total(data)])
    assert max(losses(wrong, ADD)) > 1
    assert max(losses(weighted, ADD)) <= 1


SHARE = SUM_MAX // 3
"""Of a weight of 1, as the sums of weights have it."""


@pytest.mark.parametrize("adjacency", [REPLACE, ADD])
@pytest.mark.parametrize("where", [(), (Condition(column="x", op=">", value=0),)])
def test_weighted_counts_are_sums_of_weights(adjacency: Adjacency, where: Any) -> None:
    rows = many(3000)
    kept = [row for row in rows if not where or row["x"] > 0]
    sums = [sum(row["w"] for row in kept if row["group"] == group) for group in "ab"]
    data, schema = data_of(rows), schema_of(adjacency, 3000)

    def drawn(asked: Any) -> Any:
        return calibrate(asked, schema, LARGE).draw(data, seeded_randomness(1)).value

    total = drawn(Count(weights="w", where=where))["count"]
    assert total == pytest.approx(sum(sums), abs=0.1)
    cells = drawn(Histogram(columns=("group",), weights="w", where=where))["cells"]
    assert [cell["count"] for cell in cells] == pytest.approx(sums, abs=0.1)
    groups = drawn(Count(weights="w", where=where, by=("group",)))["groups"]
    assert [each["value"]["count"] for each in groups] == pytest.approx(sums, abs=0.1)
    assert [each["by"] for each in groups] == [{"group": "a"}, {"group": "b"}]


def test_weights_of_counts_are_public_and_not_negative() -> None:
    for asked in (Count(weights="x"), Histogram(columns=("group",), weights="x")):
        with pytest.raises(InvalidStatisticError, match="never negative"):
            calibrate(asked, schema_of(REPLACE), Epsilon.parse("1"))
    plan = calibrate(Count(weights="w"), schema_of(REPLACE), Epsilon.parse("1"))
    assert plan.details["weights"]["largest"] == 3.0  # type: ignore[index,call-overload]
    # the row count is public, and the sum of weights is not
    with pytest.raises(InvalidStatisticError, match="row count is public"):
        calibrate(Count(), schema_of(REPLACE), Epsilon.parse("1"))


TABLES = Tables(columns=("group", "far"), edges={"far": (5, 7, 10)}, weights="w")


def cells_of(value: Any) -> list[float]:
    return [cell["count"] for cell in value["tables"][0]["cells"]]


@pytest.mark.parametrize("adjacency", [REPLACE, ADD])
@pytest.mark.parametrize("raw", [True, False])
def test_weighted_tables_are_sums_of_weights(adjacency: Adjacency, raw: bool) -> None:
    rows = many(3000)
    data, schema = data_of(rows), schema_of(adjacency, 3000)
    sums = [
        sum(row["w"] for row in rows if row["group"] == group and (row["far"] >= 7) == high)
        for group in "ab"
        for high in (False, True)
    ]
    asked = replace(TABLES, raw=raw)
    value = calibrate(asked, schema, LARGE).draw(data, seeded_randomness(1)).value
    # each record is rounded by at most half a part; and fitted records are near the estimates
    assert cells_of(value) == pytest.approx(sums, abs=1.2 if raw else 12)
    assert value["rows"] == pytest.approx(sum(sums), abs=2)
    if not raw:
        assert all(isinstance(each, int) for each in cells_of(value))
        assert sum(cells_of(value)) == value["rows"]


def test_whole_counts_of_small_weights_are_warned_of() -> None:
    """They are all 0 where the weights add up to less than 1; raw estimates are not rounded."""
    light = replace(
        schema_of(ADD), columns={**COLUMNS, "w": NumberColumn(Fraction(0), Fraction(1, 1000))}
    )
    said: Any = calibrate(TABLES, light, Epsilon.parse("1")).details["warnings"]
    assert said == [
        (
            "No weight is above 0.001, and counts are rounded to whole numbers: ask for unrounded "
            'ones ("raw": true).'
        )
    ]
    for asked, schema in ((replace(TABLES, raw=True), light), (TABLES, schema_of(ADD))):
        assert "warnings" not in calibrate(asked, schema, Epsilon.parse("1")).details


def test_weighted_tables_have_the_noise_of_the_largest_weight() -> None:
    """As that of tables under a condition, times the bound; the number of rows is no help."""
    data, schema = data_of(many(300)), schema_of(REPLACE, 300)
    asked, epsilon = replace(TABLES, raw=True), Epsilon.parse("1")
    plan = calibrate(asked, schema, epsilon)
    stated: Any = plan.preview(None).std
    bare = replace(asked, weights=None)
    plain: Any = calibrate(bare, private_rows(schema), epsilon).preview(None).std
    assert cells_of(stated)[0] == pytest.approx(3 * cells_of(plain)[0], rel=0.1)
    assert stated["rows"] > 1
    known: Any = calibrate(bare, schema, epsilon).preview(None).std
    assert known["rows"] == 0
    drawn = np.array(
        [cells_of(plan.draw(data, seeded_randomness(seed)).value) for seed in range(300)]
    )
    ratio = drawn.var(axis=0) / cells_of(stated)[0] ** 2
    assert np.all(np.abs(ratio - 1) < 5 * (5 / 300) ** 0.5)


@pytest.mark.parametrize("adjacency", [REPLACE, ADD])
def test_neighbours_of_weighted_tables_differ_by_at_most_their_parts(adjacency: Adjacency) -> None:
    """In the l1 norm of a table, which the noise is calibrated for; and it is reached."""
    schema = schema_of(adjacency)
    measurement = measurement_of(TABLES, schema, Epsilon.parse("1"), "margins")
    assert isinstance(measurement, WeighedMeasurement)

    def total(data: Any) -> list[int]:
        found: list[int] = TABLES.counted(data, schema)[0, 1].ravel().tolist()
        return found

    largest = max(sum(map(abs, move)) for move in moved(total, adjacency))
    reach = measurement.changes.l1
    assert largest == HELD_PARTS * reach
    own: Any = measurement.whole
    assert own.epsilon * largest / reach == 1
    # negative control: parts at the whole of epsilon would lose that many times as much
    wrong: Any = pure_measurement(TABLES.workload(schema), measurement.changes, Fraction(1))
    assert wrong.epsilon * largest / reach == HELD_PARTS


def test_margins_of_weighted_tables_are_free_for_the_same_weights() -> None:
    schema, data = schema_of(REPLACE, 3000), data_of(many(3000))
    value = calibrate(TABLES, schema, LARGE).draw(data, seeded_randomness(1)).value
    one = Released(
        statistic=TABLES,
        mechanism="margins",
        norm=None,
        epsilon=LARGE,
        value=value,
        noise=None,
        details={},
    )
    groups = Histogram(columns=("group",), weights="w")
    found = [cell["count"] for cell in derive(groups, one, schema).value["cells"]]  # type: ignore[index]
    cells = cells_of(value)
    assert found == [cells[0] + cells[1], cells[2] + cells[3]]
    total = derive(Count(weights="w"), one, schema)
    assert total.value == {"count": value["rows"]}
    assert total.noise is not None
    std: Any = total.noise.std
    assert std["count"] > 0
    with pytest.raises(InvalidStatisticError):
        derive(replace(groups, weights=None), one, schema)


def many(rows: int = 4000) -> list[dict[str, Any]]:
    generator = random.Random(2)
    return [
        {
            "x": (x := generator.uniform(-1, 1)),
            "far": 7.5 + 2 * x + generator.uniform(-0.4, 0.4),
            "w": generator.choice([1, 1.25, 3]),
            "group": generator.choice("ab"),
        }
        for _ in range(rows)
    ]


def fit(rows: Sequence[Any]) -> tuple[float, float]:
    x, y, w = (np.array([row[name] for row in rows]) for name in ("x", "far", "w"))
    design = np.stack([np.ones_like(x), x], axis=1) * np.sqrt(w)[:, None]
    solved = np.linalg.lstsq(design, y * np.sqrt(w), rcond=None)[0]
    return float(solved[0]), float(solved[1])


def drawn(statistic: Any, rows: Sequence[Any], adjacency: Adjacency) -> Json:
    plan = calibrate(statistic, schema_of(adjacency, len(rows)), LARGE)
    return plan.draw(data_of(rows), seeded_randomness(3)).value


@pytest.mark.wide
@pytest.mark.parametrize("adjacency", [REPLACE, ADD])
def test_at_a_large_epsilon_weighted_answers_are_numpy_s(adjacency: Adjacency) -> None:
    rows = many()
    x, far, w = (np.array([row[name] for row in rows]) for name in ("x", "far", "w"))
    mean = drawn(Mean(columns=("far", "x"), weights="w"), rows, adjacency)
    assert mean == pytest.approx(
        {"far": (w * far).sum() / w.sum(), "x": (w * x).sum() / w.sum()}, abs=1e-3
    )
    total = drawn(Sum(columns=("far",), weights="w"), rows, adjacency)
    assert total["far"] == pytest.approx((w * far).sum(), abs=0.5)
    line = drawn(LinearRegression(target="far", features=("x",), weights="w"), rows, adjacency)
    assert line["coefficients"] == pytest.approx(
        dict(zip(("(intercept)", "x"), fit(rows), strict=True)), abs=0.01
    )


@pytest.mark.parametrize("adjacency", [REPLACE, ADD])
def test_weights_go_with_filters_and_groups(adjacency: Adjacency) -> None:
    rows = many()
    where = (Condition(column="x", op=">", value=0),)
    asked = Sum(columns=("x",), weights="w", where=where, by=("group",))
    table: Any = drawn(asked, rows, adjacency)["groups"]
    for row in table:
        own = [r for r in rows if r["group"] == row["by"]["group"] and r["x"] > 0]
        exact = sum(r["w"] * r["x"] for r in own)
        assert row["value"]["x"] == pytest.approx(exact, abs=0.1)


def weighted_rank(rows: Sequence[Any], value: float) -> tuple[float, float]:
    """The shares of the weights below a value and up to it."""
    total = sum(row["w"] for row in rows)
    below = sum(row["w"] for row in rows if row["x"] < value)
    return below / total, below / total + sum(row["w"] for row in rows if row["x"] == value) / total


@pytest.mark.parametrize("adjacency", [REPLACE, ADD])
def test_weighted_spreads_are_numpy_s(adjacency: Adjacency) -> None:
    rows = many()
    x, w = (np.array([row[name] for row in rows]) for name in ("x", "w"))
    exact = np.average((x - np.average(x, weights=w)) ** 2, weights=w)
    where = (Condition(column="far", op=">", value=5),)  # of all of them
    for asked in (Variance(columns=("x",), weights="w"), Std(columns=("x",), weights="w")):
        wanted = {"x": exact if asked.kind == "variance" else exact**0.5}
        assert drawn(asked, rows, adjacency) == pytest.approx(wanted, abs=1e-3)
        groups: Any = drawn(replace(asked, by=("group",), where=where), rows, adjacency)["groups"]
        for each in groups:
            own = [row for row in rows if row["group"] == each["by"]["group"]]
            x, w = (np.array([row[name] for row in own]) for name in ("x", "w"))
            spread = np.average((x - np.average(x, weights=w)) ** 2, weights=w)
            found = each["value"]["x"] if asked.kind == "variance" else each["value"]["x"] ** 2
            assert found == pytest.approx(spread, abs=1e-3)


@in_one("adjacency", [REPLACE, ADD])
@in_one("mechanism", ["kng", "exponential"])
@in_one("base", ["uniform", "log"])
def test_weighted_quantiles_have_ranks_of_weights(
    adjacency: Adjacency, mechanism: str, base: Any
) -> None:
    rows = [{**row, "w": 3 if row["x"] > 0.2 else 1} for row in many(1000)]
    levels = (0.25, 0.5, 0.9)
    asked = Quantile(column="x", levels=levels, weights="w", base_measure=base)
    plan = calibrate(asked, schema_of(adjacency, len(rows)), LARGE, mechanism=mechanism)
    found: Any = plan.draw(data_of(rows), seeded_randomness(3)).value["quantiles"]
    for level, each in zip(levels, found, strict=True):
        below, through = weighted_rank(rows, each["value"])
        assert below - 0.005 <= level <= through + 0.005
    # negative control: the median of records that count once each
    x = np.sort([row["x"] for row in rows])
    assert abs(weighted_rank(rows, x[500])[0] - 0.5) > 0.1


def test_weighted_quantiles_of_groups_and_of_no_weight() -> None:
    rows = many(1000)
    asked = Quantile(column="x", levels=(0.5,), weights="w", by=("group",))
    for each in drawn(asked, rows, REPLACE)["groups"]:  # type: ignore[attr-defined]
        own = [row for row in rows if row["group"] == each["by"]["group"]]
        below, through = weighted_rank(own, each["value"]["quantiles"][0]["value"])
        assert below - 0.01 <= 0.5 <= through + 0.01
    columns = {**COLUMNS, "w": NumberColumn(Fraction(0), Fraction(3))}
    schema = Schema(columns, ADD, None, 10)
    data = ArrayData.from_values(
        schema, {"x": [0.1, 0.2], "far": [5, 5], "w": [0, 0], "group": ["a", "b"]}
    )
    plan = calibrate(replace(asked, by=()), schema, LARGE)
    found = {
        plan.draw(data, seeded_randomness(seed)).value["quantiles"][0]["value"]  # type: ignore[index]
        for seed in range(20)
    }
    assert len(found) == 20, "without weight each candidate is as likely"


def test_several_weighted_levels_are_drawn_one_by_one() -> None:
    asked = Quantile(column="x", levels=(0.25, 0.5, 0.75), weights="w")
    plan = calibrate(asked, schema_of(REPLACE), LARGE)
    assert plan.details["levels_drawn"] == "one by one"
    assert plan.guarantee.sensitivity_unit.startswith("largest weights")
    with pytest.raises(InvalidStatisticError, match="one by one") as refused:
        calibrate(asked, schema_of(REPLACE), LARGE, norm="l1")
    assert refused.value.field_name == "norm"


def test_a_weight_of_nothing_counts_for_nothing_and_the_largest_whole() -> None:
    column = NumberColumn(Fraction(0), Fraction(8))
    codes = column.encode(np.array([-1, 0, 2, 8, 9], dtype=np.float64))
    shares = Weights("w", column).shares(codes)
    assert shares.tolist() == [0, 0, CODE_MAX // 4, CODE_MAX, CODE_MAX]


def test_columns_that_are_no_weights_are_refused() -> None:
    asked = LinearRegression(target="far", features=("x",), weights="w")
    for name in ("x", "group", "nobody"):
        for statistic in (replace(asked, weights=name), Mean(columns=("x",), weights=name)):
            with pytest.raises(InvalidStatisticError) as refused:
                calibrate(statistic, schema_of(ADD), LARGE)
            assert refused.value.field_name == "weights"


def test_standard_errors_are_not_offered_with_weights() -> None:
    """Nobody has said whether a weight is a precision, a frequency or a sampling probability."""
    asked = LinearRegression(target="far", features=("x",), weights="w")
    with pytest.raises(InvalidStatisticError, match="with weights") as refused:
        calibrate(asked, schema_of(REPLACE), LARGE, inference=Fraction(1, 3))
    assert refused.value.field_name == "inference"


def test_what_is_derived_counts_by_the_same_weights() -> None:
    rows, schema = many(500), schema_of(REPLACE, 500)

    def released(statistic: Any) -> Released:
        plan = calibrate(statistic, schema, LARGE)
        outcome = plan.draw(data_of(rows), seeded_randomness(4))
        return Released(
            statistic=statistic,
            mechanism=plan.mechanism,
            norm=plan.norm,
            epsilon=LARGE,
            value=outcome.value,
            noise=outcome.noise,
            details=plan.details,
        )

    both = released(Mean(columns=("x", "far"), weights="w"))
    one = derive(Mean(columns=("x",), weights="w"), both, schema)
    assert one.value == {"x": both.value["x"]}
    for wanted, source in (
        (Mean(columns=("x",)), both),
        (Sum(columns=("x",), weights="w"), both),
        (Mean(columns=("x",), weights="w"), released(Moments(columns=("x", "far")))),
        (
            LinearRegression(target="far", features=("x",), weights="w"),
            released(Moments(columns=("x", "far"))),
        ),
    ):
        with pytest.raises(InvalidStatisticError):
            derive(wanted, source, schema)
