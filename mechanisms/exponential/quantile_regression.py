"""Quantile regression by the exponential mechanism, drawn by the box engine: d <= 4.

    P(theta) ∝ exp(-c l(theta; D))    on the grid points of ||theta||_1 <= B

with l the check loss and the counting measure on the public grid of
:func:`mechanisms.statistics.designs.boxes.grid_bits` (Reimherr & Awan 2019, Proposition 2.2).

**Privacy.** On Theta a record's loss lies in [0, M (1 + B)], M = max(tau, 1 - tau), since
|y - x'theta| <= 1 + B: replacing, adding or removing one moves l(theta) by at most
Delta = M (1 + B) at every theta. (The paper's supplement has twice that.) Write the weights of
neighbours as h and h'.

- Replace-one, c = eps / (2 Delta): h / h' lies in [exp(-eps / 2), exp(eps / 2)] everywhere, and so
  does the ratio of their sums: the law is eps-DP.
- Add-remove, c = eps / Delta: a record more only adds to the loss, so h / h' lies in
  [exp(-eps), 1] everywhere, and so does the ratio of their sums. The ratio of the two, that of the
  probabilities, lies in [exp(-eps), exp(eps)]: no factor 2 is needed.

The draw is exact (:mod:`mechanisms.samplers.boxes`, and where distinct rows are few
:mod:`mechanisms.samplers.polytopes`: a choice of cost only); only theta is released.
No number of rows is refused: those that cannot be held are read in passes
(:class:`mechanisms.statistics.designs.boxes.RegressionRows`).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import partial

from mechanisms.contract import Alternative, Data, Drawing, Outcome, Plan
from mechanisms.domain import Schema
from mechanisms.objectives.check_loss import LossLaw
from mechanisms.objectives.losses import largest_weight
from mechanisms.privacy import EXPONENTIAL_THEOREM as THEOREM
from mechanisms.privacy import Adjacency, Guarantee, PrivacyLoss, bounded_range_rho
from mechanisms.randomness import Randomness
from mechanisms.samplers.envelopes import first_kept
from mechanisms.statistics.designs.boxes import RegressionRows, grid_bits, require_dimension
from mechanisms.statistics.designs.rows import HELD_ROWS, require_held
from mechanisms.statistics.quantile_regression import QuantileRegression
from mechanisms.statistics.weights import weighing, weights_of

_SLOWNESS = {1: 1.0, 2: 2.0, 3: 4.0, 4: 8.0}  # measured, by dimension: studies.draw_times


def loss_sensitivity(tau: Fraction, bound: Fraction) -> Fraction:
    """Return Delta = max(tau, 1 - tau) (1 + B) of the check loss, for either adjacency."""
    return largest_weight(tau) * (1 + bound)


def loss_rate(epsilon: Fraction, tau: Fraction, bound: Fraction, adjacency: Adjacency) -> Fraction:
    """Return c: epsilon / (2 Delta), or epsilon / Delta under add-remove."""
    factor = 2 if adjacency is Adjacency.REPLACE_ONE else 1
    return epsilon / (factor * loss_sensitivity(tau, bound))


@weighing
def calibrate_quantile_regression(
    statistic: QuantileRegression, schema: Schema, epsilon: PrivacyLoss, _norm: str
) -> Plan:
    """Return the plan of a quantile regression by the exponential mechanism, epsilon-DP.

    Raises
    ------
    InvalidStatisticError
        The statistic has more than 4 coefficients, or weighs too many rows.
    """
    scaling = statistic.scaling(schema)
    require_dimension(scaling.dimension)
    delta = loss_sensitivity(statistic.exact_tau, statistic.exact_bound)
    require_held(weights_of(statistic, schema), schema.row_bound, HELD_ROWS)
    parameters = WideParameters(
        rate=loss_rate(
            epsilon.fraction, statistic.exact_tau, statistic.exact_bound, schema.adjacency
        ),
        bound=statistic.exact_bound,
        # From the public bound on the rows: a grid from their number would reveal it.
        bits=grid_bits(statistic.exact_bound, epsilon.fraction * schema.row_bound),
    )
    drawn = parameters.drawn(statistic, schema)
    return Plan(
        mechanism="exponential",
        norm=None,
        statistic=statistic,
        schema=schema,
        parameters=parameters,
        guarantee=Guarantee(
            epsilon=epsilon,
            adjacency=schema.adjacency,
            sensitivity=str(float(delta)),
            sensitivity_unit="change of the check loss, scaled columns: max(tau, 1 - tau) (1 + B)",
            theorem=THEOREM,
            rho=bounded_range_rho(epsilon),
        ),
        grid=scaling.grid(drawn.rows.step),
        reason="The baseline: the loss itself as the score; drawn exactly on boxes.",
        expected_ms=drawn.rows.expected_ms,
        time_depends_on_data=True,
        drawn_on_boxes=True,
        slowness=_SLOWNESS[scaling.dimension],
        alternatives=(
            Alternative(
                mechanism="kng",
                norm="linf",
                comparison="an error that shrinks as 1/n instead of 1/sqrt(n), whatever the bound",
            ),
        ),
        details={
            "tau": float(drawn.tau),
            "bound": float(drawn.rows.bound),
            "base_measure": "counting measure on the grid",
            "coefficients": scaling.dimension,
            "noise": "Not stated: an exact draw from the exponential mechanism's law, whose spread "
            "depends on the data; it shrinks as 1 / sqrt(rows * epsilon).",
        },
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class WideParameters:
    """The calibrated numbers of a draw: ``bits`` are the grid's."""

    rate: Fraction
    bound: Fraction
    bits: int

    def drawing(self, statistic: QuantileRegression, schema: Schema) -> Drawing:
        """Return how the regression is drawn."""
        return Drawing(draw=self.drawn(statistic, schema))

    def drawn(self, statistic: QuantileRegression, schema: Schema) -> LossDraw:
        """Return the draw of the regression."""
        return LossDraw(
            tau=statistic.exact_tau,
            rate=self.rate,
            rows=RegressionRows(
                scaling=statistic.scaling(schema),
                bound=self.bound,
                bits=self.bits,
                most=schema.row_bound,
                weights=weights_of(statistic, schema),
            ),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LossDraw:
    """Draws scaled coefficients exactly and returns them in column units."""

    tau: Fraction
    rate: Fraction
    rows: RegressionRows

    def __call__(self, data: Data, randomness: Randomness) -> Outcome:
        """Return one release."""
        # Weighted rows count in whole parts: a loss in parts is that much larger.
        rate = self.rate / self.rows.parts
        make = partial(LossLaw, tau=self.tau, rate=rate)
        point = first_kept(self.rows.trials(data, make, rate), randomness)
        return self.rows.scaling.released([index * self.rows.step for index in point])
