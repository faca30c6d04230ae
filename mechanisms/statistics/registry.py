"""All single statistics, by their kind.

Adding a statistic is one line here. A stack is not in this table, because it contains any of these;
:mod:`mechanisms.catalog` lists both.
"""

from __future__ import annotations

from mechanisms.contract import Statistic
from mechanisms.statistics.correlation import Correlation
from mechanisms.statistics.count import Count
from mechanisms.statistics.covariance import Covariance
from mechanisms.statistics.curves.kaplan_meier import KaplanMeier
from mechanisms.statistics.curves.roc import Roc
from mechanisms.statistics.designs.cox_regression import CoxRegression
from mechanisms.statistics.designs.multinomial_regression import MultinomialRegression
from mechanisms.statistics.designs.poisson_regression import PoissonRegression
from mechanisms.statistics.geometric_median import GeometricMedian
from mechanisms.statistics.histogram import Histogram
from mechanisms.statistics.interquartile_range import InterquartileRange
from mechanisms.statistics.linear_regression import LinearRegression
from mechanisms.statistics.logistic_regression import LogisticRegression
from mechanisms.statistics.mean import Mean
from mechanisms.statistics.moments import Moments
from mechanisms.statistics.quantile import Quantile
from mechanisms.statistics.quantile_regression import QuantileRegression
from mechanisms.statistics.std import Std
from mechanisms.statistics.tables import Tables
from mechanisms.statistics.total import Sum
from mechanisms.statistics.variance import Variance

SINGLE_STATISTICS: dict[str, type[Statistic]] = {
    "count": Count,
    "histogram": Histogram,
    "tables": Tables,
    "sum": Sum,
    "mean": Mean,
    "variance": Variance,
    "std": Std,
    "moments": Moments,
    "covariance": Covariance,
    "correlation": Correlation,
    "quantile": Quantile,
    "interquartile_range": InterquartileRange,
    "linear_regression": LinearRegression,
    "logistic_regression": LogisticRegression,
    "quantile_regression": QuantileRegression,
    "multinomial_regression": MultinomialRegression,
    "poisson_regression": PoissonRegression,
    "cox_regression": CoxRegression,
    "geometric_median": GeometricMedian,
    "kaplan_meier": KaplanMeier,
    "roc": Roc,
}
