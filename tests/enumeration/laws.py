"""The stated laws, computed anew: from their formulas alone, in rationals and balls."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import combinations, product

from flint import acb, arb

from mechanisms.exact.balls import rational
from tests.enumeration.walk import Outcome, Stated

Norm = Callable[[Sequence[int]], int]


def even(size: int) -> Stated:
    """Return the uniform law on so many numbers."""
    return Stated(lambda _: arb(1) / size, range(size))


def coin(probability: arb) -> Stated:
    """Return the law of a coin."""
    return Stated(lambda shown: probability if shown else 1 - probability, (True, False))


def decay(rate: Fraction) -> arb:
    """Return exp(-rate)."""
    return (-rational(rate)).exp()


def geometric(rate: Fraction) -> Stated:
    """Return ``(1 - q) q**k``."""
    return Stated(lambda k: (1 - decay(rate)) * decay(rate * k), range(8))


def laplace(rate: Fraction) -> Stated:
    """Return ``(1 - q) / (1 + q) q**|v|``."""

    def at(v: int) -> arb:
        return (1 - decay(rate)) / (1 + decay(rate)) * decay(rate * abs(v))

    return Stated(at, range(-6, 7))


def gaussian(variance: Fraction, *, reach: int) -> Stated:
    """Return ``P(v) ∝ exp(-v**2 / (2 variance))``, the total summed over ``|v| <= reach``.

    Beyond, a ratio of neighbours is below 1/2: the rest weighs less than twice the first term.
    """
    assert reach > variance

    def weight(v: int) -> arb:
        return decay(v**2 / (2 * variance))

    total = sum((weight(v) for v in range(-reach, reach + 1)), arb(0))
    total += 4 * weight(reach + 1) * arb(0.5, 0.5)
    return Stated(lambda v: weight(v) / total, range(-3, 4))


def lattice(dimension: int, norm: Norm, rate: Fraction, *, reach: int) -> Stated:
    """Return ``P(v) ∝ exp(-rate norm(v))`` on Z^m, where no point of norm r has an entry above r.

    The total is summed over ``|v_j| <= reach``. What is beyond weighs at most
    ``(2 reach + 3)**m exp(-rate reach)``, for rates of at least m.
    """
    points = list(product(range(-reach, reach + 1), repeat=dimension))
    beyond = (2 * reach + 3) ** dimension * decay(rate * reach)
    assert rate >= dimension
    total = sum((decay(rate * norm(point)) for point in points), arb(0)) + beyond * arb(0.5, 0.5)
    near = [point for point in points if norm(point) <= 1]
    return Stated(lambda v: decay(rate * norm(v)) / total, near)


def rounded_disc(rate: Fraction, *, reach: int) -> Stated:
    """Return the law of Round(V), ``f(V) = rate**2 / (2 pi) exp(-rate ||V||_2)`` in the plane.

    A disc of radius s holds ``m(s) = 1 - exp(-rate s) (1 + rate s)``. So by Green's theorem a
    square holds the integral of ``m(||v||) / (2 pi ||v||**2) (v_1 dv_2 - v_2 dv_1)`` around it.
    """

    def along(across: Fraction, first: Fraction) -> arb:
        """Return the part of an edge at a distance from an axis, from a place on."""
        far, start = rational(across), rational(first)

        def part(place: acb, analytic: bool) -> acb:
            squared = place * place + far * far
            reach = rational(rate) * squared.sqrt(analytic=analytic)
            return (1 - (-reach).exp() * (1 + reach)) * far / squared

        return acb.integral(part, start, start + 1).real / (2 * arb.pi())

    def at(v: Sequence[int]) -> arb:
        (left, low), half = v, Fraction(1, 2)
        sides = [along(left + half, low - half), -along(left - half, low - half)]
        return sum(
            [*sides, along(low + half, left - half), -along(low - half, left - half)], arb(0)
        )

    return Stated(at, list(product(range(-reach, reach + 1), repeat=2)))


def flat(dimension: int, rate: Fraction, *, reach: int) -> Stated:
    """Return the histogram hull's law: sums of zero, ``exp(-rate ||v||_1 / 2)``."""
    free = lattice(
        dimension - 1, lambda v: max(_risen(v), _risen([-x for x in v])), rate, reach=reach
    )

    def at(v: Sequence[int]) -> arb:
        return free.at(v[:-1]) if sum(v) == 0 else arb(0)

    return Stated(at, [(*v, -sum(v)) for v in free.support])


def _risen(v: Sequence[int]) -> int:
    return sum(x for x in v if x > 0)


def score(rows: Sequence[int], level: Fraction, point: int) -> Fraction:
    """Return how far ``level n`` is from the ranks at a point."""
    wanted = level * len(rows)
    under = sum(row < point for row in rows)
    through = sum(row <= point for row in rows)
    return max(under - wanted, wanted - through, Fraction(0))


def quantile(
    rows: Sequence[int],
    level: Fraction,
    rate: Fraction,
    points: Sequence[int],
    places: Sequence[int] | None = None,
) -> Stated:
    """Return ``P(t) ∝ m(t) exp(-rate score(t))``, m the number of a point's places."""
    many = places or [1] * len(points)
    weights = {
        t: m * decay(rate * score(rows, level, t)) for t, m in zip(points, many, strict=True)
    }
    total = sum(weights.values(), arb(0))
    return Stated(lambda t: weights[t] / total, points)


def permute_and_flip(
    rows: Sequence[int],
    level: Fraction,
    rate: Fraction,
    points: Sequence[int],
    places: Sequence[int] | None = None,
) -> Stated:
    """Return the law of a random order in which each place stops with ``exp(-rate score)``.

    A place stops if it shows heads and none before it does: with a uniform time u of arrival,
    ``p_t`` times the integral of ``prod (1 - u p_s)`` over the others.
    """
    owners = _owners(points, places, 1)
    heads = dict(enumerate(decay(rate * score(rows, level, t)) for t in owners))

    def at(t: int) -> arb:
        return sum((stopping(own) for own, point in enumerate(owners) if point == t), arb(0))

    def stopping(own: int) -> arb:
        others = [p for s, p in heads.items() if s != own]
        total = arb(0)
        for size in range(len(others) + 1):
            for chosen in combinations(others, size):
                term = arb((-1) ** size) / (size + 1)
                for p in chosen:
                    term *= p
                total += term
        return heads[own] * total

    return Stated(at, points)


def joint(
    rows: Sequence[int],
    levels: Sequence[Fraction],
    rate: Fraction,
    points: Sequence[int],
    *,
    bits: int,
    places: Sequence[int] | None = None,
) -> Stated:
    """Return the law of several quantiles at once, averaged over all spreads of ties."""
    owners = _owners(points, places, 1 << bits)
    spreads = _spreads(rows, owners)
    law: dict[Outcome, arb] = {}
    for spread in spreads:
        for outcome, mass in _spread_law(spread, levels, rate, owners).items():
            law[outcome] = law.get(outcome, arb(0)) + mass / len(spreads)
    return Stated(lambda t: law[t], list(law))


def _owners(points: Sequence[int], places: Sequence[int] | None, finer: int) -> list[int]:
    """Return the point that each finer point belongs to, of so many to a place."""
    many = places or [1] * len(points)
    return [t for t, m in zip(points, many, strict=True) for _ in range(m * finer)]


def _spreads(rows: Sequence[int], owners: Sequence[int]) -> list[tuple[int, ...]]:
    """Return every way to give rows of one code distinct finer points."""
    found: list[tuple[int, ...]] = [()]
    for code in sorted(set(rows)):
        own = [place for place, point in enumerate(owners) if point == code]
        ways = list(combinations(own, list(rows).count(code)))
        found = [(*before, *way) for before in found for way in ways]
    return found


def _spread_law(
    spread: Sequence[int],
    levels: Sequence[Fraction],
    rate: Fraction,
    owners: Sequence[int],
) -> dict[Outcome, arb]:
    n, edges = len(spread), (Fraction(0), *levels, Fraction(1))
    weights: dict[Outcome, arb] = {}
    for chosen in product(range(len(owners)), repeat=len(levels)):
        ordered = sorted(chosen)
        ranks = [0, *(sum(row <= t for row in spread) for t in ordered), n]
        missed = sum(
            abs(ranks[j + 1] - ranks[j] - n * (edges[j + 1] - edges[j]))
            for j in range(len(levels) + 1)
        )
        outcome = tuple(owners[t] for t in ordered)
        weights[outcome] = weights.get(outcome, arb(0)) + decay(rate * missed)
    total = sum(weights.values(), arb(0))
    return {outcome: weight / total for outcome, weight in weights.items()}
