"""Exact draws from exp(-k ||A theta - b||_inf / (1 + ||theta||_1)) on an l1 ball.

:mod:`posterior` states the law, :mod:`tries` how a try is decided, one module
per envelope how it is proposed (:mod:`cube`, :mod:`cross_polytope`,
:mod:`radial`, :mod:`vertex` with :mod:`path` and :mod:`search`), and :mod:`draw` which is used.
"""

from mechanisms.samplers.affine.draw import cheapest_route, draw, routes
from mechanisms.samplers.affine.posterior import AffinePosterior

__all__ = ["AffinePosterior", "cheapest_route", "draw", "routes"]
