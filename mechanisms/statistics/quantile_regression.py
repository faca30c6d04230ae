"""Linear quantile regression of a number column on bounded columns.

The check loss in the scaled coordinates of :mod:`mechanisms.statistics.designs.scaling`
(|x_ij| <= 1, |y_i| <= 1), the coefficients limited to an l1 ball:

    minimise  sum_i rho_tau(y_i - x_i'theta),   rho_tau(r) = r (tau - 1{r <= 0}).

*Sensitivity.* A record's gradient is ``a x`` with ``a = 1{y <= x'theta} - tau`` in
{1 - tau, -tau} (in [-tau, 1 - tau] at a kink). With M = max(tau, 1 - tau) and x anywhere
in the cube, two records differ by at most 2 M in each entry, and one contributes at most M:

    Delta_inf = 2 M under replace-one,    M under add-remove, both attained.

(KNG section 4.5 prints ``2 (1 - tau)``, which is not private for tau above 1/2.)
Constants of the smoothed loss are in :mod:`mechanisms.objectives.losses`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import ClassVar, Literal

from mechanisms.contract import FieldHint, InvalidStatisticError, Json, meaning
from mechanisms.domain import Schema
from mechanisms.exact.fractions import as_written, has_decimals
from mechanisms.probes import AMONG, FACING, Probe
from mechanisms.statistics.designs.boxes import (
    MAX_COEFFICIENTS,
)
from mechanisms.statistics.designs.features import Features
from mechanisms.statistics.designs.regression import (
    BASE_MEASURE_HINT,
    HINTS,
    INTERCEPT,
    BaseMeasureName,
    OfFeatures,
    base_measure_field,
    features_field,
    formula_field,
)
from mechanisms.statistics.designs.scaling import RegressionScaling, coefficient_ranges
from mechanisms.statistics.weights import LOSS_WEIGHTS, Weighing
from mechanisms.words import worded

MOST_DECIMALS = 9


_PROBED: Json = {
    "kind": "quantile_regression",
    "target": "y",
    "features": ["x"],
    "intercept": False,
    "bound": 1,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class QuantileRegression(OfFeatures):
    """Coefficients (target units per unit of a column) of a conditional quantile."""

    __pydantic_config__: ClassVar[dict[str, object]] = {"extra": "forbid"}
    mechanisms: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "objective_perturbation": ("linf", "l2", "l1", "optimal"),
        "kng": ("linf", "optimal"),
        "exponential": (),
    }
    advice: ClassVar[Mapping[str, str]] = {
        "objective_perturbation": "Any number of coefficients and rows, of a smoothed loss.",
        "kng": "The loss itself, up to 4 coefficients: more accurate where rows times epsilon are "
        "many, and slower. Norm optimal pays with an intercept and tau away from 1/2.",
        "exponential": "The classical baseline, up to 4 coefficients, for comparison.",
    }
    limits: ClassVar[Mapping[str, int]] = {
        "coefficients": MAX_COEFFICIENTS,
        "kng_coefficients": 4,
        "exponential_coefficients": 4,
    }
    has_bound: ClassVar[bool] = True
    example: ClassVar[Json] = {
        "kind": "quantile_regression",
        "target": "foodexp",
        "features": ["income"],
        "tau": 0.5,
        "bound": 2,
    }

    probes: ClassVar[tuple[Probe, ...]] = (
        Probe(_PROBED, FACING),
        # facing rows leave its gradient's norm the same at all coefficients within the bound
        Probe(_PROBED, AMONG, mechanism="kng"),
    )
    hints: ClassVar[Mapping[str, FieldHint]] = {
        **HINTS,
        "base_measure": BASE_MEASURE_HINT,
        "tau": FieldHint("Level", "Between 0 and 1; 0.5 fits the median. Empty: 0.5."),
    }
    lies_among_values: ClassVar[bool] = True
    reason_of_bias: ClassVar[str] = worded(
        "the ridge pulls coefficients towards 0, and the smoothed loss has its own line."
    )
    no_inference: ClassVar[str] = worded(
        "standard errors of a quantile regression take the density of the residuals at 0, which is "
        "no sum over records: the coverage of such intervals is not proved"
    )

    kind: Literal["quantile_regression"] = "quantile_regression"
    target: str | None = field(
        default=None, metadata=meaning("The number or boolean column to explain.")
    )
    features: Features | None = field(
        default=None,
        metadata=features_field(
            "At most 4 coefficients by `kng` and `exponential`, 100 by `objective_perturbation`."
        ),
    )
    intercept: bool = field(default=True, metadata=INTERCEPT)
    tau: float = field(
        default=0.5,
        metadata=meaning(
            "The quantile's level, strictly between 0 and 1, with at most 9 decimals. "
            "0.5 fits the conditional median."
        ),
    )
    bound: float = field(
        default=10.0,
        metadata=meaning(
            "Limit of the l1 norm of the coefficients in scaled columns (each on [-1, 1]), the "
            "intercept included. Between 0.000001 and 1000000."
        ),
    )

    formula: str | None = field(default=None, metadata=formula_field())
    base_measure: BaseMeasureName = field(default="auto", metadata=base_measure_field())
    weights: Weighing = field(default=None, metadata=LOSS_WEIGHTS)

    def check(self, schema: Schema) -> None:
        """Raise :class:`InvalidStatisticError` when the question does not fit the schema."""
        self.require_usual(schema, self.scaling(schema).dimension)
        if not 0 < self.tau < 1:  # also refuses NaN
            raise InvalidStatisticError("tau must lie strictly between 0 and 1", field_name="tau")
        if not has_decimals(self.exact_tau, MOST_DECIMALS):
            raise InvalidStatisticError("tau must have at most 9 decimals", field_name="tau")

    def possible_ranges(self, schema: Schema, _rows: float, /) -> Json:
        """Return up to what equally strong features explain of a target of its width."""
        return coefficient_ranges(self.scaling(schema), largest=Fraction(1), bound=self.exact_bound)

    def scaling(self, schema: Schema) -> RegressionScaling:
        """Return the public maps between columns and scaled coordinates."""
        return RegressionScaling.build(
            schema, features=self.names, target=self.target, intercept=self.intercept
        )

    @property
    def exact_tau(self) -> Fraction:
        """Return tau as the decimal it was written as."""
        return as_written(self.tau)

    @property
    def exact_bound(self) -> Fraction:
        """Return B as the decimal it was written as."""
        return as_written(self.bound)
