"""Polytopes for logistic regressions of many rows: true bounds, the law, and thin layers."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from numpy.typing import NDArray

from mechanisms.catalog import calibrate
from mechanisms.domain import CODE_MAX
from mechanisms.exact.arrays import Floats
from mechanisms.exact.rounding import working_precision
from mechanisms.kng.logistic import LogisticDraw
from mechanisms.objectives.gradient_norms import NormName
from mechanisms.objectives.logistic_law import layers as layers_module
from mechanisms.objectives.logistic_law.cells import Cells
from mechanisms.objectives.logistic_law.expansion import Expansion, SignedRecords
from mechanisms.objectives.logistic_law.held import LogisticLaw
from mechanisms.objectives.logistic_law.layers import LogisticLayers
from mechanisms.objectives.logistic_law.models import Lined, Model, expanded
from mechanisms.objectives.logistic_law.polytopes import trials
from mechanisms.objectives.rows import distinct_rows
from mechanisms.privacy import Epsilon
from mechanisms.samplers.envelopes import Trial, first_kept
from mechanisms.samplers.polytopes import Cut, Polytope, PolytopeCover
from mechanisms.statistics.logistic_regression import LogisticRegression
from mechanisms.testing import seeded_randomness
from tests.mechanisms.covers import below_on_paths, require_law
from tests.mechanisms.logistic_data import features, labelled

NORMS: tuple[NormName, ...] = ("linf", "l2", "l1")
BITS = 34


def one_label(rows: int, *, features: int = 2, spread: float = 0.02) -> NDArray[np.int64]:
    """Return signed rows that all pull theta the same way."""
    away = np.random.default_rng(3).exponential(spread, size=(rows, features)).clip(0, 2)
    return -np.rint(np.column_stack([np.ones(rows), 1 - away]) * CODE_MAX).astype(np.int64)


def even(rows: int, *, features: int = 2) -> NDArray[np.int64]:
    """Return signed rows of both labels, whose loss is least well inside."""
    rng = np.random.default_rng(4)
    x = np.column_stack([np.ones(rows), rng.uniform(-1, 1, (rows, features))])
    flipped = np.where(rng.uniform(size=rows) < 1 / (1 + np.exp(-x[:, 1])), -1, 1)
    return np.rint(x * flipped[:, None] * CODE_MAX).astype(np.int64)


ROWS = {"one label": one_label(600), "both": even(600)}


def layers(
    rows: NDArray[np.int64], norm: NormName = "linf", *, grid_bits: int = BITS, bound: int = 6
) -> LogisticLayers:
    radius = bound << grid_bits
    records = SignedRecords.build(*distinct_rows(rows), grid_bits=grid_bits, radius=radius)
    return LogisticLayers(LogisticLaw(records, rate=Fraction(2), norm=norm))


def exact(law: LogisticLayers, point: tuple[int, ...]) -> float:
    """Return E at a point, row by row."""
    with working_precision(256):
        return float(law.exponent(None, point, 256).mid())


def paths_below(law: LogisticLayers) -> tuple[int, int]:
    return below_on_paths(law, partial(exact, law))


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("case", ROWS)
def test_bounds_on_polytopes_are_below_every_point(case: str, norm: NormName) -> None:
    """Through polytopes too large for an expansion, and small ones."""
    wrong, informative = paths_below(layers(ROWS[case], norm))
    assert wrong == 0
    assert informative > 40


def test_bounds_without_the_errors_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Must fail: expansions taken for the gradient itself."""

    def careless(known: Expansion, theta: Floats, step: float) -> Model:
        found = expanded(known, theta, step)
        return replace(found, errors=found.errors * 0)

    monkeypatch.setattr(layers_module, "expanded", careless)
    monkeypatch.setattr(layers_module, "COARSE", 6.0)
    assert sum(paths_below(layers(ROWS["both"], norm))[0] for norm in NORMS) > 0


def hull(rng: np.random.Generator, dimension: int, size: float) -> Floats:
    return np.asarray(rng.normal(0, 2, dimension) + rng.normal(0, size, (7, dimension)))


@pytest.mark.parametrize("size", [1e-4, 0.05, 1.0, 20.0])
def test_models_are_below_the_gradient_everywhere_between(size: float) -> None:
    """Both of them, for any directions; and close to it where places are near each other."""
    rng = np.random.default_rng(5)
    law = layers(even(12_000)).law
    assert isinstance(law, LogisticLaw)
    cells = Cells.of(law.records).joined(1)
    assert cells is not None
    zeta, counts = law.records.zeta, law.records.counts
    for _ in range(20):
        theta, directions = hull(rng, 3, size), rng.normal(size=(5, 3))
        centre = theta.mean(axis=0) / law.frame.step
        known = law.expansions(centre[None, :])[0]
        inside = rng.dirichlet(np.full(7, 0.3), 60) @ theta
        g = (counts / (1 + np.exp(-inside @ zeta.T))) @ zeta @ directions.T
        room = float(np.abs(directions).sum(axis=1).max()) * law.records.total
        models = (Lined.of(law.frame, cells, theta), expanded(known, theta, law.frame.step))
        for model in models:
            least = model.least(directions)
            assert (least <= g.min(axis=0) + 1e-9 * room).all()
            if size < 1e-3:
                assert (least >= g.min(axis=0) - 0.01 * room).all()


def test_a_cell_of_rows_that_pull_to_both_sides_is_on_neither_line() -> None:
    """Its rows may all lie where that costs most. Must fail: a bound that forgets them."""
    x = np.repeat(np.arange(1, 40) * 400, 12) + np.tile(np.arange(12), 39)
    law = layers(np.column_stack([np.full(len(x), CODE_MAX), x])).law
    assert len(law.coarse.shares) == 1
    theta = np.array([[0.5, -40.0], [0.5, 40.0], [1.5, 0.0]])
    model = Lined.of(law.frame, law.coarse, theta)
    across = [-float(x.mean()) / CODE_MAX, 1.0]
    directions = np.array([across, across]) * [[1], [-1]]
    assert isinstance(law, LogisticLaw)
    zeta, counts = law.records.zeta, law.records.counts
    lowest = ((counts / (1 + np.exp(-theta @ zeta.T))) @ zeta @ directions.T).min(axis=0)
    assert (model.least(directions) <= lowest).all()
    careless = replace(model, gap=model.gap * 0)
    assert (careless.least(directions) > lowest).any()


def points_of(bound: int, grid_bits: int) -> list[tuple[int, ...]]:
    radius = bound << grid_bits
    every = itertools.product(range(-radius, radius + 1), repeat=3)
    return [point for point in every if sum(map(abs, point)) <= radius]


@pytest.mark.wide
@pytest.mark.statistical
@pytest.mark.parametrize("case", ROWS)
def test_draws_follow_the_law_and_no_other(case: str) -> None:
    """On a coarse grid of all three coefficients, against every point's own exponent."""
    law = layers(ROWS[case][:40], grid_bits=1, bound=2)
    values = {point: exact(law, point) for point in points_of(2, 1)}
    require_law(lambda: PolytopeCover(law), values)


# Rows that boxes alone did not end within half a minute: at a face of Theta, at a corner of it,
# and with a column that nearly follows from the constant.


def near_the_end(rows: int) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    x = 1 - np.random.default_rng(5).exponential(0.02, size=(rows, 3)).clip(0, 2)
    return x, np.ones(rows, dtype=np.bool_)


def nearly_constant(rows: int) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    rng = np.random.default_rng(6)
    return 1 - rng.exponential(0.002, size=(rows, 1)).clip(0, 2), rng.uniform(size=rows) < 0.9


def rare_dummy(rows: int) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Return 4 in 1,000 of a kind, whose coefficient moves the gradient of few rows."""
    rng = np.random.default_rng(6)
    dummies, u = rng.uniform(size=(rows, 2)) < [0.004, 0.5], rng.uniform(size=rows)
    y = (dummies @ [0.2, 0.3] + 0.4 * u + rng.exponential(0.1, rows)).clip(0, 1)
    x = np.column_stack([np.where(dummies, 1, -1), 2 * u - 1])
    return x, rng.uniform(size=rows) < 1 / (1 + np.exp(1.5 - 3 * y))


HARD = [
    ("end", 1_000, "1000", 1),
    ("end", 1_000, "10000", 1),
    ("end", 10_000, "10", 1),
    ("end", 10_000, "10", 5),
    ("constant", 20_000, "10000", 10),
]


def turns(kind: str, rows: int, epsilon: str, bound: int) -> list[Trial]:
    """Return the envelopes of a draw."""
    make = {"end": near_the_end, "constant": nearly_constant, "rare": rare_dummy}[kind]
    schema, data = labelled(*make(rows))
    asked = LogisticRegression(target="y", features=features(schema), bound=float(bound))
    drawn = calibrate(asked, schema, Epsilon.parse(epsilon), mechanism="kng").draw
    assert isinstance(drawn, LogisticDraw)
    return trials(drawn.law(data), power=drawn.power)


@pytest.mark.parametrize(("kind", "rows", "epsilon", "bound"), HARD)
def test_a_thin_layer_does_not_hold_a_draw_up(
    kind: str, rows: int, epsilon: str, bound: int
) -> None:
    found = turns(kind, rows, epsilon, bound)
    first_kept(found, seeded_randomness(1))
    assert sum(trial.envelope.effort for trial in found) < 8_000


def test_polytopes_end_a_draw_beside_a_rare_dummy() -> None:
    """Cut across their slopes alone wide ones never grew narrower: level lines have none."""
    [polytopes] = [t for t in turns("rare", 5_000, "5", 50) if isinstance(t, PolytopeCover)]
    randomness = seeded_randomness(1)
    while polytopes.attempt(randomness) is None:
        assert polytopes.envelope.effort < 40_000


def test_boxes_alone_do_not_follow_a_thin_layer() -> None:
    """Must fail: the same without polytopes."""
    [boxes] = [t for t in turns("end", 1_000, "1000", 1) if not isinstance(t, PolytopeCover)]
    randomness = seeded_randomness(1)
    while boxes.envelope.effort < 16_000:
        assert boxes.attempt(randomness) is None


def test_the_envelope_that_should_be_quicker_comes_first() -> None:
    """Boxes where the minimiser is inside Theta, polytopes where the rows pull theta out of it."""
    for case, kind in (("one label", PolytopeCover), ("both", type(None))):
        law = layers(ROWS[case], bound=2).law
        assert law.pulled_out == (kind is PolytopeCover)
        assert isinstance(trials(law, power=0)[0], PolytopeCover) == law.pulled_out


def test_a_cut_parts_every_polytope() -> None:
    """A level beside a span is moved inside: else nothing would be cut off, again and again."""
    for level in (-math.inf, -3.0, 0.1, 0.9, 7.0, math.inf):
        assert 0 < layers_module.share_of_way((0.0, 0.0, 1.0), level) <= 0.5
        assert 0.3 < layers_module.share_of_way((0.0, 0.3, 1.0), level) <= 0.65
    corner = Polytope.cross(3, 1 << BITS)
    cut = Cut.middle(np.array([1.0, 2.0, 0.0]), corner.floats, 2.0**-6)
    assert cut is not None
    assert all(half is not None for half in corner.halves(cut))
