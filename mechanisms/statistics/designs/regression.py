"""Common parts of regression questions: canonical features, and the design they make."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any, ClassVar, Literal, Protocol, TypeVar, cast

from mechanisms.contract import (
    FieldHint,
    InvalidStatisticError,
    Json,
    NearZero,
    Statistic,
    meaning,
    require_numbers,
)
from mechanisms.domain import Schema
from mechanisms.exact.fractions import as_written
from mechanisms.statistics.cells.spelling import Derived
from mechanisms.statistics.designs.boxes import (
    MAX_COEFFICIENTS,
    require_bound,
    require_coefficients,
)
from mechanisms.statistics.designs.features import (
    Feature,
    Features,
    Terms,
    count_columns,
    plain_names,
    settled_features,
    spelled_features,
    terms_of,
)
from mechanisms.statistics.designs.formula import Formula, read_formula
from mechanisms.statistics.designs.scaling import RegressionScaling, ScaledColumn
from mechanisms.statistics.questions import Question, Viewed, widened
from mechanisms.statistics.weights import require_weights
from mechanisms.views import RowView

BaseMeasureName = Literal["auto", "flat"]

HINTS: Mapping[str, FieldHint] = {
    "bound": FieldHint(
        "Bound",
        "Limit of the coefficients' absolute sum in scaled columns. Empty: the usual one.",
        rare=True,
    ),
    "formula": FieldHint(
        "Formula",
        "In place of target, features and intercept, as R writes it. A star is an interaction: "
        "food ~ age * region + log(income).",
    ),
}
"""What forms call the common fields of regressions."""

SHARE_HINT = FieldHint(
    "Share of the tilt",
    "Of objective perturbation: 0.001 to 0.999. Empty: a public rule.",
    rare=True,
)
SMALLEST_Q, LARGEST_Q = 0.001, 0.999
BASE_MEASURE_HINT = FieldHint("Base measure", "Only for the mechanism kng.", rare=True)
INTERCEPT = meaning("Whether a constant is fitted too; it counts as a coefficient.", example=True)
BOUND = meaning(
    "Limit of the l1 norm of the coefficients in scaled columns (each on [-1, 1]), the intercept "
    "included. Between 0.000001 and 1000000. Null is no limit.",
    example=10,
)


class OnFeatures(Statistic, Protocol):
    """A question whose features may be more than columns.

    Its ``scaling`` has the public maps between columns and scaled coordinates.
    """

    @property
    def features(self) -> tuple[Feature, ...] | None: ...
    @property
    def intercept(self) -> bool: ...


class Regression(OnFeatures, Protocol):
    """One with a target."""

    @property
    def derive(self) -> Mapping[str, str | Derived]: ...
    @property
    def formula(self) -> str | None: ...
    @property
    def target(self) -> object: ...


class OfFeatures(Question):
    """A question whose answer has a coefficient for each of its features."""

    __slots__ = ()
    mechanisms: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "objective_perturbation": ("linf", "l2", "l1"),
    }
    limits: ClassVar[Mapping[str, int]] = {"coefficients": MAX_COEFFICIENTS}
    near_zero: ClassVar[NearZero] = "no effect"
    has_bound: ClassVar[bool] = False
    """Whether coefficients are within a bound in any case."""
    features: Features | None
    bound: float | None
    weights: str | None

    def __post_init__(self) -> None:
        Question.__post_init__(self)
        settle(cast("Regression", self))

    def spelled(self, schema: Schema, /) -> Mapping[str, object]:
        """Return the fields that have several spellings, each in one."""
        features = spelled_features(self.features or (), widened(cast("Statistic", self), schema))
        return {**Question.spelled(self, schema), "features": features}

    def designed(self, view: RowView, /) -> Viewed[Any]:
        """Return the regression on plain columns of a wider view."""
        return designed(cast("OnFeatures", self), view)

    @property
    def names(self) -> tuple[str, ...]:
        """Return the features' names, once they are plain columns."""
        return plain_names(self.features)

    @property
    def divided_by(self) -> tuple[tuple[str, ...], ...]:
        """Return each feature twice: a slope is divided by its variance."""
        return tuple((name, name) for name in self.names)

    @property
    def exact_bound(self) -> Fraction | None:
        """Return B as the decimal it was written as; None for no limit."""
        return None if self.bound is None else as_written(self.bound)

    def require_usual(self, schema: Schema, coefficients: int) -> None:
        """Refuse too many coefficients, and weights or a bound that do not fit.

        Raises
        ------
        InvalidStatisticError
            As said.
        """
        require_coefficients(coefficients)
        if self.weights is not None:
            require_weights(schema, self.weights)
        require_bound(self.bound, may_be_null=not self.has_bound)

    def answer_numbers(self, _schema: Schema, /) -> int:
        """Return about how many numbers an answer has, ratios among them where it has any."""
        each = 2 if self.ratios else 1
        return each * len(self.features or ()) + 1

    def relation(self) -> tuple[str, tuple[str, ...]] | None:
        """Return the target as explained by the features."""
        return str(cast("Regression", self).target), self.names

    def planning_ms(self, schema: Schema, _mechanism: str, /) -> float:
        """Return about how many milliseconds of one core a plan takes."""
        return 1 + 0.01 * count_columns(self.features or (), schema) ** 2


R = TypeVar("R", bound=OnFeatures)


def features_field(limits: str) -> Json:
    """Return the catalog's text on the features; ``limits`` is a sentence about their number."""
    return meaning(
        "What explains the target, none of it the target itself: columns' names; a category with "
        'the level that others are compared with, `{"column": ..., "reference": ...}` (by its name '
        'alone, the first); `{"log": ...}` of a column; `{"expr": ...}`, an expression; and '
        f'`{{"product": [...]}}` of those, an interaction. {limits}'
    )


def base_measure_field() -> Json:
    """Return the catalog's text on the base measure."""
    return meaning(
        "Of `kng` alone: the measure that its density refers to. `auto` gives long "
        "coefficients less weight, (1 + their l1 norm)^-p, with p by their number; "
        "`flat` gives all within the bound the same, as the paper does, and errs more "
        "where rows are few.",
        example="auto",
    )


def share_field() -> Json:
    """Return the catalog's text on the tilt's share of epsilon."""
    return meaning(
        "The share of epsilon spent on the tilt, between 0.001 and 0.999. `auto` takes a "
        "public rule, which the preview shows.",
        example="auto",
    )


def require_share(q: float | str) -> None:
    """Refuse a share of the tilt that is out of range."""
    if q != "auto" and not (isinstance(q, float) and SMALLEST_Q <= q <= LARGEST_Q):
        raise InvalidStatisticError(
            'q must lie between 0.001 and 0.999, or be "auto"', field_name="q"
        )


def formula_field(*, offset: bool = False) -> Json:
    """Return the catalog's text on the formula, which may have an offset."""
    return meaning(
        "In place of `target`, `features` and `intercept`: target ~ features as R writes it, with "
        "`+ - : * ^`, `- 1` for no intercept, `I()`, `log()` and `C(column, ref=value)`"
        f"{'' if not offset else ', and `offset()` in place of `offset`'}. It is stored "
        "and answered as those fields.",
        example="foodexp ~ log(income + 1)",
    )


def settle(statistic: Regression) -> None:
    """Bring a question under construction into its canonical form: the fields of its formula.

    Raises
    ------
    InvalidStatisticError
        There is no target or are no features, or one cannot be read.
    """
    if statistic.formula is not None:
        _take_formula(statistic, statistic.formula)
    for name, value in (("target", statistic.target), ("features", statistic.features)):
        if value is None:
            raise InvalidStatisticError("is required, or a formula is", field_name=name)
    # the class is frozen, and is being made
    object.__setattr__(statistic, "features", settled_features(statistic.features or ()))


def _take_formula(statistic: Regression, text: str) -> None:
    """Set the fields that a formula stands for."""
    if statistic.target is not None or statistic.features is not None or not statistic.intercept:
        raise InvalidStatisticError(
            "a formula holds target, features and intercept: leave those out", field_name="formula"
        )
    found = read_formula(text)
    values = {
        "target": found.target,
        "features": found.features,
        "intercept": found.intercept,
        "formula": None,
        **of_formula(statistic, found),
    }
    for name, value in values.items():
        object.__setattr__(statistic, name, value)


def of_formula(statistic: Any, found: Formula) -> Mapping[str, object]:
    """Return the columns that a formula derives, and its offset if it has one.

    Raises
    ------
    InvalidStatisticError
        Another derived column has such a name; the regression takes no offset, or has one.
    """
    derive = dict(statistic.derive)
    for name, expression in found.definitions.items():
        if derive.setdefault(name, expression) != expression:
            raise InvalidStatisticError(
                f"a derived column has the name {name}, which the formula gives to another",
                field_name="derive",
            )
    if found.offset is None:
        return {"derive": derive}
    if not hasattr(statistic, "offset"):
        raise InvalidStatisticError(
            f"{statistic.kind} takes no offset: poisson_regression and cox_regression do",
            field_name="formula",
        )
    if statistic.offset is not None:
        raise InvalidStatisticError("a formula holds the offset: leave it out", field_name="offset")
    return {"derive": derive, "offset": found.offset}


def require_offset(
    schema: Schema, offset: str | None, explained: Sequence[str], features: Collection[str]
) -> None:
    """Refuse an offset that is no number, that is explained, or a feature."""
    if offset is None:
        return
    if offset in explained or offset in features:
        raise InvalidStatisticError(
            "the offset is the target or a feature"
            if len(explained) == 1
            else "the offset is the time, the event or a feature",
            field_name="offset",
        )
    require_numbers(schema, [offset], "offset")


def offset_bounds(schema: Schema, offset: str | None) -> tuple[Fraction, Fraction]:
    """Return the midpoint and the half-width of the offset's bounds, both 0 without one."""
    if offset is None:
        return Fraction(0), Fraction(0)
    [column] = require_numbers(schema, [offset], "offset")
    return column.midpoint, column.half_width


def designed(statistic: R, view: RowView) -> Viewed[R]:
    """Return a regression on plain columns of a wider view, and what its answer echoes.

    Raises
    ------
    InvalidStatisticError
        A feature does not fit the view's schema.
    """
    terms = terms_of(statistic.features or (), view.schema, intercept=statistic.intercept)
    definitions = terms.definitions()
    wider = view.adding(definitions, dict.fromkeys(definitions, "features"))
    names = tuple(each.name for each in terms.coefficients)
    plain: Any = replace(statistic, features=names)  # type: ignore[type-var]
    return Viewed(plain, wider, {"design": _design_json(plain.scaling(wider.schema), terms)})


def _design_json(scaling: RegressionScaling, terms: Terms) -> dict[str, object]:
    """Return the design as it is regressed on, ready for JSON."""
    return {
        "intercept": scaling.intercept,
        "terms": [
            {
                "coefficient": term.name,
                "expr": str(term.node),
                "levels": dict(term.levels),
                **_scaled(column),
            }
            for term, column in zip(terms.coefficients, scaling.features, strict=True)
        ],
        "references": dict(terms.references),
        "target": None
        if scaling.target is None
        else {"column": scaling.target.name, **_scaled(scaling.target)},
    }


def _scaled(column: ScaledColumn) -> dict[str, object]:
    """Return a column's bounds, and its scaled form (value - centre) / width."""
    ends = (column.centre + column.width * column.scale(code) for code in column.ends)
    return {
        "bounds": [float(end) for end in ends],
        "centre": float(column.centre),
        "width": float(column.width),
    }
