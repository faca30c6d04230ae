"""Sums of losses over private records: loss, gradient, Hessian, bounds, sensitivity.

For minimisers (:mod:`mechanisms.samplers.minimiser`): :mod:`quadratic`, and the logistic and the
smoothed check loss, both built on :mod:`sigmoid`; their public constants are in :mod:`losses`. As
laws of the box engine (:mod:`mechanisms.samplers.boxes`): :mod:`check_loss`,
:mod:`geometric_median` and :mod:`points`. For linear regression by KNG: :mod:`quadratic`.

May enter: a loss, what is proved of it, and what a sampler asks of it. Records come as arrays or
sums in scaled units: nothing here knows a statistic, a schema or a plan. May import: ``samplers``,
``exact`` and the public domain.
"""
