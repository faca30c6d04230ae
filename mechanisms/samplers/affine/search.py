"""Choice of the vertex route's cone: the one of least mass that a search in floats finds.

The mean number of tries is the envelope's mass over f's integral, so masses
compare cones without a single try. Any cone whose rates are positive is valid, so
the search is free: it starts from the vertices of the path, and, when that is
not enough, descends by four moves.

- *Blend* a row with a residual, t >= (1 - tau) omega'V + tau (+-V_r): points
  between two dual vertices, for a theta_hat close to Theta's boundary.
- *Shrink* a row, t >= tau omega'V: for a theta_hat within Theta, where V takes
  both signs.
- *Drop* a coordinate of N together with a row: wider along directions the data
  leave open (repeated columns).
- *Add* a signed coordinate to N together with a signed residual.

The search uses floats only; the vertex route certifies the result.

*Choose the cheapest route and draw until a try is accepted.* Every route accepts a point with
exactly the law f, independently of the tries before it. So the point released has the law f
however the routes are chosen, even if the choice depends on earlier rejections, and the rounded
point is post-processing of one exact draw. The choice is by the envelopes' masses, whose ratio to
f's integral are the mean numbers of tries.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from mechanisms.exact.floats import Floats
from mechanisms.randomness import Randomness
from mechanisms.samplers.affine.base_measure import BaseMeasureRoute
from mechanisms.samplers.affine.cube import (
    CrossPolytopeRoute,
    CubeRoute,
    Route,
    decide,
    random_words,
    surviving,
)
from mechanisms.samplers.affine.path import Row, Vertex, find_vertices
from mechanisms.samplers.affine.posterior import AffinePosterior, Shadow
from mechanisms.samplers.affine.radial import LineRoute, RadialRoute
from mechanisms.samplers.affine.vertex import VertexRoute, vertex_route

# Choose the cheapest route and draw until a try is accepted

_FIRST_ROWS = 4  # most draws keep one of the first few tries
_MOST_ROWS = 4096  # tries screened at a time
_PATIENCE = 4  # batches of the largest size
_GOOD_ENOUGH = math.log(50)  # fifty tries cost less than the search for a better vertex


def draw(
    law: AffinePosterior,
    randomness: Randomness,
    *,
    step_exponent: int,
    route: Route | None = None,
) -> tuple[int, ...]:
    """Return one exact draw of theta, rounded to the grid of step ``2**step_exponent``.

    Parameters
    ----------
    law : AffinePosterior
        The law; all of it may be private.
    route : Route, optional
        Which envelope to use; when omitted the cheapest, with a harder search
        for a cheaper one after some 16,000 rejections.

    Returns
    -------
    tuple of d ints
        Indices on the grid: theta is about ``index * 2**step_exponent``.
    """
    chosen = cheapest_route(law) if route is None else route
    rows, full = _FIRST_ROWS, 0
    while True:
        words = random_words(randomness, rows, 1 + chosen.choices + chosen.uniforms)
        for row in surviving(chosen, words):
            point = decide(chosen, words[row].tolist(), randomness, step_exponent)
            if point is not None:
                return point
        full += rows == _MOST_ROWS
        if full == _PATIENCE and route is None:
            chosen = min(routes(law, thorough=True), key=lambda other: other.log_mass)
        rows = min(4 * rows, _MOST_ROWS)


def cheapest_route(law: AffinePosterior) -> Route:
    """Return the route whose envelope has the least mass.

    When Theta's bound hardly bites and the radial envelope is narrow, it is
    taken without looking for a vertex.
    """
    if law.replaced:
        return LineRoute(law)
    radial = RadialRoute(law)
    if _well_inside(law) and radial.log_mass - _local_log_mass(law) < _GOOD_ENOUGH:
        return radial
    return min(routes(law), key=lambda route: route.log_mass)


def routes(law: AffinePosterior, *, thorough: bool = False) -> list[Route]:
    """Return one calibrated envelope of each kind, as far as they exist for this law."""
    if law.replaced:
        return [LineRoute(law)]
    vertices = find_vertices(law) if any(law.vector) else []
    best = _best_vertex(law, vertices, thorough=thorough)
    # A certified cone's t_0 bounds h from below on all of Theta; the path's
    # last vertex has the highest.
    highest = best
    if vertices and (best is None or best.vertex != vertices[0]):
        highest = vertex_route(law, vertices[0])
    least = 0.0 if highest is None else max(0.0, highest.rates.start)
    found: list[Route] = [RadialRoute(law), CubeRoute(law), CrossPolytopeRoute(law, least)]
    if law.power > law.dimension:
        found.append(BaseMeasureRoute(law, least))
    return found if best is None else [*found, best]


def _best_vertex(
    law: AffinePosterior, vertices: Sequence[Vertex], *, thorough: bool
) -> VertexRoute | None:
    """Return the cone of least mass that can be certified."""
    better = improved(law.shadow, vertices) if thorough else []
    for _, vertex in [*better, *ranked(law.shadow, vertices)]:
        route = vertex_route(law, vertex)
        if route is not None:
            return route
    return None


def _well_inside(law: AffinePosterior) -> bool:
    """Return whether theta_hat and its typical noise stay within Theta."""
    shadow = law.shadow
    widths = np.sqrt((shadow.inverse**2).sum(axis=1) / 3)
    typical = law.dimension * (1 + shadow.centre_norm) / shadow.rate * float(widths.sum())
    return shadow.centre_norm + 1.5 * typical < shadow.bound


def _local_log_mass(law: AffinePosterior) -> float:
    """Return about f's log integral, were 1 + rho constant: a hint."""
    shadow, size = law.shadow, law.dimension
    spread = 1 + shadow.centre_norm
    whole = math.lgamma(size + 1) + size * math.log(2 * spread / shadow.rate)
    return whole - shadow.log_determinant - shadow.power * math.log(spread)


# Choice of the vertex route's cone: the one of least mass that a search in floats finds

_BLENDS = (0.1, 0.3, 0.6, 0.8, 0.9, 0.97, 0.997)  # shares tried for a move
_STARTS = 3  # cones descended from: the best few end alike
_MOST_MOVES = 40  # descents end long before
_LEAST_GAIN = 0.05  # of log mass: less is not worth a move
_UNIT = 2.0**52  # weights become multiples of 2**-52
_SHRINK = _UNIT * (1 - 2.0**-48)  # a hair below 1, so that rounded sizes cannot sum above it

Ranked = tuple[float, Vertex]
Support = tuple[tuple[int, int], ...]


class _Found(NamedTuple):
    """A cone within the search: its log mass, N with signs, its rows as an array."""

    mass: float
    support: Support
    rows: Floats


def ranked(shadow: Shadow, vertices: Sequence[Vertex]) -> list[Ranked]:
    """Return the vertices with finite mass and their log masses, least first."""
    found = [
        (float(log_masses(shadow, vertex.support, _dense(vertex.rows, shadow)[None])[0]), vertex)
        for vertex in vertices
    ]
    return sorted((pair for pair in found if np.isfinite(pair[0])), key=lambda pair: pair[0])


def improved(shadow: Shadow, vertices: Sequence[Vertex]) -> list[Ranked]:
    """Return better cones than those of the path's vertices, the best first."""
    starts = [
        _Found(mass, vertex.support, _dense(vertex.rows, shadow))
        for mass, vertex in ranked(shadow, vertices)
    ]
    for vertex in vertices:
        shrunk = _shrunk(shadow, _Found(0.0, vertex.support, _dense(vertex.rows, shadow)))
        starts += [shrunk] if shrunk is not None else []
    starts.sort(key=lambda found: found.mass)
    ends = sorted((_descended(shadow, start) for start in starts[:_STARTS]), key=lambda e: e.mass)
    return [(end.mass, Vertex(support=end.support, rows=_sparse(end.rows))) for end in ends]


def _descended(shadow: Shadow, start: _Found) -> _Found:
    """Return where the moves lead from a cone, cheap moves first."""
    reached = start
    for _ in range(_MOST_MOVES):
        # The first move that helps is taken: the later ones cost more to try.
        for move in (_shrunk, _dropped, _added, _blended):
            found = move(shadow, reached)
            if found is not None and found.mass < reached.mass - _LEAST_GAIN:
                reached = found
                break
        else:
            break
    return reached


def _dense(rows: Sequence[Row], shadow: Shadow) -> Floats:
    """Return sparse rows as an array with d columns."""
    matrix = np.zeros((len(rows), len(shadow.vector)))
    for place, row in enumerate(rows):
        for column, weight in row:
            matrix[place, column] = weight
    return matrix


def _sparse(rows: Floats) -> tuple[Row, ...]:
    """Return rows with weights rounded towards zero, so that their sizes surely sum below 1."""
    units = np.trunc(rows * _SHRINK)
    return tuple(
        tuple((int(place), float(row[place]) / _UNIT) for place in np.flatnonzero(row))
        for row in units
    )


def log_masses(shadow: Shadow, support: Sequence[tuple[int, int]], rows: Floats) -> Floats:
    """Return the log mass of each of K cones with the same N: rows is (K, |N|, d).

    The formula of :mod:`mechanisms.samplers.affine.vertex` without eta; inf
    where a rate is not positive.
    """
    stack, count, size = rows.shape
    inside = [place for place, _ in support]
    outside = [place for place in range(size) if place not in inside]
    slopes = rows @ shadow.matrix
    system = np.zeros((stack, count + 1, count + 1))
    system[:, :count, :count] = -slopes[:, :, inside]
    system[:, :count, count] = 1.0
    system[:, count, :count] = [sign for _, sign in support]
    _, log_determinant = np.linalg.slogdet(system)
    usable = np.isfinite(log_determinant)
    # A singular system is replaced by one that can be inverted, and dropped below.
    system[~usable] = np.eye(count + 1)
    dual = np.linalg.inv(system)[:, count, :]
    rates, price = dual[:, :count], -dual[:, count]
    cross = np.einsum("kr,krj->kj", rates, slopes[:, :, outside])
    start = -np.einsum("kr,kr->k", rates, rows @ shadow.vector) - price * shadow.bound
    c = shadow.floor_rate
    steepest = shadow.power * np.log1p(shadow.bound) / (c * shadow.bound)
    loss = np.clip(price - 1 / (c * shadow.bound), 0.0, steepest)
    reduced = price - loss
    plus, minus = price[:, None] + cross, price[:, None] - cross
    everything = np.hstack([rates, reduced[:, None], plus, minus])
    usable &= (everything > 0).all(axis=1)
    with np.errstate(all="ignore"):
        masses = -log_determinant - c * start - size * np.log(c)
        masses -= np.log(rates).sum(axis=1) + np.log(reduced)
        masses += np.log(1 / plus + 1 / minus).sum(axis=1)
    masses -= c * loss * shadow.bound
    return np.where(usable & np.isfinite(masses), masses, np.inf)


def _blended(shadow: Shadow, found: _Found) -> _Found | None:
    """Return the best blend of one of the rows with a signed residual."""
    partners = np.vstack([np.eye(len(shadow.vector)), -np.eye(len(shadow.vector))])
    return _mixed(shadow, found, partners)


def _shrunk(shadow: Shadow, found: _Found) -> _Found | None:
    """Return the best cone with one of the rows scaled down."""
    return _mixed(shadow, found, np.zeros((1, len(shadow.vector))))


def _mixed(shadow: Shadow, found: _Found, partners: Floats) -> _Found | None:
    """Return the best cone with (1 - share) row + share partner for one row."""
    shares = np.array(_BLENDS)[None, :, None]
    stacks = []
    for place, row in enumerate(found.rows):
        mixed = (1 - shares) * row + shares * partners[:, None, :]
        mixed = mixed.reshape(-1, mixed.shape[-1])
        stack = np.repeat(found.rows[None], len(mixed), axis=0)
        stack[:, place] = mixed
        stacks.append(stack)
    return _best(shadow, found.support, np.concatenate(stacks))


def _dropped(shadow: Shadow, found: _Found) -> _Found | None:
    """Return the best cone with one coordinate of N and one row less."""
    count = len(found.support)
    if count == 1:
        return None
    stack = np.array([np.delete(found.rows, row, axis=0) for row in range(count)])
    supports = [(*found.support[:at], *found.support[at + 1 :]) for at in range(count)]
    return _least(_best(shadow, support, stack) for support in supports)


def _added(shadow: Shadow, found: _Found) -> _Found | None:
    """Return the best cone with one signed coordinate and one signed residual more."""
    size, inside = len(shadow.vector), {place for place, _ in found.support}
    extra = np.vstack([np.eye(size), -np.eye(size)])
    stack = np.concatenate(
        [np.repeat(found.rows[None], 2 * size, axis=0), extra[:, None, :]], axis=1
    )
    return _least(
        _best(shadow, (*found.support, (place, sign)), stack)
        for place in range(size)
        for sign in (1, -1)
        if place not in inside
    )


def _best(shadow: Shadow, support: Support, stack: Floats) -> _Found | None:
    """Return the rows of least mass in a stack, if any is finite."""
    masses = log_masses(shadow, support, stack)
    least = int(np.argmin(masses))
    if not np.isfinite(masses[least]):
        return None
    return _Found(float(masses[least]), support, stack[least])


def _least(found: Iterable[_Found | None]) -> _Found | None:
    return min((one for one in found if one is not None), key=lambda one: one.mass, default=None)
