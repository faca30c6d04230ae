"""Exact draws from a law on a public grid, by adaptive rejection on polytopes.

A :class:`PolytopeCover` keeps one grid point with probability exactly proportional to
``exp(-E(theta))``, where the law bounds E below on polytopes and says where to cut them
(:class:`~mechanisms.samplers.polytopes.polytope.PolytopeLaw`). It is for laws that lie along the
hyperplanes of rows, or in a thin layer; :mod:`mechanisms.samplers.boxes` is for the others.

May enter: what the engine itself needs; laws live in ``objectives``. May import: ``envelopes``,
``exact`` and ``randomness``.
"""

from mechanisms.samplers.polytopes.polytope import (
    FLAT_NATS,
    Cut,
    Part,
    Polytope,
    PolytopeCover,
    PolytopeLaw,
    Stack,
    View,
)

__all__ = [
    "FLAT_NATS",
    "Cut",
    "Part",
    "Polytope",
    "PolytopeCover",
    "PolytopeLaw",
    "Stack",
    "View",
]
