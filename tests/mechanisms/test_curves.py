"""Survival and ROC curves: against plain computations, their intervals, groups, and refusals."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import pytest

from mechanisms.catalog import calibrate
from mechanisms.contract import InvalidStatisticError
from mechanisms.domain import CategoryColumn, NumberColumn, Schema
from mechanisms.estimates.assumptions import Assumptions
from mechanisms.estimates.estimate import estimate_error
from mechanisms.estimates.trees import at, numbers
from mechanisms.exact.floats import Floats
from mechanisms.geometry.histograms import HistogramBall
from mechanisms.geometry.laws import simulate
from mechanisms.knorm import integer_noise
from mechanisms.privacy import ONE_ROW, Epsilon
from mechanisms.sketches import ArrayData
from mechanisms.statistics.cells.axes import Step, axis_of
from mechanisms.statistics.cells.parting import Merged
from mechanisms.statistics.cells.spelling import canonical
from mechanisms.statistics.conditions import Condition
from mechanisms.statistics.curves import roc
from mechanisms.statistics.curves.counts import NoisyCounts, falling, rising
from mechanisms.statistics.curves.hypotheses import log_rank, log_rank_error
from mechanisms.statistics.curves.kaplan_meier import KaplanMeier
from mechanisms.statistics.curves.roc import Roc
from mechanisms.statistics.curves.survival import Clock, Survival, bands
from mechanisms.testing import seeded_randomness
from tests.mechanisms.forms import form_of
from tests.mechanisms.proof import ADD, REPLACE
from tests.mechanisms.test_knorm_privacy import loss
from tests.tiers import in_one

COLUMNS = {
    "days": NumberColumn(Fraction(0), Fraction(100)),
    "months": NumberColumn(Fraction(0), Fraction(5), kind="integer"),
    "born": NumberColumn(Fraction(0), Fraction(100), kind="date"),
    "died": NumberColumn(Fraction(0), Fraction(1), boolean=True),
    "arm": CategoryColumn(("a", "b")),
    "weight": NumberColumn(Fraction(0), Fraction(4)),
}
TIMES = (0, 10, 20, 30, 40, 50, 60, 70, 80)
ASKED = KaplanMeier(time="days", event="died", edges={"days": TIMES})
SCORED = Roc(score="days", label="died", edges={"days": Step(step=10)})
EXACTLY = Epsilon.parse("10000")


def patients(rows: int, seed: int, scale: float = 40.0) -> dict[str, Any]:
    """Exponential times, uniformly censored."""
    generator = np.random.default_rng(seed)
    times, lost = generator.exponential(scale, rows), generator.uniform(0, 100, rows)
    days = np.minimum(times, lost)
    return {
        "days": days, "died": (times <= lost).astype(int), "months": (days // 20).astype(int),
        "born": [1] * rows, "arm": ["a" if each else "b" for each in days < 35],
        "weight": generator.integers(1, 4, rows).astype(float),
    }  # fmt: skip


def data_of(values: dict[str, Any]) -> tuple[Schema, ArrayData]:
    schema = Schema(COLUMNS, REPLACE, len(values["days"]))
    return schema, ArrayData.from_values(schema, values)


def test_of_single_values_it_is_the_product_limit_estimate() -> None:
    values = patients(400, seed=1)
    schema, data = data_of(values)
    asked = KaplanMeier(time="months", event="died", edges={"months": "values"})
    outcome = calibrate(asked, schema, EXACTLY).draw(data, seeded_randomness(1))
    survival, curve = 1.0, outcome.value["curve"]
    for month, found in enumerate(curve):  # type: ignore[arg-type, var-annotated]
        at_risk = int((values["months"] >= month).sum())
        events = int(((values["months"] == month) & (values["died"] == 1)).sum())
        survival *= 1 - events / max(at_risk, 1)
        assert (found["time"], found["at_risk"], found["events"]) == (f"{month}", at_risk, events)
        assert found["survival"] == pytest.approx(survival)


@pytest.mark.parametrize(
    ("column", "edges", "cells"),
    [
        ("days", tuple(float(2 * place) for place in range(51)), 50),
        ("months", "values", 6),
        ("weeks", Step(step=3), 50),
    ],
)
def test_without_edges_the_cells_follow_from_the_public_bounds(
    column: str, edges: Any, cells: int
) -> None:
    """They are the same question as with these edges: the plan and the canonical spelling."""
    weeks = NumberColumn(Fraction(1), Fraction(150), kind="integer")
    schema = Schema({**COLUMNS, "weeks": weeks}, ADD, None, 400)
    for usual in (replace(ASKED, time=column, edges={}), replace(SCORED, score=column, edges={})):
        stated = replace(usual, edges={column: edges})
        assert len(usual.histogram(schema).axes(schema)[0].labels) == cells
        assert canonical(usual, schema) == canonical(stated, schema)
        plans = [calibrate(each, schema, EXACTLY) for each in (usual, stated)]
        assert plans[0].parameters == plans[1].parameters
        assert plans[0].guarantee == plans[1].guarantee


def test_without_edges_a_derived_column_has_its_own_bounds() -> None:
    schema, data = data_of(patients(300, seed=3))
    asked = replace(ASKED, time="part", edges={}, derive={"part": "days / 2"}, by=("arm",))
    outcome = calibrate(asked, schema, EXACTLY).draw(data, seeded_randomness(1))
    groups: Any = outcome.value["groups"]
    for group in groups:
        times = [float(each["time"]) for each in group["value"]["curve"]]
        assert times == pytest.approx(range(1, 51))


def test_of_wide_cells_it_is_the_actuarial_estimate() -> None:
    values = patients(400, seed=2)
    schema, data = data_of(values)
    outcome = calibrate(ASKED, schema, EXACTLY).draw(data, seeded_randomness(1))
    first = outcome.value["curve"][0]  # type: ignore[index]
    events = ((values["days"] < 10) & (values["died"] == 1)).sum()
    lost = ((values["days"] < 10) & (values["died"] == 0)).sum()
    assert first["time"] == "10"
    assert first["survival"] == pytest.approx(1 - events / (400 - lost / 2))
    assert len(outcome.value["curve"]) == 8  # type: ignore[arg-type]


def test_the_area_is_that_of_pairs_of_cells() -> None:
    values = patients(300, seed=3)
    schema, data = data_of(values)
    outcome = calibrate(SCORED, schema, EXACTLY).draw(data, seeded_randomness(1))
    cells, flag = values["days"] // 10, values["died"] == 1
    above = cells[flag][:, None] > cells[~flag]
    equal = cells[flag][:, None] == cells[~flag]
    assert outcome.value["area"] == pytest.approx(np.mean(above + equal / 2))
    point = outcome.value["curve"][2]  # type: ignore[index]
    assert point["threshold"] == "30"
    assert point["true_positive"] == pytest.approx(np.mean(values["days"][flag] >= 30))
    assert point["false_positive"] == pytest.approx(np.mean(values["days"][~flag] >= 30))


def test_with_weights_counts_are_sums_of_weights_and_nothing_is_said_of_a_population() -> None:
    values = patients(400, seed=5)
    schema, data = data_of(values)
    weights, died = values["weight"], values["died"] == 1
    asked = replace(ASKED, weights="weight")
    outcome = calibrate(asked, schema, EXACTLY).draw(data, seeded_randomness(1))
    first = outcome.value["curve"][0]  # type: ignore[index]
    events, lost = (weights[(values["days"] < 10) & each].sum() for each in (died, ~died))
    assert first["at_risk"] == pytest.approx(weights.sum(), abs=0.02)
    assert first["events"] == pytest.approx(events, abs=0.02)
    assert first["survival"] == pytest.approx(1 - events / (weights.sum() - lost / 2), abs=1e-4)
    assert outcome.inference is None
    groups = calibrate(replace(asked, by=("arm",)), schema, EXACTLY)
    assert set(groups.draw(data, seeded_randomness(1)).value) == {"groups"}, "no log-rank test"
    assert "intervals" not in str(groups.details["noise"])
    scored = calibrate(replace(SCORED, weights="weight"), schema, EXACTLY)
    point = scored.draw(data, seeded_randomness(1)).value["curve"][2]  # type: ignore[index]
    over = values["days"] >= 30
    share = weights[died & over].sum() / weights[died].sum()
    assert point["true_positive"] == pytest.approx(share, abs=1e-4)


@pytest.mark.parametrize("asked", [ASKED, SCORED, replace(ASKED, by=("arm",))])
def test_curves_fall_within_their_bands_however_large_the_noise(asked: Any) -> None:
    schema, data = data_of(patients(30, seed=4))
    for turn, epsilon in product(range(5), ("0.01", "0.3", "5")):
        plan = calibrate(asked, schema, Epsilon.parse(epsilon))
        outcome = plan.draw(data, seeded_randomness(turn))
        groups: Any = outcome.value.get("groups", [{"value": outcome.value}])
        for group in groups:
            curve = group["value"]["curve"]
            for name in set(curve[0]) - {"time", "threshold", "events"}:
                numbers = [each[name] for each in curve]
                assert sorted(numbers, reverse=True) == numbers
                assert name == "at_risk" or all(0 <= each <= 1 for each in numbers)
        assert outcome.inference is not None
        for term in outcome.inference.terms:
            low, high = term.confidence_95
            assert 0 <= low <= term.estimate <= high <= 1
        assert plan.draw(data, seeded_randomness(turn)) == outcome


def test_rising_counts_are_no_further_from_the_truth() -> None:
    generator = np.random.default_rng(5)
    truth = np.cumsum(generator.integers(0, 9, (200, 30)), axis=-1).astype(float)
    noisy = truth + generator.laplace(0, 20, truth.shape)
    off = np.abs(noisy - truth).max(axis=-1)
    assert np.all(np.abs(rising(noisy) - truth).max(axis=-1) <= off + 1e-9)
    assert np.all(np.diff(rising(noisy), axis=-1) >= 0)
    back = truth[:, ::-1]
    assert np.all(np.abs(falling(noisy[:, ::-1]) - back).max(axis=-1) <= off + 1e-9)


def test_the_median_is_said_only_where_the_curve_reaches_it() -> None:
    for scale, said in ((20.0, True), (2000.0, False)):
        schema, data = data_of(patients(2000, seed=6, scale=scale))
        outcome = calibrate(ASKED, schema, Epsilon.parse("2")).draw(data, seeded_randomness(2))
        assert outcome.inference is not None
        (median,) = outcome.inference.fit
        assert (median.estimate is not None) == said
        assert (median.reason is None) == said
        low, high = median.confidence_95
        if said:
            assert low <= scale * np.log(2) <= high
        else:
            assert high == 100


# Intervals and the test of groups, on simulated counts: of the hull's noise and of none


def noise_of(shape: tuple[int, int, int], epsilon: float) -> Callable[[int, bytes], Floats]:
    def made(count: int, seed: bytes) -> Floats:
        cells = int(np.prod(shape))
        found = simulate(HistogramBall(cells, filtered=False), cells, count, seed=seed)
        return np.asarray(np.rint(found / epsilon).reshape(count, *shape))

    return made


def counts_of(days: Floats, died: Floats, clock_axis: Any, cells: int) -> Floats:
    place = clock_axis.place(days) * 2 + died
    return np.bincount(place.astype(int), minlength=2 * cells).reshape(cells, 2).astype(float)


@pytest.mark.slow
@pytest.mark.statistical
def test_bands_hold_the_curve_and_tests_their_level() -> None:
    axis, column = axis_of("days", COLUMNS["days"], TIMES), COLUMNS["days"]
    clock, cells = Clock.of(axis, column), len(axis.labels)  # type: ignore[arg-type]
    truth = np.exp(-np.array(clock.ends) / 40)
    held = medians = rejected = found = 0
    for turn in range(60):
        values = patients(600, seed=1000 + turn)
        days, died = values["days"], values["died"]
        one = noise_of((1, cells, 2), 1.0)
        counts = counts_of(days, died, axis, cells)[None] + one(1, bytes([turn, 1]))[0]
        ((_, band),) = bands(NoisyCounts(counts=counts, noise=one), clock)
        held += bool(np.all((band.low <= truth) & (truth <= band.high)))
        medians += band.median_95[0] <= 40 * np.log(2) <= band.median_95[1]
        two, arm = noise_of((2, cells, 2), 1.0), np.arange(600) % 2 == 0
        for shift in (1.0, 0.5):  # one hazard, and a doubled one
            later = np.where(arm, days, days * shift)
            halves = [counts_of(later[part], died[part], axis, cells) for part in (arm, ~arm)]
            noisy = np.stack(halves) + two(1, bytes([turn, 2]))[0]
            small = log_rank(NoisyCounts(counts=noisy, noise=two), clock).p_value <= 0.05
            rejected += small and shift == 1
            found += small and shift != 1
    # 95% of 60, less four standard errors; and 5%, plus four
    assert held >= 50
    assert medians >= 50
    assert rejected <= 10
    assert found >= 30


def _excess(counts: Floats, late: Floats) -> Floats:
    """Return the events of the first of two groups above those expected, by the log-rank test."""
    left = counts.sum(axis=-1)[..., ::-1].cumsum(axis=-1)[..., ::-1][..., : len(late)]
    at_risk, events = left - late * counts[..., : len(late), 0], counts[..., : len(late), 1]
    share = at_risk[:, 0] / np.maximum(at_risk.sum(axis=1), 1)
    return np.asarray((events[:, 0] - share * events.sum(axis=1)).sum(axis=-1))


@pytest.mark.parametrize("epsilon", [0.2, 1.0])
def test_the_error_of_a_comparison_comes_true(epsilon: float) -> None:
    clock = Clock.of(axis_of("days", COLUMNS["days"], TIMES), COLUMNS["days"])  # type: ignore[arg-type]
    even = np.full((2, 9, 2), 3000 / 36)
    sampled = np.random.default_rng(2).poisson(even, (4000, 2, 9, 2)).astype(float)
    noise = noise_of((2, 9, 2), epsilon)(4000, b"n")
    spreads = [_excess(each, clock.late).std() for each in (sampled, sampled + noise)]
    found = log_rank_error(even, float(noise.std()), clock)
    assert found == pytest.approx(spreads[1] / spreads[0], rel=0.08)
    assert found > 1.01


def test_a_preview_says_what_the_noise_takes_of_the_comparison() -> None:
    def sentence(epsilon: str, asked: KaplanMeier, rows: int = 1) -> str:
        protects = replace(ONE_ROW, rows=rows)
        schema = Schema(COLUMNS, ADD, None, 1000, protects=protects)
        return estimate_error(
            asked, schema, Epsilon.parse(epsilon), mechanism="k_norm", norm="l1",
            assumptions=Assumptions(rows=1000),
        ).usefulness.sentence  # fmt: skip

    arms = replace(ASKED, by=("arm",))
    assert "compared by a test. With 1,000 rows the noise adds less than 1%" in sentence("5", arms)
    assert "the test needs" in sentence("0.1", arms)
    assert "the test needs" not in sentence("5", arms)
    several = sentence("5", arms, rows=3)
    for without in (sentence("5", ASKED), sentence("5", replace(arms, weights="weight")), several):
        assert "compared by a test" not in without


@pytest.mark.statistical
def test_the_interval_of_the_area_holds_it_and_one_without_noise_would_not() -> None:
    generator, held, narrow, turns = np.random.default_rng(7), 0, 0, 80
    shares = np.array([[6, 1], [4, 2], [3, 3], [2, 5], [1, 6]]) / 33
    truth = float(roc.Receiver.of(shares * 1e6).area)
    made = noise_of((1, 5, 2), 0.2)
    for turn in range(turns):
        rows = generator.multinomial(300, shares.ravel()).reshape(1, 5, 2).astype(float)
        noisy = rows + made(1, bytes([turn]))[0]
        for noise in (made, lambda count, _: np.zeros((count, 1, 5, 2))):
            ((_, found),) = roc.bands(NoisyCounts(counts=noisy, noise=noise))
            low, high = found.area_95
            if noise is made:
                held += low <= truth <= high
            else:
                narrow += low <= truth <= high
    assert held >= 68
    assert narrow < 68


# Privacy: the joint histogram of groups


def neighbours() -> Iterator[tuple[list[int], bool]]:
    """Differences of a record's counts of all groups: replaced, or come and gone."""
    cells = [*product(range(2), repeat=3)]
    totals = [[int(cell == each) for each in cells] for cell in cells]
    for one in totals:
        yield one, False
        for other in totals:
            yield [a - b for a, b in zip(one, other, strict=True)], True


@pytest.mark.parametrize("adjacency", [REPLACE, ADD])
def test_no_neighbour_of_joint_counts_loses_more_than_epsilon(adjacency: Any) -> None:
    asked = replace(ASKED, edges={"days": (0, 50, 100)}, by=("arm",))
    schema = Schema(COLUMNS, adjacency, 3 if adjacency is REPLACE else None, 3)
    plan = calibrate(asked, schema, Epsilon.parse("1"))
    form = form_of(asked.histogram(schema).over_groups(Merged.of(asked.by)), schema)
    noise = integer_noise(form.space, str(plan.norm), Fraction(1))
    replaced = adjacency is REPLACE
    losses = [loss(noise, move) for move, both in neighbours() if both == replaced]
    assert max(losses) == 1
    half = integer_noise(form.space, str(plan.norm), Fraction(2))
    assert max(loss(half, move) for move, both in neighbours() if both == replaced) > 1


@pytest.mark.parametrize("adjacency", [REPLACE, ADD])
def test_conditions_choose_the_rows_of_joint_counts(adjacency: Any) -> None:
    values = patients(200, seed=8)
    _, data = data_of(values)
    schema = Schema(COLUMNS, adjacency, 200 if adjacency is REPLACE else None, 500)
    where = (Condition(column="months", op="<", value=2),)
    asked = replace(ASKED, by=("arm",), where=where)
    outcome = calibrate(asked, schema, EXACTLY).draw(data, seeded_randomness(1))
    followed = [group["value"]["curve"][0]["at_risk"] for group in outcome.value["groups"]]  # type: ignore[attr-defined, union-attr]
    assert sum(followed) == (values["months"] < 2).sum()


# Refusals


@in_one(
    ("asked", "place", "says"),
    [
        (replace(ASKED, time="arm"), "time", "categories"),
        (replace(ASKED, time="born", edges={"born": {"step": 5}}), "time", "no amount"),
        (replace(ASKED, time="gone"), "time", "no such column"),
        (replace(ASKED, event="months"), "event", "boolean"),
        (replace(ASKED, event="arm"), "event", "derive one"),
        (replace(ASKED, edges={"other": (0, 1)}), "edges", "not counted"),
        (replace(ASKED, edges={"days": Step(step=0.05)}), "time", "at most 2,000"),
        (replace(SCORED, label="arm"), "label", "boolean"),
        (replace(SCORED, score="arm"), "score", "categories"),
    ],
)
def test_a_question_that_does_not_fit_is_refused(asked: Any, place: str, says: str) -> None:
    with pytest.raises(InvalidStatisticError, match=says) as refused:
        calibrate(asked, Schema(COLUMNS, REPLACE, 10), Epsilon.parse("1"))
    assert refused.value.field_name == place


def test_too_many_groups_are_refused() -> None:
    asked = replace(ASKED, edges={"days": Step(step=0.15)}, by=("arm",))
    with pytest.raises(InvalidStatisticError, match="cells of all groups") as refused:
        calibrate(asked, Schema(COLUMNS, ADD, None, 10), Epsilon.parse("1"))
    assert refused.value.field_name == "by"


def test_simulated_errors_have_the_answer_s_shape() -> None:
    schema, data = data_of(patients(100, seed=9))
    for asked in (ASKED, SCORED):
        plan = calibrate(asked, schema, Epsilon.parse("1"))
        assert plan.errors_on is not None
        errors: Any = plan.errors_on(data, 50, b"seed", 1.0)
        value: Any = plan.draw(data, seeded_randomness(1)).value
        assert [each.keys() for each in errors["curve"]] == [each.keys() for each in value["curve"]]
        arrays = [
            each for at in errors["curve"] for each in at.values() if not isinstance(each, str)
        ]
        assert arrays
        assert all(len(each) == 50 for each in arrays)
        name = "survival" if asked is ASKED else "true_positive"
        assert 0 < errors["curve"][3][name].mean() < 0.2


@pytest.mark.parametrize("asked", [ASKED, SCORED], ids=["survival", "roc"])
def test_the_errors_that_an_answer_states_of_its_shares_come_true(asked: Any) -> None:
    """Of groups whose sizes no preview knows: one has an eighth of the records."""
    values = patients(1600, seed=11)
    values["arm"] = ["b" if row % 8 else "a" for row in range(1600)]
    schema, data = data_of(values)
    asked = replace(asked, by=("arm",))
    exact = calibrate(asked, schema, EXACTLY).draw(data, seeded_randomness(1))
    plan = calibrate(asked, schema, Epsilon.parse("0.5"))
    drawn = [plan.draw(data, seeded_randomness(seed)) for seed in range(30)]
    real, stated = np.zeros(2), np.zeros(2)
    for each in drawn:
        for group in range(2):
            for path, off in numbers(at(each.shares_off, ["groups", group])):
                place = ["groups", group, *path]
                real[group] += abs(at(each.value, place) - at(exact.value, place))
                stated[group] += off
    assert np.all(np.abs(np.log(real / stated)) < 0.5), (real, stated)
    assert stated[0] > 3 * stated[1], "the noise of few records is the larger one"
    assert max(off for _, off in numbers(exact.shares_off)) < 0.001


def test_only_shares_have_stated_errors_and_weighted_ones_too() -> None:
    schema, data = data_of(patients(300, seed=12))
    outcome = calibrate(replace(ASKED, weights="weight"), schema, Epsilon.parse("1")).draw(
        data, seeded_randomness(2)
    )
    assert outcome.inference is None
    found: Any = outcome.shares_off
    assert {name for path, _ in numbers(found) for name in path[-1:]} == {"survival"}
    assert [each["time"] for each in found["curve"]] == [f"{each}" for each in TIMES[1:]]


def test_a_curve_of_no_record_is_at_one() -> None:
    clock = partial(Clock.of, column=COLUMNS["days"])  # type: ignore[arg-type]
    axis = axis_of("days", COLUMNS["days"], TIMES)
    found = Survival.of(np.zeros((1, len(axis.labels), 2)), clock(axis))
    assert np.all(found.survival == 1)
