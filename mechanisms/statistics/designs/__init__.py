"""The scaled designs of regressions: from columns to |x_ij| <= 1, |y_i| <= 1, and back.

:mod:`scaling` holds the public maps, and :mod:`rows` applies them to private rows. :mod:`boxes`
defines the resolution of coefficients, their largest number, and the common parts of regressions
drawn on boxes.

May enter: code that several regressions share. May import: the contract, the public domain, and
the data types of objectives; no statistic.
"""
