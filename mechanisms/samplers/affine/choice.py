"""Choose the cheapest route and draw until a try is accepted.

Every route accepts a point with exactly the law f, independently of the tries
before it. So the point released has the law f however the routes are chosen,
even if the choice depends on earlier rejections, and the rounded point is
post-processing of one exact draw. The choice is by the envelopes' masses, whose
ratio to f's integral are the mean numbers of tries.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from mechanisms.randomness import Randomness
from mechanisms.samplers.affine.base_measure import BaseMeasureRoute
from mechanisms.samplers.affine.cross_polytope import CrossPolytopeRoute
from mechanisms.samplers.affine.cube import CubeRoute
from mechanisms.samplers.affine.line import LineRoute
from mechanisms.samplers.affine.path import Vertex, find_vertices
from mechanisms.samplers.affine.posterior import AffinePosterior
from mechanisms.samplers.affine.radial import RadialRoute
from mechanisms.samplers.affine.search import improved, ranked
from mechanisms.samplers.affine.tries import Route, decide, random_words, surviving
from mechanisms.samplers.affine.vertex import VertexRoute, vertex_route

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
