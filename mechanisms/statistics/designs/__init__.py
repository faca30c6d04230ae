"""The scaled designs of regressions: from columns to |x_ij| <= 1, |y_i| <= 1, and back.

:mod:`scaling` holds the public maps, :mod:`rows` applies them to private rows, :mod:`grids` says
how finely coefficients are released, :mod:`limits` how many there may be, :mod:`boxes` what
regressions drawn on boxes have in common.

May enter: what several regressions share. May import: the contract, the public domain, and what
objectives take as data; no statistic.
"""
