"""The K-norm gradient of the logistic loss over private records, as laws of the engines.

    E(theta) = rate ||g(theta)|| / r(||theta||_1),   g(theta) = sum_i sigma(zeta_i'theta) zeta_i

:mod:`sensitivity` is r. On boxes: :mod:`boxes` is what its laws share, :mod:`held` the law of rows
in memory, :mod:`stored` that of rows read in :mod:`passes`. What is known of g near a place is
in :mod:`expansion`, that of near rows together in :mod:`cells`; :mod:`outside` bounds it far from
the minimiser, which :mod:`search` finds. On polytopes: :mod:`polytopes` for few distinct rows,
:mod:`layers` for many; :mod:`lines` bounds sigma, :mod:`models` the gradient, and :mod:`hulls` says
in which directions. :func:`polytopes.trials` has them take turns.

May enter: what bounds this gradient on boxes and polytopes. May import: their engines, ``exact``,
and the objectives beside it.
"""
