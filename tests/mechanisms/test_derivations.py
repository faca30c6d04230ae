"""Derivations: the numbers numpy makes of a released answer, and no data anywhere."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from mechanisms.catalog import calibrate
from mechanisms.contract import InvalidStatisticError, Noise, Statistic
from mechanisms.derivations import Released, derivable, derive
from mechanisms.domain import CategoryColumn, NumberColumn, Schema
from mechanisms.privacy import Adjacency, Epsilon
from mechanisms.randomness import system_randomness
from mechanisms.sketches import ArrayData
from mechanisms.statistics.additive import AdditiveStatistic
from mechanisms.statistics.cells.parting import Bands
from mechanisms.statistics.conditions import Condition
from mechanisms.statistics.correlation import Correlation
from mechanisms.statistics.count import Count
from mechanisms.statistics.covariance import Covariance
from mechanisms.statistics.histogram import Histogram
from mechanisms.statistics.linear_regression import LinearRegression
from mechanisms.statistics.mean import Mean
from mechanisms.statistics.moments import Moments
from mechanisms.statistics.quantile import Quantile
from mechanisms.statistics.second_order import MomentStatistic
from mechanisms.statistics.stack import Part, Stack
from mechanisms.statistics.total import Sum
from mechanisms.statistics.variance import Variance
from mechanisms.testing import seeded_randomness
from tests.mechanisms.offers import PROOFS, Proof
from tests.mechanisms.test_every_offer import ROWS as EVEN
from tests.mechanisms.test_every_offer import mirrors, numbers, skeleton, spread_out
from tests.tiers import in_one

REPLACE, ADD = Adjacency.REPLACE_ONE, Adjacency.ADD_REMOVE
ROWS = 2_000
COLUMNS = {
    "x": NumberColumn(Fraction(0), Fraction(10)),
    "z": NumberColumn(Fraction("-2.5"), Fraction(5)),
    "owner": NumberColumn(Fraction(0), Fraction(1), boolean=True),
    "y": NumberColumn(Fraction(-10), Fraction(40)),
    "region": CategoryColumn(("north", "south")),
}
NAMES = ("x", "z", "owner", "y")
FLOATS = NDArray[np.float64]


def schema(adjacency: Adjacency) -> Schema:
    return Schema(COLUMNS, adjacency, ROWS if adjacency is REPLACE else None, max_rows=10_000)


def sample() -> ArrayData:
    generator = np.random.default_rng(1)
    x, z = generator.uniform(0, 10, ROWS), generator.uniform(-2.5, 5, ROWS)
    owner = generator.integers(0, 2, ROWS).astype(float)
    y = 2 + 1.5 * x - 2 * z + 3 * owner + generator.normal(0, 1, ROWS)
    values = {"x": list(x), "z": list(z), "owner": list(owner), "y": list(y)}
    return ArrayData.from_values(schema(REPLACE), {**values, "region": ["north"] * ROWS})


DATA = sample()


def release(
    statistic: Statistic,
    adjacency: Adjacency,
    epsilon: str = "5",
    norm: str = "linf",
    seed: int = 3,
) -> Released:
    """A release as it is stored: through JSON."""
    plan = calibrate(statistic, schema(adjacency), Epsilon.parse(epsilon), norm=norm)
    outcome = plan.draw(DATA, seeded_randomness(seed))
    assert outcome.noise is not None
    value, std, interval, details = json.loads(
        json.dumps([outcome.value, outcome.noise.std, outcome.noise.interval_95, plan.details])
    )
    return Released(
        statistic=statistic,
        mechanism=plan.mechanism,
        norm=plan.norm,
        epsilon=Epsilon.parse(epsilon),
        value=value,
        noise=Noise(std=std, interval_95=interval),
        details=details,
    )


def moments_of(released: Released) -> tuple[FLOATS, FLOATS]:
    means = np.array([released.value["means"][name] for name in NAMES])  # type: ignore[index]
    return means, np.array(released.value["second"])


def flat(part: object) -> list[float]:
    if isinstance(part, dict):
        return [number for child in part.values() for number in flat(child)]
    if isinstance(part, list):
        return [number for child in part for number in flat(child)]
    assert isinstance(part, int | float)
    return [float(part)]


@pytest.mark.parametrize("adjacency", [REPLACE, ADD])
@pytest.mark.parametrize("norm", ["l1", "l2", "linf"])
def test_numpy_makes_the_same_of_the_released_numbers(adjacency: Adjacency, norm: str) -> None:
    released, made = release(Moments(columns=NAMES), adjacency, norm=norm), schema(adjacency)
    means, second = moments_of(released)
    covariance = second - np.outer(means, means)
    spread = np.sqrt(np.diag(covariance))
    rows = released.value["count"] if adjacency is ADD else ROWS
    picked = [NAMES.index(name) for name in ("y", "x", "z")]
    fewer = {"columns": ("y", "x", "z")}
    inner = np.ix_(picked, picked)
    expected: list[tuple[Statistic, FLOATS]] = [
        (Mean(**fewer), means[picked]),
        (Sum(**fewer), means[picked] * rows),
        (Variance(**fewer), np.diag(covariance)[picked]),
        (Covariance(**fewer), covariance[inner]),
        (Correlation(**fewer), (covariance / np.outer(spread, spread))[inner]),
    ]
    for statistic, exact in expected:
        outcome = derive(statistic, released, made)
        assert flat(outcome.value) == pytest.approx(list(np.ravel(exact)), rel=1e-6, abs=1e-9)
        assert outcome.noise is not None
        assert len(flat(outcome.noise.std)) == np.size(exact)
    again = derive(Moments(columns=("y", "z")), released, made)
    assert again.value["means"] == pytest.approx({"y": means[3], "z": means[1]})
    assert flat(again.value["second"]) == pytest.approx(
        [second[3][3], second[3][1], second[1][3], second[1][1]]
    )


@in_one("adjacency", [REPLACE, ADD])
@in_one("features", [("x",), ("owner", "z"), ("x", "z", "owner"), ()])
@in_one("intercept", [True, False])
def test_any_regression_is_numpy_s_on_the_released_moments(
    adjacency: Adjacency, features: tuple[str, ...], intercept: bool
) -> None:
    if not features and not intercept:
        return
    released = release(Moments(columns=NAMES), adjacency)
    means, second = moments_of(released)
    statistic = LinearRegression(
        target="y", features=features, intercept=intercept, ridge=0.0, bound=1e6
    )
    joined = np.block([[np.ones((1, 1)), means[None]], [means[:, None], second]])
    places = ([0] if intercept else []) + [1 + NAMES.index(name) for name in features]
    exact = np.linalg.solve(joined[np.ix_(places, places)], joined[places, 4])
    outcome = derive(statistic, released, schema(adjacency))
    assert flat(outcome.value) == pytest.approx(list(exact), rel=1e-6)
    default = LinearRegression(target="y", features=features, intercept=intercept)
    # every eigenvalue is above the noise's own here, so the default rule shrinks next to nothing
    assert flat(derive(default, released, schema(adjacency)).value) == pytest.approx(
        list(exact), rel=1e-4
    )
    assert derive(statistic, released, schema(adjacency)) == outcome


def test_ridge_shrinks_in_scaled_units() -> None:
    released = release(Moments(columns=NAMES), REPLACE)
    means, second = moments_of(released)
    lower = np.array([float(COLUMNS[name].lower) for name in NAMES])  # type: ignore[union-attr]
    upper = np.array([float(COLUMNS[name].upper) for name in NAMES])  # type: ignore[union-attr]
    middle, half = (lower + upper) / 2, (upper - lower) / 2
    scaled = (means - middle) / half
    crossed = (
        second - np.outer(means, middle) - np.outer(middle, means) + np.outer(middle, middle)
    ) / np.outer(half, half)
    xx = np.block([[np.ones((1, 1)), scaled[None, :2]], [scaled[:2, None], crossed[:2, :2]]])
    xy = np.array([scaled[3], *crossed[:2, 3]])
    theta = np.linalg.solve(ROWS * xx + 250 * np.eye(3), ROWS * xy)
    statistic = LinearRegression(target="y", features=("x", "z"), ridge=500.0)
    found = derive(statistic, released, schema(REPLACE)).value["coefficients"]
    assert found["x"] == pytest.approx(theta[1] * half[3] / half[0], rel=1e-6)  # type: ignore[index]
    assert found["z"] == pytest.approx(theta[2] * half[3] / half[1], rel=1e-6)  # type: ignore[index]


@pytest.mark.parametrize("adjacency", [REPLACE, ADD])
def test_a_derived_number_is_as_noisy_as_what_it_was_made_of(adjacency: Adjacency) -> None:
    """Means and moments keep the parent's intervals; what is derived twice is the same."""
    released, made = release(Moments(columns=NAMES), adjacency), schema(adjacency)
    assert released.noise is not None
    derived = derive(Mean(columns=NAMES), released, made)
    assert derived.noise is not None
    assert flat(derived.noise.std) == pytest.approx(flat(released.noise.std["means"]))
    again = derive(Moments(columns=NAMES), released, made)
    assert again.noise is not None
    assert flat(again.value) == pytest.approx(flat(released.value))
    assert flat(again.noise.std) == pytest.approx(flat(released.noise.std))
    assert flat(again.noise.interval_95) == pytest.approx(flat(released.noise.interval_95))


@pytest.mark.wide
@pytest.mark.statistical
@pytest.mark.parametrize("intercept", [True, False])
def test_a_derived_regression_s_interval_covers(intercept: bool) -> None:
    statistic = LinearRegression(target="y", features=("x", "z"), intercept=intercept)
    codes = DATA.codes
    decoded = {
        name: np.array([float(COLUMNS[name].decode(int(c))) for c in codes[name]])  # type: ignore[union-attr]
        for name in ("x", "z", "y")
    }
    columns = ([np.ones(ROWS)] if intercept else []) + [decoded["x"], decoded["z"]]
    exact = np.linalg.lstsq(np.column_stack(columns), decoded["y"], rcond=None)[0]
    covered = []
    for seed in range(80):
        released = release(Moments(columns=NAMES), ADD, seed=seed)
        outcome = derive(statistic, released, schema(ADD))
        assert outcome.noise is not None
        ends = np.array(list(outcome.noise.interval_95["coefficients"].values()))  # type: ignore[attr-defined]
        covered.append((ends[:, 0] <= exact) & (exact <= ends[:, 1]))
    assert np.mean(covered) > 0.85


@in_one(
    ("source", "wanted"),
    [
        (Sum(columns=NAMES), Mean(columns=("y", "x"))),
        (Mean(columns=NAMES), Sum(columns=("z",))),
        (Mean(columns=NAMES), Mean(columns=("z",))),
        (Variance(columns=NAMES), Variance(columns=("z", "x"))),
        (Covariance(columns=NAMES), Variance(columns=("z", "x"))),
        (Covariance(columns=NAMES), Covariance(columns=("y", "x"))),
        (Covariance(columns=NAMES), Correlation(columns=("y", "x"))),
        (Correlation(columns=NAMES), Correlation(columns=("owner", "y"))),
    ],
)
def test_fewer_columns_and_public_multiples(source: Statistic, wanted: Statistic) -> None:
    """At an epsilon without noise to speak of, it is the wanted statistic itself."""
    derived = derive(wanted, release(source, REPLACE, "10000"), schema(REPLACE))
    direct = release(wanted, REPLACE, "10000")
    assert flat(derived.value) == pytest.approx(flat(direct.value), rel=1e-3, abs=1e-2)
    if wanted.kind == "correlation" and source.kind == "covariance":
        assert derived.noise is None
    else:
        assert derived.noise is not None
        assert len(flat(derived.noise.interval_95)) == 2 * len(flat(derived.value))


def test_means_of_sums_scale_their_noise() -> None:
    released = release(Sum(columns=NAMES), REPLACE)
    derived = derive(Mean(columns=NAMES), released, schema(REPLACE))
    assert derived.noise is not None
    assert released.noise is not None
    assert flat(derived.noise.std) == pytest.approx([s / ROWS for s in flat(released.noise.std)])
    ends = flat(derived.noise.interval_95)
    assert ends == pytest.approx([end / ROWS for end in flat(released.noise.interval_95)])


def test_counts_come_from_moments_where_they_are_private() -> None:
    released = release(Moments(columns=NAMES), ADD)
    derived = derive(Count(), released, schema(ADD))
    assert derived.value["count"] == pytest.approx(released.value["count"])
    assert derived.noise is not None
    assert released.noise is not None
    assert derived.noise.std["count"] == pytest.approx(released.noise.std["count"])


@pytest.mark.parametrize("adjacency", [REPLACE, ADD])
def test_a_stack_s_parts_are_sources(adjacency: Adjacency) -> None:
    stack = Stack(
        parts=(
            Part(statistic=Quantile(column="x", levels=(0.5,))),
            Part(statistic=Mean(columns=("owner",)), share=2.0),
            Part(statistic=Moments(columns=("x", "y")), share=3.0),
        )
    )
    released = release(stack, adjacency, norm="auto")
    part = released.value["parts"][2]  # type: ignore[index]
    made = schema(adjacency)
    assert derive(Mean(columns=("owner",)), released, made).value == released.value["parts"][1]  # type: ignore[index]
    derived = derive(Mean(columns=("y",)), released, made)
    assert derived.value["y"] == pytest.approx(part["means"]["y"])
    assert derived.noise is not None
    stds = released.noise.std["parts"][2]["means"]  # type: ignore[union-attr, index]
    assert derived.noise.std["y"] == pytest.approx(stds["y"])
    with pytest.raises(InvalidStatisticError, match=r"mean.* of owner; moments.* of x, y"):
        derive(Mean(columns=("z",)), released, made)


RICH = (Condition(column="x", op=">", value=5),)


@in_one(
    ("source", "wanted", "words"),
    [
        (Moments(columns=("x", "y")), Mean(columns=("x", "z")), "moments, .*mean, .* of x, y"),
        (Moments(columns=("x", "y")), Sum(columns=("x",), where=RICH), "linear_regression"),
        (Moments(columns=("x", "y")), Quantile(column="x", levels=(0.5,)), "covariance"),
        (
            Moments(columns=("x", "y")),
            LinearRegression(target="y", features=("x", "z")),
            "correlation",
        ),
        (Mean(columns=("x",)), Variance(columns=("x",)), "mean.* of x"),
        (Sum(columns=("x",), where=RICH), Mean(columns=("x",)), "sum under the same .* of x"),
        (Sum(columns=("x",), by=("region",)), Sum(columns=("x",)), "sum in the same groups of x"),
        (Moments(columns=("x", "y")), Mean(columns=("x",), by=("region",)), "covariance"),
        (Correlation(columns=("x", "y")), Covariance(columns=("x", "y")), "correlation of x, y"),
        (Histogram(columns=("region",)), Count(), "nothing"),
    ],
)
def test_what_is_not_determined_is_refused_with_what_is(
    source: Statistic, wanted: Statistic, words: str
) -> None:
    with pytest.raises(InvalidStatisticError, match=words):
        derive(wanted, release(source, ADD, norm="auto"), schema(ADD))


def test_a_private_count_divides_nothing() -> None:
    with pytest.raises(InvalidStatisticError, match="sum of x"):
        derive(Mean(columns=("x",)), release(Sum(columns=("x",)), ADD), schema(ADD))


def test_the_schema_is_checked_first() -> None:
    with pytest.raises(InvalidStatisticError, match="no such column"):
        derive(Mean(columns=("nobody",)), release(Moments(columns=NAMES), ADD), schema(ADD))


@pytest.mark.parametrize(
    ("adjacency", "epsilon"), list(itertools.product((REPLACE, ADD), ("0.000000001", "10000")))
)
def test_every_release_can_be_derived_from(adjacency: Adjacency, epsilon: str) -> None:
    """Noise that swamps everything, noise of nothing: finite JSON."""
    made = schema(adjacency)
    for _ in range(5):
        plan = calibrate(Moments(columns=NAMES), made, Epsilon.parse(epsilon))
        outcome = plan.draw(DATA, system_randomness())
        released = Released(
            statistic=Moments(columns=NAMES),
            mechanism=plan.mechanism,
            norm=plan.norm,
            epsilon=Epsilon.parse(epsilon),
            value=outcome.value,
            noise=outcome.noise,
            details=plan.details,
        )
        for statistic in (
            Mean(columns=NAMES),
            Sum(columns=NAMES),
            Variance(columns=NAMES),
            Correlation(columns=NAMES),
            LinearRegression(target="y", features=NAMES[:3]),
            LinearRegression(target="y", features=NAMES[:3], intercept=False, ridge=0.0),
        ):
            derived = derive(statistic, released, made)
            assert derived.noise is not None
            shown = [derived.value, derived.noise.std, derived.noise.interval_95]
            json.dumps(shown, allow_nan=False)


def released_of(proof: Proof, source: Statistic, adjacency: Adjacency) -> tuple[Released, Schema]:
    """A release of another statistic of a proof's columns, at an epsilon that leaves no noise."""
    data, made = spread_out(proof), proof.schema(adjacency, EVEN)
    plan = calibrate(source, made, Epsilon.parse("10000"), norm="linf")
    outcome = plan.draw(data, seeded_randomness(4))
    released = Released(
        statistic=source,
        mechanism=plan.mechanism,
        norm=plan.norm,
        epsilon=Epsilon.parse("10000"),
        value=outcome.value,
        noise=outcome.noise,
        details=plan.details,
    )
    return released, made


def same_as_drawn(proof: Proof, released: Released, made: Schema) -> Noise | None:
    """Check a derived answer against one that is drawn; return its noise."""
    derived = derive(proof.statistic, released, made)
    plan = calibrate(proof.statistic, made, Epsilon.parse("10000"), mechanism=proof.mechanism)
    direct = plan.draw(spread_out(proof), seeded_randomness(5))
    assert skeleton(derived.value) == skeleton(direct.value)
    assert list(numbers(derived.value)) == pytest.approx(list(numbers(direct.value)), abs=0.01)
    if derived.noise is not None:
        mirrors(derived.noise, derived.value)
    return derived.noise


@pytest.mark.parametrize("adjacency", [REPLACE, ADD])
@pytest.mark.parametrize(
    "asked",
    [
        {"where": RICH},
        {"by": ("region",)},
        {"where": RICH, "by": ("region", Bands(column="y", edges=(0, 5, 10)))},
    ],
    ids=["where", "by", "where and by"],
)
def test_what_moments_of_some_records_determine_is_that_of_the_same_records(
    asked: Mapping[str, Any], adjacency: Adjacency
) -> None:
    """Filtered, in groups, and both: each number as a direct draw has it, all but without noise."""
    made, epsilon = schema(adjacency), Epsilon.parse("10000")
    released = release(Moments(columns=("x", "y"), **asked), adjacency, epsilon="10000")
    for wanted in (
        Mean(columns=("x",), **asked),
        Variance(columns=("y",), **asked),
        Sum(columns=("y",), **asked),
        LinearRegression(target="y", features=("x",), **asked),
    ):
        derived = derive(wanted, released, made)
        mechanism = "functional" if isinstance(wanted, LinearRegression) else "auto"
        direct = calibrate(wanted, made, epsilon, mechanism=mechanism).draw(
            DATA, seeded_randomness(6)
        )
        assert skeleton(derived.value) == skeleton(direct.value)
        assert derived.noise is not None
        mirrors(derived.noise, derived.value)
        if not isinstance(wanted, LinearRegression):
            answers = numbers(derived.value), numbers(direct.value), numbers(derived.noise.std)
            for one, two, std in zip(*answers, strict=True):
                assert one == pytest.approx(two, abs=0.2 + 12 * std)


def records(statistic: Statistic) -> tuple[object, object]:
    """Return of which records a statistic is, and how they are weighted."""
    return getattr(statistic, "where", ()), getattr(statistic, "weights", None)


ADDITIVE = [
    proof
    for proof in PROOFS
    if proof.mechanism == "k_norm"
    and isinstance(proof.statistic, AdditiveStatistic)
    and "linf" in proof.offered_norms
]


@pytest.mark.parametrize("adjacency", [REPLACE, ADD])
def test_what_moments_determine_is_derived_from_them(adjacency: Adjacency) -> None:
    """Every statistic of the catalog that says so of itself."""
    tried = set()
    for proof in ADDITIVE:
        made = proof.schema(adjacency, EVEN)
        wanted = proof.statistic
        if not isinstance(wanted, MomentStatistic) or wanted.moment_columns(made) is None:
            continue
        if getattr(wanted, "where", ()) or getattr(wanted, "weights", None):
            continue  # of other records than the moments, or of weighted ones
        numeric = tuple(n for n, c in proof.columns.items() if isinstance(c, NumberColumn))
        released, _ = released_of(proof, Moments(columns=numeric), adjacency)
        assert same_as_drawn(proof, released, made) is not None
        tried.add(wanted.kind)
        assert wanted.kind in derivable(released, made)
    assert tried >= {"mean", "sum", "variance", "moments", "covariance", "correlation"}


@pytest.mark.parametrize("adjacency", [REPLACE, ADD])
def test_what_is_read_off_another_answer_is_that_statistic(adjacency: Adjacency) -> None:
    """Every pair of the catalog's additive statistics of which one says so of itself."""
    pairs = set()
    for proof, other in itertools.product(ADDITIVE, ADDITIVE):
        wanted, made = proof.statistic, proof.schema(adjacency, EVEN)
        if adjacency not in other.adjacencies:
            continue
        if records(other.statistic)[1] not in (None, *proof.columns):
            continue  # a weight that these data do not have
        released, _ = released_of(proof, other.statistic, adjacency)
        told = wanted.kind in derivable(released, made).split(" of ")[0]
        if wanted.reading(other.statistic, made) is None or records(wanted) != records(
            other.statistic
        ):
            continue
        same_as_drawn(proof, released, made)
        assert told
        pairs.add((other.statistic.kind, wanted.kind))
    own = {(kind, kind) for kind in ("mean", "sum", "variance", "covariance", "correlation")}
    assert pairs >= own | {("covariance", "variance"), ("covariance", "correlation")}
    assert (("sum", "mean") in pairs) == (adjacency is REPLACE)
