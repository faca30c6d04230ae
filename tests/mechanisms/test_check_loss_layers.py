"""Polytopes for quantile regressions of many rows: true bounds, the law, and thin or sharp laws."""

from __future__ import annotations

import itertools
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from numpy.typing import NDArray

from mechanisms.domain import CODE_MAX
from mechanisms.exact.floats import Floats, working_precision
from mechanisms.objectives.check_loss import (
    GradientLaw,
    GradientLayers,
    LossCells,
    LossLaw,
    Records,
    trials,
)
from mechanisms.objectives.check_loss import layers as layers_module
from mechanisms.objectives.design import GradientNorm, InterceptHullNorm, Linf
from mechanisms.samplers.envelopes import Trial, first_kept
from mechanisms.samplers.polytopes import Cut, Polytope, PolytopeCover, Stack
from mechanisms.samplers.polytopes.polytope import Frame
from mechanisms.testing import seeded_randomness
from tests.mechanisms.covers import below_on_paths, require_law

HIGH = Fraction(9, 10)
NORMS: dict[str, GradientNorm] = {"linf": Linf(), "optimal": InterceptHullNorm(HIGH)}


def even(rows: int, *, features: int = 2) -> tuple[Floats, Floats]:
    """Return x and y, of a loss that is least well inside."""
    rng = np.random.default_rng(4)
    x = np.column_stack([np.ones(rows), rng.uniform(0, 1, (rows, features))])
    return x, (0.3 + x[:, 1] * 0.4 + rng.normal(0, 0.1, rows)).clip(0, 1)


def steep(rows: int, *, features: int = 2) -> tuple[Floats, Floats]:
    """Return x and y, of a loss that is least outside of small balls; many y are equal."""
    x, _ = even(rows, features=features)
    return x, (2 * x[:, 1]).clip(0, 1)


def tied(rows: int, *, features: int = 2) -> tuple[Floats, Floats]:
    """Return x and y, all on one plane."""
    x, _ = even(rows, features=features)
    return x, x @ np.full(features + 1, 0.9 / (features + 1))


def corners(rows: int, *, features: int = 2) -> tuple[Floats, Floats]:
    """Return x close to 0 or 1 in each entry, and y."""
    rng = np.random.default_rng(6)
    near = rng.uniform(size=(rows, features)).round() + rng.normal(0, 0.001, (rows, features))
    x = near.clip(0, 1)
    y = 0.3 + x[:, 0] * 0.4 + rng.normal(0, 0.1, rows)
    return np.column_stack([np.ones(rows), x]), y.clip(0, 1)


def zeros(rows: int, *, features: int = 2) -> tuple[Floats, Floats]:
    """Return x and y, nearly all of which are 0: their planes meet there."""
    x, y = even(rows, features=features)
    return x, np.where(np.random.default_rng(5).uniform(size=rows) < 0.95, 0, y)


ROWS = {"even": even(600), "steep": steep(600), "tied": tied(600), "zeros": zeros(600)}


def records(
    rows: tuple[Floats, Floats], *, grid_bits: int = 34, bound: float = 2, spread: bool = True
) -> Records:
    x, y = (np.rint(each * CODE_MAX).astype(np.int64) for each in rows)
    radius = int(bound * 2**grid_bits)
    return Records.build(x, y, grid_bits=grid_bits, radius=radius, spread=spread)


def gradient(built: Records, norm: str = "linf", rate: Fraction = Fraction(3)) -> GradientLaw:
    return GradientLaw(built, tau=HIGH, rate=rate, norm=NORMS[norm])


Layers = GradientLayers | LossCells


def on_polytopes(case: str, kind: str, *, bound: float = 2) -> Layers:
    built = records(ROWS[case], bound=bound)
    if kind == "loss":
        return LossCells(LossLaw(built, tau=HIGH, rate=Fraction(3)))
    return GradientLayers(gradient(built, kind))


def exact(law: Layers, point: tuple[int, ...]) -> float:
    """Return E at a point, row by row."""
    with working_precision(256):
        return float(law.exponent(law.arrangement.root, point, 256).mid())


def paths_below(law: Layers) -> tuple[int, int]:
    return below_on_paths(law, partial(exact, law))


@pytest.mark.parametrize("kind", [*NORMS, "loss"])
@pytest.mark.parametrize("case", ROWS)
def test_bounds_on_polytopes_are_below_every_point(case: str, kind: str) -> None:
    wrong, informative = paths_below(on_polytopes(case, kind))
    assert wrong == 0
    assert informative > 40


def test_bounds_of_a_hull_of_corners_alone_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Must fail: the middle of the zonotope taken for all of it."""

    def careless(law: GradientLayers, settled: Floats, rows: Floats) -> float:
        middle = np.abs(settled + rows.sum(axis=0) / 2)
        return float(law.law.norm.floats(middle[None, :])[0]) * law.rate

    monkeypatch.setattr(layers_module.GradientLayers, "nearest", careless)
    assert paths_below(on_polytopes("even", "linf"))[0] > 0


@pytest.mark.parametrize("size", [3, 20, 300])
def test_the_bound_of_a_zonotope_is_below_all_of_it_and_near_its_least(size: int) -> None:
    law, rng = on_polytopes("even", "linf"), np.random.default_rng(size)
    assert isinstance(law, GradientLayers)
    rows = rng.normal(size=(size, 3)) * CODE_MAX
    settled = np.array([3.0, -2.0, 2.5]) * size * CODE_MAX
    told = law.nearest(settled, rows) / law.rate
    shares = rng.uniform(size=(2_000, size)).round(rng.integers(0, 3))
    sizes = law.law.norm.floats(np.abs(settled + shares @ rows))
    assert 0.5 * sizes.min() < told <= sizes.min()


def points_of(bound: int, grid_bits: int) -> list[tuple[int, ...]]:
    radius = bound << grid_bits
    every = itertools.product(range(-radius, radius + 1), repeat=3)
    return [point for point in every if sum(map(abs, point)) <= radius]


@pytest.mark.wide
@pytest.mark.statistical
@pytest.mark.parametrize("kind", ["linf", "loss"])
@pytest.mark.parametrize("case", ["even", "steep", "tied"])
def test_draws_follow_the_law_and_no_other(case: str, kind: str) -> None:
    """On a coarse grid of all three coefficients, against every point's own exponent."""
    x, y = ROWS[case]
    built = records((x[:40], y[:40]), grid_bits=2, bound=1, spread=False)
    # so that neither one point nor all of them have the mass
    rate = Fraction(1, 2 if case == "even" else 10)
    law: Layers = (
        LossCells(LossLaw(built, tau=HIGH, rate=rate))
        if kind == "loss"
        else GradientLayers(gradient(built, rate=rate))
    )
    require_law(lambda: PolytopeCover(law), {point: exact(law, point) for point in points_of(1, 2)})


# Laws that boxes alone followed for many seconds: at a face of Theta, and on few cells.
HARD = [
    ("corners", "linf", Fraction(50), 0.5),
    ("steep", "linf", Fraction(5), 0.5),
    ("even", "linf", Fraction(500), 2.0),
    ("tied", "linf", Fraction(500), 2.0),
    ("tied", "loss", Fraction(5), 0.3),
]


def turns(case: str, kind: str, rate: Fraction, bound: float) -> list[Trial]:
    """Return the envelopes of a draw, of 2,000 rows and four coefficients."""
    make = {"corners": corners, "even": even, "steep": steep, "tied": tied}[case]
    built = records(make(2_000, features=3), bound=bound, spread=kind != "loss")
    if kind == "loss":
        return trials(LossLaw(built, tau=HIGH, rate=rate))
    return trials(gradient(built, kind, rate), power=12)


@pytest.mark.parametrize(("case", "kind", "rate", "bound"), HARD)
def test_a_thin_or_sharp_law_does_not_hold_a_draw_up(
    case: str, kind: str, rate: Fraction, bound: float
) -> None:
    found = turns(case, kind, rate, bound)
    first_kept(found, seeded_randomness(1))
    assert sum(trial.envelope.effort for trial in found) < 100_000


def test_boxes_alone_do_not_follow_a_thin_law() -> None:
    """Must fail: the same without polytopes."""
    [boxes] = [t for t in turns(*HARD[0]) if not isinstance(t, PolytopeCover)]
    randomness = seeded_randomness(1)
    while boxes.envelope.effort < 100_000:
        assert boxes.attempt(randomness) is None


FIRST = [
    ("even", Fraction(1, 2), 2, False),
    ("even", Fraction(5), 2, True),
    ("steep", Fraction(1, 2), 0.3, True),
    ("zeros", Fraction(1, 2), 2, True),
]


@pytest.mark.parametrize(("case", "rate", "bound", "polytopes"), FIRST)
def test_the_envelope_that_should_be_quicker_comes_first(
    case: str, rate: Fraction, bound: float, polytopes: bool
) -> None:
    """Polytopes where a record tells much, on a layer at the bound, and on a cone; else boxes."""
    first, _ = trials(gradient(records(ROWS[case], bound=bound), "optimal", rate), power=12)
    assert isinstance(first, PolytopeCover) == polytopes


@pytest.mark.parametrize(("values", "polytopes"), [(CODE_MAX, False), (16, True)])
def test_the_loss_of_groups_has_polytopes_first_where_many_rows_are_equal(
    values: int, polytopes: bool
) -> None:
    """Dummies of four groups. Where targets differ, boxes are two to five times as quick."""
    rng = np.random.default_rng(7)
    x = np.column_stack([np.ones(8_000), np.eye(4)[rng.integers(4, size=8_000), 1:]])
    y = np.rint((0.2 + x @ [0, 0.1, 0.2, 0.3] + rng.exponential(0.1, 8_000)) * values) / values
    built = records((x, y.clip(0, 1)), spread=False)
    first, _ = trials(LossLaw(built, tau=HIGH, rate=Fraction(1, 2)))
    assert isinstance(first, PolytopeCover) == polytopes


def test_a_start_is_at_the_minimiser_itself() -> None:
    """A fit that is some records off would leave the law outside of its box at a large epsilon."""
    for case in ("even", "tied"):
        law = gradient(records(ROWS[case]), rate=Fraction(5_000))
        parts = law.start(law.records.space)
        known: NDArray[np.int32] = parts[0].known.index
        assert 0 < len(known) < len(law.records.y)
        assert parts[-1].exponent > 100


def test_a_start_on_polytopes_covers_theta() -> None:
    law = GradientLayers(gradient(records(ROWS["even"]), rate=Fraction(5_000)))
    randomness = seeded_randomness(2)
    parts, theta = law.start(), Polytope.cross(3, 2 << 34)
    assert len(parts) > 1
    frame = Frame.around(Stack([theta]))[0]
    inside = [p for p in (frame.draw_point(randomness) for _ in range(300)) if theta.holds(p)]
    assert all(sum(part.polytope.holds(point) for part in parts) == 1 for point in inside)
    assert all(isinstance(wall, Cut | None) for part in parts for wall in part.polytope.walls)
