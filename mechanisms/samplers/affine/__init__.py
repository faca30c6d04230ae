"""Exact draws from exp(-k ||A theta - b||_inf / (1 + ||theta||_1)) on an l1 ball.

:mod:`posterior` states the law, and :mod:`tries` how a try is accepted. There is one
module per envelope (:mod:`cube`, :mod:`cross_polytope`,
:mod:`radial`, :mod:`base_measure`, and :mod:`vertex` with :mod:`cone`, :mod:`path`, :mod:`search`,
:mod:`two_sided`; :mod:`line` for one
coefficient), and :mod:`choice` selects one.

May enter: another envelope of the same law, with its proof. May import: ``exact``, ``randomness``,
and the other samplers.
"""

from mechanisms.samplers.affine.posterior import AffinePosterior
from mechanisms.samplers.affine.search import cheapest_route, draw, routes

__all__ = ["AffinePosterior", "cheapest_route", "draw", "routes"]
