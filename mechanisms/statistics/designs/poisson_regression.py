"""Poisson regression of a count on bounded columns: log(mean) = coefficients' columns + offset.

``sum_i F(s_i) - (y_i/Y) s_i`` in the scaled coordinates of
:mod:`mechanisms.statistics.designs.scaling`, with Y the target's public upper bound and means
clipped at it. :mod:`mechanisms.objectives.exponential` has the loss, and proves Theorem 5.1's
bounds for it: Delta_inf = 2 (1 if a record is added or removed) and lambda = d.

*Where the ridge pulls to.* log(mean) is ``s + log Y``. With an intercept s is measured from
``-_BELOW``, at the middle of the offset's bounds: the ridge then pulls the mean towards Y / 7.4
where slopes are 0, not towards its ceiling. log Y is public, and rounded to 2**-16.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import ClassVar, Literal

from mechanisms.contract import (
    FieldHint,
    InvalidStatisticError,
    Json,
    meaning,
    require_numbers,
)
from mechanisms.domain import CODE_MAX, NumberColumn, Schema
from mechanisms.probes import FACING, Probe
from mechanisms.statistics.designs.features import Features
from mechanisms.statistics.designs.regression import (
    BOUND,
    HINTS,
    INTERCEPT,
    SHARE_HINT,
    OfFeatures,
    features_field,
    formula_field,
    offset_bounds,
    require_offset,
    require_share,
    share_field,
)
from mechanisms.statistics.designs.scaling import (
    RegressionScaling,
    ScaledColumn,
    coefficient_ranges,
    public_log,
)
from mechanisms.statistics.weights import LOSS_WEIGHTS, Weighing

_LARGEST_RATE = Fraction(3)  # it moves the mean by a factor of 400 between the bounds
_BELOW = Fraction(2)
_PROBED: Json = {
    "kind": "poisson_regression",
    "target": "yes",
    "features": ["x"],
    "intercept": False,
    "bound": 1,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PoissonRegression(OfFeatures):
    """Coefficients (of the log of the mean, per unit of a column) of a count on features."""

    __pydantic_config__: ClassVar[dict[str, object]] = {"extra": "forbid"}
    example: ClassVar[Json] = {
        "kind": "poisson_regression",
        "target": "households",
        "features": ["median_income", "housing_median_age"],
    }
    name: ClassVar[str] = "Poisson regression"
    probes: ClassVar[tuple[Probe, ...]] = (Probe(_PROBED, FACING),)
    hints: ClassVar[Mapping[str, FieldHint]] = {
        **HINTS,
        "offset": FieldHint(
            "Offset",
            "Added to the log of the mean: the log of an exposure. Derive it.",
            rare=True,
            columns="numbers",
        ),
        "q": SHARE_HINT,
    }
    ratios: ClassVar[str] = "rate_ratios"

    kind: Literal["poisson_regression"] = "poisson_regression"
    target: str | None = field(
        default=None,
        metadata=meaning(
            "The count to explain: a number column whose lower bound is 0 or more. Means above its "
            "upper bound are clipped to it."
        ),
    )
    features: Features | None = field(
        default=None, metadata=features_field("At most 100 coefficients.")
    )
    intercept: bool = field(default=True, metadata=INTERCEPT)
    offset: str | None = field(
        default=None,
        metadata=meaning(
            "A number column that is added to the log of the mean with the coefficient 1: the log "
            'of an exposure, as in `"derive": {"log_days": "log(days + 1)"}`. Null for none.',
            example="log_days",
        ),
    )
    bound: float | None = field(default=None, metadata=BOUND)
    q: float | Literal["auto"] = field(default="auto", metadata=share_field())
    formula: str | None = field(default=None, metadata=formula_field(offset=True))
    weights: Weighing = field(default=None, metadata=LOSS_WEIGHTS)

    def check(self, schema: Schema) -> None:
        """Raise :class:`InvalidStatisticError` when the question does not fit the schema."""
        self.require_usual(schema, self.scaling(schema).dimension)
        target = self.counted(schema)
        if target.lower < 0 or target.timed is not None:
            raise InvalidStatisticError(
                f"{self.target} is no count: its lower bound must be 0 or more",
                field_name="target",
            )
        if self.target in self.names:
            raise InvalidStatisticError("the target is also a feature", field_name="features")
        require_offset(schema, self.offset, [str(self.target)], self.names)
        require_share(self.q)

    def counted(self, schema: Schema) -> NumberColumn:
        """Return the target's column."""
        [column] = require_numbers(schema, [str(self.target)], "target")
        return column

    def possible_ranges(self, schema: Schema, _rows: float, /) -> Json:
        """Return up to 3 in the log of the mean, shared by equally strong features."""
        return coefficient_ranges(
            self.scaling(schema), largest=_LARGEST_RATE, bound=self.exact_bound
        )

    def scaling(self, schema: Schema) -> RegressionScaling:
        """Return the public maps between columns and scaled coordinates.

        The log of the mean takes the place of the target: its unit is 1, and its centre where s is
        measured from.
        """
        found = RegressionScaling.build(
            schema, features=self.names, target=None, intercept=self.intercept
        )
        mean = ScaledColumn(
            name=f"log({self.target})",
            largest=CODE_MAX,
            reach=CODE_MAX,
            offset=0,
            factor=1,
            divisor=CODE_MAX,
            centre=self._log_ceiling(schema) - _BELOW - self._offset(schema)[0],
            width=Fraction(1),
        )
        return replace(found, target=mean)

    def start(self, schema: Schema) -> Fraction:
        """Return s where theta is 0 and the offset's code is 0.

        Without an intercept nothing takes up a shift, and theta = 0 stands for the mean 1.
        """
        if self.intercept:
            return -_BELOW
        return self._offset(schema)[0] - self._log_ceiling(schema)

    def offset_width(self, schema: Schema) -> Fraction | None:
        """Return by how much half of the offset's bounds moves s; None without an offset."""
        return None if self.offset is None else self._offset(schema)[1]

    def target_shares(self, schema: Schema) -> tuple[Fraction, Fraction]:
        """Return (m, h): y / Y = m + h b / F."""
        column = self.counted(schema)
        return column.midpoint / column.upper, column.half_width / column.upper

    def _offset(self, schema: Schema) -> tuple[Fraction, Fraction]:
        return offset_bounds(schema, self.offset)

    def _log_ceiling(self, schema: Schema) -> Fraction:
        """Return log Y, Y the target's upper bound."""
        return public_log(self.counted(schema).upper)
