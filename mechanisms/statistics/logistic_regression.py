"""Logistic regression of a 0/1 target on bounded columns.

``sum_i log(1 + exp(theta'x_i)) - y_i theta'x_i`` in the scaled coordinates of
:mod:`mechanisms.statistics.designs.scaling`, |x_ij| <= 1, y_i in {0, 1}.

*Sensitivity.* A record's gradient is ``(sigmoid(theta'x) - y) x``, each entry in
(-1, 1) whatever theta. Hence for two records at the same theta

    Delta_inf <= 2,    Delta_2 <= 2 sqrt(d),    Delta_1 <= 2 d,

and half of each when a record is added or removed. Delta_inf is attained in the
limit of a long theta for d >= 2 (Awan & Slavkovic, section 5.1); the other two
are upper bounds, since one of the d entries can then change by no more than 1.
The Hessian ``s (1 - s) x x'`` has rank one and the eigenvalue at most
``lambda = d / 4``, attained at theta = 0. On a bounded Theta the sensitivity follows theta
(:mod:`mechanisms.kng.logistic`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray

from mechanisms.contract import (
    Block,
    InvalidStatisticError,
    Json,
    meaning,
    require_column,
)
from mechanisms.domain import EXACT_ROWS, CategoryColumn, NumberColumn, Schema
from mechanisms.exact.decimals import as_written
from mechanisms.statistics.conditions import Condition
from mechanisms.statistics.designs.features import Features, count_columns, plain_names
from mechanisms.statistics.designs.limits import (
    MAX_COEFFICIENTS,
    require_bound,
    require_coefficients,
)
from mechanisms.statistics.designs.regression import (
    BaseMeasureName,
    base_measure_field,
    designed,
    features_field,
    formula_field,
    settle,
)
from mechanisms.statistics.designs.rows import code_chunk, with_weights
from mechanisms.statistics.designs.scaling import RegressionScaling
from mechanisms.statistics.questions import Question, Viewed
from mechanisms.statistics.weights import LOSS_WEIGHTS, Weights, require_weights, weights_of
from mechanisms.views import RowView

SMALLEST_Q, LARGEST_Q = 0.001, 0.999


@dataclass(frozen=True, slots=True, kw_only=True)
class LogisticRegression(Question):
    """Coefficients (log-odds per unit of a column) of a 0/1 target on features."""

    __pydantic_config__: ClassVar[dict[str, object]] = {"extra": "forbid"}
    mechanisms: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "objective_perturbation": ("linf", "l2", "l1"),
        "kng": ("linf", "l2", "l1"),
    }
    advice: ClassVar[Mapping[str, str]] = {
        "objective_perturbation": "Any number of coefficients and rows, no bound needed, and fast; "
        "its ridge pulls the fit towards zero. Norm linf is never worse.",
        "kng": "Up to 4 coefficients inside a bound, without that pull: 0.8 to 1.6 times the error "
        "of objective perturbation at 10^3 to 10^5 rows and epsilon 1. Norm linf is never worse.",
    }
    limits: ClassVar[Mapping[str, int]] = {
        "coefficients": MAX_COEFFICIENTS,
        "kng_coefficients": 4,
    }
    example: ClassVar[Json] = {
        "kind": "logistic_regression",
        "target": {"column": "median_house_value", "op": ">=", "value": 200000},
        "features": ["median_income", "housing_median_age"],
    }

    kind: Literal["logistic_regression"] = "logistic_regression"
    target: str | Condition | None = field(
        default=None,
        metadata=meaning(
            "A boolean column, or a public condition that turns a column into 0 and 1."
        ),
    )
    features: Features | None = field(
        default=None,
        metadata=features_field(
            "At most 4 coefficients by `kng`, 100 by `objective_perturbation`."
        ),
    )
    intercept: bool = field(
        default=True,
        metadata=meaning(
            "Whether a constant is fitted too; it counts as a coefficient.", example=True
        ),
    )
    bound: float | None = field(
        default=None,
        metadata=meaning(
            "Limit of the l1 norm of the coefficients in scaled columns (each on [-1, 1]), the "
            "intercept included. Between 0.000001 and 1000000. Null is no limit by "
            "`objective_perturbation`, and 50 by `kng`, which needs one.",
            example=10,
        ),
    )
    q: float | Literal["auto"] = field(
        default="auto",
        metadata=meaning(
            "Of `objective_perturbation` alone: the share of epsilon spent on the tilt, between "
            "0.001 and 0.999. `auto` takes a public rule, which the preview shows.",
            example="auto",
        ),
    )

    formula: str | None = field(default=None, metadata=formula_field())
    base_measure: BaseMeasureName = field(default="auto", metadata=base_measure_field())
    weights: str | None = field(default=None, metadata=LOSS_WEIGHTS)

    def __post_init__(self) -> None:
        Question.__post_init__(self)
        settle(self)

    def designed(self, view: RowView, /) -> Viewed[Self]:
        """Return the regression on plain columns of a wider view."""
        return designed(self, view)

    @property
    def names(self) -> tuple[str, ...]:
        """Return the features' names, once they are plain columns."""
        return plain_names(self.features)

    def check(self, schema: Schema) -> None:
        """Raise :class:`InvalidStatisticError` when the question does not fit the schema."""
        rule = self.rule(schema)
        if rule.column in self.names:
            raise InvalidStatisticError("the target is also a feature", field_name="features")
        require_coefficients(self.scaling(schema).dimension)
        if self.weights is not None:
            require_weights(schema, self.weights)
        require_bound(self.bound, may_be_null=True)
        if self.q != "auto" and not (
            isinstance(self.q, float) and SMALLEST_Q <= self.q <= LARGEST_Q
        ):
            raise InvalidStatisticError(
                'q must lie between 0.001 and 0.999, or be "auto"', field_name="q"
            )

    def rule(self, schema: Schema) -> Condition:
        """Return the public condition under which a record's target is 1.

        Raises
        ------
        InvalidStatisticError
            An unknown column, a bare name of a column that is not boolean, or a
            condition that does not fit its column.
        """
        if isinstance(self.target, Condition):
            try:
                self.target.codes(schema)
            except InvalidStatisticError as error:
                raise InvalidStatisticError(error.detail, field_name="target") from None
            return self.target
        name = str(self.target)
        column = require_column(schema, name, "target")
        if not (isinstance(column, NumberColumn) and column.boolean):
            raise InvalidStatisticError(_not_boolean(name, column), field_name="target")
        return Condition(column=name, op="==", value=True)

    def planning_ms(self, schema: Schema, _mechanism: str, /) -> float:
        """Return about how many milliseconds of one core a plan takes."""
        return 1 + 0.01 * count_columns(self.features or (), schema) ** 2

    @property
    def exact_bound(self) -> Fraction | None:
        """Return B as the decimal it was written as; None for no limit."""
        return None if self.bound is None else as_written(self.bound)

    def scaling(self, schema: Schema) -> RegressionScaling:
        """Return the public maps between columns and scaled coordinates."""
        return RegressionScaling.build(
            schema, features=self.names, target=None, intercept=self.intercept
        )


def _not_boolean(name: str, column: NumberColumn | CategoryColumn) -> str:
    """Return how to make 0 and 1 of a column that is something else."""
    if isinstance(column, NumberColumn):
        return (
            f"{name} is a number, and a target is true or false: compare it with a threshold, as "
            'in {"column": ..., "op": ">=", "value": ...}, or in a formula (income >= 700) ~ age'
        )
    return (
        f"{name} is a category, and a target is true or false: take one value against the others, "
        'as in {"column": ..., "op": "==", "value": ...}, or in a formula (sex == "f") ~ age'
    )


@dataclass(frozen=True, slots=True)
class SignedCodes:
    """Reads the signed rows (1 - 2 y) (1, a_1/F, ..., a_k/F) of a block, exact in float64.

    With weights each has one entry more, s/F.
    """

    names: tuple[str, ...]
    rule: Condition
    schema: Schema
    weights: Weights | None

    @classmethod
    def of(cls, statistic: LogisticRegression, schema: Schema) -> SignedCodes:
        """Return what reads those of a regression."""
        rule, weights = statistic.rule(schema), weights_of(statistic, schema)
        return cls(statistic.names, rule, schema, weights)

    @property
    def columns(self) -> tuple[str, ...]:
        """Return the names of the columns that are read."""
        return with_weights((*self.names, self.rule.column), self.weights)

    def __call__(self, block: Block) -> Iterator[NDArray[np.float64]]:
        """Yield them in chunks."""
        signs = np.where(self.rule.mask(block, self.schema), -1.0, 1.0)
        for start in range(0, len(signs), EXACT_ROWS):
            rows = slice(start, start + EXACT_ROWS)
            some = {name: block[name][rows] for name in self.columns}
            yield code_chunk(some, self.names, self.weights, signs[rows])
