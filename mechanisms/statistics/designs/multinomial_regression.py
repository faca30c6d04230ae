"""Multinomial logistic regression of a category on bounded columns.

``sum_i log sum_l exp(t_il) - t_iy`` in the scaled coordinates of
:mod:`mechanisms.statistics.designs.scaling`, ``t_il = x_i'theta_l`` for each value l but the
reference, whose t is 0. :mod:`mechanisms.objectives.exponential` has the loss, and proves the
bounds of Theorem 5.1 for it, whose Hessians have a rank above one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import ClassVar, Literal

import numpy as np

from mechanisms.contract import (
    Block,
    FieldHint,
    InvalidStatisticError,
    Json,
    Outcome,
    meaning,
    require_column,
)
from mechanisms.domain import CategoryColumn, Schema
from mechanisms.exact.floats import Floats
from mechanisms.probes import STEEP, Probe
from mechanisms.statistics.designs.features import Features, count_columns
from mechanisms.statistics.designs.regression import (
    HINTS,
    SHARE_HINT,
    OfFeatures,
    features_field,
    formula_field,
    require_share,
    share_field,
)
from mechanisms.statistics.designs.scaling import (
    RegressionScaling,
    ScaledColumn,
    coefficient_ranges,
)
from mechanisms.statistics.weights import LOSS_WEIGHTS, Weighing
from mechanisms.words import no_value

_LARGEST_LOGIT = Fraction(4)  # it moves the odds by a factor of 3000 between the

_PROBED: Json = {
    "kind": "multinomial_regression",
    "target": "group",
    "features": ["x"],
    "intercept": False,
    "bound": 1,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class MultinomialRegression(OfFeatures):
    """Coefficients (log-odds against a reference, per unit of a column) of a category."""

    __pydantic_config__: ClassVar[dict[str, object]] = {"extra": "forbid"}
    example: ClassVar[Json] = {
        "kind": "multinomial_regression",
        "target": "ocean_proximity",
        "features": ["median_income", "housing_median_age"],
        "reference": "INLAND",
    }
    probes: ClassVar[tuple[Probe, ...]] = (Probe(_PROBED, STEEP),)
    hints: ClassVar[Mapping[str, FieldHint]] = {
        **HINTS,
        "q": SHARE_HINT,
        "reference": FieldHint(
            "Reference", "The value that all others are compared with. Empty: the first.", rare=True
        ),
    }
    ratios: ClassVar[str] = "odds_ratios"
    explains_category: ClassVar[bool] = True

    kind: Literal["multinomial_regression"] = "multinomial_regression"
    target: str | None = field(
        default=None,
        metadata=meaning("A category column: which of its values a record has is explained."),
    )
    features: Features | None = field(
        default=None,
        metadata=features_field("At most 100 coefficients, those of all values together."),
    )
    reference: str | None = field(
        default=None,
        metadata=meaning(
            "The declared value of the target that all others are compared with; null is the "
            "first.",
            example="INLAND",
        ),
    )
    intercept: bool = field(
        default=True,
        metadata=meaning(
            "Whether a constant is fitted too for each value but the reference; each counts as a "
            "coefficient.",
            example=True,
        ),
    )
    bound: float | None = field(
        default=None,
        metadata=meaning(
            "Limit of the l1 norm of all coefficients in scaled columns (each on [-1, 1]), "
            "intercepts included. Between 0.000001 and 1000000. Null is no limit.",
            example=10,
        ),
    )
    q: float | Literal["auto"] = field(default="auto", metadata=share_field())
    formula: str | None = field(default=None, metadata=formula_field())
    weights: Weighing = field(default=None, metadata=LOSS_WEIGHTS)

    def check(self, schema: Schema) -> None:
        """Raise :class:`InvalidStatisticError` when the question does not fit the schema."""
        levels = self.levels(schema)
        self.require_usual(schema, len(levels) * self.plain_scaling(schema).dimension)
        require_share(self.q)

    def levels(self, schema: Schema) -> tuple[str, ...]:
        """Return the declared values but the reference, in their order.

        Raises
        ------
        InvalidStatisticError
            The target is no category of two values or more, or the reference is none of them.
        """
        reference = self.reference_of(schema)
        return tuple(value for value in self._category(schema).values if value != reference)

    def marks(self, schema: Schema) -> LevelMarks:
        """Return the reader of which level a record has."""
        column = self._category(schema)
        order = (self.reference_of(schema), *self.levels(schema))
        places = [order.index(value) for value in column.values]
        return LevelMarks(str(self.target), np.array(places, dtype=np.float64))

    def _category(self, schema: Schema) -> CategoryColumn:
        column = require_column(schema, str(self.target), "target")
        if not isinstance(column, CategoryColumn) or len(column.values) < 2:
            raise InvalidStatisticError(
                f"{self.target} is no category of two values or more; logistic_regression takes "
                "a boolean or a condition",
                field_name="target",
            )
        return column

    def reference_of(self, schema: Schema) -> str:
        """Return the declared value that the others are compared with."""
        column = self._category(schema)
        if self.reference is None:
            return column.values[0]
        found = column.value_of(self.reference)
        if found is None:
            raise InvalidStatisticError(
                no_value(str(self.target), column.values, self.reference), field_name="reference"
            )
        return found

    def answer_numbers(self, schema: Schema, /) -> int:
        """Return about how many numbers an answer has: those of a logistic one for each level."""
        column = schema.columns.get(str(self.target))
        levels = len(column.values) - 1 if isinstance(column, CategoryColumn) else 1
        return levels * OfFeatures.answer_numbers(self, schema)

    def possible_ranges(self, schema: Schema, _rows: float, /) -> Json:
        """Return up to log-odds of 4, shared by equally strong features."""
        plain = coefficient_ranges(
            self.plain_scaling(schema), largest=_LARGEST_LOGIT, bound=self.exact_bound
        )
        return self.scaling(schema).by_level(plain)

    def planning_ms(self, schema: Schema, _mechanism: str, /) -> float:
        """Return about how many milliseconds of one core a plan takes."""
        return 10 + 0.01 * count_columns(self.features or (), schema) ** 2

    def plain_scaling(self, schema: Schema) -> RegressionScaling:
        """Return the public maps between columns and scaled coordinates of one level."""
        return RegressionScaling.build(
            schema, features=self.names, target=None, intercept=self.intercept
        )

    def scaling(self, schema: Schema) -> LevelScaling:
        """Return those of all levels."""
        return LevelScaling(self.plain_scaling(schema), self.levels(schema))


@dataclass(frozen=True, slots=True)
class LevelScaling:
    """The public maps of a regression with one part of theta for each level.

    A coefficient is called as R's ``multinom`` calls it: ``level:term``.
    """

    plain: RegressionScaling
    levels: tuple[str, ...]

    @property
    def dimension(self) -> int:
        """Return d, the coefficients of all levels."""
        return len(self.levels) * self.plain.dimension

    @property
    def features(self) -> tuple[ScaledColumn, ...]:
        """Return the scaled columns."""
        return self.plain.features

    @property
    def target(self) -> None:
        """Return None: a category is not scaled."""
        return None

    @property
    def intercept(self) -> bool:
        """Return whether each level has a constant."""
        return self.plain.intercept

    @property
    def columns(self) -> tuple[str, ...]:
        """Return the columns that are read as numbers."""
        return self.plain.columns

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of the d coefficients, in theta's order."""
        return tuple(f"{level}:{name}" for level in self.levels for name in self.plain.names)

    def unscale(self, theta: Sequence[Fraction]) -> dict[str, Fraction]:
        """Return coefficients in column units, exactly, from theta (length d)."""
        size = self.plain.dimension
        return {
            f"{level}:{name}": exact
            for at, level in enumerate(self.levels)
            for name, exact in self.plain.unscale(theta[at * size : (at + 1) * size]).items()
        }

    def scaled(self, coefficients: Mapping[str, Fraction]) -> list[Fraction]:
        """Return the theta that these coefficients stand for, exactly."""
        return [
            entry
            for level in self.levels
            for entry in self.plain.scaled(
                {name: coefficients[f"{level}:{name}"] for name in self.plain.names}
            )
        ]

    def released(self, theta: Sequence[Fraction]) -> Outcome:
        """Return the answer made of sanitized coefficients, whose noise has no stated law."""
        value = {name: float(exact) for name, exact in self.unscale(theta).items()}
        return Outcome(value={"coefficients": value}, noise=None)

    def grid(self, step: Fraction, *, intercept: bool = False) -> Json:
        """Return the steps of the coefficients where theta lies on a grid of this step."""
        return self.by_level(self.plain.grid(step, intercept=intercept))

    def by_level(self, plain: Json) -> Json:
        """Return what is said of each coefficient of one level, for every level."""
        own: Mapping[str, object] = plain["coefficients"]  # type: ignore[assignment]
        found = {f"{level}:{name}": each for level in self.levels for name, each in own.items()}
        return {**plain, "coefficients": found}


@dataclass(frozen=True, slots=True, eq=False)
class LevelMarks:
    """Reads the level of each record of a block: 0 for the reference."""

    target: str
    places: Floats

    @property
    def columns(self) -> tuple[str, ...]:
        """Return the names of the columns that are read."""
        return (self.target,)

    @property
    def width(self) -> int:
        """Return how many marks a record has."""
        return 1

    def __call__(self, block: Block) -> Floats:
        """Return the marks, 1 x n."""
        return self.places[block[self.target]][None, :]
