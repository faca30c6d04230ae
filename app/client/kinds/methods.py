"""A method of a data set for each kind of statistic. Generated: do not edit.

``python -m app.services.generated`` writes this file from the classes of the statistics.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Unpack

from app.client.models import Release
from app.client.questions import (
    Amount,
    Binned,
    LinearFit,
    LogisticFit,
    QuantileFit,
    Selected,
    Summed,
)
from app.client.steps import Call, Steps


class Methods:
    """A method for each kind; ``_asked`` sends the question."""

    __slots__ = ()

    @Call
    def count(self, /, *, epsilon: Amount, **fields: Unpack[Selected]) -> Steps[Release]:
        """Release ``count``.

        How many records there are, or meet every condition of ``where``.
        """
        return (yield from self._asked("count", epsilon, fields))

    @Call
    def histogram(
        self, /, *columns: str, epsilon: Amount, **fields: Unpack[Binned]
    ) -> Steps[Release]:
        """Release ``histogram``.

        Counts per cell, the product of the columns' cells in declared order.
        """
        return (yield from self._asked("histogram", epsilon, fields, columns=columns))

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
        self, /, *columns: str, epsilon: Amount, **fields: Unpack[Selected]
    ) -> Steps[Release]:
        """Release ``variance``.

        Variances (divisor n) of number or boolean columns.
        """
        return (yield from self._asked("variance", epsilon, fields, columns=columns))

    @Call
    def std(self, /, *columns: str, epsilon: Amount, **fields: Unpack[Selected]) -> Steps[Release]:
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
        self, /, *columns: str, epsilon: Amount, **fields: Unpack[Selected]
    ) -> Steps[Release]:
        """Release ``covariance``.

        Covariance matrix (divisor n) of number or boolean columns.
        """
        return (yield from self._asked("covariance", epsilon, fields, columns=columns))

    @Call
    def correlation(
        self, /, *columns: str, epsilon: Amount, **fields: Unpack[Selected]
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
        **fields: Unpack[Selected],
    ) -> Steps[Release]:
        """Release ``quantile``.

        Quantiles of a number or boolean column at the given levels.
        """
        return (yield from self._asked("quantile", epsilon, fields, column=column, levels=levels))

    @Call
    def interquartile_range(
        self, /, column: str, *, epsilon: Amount, **fields: Unpack[Selected]
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
    def geometric_median(
        self, /, *columns: str, epsilon: Amount, **fields: Unpack[Selected]
    ) -> Steps[Release]:
        """Release ``geometric_median``.

        The point with the least mean distance to the records, in scaled columns.
        """
        return (yield from self._asked("geometric_median", epsilon, fields, columns=columns))

    def _asked(
        self, kind: str, epsilon: Amount, fields: Mapping[str, Any], **own: object
    ) -> Steps[Release]:
        raise NotImplementedError
