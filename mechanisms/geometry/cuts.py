r"""Balls cut by triangle inequalities: what second moments of one record cannot reach together.

K_T looks at two columns at a time. Three columns, or two with their squares, obey more.
In scaled units, |x_j| <= 1, with v = (x_j, .., 2 x_j**2, x_j x_k, ..) of one record:

*Three products.* (ab, ac, bc) of a, b, c in [-1, 1] is multilinear, so its hull is that of
its corners, a tetrahedron: ``s_1 ab + s_2 ac + s_3 bc`` runs over [-3, 1] where s_1 s_2 s_3 =
-1 and over [-1, 3] where it is 1. Squares: ``2a**2 + 2b**2 +- 4ab = 2(a +- b)**2`` runs over
[0, 8], and ``2a**2 - 2b**2 +- 4ab`` over [-4, 4], its values on an edge a = +-1 being
``2 - 2b**2 +- 4b``.

*Replace-one*: u = v - v', so with every choice of signs

    |u_jk| + |u_jl| + |u_kl| <= 4,      |u_jj| + |u_kk| + 4 |u_jk| <= 8.

*Add-remove*: u = +-(1, v) with 2 x**2 - 1 for the squares, so for s_1 s_2 s_3 = -1

    |u_0 + s_1 u_jk + s_2 u_jl + s_3 u_kl| <= 2,
    |2 u_0 - u_jj - u_kk +- 4 u_jk| <= 4,      |u_jj - u_kk +- 4 u_jk| <= 4,

and ``|u_0 - u_jj +- 4 u_jk| <= 4`` where the other square is not asked for: ``2 a**2 +- 4ab``
runs over [-2, 6]. (Under replace-one that is the sum above without the other square.)

Every hull of differences satisfies them, so the cut ball holds it too: Delta = 1 and
the mechanism is private (Awan & Slavkovic, Proposition 2.10). It lies inside the ball it
is cut from, so given its direction the noise is no longer (Theorem 4.5).

*A uniform point* of the cut ball is one of the whole ball that passes: a rejection
that never depends on data.

*What they save*, `moments` under replace-one against the whole K_T: the share of volume
kept, its m-th root (the volume index), and the root mean square of the standard deviations:

    columns   kept   index   mean std   main effects   products
       2      .80     .96      .95          1.03          .80
       3      .50     .92      .91          1.05          .79
       4      .24     .90      .88          1.07          .78
       5      .09     .89      .86          1.08          .78

Main effects gain a little spread: what is cut away is poor in them. From 6 columns on
(.02 kept) the whole ball is drawn from.

*Linear combinations of the coordinates of K-norm noise: how wide 95% of one is.* The standard
deviation of ``sum s_j V_j`` follows from those of the coordinates and their correlations. Its 95%
half-width is a *factor* times that, and the factor is known at both ends:

- one coordinate outweighs the others: that coordinate's own factor (2.1184 for a
  Laplace variable, less for a coordinate of a bounded shape);
- many coordinates weigh about the same: ``V = r U``, U uniform on the ball and
  r ~ Gamma(m + 1) at rate 1 (Awan & Slavkovic, Proposition 4.1), so r times a normal variable.

Between them the factor moves as it does for the cube, where one coordinate is taken as the
uniform variable it is and the others as one normal variable of their variance. Against
simulated laws (l1, l2, linf; m = 2 to 200; 2 to 5 coordinates) the intervals hold 94.7% to 96.7%.

These numbers describe noise. They are floats, and no draw looks at them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import combinations, product
from math import ceil, log, sqrt

import numpy as np
from flint import arb
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import gammaincinv, ndtr

from mechanisms.exact.continuous import LazyVector
from mechanisms.exact.floats import Floats, working_precision
from mechanisms.geometry.joint_moments import JointMomentBall
from mechanisms.geometry.laws import hashed_uniforms
from mechanisms.geometry.second_moments import SecondMomentBall
from mechanisms.geometry.smooth import TAIL, Kind, Marginal, SmoothBall, Uniforms
from mechanisms.randomness import Randomness

# Linear combinations of the coordinates of K-norm noise: how wide 95% of one is

_RADII = 1000  # quantiles of the radius to average over
_WEIGHTS = 50  # distinct shares of the largest weight
_LEAST_REST = 1e-3  # keeps the quotient finite where one weight is all


def combination_factor(dimension: int, own: float, largest: float) -> float:
    """Return t / std with P(\\|sum s_j V_j\\| > t) = 0.05, for a combination of coordinates.

    Parameters
    ----------
    dimension
        m, of the whole noise vector.
    own
        That quotient for the coordinate that weighs most, alone.
    largest
        Its share of the standard deviation, between 0 and 1; rounded to the next
        fiftieth below, the wider side.
    """
    normal, single = _cube_factor(dimension, 0), _cube_factor(dimension, _WEIGHTS)
    between = _cube_factor(dimension, int(min(max(largest, 0.0), 1.0) * _WEIGHTS))
    # How far the cube has come from one end to the other, laid between the ends known here.
    return own + max(normal - own, 0.0) * (between - single) / (normal - single)


@lru_cache(maxsize=4096)
def _cube_factor(dimension: int, weight: int) -> float:
    """Return the factor under the cube, the largest slope being ``weight`` fiftieths of all."""
    # a uniform variable on +-sqrt(3) has variance 1
    reach = sqrt(3) * weight / _WEIGHTS
    rest = sqrt(max(1 - (weight / _WEIGHTS) ** 2, _LEAST_REST**2))
    radii = gammaincinv(dimension + 1, (np.arange(_RADII) + 0.5) / _RADII)
    radii /= sqrt((dimension + 1) * (dimension + 2))  # E r**2 = 1

    def excess(t: float) -> float:
        x = t / radii
        if reach == 0:
            return float(np.mean(2 - 2 * ndtr(x))) - TAIL
        # P(|U + N| <= x) = (G(x + reach) - G(x - reach)) / reach - 1, with G' = Phi
        both = _area((x + reach) / rest) - _area((x - reach) / rest)
        return float(np.mean(2 - rest * both / reach)) - TAIL

    return float(brentq(excess, 0.0, 10.0))


def _area(z: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the integral of the normal distribution function up to z."""
    density = np.exp(-np.square(z) / 2) / sqrt(2 * np.pi)
    return np.asarray(z * ndtr(z) + density, dtype=np.float64)


# Balls cut by triangle inequalities: what second moments of one record cannot reach together

MOST_EFFECTS = 5
"""Columns up to which the cuts are worth their tries."""

_FIRST_BITS = 64  # this many bits decide nearly every cut
_GUARD_BITS = 32  # more than the arithmetic of a cut can lose
_CHUNK = 1 << 14  # points simulated at a time
_SIMULATED = 1 << 14  # points wanted
_MOST_CHUNKS = 64  # and no more than this, however few pass


@dataclass(frozen=True, slots=True)
class Cut:
    """The slab ``|sum c_i u_i| <= bound``, as pairs (i, c_i)."""

    terms: tuple[tuple[int, int], ...]
    bound: int


@dataclass(frozen=True)
class CutBall(SmoothBall):
    """The part of a ball that lies in some slabs.

    Parameters
    ----------
    whole : SecondMomentBall or JointMomentBall
        What is cut.
    cuts : tuple of Cut
        Symmetric slabs, each of which holds every difference one person can make.
    """

    whole: SecondMomentBall | JointMomentBall
    cuts: tuple[Cut, ...]

    @property
    def name(self) -> str:
        """Return a short description of the ball."""
        ball_name = self.whole.name
        return f"{ball_name}, cut by triangle inequalities"

    @property
    def dimension(self) -> int:
        """Return m."""
        return self.whole.dimension

    @property
    def is_hull(self) -> bool:
        """Return False: the cut ball holds the hull and is not known to be it."""
        return False

    @property
    def expected_tries(self) -> float:
        """Return how many proposals a draw takes."""
        return self.whole.expected_tries / self.kept

    @property
    def least_steps(self) -> Fraction:
        """Return half the largest norm of a corner of the cube [-1, 1]**m."""
        cuts = (Fraction(sum(abs(c) for _, c in cut.terms), 2 * cut.bound) for cut in self.cuts)
        return max(self.whole.least_steps, *cuts)

    @property
    def log_volume(self) -> float:
        """Return log vol K."""
        return self.whole.log_volume + log(self.kept)

    @property
    def kept(self) -> float:
        """Return the share of the whole ball's volume that passes the cuts."""
        return _simulated(self)[0] if self.stored is None else self.stored.kept

    @property
    def shape(self) -> str:
        """Return what the laws follow from."""
        return f"{self.whole.shape} cut"

    @property
    def coordinate_kinds(self) -> Sequence[Kind]:
        """Return the kind of each coordinate."""
        return self.whole.coordinate_kinds

    def correlation(self, one: int, other: int) -> float:
        """Return the correlation of two coordinates that one number of an answer reads."""
        # Every other coordinate can be flipped alone, so nothing correlates with it.
        if not {one, other} <= self._signless:
            return 0.0
        first, second = _simulated(self)[1][:, [one, other]].T
        return float(np.mean(first * second) / np.sqrt(np.mean(first**2) * np.mean(second**2)))

    @property
    def _signless(self) -> frozenset[int]:
        """Return the coordinates that flipping a column's sign, or one square's, leaves alone."""
        if isinstance(self.whole, SecondMomentBall):
            return frozenset()
        first = 1 + self.whole.effects
        squares = (first + at for at, (j, k) in enumerate(self.whole.pairs) if j == k)
        return frozenset((0, *squares))

    def contains(self, point: Sequence[int], size: int) -> bool:
        """Return, in integers, whether the lattice point lies in ``size K``."""
        return self.whole.contains(point, size) and all(
            abs(sum(factor * point[i] for i, factor in cut.terms)) <= cut.bound * size
            for cut in self.cuts
        )

    def point(self, randomness: Randomness) -> LazyVector:
        """Return a point uniform on K, exact, drawn lazily."""
        while True:
            point = self.whole.point(randomness)
            if self._passes(point):
                return point

    def marginals(self) -> tuple[Sequence[Marginal], Sequence[int]]:
        """Return the marginals, averaged over coordinates that the ball treats alike."""
        points = np.abs(_simulated(self)[1])
        _, places = self.whole.marginals()
        found = []
        for marginal in range(max(places) + 1):
            values = points[:, [i for i, place in enumerate(places) if place == marginal]].ravel()
            found.append(Marginal(values, np.ones(len(values)), float(np.mean(values**2))))
        return found, places

    def simulated_points(self, count: int, uniforms: Uniforms) -> Floats:
        """Return simulated uniform points of K."""
        # A fifth more than expected: nearly always enough in one go.
        chunk = ceil(1.2 * count / self.kept) + 64
        found: list[Floats] = []
        while sum(map(len, found)) < count:
            turn = len(found)

            # Named by turn: the same names would give the same numbers again.
            def fresh(part: str, size: int, turn: int = turn) -> Floats:
                return uniforms(f"{turn} {part}", size)

            found.append(self._passing(self.whole.simulated_points(chunk, fresh)))
        return np.vstack(found)[:count]

    def _passes(self, point: LazyVector) -> bool:
        """Decide every cut in ball arithmetic, with more bits until it is certain."""
        bits = _FIRST_BITS
        waiting = self.cuts
        while True:
            with working_precision(bits + _GUARD_BITS):
                entries = point.enclose(bits)
                undecided = []
                for cut in waiting:
                    length = abs(sum((entries[i] * c for i, c in cut.terms), arb(0)))
                    if length > cut.bound:
                        return False
                    # Neither surely passed nor surely failed: asked again with more bits.
                    if not length <= cut.bound:
                        undecided.append(cut)
            if not undecided:
                return True
            waiting = tuple(undecided)
            bits *= 2

    def _passing(self, points: Floats) -> Floats:
        """Return the rows of simulated points that pass, in floats."""
        inside = np.ones(len(points), dtype=bool)
        for cut in self.cuts:
            columns, factors = zip(*cut.terms, strict=True)
            inside &= np.abs(points[:, columns] @ np.array(factors)) <= cut.bound
        return points[inside]


@lru_cache(maxsize=32)
def _simulated(ball: CutBall) -> tuple[float, Floats]:
    """Return the share kept and points of the cut ball, free of data."""
    found: list[Floats] = []
    while sum(map(len, found)) < _SIMULATED and len(found) < _MOST_CHUNKS:
        turn = len(found)

        def fresh(part: str, size: int, turn: int = turn) -> Floats:
            return hashed_uniforms(f"cut {turn} {part}".encode(), size)

        found.append(ball._passing(ball.whole.simulated_points(_CHUNK, fresh)))
    points = np.vstack(found)
    return len(points) / (_CHUNK * len(found)), points


def replace_one_ball(ball: SecondMomentBall) -> SecondMomentBall | CutBall:
    """Return K_T cut by the triangle inequalities, or itself where they are not worth it."""
    if not 2 <= ball.effects <= MOST_EFFECTS:
        return ball
    at = {pair: ball.effects + place for place, pair in enumerate(ball.pairs)}
    return CutBall(whole=ball, cuts=tuple(_replace_one_cuts(ball.effects, at)))


def add_remove_ball(ball: JointMomentBall) -> JointMomentBall | CutBall:
    """Return the joint ball cut likewise; without products it is the hull and stays."""
    if not (ball.crossed and 2 <= ball.effects <= MOST_EFFECTS):
        return ball
    at = {pair: 1 + ball.effects + place for place, pair in enumerate(ball.pairs)}
    return CutBall(whole=ball, cuts=tuple(_add_remove_cuts(ball.effects, at)))


def _replace_one_cuts(effects: int, at: dict[tuple[int, int], int]) -> Iterator[Cut]:
    for j, k in combinations(range(effects), 2):
        squares = [at[pair] for pair in ((j, j), (k, k)) if pair in at]
        for signs in product((1, -1), repeat=len(squares)):
            yield Cut(((at[j, k], 4), *zip(squares, signs, strict=True)), 8)
    for j, k, m in combinations(range(effects), 3):
        for one, two in product((1, -1), repeat=2):
            yield Cut(((at[j, k], 1), (at[j, m], one), (at[k, m], two)), 4)


def _add_remove_cuts(effects: int, at: dict[tuple[int, int], int]) -> Iterator[Cut]:
    for j, k in combinations(range(effects), 2):
        squares = [at[pair] for pair in ((j, j), (k, k)) if pair in at]
        for sign in (4, -4):
            sums = ((place, -1) for place in squares)
            yield Cut(((0, len(squares)), *sums, (at[j, k], sign)), 4)
            if len(squares) == 2:
                yield Cut(((squares[0], 1), (squares[1], -1), (at[j, k], sign)), 4)
    for j, k, m in combinations(range(effects), 3):
        for one, two in product((1, -1), repeat=2):
            yield Cut(((0, 1), (at[j, k], one), (at[j, m], two), (at[k, m], -one * two)), 2)
