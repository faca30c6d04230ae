"""Exact draws from exp(-k ||A theta - b||_inf / (1 + ||theta||_1)) on an l1 ball.

:mod:`posterior` states the law. The envelopes are in :mod:`cube` (cubes and cross-polytopes, and
how a try is accepted), :mod:`radial` (one coefficient too), :mod:`base_measure`, and :mod:`vertex`
with :mod:`path`; :mod:`search` selects one.

May enter: another envelope of the same law, with its proof. May import: ``exact``, ``randomness``,
and the other samplers.
"""

from mechanisms.samplers.affine.posterior import AffinePosterior
from mechanisms.samplers.affine.search import cheapest_route, draw, routes

__all__ = ["AffinePosterior", "cheapest_route", "draw", "routes"]
