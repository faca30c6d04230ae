"""Exact draws from a law on a public grid, by adaptive rejection on boxes.

``draw(law, space, randomness)`` returns one grid point of the l1 ball with
probability exactly proportional to ``exp(-E(theta))``, for any E that can be bounded
below on boxes and evaluated at points (:class:`~mechanisms.samplers.boxes.space.BoxLaw`).

May enter: what the engine itself needs; laws live in ``objectives``. May import: ``exact`` and
``randomness``.
"""

from mechanisms.samplers.boxes.rejection import LEAST_MS, Cover, draw
from mechanisms.samplers.boxes.space import Box, BoxLaw, Children, Space, Start

__all__ = [
    "LEAST_MS",
    "Box",
    "BoxLaw",
    "Children",
    "Cover",
    "Space",
    "Start",
    "draw",
]
