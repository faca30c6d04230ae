"""User polytopes: exact norms, certified boxes, draws, and containment."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mechanisms.geometry.polytopes import Polytope
from mechanisms.geometry.spaces import cube_space
from mechanisms.testing import seeded_randomness

ONE, ZERO = Fraction(1), Fraction(0)
HEXAGON = Polytope(((ONE, ZERO), (ZERO, ONE), (ONE, ONE)))
OCTAHEDRON = Polytope.from_vertices(((ONE, ZERO, ZERO), (ZERO, ONE, ZERO), (ZERO, ZERO, ONE)))
numbers = st.fractions(-5, 5, max_denominator=9)


@pytest.mark.wide
@given(st.tuples(numbers, numbers), st.tuples(numbers, numbers), numbers)
def test_a_polytope_is_a_norm_ball(
    v: tuple[Fraction, Fraction], w: tuple[Fraction, Fraction], factor: Fraction
) -> None:
    total = [a + b for a, b in zip(v, w, strict=True)]
    assert HEXAGON.norm(total) <= HEXAGON.norm(v) + HEXAGON.norm(w)
    assert HEXAGON.norm([factor * a for a in v]) == abs(factor) * HEXAGON.norm(v)
    assert HEXAGON.scaled(Fraction(2)).norm(v) == HEXAGON.norm(v) / 2


@given(st.tuples(numbers, numbers, numbers))
def test_vertices_give_the_facets(v: tuple[Fraction, Fraction, Fraction]) -> None:
    assert OCTAHEDRON.norm(v) == sum(map(abs, v))
    assert len(OCTAHEDRON.normals) == 4


def test_boxes_are_certified() -> None:
    assert HEXAGON.half_widths == (1, 1)
    assert OCTAHEDRON.half_widths == (1, 1, 1)


@pytest.mark.parametrize(("ball", "volume"), [(HEXAGON, 3.0), (OCTAHEDRON, 4 / 3)])
def test_laws_describe_the_draws(ball: Polytope, volume: float) -> None:
    assert math.exp(ball.log_volume) == pytest.approx(volume, rel=0.05)
    randomness = seeded_randomness(2)
    draws = [ball.draw(randomness, steps=256, rate=Fraction(1, 64)) for _ in range(2000)]
    table = np.array(draws) / (256 * 64)
    for law, column in zip(ball.laws(1.0), table.T, strict=True):
        assert column.std() == pytest.approx(law.std, rel=0.1)
    seen = np.corrcoef(table.T)[0, 1]
    assert seen == pytest.approx(ball.correlation(0, 1), abs=0.1)


def test_a_polytope_is_scaled_around_a_statistic() -> None:
    space = cube_space(2, half_width=Fraction(2), unit=1, unit_name="", description="")
    held = HEXAGON.holding(space)
    assert max(held.norm(c) for c in itertools.product((-2, 2), repeat=2)) == 1


def test_unbounded_halfspaces_are_refused() -> None:
    for normals in ((), ((ONE, ZERO),), ((ONE, ZERO), (ONE,))):
        with pytest.raises(ValueError, match=r"normals|bound"):
            Polytope(normals)
