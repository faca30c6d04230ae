"""Exact draws from one family of laws each, and certified minimisers.

On integers: :mod:`knorm` with the discrete Gaussian, :mod:`geometric`, :mod:`intervals` with
permute-and-flip, :mod:`joint_quantiles`. Continuous, rounded once:
:mod:`affine`, :mod:`gaussian_ball`, :mod:`minimiser` with the protocol of its objective and its
feasible sets (:mod:`regions`), :mod:`bodies`. On boxes of a grid: :mod:`boxes`.

May enter: a law, an exact way to draw from it, and the proof that it is exact. A sampler takes
a rate, never epsilon or a sensitivity. May import: ``exact`` and ``randomness``.
"""
