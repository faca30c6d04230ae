"""Choose the cheapest route and draw until a try is kept.

Every route keeps a point with exactly the law f, independently of the tries
before it. So the point released has the law f however the routes are chosen,
even if the choice looks at earlier rejections, and the rounded point is
post-processing of one exact draw. The choice is by the envelopes' masses, whose
ratio to f's integral are the mean numbers of tries.
"""

from __future__ import annotations

from mechanisms.randomness import Randomness
from mechanisms.samplers.affine.cross_polytope import CrossPolytopeRoute
from mechanisms.samplers.affine.cube import CubeRoute
from mechanisms.samplers.affine.path import find_vertex
from mechanisms.samplers.affine.posterior import AffinePosterior
from mechanisms.samplers.affine.radial import RadialRoute
from mechanisms.samplers.affine.tries import Route, decide, random_words, surviving
from mechanisms.samplers.affine.vertex import VertexRoute, vertex_route

_FIRST_ROWS = 4
_MOST_ROWS = 4096
_NEAR_THE_BOUND = 0.5


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
        Which envelope to use; the cheapest when omitted.

    Returns
    -------
    tuple of d ints
        Indices on the grid: theta is about ``index * 2**step_exponent``.
    """
    chosen = cheapest_route(law) if route is None else route
    rows = _FIRST_ROWS
    while True:
        words = random_words(randomness, rows, 1 + chosen.choices + chosen.uniforms)
        for row in surviving(chosen, words):
            point = decide(chosen, words[row].tolist(), randomness, step_exponent)
            if point is not None:
                return point
        rows = min(4 * rows, _MOST_ROWS)


def cheapest_route(law: AffinePosterior) -> Route:
    """Return the route whose envelope has the least mass."""
    return min(routes(law), key=lambda route: route.log_mass)


def routes(law: AffinePosterior) -> list[Route]:
    """Return the routes worth comparing; the vertex only where the bound on theta bites."""
    vertex: VertexRoute | None = None
    shadow = law.shadow
    reach = law.dimension * (1 + shadow.bound) / shadow.rate * shadow.spread
    if shadow.centre_norm + reach > _NEAR_THE_BOUND * shadow.bound:
        found = find_vertex(law)
        vertex = vertex_route(law, found) if found is not None else None
    least = 0.0 if vertex is None else max(0.0, vertex.rates.start)
    found_routes: list[Route] = [RadialRoute(law), CubeRoute(law), CrossPolytopeRoute(law, least)]
    return found_routes if vertex is None else [*found_routes, vertex]
