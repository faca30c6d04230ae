"""Cox regression: against Cox's partial likelihood, its certificates, and Theorem 5.1's bounds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import gammainc

from mechanisms.catalog import calibrate
from mechanisms.contract import InvalidStatisticError
from mechanisms.domain import CategoryColumn, Column, NumberColumn, Schema
from mechanisms.estimates.assumptions import Assumptions
from mechanisms.estimates.estimate import estimate_error
from mechanisms.exact.floats import Floats
from mechanisms.objectives.exponential import hazard_loss
from mechanisms.objectives.losses import Loss, Norm
from mechanisms.perturbation.likelihoods import cox_objective
from mechanisms.perturbation.release import PerturbedFit
from mechanisms.privacy import Epsilon
from mechanisms.sketches import ArrayData
from mechanisms.statistics.cells.axes import Step
from mechanisms.statistics.designs.cox_regression import CoxRegression, HazardMarks
from mechanisms.testing import Law, check_draws, draws_to_refuse, seeded_randomness
from tests.mechanisms.proof import ADD, REPLACE
from tests.mechanisms.tilted import Model, Pair, Spent, largest_loss
from tests.tiers import in_one

COLUMNS: dict[str, Column] = {
    "age": NumberColumn(Fraction(0), Fraction(10)),
    "dose": NumberColumn(Fraction(-1), Fraction(1)),
    "days": NumberColumn(Fraction(0), Fraction(100)),
    "weeks": NumberColumn(Fraction(0), Fraction(15), kind="integer"),
    "died": NumberColumn(Fraction(0), Fraction(1), boolean=True),
    "change": NumberColumn(Fraction(-5), Fraction(5)),
    "weight": NumberColumn(Fraction(0), Fraction(2)),
    "arm": CategoryColumn(("a", "b")),
}
EVERY_TEN = tuple(range(0, 101, 10))
ASKED = CoxRegression(
    time="days", event="died", edges={"days": EVERY_TEN}, features=("age", "dose")
)
EXACTLY = Epsilon.parse("10000")
SLOPES = np.array([0.1, -0.7])


def patients(rows: int, seed: int, *, level: float = 0.0004) -> dict[str, Any]:
    """Return patients of a Weibull baseline, whose hazard grows with time."""
    generator = np.random.default_rng(seed)
    age, dose = generator.uniform(0, 10, rows), generator.uniform(-1, 1, rows)
    rate = level * np.exp(np.column_stack([age - 5, dose]) @ SLOPES)
    event = (-np.log(generator.uniform(size=rows)) / rate) ** (1 / 1.3)
    last = np.minimum(generator.uniform(20, 120, rows), 100)
    days = np.minimum(event, last)
    return {
        "age": age, "dose": dose, "days": days, "weeks": np.ceil(days / 7).astype(int),
        "died": (event <= last).astype(int), "change": np.zeros(rows), "arm": ["a"] * rows,
        "weight": generator.integers(1, 3, rows).astype(float),
    }  # fmt: skip


def data_of(values: dict[str, Any]) -> tuple[Schema, ArrayData]:
    schema = Schema(COLUMNS, REPLACE, len(values["age"]))
    return schema, ArrayData.from_values(schema, values)


def partial_fit(values: dict[str, Any], share: Floats) -> Floats:
    """Return what maximises Cox's partial likelihood."""
    x = np.column_stack([values["age"], values["dose"]])
    order = np.argsort(-values["days"])
    x, died, share = x[order], values["died"][order], share[order]

    def loss(beta: Floats) -> float:
        t = x @ beta
        return float(-(share * died) @ (t - np.log(np.cumsum(share * np.exp(t)))))

    return np.asarray(minimize(loss, np.zeros(2), method="BFGS").x)


@pytest.mark.parametrize("weighted", [False, True])
def test_without_noise_it_is_near_cox_s_partial_likelihood(weighted: bool) -> None:
    values = patients(3000, seed=1)
    schema, data = data_of(values)
    asked = replace(ASKED, weights="weight" if weighted else None)
    value: Any = calibrate(asked, schema, EXACTLY).draw(data, seeded_randomness(1)).value
    share = values["weight"] if weighted else np.ones(3000)
    slopes = [value["coefficients"][name] for name in ("age", "dose")]
    assert slopes == pytest.approx(partial_fit(values, share), abs=0.004)


def test_an_offset_takes_the_part_of_its_coefficient() -> None:
    """With the share of one column as an offset, the other's slope and the baseline stay."""
    values = patients(1500, seed=3, level=0.002)
    schema, data = data_of(values)
    wider = replace(ASKED, derive={"known": "0.1 * age"})
    both, given = (
        calibrate(asked, schema, EXACTLY).draw(data, seeded_randomness(1)).value["coefficients"]
        for asked in (wider, replace(wider, offset="known"))
    )
    first, second = dict(both), dict(given)  # type: ignore[call-overload]
    assert second["age"] == pytest.approx(first["age"] - 0.1, abs=2e-3)
    others = [name for name in first if name != "age"]
    assert [second[name] for name in others] == pytest.approx([first[n] for n in others], abs=0.02)


def test_the_baseline_is_events_over_exposure() -> None:
    """Its estimating equations: in each interval, as many events as the model expects."""
    values = patients(3000, seed=2)
    schema, data = data_of(values)
    found: Any = calibrate(ASKED, schema, EXACTLY).draw(data, seeded_randomness(1)).value
    coefficients = found["coefficients"]
    risk = np.exp(coefficients["age"] * values["age"] + coefficients["dose"] * values["dose"])
    for start, end in pairwise(EVERY_TEN):
        exposed = np.clip(values["days"], start, end) - start
        hazard = np.exp(coefficients[f"(hazard to {end})"])
        events = ((values["days"] > start) & (values["days"] <= end) & (values["died"] > 0)).sum()
        assert (hazard * exposed * risk).sum() == pytest.approx(events, rel=0.02, abs=0.3)


def test_cumulative_hazards_are_clipped_at_the_ceiling() -> None:
    values = patients(400, seed=3, level=0.02)
    schema, data = data_of(values)
    plan = calibrate(replace(ASKED, ceiling=1.0), schema, EXACTLY)
    assert plan.details["clipped_hazard"] == 1
    coefficients: Any = plan.draw(data, seeded_randomness(1)).value["coefficients"]
    hazards = np.exp([coefficients[f"(hazard to {end})"] for end in EVERY_TEN[1:]])
    exposed = np.clip(values["days"][:, None] - np.array(EVERY_TEN[:-1]), 0, 10)
    risk = np.exp(coefficients["age"] * values["age"] + coefficients["dose"] * values["dose"])
    whole = risk * (exposed @ hazards)
    assert whole.max() > 1
    x = np.column_stack([values["age"], values["dose"]])
    slope = (np.minimum(whole, 1) - values["died"]) @ x
    assert np.abs(slope).max() < 5e-3 * values["died"].sum()


def test_marks_are_exposures_and_the_interval_of_the_event() -> None:
    marks = HazardMarks("days", "died", (0.0, 10.0, 30.0))
    block = {
        "exact days": np.array([0.0, 5, 10, 12, 30, 31]),
        "exact died": np.array([1, 0, 1, 1, 1, 1]),
    }
    named = dict(zip(marks.columns, block.values(), strict=True))
    found = marks(named)
    assert found[0].tolist() == [0, 0.5, 1, 1, 1, 1]
    assert found[1] == pytest.approx([0, 0, 0, 0.1, 1, 1], abs=1e-6)
    assert found[2].tolist() == [1, 0, 1, 2, 2, 0]


def test_edges_may_be_values_or_steps() -> None:
    schema, _ = data_of(patients(10, seed=1))
    by_value = replace(ASKED, time="weeks", edges={"weeks": "values"})
    assert [int(each) for each in by_value.times(schema)] == [*range(16)]
    assert [float(each) for each in ASKED.times(schema)] == [*EVERY_TEN]
    assert replace(ASKED, edges={}).times(schema) == ASKED.times(schema)
    assert [int(each) for each in replace(by_value, edges={}).times(schema)][:3] == [0, 2, 4]
    few = replace(ASKED, edges={"days": (0, 30, 60)})
    assert [float(each) for each in few.times(schema)] == [0, 30, 60]


def test_a_formula_is_its_fields() -> None:
    asked = CoxRegression(formula="Surv(days, died) ~ age + C(arm, ref=b)", edges=ASKED.edges)
    plain = {"time": "days", "event": "died", "formula": None}
    assert {name: getattr(asked, name) for name in plain} == plain
    assert len(asked.features or ()) == 2
    for text, says in (
        ("days ~ age", "Surv"),
        ("Surv(days, died) ~ age - 1", "its own constant"),
        ("Surv(days, died) ~ age + )", "cannot be read here"),
    ):
        with pytest.raises(InvalidStatisticError, match=says) as refused:
            CoxRegression(formula=text, edges=ASKED.edges)
        assert refused.value.field_name == "formula"
    with pytest.raises(InvalidStatisticError, match="leave those out"):
        CoxRegression(formula="Surv(days, died) ~ age", time="days")


# Certificates


@pytest.mark.parametrize("weighted", [False, True])
def test_certified_gradients_hold_the_exact_one(weighted: bool) -> None:
    values = patients(300, seed=3)
    schema, data = data_of(values)
    asked = replace(ASKED, weights="weight" if weighted else None)
    objective = cox_objective(asked, schema, data)
    generator = np.random.default_rng(4)
    for scale in (0.0, 0.1, 1.0, 30.0, 2000.0):
        theta = [Fraction(float(each)) for each in scale * generator.normal(size=12)]
        certified, exact = objective.certify(theta), objective.gradient(theta, 90)
        model, hessian = objective.model(np.array([float(each) for each in theta]))
        for ball, sharp, hint in zip(certified.gradient, exact, model.tolist(), strict=True):
            assert ball.contains(sharp)
            assert float(sharp) == pytest.approx(hint, rel=1e-6, abs=1e-6 * (1 + scale))
        assert 0 <= float(certified.curvature) <= np.linalg.eigvalsh(hessian)[0] + 1e-9
        if scale <= 0.1:
            assert float(certified.curvature) > 0.9 * np.linalg.eigvalsh(hessian)[0]


def test_the_curvature_holds_within_reach_of_the_ceiling() -> None:
    schema, data = data_of(patients(200, seed=5))
    objective = cox_objective(ASKED, schema, data)
    generator = np.random.default_rng(6)
    for level in (1.0, 1.5, 2.0, 2.5):
        for _ in range(5):
            theta = np.append(np.full(10, level), [0.0, 0.0]) + generator.normal(size=12) * 0.05
            certified = objective.certify([Fraction(float(each)) for each in theta])
            assert certified.reach is not None
            step = generator.normal(size=12)
            step *= float(certified.reach) / np.linalg.norm(step)
            for part in (0.25, 0.5, 0.99):
                _, hessian = objective.model(theta + part * step)
                assert float(certified.curvature) <= np.linalg.eigvalsh(hessian)[0] + 1e-9


# Theorem 5.1's bounds: searched, and as ratios of densities; with negative controls


def _model(ceiling: float, features: int) -> Model:
    """A row is its features, its exposures and the interval of its event."""

    def hazards(row: Floats, theta: Floats) -> tuple[Floats, Floats, int]:
        x, parts, place = row[:features], row[features:-1], int(row[-1])
        count = len(parts)
        return x, parts * np.exp(np.minimum(theta[:count] + x @ theta[count:], 300)), place

    def gradient(row: Floats, theta: Floats) -> Floats:
        x, own, place = hazards(row, theta)
        whole = own.sum()
        clipped = own * (ceiling / whole if whole > ceiling else 1.0)
        happened = np.arange(1, len(own) + 1) == place
        rest = clipped - happened
        return np.append(rest, rest.sum() * x)

    def hessian(row: Floats, theta: Floats) -> Floats:
        x, own, _ = hazards(row, theta)
        z = np.column_stack([np.eye(len(own)), np.tile(x, (len(own), 1))])
        whole = own.sum()
        if whole <= ceiling:
            return np.asarray((z.T * own) @ z)
        share = own / whole
        centred = z - share @ z
        return np.asarray(ceiling * (centred.T * share) @ centred)

    return Model(gradient=gradient, hessian=hessian)


def records(generator: np.random.Generator, count: int, intervals: int, features: int) -> Floats:
    """Return records: features at their bounds, exposures that end, and where the event was."""
    x = np.sign(generator.normal(size=(count, features)))
    length = generator.integers(1, intervals + 1, count)
    parts = (np.arange(intervals) < length[:, None]).astype(float)
    last = np.where(generator.uniform(size=count) < 0.5, 1.0, generator.uniform(size=count))
    parts[np.arange(count), length - 1] = last
    place = np.where(generator.uniform(size=count) < 0.5, length, 0)
    return np.column_stack([x, parts, place])


def at(generator: np.random.Generator, row: Floats, intervals: int, features: int) -> Floats:
    """Return a theta at which a record's hazard is about evenly spread, or in one interval."""
    theta = generator.normal(size=intervals + features) * 10 ** generator.uniform(-2, 1)
    if generator.uniform() < 0.5:
        parts = np.maximum(row[features:-1], 0.05)
        slopes = generator.normal(size=features) * 0.1
        level = generator.normal() - np.log(intervals)
        theta = np.append(level - np.log(parts) - row[:features] @ slopes, slopes)
    return theta


@pytest.mark.parametrize(("intervals", "features"), [(1, 1), (3, 1), (2, 3), (6, 2)])
@pytest.mark.parametrize("ceiling", [1.0, 2.0, 3.5])
def test_the_constants_bound_what_a_search_finds_and_are_reached(
    ceiling: float, intervals: int, features: int
) -> None:
    generator = np.random.default_rng(10 * intervals + features)
    exact = Fraction(ceiling)
    alone = hazard_loss(intervals, features, exact, ADD)
    loss = hazard_loss(intervals, features, exact, REPLACE)
    model, gamma = _model(ceiling, features), 0.7
    bound = sum(times * np.log1p(float(each) / gamma) for each, times in loss.spectrum)
    longest, changed, determinant = dict.fromkeys(("linf", "l2", "l1"), 0.0), 0.0, 0.0
    for _ in range(1200):
        one, two = records(generator, 2, intervals, features)
        theta = at(generator, one, intervals, features)
        own, other = model.gradient(one, theta), model.gradient(two, theta)
        for name, order in (("linf", np.inf), ("l2", 2), ("l1", 1)):
            length = float(np.linalg.norm(own, order))
            longest[name] = max(longest[name], length)
            most = np.sqrt(float(loss.sensitivity_squared(name)))  # type: ignore[arg-type]
            assert np.linalg.norm(own - other, order) <= most + 1e-9
        changed = max(changed, float(np.abs(own - other).max()))
        hessian = model.hessian(one, theta)
        assert np.linalg.eigvalsh(hessian)[-1] <= float(loss.eigenvalue) + 1e-9
        grown = float(np.linalg.slogdet(np.eye(len(theta)) + hessian / gamma)[1])
        determinant = max(determinant, grown)
    for name, length in longest.items():
        most = np.sqrt(float(alone.sensitivity_squared(name)))  # type: ignore[arg-type]
        assert 0.97 * most < length <= most + 1e-9
    assert changed > 0.95 * float(loss.largest_difference)
    assert 0.85 * bound < determinant <= bound + 1e-9


def neighbours(intervals: int, features: int, *, replaced: bool, trials: int) -> Iterator[Pair]:
    generator = np.random.default_rng(100 + intervals)
    for _ in range(trials):
        common = int(generator.integers(0, 3))
        rows = [*records(generator, common + 2, intervals, features)]
        theta = at(generator, rows[common], intervals, features)
        rest = [rows[common + 1]] if replaced else []
        yield rows[: common + 1], [*rows[:common], *rest], theta


@pytest.mark.parametrize("norm", ["linf", "l2", "l1"])
@pytest.mark.parametrize("replaced", [True, False])
def test_no_neighbours_exceed_epsilon(norm: Norm, replaced: bool) -> None:
    model = _model(2.0, 2)
    loss = hazard_loss(3, 2, Fraction(2), REPLACE if replaced else ADD)
    for epsilon, q in (("0.1", "0.5"), ("1", "0.3"), ("4", "0.85")):
        spent = Spent.of(loss, norm, epsilon, q)
        pairs = neighbours(3, 2, replaced=replaced, trials=60)
        assert 0.2 < largest_loss(model, spent, pairs, polished=2) <= 1 + 1e-9


def of_the_slopes_alone(loss: Loss) -> Loss:
    """A mutant: rank one, as of a Poisson regression on the features."""
    return replace(loss, spectrum=(), eigenvalue=loss.spectrum[-1][0])


def without_the_ceiling(loss: Loss) -> Loss:
    """A mutant: the sensitivity of a ceiling of 1."""
    return replace(loss, largest_difference=loss.largest_difference / 3)


@pytest.mark.parametrize(
    ("mutant", "q"), [(of_the_slopes_alone, "0.1"), (without_the_ceiling, "0.85")]
)
def test_mutants_are_caught(mutant: Any, q: str) -> None:
    loss, model = hazard_loss(5, 1, Fraction(3), ADD), _model(3.0, 1)
    pairs = [*neighbours(5, 1, replaced=False, trials=200)]
    sound = Spent.of(loss, "linf", "2", q)
    assert largest_loss(model, sound, pairs, polished=10) <= 1 + 1e-9
    assert largest_loss(model, Spent.of(mutant(loss), "linf", "2", q), pairs, polished=10) > 1


# The law of draws: the tilt that they stand for


@pytest.mark.slow
@pytest.mark.statistical
def test_the_tilt_of_draws_has_its_law_and_mutants_are_refused() -> None:
    """A tilt of norm l1 in d dimensions has a length of Gamma(d), whatever the data."""
    values = patients(12, seed=8, level=0.01)
    schema, data = data_of(values)
    asked = replace(ASKED, features=("dose",), edges={"days": (0, 40, 100)}, q=0.5, ceiling=2.0)
    draw = calibrate(asked, schema, Epsilon.parse("16"), norm="l1").draw
    assert isinstance(draw, PerturbedFit)
    rate = 16 * 0.5 / float(draw.loss.absolute_sum)
    marks = asked.marks(schema)
    block = next(iter(data.blocks(marks.columns)))
    rows = [*np.column_stack([data.codes["dose"] / 2.0**20, marks(block).T])]
    starts = np.array([float(each) for each in asked.scaling(schema).starts])
    model, ridge = _model(2.0, 1), float(draw.drawn.ridge)

    def law(scale: float) -> Law:
        return Law.continuous(lambda r: gammainc(3, np.maximum(r, 0) * rate * scale))

    twins = [law(0.6), law(1.6)]
    count = draws_to_refuse(twins, law(1.0), np.linspace(0, 40 / rate, 4001))
    objective, randomness = draw.objective(data), seeded_randomness(9)
    lengths = []
    for _ in range(count):
        theta = np.array([float(each) for each in draw.drawn.draw(objective, randomness)])
        moved = theta + np.append(starts, 0.0)
        slope = sum((model.gradient(row, moved) for row in rows), np.zeros(1))
        lengths.append(np.abs(slope + ridge * theta).sum())
    check_draws(np.array(lengths), law(1.0), twins=twins)


# Refusals


@in_one(
    ("fields", "place", "says"),
    [
        ({"time": "arm"}, "time", "categories"),
        ({"time": "died", "event": "died"}, "time", "no amount"),
        ({"event": "age"}, "event", "not a boolean"),
        ({"edges": {"days": (0, 200)}}, "edges", "within its bounds"),
        ({"edges": {"days": (0, 50), "age": (0, 5)}}, "edges", "for the time"),
        ({"features": ("days",)}, "features", "also a feature"),
        ({"features": ()}, "features", "at least one"),
        ({"ceiling": 0.5}, "ceiling", "between 1 and 20"),
        ({"edges": {"days": Step(step=1)}}, "features", "at most 100"),
        ({"weights": "change"}, "weights", "never negative"),
        ({"q": 2.0}, "q", "between"),
        ({"bound": 0.0}, "bound", "bound"),
    ],
)
def test_a_question_that_does_not_fit_is_refused(
    fields: dict[str, Any], place: str, says: str
) -> None:
    with pytest.raises(InvalidStatisticError, match=says) as refused:
        calibrate(replace(ASKED, **fields), Schema(COLUMNS, REPLACE, 10), Epsilon.parse("1"))
    assert refused.value.field_name == place


# Before it is paid


def test_a_preview_names_the_bias_by_the_ceiling() -> None:
    """Compared with a ceiling that clips hardly a hazard: a low one is off, the largest is not."""
    schema = Schema(COLUMNS, ADD, None, 400_000)
    asked = replace(ASKED, edges={"days": (0, 40, 80)}, features=("dose",))

    def sentence(ceiling: float) -> str:
        return estimate_error(
            replace(asked, ceiling=ceiling), schema, Epsilon.parse("2"), mechanism="auto",
            norm="auto", assumptions=Assumptions(rows=200_000), coarse=True,
        ).usefulness.sentence  # fmt: skip

    assert "of an error is bias: cumulative hazards beyond the ceiling" in sentence(1.0)
    assert "bias" not in sentence(20.0)
