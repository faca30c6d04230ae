"""Linear regression by the K-norm gradient mechanism (Reimherr & Awan 2019, section 4.2), exact.

    f(theta) proportional to exp(-eps / (2 Delta(theta)) ||A theta - b||_inf) (1 + rho)^-p

on rho = ||theta||_1 <= B, with A, b, the exact sensitivity Delta(theta), the public ridge inside
A and the base measure's p as in :mod:`mechanisms.objectives.quadratic`. p depends on the number
of coefficients alone, and is part of the answer.

**Errors in print.** Density (1) of the paper has eps / (8 (1 + B)) on a gradient
without its factor 2, x_1 for x_i, and a Theta without its l1 norm; as printed half
of epsilon is wasted.

**Privacy.** For neighbours D, D' and any theta the exponents differ by at most
eps / (2 Delta(theta)) ||grad - grad'||_inf <= eps / 2, so the unnormalised densities
are within exp(eps / 2), their integrals as well, and the law is eps-DP: Theorem 3.1
with Delta depending on theta, which is public, and a base measure that does not
depend on the data. Any such measure will do: (1 + rho)^-p is a factor of both densities and
drops out of their ratio at theta, and of the bound on their integrals' ratio.

X'X and X'y are exact integer sums over codes; the draw is exact
(:mod:`mechanisms.samplers.affine`) and rounded once, with certainty, to a grid that is a function
of eps and B. Nothing else of the draw is released: not the route, nor the tries.
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
from mechanisms.objectives.quadratic import (
    MAX_DIMENSION,
    gradient_rate,
    posterior,
    public_ridge,
    sensitivity_text,
    smallest_ridge,
)
from mechanisms.privacy import KNG_THEOREM as THEOREM
from mechanisms.privacy import Adjacency, Guarantee, PrivacyLoss, bounded_range_rho
from mechanisms.randomness import Randomness
from mechanisms.samplers.affine import AffinePosterior, draw
from mechanisms.samplers.base_measure import FLAT, base_power
from mechanisms.statistics.designs.boxes import grid_exponent
from mechanisms.statistics.designs.rows import equations_of
from mechanisms.statistics.designs.scaling import RegressionScaling
from mechanisms.statistics.linear_regression import LinearRegression
from mechanisms.statistics.weights import Weights, weighing, weights_of

_MS_PER_ENTRY = 0.15  # measured; of the d x d matrix


@weighing
def calibrate_linear(
    statistic: LinearRegression, schema: Schema, epsilon: PrivacyLoss, _norm: str
) -> Plan:
    """Return the plan of a linear regression, epsilon-DP.

    Raises
    ------
    InvalidStatisticError
        The statistic has more than 20 coefficients, names Huber's loss, or
        asks for a ridge too small to draw with.
    """
    statistic.require_squared()
    scaling, bound = statistic.scaling(schema), statistic.exact_bound
    if scaling.dimension > MAX_DIMENSION:
        raise InvalidStatisticError(
            f"kng draws at most {MAX_DIMENSION} coefficients, the intercept included; "
            "use objective_perturbation, or the functional mechanism on released moments",
            field_name="features",
        )
    rate = gradient_rate(epsilon.fraction, schema.adjacency)
    drawn = LinearParameters(
        rate=rate,
        bound=bound,
        ridge=statistic.ridge_of(
            public_ridge(rate, bound, scaling.dimension),
            least=smallest_ridge(rate, bound, scaling.dimension),
        ),
        power=base_power(scaling.dimension, flat=statistic.base_measure == "flat"),
        step_exponent=grid_exponent(epsilon.fraction, bound),
    )
    return _plan(drawn, statistic, schema, epsilon)


@dataclass(frozen=True, slots=True, kw_only=True)
class LinearParameters:
    """The calibrated numbers of a draw, in the symbols above: p is the ``power``."""

    rate: Fraction
    bound: Fraction
    ridge: Fraction
    power: int
    step_exponent: int

    def drawing(self, statistic: LinearRegression, schema: Schema) -> Drawing:
        """Return how the regression is drawn."""
        drawn = LinearDraw(
            scaling=statistic.scaling(schema),
            rate=self.rate,
            bound=self.bound,
            adjacency=schema.adjacency,
            ridge=self.ridge,
            power=self.power,
            step_exponent=self.step_exponent,
            weights=weights_of(statistic, schema),
        )
        disturbance = Disturbance(
            ball="linf",
            ridge=self.ridge,
            rate=lambda length: float(self.rate) / (1 + length),
            bound=self.bound,
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
    adjacency: Adjacency
    ridge: Fraction
    power: int
    step_exponent: int
    weights: Weights | None = None

    def law(self, data: Data) -> AffinePosterior:
        """Return the exact law of the scaled coefficients; private."""
        equations = equations_of(self.scaling, data, self.weights)
        return posterior(
            equations,
            rate=self.rate,
            bound=self.bound,
            ridge=self.ridge,
            power=self.power,
            adjacency=self.adjacency,
        )

    def __call__(self, data: Data, randomness: Randomness) -> Outcome:
        """Return one release."""
        indices = draw(self.law(data), randomness, step_exponent=self.step_exponent)
        theta = [index * self.step for index in indices]
        return self.scaling.released(theta)

    @property
    def step(self) -> Fraction:
        """Return the grid's step in scaled units."""
        return Fraction(1, 2**-self.step_exponent)


def _plan(
    drawn: LinearParameters, statistic: LinearRegression, schema: Schema, epsilon: PrivacyLoss
) -> Plan:
    scaling = statistic.scaling(schema)
    dimension = scaling.dimension
    return Plan(
        mechanism="kng",
        norm="linf",
        statistic=statistic,
        schema=schema,
        parameters=drawn,
        guarantee=Guarantee(
            epsilon=epsilon,
            adjacency=schema.adjacency,
            sensitivity=sensitivity_text(dimension, schema.adjacency),
            sensitivity_unit="linf norm of a change in the gradient at theta, scaled columns",
            theorem=THEOREM,
            rho=bounded_range_rho(epsilon),
        ),
        grid=scaling.grid(drawn.step),
        reason=(
            "linf gives the gradient the smallest sensitivity, which follows theta, and the base "
            "measure keeps answers of few rows near zero; drawn exactly, no Markov chain."
        ),
        expected_ms=_MS_PER_ENTRY * dimension**2,
        time_depends_on_data=True,
        alternatives=(
            Alternative(
                mechanism="objective_perturbation",
                norm="linf",
                comparison="about the same error for many rows; any number of coefficients",
            ),
        ),
        details={
            "noise": "Not stated: an exact draw from the K-norm gradient law, whose spread depends "
            "on the private Gram matrix.",
            "ridge": float(drawn.ridge),
            "bound": float(drawn.bound),
            "base_measure": f"(1 + ||theta||_1)^-{drawn.power}" if drawn.power else FLAT,
            "coefficients": dimension,
        },
    )
