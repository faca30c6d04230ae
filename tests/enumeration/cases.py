"""Every sampler that is walked, on its small domain, with the law it states."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import isqrt

from mechanisms.geometry.polytopes import Polytope
from mechanisms.randomness import Randomness
from mechanisms.samplers import geometric, intervals, joint_quantiles, knorm
from tests.enumeration import laws
from tests.enumeration.domains import grid_of
from tests.enumeration.walk import Bounds, Outcome, Stated, law_of, require_law

F = Fraction
HEXAGON = Polytope(((F(1), F(0)), (F(0), F(1)), (F(1), F(-1))))


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A sampler with its arguments, its law, and down to which mass its runs are followed.

    Less mass than ``2**-resolved_bits`` is then not seen to the end.
    """

    name: str
    domain: str
    draw: Callable[[Randomness], Outcome]
    law: Callable[[], Stated]
    cutoff_bits: int
    resolved_bits: int = 20
    slow: bool = False

    @property
    def table_row(self) -> str:
        """Return its row in the page of documents."""
        sampler, _, where = self.name.partition(": ")
        domain = f"{where}; {self.domain}" if where else self.domain
        return f"| `{sampler}` | {domain} | 2^-{self.resolved_bits} |"

    def bounds(self) -> Bounds:
        """Return the law in bounds."""
        return law_of(self.draw, cutoff=2.0**-self.cutoff_bits)

    def check(self) -> Bounds:
        """Assert that the sampler has the law stated."""
        bounds = self.bounds()
        require_law(bounds, self.law(), unresolved=Fraction(1, 1 << self.resolved_bits))
        return bounds


def largest(v: Sequence[int]) -> int:
    """Return the l-infinity norm."""
    return max(map(abs, v))


def summed(v: Sequence[int]) -> int:
    """Return the l1 norm."""
    return sum(map(abs, v))


def hexagonal(v: Sequence[int]) -> int:
    """Return the norm whose unit ball is a hexagon."""
    return max(abs(v[0]), abs(v[1]), abs(v[0] - v[1]))


def round_up(v: Sequence[int]) -> int:
    """Return the l2 norm, rounded up."""
    squared = sum(x * x for x in v)
    return isqrt(squared - 1) + 1 if squared else 0


def _in_disc(v: Sequence[int], size: int) -> bool:
    return sum(x * x for x in v) <= size * size


def _in_hexagon(v: Sequence[int], size: int) -> bool:
    return hexagonal(v) <= size


ROWS = (0, 2, 2)
GRID = tuple(range(4))
PLACES = (1, 3, 2, 1)


CASES: tuple[Case, ...] = (
    Case(
        name="below",
        domain="5 numbers",
        draw=lambda r: r.below(5),
        law=lambda: laws.even(5),
        cutoff_bits=40,
        resolved_bits=100,
    ),
    Case(
        name="bernoulli",
        domain="3/7",
        draw=lambda r: r.bernoulli(F(3, 7)),
        law=lambda: laws.coin(laws.rational(F(3, 7))),
        cutoff_bits=40,
        resolved_bits=100,
    ),
    Case(
        name="bernoulli_exp",
        domain="exp(-3/2)",
        draw=lambda r: Randomness.bernoulli_exp(r, F(3, 2)),
        law=lambda: laws.coin(laws.decay(F(3, 2))),
        cutoff_bits=40,
        resolved_bits=60,
    ),
    Case(
        name="geometric_exp",
        domain="rate 2/3",
        draw=lambda r: Randomness.geometric_exp(r, F(2, 3)),
        law=lambda: laws.geometric(F(2, 3)),
        cutoff_bits=30,
        resolved_bits=24,
    ),
    Case(
        name="discrete_laplace",
        domain="rate 3/2",
        draw=lambda r: r.discrete_laplace(F(3, 2)),
        law=lambda: laws.laplace(F(3, 2)),
        cutoff_bits=30,
        resolved_bits=28,
    ),
    Case(
        name="geometric",
        domain="rate 1",
        draw=lambda r: int(geometric.Geometric(F(1)).draw(r, 1)[0]),
        law=lambda: laws.geometric(F(1)),
        cutoff_bits=30,
        resolved_bits=27,
    ),
    Case(
        name="draw_discrete_gaussian: sigma below 1",
        domain="variance 2/3",
        draw=lambda r: knorm.draw_discrete_gaussian(r, 1, F(2, 3))[0],
        law=lambda: laws.gaussian(F(2, 3), reach=12),
        cutoff_bits=30,
        resolved_bits=24,
    ),
    Case(
        name="draw_discrete_gaussian: sigma above 1",
        domain="variance 3/2",
        draw=lambda r: knorm.draw_discrete_gaussian(r, 1, F(3, 2))[0],
        law=lambda: laws.gaussian(F(3, 2), reach=15),
        cutoff_bits=30,
        resolved_bits=20,
    ),
    Case(
        name="draw_l1: one coordinate",
        domain="rate 1",
        draw=lambda r: knorm.draw_l1(r, 1, F(1))[0],
        law=lambda: laws.laplace(F(1)),
        cutoff_bits=30,
        resolved_bits=24,
    ),
    Case(
        name="draw_l1: two coordinates",
        domain="rate 4",
        draw=lambda r: knorm.draw_l1(r, 2, F(4)),
        law=lambda: laws.lattice(2, summed, F(4), reach=9),
        cutoff_bits=30,
        resolved_bits=26,
    ),
    Case(
        name="draw_linf: two coordinates",
        domain="rate 5",
        draw=lambda r: knorm.draw_linf(r, 2, F(5)),
        law=lambda: laws.lattice(2, largest, F(5), reach=9),
        cutoff_bits=31,
        resolved_bits=21,
    ),
    Case(
        name="draw_linf: three coordinates",
        domain="rate 6",
        draw=lambda r: knorm.draw_linf(r, 3, F(6)),
        law=lambda: laws.lattice(3, largest, F(6), reach=7),
        cutoff_bits=34,
        resolved_bits=22,
        slow=True,
    ),
    Case(
        name="draw_l2: two coordinates",
        domain="rate 10",
        draw=lambda r: tuple(knorm.draw_l2(r, 2, F(100))),
        law=lambda: laws.rounded_disc(F(10), reach=2),
        cutoff_bits=38,
        resolved_bits=20,
    ),
    Case(
        name="draw_hull: three cells",
        domain="rate 6",
        draw=lambda r: knorm.draw_hull(r, 3, F(6)),
        law=lambda: laws.flat(3, F(6), reach=9),
        cutoff_bits=29,
        resolved_bits=22,
    ),
    Case(
        name="draw_in_ball: a hexagon",
        domain="rate 5",
        draw=lambda r: knorm.draw_in_ball(r, [F(1), F(1)], _in_hexagon, F(5)),
        law=lambda: laws.lattice(2, hexagonal, F(5), reach=9),
        cutoff_bits=30,
        resolved_bits=21,
    ),
    Case(
        name="draw_in_ball: a disc",
        domain="rate 5",
        draw=lambda r: knorm.draw_in_ball(r, [F(1), F(1)], _in_disc, F(5)),
        law=lambda: laws.lattice(2, round_up, F(5), reach=9),
        cutoff_bits=30,
        resolved_bits=21,
    ),
    Case(
        name="draw_from_points: a hexagon",
        domain="one step a ring, rate 6",
        draw=lambda r: HEXAGON.draw(r, steps=1, rate=F(6)),
        law=lambda: laws.lattice(2, hexagonal, F(6), reach=9),
        cutoff_bits=34,
        slow=True,
        resolved_bits=23,
    ),
    Case(
        name="draw_point",
        domain="3 rows, 4 grid points, level 2/5, rate 1/2",
        draw=lambda r: intervals.draw_point(
            grid_of(ROWS, high=3), level=F(2, 5), rate=F(1, 2), randomness=r
        ),
        law=lambda: laws.quantile(ROWS, F(2, 5), F(1, 2), GRID),
        cutoff_bits=40,
        resolved_bits=40,
    ),
    Case(
        name="draw_point: places",
        domain="3 rows, 4 grid points of 1, 3, 2 and 1 places, level 2/5, rate 1/2",
        draw=lambda r: intervals.draw_point(
            grid_of(ROWS, high=3, places=PLACES), level=F(2, 5), rate=F(1, 2), randomness=r
        ),
        law=lambda: laws.quantile(ROWS, F(2, 5), F(1, 2), GRID, PLACES),
        cutoff_bits=40,
        resolved_bits=40,
    ),
    Case(
        name="permute_and_flip_point",
        domain="3 rows, 4 grid points, level 1/2, rate 5",
        draw=lambda r: intervals.permute_and_flip_point(
            grid_of(ROWS, high=3), level=F(1, 2), rate=F(5), randomness=r
        ),
        law=lambda: laws.permute_and_flip(ROWS, F(1, 2), F(5), GRID),
        cutoff_bits=28,
    ),
    Case(
        name="permute_and_flip_point: places",
        domain="3 rows, 2 grid points of 1 place and 2, level 1/2, rate 5",
        draw=lambda r: intervals.permute_and_flip_point(
            grid_of((0, 0, 1), high=1, places=(1, 2)), level=F(1, 2), rate=F(5), randomness=r
        ),
        law=lambda: laws.permute_and_flip((0, 0, 1), F(1, 2), F(5), range(2), (1, 2)),
        cutoff_bits=28,
    ),
    Case(
        name="joint_points: no ties",
        domain="2 rows, 4 grid points, levels 1/3 and 2/3, rate 1/2",
        draw=lambda r: joint_quantiles.joint_points(
            grid_of((0, 2), high=3), levels=[F(1, 3), F(2, 3)], rate=F(1, 2), randomness=r, bits=0
        ),
        law=lambda: laws.joint((0, 2), [F(1, 3), F(2, 3)], F(1, 2), GRID, bits=0),
        cutoff_bits=34,
        resolved_bits=36,
    ),
    Case(
        name="joint_points: ties",
        domain="2 rows, 2 grid points twice as fine, levels 1/3 and 2/3, rate 1/2",
        draw=lambda r: joint_quantiles.joint_points(
            grid_of((0, 0), high=1), levels=[F(1, 3), F(2, 3)], rate=F(1, 2), randomness=r, bits=1
        ),
        law=lambda: laws.joint((0, 0), [F(1, 3), F(2, 3)], F(1, 2), range(2), bits=1),
        cutoff_bits=32,
        resolved_bits=36,
    ),
    Case(
        name="joint_points: places",
        domain="2 rows, 2 grid points of 3 places and 1, levels 1/3 and 2/3, rate 1/2",
        draw=lambda r: joint_quantiles.joint_points(
            grid_of((0, 0), high=1, places=(3, 1)),
            levels=[F(1, 3), F(2, 3)],
            rate=F(1, 2),
            randomness=r,
            bits=0,
        ),
        law=lambda: laws.joint(
            (0, 0), [F(1, 3), F(2, 3)], F(1, 2), range(2), bits=0, places=(3, 1)
        ),
        cutoff_bits=32,
        resolved_bits=36,
    ),
)
