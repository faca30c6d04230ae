"""Linear regression of a number column on bounded columns.

Least squares in the scaled coordinates of :mod:`mechanisms.statistics.designs.scaling`
(|x_ij| <= 1, |y_i| <= 1), the coefficients limited to an l1 ball. Sensitivities are
derived in :mod:`mechanisms.objectives.quadratic`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import ClassVar, Literal, Self

from mechanisms.contract import ErrorLaw, FieldHint, InvalidStatisticError, Json, meaning
from mechanisms.domain import Schema
from mechanisms.exact.fractions import as_written
from mechanisms.probes import FACING, STEEP, Probe
from mechanisms.statistics.designs.features import Features, count_columns
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
from mechanisms.statistics.designs.rows import CodeRows
from mechanisms.statistics.designs.scaling import RegressionScaling, coefficient_ranges
from mechanisms.statistics.weights import LOSS_WEIGHTS, Weighing
from mechanisms.words import worded

LARGEST_RIDGE = 1e100


_PROBED: Json = {
    "kind": "linear_regression",
    "target": "y",
    "features": ["x"],
    "intercept": False,
    "bound": 1,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class LinearRegression(OfFeatures):
    """Coefficients (target units per unit of a column) of a linear regression."""

    __pydantic_config__: ClassVar[dict[str, object]] = {"extra": "forbid"}
    mechanisms: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "kng": ("linf",),
        "objective_perturbation": ("linf", "l2", "l1"),
        "functional": ("optimal", "linf", "l2", "l1"),
        "exponential": (),
        "gaussian": (),
    }
    advice: ClassVar[Mapping[str, str]] = {
        "kng": "Within the bound, up to 20 coefficients: with about six or more of them and many "
        "rows it errs least. Where rows are few its draw stays near zero.",
        "objective_perturbation": "For many coefficients, or a tight bound: its noise is one tilt "
        "of the loss, whose law does not depend on the data.",
        "functional": "Least squares of sanitized moments: with up to about five coefficients it "
        "errs least or nearly so, and it alone states an interval. When more than one regression "
        "is wanted, release `moments` instead: derivations from it answer any number for free.",
        "exponential": "The classical baseline, for comparison.",
        "gaussian": "In accounts with a delta: `functional` with smaller noise at the same charge.",
    }
    limits: ClassVar[Mapping[str, int]] = {
        "kng_coefficients": 20,
        "functional_columns": 64,
        "exponential_coefficients": 12,
    }
    has_bound: ClassVar[bool] = True
    example: ClassVar[Json] = {
        "kind": "linear_regression",
        "target": "foodexp",
        "features": ["income"],
        "bound": 2,
    }

    probes: ClassVar[tuple[Probe, ...]] = (
        Probe(_PROBED, STEEP),
        Probe(_PROBED, FACING, mechanism="exponential"),
        Probe({**_PROBED, "intercept": True}, STEEP, mechanism="functional"),
    )
    hints: ClassVar[Mapping[str, FieldHint]] = {
        **HINTS,
        "base_measure": BASE_MEASURE_HINT,
        "loss": FieldHint(
            "Loss",
            "",
            rare=True,
            options={"auto": "the one with the smallest expected error", "huber": "Huber’s"},
        ),
        "threshold": FieldHint(
            "Threshold", "Of Huber's loss, in units of the target. Empty: a public rule.", rare=True
        ),
        "ridge": FieldHint(
            "Ridge", "Penalty in scaled columns. Empty: the mechanism's public rule.", rare=True
        ),
    }
    error_law: ClassVar[ErrorLaw] = "squared loss"
    reason_of_bias: ClassVar[str] = worded(
        "the ridge or shrinkage pulls coefficients towards 0, and a loss other than the squared "
        "has its own line."
    )
    chosen_by_error: ClassVar[bool] = True
    follows_from_moments: ClassVar[bool] = True

    kind: Literal["linear_regression"] = "linear_regression"
    target: str | None = field(
        default=None, metadata=meaning("The number or boolean column to explain.")
    )
    features: Features | None = field(
        default=None,
        metadata=features_field(
            "How many coefficients depends on the mechanism: see `limits` of the catalog."
        ),
    )
    intercept: bool = field(default=True, metadata=INTERCEPT)
    bound: float = field(
        default=10.0,
        metadata=meaning(
            "Limit of the l1 norm of the coefficients in scaled columns (each on [-1, 1]), the "
            "intercept included. Between 0.000001 and 1000000. `functional` scales coefficients "
            "beyond it back to it; the others draw within it."
        ),
    )
    loss: Literal["auto", "squared", "huber"] = field(
        default="auto",
        metadata=meaning(
            "What is minimised: squared residuals, or Huber's loss, which counts residuals beyond "
            "`threshold` by their size alone. Its noise is smaller by about the threshold, and its "
            'line is that of most records where residuals are skewed. "auto" takes what errs '
            "least for records of several kinds; only `objective_perturbation` draws Huber's loss.",
            example="huber",
        ),
    )
    threshold: float | Literal["auto"] = field(
        default="auto",
        metadata=meaning(
            "Huber's threshold, in units of the target, at most half the width of its bounds.",
            example=100,
        ),
    )
    ridge: float | None = field(
        default=None,
        metadata=meaning(
            "gamma of the public penalty `(gamma / 2) ||theta||_2^2`, added to the sum of squared "
            "residuals, in scaled columns; at most 1e100. Null takes the mechanism's public rule. "
            "`kng` and `exponential` refuse less than their rule allows, as a draw could then "
            "take too long. For `functional` it is ridge regression with lambda = gamma / 2, "
            "and 0 is the pseudoinverse; with either, coefficients are not shrunk otherwise.",
            example=50,
        ),
    )

    formula: str | None = field(default=None, metadata=formula_field())
    base_measure: BaseMeasureName = field(default="auto", metadata=base_measure_field())
    weights: Weighing = field(default=None, metadata=LOSS_WEIGHTS)

    def spelled(self, schema: Schema, /) -> Mapping[str, object]:
        """Return the fields that have several spellings, each in one."""
        loss = {"loss": "huber"} if self.is_huber and self.loss == "auto" else {}
        return {**OfFeatures.spelled(self, schema), **loss}

    def check(self, schema: Schema) -> None:
        """Raise :class:`InvalidStatisticError` when the question does not fit the schema."""
        self.require_usual(schema, self.scaling(schema).dimension)
        if self.threshold != "auto":
            self._require_threshold(schema)
        if self.ridge is not None and self.is_huber:
            raise InvalidStatisticError(
                "a ridge goes with squared loss; leave it out", field_name="ridge"
            )
        if self.ridge is not None and not 0 <= self.ridge <= LARGEST_RIDGE:
            # beyond, the products of a draw's envelopes would leave the floats
            raise InvalidStatisticError(
                "ridge must lie between 0 and 1e100, or be null", field_name="ridge"
            )

    def _require_threshold(self, schema: Schema) -> None:
        """Raise :class:`InvalidStatisticError` for a threshold that is not Huber's."""
        width = self.row_scaling(schema).target_width
        scaled = self.scaled_threshold(width)
        if self.loss == "squared":
            raise InvalidStatisticError(
                'a threshold is Huber\'s; take "loss": "huber"', field_name="threshold"
            )
        if scaled is None or not 0 < scaled <= 1:
            most = f"{float(width):.6g}"
            raise InvalidStatisticError(
                f"threshold must be above 0 and at most {most}, half the width of the "
                'target\'s bounds, or "auto"',
                field_name="threshold",
            )

    @property
    def is_huber(self) -> bool:
        """Return whether Huber's loss is asked for: by its name, or by its threshold."""
        return self.loss == "huber" or self.threshold != "auto"

    def require_squared(self) -> None:
        """Raise :class:`InvalidStatisticError` for Huber's loss, for mechanisms without it."""
        if self.is_huber:
            raise InvalidStatisticError(
                "Huber's loss is drawn by objective_perturbation alone; take that mechanism or "
                '"auto", or "loss": "squared" without a threshold',
                field_name="loss",
            )

    def estimand(self) -> Self:
        """Return the question with squared loss: Huber's line is off from it by its bias."""
        return replace(self, loss="squared", threshold="auto")

    def possible_ranges(self, schema: Schema, _rows: float, /) -> Json:
        """Return up to what equally strong features explain of a target of its width."""
        return coefficient_ranges(self.scaling(schema), largest=Fraction(1), bound=self.exact_bound)

    def moment_columns(self, _schema: Schema, /) -> tuple[str, ...] | None:
        """Return the features and the target, as plain columns."""
        return (*self.names, str(self.target))

    def planning_ms(self, schema: Schema, mechanism: str, /) -> float:
        """Return about how many milliseconds of one core a plan takes."""
        if mechanism in ("functional", "gaussian"):  # as for the moments that it releases
            return 1 + 0.5 * (count_columns(self.features or (), schema) + 1) ** 2
        return 1 + 0.01 * count_columns(self.features or (), schema) ** 2

    def scaling(self, schema: Schema) -> RegressionScaling:
        """Return the public maps between columns and scaled coordinates."""
        return RegressionScaling.build(
            schema, features=self.names, target=self.target, intercept=self.intercept, sums=True
        )

    def row_scaling(self, schema: Schema) -> RegressionScaling:
        """Return the public maps for records that are read one by one."""
        return RegressionScaling.build(
            schema, features=self.names, target=self.target, intercept=self.intercept
        )

    def code_rows(self, schema: Schema) -> CodeRows:
        """Return the reader of records' codes, those of the features and then the target's."""
        return CodeRows(self.row_scaling(schema).columns)

    def scaled_threshold(self, width: Fraction) -> Fraction | None:
        """Return the threshold asked for in scaled units, given the width of one; None for auto."""
        return None if self.threshold == "auto" else as_written(self.threshold) / width

    @property
    def exact_bound(self) -> Fraction:
        """Return B as the decimal it was written as."""
        return as_written(self.bound)

    @property
    def exact_ridge(self) -> Fraction | None:
        """Return the ridge asked for as the decimal it was written as."""
        return None if self.ridge is None else as_written(self.ridge)

    def ridge_of(self, rule: Fraction, *, least: Fraction) -> Fraction:
        """Return the ridge asked for, or else the mechanism's public rule.

        Raises
        ------
        InvalidStatisticError
            Less was asked for than a draw can do with in time.
        """
        asked = self.exact_ridge
        if asked is None:
            return rule
        if asked < least:
            shown = f"{float(least):.6g}"
            raise InvalidStatisticError(
                f"ridge must be at least {shown} here (or null for the public rule): "
                "with less, a draw on collinear columns could take too long",
                field_name="ridge",
            )
        return asked
