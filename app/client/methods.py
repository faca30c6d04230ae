"""A method of a data set for each kind of statistic. Generated: do not edit.

``python -m app.services.generated`` writes this file from the classes of the statistics.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Unpack

from app.client.models import Release
from app.client.questions import (
    Amount,
    LinearFit,
    LogisticFit,
    Options,
    QuantileFit,
    Ranked,
    Selected,
    Selecting,
    Summed,
)
from app.client.releasing import Call, Steps


class CountKeywords(Selecting, Options, total=False):
    """Keywords of ``count``."""

    weights: object


class HistogramKeywords(Selecting, Options, total=False):
    """Keywords of ``histogram``."""

    edges: object
    outside: object
    weights: object
    ranges: object


class TablesKeywords(Selecting, Options, total=False):
    """Keywords of ``tables``."""

    edges: object
    margins: object
    raw: object
    select: object
    select_share: object
    weights: object
    hierarchy: object
    known: object


class CovarianceKeywords(Selecting, Options, total=False):
    """Keywords of ``covariance``."""

    weights: object


class CorrelationKeywords(Selecting, Options, total=False):
    """Keywords of ``correlation``."""

    weights: object


class MultinomialRegressionKeywords(Selecting, Options, total=False):
    """Keywords of ``multinomial_regression``."""

    target: object
    features: object
    reference: object
    intercept: object
    bound: object
    q: object
    weights: object


class PoissonRegressionKeywords(Selecting, Options, total=False):
    """Keywords of ``poisson_regression``."""

    target: object
    features: object
    intercept: object
    offset: object
    bound: object
    q: object
    weights: object


class CoxRegressionKeywords(Selecting, Options, total=False):
    """Keywords of ``cox_regression``."""

    time: object
    event: object
    edges: object
    features: object
    ceiling: object
    offset: object
    bound: object
    q: object
    weights: object


class KaplanMeierKeywords(Selecting, Options, total=False):
    """Keywords of ``kaplan_meier``."""

    time: object
    event: object
    edges: object
    weights: object


class RocKeywords(Selecting, Options, total=False):
    """Keywords of ``roc``."""

    score: object
    label: object
    edges: object
    weights: object


class SummaryKeywords(Selecting, Options, total=False):
    """Keywords of ``summary``."""

    show: object
    shares: object
    differences: object


class TestKeywords(Selecting, Options, total=False):
    """Keywords of ``test``."""

    test: object
    groups: object
    value: object
    bins: object


class PcaKeywords(Selecting, Options, total=False):
    """Keywords of ``pca``."""

    scaled: object
    components: object
    scores: object


class Methods:
    """A method for each kind; ``_asked`` sends the question."""

    __slots__ = ()

    @Call
    def count(self, /, *, epsilon: Amount, **fields: Unpack[CountKeywords]) -> Steps[Release]:
        """Release ``count``.

        How many records there are, or meet every condition of ``where``.
        """
        return (yield from self._asked("count", epsilon, fields))

    @Call
    def histogram(
        self, /, *columns: str, epsilon: Amount, **fields: Unpack[HistogramKeywords]
    ) -> Steps[Release]:
        """Release ``histogram``.

        Counts per cell, the product of the columns' cells in declared order.
        """
        return (yield from self._asked("histogram", epsilon, fields, columns=columns))

    @Call
    def tables(
        self, /, *columns: str, epsilon: Amount, **fields: Unpack[TablesKeywords]
    ) -> Steps[Release]:
        """Release ``tables``.

        Many tables of counts that agree with one another, in one draw.
        """
        return (yield from self._asked("tables", epsilon, fields, columns=columns))

    @Call
    def sum(self, /, *columns: str, epsilon: Amount, **fields: Unpack[Summed]) -> Steps[Release]:
        """Release ``sum``.

        Sums of number or boolean columns, over the records that meet ``where``.
        """
        return (yield from self._asked("sum", epsilon, fields, columns=columns))

    @Call
    def mean(self, /, *columns: str, epsilon: Amount, **fields: Unpack[Summed]) -> Steps[Release]:
        """Release ``mean``.

        Means of number or boolean columns.
        """
        return (yield from self._asked("mean", epsilon, fields, columns=columns))

    @Call
    def variance(
        self, /, *columns: str, epsilon: Amount, **fields: Unpack[Summed]
    ) -> Steps[Release]:
        """Release ``variance``.

        Variances (divisor n) of number or boolean columns.
        """
        return (yield from self._asked("variance", epsilon, fields, columns=columns))

    @Call
    def std(self, /, *columns: str, epsilon: Amount, **fields: Unpack[Summed]) -> Steps[Release]:
        """Release ``std``.

        Standard deviations (divisor n) of number or boolean columns.
        """
        return (yield from self._asked("std", epsilon, fields, columns=columns))

    @Call
    def moments(
        self, /, *columns: str, epsilon: Amount, **fields: Unpack[Selected]
    ) -> Steps[Release]:
        """Release ``moments``.

        Means of number or boolean columns, and of all their products.
        """
        return (yield from self._asked("moments", epsilon, fields, columns=columns))

    @Call
    def covariance(
        self, /, *columns: str, epsilon: Amount, **fields: Unpack[CovarianceKeywords]
    ) -> Steps[Release]:
        """Release ``covariance``.

        Covariance matrix (divisor n) of number or boolean columns.
        """
        return (yield from self._asked("covariance", epsilon, fields, columns=columns))

    @Call
    def correlation(
        self, /, *columns: str, epsilon: Amount, **fields: Unpack[CorrelationKeywords]
    ) -> Steps[Release]:
        """Release ``correlation``.

        Pearson correlation matrix of number or boolean columns.
        """
        return (yield from self._asked("correlation", epsilon, fields, columns=columns))

    @Call
    def quantile(
        self,
        /,
        column: str,
        levels: Sequence[float | str] | float,
        *,
        epsilon: Amount,
        **fields: Unpack[Ranked],
    ) -> Steps[Release]:
        """Release ``quantile``.

        Quantiles of a number or boolean column at the given levels.
        """
        return (yield from self._asked("quantile", epsilon, fields, column=column, levels=levels))

    @Call
    def interquartile_range(
        self, /, column: str, *, epsilon: Amount, **fields: Unpack[Ranked]
    ) -> Steps[Release]:
        """Release ``interquartile_range``.

        Difference of the quartiles of a number or boolean column.
        """
        return (yield from self._asked("interquartile_range", epsilon, fields, column=column))

    @Call
    def linear_regression(
        self, /, formula: str | None = None, *, epsilon: Amount, **fields: Unpack[LinearFit]
    ) -> Steps[Release]:
        """Release ``linear_regression``.

        Coefficients (target units per unit of a column) of a linear regression.
        """
        return (yield from self._asked("linear_regression", epsilon, fields, formula=formula))

    @Call
    def logistic_regression(
        self, /, formula: str | None = None, *, epsilon: Amount, **fields: Unpack[LogisticFit]
    ) -> Steps[Release]:
        """Release ``logistic_regression``.

        Coefficients (log-odds per unit of a column) of a 0/1 target on features.
        """
        return (yield from self._asked("logistic_regression", epsilon, fields, formula=formula))

    @Call
    def quantile_regression(
        self, /, formula: str | None = None, *, epsilon: Amount, **fields: Unpack[QuantileFit]
    ) -> Steps[Release]:
        """Release ``quantile_regression``.

        Coefficients (target units per unit of a column) of a conditional quantile.
        """
        return (yield from self._asked("quantile_regression", epsilon, fields, formula=formula))

    @Call
    def multinomial_regression(
        self,
        /,
        formula: str | None = None,
        *,
        epsilon: Amount,
        **fields: Unpack[MultinomialRegressionKeywords],
    ) -> Steps[Release]:
        """Release ``multinomial_regression``.

        Coefficients (log-odds against a reference, per unit of a column) of a category.
        """
        return (yield from self._asked("multinomial_regression", epsilon, fields, formula=formula))

    @Call
    def poisson_regression(
        self,
        /,
        formula: str | None = None,
        *,
        epsilon: Amount,
        **fields: Unpack[PoissonRegressionKeywords],
    ) -> Steps[Release]:
        """Release ``poisson_regression``.

        Coefficients (of the log of the mean, per unit of a column) of a count on features.
        """
        return (yield from self._asked("poisson_regression", epsilon, fields, formula=formula))

    @Call
    def cox_regression(
        self,
        /,
        formula: str | None = None,
        *,
        epsilon: Amount,
        **fields: Unpack[CoxRegressionKeywords],
    ) -> Steps[Release]:
        """Release ``cox_regression``.

        Hazard ratios of a time to an event, with a baseline that is constant within intervals.
        """
        return (yield from self._asked("cox_regression", epsilon, fields, formula=formula))

    @Call
    def geometric_median(
        self, /, *columns: str, epsilon: Amount, **fields: Unpack[Selected]
    ) -> Steps[Release]:
        """Release ``geometric_median``.

        The point with the least mean distance to the records, in scaled columns.
        """
        return (yield from self._asked("geometric_median", epsilon, fields, columns=columns))

    @Call
    def kaplan_meier(
        self, /, *, epsilon: Amount, **fields: Unpack[KaplanMeierKeywords]
    ) -> Steps[Release]:
        """Release ``kaplan_meier``.

        Survival curves of a time and an event, with a band, the median, and the log-rank test.
        """
        return (yield from self._asked("kaplan_meier", epsilon, fields))

    @Call
    def roc(self, /, *, epsilon: Amount, **fields: Unpack[RocKeywords]) -> Steps[Release]:
        """Release ``roc``.

        The curve of true and false positives of a score, with bands, and the area below it.
        """
        return (yield from self._asked("roc", epsilon, fields))

    @Call
    def summary(
        self, /, *columns: str, epsilon: Amount, **fields: Unpack[SummaryKeywords]
    ) -> Steps[Release]:
        """Release ``summary``.

        Count, mean, standard deviation, quartiles and shares per group: a Table 1 in one release.
        """
        return (yield from self._asked("summary", epsilon, fields, columns=columns))

    @Call
    def test(
        self, /, *columns: str, epsilon: Amount, **fields: Unpack[TestKeywords]
    ) -> Steps[Release]:
        """Release ``test``.

        A test of a hypothesis: its statistic, p-value and interval, with the noise accounted for.
        """
        return (yield from self._asked("test", epsilon, fields, columns=columns))

    @Call
    def pca(
        self, /, *columns: str, epsilon: Amount, **fields: Unpack[PcaKeywords]
    ) -> Steps[Release]:
        """Release ``pca``.

        Principal components of number columns: explained shares, loadings and scores.
        """
        return (yield from self._asked("pca", epsilon, fields, columns=columns))

    def _asked(
        self, kind: str, epsilon: Amount, fields: Mapping[str, Any], **own: object
    ) -> Steps[Release]:
        raise NotImplementedError
