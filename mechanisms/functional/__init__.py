"""The functional mechanism: linear regression from sanitized moments (SS section 6).

    release T(X) + V,   T = unique non-constant entries of X'X and X'y,   V by the K-norm mechanism

and compute the coefficients from it (:mod:`mechanisms.functional.sanitized`). SS: Awan &
Slavkovic, *Structure and Sensitivity in Differential Privacy*.
:mod:`mechanisms.functional.moments` says what T is, and how far a record moves it.

**Privacy.** One argument for all of it. T is an exact integer vector, and neighbours' vectors
differ by u with ||u||_K <= Delta_K. V has the law exp(-(epsilon / Delta_K) ||v||_K), or
its ceiling on the integers (:mod:`mechanisms.samplers.knorm`), so by the triangle inequality the
probability of any point changes by at most exp(epsilon): Proposition 2.10. Coefficients,
interval and all later derivations are functions of T(X) + V and of public numbers:
post-processing (Proposition 2.11) costs nothing. Nothing else of the data is read: no row
count under add-remove, no residual, no condition number of X'X. Pure epsilon-DP, either adjacency.

May enter: one module per statistic, and its line in the table. May import: the K-norm mechanism,
which draws V, and all below it.
"""

from __future__ import annotations

from mechanisms.contract import by_statistic
from mechanisms.functional.linear import THEOREM, calibrate_linear
from mechanisms.statistics.linear_regression import LinearRegression

__all__ = ["THEOREM", "calibrate"]

calibrate = by_statistic("functional", {LinearRegression: calibrate_linear})
