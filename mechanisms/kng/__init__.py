"""The K-norm gradient mechanism (Reimherr & Awan 2019, Theorem 3.1).

    f(theta) ∝ exp(-epsilon / (2 Delta) * ||grad l_n(theta; D)||_K),

on a bounded convex set and with respect to any base measure that does not
depend on the data. This module dispatches on the statistic:
:mod:`mechanisms.kng.quantile` holds the quantile, :mod:`mechanisms.kng.linear` linear
regression; drawn on boxes are :mod:`mechanisms.kng.quantile_regression` (quantile regression),
:mod:`mechanisms.kng.geometric_median` and :mod:`mechanisms.kng.logistic`.
"""

from __future__ import annotations

from mechanisms.contract import InvalidStatisticError, Plan, Statistic
from mechanisms.domain import Schema
from mechanisms.kng.geometric_median import calibrate_geometric_median
from mechanisms.kng.linear import calibrate_linear
from mechanisms.kng.logistic import calibrate_logistic
from mechanisms.kng.quantile import calibrate_quantile
from mechanisms.kng.quantile_regression import calibrate_quantile_regression
from mechanisms.privacy import PrivacyLoss
from mechanisms.statistics.geometric_median import GeometricMedian
from mechanisms.statistics.linear_regression import LinearRegression
from mechanisms.statistics.logistic_regression import LogisticRegression
from mechanisms.statistics.quantile import Quantile
from mechanisms.statistics.quantile_regression import QuantileRegression

THEOREM = "Reimherr & Awan 2019 (KNG), Theorem 3.1"


def calibrate(statistic: Statistic, schema: Schema, epsilon: PrivacyLoss, norm: str) -> Plan:
    """Return the plan of a K-norm gradient release.

    Raises
    ------
    InvalidStatisticError
        The statistic does not fit the schema, or has no K-norm gradient release.
    """
    if isinstance(statistic, Quantile):
        return calibrate_quantile(statistic, schema, epsilon, norm)
    if isinstance(statistic, LinearRegression):
        return calibrate_linear(statistic, schema, epsilon, norm)
    if isinstance(statistic, LogisticRegression):
        return calibrate_logistic(statistic, schema, epsilon, norm)
    if isinstance(statistic, QuantileRegression):
        return calibrate_quantile_regression(statistic, schema, epsilon, norm)
    if isinstance(statistic, GeometricMedian):
        return calibrate_geometric_median(statistic, schema, epsilon, norm)
    raise InvalidStatisticError(
        "kng releases quantile, linear_regression, logistic_regression, quantile_regression and "
        "geometric_median",
        field_name="mechanism",
    )
