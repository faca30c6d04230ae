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
geometrics, ``P(r) ∝ (r+1)...(r+m) exp(-rate r)``, and accepted with a rational
probability. Printed Algorithm 8 releases T + U; the noise is r U.

Acceptance never depends on data. A radius survives with probability about
``exp(-m rate / 2)``: the lattice must be fine enough (see ``mechanisms.knorm``).

Exact discrete Gaussian variables, many at a time (Canonne, Kamath & Steinke 2020, Algorithm 3).

    P(v) ∝ exp(-v**2 / (2 sigma**2)),   v in Z,   sigma**2 > 0 rational.

*Route.* With t = floor(sigma) + 1, propose v from the discrete Laplace law at rate 1/t and accept
it with probability ``exp(-(|v| - sigma**2 / t)**2 / (2 sigma**2))``. Since

    (|v| - sigma**2 / t)**2 / (2 sigma**2) + |v| / t = v**2 / (2 sigma**2) + sigma**2 / (2 t**2)

and the last summand is a constant, an accepted v has the law above. Proposals and acceptances
are integer and rational: t is an integer root, the proposal an exact geometric difference, and the
acceptance an exact Bernoulli(exp(-x)) of a rational x. A proposal is accepted with a probability
above one half for sigma at least 1, whatever the data.

**Privacy.** Let an integer vector change by u between neighbours, and let v_j have the variance
parameter ``sigma_j**2``. The sum of both is rho-zCDP with ``rho = sum u_j**2 / (2 sigma_j**2)``
(Canonne, Kamath & Steinke 2020). *Proof.* With ``w(x) = exp(-x**2 / (2 sigma**2))`` and W the sum
of w over Z, for one coordinate that moves by a whole number a and any alpha > 1,

    sum over v of  w(v - a)**alpha w(v)**(1 - alpha) / W
        = exp(alpha (alpha - 1) a**2 / (2 sigma**2)) (sum over v of w(v - alpha a)) / W.

By Poisson's summation formula the sum of w(v - c) is a series of cosines of c with positive
coefficients, so it is at most its value at c = 0, which is W. Hence ``D_alpha <= alpha a**2 /
(2 sigma**2)``, and divergences of independent coordinates add up. ∎ :func:`gaussian_rho` returns it
exactly.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from math import exp, floor, isqrt, lgamma, pi, prod, sqrt

from mechanisms.exact.continuous import LazyVector, knorm_vector, settled
from mechanisms.exact.floats import grid_point, working_precision
from mechanisms.randomness import Randomness
from mechanisms.samplers.geometric import geometric

# Spare bits of the first look at a lazy vector: rounding stays open with odds about m 2**-32.
_SPARE_BITS = 32  # more bits are then wanted once in 2**32 draws


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
    ``(2r+1)**m`` points, radius accepted with ``(2r+1)**m / (2**m (r+1)...(r+m))``.
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
    # A coordinate is about 1 / rate long, which determines the bits of its whole part.
    root = isqrt(rate_squared.denominator // rate_squared.numerator) + 1
    return _rounded(vector, 1, first_bits=(dimension * root).bit_length() + _SPARE_BITS)


def draw_hull(randomness: Randomness, cells: int, rate: Fraction) -> list[int]:
    """Return v in Z^cells with ``sum v = 0`` and ``P(v) ∝ exp(-rate ||v||_1 / 2)``.

    The hull of a histogram's replace-one differences e_i - e_j has the norm
    ``||v||_1 / 2`` inside the hyperplane. All cells but the last are discrete
    Laplace at rate / 2, the last is minus their sum, accepted with probability
    ``exp(-(rate / 2) |sum|)``. The acceptance does not depend on the rate
    when that is small: 0.38, 0.19, 0.057, 0.016 at 3, 10, 100, 1000 cells.
    """
    while True:
        free = draw_l1(randomness, cells - 1, rate / 2)
        last = -sum(free)
        if randomness.bernoulli_exp(abs(last) * rate / 2):
            return [*free, last]


def hull_tries(cells: int) -> float:
    """Return the expected tries of :func:`draw_hull` at small rates, where they are most.

    There the cells are Laplace variables; at rate 2 the sum S of c - 1 of them has the
    characteristic function ``(1 + t**2)**(1 - c)`` and is accepted with ``E exp(-|S|)``, the
    integral of ``(1 + t**2)**(-c) / pi``, which is ``Gamma(c - 1/2) / (sqrt(pi) Gamma(c))``.
    """
    return sqrt(pi) * exp(lgamma(cells) - lgamma(cells - 0.5))


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


def draw_from_points(
    randomness: Randomness,
    dimension: int,
    *,
    point: Callable[[Randomness], LazyVector],
    contains: Callable[[Sequence[int], int], bool],
    steps: int,
    rate: Fraction,
) -> list[int]:
    r"""Return v with ``P(v) ∝ exp(-rate ceil(||v||_{sK}))`` by points uniform on K.

    Parameters
    ----------
    point : callable
        Returns a point uniform on K as a lazily refined real vector.
    contains : callable
        ``contains(v, R)`` says, in integers, whether v lies in R K.
    steps : int
        s, lattice steps per unit of radius: ``contains(v, s r)`` is ``||v||_{sK} <= r``.
        Every corner of the cube [-1/2, 1/2]**m must lie in sK.
    rate : Fraction
        Epsilon over the integer sensitivity in sK.

    Notes
    -----
    Slices of a ball hold different numbers of lattice points, so nothing is
    counted. A radius r >= 0 is drawn with ``P(r) ∝ (r + 1)**m exp(-rate r)``:
    a sum of m + 1 geometrics accepted with the rational probability
    ``(r + 1)**m / ((r + 1)...(r + m))``. Then W = (r + 1) s U, U uniform on K, is
    rounded to the nearest lattice point v, and the pair (r, v) is accepted iff v
    lies in r s K. *Why this is exact.* If it does, the unit cell around v lies
    in r s K + s K = (r + 1) s K, so W falls into it with probability
    ``1 / vol((r + 1) s K)``, which is one constant over ``(r + 1)**m``. Hence
    ``P(r, v) ∝ exp(-rate r)`` for ``r >= ||v||_{sK}``, and summing over r leaves
    ``P(v) ∝ exp(-rate ceil(||v||_{sK}))``.

    An accepted radius is about m / rate, so all but about one pair in
    ``1 / rate`` radii is accepted; rejection happens inside ``point``.
    """
    law = geometric(rate)
    while True:
        radius = law.draw_sum(randomness, dimension + 1)
        envelope = prod(range(radius + 1, radius + dimension + 1))
        if randomness.below(envelope) >= (radius + 1) ** dimension:
            continue
        size = steps * (radius + 1)
        first_bits = (dimension * size).bit_length() + _SPARE_BITS
        rounded = _rounded(point(randomness), size, first_bits=first_bits)
        if contains(rounded, steps * radius):
            return rounded


def _rounded(vector: LazyVector, factor: int, *, first_bits: int) -> list[int]:
    """Return Round(factor * vector), with more bits until every coordinate is certain."""

    def look(bits: int) -> tuple[int, ...] | None:
        with working_precision(2 * bits):
            return grid_point([factor * ball for ball in vector.enclose(bits)], 0)

    return list(settled(look, first_bits=first_bits))


# Exact discrete Gaussian variables, many at a time (Canonne, Kamath & Steinke 2020, Algorithm 3)


def draw_discrete_gaussian(randomness: Randomness, count: int, variance: Fraction) -> list[int]:
    """Return ``count`` independent v with ``P(v) ∝ exp(-v**2 / (2 variance))``.

    Raises
    ------
    ValueError
        The variance parameter is not positive.
    """
    if variance <= 0:
        raise ValueError("the variance must be positive")
    upper, lower = variance.numerator, variance.denominator
    scale = isqrt(upper // lower) + 1
    step, whole = lower * scale, 2 * upper * lower * scale**2
    drawn: list[int] = []
    # A round proposes only what is missing: the result is the first proposals that are accepted.
    while len(drawn) < count:
        for v in draw_l1(randomness, count - len(drawn), Fraction(1, scale)):
            # the exponent above, over a common denominator
            if randomness.bernoulli_exp(Fraction((abs(v) * step - upper) ** 2, whole)):
                drawn.append(v)
    return drawn


def gaussian_rho(squared_sensitivity: Fraction, variance: Fraction) -> Fraction:
    """Return the zCDP cost of discrete Gaussian noise on an integer vector, exactly.

    Parameters
    ----------
    squared_sensitivity
        The largest squared l2 norm of a difference between neighbours.
    variance
        ``sigma**2`` of every coordinate.

    Notes
    -----
    :func:`mechanisms.accounting.units` rounds it up to the unit of an account.

    >>> gaussian_rho(Fraction(2), Fraction(100))
    Fraction(1, 100)
    """
    return squared_sensitivity / (2 * variance)
