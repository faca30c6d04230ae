"""Logistic regression of a 0/1 target on bounded columns.

``sum_i log(1 + exp(theta'x_i)) - y_i theta'x_i`` in the scaled coordinates of
:mod:`mechanisms.statistics.designs.scaling`, |x_ij| <= 1, y_i in {0, 1}.

*Sensitivity.* A record's gradient is ``(sigmoid(theta'x) - y) x``, each entry in
(-1, 1) whatever theta. Hence for two records at the same theta

    Delta_inf <= 2,    Delta_2 <= 2 sqrt(d),    Delta_1 <= 2 d,

and half of each when a record is added or removed. Delta_inf is attained in the
limit of a long theta for d >= 2 (Awan & Slavkovic, section 5.1); the other two
are upper bounds, since one of the d entries can then change by no more than 1.
With a bound B it is 2 sigmoid(B), and with one coefficient at most 1.052
(:func:`mechanisms.objectives.losses.logistic_loss`).
The Hessian ``s (1 - s) x x'`` has rank one and the eigenvalue at most
``lambda = d / 4``, attained at theta = 0.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from mechanisms.contract import (
    Block,
    ErrorLaw,
    FieldHint,
    InvalidStatisticError,
    Json,
    meaning,
    require_column,
)
from mechanisms.domain import EXACT_ROWS, CategoryColumn, NumberColumn, Schema, exact
from mechanisms.expressions.parsing import parse
from mechanisms.expressions.tree import coefficient_name
from mechanisms.probes import STEEP, Probe
from mechanisms.statistics.cells.possible import require_both
from mechanisms.statistics.cells.spelling import condition_of, spelled_condition
from mechanisms.statistics.conditions import Condition
from mechanisms.statistics.designs.features import Features, names_in
from mechanisms.statistics.designs.regression import (
    BOUND,
    HINTS,
    INTERCEPT,
    SHARE_HINT,
    OfFeatures,
    features_field,
    formula_field,
    require_share,
    share_field,
)
from mechanisms.statistics.designs.rows import code_chunk, with_weights
from mechanisms.statistics.designs.scaling import RegressionScaling, coefficient_ranges
from mechanisms.statistics.questions import widened
from mechanisms.statistics.weights import LOSS_WEIGHTS, Weighing, Weights, weights_of
from mechanisms.words import worded

_LARGEST_LOGIT = Fraction(4)  # it moves the odds by a factor of 3000 between the bounds
_PROBED: Json = {
    "kind": "logistic_regression",
    "target": "yes",
    "features": ["x"],
    "intercept": False,
    "bound": 1,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class LogisticRegression(OfFeatures):
    """Coefficients (log-odds per unit of a column) of a 0/1 target on features."""

    __pydantic_config__: ClassVar[dict[str, object]] = {"extra": "forbid"}
    example: ClassVar[Json] = {
        "kind": "logistic_regression",
        "target": {"column": "median_house_value", "op": ">=", "value": 200000},
        "features": ["median_income", "housing_median_age"],
    }

    probes: ClassVar[tuple[Probe, ...]] = (Probe(_PROBED, STEEP),)
    hints: ClassVar[Mapping[str, FieldHint]] = {
        **HINTS,
        "q": SHARE_HINT,
    }
    error_law: ClassVar[ErrorLaw] = "logistic loss"
    ratios: ClassVar[str] = "odds_ratios"
    compares_target: ClassVar[bool] = True

    kind: Literal["logistic_regression"] = "logistic_regression"
    target: str | Condition | None = field(
        default=None,
        metadata=meaning(
            "A boolean column, or a public condition that turns a column into 0 and 1."
        ),
    )
    features: Features | None = field(
        default=None,
        metadata=features_field("At most 100 coefficients."),
    )
    intercept: bool = field(default=True, metadata=INTERCEPT)
    bound: float | None = field(default=None, metadata=BOUND)
    q: float | Literal["auto"] = field(default="auto", metadata=share_field())

    formula: str | None = field(default=None, metadata=formula_field())
    weights: Weighing = field(default=None, metadata=LOSS_WEIGHTS)

    def spelled(self, schema: Schema, /) -> Mapping[str, object]:
        """Return the fields that have several spellings, each in one; the target among them.

        The target that a formula compares, as in ``(income >= 700) ~ age``, is that condition.
        """
        wider, asked = widened(self, schema), self
        condition = self._compared(wider)
        if condition is not None:
            rest = {name: each for name, each in self.derive.items() if name != self.target}
            asked = replace(self, target=condition, derive=rest)
        fields, target = OfFeatures.spelled(asked, schema), asked.target
        if isinstance(target, Condition):
            asked.rule(wider)
            target = spelled_condition(target, wider)
            if target.op == "==" and target.value is True:
                target = target.column
        return {**fields, "target": target}

    def _compared(self, schema: Schema) -> Condition | None:
        """Return the condition that a formula's target is, if it is one and has no other use."""
        name = self.target
        expression = self.derive.get(name) if isinstance(name, str) else None
        if not isinstance(expression, str):
            return None
        tree = parse(expression)
        condition = condition_of(tree)
        if condition is None or name != coefficient_name(tree) or name in self._read():
            return None
        try:
            condition.comparison(schema)
        except InvalidStatisticError:
            return None
        return condition

    def _read(self) -> set[str]:
        """Return the columns that conditions, groups, features and derived columns read."""
        found = {each.column for each in self.where}
        found |= {each if isinstance(each, str) else each.column for each in self.by}
        texts = [each if isinstance(each, str) else each.expr for each in self.derive.values()]
        return found.union(names_in(self.features or ()), *(parse(each).columns for each in texts))

    def check(self, schema: Schema) -> None:
        """Raise :class:`InvalidStatisticError` when the question does not fit the schema."""
        rule = self.rule(schema)
        if rule.column in self.names:
            raise InvalidStatisticError("the target is also a feature", field_name="features")
        self.require_usual(schema, self.scaling(schema).dimension)
        require_share(self.q)

    def rule(self, schema: Schema) -> Condition:
        """Return the public condition under which a record's target is 1.

        Raises
        ------
        InvalidStatisticError
            An unknown column, a bare name of a column that is not boolean, or a
            condition that does not fit its column.
        """
        if isinstance(self.target, Condition):
            require_both(self.target, (), schema)
            try:
                self.target.numbers(schema)
            except InvalidStatisticError as error:
                raise InvalidStatisticError(error.detail, field_name="target") from None
            return self.target
        name = str(self.target)
        column = require_column(schema, name, "target")
        if not (isinstance(column, NumberColumn) and column.boolean):
            raise InvalidStatisticError(_not_boolean(name, column), field_name="target")
        return Condition(column=name, op="==", value=True)

    def relation(self) -> tuple[str, tuple[str, ...]] | None:
        """Return the target as explained by the features."""
        target = self.target
        return target.column if isinstance(target, Condition) else str(target), self.names

    def possible_ranges(self, schema: Schema, _rows: float, /) -> Json:
        """Return up to log-odds of 4, shared by equally strong features."""
        return coefficient_ranges(
            self.scaling(schema), largest=_LARGEST_LOGIT, bound=self.exact_bound
        )

    def scaling(self, schema: Schema) -> RegressionScaling:
        """Return the public maps between columns and scaled coordinates."""
        return RegressionScaling.build(
            schema, features=self.names, target=None, intercept=self.intercept
        )

    def row_scaling(self, schema: Schema) -> RegressionScaling:
        """Return the same maps: records are read one by one."""
        return self.scaling(schema)

    def code_rows(self, schema: Schema) -> SignedCodes:
        """Return the reader of records' codes, signed by their targets."""
        return SignedCodes.of(self, schema)


def _not_boolean(name: str, column: NumberColumn | CategoryColumn) -> str:
    """Return how to make 0 and 1 of a column that is something else."""
    if isinstance(column, NumberColumn):
        return worded(
            "%(name)s is a number, and a target is true or false: compare it with a threshold, as "
            'in {"column": ..., "op": ">=", "value": ...}, or in a formula (income >= 700) ~ age',
            name=name,
        )
    return worded(
        "%(name)s is a category, and a target is true or false: take one value against the "
        'others, as in {"column": ..., "op": "==", "value": ...}, or in a formula (sex == "f") ~ '
        "age",
        name=name,
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
        """Return the reader for a regression."""
        rule, weights = statistic.rule(schema), weights_of(statistic, schema)
        return cls(statistic.names, rule, schema, weights)

    @property
    def columns(self) -> tuple[str, ...]:
        """Return the names of the columns that are read."""
        return (*with_weights(self.names, self.weights), exact(self.rule.column))

    def __call__(self, block: Block) -> Iterator[NDArray[np.float64]]:
        """Yield them in chunks."""
        signs = np.where(self.rule.mask(block, self.schema), -1.0, 1.0)
        for start in range(0, len(signs), EXACT_ROWS):
            rows = slice(start, start + EXACT_ROWS)
            some = {name: block[name][rows] for name in with_weights(self.names, self.weights)}
            yield code_chunk(some, self.names, self.weights, signs[rows])
