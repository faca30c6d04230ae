"""Measures of a way to answer, and the comparison of two ways."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

MOST_ERROR, REGRESSION_GAIN, MOST_TIME = 1.05, 3.0, 1.5
"""Targets, relative to a peer: largest error, reduction of a regression's error, largest time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """Errors of a number of draws, and the time of one in milliseconds."""

    replicate_count: int
    error_mean: float
    error_median: float
    error_se: float
    ms: float


def summary(errors: Sequence[float], spent_ms: Sequence[float]) -> Summary:
    """Return a summary of draws; the first one's time does not count, because it includes loading.

    >>> summary([1.0, 3.0], [9.0, 1.0]).error_mean
    2.0
    """
    return Summary(
        replicate_count=len(errors),
        error_mean=statistics.fmean(errors),
        error_median=statistics.median(errors),
        error_se=statistics.stdev(errors) / math.sqrt(len(errors)),
        ms=statistics.median(spent_ms[1:]),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratio:
    """A ratio of two means, and its standard error."""

    value: float
    se: float


class Measured(Protocol):
    """Whatever has errors."""

    @property
    def error_mean(self) -> float: ...

    @property
    def error_se(self) -> float: ...


def ratio(ours: Measured, theirs: Measured) -> Ratio:
    """Return our mean error over theirs, to first order in the standard errors.

    >>> one = Summary(replicate_count=4, error_mean=2.0, error_median=2.0, error_se=0.0, ms=1.0)
    >>> ratio(one, one)
    Ratio(value=1.0, se=0.0)
    """
    value = ours.error_mean / theirs.error_mean
    spread = math.hypot(ours.error_se / ours.error_mean, theirs.error_se / theirs.error_mean)
    return Ratio(value=value, se=value * spread)


def distance(values: Sequence[float], truth: Sequence[float]) -> float:
    """Return the Euclidean distance of an answer from the one without privacy."""
    return math.dist(values, truth)


def proved_epsilon(stated: float, *, norm: float, rows: int, C: float = 1.0) -> float:
    """Return the epsilon that can be proved of diffprivlib's logistic regression.

    Its noise density falls by exp(-epsilon_p ||b||_2 / (2 R)), and a row of length R moves the
    gradient by at most 2 R: epsilon_p. A row's Hessian has one eigenvalue of at most R^2 / 4, and
    the ridge is 1 / (C n) and what the mechanism adds. Of two neighbours' determinants one row's
    term is in one only: log(1 + R^2 / (4 ridge)). The mechanism counts R where R^2 is due.

    >>> round(proved_epsilon(1.0, norm=12.0, rows=100), 2)
    1.98
    """
    alpha, reach = 1 / (C * rows), norm / 4
    share = stated - 2 * math.log(1 + reach / (0.5 * alpha))
    ridge = alpha
    if share <= 0:
        share = stated / 2
        ridge += reach / math.expm1(stated / 4) - 0.5 * alpha
    return share + math.log1p(norm**2 / 4 / ridge)


def stated_for(wanted: float, *, norm: float, rows: int, C: float = 1.0) -> float:
    """Return the largest epsilon to state, in thousandths, so that ``wanted`` can be proved.

    What is proved does not grow with what is stated: it falls where the mechanism stops adding to
    the ridge. So all are tried.

    >>> stated_for(1.0, norm=1.0, rows=100), stated_for(1.0, norm=12.0, rows=100)
    (1.336, 0.391)
    """
    tried = (step / 1000 for step in range(math.ceil(4000 * wanted), 0, -1))
    return next(each for each in tried if proved_epsilon(each, norm=norm, rows=rows, C=C) <= wanted)
