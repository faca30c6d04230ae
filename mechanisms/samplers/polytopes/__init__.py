"""Exact draws from a law on a public grid, by adaptive rejection on polytopes.

A :class:`PolytopeCover` keeps one grid point with probability exactly proportional to
``exp(-E(theta))``, where the law bounds E below on polytopes and says where to cut them
(:class:`~mechanisms.samplers.polytopes.law.PolytopeLaw`). It is for laws that lie along the
hyperplanes of rows, or in a thin layer; :mod:`mechanisms.samplers.boxes` is for the others.

May enter: what the engine itself needs; laws live in ``objectives``. May import: ``envelopes``,
``exact`` and ``randomness``.
"""

from mechanisms.samplers.polytopes.law import FLAT_NATS, Part, PolytopeLaw, View
from mechanisms.samplers.polytopes.polytope import Cut, Polytope, Stack
from mechanisms.samplers.polytopes.rejection import PolytopeCover

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
