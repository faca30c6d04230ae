"""A start's bounds are true wherever the search for a minimiser has led."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import pytest

from mechanisms.domain import CODE_MAX
from mechanisms.exact.floats import Floats, Integers
from mechanisms.objectives.check_loss import (
    CheckLossLaw,
    GradientLaw,
    Grid,
    Limits,
    LossLaw,
    MakeLaw,
    Records,
    StoredLaw,
    StoredRows,
    narrowing,
    search,
    stored_law,
    survey,
)
from mechanisms.objectives.design import Linf, distinct_rows
from mechanisms.objectives.points import PointsLaw
from mechanisms.objectives.points import law as points_law
from mechanisms.objectives.points.search import least
from mechanisms.samplers.boxes import Box, Space, Start
from mechanisms.testing import seeded_randomness
from tests.mechanisms.test_many_points import RADIUS, gradient, length, looked, scattered

BITS = 38
HALF = Fraction(1, 2)
LAWS: dict[str, MakeLaw] = {
    "gradient": partial(GradientLaw, tau=HALF, rate=Fraction(1), norm=Linf()),
    "loss": partial(LossLaw, tau=Fraction(1, 5), rate=Fraction(1)),
}


def codes(dimension: int, *, rows: int = 2500) -> Integers:
    """Return rows (x, y), all y close to one plane."""
    rng = np.random.default_rng(dimension)
    x = rng.uniform(-1, 1, (rows, dimension))
    x[:, 0] = 1
    y = x.sum(axis=1) / 5 + rng.normal(0, 0.01, rows)
    return np.rint(np.column_stack([x, y]) * CODE_MAX).astype(np.int64)


@pytest.fixture
def misled(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Have every search end at some point, with some reach."""

    def mislead(seed: int) -> None:
        rng = np.random.default_rng(seed)
        reach = 2.0 ** -rng.integers(1, 12)

        def lost(law: CheckLossLaw, within: Start[Any], each: int = 1) -> narrowing.Hint:
            lower, half = np.array(within.box.lower), np.array(within.box.sides) / 2
            point = lower + half * (1 + rng.uniform(-0.9, 0.9, len(half)))
            return narrowing.Hint(point, reach * half, nats=30, error=np.zeros(len(half)))

        monkeypatch.setattr(narrowing, "search", lost)
        monkeypatch.setattr(stored_law, "search", lost)

    return mislead


def too_high(
    parts: list[Start[Any]], space: Space, exact: Callable[[Sequence[int]], float], least: Floats
) -> int:
    """Return at how many points of boxes E is below their bounds.

    They are any points, and those nearest to where E is about least.
    """
    randomness, wrong, u = seeded_randomness(2), 0, np.linalg.solve(space.shear, least)
    for part in parts:
        sides = zip(u, part.box.lower, part.box.sides, strict=True)
        nearest = tuple(min(max(int(at), low), low + side - 1) for at, low, side in sides)
        for box in [part.box] * 5 + [Box(nearest, (1,) * len(nearest))]:
            wrong += part.exponent > exact(space.draw_point(box, randomness)) * (1 + 1e-12)
    return wrong


def too_high_of_losses(law: CheckLossLaw, parts: list[Start[Any]]) -> int:
    """Return the same for rows close to the plane of :func:`codes`."""
    space, whole = law.records.space, law.root()
    return too_high(
        parts,
        space,
        lambda point: float(law.rate * law.value(whole, point)),
        np.full(space.dimension, 2.0**BITS / 5),
    )


@pytest.mark.parametrize("kind", LAWS)
@pytest.mark.parametrize("dimension", [1, 2, 3])
def test_a_start_far_from_the_minimiser_has_true_bounds(
    kind: str, dimension: int, misled: Callable[[int], None]
) -> None:
    rows, counts = distinct_rows(codes(dimension))
    parted = 0
    for seed in range(20):
        misled(seed)
        law = LAWS[kind](Records.counted(rows, counts, grid_bits=BITS, radius=2 << BITS))
        parts = law.start(law.records.space)
        parted += len(parts) > 1
        assert too_high_of_losses(law, parts) == 0
    assert parted > 10


@pytest.mark.parametrize("kind", LAWS)
@pytest.mark.parametrize("failure", [np.linalg.LinAlgError, ZeroDivisionError, ValueError])
def test_a_search_that_fails_leaves_theta_whole(
    kind: str, failure: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else what the rows are would decide whether there is an answer."""

    def fails(*_: object) -> None:
        raise failure

    monkeypatch.setattr(search.Smoothed, "fit", fails)
    rows, counts = distinct_rows(codes(2))
    law = LAWS[kind](Records.counted(rows, counts, grid_bits=BITS, radius=2 << BITS))
    [whole] = law.start(law.records.space)
    assert whole.box == law.records.space.root()
    assert whole.exponent == 0


@pytest.mark.parametrize("kind", LAWS)
@pytest.mark.parametrize("dimension", [1, 2])
def test_shells_about_a_poor_fit_have_true_bounds(
    kind: str, dimension: int, misled: Callable[[int], None]
) -> None:
    """Rows that are too many to hold are approached by a fit of a sample."""
    every, make = codes(dimension), LAWS[kind]
    names = [f"column {place}" for place in range(dimension + 1)]
    block = dict(zip(names, every.T.astype(np.int32), strict=True))

    def run(function: Callable[[Any], Any], /) -> Iterator[Any]:
        return iter([function(block)])

    def read(columns: Any) -> Any:
        return np.array([columns[name] for name in names], dtype=np.float64)

    limits = Limits(rows=len(every), held=2000, sample=256)
    found = survey(run, read, columns=dimension + 1, stride=limits.stride)
    space = Space.uncorrelated(found.gram[:-1, :-1].astype(np.float64), 2 << BITS)
    rows = StoredRows(
        run=run,
        read=read,
        make=make,
        grid=Grid(space=space, bits=BITS),
        limits=limits,
        surveyed=found,
    )
    law, held = make(Records.on(rows.grid, *distinct_rows(every))), 0
    for seed in range(20):
        misled(seed)
        parts = StoredLaw(rows, Fraction(1)).start(space)
        held += len(parts) > 1
        assert too_high_of_losses(law, parts) == 0
    assert held > 0


@pytest.mark.parametrize("dimension", [2, 3])
def test_a_start_far_from_the_median_has_true_bounds(
    dimension: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    points, rng, parted = scattered(300, dimension), np.random.default_rng(5), 0
    source, space = looked(points), Space.cubic(dimension, RADIUS)
    good = least(source.root.field, 2.0)
    for _ in range(20):
        poor = replace(good, point=good.point + rng.normal(0, RADIUS / 10, dimension))
        monkeypatch.setattr(points_law, "least", lambda *_, poor=poor: poor)
        parts = PointsLaw(source, rate=Fraction(2)).start(space)
        parted += len(parts) > 1
        assert too_high(parts, space, lambda at: 2 * length(gradient(points, at)), good.point) == 0
    assert parted > 10
