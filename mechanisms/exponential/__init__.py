"""The exponential mechanism (McSherry & Talwar 2007; Reimherr & Awan 2019, Prop. 2.2).

    f(theta) proportional to exp(-epsilon / (2 Delta) * l_n(theta; D)),

with respect to a base measure that does not depend on the data, Delta being the
largest change of l_n between neighbours: the baseline of KNG, on the same
targets. One module per statistic that it draws, exactly; it has no norm to choose.

May enter: one module per statistic, and its line in the table. May import: the statistics and all
below them; no other mechanism.
"""

from __future__ import annotations

from mechanisms.contract import by_statistic
from mechanisms.exponential.linear import calibrate_linear
from mechanisms.exponential.quantile import calibrate_quantile
from mechanisms.exponential.quantile_regression import calibrate_quantile_regression
from mechanisms.privacy import EXPONENTIAL_THEOREM as THEOREM
from mechanisms.statistics.linear_regression import LinearRegression
from mechanisms.statistics.quantile import Quantile
from mechanisms.statistics.quantile_regression import QuantileRegression

__all__ = ["THEOREM", "calibrate"]

calibrate = by_statistic(
    "exponential",
    {
        Quantile: calibrate_quantile,
        LinearRegression: calibrate_linear,
        QuantileRegression: calibrate_quantile_regression,
    },
)
