"""Extended objective perturbation (Awan & Slavkovic, Algorithm 2, Theorem 5.1), exact.

    theta = argmin over Theta of  sum_i l(theta; record i) + gamma/2 ||theta||^2 + V'theta
    V ~ exp(-(epsilon q / Delta) ||V||_K),   gamma = lambda / (exp(epsilon (1 - q)) - 1)

Delta bounds the K-norm of the difference of two records' gradients (of one
record's under add-remove) at any theta in Theta; lambda bounds the only
eigenvalue of a record's Hessian. Theta is R^d or the l1 ball of radius B.

**Errors in print.** Algorithm 2 has exp(epsilon (q - 1)) - 1, which is negative.

**What is exact.** V is drawn as lazy reals (:mod:`mechanisms.samplers.continuous`),
the objective is defined by integer codes, and the minimiser is rounded to a
public grid only where a certificate says which point is right
(:mod:`mechanisms.samplers.minimiser`). gamma is an exact rational, rounded up,
and never below 2**-20: more ridge is still private, and with less neither the
certificate nor an answer on separable data would stay finite in practice.

**Why a constraint costs nothing.** Let Pi be the projection onto Theta and put
``z = theta - grad L(theta) - gamma theta - V``; then theta = Pi(z), so releasing
theta is post-processing of z. As a function of z, V = Pi(z) - z - (grad L + gamma)(Pi(z)),
a Lipschitz bijection of R^d with ``dV/dz = -M``, ``M = (H + gamma I) P + I - P``, where
H is the Hessian of the sum at theta and P the derivative of Pi, which exists
almost everywhere and is symmetric with 0 <= P <= I. For neighbours, V differs by the
difference of two gradients at the same theta: the tilt's densities are within
exp(epsilon q). Let M_0 be M for the records in common; a record with Hessian
w x x' makes it M_0 + w x x'P, whose determinant is ``det(M_0) (1 + w x'P M_0^-1 x)``.
For invertible P, ``P M_0^-1 = (C + gamma I + P^-1 - I)^-1`` with C >= 0, and P^-1 >= I, so
``0 <= gamma x'P M_0^-1 x <= ||x||^2``; a singular P is a limit of such. With
w ||x||^2 <= lambda the determinants are within 1 + lambda/gamma <= exp(epsilon (1 - q)),
as without the constraint.

**Privacy.** epsilon-DP, pure, for either adjacency; under add-remove no constant
depends on the row count.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import cast

from flint import arb, fmpq

from mechanisms.domain import Schema
from mechanisms.objectives.local import Objective, above
from mechanisms.objectives.logistic import LogisticObjective
from mechanisms.objectives.losses import Loss, logistic_loss, squared_loss
from mechanisms.objectives.quadratic import LeastSquaresObjective
from mechanisms.privacy import Adjacency, Guarantee, PrivacyLoss
from mechanisms.randomness import Randomness
from mechanisms.samplers.continuous import BallNorm, knorm_vector
from mechanisms.samplers.minimiser import Problem, certified_minimiser, dyadic_step
from mechanisms.samplers.rounding import working_precision
from mechanisms.statistics.base import (
    Alternative,
    Data,
    InvalidStatisticError,
    Noise,
    Outcome,
    Plan,
    Statistic,
)
from mechanisms.statistics.linear_regression import LinearRegression
from mechanisms.statistics.logistic_regression import LogisticRegression, design, signed_rows
from mechanisms.statistics.regression import RegressionScaling

THEOREM = "Awan & Slavkovic 2021, Theorem 5.1 (extended objective perturbation)"
NORMS: tuple[BallNorm, ...] = ("linf", "l2", "l1")

SMALLEST_RIDGE = Fraction(1, 2**20)

_CACHED_BYTES = 1 << 29
_FINEST_STEP, _COARSEST_STEP = -32, -16
_FINER_THAN_NOISE = 10  # bits


def ridge(epsilon: Fraction, q: Fraction, eigenvalue: Fraction) -> Fraction:
    """Return gamma: lambda / (exp(epsilon (1 - q)) - 1) rounded up, at least 2**-20."""
    with working_precision(128):
        exponent = epsilon * (1 - q)
        growth = arb(fmpq(exponent.numerator, exponent.denominator)).expm1()
        exact = arb(fmpq(eigenvalue.numerator, eigenvalue.denominator)) / growth
        return max(above(exact), SMALLEST_RIDGE)


def automatic_q(epsilon: Fraction, loss: Loss, norm: BallNorm, rows: int | None) -> Fraction:
    """Return the public choice of q: it balances tilt and ridge for typical slopes.

    The minimiser is off by about ``(n h + gamma)^-1 (gamma theta + V)`` with n h
    the curvature of the data. q = k / 200 minimises

        (d sd(V_j)^2 + gamma^2 T^2) / (n h + gamma)^2,

    T the typical slope norm and h = lambda / (4 d); under add-remove, where
    ``rows`` is None, the denominator is left out. Only public numbers enter.

    Mean l2 error of the logistic coefficients, 60 random slopes of norm 2,
    columns uniform on [-1, 1], l-infinity tilt (the rule's q in brackets):

    ======  ===  ====  ======  ======  ======  ======  =============
    n       d    eps   q=.5    q=.75   q=.85   q=.95   auto
    ======  ===  ====  ======  ======  ======  ======  =============
    1e3     7    0.25  4.571   1.734   1.389   1.473   1.346 (.895)
    1e3     7    1     0.966   0.645   0.609   0.841   0.609 (.83)
    1e4     3    0.25  0.140   0.115   0.126   0.238   0.116 (.775)
    1e4     7    0.25  0.347   0.264   0.278   0.477   0.264 (.805)
    1e4     7    1     0.138   0.123   0.124   0.174   0.122 (.8)
    1e4     15   1     0.277   0.219   0.217   0.320   0.216 (.835)
    1e4     15   4     0.163   0.156   0.155   0.164   0.155 (.84)
    ======  ===  ====  ======  ======  ======  ======  =============
    """

    def error(q: float) -> float:
        budget = float(epsilon) * (1 - q)
        gamma = float(loss.eigenvalue) / math.expm1(min(budget, 700.0))
        gamma = max(gamma, float(SMALLEST_RIDGE))
        spread = loss.dimension * loss.tilt_std(norm, float(epsilon) * q) ** 2
        total = spread + (gamma * loss.slope_norm) ** 2
        if rows is None:
            return total
        return total / (rows * float(loss.eigenvalue) / (4 * loss.dimension) + gamma) ** 2

    return min((Fraction(k, 200) for k in range(1, 200)), key=lambda q: error(float(q)))


def calibrate(statistic: Statistic, schema: Schema, epsilon: PrivacyLoss, norm: str) -> Plan:
    """Return the plan of a release by objective perturbation.

    Parameters
    ----------
    statistic : LogisticRegression or LinearRegression
        The question.
    norm : {"auto", "linf", "l2", "l1"}
        The norm of the tilt; auto is linf, whose coordinates vary least.

    Raises
    ------
    InvalidStatisticError
        The statistic does not fit the schema, or is not offered here.

    Notes
    -----
    **Privacy.** Theorem 5.1; Delta and lambda as :class:`Loss` derives them.
    """
    statistic.check(schema)
    if norm not in ("auto", *NORMS):
        raise InvalidStatisticError(
            "objective_perturbation offers the norms linf, l2, l1", field_name="norm"
        )
    chosen = cast(BallNorm, "linf" if norm == "auto" else norm)
    if isinstance(statistic, LogisticRegression):
        return _plan(_logistic(statistic, schema, epsilon, chosen), schema, epsilon)
    if isinstance(statistic, LinearRegression):
        return _plan(_linear(statistic, schema, epsilon, chosen), schema, epsilon)
    raise InvalidStatisticError(
        "objective_perturbation releases logistic_regression and linear_regression",
        field_name="mechanism",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectivePerturbation:
    """A calibrated draw; every field is public."""

    statistic: LogisticRegression | LinearRegression
    schema: Schema
    scaling: RegressionScaling
    loss: Loss
    norm: BallNorm
    epsilon: Fraction
    q: Fraction
    ridge: Fraction
    bound: Fraction | None
    step_exponent: int

    def __call__(self, data: Data, randomness: Randomness) -> Outcome:
        """Draw one answer, in the columns' units."""
        step = Fraction(2) ** self.step_exponent
        theta = [step * index for index in self.indices(self._objective(data), randomness)]
        coefficients = self.scaling.unscale(theta)
        return Outcome(
            value={"coefficients": {name: float(x) for name, x in coefficients.items()}},
            noise=None,
        )

    def indices(self, objective: Objective, randomness: Randomness) -> tuple[int, ...]:
        """Return theta on the public grid, as integers."""
        rate_squared = (self.epsilon * self.q) ** 2 / self.loss.sensitivity_squared(self.norm)
        tilt = knorm_vector(
            norm=self.norm,
            dimension=self.loss.dimension,
            rate_squared=rate_squared,
            randomness=randomness,
        )
        return certified_minimiser(
            Problem(objective, self.ridge, tilt, self.bound, self.step_exponent)
        )

    def _objective(self, data: Data) -> Objective:
        if isinstance(self.statistic, LinearRegression):
            normal = self.scaling.normal_equations(data.gram(self.scaling.columns))
            return LeastSquaresObjective(normal.xx, normal.xy)
        return logistic_objective(self.statistic, self.schema, data)


def logistic_objective(
    statistic: LogisticRegression, schema: Schema, data: Data
) -> LogisticObjective:
    """Return the logistic loss of private rows.

    The rows are kept in memory between passes when the *public* row count (or
    its bound) allows it, and read again for each pass otherwise.
    """
    mapping = design(statistic.scaling(schema))
    if schema.row_bound * (len(mapping.slopes) + 1) * 8 <= _CACHED_BYTES:
        chunks = list(signed_rows(statistic, schema, data))
        return LogisticObjective(lambda: chunks, mapping)
    return LogisticObjective(lambda: signed_rows(statistic, schema, data), mapping)


def _logistic(
    statistic: LogisticRegression, schema: Schema, epsilon: PrivacyLoss, norm: BallNorm
) -> ObjectivePerturbation:
    scaling = statistic.scaling(schema)
    loss = logistic_loss(scaling.dimension, schema.adjacency)
    wanted = None if statistic.q == "auto" else Fraction(repr(statistic.q))
    bound = None if statistic.bound is None else Fraction(repr(float(statistic.bound)))
    return _calibrated(
        statistic,
        schema,
        epsilon,
        scaling=scaling,
        loss=loss,
        norm=norm,
        wanted=wanted,
        bound=bound,
    )


def _linear(
    statistic: LinearRegression, schema: Schema, epsilon: PrivacyLoss, norm: BallNorm
) -> ObjectivePerturbation:
    if statistic.ridge is not None:
        raise InvalidStatisticError(
            "objective_perturbation sets its own ridge; leave it out", field_name="ridge"
        )
    scaling, bound = statistic.scaling(schema), statistic.exact_bound
    loss = squared_loss(scaling.dimension, bound, schema.adjacency)
    return _calibrated(
        statistic,
        schema,
        epsilon,
        scaling=scaling,
        loss=loss,
        norm=norm,
        wanted=None,
        bound=bound,
    )


def _calibrated(
    statistic: LogisticRegression | LinearRegression,
    schema: Schema,
    epsilon: PrivacyLoss,
    *,
    scaling: RegressionScaling,
    loss: Loss,
    norm: BallNorm,
    wanted: Fraction | None,
    bound: Fraction | None,
) -> ObjectivePerturbation:
    exact = epsilon.fraction
    rows = schema.rows if schema.adjacency is Adjacency.REPLACE_ONE else None
    q = automatic_q(exact, loss, norm, rows) if wanted is None else wanted
    gamma = ridge(exact, q, loss.eigenvalue)
    spread = loss.tilt_std(norm, float(exact * q))
    return ObjectivePerturbation(
        statistic=statistic,
        schema=schema,
        scaling=scaling,
        loss=loss,
        norm=norm,
        epsilon=exact,
        q=q,
        ridge=gamma,
        bound=bound,
        step_exponent=_step_exponent(spread, gamma, loss, schema.row_bound, bound),
    )


def _step_exponent(
    spread: float, gamma: Fraction, loss: Loss, rows: int, bound: Fraction | None
) -> int:
    """Return the grid's exponent: 2**10 times finer than the least noise theta can have.

    That noise is the tilt's over the largest curvature, rows lambda + gamma;
    between 2**-32 and 2**-16 in scaled units.
    """
    least = spread / (rows * float(loss.eigenvalue) + float(gamma))
    wanted = math.floor(math.log2(least)) - _FINER_THAN_NOISE
    return dyadic_step(min(max(wanted, _FINEST_STEP), _COARSEST_STEP), bound)


def _plan(draw: ObjectivePerturbation, schema: Schema, epsilon: PrivacyLoss) -> Plan:
    step = Fraction(2) ** draw.step_exponent
    unit_slopes = [Fraction(0)] * draw.loss.dimension
    steps: dict[str, float] = {}
    for index, name in enumerate(draw.scaling.names):
        single = [step if j == index else zero for j, zero in enumerate(unit_slopes)]
        steps[name] = float(draw.scaling.unscale(single)[name])
    return Plan(
        mechanism="objective_perturbation",
        norm=draw.norm,
        guarantee=Guarantee(
            epsilon=epsilon,
            adjacency=schema.adjacency,
            sensitivity=_sensitivity_text(draw.loss, draw.norm),
            sensitivity_unit=f"{draw.norm} norm of a change in the gradient, scaled columns",
            theorem=THEOREM,
        ),
        grid={"coefficients": steps, "scaled": float(step)},
        reason=_reason(draw.norm),
        draw=draw,
        preview=_no_noise,
        alternatives=_alternatives(draw),
        details={
            "noise": "Not stated: the tilt's law is known (tilt_std), but how far it moves the "
            "coefficients depends on the private curvature.",
            "q": float(draw.q),
            "gamma": float(draw.ridge),
            "lambda": float(draw.loss.eigenvalue),
            "bound": None if draw.bound is None else float(draw.bound),
            "sensitivity_is": "a certified upper bound",
            "tilt_std": draw.loss.tilt_std(draw.norm, float(draw.epsilon * draw.q)),
        },
    )


def _sensitivity_text(loss: Loss, norm: BallNorm) -> str:
    """Return Delta_K as exact text."""
    if norm == "l2":
        return f"{loss.largest_difference}*sqrt({loss.dimension})"
    return str(loss.largest_difference * (loss.dimension if norm == "l1" else 1))


def _reason(norm: BallNorm) -> str:
    if norm == "linf":
        return (
            "A gradient's entries can all change by Delta_inf at once, so the l-infinity ball "
            "fits the adjacent output space best (Awan & Slavkovic, Theorem 4.12, section 5.1)."
        )
    return "The norm was asked for; linf has the smaller noise in every coordinate."


def _alternatives(draw: ObjectivePerturbation) -> tuple[Alternative, ...]:
    budget = float(draw.epsilon * draw.q)
    here = draw.loss.tilt_std(draw.norm, budget)
    found: list[Alternative] = []
    for norm in NORMS:
        if norm != draw.norm:
            there = draw.loss.tilt_std(norm, budget)
            text = (
                f"standard deviation of the tilt per coordinate {there / here:.2f} times as large"
            )
            found.append(Alternative("objective_perturbation", norm, text, there))
    return tuple(found)


def _no_noise(assumed_rows: int | None) -> Noise | None:  # noqa: ARG001
    """Return None: the law of an argmin depends on the data."""
    return None
