"""Discrete Gaussian noise, in accounts that have a delta: for statistics made of noisy sums.

:mod:`noise`: independent noise on an integer vector, its proof, the choice between it and the
K-norm mechanism, and linear regression from moments with it. Tables have theirs on residuals
(:mod:`mechanisms.margins.release`), ordered cells on blocks of them
(:mod:`mechanisms.margins.ranges`).

*Epsilon.* A request states epsilon, as for every mechanism. Here it sets the size of the noise: the
release costs the account ``rho = epsilon**2 / 2``, as an epsilon-DP draw does. It is rho-zCDP, and
not epsilon-DP. So accounts without a delta refuse it (:mod:`mechanisms.single`).

May enter: plans whose noise is Gaussian, and the choice between them and others at the same charge.
May import: the functional and the K-norm mechanism, :mod:`mechanisms.margins`, and all below them.
"""

from __future__ import annotations

from collections.abc import Mapping

from mechanisms.contract import Calibrate, Plan, Statistic
from mechanisms.domain import Schema
from mechanisms.gaussian.noise import (
    THEOREM,
    additive_noise,
    best_form,
    plan_form,
    plan_regression,
)
from mechanisms.knorm import Additive
from mechanisms.margins import ranges, release
from mechanisms.privacy import PrivacyLoss
from mechanisms.statistics.histogram import RangeCounts
from mechanisms.statistics.linear_regression import LinearRegression

__all__ = ["THEOREM", "additive_noise", "calibrate", "calibrate_best"]


def _otherwise(in_order: Calibrate, of_margins: Calibrate) -> Calibrate:
    """Return what plans statistics without a form: ordered cells, tables, regressions."""

    table: Mapping[type, Calibrate] = {
        LinearRegression: plan_regression, RangeCounts: in_order,
    }  # fmt: skip

    def calibrate(statistic: Statistic, schema: Schema, epsilon: PrivacyLoss, norm: str, /) -> Plan:
        planned = table.get(type(statistic), of_margins)
        return planned(statistic, schema, epsilon, norm)

    return calibrate


calibrate = Additive(
    "gaussian",
    plan_form,
    otherwise=_otherwise(ranges.calibrate_gaussian, release.calibrate_gaussian),
)
calibrate_best = Additive(
    "k_norm", best_form, otherwise=_otherwise(ranges.calibrate_best, release.calibrate_best)
)
