"""The K-norm gradient mechanism (Reimherr & Awan 2019, Theorem 3.1).

    f(theta) ∝ exp(-epsilon / (2 Delta) * ||grad l_n(theta; D)||_K),

on a bounded convex set and with respect to any base measure that does not
depend on the data. One module per statistic that it draws, exactly: quantiles on the
public grid (:mod:`quantile`), linear regression by rejection (:mod:`linear`), and on boxes
:mod:`quantile_regression` and :mod:`geometric_median`.

May enter: one module per statistic, and its line in the table. May import: the statistics and all
below them; no other mechanism.
"""

from __future__ import annotations

from mechanisms.contract import by_statistic
from mechanisms.kng.geometric_median import calibrate_geometric_median
from mechanisms.kng.linear import calibrate_linear
from mechanisms.kng.quantile import calibrate_quantile
from mechanisms.kng.quantile_regression import calibrate_quantile_regression
from mechanisms.privacy import KNG_THEOREM as THEOREM
from mechanisms.statistics.geometric_median import GeometricMedian
from mechanisms.statistics.linear_regression import LinearRegression
from mechanisms.statistics.quantile import Quantile
from mechanisms.statistics.quantile_regression import QuantileRegression

__all__ = ["THEOREM", "calibrate"]

calibrate = by_statistic(
    "kng",
    {
        Quantile: calibrate_quantile,
        LinearRegression: calibrate_linear,
        QuantileRegression: calibrate_quantile_regression,
        GeometricMedian: calibrate_geometric_median,
    },
)
