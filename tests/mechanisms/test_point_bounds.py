"""Bounds of sums of unit vectors on random boxes of every kind, beside sums in integers.

Seeds that are named have found a mistake, and fail where it is made again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from mechanisms.domain import CODE_MAX
from mechanisms.exact.floats import Floats, Integers
from mechanisms.objectives.points import Points, bounds, held, law
from mechanisms.objectives.points.bounds import bounded
from mechanisms.objectives.points.field import Field
from mechanisms.samplers.boxes import Space
from tests.mechanisms.test_many_points import RADIUS, SHIFT, gradient, length
from tests.tiers import wide

Random = np.random.Generator
TELLING = (2685, 2722, 5219, 5614)
"""Without its slope a point's unit vector may turn by more than what is beyond the slope."""


def some_points(random: Random, dimension: int, side: int) -> Integers:
    """Return heavy points, scattered ones, and some on a line."""
    parts = [
        np.repeat(
            random.normal(0, 3, (1, dimension)) * side, int(random.choice([1, 3, 30, 300])), 0
        )
        for _ in range(int(random.integers(1, 5)))
    ]
    spread = side * 10.0 ** float(random.integers(-3, 2))
    parts.append(random.normal(0, spread, (int(random.integers(0, 60)), dimension)))
    if random.uniform() < 0.5:
        parts.append(np.outer(random.normal(0, 3, 20), random.normal(size=dimension)) * side)
    return np.clip(np.rint(np.vstack(parts)), -CODE_MAX, CODE_MAX).astype(np.int64)


@dataclass(frozen=True, slots=True)
class Asked:
    """Points, a field of them, and a box around which it is known."""

    codes: Integers
    field: Field
    centre: Floats
    half: Floats
    axes: Floats | None

    @classmethod
    def drawn(cls, random: Random) -> Asked:
        """Return any: at a point or beside some, upright or slanted, blurred or not."""
        dimension, side = int(random.integers(2, 5)), 1 << int(random.integers(6, 17))
        codes, slanted = some_points(random, dimension, side), random.uniform() < 0.6
        way = (codes[0] - codes[-1]).astype(float)
        if random.uniform() < 0.4 or not way.any():
            way = random.normal(size=dimension)
        space = Space.along(way, RADIUS)
        off = random.normal(0, side * 10.0 ** float(random.integers(-4, 1)), dimension)
        at = codes[int(random.integers(len(codes)))] + off * (random.uniform() < 0.6)
        half = side * 10.0 ** random.uniform(-4, 0.5, dimension)
        if slanted:
            half[space.order[0]] = side * 10.0 ** random.uniform(-2, 0.7)
        unit = float(1 << SHIFT)
        centre, half = np.rint(at * unit), np.rint(half * unit) + 4
        sides = (np.abs(space.shear) if slanted else np.eye(dimension)) @ half
        field = held(codes, Points(tuple("wxyz"[:dimension]), SHIFT), RADIUS).root.field
        if random.uniform() < 0.5:
            field = replace(field, near=field.near.grouped(int(random.integers(3, 60))))
        if random.uniform() < 0.5:
            size = float(np.linalg.norm(sides)) * random.uniform(1.01, 4)
            field = field.narrowed(centre, size, random.uniform(2, 6))
        return cls(codes, field, centre, half, space.shear if slanted else None)

    def places(self, random: Random) -> list[list[int]]:
        """Return corners of the box, places inside, and its points."""
        turn = np.eye(len(self.half)) if self.axes is None else self.axes
        signs = random.uniform(-1, 1, (14, len(self.half)))
        signs[::2] = np.sign(signs[::2])
        found = [self.centre + turn @ (sign * (self.half - 2)) for sign in signs]
        points = (self.codes << SHIFT).astype(float)
        inside = np.abs(np.linalg.solve(turn, (points - self.centre).T).T) <= self.half - 1
        found += list(points[inside.all(axis=1)][:6])
        return [[int(k) for k in np.rint(place)] for place in found]


def require_bounds(seed: int) -> None:
    """Require that bounds on a random box hold: of the sum, and along a direction."""
    random = np.random.default_rng(seed)
    asked, y = Asked.drawn(random), random.normal(size=4)
    box = (asked.field, asked.centre[None], asked.half[None])
    y = y[: len(asked.half)]
    found = bounded(*box, axes=asked.axes)
    nearby = law.near_heavy(*box, found, asked.axes)
    along = bounded(*box, axes=asked.axes, ways=y[None])
    room = 1e-9 + 1e-12 * len(asked.codes)
    for place in asked.places(random):
        total = gradient(asked.codes, place, 60)
        leaning = float(np.array([float(k) for k in total]) @ y) / float(np.linalg.norm(y))
        assert along.least[0] <= leaning + room
        assert nearby.least[0] <= length(total) + room
        assert nearby.most[0] >= length(total) - room


def require_all(seeds: Iterable[int]) -> None:
    for seed in seeds:
        require_bounds(seed)


@pytest.mark.parametrize("part", [0, *wide(*range(1, 12))])
def test_bounds_on_random_boxes_hold(part: int) -> None:
    require_all((*TELLING, *range(part * 100, part * 100 + 100)))


def no_fall(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "fallen", lambda distance, lean, span, size: 0 * lean)


def no_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "beyond_along", lambda q, across, lean: 0 * lean)


def heavy_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    def lighter(field: Field, *box: Any, **axes: Any) -> bounds.Bounds:
        found = bounded(field, *box, **axes)
        return replace(found, most=found.most * 0.9, least=found.least * 1.1)

    monkeypatch.setattr(law, "bounded", lighter)


@pytest.mark.parametrize("mistake", [no_fall, no_turn, heavy_everywhere])
def test_wrong_bounds_are_caught(
    mistake: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Must fail: each of what a bound is made of, left out."""
    mistake(monkeypatch)
    with pytest.raises(AssertionError):
        require_all(range(600))
