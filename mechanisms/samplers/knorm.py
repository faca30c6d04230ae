r"""Integer K-norm noise: exact draws on the lattice Z^m.

Target law, for a norm ball K in lattice units and a rational ``rate``
(epsilon over the sensitivity):

    P(v) ∝ exp(-rate * ceil(||v||_K)),   v in Z^m.

When two neighbours' statistics differ by an integer vector u with
``||u||_K <= Delta``, Delta an integer, then ``ceil(||v + u||_K)`` and
``ceil(||v||_K)`` differ by at most Delta, so adding v at
``rate = epsilon / Delta`` is exactly epsilon-DP. For l1, linf and the
histogram hull the norm of a lattice point is an integer and the ceiling idle;
l2 noise is a continuous draw, rounded once.

*Route* (Awan & Slavkovic, Proposition 4.1, Algorithms 7 and 8, on the lattice):
draw a radius r with ``P(r) ∝ N_box(r) exp(-rate r)``, a point uniform on the
N_box(r) integer points of the bounding box of rK, keep the *pair* if the point
lies in rK. Then ``P(v) ∝ sum of exp(-rate r) over r >= ||v||_K``, a geometric
series, which is the target. The radius is proposed as a sum of m + 1
geometrics, ``P(r) ∝ (r+1)...(r+m) exp(-rate r)``, and kept with a rational
probability. Printed Algorithm 8 releases T + U; the noise is r U.

Acceptance never depends on data. A radius survives with probability about
``exp(-m rate / 2)``: the lattice must be fine enough (see ``mechanisms.knorm``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from math import floor, isqrt, prod

from mechanisms.randomness import Randomness
from mechanisms.samplers.continuous import knorm_vector
from mechanisms.samplers.geometric import geometric
from mechanisms.samplers.rounding import grid_point, working_precision

# Spare bits of the first look at a lazy vector: rounding stays open with odds about m 2**-32.
_SPARE_BITS = 32


def draw_l1(randomness: Randomness, dimension: int, rate: Fraction) -> list[int]:
    """Return v with ``P(v) ∝ exp(-rate ||v||_1)``.

    Independent discrete Laplace variables, each the difference of two geometrics.
    """
    both = geometric(rate).draw(randomness, 2 * dimension)
    difference: list[int] = (both[:dimension] - both[dimension:]).tolist()
    return difference


def draw_linf(randomness: Randomness, dimension: int, rate: Fraction) -> list[int]:
    """Return v with ``P(v) ∝ exp(-rate ||v||_inf)``.

    The box of radius r is the ball itself, so no point is rejected:
    ``(2r+1)**m`` points, radius kept with ``(2r+1)**m / (2**m (r+1)...(r+m))``.
    """
    law = geometric(rate)
    while True:
        radius = law.draw_sum(randomness, dimension + 1)
        side = 2 * radius + 1
        envelope = prod(range(radius + 1, radius + dimension + 1)) << dimension
        if randomness.below(envelope) < side**dimension:
            return [randomness.below(side) - radius for _ in range(dimension)]


def draw_l2(randomness: Randomness, dimension: int, rate_squared: Fraction) -> list[int]:
    """Return Round(V) with V continuous on R^m, ``f(V) ∝ exp(-rate ||V||_2)``.

    A statistic T on the lattice has ``Round(T + V) = T + Round(V)``, so adding
    the rounded vector is post-processing of the exact continuous mechanism
    (Algorithm 6). The box route keeps 0.03% at m = 12. The squared rate is
    rational where the rate is a root; more bits are drawn until every
    coordinate rounds to one integer for certain.
    """
    vector = knorm_vector(
        norm="l2", dimension=dimension, rate_squared=rate_squared, randomness=randomness
    )
    root = isqrt(rate_squared.denominator // rate_squared.numerator) + 1
    bits = (dimension * root).bit_length() + _SPARE_BITS
    while True:
        with working_precision(2 * bits):
            point = grid_point(vector.enclose(bits), 0)
        if point is not None:
            return list(point)
        bits *= 2


def draw_hull(randomness: Randomness, cells: int, rate: Fraction) -> list[int]:
    """Return v in Z^cells with ``sum v = 0`` and ``P(v) ∝ exp(-rate ||v||_1 / 2)``.

    The hull of a histogram's replace-one differences e_i - e_j has the norm
    ``||v||_1 / 2`` inside the hyperplane. All cells but the last are discrete
    Laplace at rate / 2, the last is minus their sum, kept with probability
    ``exp(-(rate / 2) |sum|)``. The acceptance does not depend on the rate
    when that is small: 0.38, 0.19, 0.057, 0.016 at 3, 10, 100, 1000 cells.
    """
    while True:
        free = draw_l1(randomness, cells - 1, rate / 2)
        last = -sum(free)
        if randomness.bernoulli_exp(abs(last) * rate / 2):
            return [*free, last]


def draw_in_ball(
    randomness: Randomness,
    half_widths: Sequence[Fraction],
    contains: Callable[[Sequence[int], int], bool],
    rate: Fraction,
) -> list[int]:
    """Return v with ``P(v) ∝ exp(-rate ceil(||v||_K))`` for a ball K given by membership.

    Parameters
    ----------
    half_widths : sequence of Fraction
        Half-widths w_j >= 1/2 of a box that holds K, in lattice units: rK lies
        in ``|v_j| <= w_j r``.
    contains : callable
        ``contains(v, r)`` says, in integers, whether v lies in rK. K must be
        convex, symmetric about zero, and hold it inside.
    rate : Fraction
        Epsilon over the integer sensitivity in K.

    Raises
    ------
    ValueError
        A half-width is below one half: the lattice is too coarse for K.
    """
    if min(half_widths) < Fraction(1, 2):
        raise ValueError("the lattice is too coarse for this ball")
    law, dimension = geometric(rate), len(half_widths)
    scale = prod((2 * width for width in half_widths), start=Fraction(1))
    while True:
        radius = law.draw_sum(randomness, dimension + 1)
        box = [floor(width * radius) for width in half_widths]
        envelope = scale * prod(range(radius + 1, radius + dimension + 1))
        # 2 floor(w r) + 1 <= 2 w (r + 1) as w >= 1/2, so this is a probability.
        if not randomness.bernoulli(Fraction(prod(2 * half + 1 for half in box)) / envelope):
            continue
        point = [randomness.below(2 * half + 1) - half for half in box]
        if contains(point, radius):
            return point
