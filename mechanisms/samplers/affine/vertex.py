"""Route (d): exponentials along the edges of a cone that holds the whole problem.

f's exponent is at least c h, so lift theta to (theta, t) with t >= h and draw
from exp(-c t) w(theta), whose theta-marginal is f up to a constant when

    w(theta) = exp(-(k / (1 + rho) - c) h) (1 + rho)^-p.

*The cone.* Take coordinates N with signs sigma, Z the others, and |N| rows
omega_i with sum |omega_ij| <= 1; at a vertex of the problem "least h on Theta" a
row is one signed residual. With the slacks x_i = t - omega_i'V >= 0 and s = B -
sum_N sigma_j theta_j - sum_Z |theta_j| >= 0, every (theta, t) with rho <= B, |V| <= t
is the image of one (x, s, theta_Z), affine for each sign pattern of theta_Z, with
one constant Jacobian, and

    t = t_0 + sum mu_i x_i + lambda s + sum_Z (lambda |theta_j| + g_j theta_j).

If all rates mu_i, lambda, lambda +- g_j are certified > 0, then exp(-c t) is
at most the product of independent exponentials of those rates (two-sided on Z);
dyadic rates just below the true ones keep the inequality. t_0 is then also a
lower bound on h over Theta.

*Following Delta(theta).* On the points whose N-coordinates all have their sign,
s = B - rho exactly and 1 / (1 + rho) >= (1 + s / (1 + B)) / (1 + B), so
eta = t_0 / (1 + B) may be added to s's rate. Elsewhere that is wrong, since
there s > B - rho. A point with a wrong sign has D = c (t - t_0) >= T, the least
such value being read off the cone; there exp(-D) <= exp(-D / 2 - T / 2), so a
second component, the same cone at half the rates, covers those points, with
odds about exp(-T / 2). Each component keeps only points of its own region. If
that costs more than it saves, the cone is used plainly, without eta.

*Base measure.* For 0 <= nu <= p log(1 + B) / (c B) and s >= B - rho, (1 + rho)^-p is at most
exp(-c nu (B - s)): the exponent is convex in rho and below this line at rho = 0 and rho = B. nu is
taken off s's rate, and is that at which the cone's mass exp(-c nu B) / (lambda - nu) is least:
lambda - 1 / (c B), if that is between those ends.

Accept iff the point satisfies every constraint, belongs to its component's region
and log U < log target - log envelope. All odds are integers out of 2**64, all
rates dyadic or rational, so the envelope is known exactly.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
from flint import arb, arb_mat

from mechanisms.exact.balls import float_below, norm_one, rational
from mechanisms.exact.floats import Floats, Words, working_precision
from mechanisms.samplers.affine.cube import WORD_BITS, Verdict
from mechanisms.samplers.affine.path import Cone, Vertex, build_cone
from mechanisms.samplers.affine.posterior import (
    FLOAT_SLACK,
    AffinePosterior,
    floats,
    magnitudes,
    radii,
)
from mechanisms.samplers.affine.radial import WORDS, TwoSided, two_sided

_MOST_FAR_ODDS = 0.25  # a larger share for the far component costs more than eta saves


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """The envelope's exact rates, in multiples of c: dyadic floats below the true ones.

    ``start`` is below t_0, ``slack`` below mu, ``price`` below lambda, ``others``
    below lambda +- g_j on Z; ``gain`` is eta and ``loss`` is nu.
    """

    start: float
    slack: tuple[float, ...]
    price: float
    others: TwoSided
    gain: float
    loss: float


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shadow:
    """A cone's maps in floats, what bounds their errors, and the typical sizes of y."""

    base: Floats
    image: Floats
    offset: Floats
    sizes: Floats
    units: Floats


@dataclass(frozen=True, slots=True)
class VertexRoute:
    """Propose from the cone at a vertex; built by :func:`vertex_route`.

    ``far_odds`` out of 2**64 is the second component's share, 0 for the plain
    cone; ``threshold`` is c T.
    """

    law: AffinePosterior
    vertex: Vertex
    rates: Rates
    far_odds: int
    log_mass: float
    _cones: dict[int, Cone] = field(default_factory=dict, repr=False, compare=False)
    _shadows: list[_Shadow] = field(default_factory=list, repr=False, compare=False)

    @property
    def name(self) -> str:
        """Return the route's name."""
        return "vertex"

    @property
    def choices(self) -> int:
        """Return 1 + |Z|: the component and the signs."""
        return 1 + len(self.rates.others)

    @property
    def uniforms(self) -> int:
        """Return d + 1: slacks, s, magnitudes."""
        return self.law.dimension + 1

    @property
    def guard_bits(self) -> int:
        """Return the bits a product may cancel."""
        return self.law.guard_bits

    def cone(self, bits: int) -> Cone:
        """Return the cone's maps, enclosed."""
        known = self._cones.get(bits)
        if known is None:
            known = self._cones[bits] = build_cone(self.law, self.vertex, bits)
        return known

    def screen(self, choices: Words, uniforms: Floats) -> Floats:
        """Return an upper bound on the log ratio per row; the far component is never screened."""
        shadow, rates, size = self.law.shadow, self.rates, self.law.dimension
        points, slack, s, far = self._images(choices, uniforms)
        theta, up, down = points[:, :size], points[:, size : 2 * size], points[:, 2 * size : -1]
        norm = np.abs(theta).sum(axis=1)
        width = slack[:, :size].sum(axis=1)
        height = points[:, -1] - np.minimum(up, down).min(axis=1)
        # A lower height means a larger density: the ceiling has to allow for it.
        height -= slack[:, size:].max(axis=1) * 2
        above = np.maximum(shadow.bound - norm - width, 0.0)
        gain = shadow.floor_rate * (rates.gain if self.far_odds else 0.0) * s
        loss = shadow.rate * above * np.maximum(height, 0.0) / (1 + shadow.bound)
        loss /= 1 + norm + width
        line = shadow.floor_rate * rates.loss
        change = line * (shadow.bound - s) - shadow.power * np.log1p(np.maximum(norm - width, 0))
        ceiling = gain - loss + change
        total = gain + loss + shadow.power * 10 + shadow.floor_rate * s + line * (shadow.bound + s)
        ceiling += FLOAT_SLACK * (1 + total)
        outside = norm - width > shadow.bound
        outside |= ((up + slack[:, size : 2 * size]) < 0).any(axis=1)
        outside |= ((down + slack[:, 2 * size : -1]) < 0).any(axis=1)
        signs, places = self._signs()
        # The near component keeps only points whose N-coordinates all have their sign.
        if self.far_odds:
            outside |= ((theta[:, places] * signs + slack[:, places]) < 0).any(axis=1)
        return np.where(far, 0.0, np.where(outside, -np.inf, ceiling))

    def verdict(self, choices: Sequence[int], uniforms: Sequence[arb], bits: int) -> Verdict | None:
        """Return theta, all constraints, and the log ratio of target to envelope."""
        exact, cone, rates = self.law.enclose(bits), self.cone(bits), self.rates
        size = self.law.dimension
        far = choices[0] < self.far_odds
        parts = [-uniform.log() for uniform in uniforms]
        y, s = self._coordinates(choices[1:], parts, far=far)
        points = (cone.base + cone.image * arb_mat(size + 1, 1, y)).entries()
        theta, gaps, top = points[:size], points[size:-1], points[-1]
        norm = norm_one(theta)
        least = gaps[0]
        for gap in gaps[1:]:
            least = least.min(gap)
        height = top - least
        conditions = [exact.bound - norm, s, least]
        # Each component keeps the points of its own region, so that none is accepted twice.
        if self.far_odds:
            wrong = arb(1)
            for place, sign in self.vertex.support:
                wrong = wrong.min(theta[place] * sign)
            conditions.append(-wrong if far else wrong)
        target = exact.floor_rate * (height - top) + exact.log_density(height, theta)
        log_ratio = target + exact.floor_rate * arb(rates.start) + sum(parts, arb(0))
        log_ratio += exact.floor_rate * arb(rates.loss) * exact.bound
        # The far envelope's height at the apex, the near one's being 1.
        if far:
            log_ratio -= rational(self._far_height()).log()
        return Verdict(theta=theta, conditions=conditions, log_ratio=log_ratio)

    def _far_height(self) -> Fraction:
        """Return the far component's envelope at the apex, the near one's being 1."""
        rates, size = self.rates, self.law.dimension
        share = Fraction(self.far_odds, WORDS - self.far_odds)
        return share * _far_price(rates) / _near_price(rates, near=True) / (1 << size)

    def _coordinates(
        self, signs: Sequence[int], parts: Sequence[arb], *, far: bool
    ) -> tuple[list[arb], arb]:
        """Return y and s from unit exponentials."""
        rates, count = self.rates, len(self.rates.slack)
        scale = self.law.floor_rate / 2 if far else self.law.floor_rate
        y = [
            part / rational(scale * Fraction(rate))
            for part, rate in zip(parts[:count], rates.slack, strict=True)
        ]
        price = 2 * _far_price(rates) if far else _near_price(rates, near=self.far_odds > 0)
        s = parts[count] / rational(scale * price)
        signed, total = rates.others.balls(signs, parts[count + 1 :], scale)
        return [*y, s + total, *signed], s

    def _images(
        self, choices: Words, uniforms: Floats
    ) -> tuple[Floats, Floats, Floats, np.ndarray[tuple[int], np.dtype[np.bool_]]]:
        """Return base + image y per row, a bound on its rounding error, s, and the far rows."""
        rates, count = self.rates, len(self.rates.slack)
        parts = -np.log(uniforms) / self.law.shadow.floor_rate
        s = parts[:, count] / float(_near_price(rates, near=self.far_odds > 0))
        signed = rates.others.floats(choices[:, 1:], parts[:, count + 1 :])
        total = s + np.abs(signed).sum(axis=1)
        y = np.hstack([parts[:, :count] / np.array(rates.slack), total[:, None], signed])
        cone = self._shadow()
        slack = FLOAT_SLACK * (cone.offset + (np.abs(y) + cone.units) @ cone.sizes.T)
        far = choices[:, 0] < np.uint64(self.far_odds)
        return cone.base + y @ cone.image.T, slack, s, far

    def _shadow(self) -> _Shadow:
        """Return the cone's maps as floats."""
        if not self._shadows:
            cone, rates = self.cone(64), self.rates
            columns = self.law.dimension + 1
            price = 1 / float(_near_price(rates, near=self.far_odds > 0))
            others = rates.others.widths
            units = [*(1 / rate for rate in rates.slack), price + sum(others), *others]
            self._shadows.append(
                _Shadow(
                    base=floats(cone.base.entries()),
                    image=floats(cone.image.entries()).reshape(-1, columns),
                    offset=magnitudes(cone.base.entries()),
                    sizes=magnitudes(cone.image.entries()).reshape(-1, columns),
                    units=np.array(units) / self.law.shadow.floor_rate,
                )
            )
        return self._shadows[0]

    def _signs(self) -> tuple[Floats, list[int]]:
        signs = np.array([float(sign) for _, sign in self.vertex.support])
        return signs, [place for place, _ in self.vertex.support]


def _near_price(rates: Rates, *, near: bool) -> Fraction:
    """Return s's rate in the near (or the plain) component."""
    gain = Fraction(rates.gain) if near else 0
    return Fraction(rates.price) + gain - Fraction(rates.loss)


def _far_price(rates: Rates) -> Fraction:
    """Return s's rate in the far component, half of lambda less nu."""
    return Fraction(rates.price) / 2 - Fraction(rates.loss)


def vertex_route(law: AffinePosterior, vertex: Vertex) -> VertexRoute | None:
    """Certify the cone at a vertex and calibrate its envelope; None if a rate is not positive."""
    # A row longer than 1 would not bound t from below.
    if any(sum(abs(Fraction(weight)) for _, weight in row) > 1 for row in vertex.rows):
        return None
    try:
        cone = build_cone(law, vertex, 64)
    except ZeroDivisionError:
        return None
    rates = _certified_rates(law, vertex, cone)
    if rates is None:
        return None
    plain = _log_mass(law, cone, rates)
    far_odds = _far_odds(law, vertex, cone, rates)
    route = VertexRoute(law, vertex, rates, 0, plain)
    if far_odds is not None:
        saved = _near_price(rates, near=False) / _near_price(rates, near=True)
        both = plain + math.log(float(saved)) - math.log1p(-far_odds / WORDS)
        if both < plain:
            route = VertexRoute(law, vertex, rates, far_odds, both)
    route._cones[64] = cone
    return route


def _certified_rates(law: AffinePosterior, vertex: Vertex, cone: Cone) -> Rates | None:
    """Return dyadic rates below the true ones, or None when one is not surely positive."""
    count = len(vertex.support)
    with working_precision(64 + 2 * law.guard_bits):
        top = cone.image.tolist()[-1]
        # A larger s lowers theta's room: t's slope in s is lambda itself.
        price, cross = top[count], top[count + 1 :]
        lows = [float_below(rate) for rate in (*top[:count], price)]
        plus = [float_below(price + rate) for rate in cross]
        minus = [float_below(price - rate) for rate in cross]
        start = float_below(cone.base.entries()[-1])
        others = two_sided(plus, minus)
        if others is None or min(lows) <= 0 or not math.isfinite(start):
            return None
        bound, floor_rate = rational(law.bound), rational(law.floor_rate)
        steepest = float_below(law.power * (1 + bound).log() / (floor_rate * bound))
        return Rates(
            start=start,
            slack=tuple(lows[:count]),
            price=lows[count],
            others=others,
            gain=max(0.0, float_below(arb(start) / (1 + bound))),
            loss=max(0.0, min(steepest, lows[count] - float(1 / (law.floor_rate * law.bound)))),
        )


def _log_mass(law: AffinePosterior, cone: Cone, rates: Rates) -> float:
    """Return the plain envelope's log integral, in f's units (t's integral is 1 / c)."""
    c, size = law.shadow.floor_rate, law.dimension
    total = float(abs(cone.determinant).log()) - c * rates.start - size * math.log(c)
    total -= sum(math.log(rate) for rate in rates.slack)
    total -= math.log(float(_near_price(rates, near=False)))
    total += sum(math.log(width) for width in rates.others.widths)
    return total - c * rates.loss * law.shadow.bound


def _far_odds(law: AffinePosterior, vertex: Vertex, cone: Cone, rates: Rates) -> int | None:
    """Return the far component's odds, or None when it would cost too much."""
    if rates.gain == 0 or _far_price(rates) <= 0:
        return None
    threshold = law.shadow.floor_rate * _least_excess(vertex, cone, rates)
    if threshold <= 0:
        return None
    size = law.dimension
    apex = _far_price(rates) / _near_price(rates, near=True) / 2**size
    # The far envelope must lie above exp(-D), D >= T, at every point of its region.
    needed = math.exp(-threshold / 2) / float(apex) * (1 + 2.0**-20)
    share = needed / (1 + needed)
    if share > _MOST_FAR_ODDS:
        return None
    # More odds than needed only make the far envelope higher.
    return int(share * 2.0**WORD_BITS * (1 + 2.0**-20)) + 1


def _least_excess(vertex: Vertex, cone: Cone, rates: Rates) -> float:
    """Return a lower bound on t - t_0 over points with a wrong sign on N.

    sigma_j theta_j is theta*_j less a combination of the edges; moving by 1 of t
    along the steepest edge lowers it by the largest (coefficient / rate).
    """
    count, columns = len(vertex.support), cone.image.ncols()
    base, off = floats(cone.base.entries()), radii(cone.base.entries())
    image = floats(cone.image.entries()).reshape(-1, columns)
    wide = radii(cone.image.entries()).reshape(-1, columns)
    least = math.inf
    for place, sign in vertex.support:
        row, more = -sign * image[place], wide[place]
        drops = list((row[:count] + more[:count]) / np.array(rates.slack))
        drops.append((row[count] + more[count]) / rates.price)
        for other, plus in enumerate(rates.others.plus):
            entry, minus = count + 1 + other, rates.others.minus_hints[other]
            both = more[count] + more[entry]
            drops.append((row[count] + row[entry] + both) / plus)
            drops.append((row[count] - row[entry] + both) / minus)
        steepest = max(drops)
        if steepest > 0:
            least = min(least, (sign * base[place] - off[place]) / steepest)
    # A hundredth covers the rounding of these operations; where no sign can turn, any threshold
    # holds.
    return 0.99 * least if math.isfinite(least) else 1e300
