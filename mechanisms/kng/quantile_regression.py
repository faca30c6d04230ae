"""K-norm gradient releases drawn by the box engine: quantile regression, d <= 4.

    P(theta) ∝ exp(-eps / (2 Delta) N(theta; D)) (1 + ||theta||_1)^-p

on the points of a public grid with ||theta||_1 <= B (Reimherr & Awan 2019, Theorem 3.1 allows any
base measure that does not depend on the data), p by the number of coefficients alone
(:mod:`mechanisms.samplers.base_measure`), N the norm of the check loss's gradient
and, at kinks, of its smallest subgradient with one weight for all tied records
(:mod:`mechanisms.objectives.check_loss`).

**Error in print.** Section 4.5 has Delta = 2 (1 - tau) C_X. For tau above 1/2 that is too
small, and at tau = 0.9 the release is not private; right is 2 max(tau, 1 - tau) C_X.

**Privacy.** For neighbours D, D' and any theta, |N(theta; D) - N(theta; D')| <= Delta: for
every fixed weight lambda of the tied records the gradients differ by ``a x - a' x'`` (or
by ``a x``) with a, a' in [-tau, 1 - tau], whose norm is at most Delta
(:mod:`mechanisms.statistics.quantile_regression`), and N is the least over lambda. So the
unnormalised weights are within exp(eps / 2), their sums over the grid as well, and the law
is eps-DP. Records enter as integers: codes, or without an intercept their quotients by
the public extent, rounded to multiples of 2**-20 record by record, which keeps |x| <= 1.
The draw is exact (:mod:`mechanisms.samplers.boxes`, and where distinct rows are few
:mod:`mechanisms.samplers.polytopes`: a choice of cost only); only theta is released.

*Norms.* ``linf``: Delta = 2 M, M = max(tau, 1 - tau); M under add-remove. ``optimal``: the
hull of all differences. With an intercept a change is u = a (1, x) - a' (1, x'), so
|u_1| = |a - a'| <= 1 and |u_j| <= |a| + |a'| <= 2 M - (2 M - 1) |u_1| (equal signs: at most
2 M - |u_1|; opposite signs: |u_1|); the norm of that set has Delta = 1. Being inside the
cube its exponent is at least as steep everywhere (Awan & Slavkovic, Theorem 4.5). Without
an intercept, under add-remove or at tau = 1/2 the hull is the cube itself.

**Run time** depends on the data: a service that must hide it answers at public times. It
grows with rows and coefficients, in proportion to the rows at most where they are many. No number
of rows is refused: those that cannot be held are read in passes
(:class:`mechanisms.statistics.designs.boxes.RegressionRows`).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import partial

from mechanisms.contract import Data, Drawing, Outcome, Plan
from mechanisms.domain import Schema
from mechanisms.exact.fractions import decimal_text
from mechanisms.objectives.check_loss import GradientLaw
from mechanisms.objectives.design import GradientNorm, InterceptHullNorm, Linf
from mechanisms.objectives.losses import gradient_sensitivity, largest_weight
from mechanisms.privacy import KNG_THEOREM as THEOREM
from mechanisms.privacy import Adjacency, Guarantee, PrivacyLoss, bounded_range_rho
from mechanisms.randomness import Randomness
from mechanisms.samplers.base_measure import base_measure_text, base_power
from mechanisms.samplers.envelopes import first_kept
from mechanisms.statistics.designs.boxes import RegressionRows, grid_bits, require_dimension
from mechanisms.statistics.designs.rows import HELD_ROWS, require_held
from mechanisms.statistics.quantile_regression import QuantileRegression
from mechanisms.statistics.weights import weighing, weights_of


@weighing
def calibrate_quantile_regression(
    statistic: QuantileRegression, schema: Schema, epsilon: PrivacyLoss, norm: str
) -> Plan:
    """Return the plan of a quantile regression by the K-norm gradient mechanism, epsilon-DP.

    Raises
    ------
    InvalidStatisticError
        The statistic has more than 4 coefficients, or weighs too many rows.
    """
    scaling = statistic.scaling(schema)
    require_dimension(scaling.dimension)
    tau = statistic.exact_tau
    weight = largest_weight(tau)
    hull = (
        statistic.intercept
        # Only then is the hull smaller than the cube.
        and weight > Fraction(1, 2)
        and schema.adjacency is Adjacency.REPLACE_ONE
    )
    by_hull = hull and norm != "linf"
    delta = Fraction(1) if by_hull else gradient_sensitivity(tau, schema.adjacency)
    require_held(weights_of(statistic, schema), schema.row_bound, HELD_ROWS)
    parameters = NarrowParameters(
        by_hull=by_hull,
        rate=epsilon.fraction / (2 * delta),
        bound=statistic.exact_bound,
        bits=grid_bits(statistic.exact_bound, epsilon.fraction * schema.row_bound),
        epsilon=epsilon.fraction,
        power=base_power(scaling.dimension, flat=statistic.base_measure == "flat"),
    )
    return _plan(parameters, statistic, schema, epsilon, delta, asked=norm)


@dataclass(frozen=True, slots=True, kw_only=True)
class NarrowParameters:
    """The calibrated numbers of a draw: ``bits`` are the grid's, and p is the ``power``."""

    by_hull: bool
    rate: Fraction
    bound: Fraction
    bits: int
    epsilon: Fraction
    power: int

    def drawing(self, statistic: QuantileRegression, schema: Schema) -> Drawing:
        """Return how the regression is drawn."""
        return Drawing(draw=self.drawn(statistic, schema))

    def drawn(self, statistic: QuantileRegression, schema: Schema) -> QuantileRegressionDraw:
        """Return the draw of the regression."""
        scaling, tau = statistic.scaling(schema), statistic.exact_tau
        return QuantileRegressionDraw(
            tau=tau,
            norm=InterceptHullNorm(largest_weight(tau)) if self.by_hull else Linf(),
            rate=self.rate,
            rows=RegressionRows(
                scaling=scaling,
                bound=self.bound,
                bits=self.bits,
                most=schema.row_bound,
                epsilon=float(self.epsilon),
                weights=weights_of(statistic, schema),
                # in one dimension ties share one weight, which is the private quantile
                spread=scaling.dimension > 1,
                power=self.power,
            ),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class QuantileRegressionDraw:
    """Draws scaled coefficients exactly and returns them in column units."""

    tau: Fraction
    norm: GradientNorm
    rate: Fraction
    rows: RegressionRows

    def __call__(self, data: Data, randomness: Randomness) -> Outcome:
        """Return one release."""
        rate = self.rate / self.rows.parts
        make = partial(GradientLaw, tau=self.tau, rate=rate, norm=self.norm)
        point = first_kept(self.rows.trials(data, make, rate), randomness)
        return self.rows.scaling.released([index * self.rows.step for index in point])


def _plan(
    parameters: NarrowParameters,
    statistic: QuantileRegression,
    schema: Schema,
    epsilon: PrivacyLoss,
    delta: Fraction,
    *,
    asked: str,
) -> Plan:
    drawn, by_hull = parameters.drawn(statistic, schema), parameters.by_hull
    chosen = "optimal" if by_hull or asked == "optimal" else "linf"
    return Plan(
        mechanism="kng",
        norm=chosen,
        statistic=statistic,
        schema=schema,
        parameters=parameters,
        guarantee=Guarantee(
            epsilon=epsilon,
            adjacency=schema.adjacency,
            sensitivity=decimal_text(delta),
            sensitivity_unit=f"{chosen} norm of a change in the gradient, scaled columns",
            theorem=THEOREM,
            rho=bounded_range_rho(epsilon),
        ),
        grid=drawn.rows.scaling.grid(drawn.rows.step),
        reason=_REASONS[by_hull] + "; drawn exactly on boxes, no Markov chain.",
        expected_ms=drawn.rows.expected_ms,
        time_depends_on_data=True,
        drawn_on_boxes=True,
        slowness=_SLOWNESS[drawn.rows.scaling.dimension],
        details={
            "tau": float(drawn.tau),
            "bound": float(drawn.rows.bound),
            "base_measure": base_measure_text(drawn.rows.power),
            "coefficients": drawn.rows.scaling.dimension,
            "noise": "Not stated: an exact draw from the K-norm gradient law, whose spread depends "
            "on the data; it shrinks as 1 / (rows * epsilon) where targets are dense.",
        },
    )


# Measured, by dimension (studies.draw_times). Rounded targets make cones, which boxes follow badly.
_SLOWNESS = {1: 1.0, 2: 3.0, 3: 18.0, 4: 20.0}
_REASONS = {
    False: "linf gives the gradient the smallest sensitivity, and is the hull of its changes "
    "but with an intercept, tau away from 1/2 and replace-one neighbours",
    True: "the hull of all changes of the gradient lies inside the linf ball of radius Delta, "
    "so its exponent is at least as steep everywhere (Awan & Slavkovic, Theorem 4.5)",
}
