"""Linear regression by the exponential mechanism (Reimherr & Awan 2019, supplement), exact.

    f(theta) proportional to exp(-c (sum_i (y_i - x_i'theta)^2 + (gamma / 2) ||theta||_2^2))

on ||theta||_1 <= B, in the scaled units of :mod:`mechanisms.statistics.designs.scaling`
(|x_ij| <= 1, |y_i| <= 1): a Gaussian shape, truncated.

*Sensitivity.* A record's loss at theta lies between 0 and (1 + B)^2, and both are
reached. Replacing a record therefore changes the sum by at most Delta = (1 + B)^2, and so
does adding or removing one, but always in one direction. The ridge holds no data.

**Privacy.** Write the unnormalised densities of neighbours as h and h'.

- Replace-one, c = epsilon / (2 Delta): h / h' lies in [exp(-epsilon / 2), exp(epsilon / 2)]
  everywhere, hence so does the ratio of their integrals, and the densities are within
  exp(epsilon): Prop. 2.2.
- Add-remove, c = epsilon / Delta: with a record more, h / h' lies in [exp(-epsilon), 1]
  everywhere, hence so does the ratio of the integrals, and the ratio of the densities lies in
  [exp(-epsilon), exp(epsilon)]. A loss that only grows needs no factor 2.

X'X and X'y are exact integer sums over codes; the draw is exact
(:mod:`mechanisms.samplers.gaussian_ball`), rounded once, with certainty, to a public grid.

*Public ridge.* gamma = d^2 / (c B^2): in any direction the data leave open, theta is then about
as wide as Theta, so that a draw is quick for all data: singular, collinear, or with the
least-squares solution outside Theta. Slopes of uncorrelated columns uniform on [-1, 1]
shrink by about 3 d^2 (1 + B)^2 / (B^2 epsilon n) under replace-one, half of it under
add-remove: 0.6% at d = 4, 5% at d = 12 for n = 10^4, epsilon = 1, B = 10.

*Accuracy.* The noise falls as n^(-1/2), not as 1 / n: this is the baseline; the K-norm gradient
mechanism is better for all but few rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from mechanisms.contract import (
    Alternative,
    Data,
    Disturbance,
    Drawing,
    InvalidStatisticError,
    Outcome,
    Plan,
)
from mechanisms.domain import Schema
from mechanisms.objectives.quadratic import NormalEquations
from mechanisms.privacy import EXPONENTIAL_THEOREM as THEOREM
from mechanisms.privacy import Adjacency, Guarantee, PrivacyLoss, bounded_range_rho
from mechanisms.randomness import Randomness
from mechanisms.samplers.gaussian_ball import GaussianBall, draw
from mechanisms.statistics.designs.boxes import grid_exponent
from mechanisms.statistics.designs.rows import equations_of
from mechanisms.statistics.designs.scaling import RegressionScaling
from mechanisms.statistics.linear_regression import LinearRegression
from mechanisms.statistics.weights import Weights, weighing, weights_of

MAX_DIMENSION = 12  # mean tries were measured up to here: 56 at most
_MS_PER_ENTRY = 0.7  # measured; of the d x d matrix


def loss_sensitivity(bound: Fraction) -> Fraction:
    """Return Delta = (1 + B)^2, for either adjacency."""
    return (1 + bound) ** 2


def loss_rate(epsilon: Fraction, bound: Fraction, adjacency: Adjacency) -> Fraction:
    """Return c: epsilon / (2 Delta), or epsilon / Delta under add-remove."""
    factor = 2 if adjacency is Adjacency.REPLACE_ONE else 1
    return epsilon / (factor * loss_sensitivity(bound))


def public_ridge(rate: Fraction, bound: Fraction, dimension: int) -> Fraction:
    """Return gamma = d^2 / (c B^2), for ``rate`` = c."""
    return dimension**2 / (rate * bound**2)


@weighing
def calibrate_linear(
    statistic: LinearRegression, schema: Schema, epsilon: PrivacyLoss, _norm: str
) -> Plan:
    """Return the plan of a linear regression by the exponential mechanism, epsilon-DP.

    Raises
    ------
    InvalidStatisticError
        The statistic has more than 12 coefficients, names Huber's loss, or
        asks for less ridge than the public rule.
    """
    statistic.require_squared()
    scaling, bound = statistic.scaling(schema), statistic.exact_bound
    if scaling.dimension > MAX_DIMENSION:
        raise InvalidStatisticError(
            f"exponential draws at most {MAX_DIMENSION} coefficients, the intercept included; "
            "use kng or objective_perturbation",
            field_name="features",
        )
    rate = loss_rate(epsilon.fraction, bound, schema.adjacency)
    rule = public_ridge(rate, bound, scaling.dimension)
    drawn = LinearParameters(
        rate=rate,
        bound=bound,
        ridge=statistic.ridge_of(rule, least=rule),
        step_exponent=grid_exponent(epsilon.fraction, bound),
    )
    return _plan(drawn, statistic, schema, epsilon)


@dataclass(frozen=True, slots=True, kw_only=True)
class LinearParameters:
    """The calibrated numbers of a draw, in the symbols above: c is the ``rate``."""

    rate: Fraction
    bound: Fraction
    ridge: Fraction
    step_exponent: int

    def drawing(self, statistic: LinearRegression, schema: Schema) -> Drawing:
        """Return how the regression is drawn."""
        drawn = LinearDraw(
            scaling=statistic.scaling(schema),
            rate=self.rate,
            bound=self.bound,
            ridge=self.ridge,
            step_exponent=self.step_exponent,
            weights=weights_of(statistic, schema),
        )
        disturbance = Disturbance(
            ball=None, ridge=self.ridge, rate=lambda _length: float(self.rate), bound=self.bound
        )
        return Drawing(draw=drawn, disturbance=disturbance)

    @property
    def step(self) -> Fraction:
        """Return the grid's step in scaled units."""
        return Fraction(1, 2**-self.step_exponent)


@dataclass(frozen=True, slots=True, kw_only=True)
class LinearDraw:
    """Draws scaled coefficients exactly and returns them in column units."""

    scaling: RegressionScaling
    rate: Fraction
    bound: Fraction
    ridge: Fraction
    step_exponent: int
    weights: Weights | None = None

    def law(self, equations: NormalEquations) -> GaussianBall:
        """Return the exact law of the scaled coefficients; private."""
        return GaussianBall(
            # c times the sum of squares and the ridge, as theta'P theta / 2 - b'theta.
            matrix=tuple(
                tuple(
                    self.rate * (2 * entry + (self.ridge if row == column else 0))
                    for column, entry in enumerate(line)
                )
                for row, line in enumerate(equations.xx)
            ),
            vector=tuple(2 * self.rate * entry for entry in equations.xy),
            bound=self.bound,
        )

    def __call__(self, data: Data, randomness: Randomness) -> Outcome:
        """Return one release."""
        law = self.law(equations_of(self.scaling, data, self.weights))
        indices = draw(law, randomness, step_exponent=self.step_exponent)
        return self.scaling.released([index * self.step for index in indices])

    @property
    def step(self) -> Fraction:
        """Return the grid's step in scaled units."""
        return Fraction(1, 2**-self.step_exponent)


def _plan(
    drawn: LinearParameters, statistic: LinearRegression, schema: Schema, epsilon: PrivacyLoss
) -> Plan:
    scaling = statistic.scaling(schema)
    return Plan(
        mechanism="exponential",
        norm=None,
        statistic=statistic,
        schema=schema,
        parameters=drawn,
        guarantee=Guarantee(
            epsilon=epsilon,
            adjacency=schema.adjacency,
            sensitivity=str(loss_sensitivity(drawn.bound)),
            sensitivity_unit="sum of squared residuals, scaled columns",
            theorem=THEOREM,
            rho=bounded_range_rho(epsilon),
        ),
        grid=scaling.grid(drawn.step),
        reason=(
            "The classical baseline: least squares by the exponential mechanism, a truncated "
            "Gaussian, drawn exactly without a Markov chain."
        ),
        expected_ms=_MS_PER_ENTRY * scaling.dimension**2,
        time_depends_on_data=True,
        alternatives=(
            Alternative(
                mechanism="kng",
                norm="linf",
                comparison="noise falls as 1 / n instead of 1 / sqrt(n); better for many rows",
            ),
        ),
        details={
            "noise": "Not stated: an exact draw from a truncated Gaussian shape, whose spread "
            "depends on the data.",
            "ridge": float(drawn.ridge),
            "bound": float(drawn.bound),
            "coefficients": scaling.dimension,
        },
    )
