"""Linear regression from sanitized moments.

:mod:`mechanisms.functional.moments` is T(X), :mod:`mechanisms.functional.sanitized` what is
computed from T(X) + V.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from math import sqrt
from statistics import fmean

from mechanisms.contract import (
    Alternative,
    Data,
    Drawing,
    Noise,
    Outcome,
    Parameters,
    Plan,
)
from mechanisms.domain import SUM_MAX, Schema
from mechanisms.functional.moments import (
    RegressionMoments,
    regression_moments,
    weighted_moments,
)
from mechanisms.functional.sanitized import CoordinateNoise, Rule, regression_outcome
from mechanisms.geometry.advisor import advise
from mechanisms.geometry.spaces import AdjacentOutputSpace
from mechanisms.knorm import (
    AddedNoise,
    AdditiveNoise,
    IntegerNoise,
    ball_of,
    guarantee_of,
    integer_noise,
    offered_norms,
)
from mechanisms.privacy import Guarantee, PrivacyLoss
from mechanisms.randomness import Randomness
from mechanisms.statistics.additive import Coordinates
from mechanisms.statistics.designs.scaling import RegressionScaling
from mechanisms.statistics.linear_regression import LinearRegression
from mechanisms.statistics.weights import (
    NOTE,
    Weights,
    private_rows,
    reading_ms,
    weights_of,
)
from mechanisms.words import rounded

THEOREM = "Awan & Slavkovic 2021, Proposition 2.10 and section 6 (functional mechanism)"
NOISE = (
    "privacy noise alone, by a parametric bootstrap from the sanitized moments: approximate; it "
    "aims at the same rule's answer without noise, before shrinkage, and is extended to the "
    "coefficients; sampling error is not in it; in a preview, for columns that are independent and "
    "spread evenly over their bounds"
)
SHRINKAGE = (
    "positive-part James-Stein, from the known covariance of the noise: coefficients are shrunk "
    "towards zero in blocks of three or more directions with similar noise, the more the less a "
    "block exceeds it; a well determined direction stays nearly as it is"
)

_MS_PER_CELL = 1e-5  # measured; of a row and a column that is read
_MS_PER_ENTRY = 0.3  # measured; of the d x d matrix


def calibrate_linear(
    statistic: LinearRegression, schema: Schema, epsilon: PrivacyLoss, norm: str
) -> Plan:
    """Return the plan of a linear regression by sanitized moments.

    Raises
    ------
    InvalidStatisticError
        The statistic names more columns than ``moments`` takes, or Huber's loss.
    """
    statistic.require_squared()
    space = space_of(statistic, schema)
    advice = advise(space)
    chosen = advice.norm if norm == "auto" else norm
    ball = ball_of(space, chosen)
    noise = IntegerNoise.calibrated(space, ball, epsilon.fraction)
    return plan_sanitized(
        "functional",
        statistic,
        schema,
        norm=chosen,
        parameters=SanitizedMoments(AddedNoise.of(chosen, noise), rule_of(statistic)),
        noise=noise,
        guarantee=guarantee_of(space, ball, schema, epsilon, THEOREM),
        reason=advice.reason if norm == "auto" else f"Asked for. Advised: {advice.norm}.",
        alternatives=_alternatives(space, chosen, epsilon.fraction),
    )


def plan_sanitized(
    mechanism: str,
    statistic: LinearRegression,
    schema: Schema,
    *,
    norm: str | None,
    parameters: Parameters,
    noise: AdditiveNoise,
    guarantee: Guarantee,
    reason: str,
    alternatives: tuple[Alternative, ...],
) -> Plan:
    """Return the plan of coefficients that are computed from moments with this noise."""
    drawn = sanitized_draw(statistic, schema, rule_of(statistic), lambda _space: noise)
    scaling, moments = drawn.scaling, drawn.moments
    weights = weights_of(statistic, schema)
    read_ms = 0.0 if weights is None else reading_ms(len(scaling.columns), schema.row_bound)
    if moments.split:
        read = len(scaling.columns) + len(moments.split)
        read_ms += _MS_PER_CELL * read * (schema.rows or schema.max_rows or 0)
    return Plan(
        mechanism=mechanism,
        norm=norm,
        statistic=statistic,
        schema=schema,
        parameters=parameters,
        guarantee=guarantee,
        grid={"coordinate_step": float(Fraction(1, moments.space.unit * noise.refinement))},
        reason=reason,
        expected_ms=_MS_PER_ENTRY * scaling.dimension**2 + read_ms,
        time_depends_on_data=True,
        alternatives=alternatives,
        details=drawn.details(statistic, weights),
    )


def space_of(statistic: LinearRegression, schema: Schema) -> AdjacentOutputSpace:
    """Return the adjacent output space of a regression's moments."""
    weights = weights_of(statistic, schema)
    return _moments(statistic.scaling(schema), schema, weights)[0].space


def _moments(
    scaling: RegressionScaling, schema: Schema, weights: Weights | None
) -> tuple[RegressionMoments, int]:
    """Return T, and how many of its lattice units make one of the equations'."""
    if weights is None:
        return regression_moments(scaling, schema), 1
    # Weights may be 0, so a record may come or go even where the row count is public.
    moments = regression_moments(scaling, private_rows(schema))
    return weighted_moments(moments, weights, rows=schema.known_rows), SUM_MAX


@dataclass(frozen=True, slots=True)
class SanitizedMoments:
    """The noise of the moments, and what is computed of them."""

    noise: AddedNoise
    rule: Rule

    def drawing(self, statistic: LinearRegression, schema: Schema) -> Drawing:
        """Return how the regression is drawn."""
        drawn = sanitized_draw(statistic, schema, self.rule, self.noise.on)
        return Drawing(draw=drawn, preview=drawn.preview)


def sanitized_draw(
    statistic: LinearRegression,
    schema: Schema,
    rule: Rule,
    noise: Callable[[AdjacentOutputSpace], AdditiveNoise],
) -> FunctionalDraw:
    """Return the draw of a regression with this noise on the space of its moments."""
    scaling = statistic.scaling(schema)
    moments, fineness = _moments(scaling, schema, weights_of(statistic, schema))
    return FunctionalDraw(
        scaling=scaling,
        moments=moments,
        noise=noise(moments.space),
        rule=rule,
        fineness=fineness,
    )


def rule_of(statistic: LinearRegression) -> Rule:
    """Return the computation of this question's coefficients from sanitized moments."""
    return Rule(ridge=statistic.exact_ridge, bound=statistic.exact_bound)


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionalDraw:
    """Sanitizes the moments and returns the coefficients in column units.

    ``fineness`` is how many lattice units of the moments make one of the equations'.
    """

    scaling: RegressionScaling
    moments: RegressionMoments
    noise: AdditiveNoise
    rule: Rule
    fineness: int = 1

    def coordinates(self, data: Data, randomness: Randomness) -> list[Fraction]:
        """Return T(X) + V, in the equations' units: the private step, all of it."""
        added, steps = self.noise.draw(randomness), self.noise.refinement
        return [
            Fraction(exact * steps + error, steps * self.fineness)
            for exact, error in zip(self.moments.total(data), added, strict=True)
        ]

    def __call__(self, data: Data, randomness: Randomness) -> Outcome:
        """Return one release."""
        return self.outcome(self.coordinates(data, randomness), centred=True)

    def outcome(self, coordinates: Coordinates, *, centred: bool) -> Outcome:
        """Return the outcome from sanitized moments; intervals surround zero unless centred."""
        return regression_outcome(
            self.moments.equations(coordinates),
            self.scaling,
            self.rule,
            coordinate_noise(self.noise, self.fineness),
            # From released numbers alone: the same answer is then always described alike.
            seed=str(coordinates).encode(),
            centred=centred,
        )

    def preview(self, assumed_rows: int | None) -> Noise | None:
        """Return the noise for columns that are independent and spread evenly."""
        coordinates = self.moments.reference(assumed_rows)
        return None if coordinates is None else self.outcome(coordinates, centred=False).noise

    def details(self, statistic: LinearRegression, weights: Weights | None) -> dict[str, object]:
        """Return the public facts of the answer."""
        blank = self.moments.equations([Fraction(0)] * self.moments.space.dimension)
        automatic = self.rule.ridge is None
        edge = blank.noise_edge(coordinate_noise(self.noise, self.fineness))
        weighed = {} if weights is None else {"weights": {**weights.facts(), "note": NOTE}}
        split = {"cells_of": [*self.moments.split]} if self.moments.split else {}
        return {
            "columns": [*statistic.names, statistic.target],
            "coefficients": self.scaling.dimension,
            "sanitized_moments": self.moments.space.dimension,
            "bound": float(self.rule.bound),
            "ridge": statistic.ridge,
            "least_eigenvalue": edge if automatic else None,
            "shrinkage": SHRINKAGE if automatic else None,
            "noise": NOISE,
            "adjacent_output_space": self.moments.space.description,
            **split,
            **weighed,
        }


def coordinate_noise(noise: AdditiveNoise, fineness: int = 1) -> CoordinateNoise:
    """Return the noise's facts that describe an answer, in the equations' units."""
    laws, unit = noise.describe()
    return CoordinateNoise(
        simulated=lambda count, seed: noise.simulate(count, seed=seed),
        dimension=noise.dimension,
        rate=noise.unit_rate * fineness,
        stds=tuple(Fraction(law.std) * unit / fineness for law in laws),
        correlation=noise.correlation,
    )


def _alternatives(
    space: AdjacentOutputSpace, chosen: str, epsilon: Fraction
) -> tuple[Alternative, ...]:
    def std(norm: str) -> float:
        laws, unit = integer_noise(space, norm, epsilon).describe()
        return float(Fraction(sqrt(fmean(law.std**2 for law in laws))) * unit / space.unit)

    own = std(chosen)
    rows = [
        Alternative(
            mechanism="functional",
            norm=norm,
            comparison=f"{rounded(std(norm) / own)} times the standard deviation of the moments",
        )
        for norm in offered_norms(space)
        if norm != chosen
    ]
    gradient = Alternative(
        mechanism="kng",
        norm="linf",
        comparison=(
            "often a smaller error for many rows and many coefficients, up to 20; preview it to "
            "compare"
        ),
    )
    return (*rows, gradient)
