"""Quantile regression: exact law, exact sensitivity, exact draws, and what a wrong Delta leaks."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from fractions import Fraction

import numpy as np
import pytest
import statsmodels.api as sm

from mechanisms.catalog import calibrate
from mechanisms.contract import InvalidStatisticError
from mechanisms.domain import CODE_MAX, NumberColumn, Schema
from mechanisms.exact.floats import working_precision
from mechanisms.exponential.quantile_regression import loss_rate, loss_sensitivity
from mechanisms.objectives.check_loss import (
    GradientLaw,
    LossLaw,
    Records,
)
from mechanisms.objectives.design import GradientNorm, InterceptHullNorm, Linf
from mechanisms.objectives.losses import gradient_sensitivity
from mechanisms.privacy import Adjacency, Epsilon
from mechanisms.samplers.boxes import Box, Cover, draw
from mechanisms.sketches import ArrayData
from mechanisms.statistics.designs.boxes import RegressionRows
from mechanisms.statistics.quantile_regression import QuantileRegression
from mechanisms.testing import (
    Law,
    audit_epsilon,
    check_draws,
    draws_to_refuse,
    record_replay,
    seeded_randomness,
)
from tests.tiers import in_one

REPLACE, ADD = Adjacency.REPLACE_ONE, Adjacency.ADD_REMOVE
HALF, HIGH = Fraction(1, 2), Fraction(9, 10)
NUMBER = NumberColumn(Fraction(-1), Fraction(1))
GRID_BITS, RADIUS = 2, 5

Record = tuple[int, ...]  # (x_1, ..., x_d, y) in quarters of F


def build(records: Sequence[Record], radius: int = RADIUS) -> Records:
    rows = np.array(records, dtype=np.int64).reshape(len(records), -1) * (CODE_MAX // 4)
    return Records.build(
        np.ascontiguousarray(rows[:, :-1]),
        np.ascontiguousarray(rows[:, -1]),
        grid_bits=GRID_BITS,
        radius=radius,
    )


def ball(dimension: int, radius: int = RADIUS) -> list[tuple[int, ...]]:
    every = itertools.product(range(-radius, radius + 1), repeat=dimension)
    return [point for point in every if sum(map(abs, point)) <= radius]


def norm_at(
    records: Sequence[Record], tau: Fraction, norm: GradientNorm, point: Sequence[int]
) -> Fraction:
    """Return N(theta) one record at a time, from its definition."""
    d = len(point)
    total, tied = [Fraction(0)] * d, [Fraction(0)] * d
    for *x, y in records:
        fitted = sum(
            Fraction(a, 4) * Fraction(t, 1 << GRID_BITS) for a, t in zip(x, point, strict=True)
        )
        for j in range(d):
            total[j] += ((fitted >= Fraction(y, 4)) - tau) * Fraction(x[j], 4)
            tied[j] += (fitted == Fraction(y, 4)) * Fraction(x[j], 4)
    if d > 1:
        return norm.of(total)
    ends = (total[0] - tied[0], total[0])
    return Fraction(0) if ends[0] * ends[1] < 0 else norm.of([min(ends, key=abs)])


def law_over(
    records: Sequence[Record], tau: Fraction, norm: GradientNorm, rate: Fraction
) -> dict[tuple[int, ...], float]:
    return {
        point: float(np.exp(-float(rate * norm_at(records, tau, norm, point))))
        for point in ball(len(records[0]) - 1)
    }


def draws_of(
    records: Sequence[Record], law: tuple[Fraction, GradientNorm, Fraction], *, count: int
) -> list[tuple[int, ...]]:
    """Draw from the law of (tau, norm, rate)."""
    tau, norm, rate = law
    built, randomness = build(records), seeded_randomness(5)
    exact = GradientLaw(built, tau=tau, rate=rate, norm=norm)
    covers = (Cover(exact, built.space) for _ in itertools.count())
    return [
        cover.draw(randomness)
        for cover, _ in zip((c for c in covers for _ in range(_REUSE)), range(count), strict=False)
    ]


LINE = [(4, -4, -3), (4, -1, -1), (4, 2, 0), (4, 4, 1), (4, 4, 1), (4, 0, -4), (4, 3, 2)]
FLAT = [(4, 2), (4, -1), (4, -1), (4, 3), (4, 0)]
_REUSE = 100  # a cover serves any number of draws; the first ones try coarse boxes
Case = tuple[Sequence[Record], Fraction, GradientNorm]
CASES: dict[str, Case] = {
    "line": (LINE, HALF, Linf()),
    "line at 0.9, hull": (LINE, HIGH, InterceptHullNorm(HIGH)),
    "no intercept": ([(3, -2, 1), (-4, 1, 4), (2, 2, 2), (0, 4, -1)], Fraction(1, 4), Linf()),
    "constant": (FLAT, HIGH, Linf()),
}
RATES = {
    "line": Fraction(3),
    "line at 0.9, hull": Fraction(6),
    "no intercept": Fraction(6),
    "constant": Fraction(4),
}


# 1. Closed form -----------------------------------------------------------------------------


@pytest.mark.parametrize("case", CASES)
def test_the_law_at_every_point_is_its_definition(case: str) -> None:
    """Known with nothing decided, and with everything a box decides."""
    records, tau, norm = CASES[case]
    built = build(records)
    law = GradientLaw(built, tau=tau, rate=Fraction(1), norm=norm)
    d = len(records[0]) - 1
    half = np.full(d, 0.5)
    for point in ball(d):
        expected = norm_at(records, tau, norm, point)
        centre = np.linalg.solve(built.space.shear, np.array(point, dtype=float))
        split = law.split(law.root(), centre[None, :], half)
        assert law.value(law.root(), point) == expected
        assert law.value(split.knowledge[0], point) == expected
        assert split.exponents[0] <= float(expected)


@pytest.mark.parametrize("level", [HALF, HIGH])
def test_one_constant_column_is_the_private_quantile(level: Fraction) -> None:
    for (point,) in ball(1):
        under = sum(y < point for _, y in FLAT)
        reached = sum(y <= point for _, y in FLAT)
        score = max(under - level * len(FLAT), level * len(FLAT) - reached, Fraction(0))
        assert norm_at(FLAT, level, Linf(), (point,)) == score


def test_the_hull_is_linf_at_the_median() -> None:
    for vector in itertools.product([Fraction(k, 3) for k in range(-4, 5)], repeat=3):
        assert InterceptHullNorm(HALF).of(vector) == Linf().of(vector)


SMALL = [(4, x, y) for x in (-4, 4) for y in (-4, 0, 4)]


@pytest.mark.parametrize(
    ("tau", "hull", "adjacency"),
    [
        (HALF, False, REPLACE),
        (HIGH, False, REPLACE),
        (HIGH, True, REPLACE),
        (HALF, False, ADD),
        (HIGH, False, ADD),
    ],
)
def test_no_pair_of_neighbours_exceeds_epsilon(
    tau: Fraction, hull: bool, adjacency: Adjacency
) -> None:
    norm: GradientNorm = InterceptHullNorm(tau) if hull else Linf()
    delta = Fraction(1) if hull else gradient_sensitivity(tau, adjacency)
    epsilon, worst = 2, 0.0
    common = [(4, -1, 1), (4, 3, -2)]
    laws = []
    for changed in [None, *SMALL] if adjacency is ADD else SMALL:
        records = [*common, changed] if changed else common
        weights = np.array(list(law_over(records, tau, norm, epsilon / (2 * delta)).values()))
        laws.append(np.log(weights / weights.sum()))
    pairs = (
        [(laws[0], law) for law in laws] if adjacency is ADD else itertools.combinations(laws, 2)
    )
    for one, two in pairs:
        worst = max(worst, float(np.abs(one - two).max()))
    assert 0.3 * epsilon < worst <= epsilon + 1e-9


@pytest.mark.parametrize("tau", [HALF, HIGH, Fraction(1, 5)])
@pytest.mark.parametrize(("adjacency", "hull"), [(REPLACE, False), (REPLACE, True), (ADD, False)])
def test_the_gradient_moves_by_exactly_delta(
    tau: Fraction, adjacency: Adjacency, hull: bool
) -> None:
    schema = Schema({"x": NUMBER, "y": NUMBER}, adjacency, 4 if adjacency is REPLACE else None, 9)
    norm: GradientNorm = InterceptHullNorm(max(tau, 1 - tau)) if hull else Linf()
    delta = Fraction(1) if hull else gradient_sensitivity(tau, adjacency)
    statistic = QuantileRegression(target="y", features=("x",), bound=1.0)
    rows = RegressionRows(
        scaling=statistic.scaling(schema), bound=Fraction(1), bits=38, most=schema.row_bound
    )
    points = [(0, 0), (1 << 37, 0), (0, -(1 << 37)), (12345, -(1 << 36)), (1 << 37, 1 << 37)]

    def gradients(data: ArrayData) -> list[Fraction]:
        records = rows.records(data)
        found: list[Fraction] = []
        for point in points:
            position = records.position(np.arange(len(records.y), dtype=np.int32), point)
            weights = [
                int(count) * (int(reached) - tau)
                for reached, count in zip(position >= 0, records.counts, strict=True)
            ]
            found += [
                sum(
                    (w * Fraction(int(x), CODE_MAX) for w, x in zip(weights, column, strict=True)),
                    Fraction(0),
                )
                for column in records.x.T
            ]
        return found

    replay = record_replay(
        gradients,
        schema=schema,
        norm=lambda change: max(norm.of(change[k : k + 2]) for k in range(0, len(change), 2)),
        trials=150,
    )
    assert delta * Fraction(99, 100) <= replay.largest <= delta

    def smallest(data: ArrayData) -> list[Fraction]:
        records = rows.records(data)
        law = GradientLaw(records, tau=tau, rate=Fraction(1), norm=norm)
        return [law.value(law.root(), point) for point in points]

    replay = record_replay(
        smallest, schema=schema, norm=lambda change: max(map(abs, change)), trials=150
    )
    assert replay.largest <= delta


def many(dimension: int, rows: int, level: float = 0.0) -> Records:
    """Return clustered records whose regression has a constant and correlated columns."""
    generator = np.random.default_rng(dimension)
    base = generator.uniform(-0.7, -0.2, rows)
    x = [np.ones(rows), base, 0.5 * base + generator.uniform(0, 0.2, rows), base**2][:dimension]
    y = level + sum(x) / 6 + generator.normal(0, 0.1, rows)
    codes = np.rint(np.clip([*x, y], -1, 1) * CODE_MAX).astype(np.int64)
    return Records.build(
        np.ascontiguousarray(codes[:-1].T), codes[-1], grid_bits=37, radius=2 << 37
    )


@pytest.mark.parametrize("rate", [1, 4])
@pytest.mark.parametrize("tau", [HALF, HIGH])
@pytest.mark.parametrize("dimension", [1, 2, 3])
def test_the_start_near_the_minimiser_is_a_cover_with_true_bounds(
    dimension: int, tau: Fraction, rate: int
) -> None:
    """Boxes tile the root; the law in and just outside each is what it is anywhere."""
    records = many(dimension, 20_000 if dimension == 3 else 5_000)
    norm: GradientNorm = InterceptHullNorm(tau) if tau > HALF else Linf()
    law = GradientLaw(records, tau=tau, rate=Fraction(rate), norm=norm)
    root = records.space.root()
    parts = law.start(records.space)
    assert len(parts) > dimension
    assert sum(part.box.points for part in parts) == root.points
    # at the smaller rate the law is so wide that all records may be open
    assert len(parts[0].known.index) < len(records.y) or rate == 1
    randomness = seeded_randomness(4)
    tightest = np.inf
    for part in parts:
        inner = parts[0].box
        lower = [max(a, b - 2) for a, b in zip(part.box.lower, inner.lower, strict=True)]
        sides = [
            max(1, min(a + n, b + m + 2) - first)
            for a, n, b, m, first in zip(
                part.box.lower, part.box.sides, inner.lower, inner.sides, lower, strict=True
            )
        ]
        for box in [part.box] * 20 + [Box(tuple(lower), tuple(sides))] * 60:
            point = records.space.draw_point(box, randomness)
            exact = law.value(part.known, point)
            assert exact == law.value(law.root(), point)
            assert part.exponent <= float(law.rate * exact)
            if part.exponent:
                tightest = min(tightest, float(law.rate * exact) / part.exponent)
    assert 1 <= tightest < 12


@pytest.mark.parametrize("tau", [HALF, HIGH])
@pytest.mark.parametrize("dimension", [1, 2, 3])
def test_the_loss_starts_near_its_minimiser_with_true_bounds(dimension: int, tau: Fraction) -> None:
    records = many(dimension, 5_000)
    law = LossLaw(records, tau=tau, rate=Fraction(1))
    parts, randomness = law.start(records.space), seeded_randomness(4)
    assert len(parts) > dimension
    assert sum(part.box.points for part in parts) == records.space.root().points
    inner, tightest = parts[0].box, np.inf
    for part in parts:
        lower = [max(a, b - 2) for a, b in zip(part.box.lower, inner.lower, strict=True)]
        sides = [
            max(1, min(a + n, b + m + 2) - first)
            for a, n, b, m, first in zip(
                part.box.lower, part.box.sides, inner.lower, inner.sides, lower, strict=True
            )
        ]
        for box in [part.box] * 20 + [Box(tuple(lower), tuple(sides))] * 60:
            point = records.space.draw_point(box, randomness)
            exact = float(law.rate * law.value(part.known, point))
            assert exact == pytest.approx(float(law.rate * law.value(law.root(), point)))
            assert part.exponent <= exact
            tightest = min(tightest, exact - part.exponent)

    assert parts[-1].exponent > 30
    assert 0 <= tightest < 60


@pytest.mark.parametrize("kind", ["gradient", "loss"])
@pytest.mark.parametrize("dimension", [2, 4])
def test_bounds_on_boxes_are_below_every_point(dimension: int, kind: str) -> None:
    """Down random paths of the tree, on correlated columns, whose shear is not the identity."""
    records = many(dimension, 1500)
    assert np.abs(records.space.shear - np.eye(dimension)).max() > 0.2
    law: GradientLaw | LossLaw = (
        LossLaw(records, tau=HIGH, rate=Fraction(1, 10))
        if kind == "loss"
        else GradientLaw(records, tau=HIGH, rate=Fraction(1, 4), norm=InterceptHullNorm(HIGH))
    )
    rng, randomness, informative = np.random.default_rng(1), seeded_randomness(3), 0
    for _ in range(6):
        [start] = law.start(records.space)
        box, known, exponent = start.box, start.known, start.exponent
        for _ in range(16):
            parts = box.parts([2] * dimension)
            half = np.array([part.sides for part in parts]).max(axis=0) / 2
            centres = np.array([part.lower for part in parts]) + half
            children = law.split(known, centres, half)
            pick = int(rng.integers(len(parts)))
            box, known = parts[pick], children.knowledge[pick]
            exponent = max(exponent, float(children.exponents[pick]))
            informative += exponent > 0.1
            for _ in range(3):
                point = records.space.draw_point(box, randomness)
                with working_precision(128):
                    exact = law.exponent(known, point, 128)
                assert exponent <= float(exact.upper())
    assert informative > 20


def test_a_minimiser_outside_theta_starts_with_all_of_it_bounded_truly() -> None:
    records = many(2, 5_000, level=0.6)
    small = Records.build(records.x, records.y, grid_bits=37, radius=1 << 35)
    law = GradientLaw(small, tau=HALF, rate=Fraction(1), norm=Linf())
    point = draw(law, small.space, seeded_randomness(1))
    assert sum(map(abs, point)) <= 1 << 35


# 2. Distribution ----------------------------------------------------------------------------


@pytest.mark.wide
@pytest.mark.statistical
@pytest.mark.parametrize("case", CASES)
def test_draws_follow_the_law_and_no_other(case: str) -> None:
    records, tau, norm = CASES[case]
    rate = RATES[case]
    weights = law_over(records, tau, norm, rate)
    order = {point: i for i, point in enumerate(sorted(weights, key=weights.__getitem__))}
    law, *twins = (
        Law.discrete(list(order.values()), [weights[p] ** scale for p in order])
        for scale in (1.0, 0.7, 1.3)
    )
    count = draws_to_refuse(twins, law, list(order.values()))
    draws = draws_of(records, (tau, norm, rate), count=count)
    check_draws([order[point] for point in draws], law, twins=twins)


def loss_at(records: Sequence[Record], tau: Fraction, point: Sequence[int]) -> Fraction:
    """Return the check loss one record at a time, from its definition."""
    total = Fraction(0)
    for *x, y in records:
        fitted = sum(
            (Fraction(a, 4) * Fraction(t, 4) for a, t in zip(x, point, strict=True)), Fraction(0)
        )
        residual = Fraction(y, 4) - fitted
        total += residual * (tau - (residual <= 0))
    return total


@pytest.mark.statistical
@pytest.mark.parametrize("case", CASES)
def test_the_exponential_mechanism_draws_by_the_loss_itself(case: str) -> None:
    records, tau, _ = CASES[case]
    built, rate = build(records), Fraction(4)
    law = LossLaw(built, tau=tau, rate=rate)
    losses = {point: loss_at(records, tau, point) for point in ball(len(records[0]) - 1)}
    known = law.start(built.space)[0].known
    for point, loss in losses.items():
        assert law.value(known, point) == loss
        centre = np.linalg.solve(built.space.shear, np.array(point, dtype=float))
        split = law.split(known, centre[None, :], np.full(len(point), 0.5))
        assert law.value(split.knowledge[0], point) == loss
        assert split.exponents[0] <= float(rate * loss)
    order = {point: i for i, point in enumerate(sorted(losses, key=losses.__getitem__))}
    exact, *twins = (
        Law.discrete(
            list(order.values()), [np.exp(-float(rate * losses[p]) * scale) for p in order]
        )
        for scale in (1.0, 0.5, 2.0)
    )
    randomness = seeded_randomness(6)
    covers = [Cover(law, built.space) for _ in range(30)]
    draws = [order[cover.draw(randomness)] for cover in covers for _ in range(100)]
    check_draws(draws, exact, twins=twins)


def test_a_record_s_loss_is_at_most_its_sensitivity() -> None:
    for tau in (HALF, HIGH, Fraction(1, 5)):
        largest = max(
            loss_at([record], tau, point)
            for record in itertools.product((-4, 4), repeat=3)
            for point in ball(2, 4)
        )
        assert largest == loss_sensitivity(tau, Fraction(1))


def _worst_log_ratio(tau: Fraction, adjacency: Adjacency, factor: float) -> float:
    """Return the largest |log ratio| of the exponential mechanism over neighbours, at epsilon 2."""
    rate = float(loss_rate(Fraction(2), tau, Fraction(1), adjacency)) * factor
    ends = list(itertools.product((-4, 0, 4), repeat=2))
    largest = 0.0
    for common in ((), ((4, 4),) * 8, ((4, -4),) * 8):
        rows = [(*common, each) for each in ends]
        if adjacency is ADD:
            rows.append(common)
        losses = np.array([[float(loss_at(r, tau, p)) for p in ball(1, 4)] for r in rows])
        logs = -rate * losses
        logs -= np.log(np.exp(logs).sum(axis=1))[:, None]
        pairs = logs[:-1] - logs[-1] if adjacency is ADD else logs[:, None] - logs[None]
        largest = max(largest, float(np.abs(pairs).max()))
    return largest


@pytest.mark.parametrize("adjacency", [REPLACE, ADD])
@pytest.mark.parametrize("tau", [Fraction(1, 2), HIGH])
def test_a_loss_that_only_grows_needs_no_factor_two(adjacency: Adjacency, tau: Fraction) -> None:
    """Neighbours come near epsilon under both adjacencies; a twin at twice the rate is above it."""
    assert 0.8 * 2 < _worst_log_ratio(tau, adjacency, 1.0) <= 2 + 1e-9
    assert _worst_log_ratio(tau, adjacency, 2.0) > 2


# 3. Black box -------------------------------------------------------------------------------

BULK = [(4, -4)] * 8
PAIRS = {REPLACE: ([*BULK, (4, 4)], [*BULK, (4, -4)]), ADD: ([*BULK, (4, 4)], BULK)}


def _audit(delta: Fraction, adjacency: Adjacency) -> float:
    """Audit tau = 0.9: eight records at the lower end, and one high that is moved or removed."""
    pair = [
        draws_of(records, (HIGH, Linf(), 1 / (2 * delta)), count=5000)
        for records in PAIRS[adjacency]
    ]
    events = {f"t < {t}": lambda draw, t=t: draw[0] < t for t in (-3, 0, 4)}
    return audit_epsilon(pair[0], pair[1], events).epsilon


@pytest.mark.wide
@pytest.mark.statistical
@pytest.mark.parametrize("adjacency", [REPLACE, ADD])
def test_the_audit_passes_ours_and_flags_the_printed_sensitivity(adjacency: Adjacency) -> None:
    assert _audit(gradient_sensitivity(HIGH, adjacency), adjacency) <= 1.0
    assert _audit(2 * (1 - HIGH), adjacency) > 1.2


# 4. Reference and edge cases ----------------------------------------------------------------


def release(
    statistic: QuantileRegression,
    values: Mapping[str, Sequence[float]],
    columns: dict[str, NumberColumn],
    *,
    epsilon: str,
    adjacency: Adjacency = REPLACE,
    norm: str = "auto",
    mechanism: str = "kng",
) -> dict[str, float]:
    rows = len(next(iter(values.values())))
    schema = Schema(columns, adjacency, rows if adjacency is REPLACE else None, 1000)
    plan = calibrate(statistic, schema, Epsilon.parse(epsilon), mechanism=mechanism, norm=norm)
    data = ArrayData.from_values(schema, {name: list(column) for name, column in values.items()})
    answer = plan.draw(data, seeded_randomness(1)).value["coefficients"]
    assert isinstance(answer, dict)
    return answer


ENGEL = {
    "income": NumberColumn(Fraction(0), Fraction(5000)),
    "foodexp": NumberColumn(Fraction(0), Fraction(2500)),
}


@pytest.mark.parametrize("tau", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("norm", ["linf", "optimal"])
def test_large_epsilon_gives_statsmodels_on_engel(tau: float, norm: str) -> None:
    """Up to the kink: the least gradient beside it is up to a record away from the minimiser."""
    table = sm.datasets.engel.load_pandas().data
    design = sm.add_constant(table["income"])
    fitted = sm.QuantReg(table["foodexp"], design).fit(q=tau, p_tol=1e-9, max_iter=5000)
    statistic = QuantileRegression(target="foodexp", features=("income",), tau=tau)
    values = {name: table[name].tolist() for name in ENGEL}
    found = release(statistic, values, ENGEL, epsilon="10000", norm=norm)

    def loss(intercept: float, slope: float) -> float:
        residual = table["foodexp"] - intercept - slope * table["income"]
        return float((residual * (tau - (residual <= 0))).sum())

    least = loss(fitted.params["const"], fitted.params["income"])
    assert least - 1 <= loss(found["(intercept)"], found["income"]) <= 1.01 * least
    assert found["income"] == pytest.approx(fitted.params["income"], abs=0.03)


@in_one("mechanism", ["kng", "exponential"])
@in_one("adjacency", [REPLACE, ADD])
@in_one("epsilon", ["1e-9", "1", "10000"])
@in_one(
    "values",
    [
        {"x": [], "z": [], "y": []},
        {"x": [0.5], "z": [1.0], "y": [9.0]},
        {"x": [1.0] * 40, "z": [1.0] * 40, "y": [-1.0, 1.0] * 20},
        {"x": [-1.0, 1.0] * 20, "z": [1.0, -1.0] * 20, "y": [0.25, -0.5] * 20},
    ],
)
def test_degenerate_data_and_extreme_epsilons_work(
    values: dict[str, list[float]], epsilon: str, adjacency: Adjacency, mechanism: str
) -> None:
    statistic = QuantileRegression(target="y", features=("x", "z"), bound=2.0)
    columns = dict.fromkeys(values, NUMBER)
    found = release(
        statistic, values, columns, epsilon=epsilon, adjacency=adjacency, mechanism=mechanism
    )
    assert set(found) == {"(intercept)", "x", "z"}
    assert sum(map(abs, found.values())) <= 2 + 1e-9


@pytest.mark.wide
@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    ("second", "epsilon", "rows"),
    [
        ("repeated", "100", 200),
        ("constant", "100", 200),
        ("coarse", "1", 2000),
        ("coarse", "100", 2000),
        pytest.param("repeated", "1", 2000, marks=pytest.mark.wide),
        pytest.param("constant", "1", 2000, marks=pytest.mark.wide),
    ],
)
def test_ties_on_collinear_columns_do_not_hold_a_draw_up(
    second: str, epsilon: str, rows: int
) -> None:
    """Without the spread, and a fine shear, boxes multiply along the line left open."""
    rng = np.random.default_rng(3)
    x = rng.uniform(-1, 1, rows)
    columns = {
        "repeated": (x, x, 0.5 * x),
        "constant": (x, np.full(rows, 0.3), 0.5 * x),
        "coarse": (
            np.rint(5 * x) / 5,
            np.rint(5 * rng.uniform(-1, 1, rows)) / 5,
            np.rint(5 * x) / 10,
        ),
    }
    unit = NumberColumn(Fraction(-1), Fraction(1))
    schema = Schema(dict.fromkeys("xzy", unit), REPLACE, rows)
    data = ArrayData.from_values(schema, dict(zip("xzy", columns[second], strict=True)))
    plan = calibrate(
        QuantileRegression(target="y", features=("x", "z")),
        schema,
        Epsilon.parse(epsilon),
        mechanism="kng",
    )
    found = plan.draw(data, seeded_randomness(1)).value["coefficients"]
    slope = found["x"] + (found["z"] if second == "repeated" else 0)
    assert slope == pytest.approx(0.5, abs=0.01)


def test_a_spread_is_below_half_a_code_and_the_record_s_own() -> None:
    rng = np.random.default_rng(4)
    x, y = rng.integers(-CODE_MAX, CODE_MAX + 1, (500, 2)), rng.integers(-9, 10, 500)
    for bits in (1, 18, 38):
        plain, spread = (
            Records.build(x, y, grid_bits=bits, radius=1 << bits, spread=on) for on in (False, True)
        )
        lowered = plain.threshold - spread.threshold
        assert (lowered >= 0).all()
        assert (2 * lowered < 1 << bits).all()
        assert (spread.target == spread.threshold).all()
        again = Records.build(x[::-1][:100], y[::-1][:100], grid_bits=bits, radius=4, spread=True)
        kept = {tuple(row): t for row, t in zip(spread.x.tolist(), spread.threshold, strict=True)}
        assert all(
            kept[tuple(r)] == t for r, t in zip(again.x.tolist(), again.threshold, strict=True)
        )
    assert len(set(lowered.tolist())) > 490


def test_constant_data_keep_their_quantile() -> None:
    """In one dimension the kink carries the mass at a large epsilon."""
    statistic = QuantileRegression(target="y", features=(), tau=0.9, bound=2.0)
    found = release(statistic, {"y": [0.25] * 60}, {"y": NUMBER}, epsilon="100")
    assert found["(intercept)"] == pytest.approx(0.25, abs=1e-5)


def test_without_an_intercept_columns_are_divided_by_their_extent() -> None:
    generator = np.random.default_rng(3)
    x = generator.uniform(1, 7, 200)
    columns = {
        "x": NumberColumn(Fraction(1), Fraction("7.3")),
        "y": NumberColumn(Fraction(0), Fraction(20)),
    }
    values = {"x": x.tolist(), "y": (1.5 * x + generator.uniform(-0.1, 0.1, 200)).tolist()}
    statistic = QuantileRegression(target="y", features=("x",), intercept=False, bound=2.0)
    for norm in ("linf", "optimal"):
        found = release(statistic, values, columns, epsilon="50", norm=norm, adjacency=ADD)
        assert found == {"x": pytest.approx(1.5, abs=0.02)}


@in_one("mechanism", ["kng", "exponential"])
@in_one("filled", [0, 1, 20])
def test_rows_without_an_intercept_may_be_almost_all_zero(filled: int, mechanism: str) -> None:
    """Such rows say nothing of any coefficient: the search for a start has no scale from them."""
    generator = np.random.default_rng(4)
    rows = 400
    x = generator.uniform(0.5, 1, rows) * (np.arange(rows) < filled)
    values = {"x": x.tolist(), "z": (-x).tolist(), "y": generator.uniform(-1, 1, rows).tolist()}
    statistic = QuantileRegression(target="y", features=("x", "z"), intercept=False, bound=2.0)
    columns = dict.fromkeys(values, NUMBER)
    found = release(statistic, values, columns, epsilon="1", mechanism=mechanism)
    assert sum(map(abs, found.values())) <= 2 + 1e-9


@in_one(
    ("change", "field"),
    [
        ({"tau": 0.0}, "tau"),
        ({"tau": float("nan")}, "tau"),
        ({"tau": 0.1234567891}, "tau"),
        ({"bound": 0.0}, "bound"),
        ({"bound": float("inf")}, "bound"),
        ({"features": ("y",)}, "features"),
        ({"features": ("x", "x")}, "features[1]"),
        ({"features": ("absent",)}, "features"),
        ({"features": ("a", "b", "c", "x")}, "features"),
    ],
)
def test_bad_questions_are_refused(change: dict[str, object], field: str) -> None:
    schema = Schema(dict.fromkeys("abcxy", NUMBER), REPLACE, 5)
    arguments: dict[str, object] = {"target": "y", "features": ("x",), **change}
    with pytest.raises(InvalidStatisticError) as caught:
        calibrate(
            QuantileRegression(**arguments),  # type: ignore[arg-type]
            schema,
            Epsilon.parse("1"),
            mechanism="kng",
        )
    assert caught.value.field_name == field


@pytest.mark.parametrize(
    ("tau", "adjacency", "norm", "expected"),
    [
        (0.5, REPLACE, "auto", ("linf", "1")),
        (0.9, REPLACE, "auto", ("optimal", "1")),
        (0.9, REPLACE, "linf", ("linf", "1.8")),
        (0.9, ADD, "auto", ("linf", "0.9")),
        (0.9, ADD, "optimal", ("optimal", "0.9")),
    ],
)
def test_plans_state_norm_and_sensitivity(
    tau: float, adjacency: Adjacency, norm: str, expected: tuple[str, str]
) -> None:
    schema = Schema({"x": NUMBER, "y": NUMBER}, adjacency, 5, 5)
    plan = calibrate(
        QuantileRegression(target="y", features=("x",), tau=tau),
        schema,
        Epsilon.parse("1"),
        mechanism="kng",
        norm=norm,
    )
    assert (plan.norm, plan.guarantee.sensitivity) == expected
    assert plan.preview(None) is None
