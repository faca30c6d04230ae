"""What every question about rows may hold: columns derived for it, conditions and groups.

    derive: {name: expression, ...}
    where: [condition, ...]
    by: [column, ...]

Derived columns are those of a view of the data (:mod:`mechanisms.views`), which is why they cost
nothing; :func:`viewed` returns the question on that view. Expressions are kept as their one text,
so that two spellings are one question. Conditions and groups say which rows an answer is about, of
the view's columns: :mod:`mechanisms.filtered` and :mod:`mechanisms.grouped`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import isfinite
from typing import Any, ClassVar, Generic, Protocol, TypeVar, cast, runtime_checkable

from mechanisms.contract import InvalidStatisticError, Json, Plan, Statistic, meaning
from mechanisms.domain import Schema
from mechanisms.exact.decimals import as_written
from mechanisms.expressions.definitions import Definition
from mechanisms.expressions.derived import DefinitionError
from mechanisms.expressions.tree import coefficient_name
from mechanisms.privacy import Adjacency
from mechanisms.statistics.cells.parting import BY, WHERE, By, Parting, Where, about_groups
from mechanisms.statistics.conditions import selecting_ms, values_ms
from mechanisms.views import RowView, added_json, part_of

MOST_DERIVED = 100
_LONGEST_NAME = 100

_MS_PER_GROUP = 0.1  # of a plan
_MS_PER_LETTER = 0.012  # measured; to read an expression, and to find its bounds
_MS_PER_CELL = 1e-5  # of a row and a column that is read
_MS_PER_ORDERED = 8e-5  # of a row whose value is sorted among others

S = TypeVar("S", bound=Statistic)
Q = TypeVar("Q", bound="Question")


@dataclass(frozen=True, slots=True, kw_only=True)
class Derived:
    """A column computed from others of its row, with narrower bounds than follow from them."""

    __pydantic_config__: ClassVar[dict[str, object]] = {"extra": "forbid"}

    expr: str = field(
        metadata=meaning(
            "The expression: columns, numbers, + - * / ^, functions, comparisons, in, and, or, "
            "not; see the page on derived columns.",
            example="log(max(income, 1))",
        )
    )
    lower: float | None = field(
        default=None,
        metadata=meaning(
            "The least value, if it is to be more than what follows from the columns' bounds.",
            example=5,
        ),
    )
    upper: float | None = field(
        default=None,
        metadata=meaning(
            "The largest value, if it is to be less than what follows from the columns' bounds.",
            example=8,
        ),
    )

    def definition(self) -> Definition:
        """Return the definition that this is.

        Raises
        ------
        DefinitionError
            It cannot be read, or has a bound that is not finite.
        """
        for part, bound in (("lower", self.lower), ("upper", self.upper)):
            if bound is not None and not isfinite(bound):
                raise DefinitionError("must be a finite number", part)
        return Definition.read(
            self.expr,
            lower=None if self.lower is None else as_written(self.lower),
            upper=None if self.upper is None else as_written(self.upper),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A statistic of rows: of all or of some, in groups or not, with columns derived for it."""

    derive: Mapping[str, str | Derived] = field(
        default_factory=dict,
        metadata=meaning(
            "Columns derived for this question, each from one row alone, by name: an expression, "
            "or one with narrower `lower` and `upper`. They may stand wherever a column may.",
            example={"log_income": "log(income + 1)"},
        ),
    )
    where: Where = field(default=(), metadata=WHERE)
    by: By = field(default=(), metadata=BY)

    def __post_init__(self) -> None:
        object.__setattr__(self, "derive", settled(self.derive))

    @property
    def is_of_all_rows(self) -> bool:
        """Return whether the answer is one, and about every record."""
        return not (self.where or self.by)

    def parting(self, schema: Schema) -> Parting:
        """Return the parts of the rows that the question is about.

        Raises
        ------
        InvalidStatisticError
            Conditions or groups do not fit the schema, or there are too many.
        """
        return Parting.of(self.where, self.by, schema)


def settled(derive: Mapping[str, str | Derived]) -> dict[str, str | Derived]:
    """Return derived columns with each expression as its one text.

    Raises
    ------
    InvalidStatisticError
        One cannot be read, has no proper name, or there are too many.
    """
    if len(derive) > MOST_DERIVED:
        raise InvalidStatisticError(f"derive at most {MOST_DERIVED} columns", field_name="derive")
    found: dict[str, str | Derived] = {}
    for at, (name, wanted) in enumerate(derive.items()):
        if not (1 <= len(name) <= _LONGEST_NAME and name.isprintable()):
            raise InvalidStatisticError(
                f"a name must be printable text of 1 to {_LONGEST_NAME} characters",
                field_name="derive",
            )
        column = Derived(expr=wanted) if isinstance(wanted, str) else wanted
        text = str(_definition(f"derive[{at}]", column).tree)
        bounded = column.lower is not None or column.upper is not None
        found[name] = replace(column, expr=text) if bounded else text
    return found


def _definition(place: str, column: Derived) -> Definition:
    try:
        return column.definition()
    except DefinitionError as error:
        raise InvalidStatisticError(error.detail, field_name=part_of(place, error)) from None


def deriving(statistic: S, derive: Mapping[str, str | Derived]) -> S:
    """Return a question that may use these derived columns too.

    Raises
    ------
    InvalidStatisticError
        It derives another column of such a name, or one of these cannot be read.
    """
    if not derive:
        return statistic
    if not isinstance(statistic, Question):
        raise InvalidStatisticError("this statistic derives no columns", field_name="derive")
    theirs = settled(derive)
    if any(statistic.derive.get(name, wanted) != wanted for name, wanted in theirs.items()):
        raise InvalidStatisticError(
            "the statistic derives another column of one of these names", field_name="derive"
        )
    return replace(statistic, derive={**theirs, **statistic.derive})


@dataclass(frozen=True, slots=True)
class Viewed(Generic[S]):
    """A question about plain columns of a view, which is what mechanisms know.

    ``facts`` are public, and are echoed in ``details`` of the plan.
    """

    statistic: S
    view: RowView
    facts: Json = field(default_factory=dict)

    def plan(self, plan: Plan) -> Plan:
        """Return a plan for the view as one for the data set's own rows."""
        return replace(self.view.plan(plan), details={**plan.details, **self.facts})


@runtime_checkable
class Designed(Protocol):
    """A question that makes columns of its own out of those there are."""

    def designed(self, view: RowView, /) -> Viewed[Any]:
        """Return the same question about plain columns of a wider view."""


def viewed(statistic: S, schema: Schema) -> Viewed[S]:
    """Return a question as mechanisms know it.

    Raises
    ------
    InvalidStatisticError
        A column that is derived for it does not fit the schema.
    """
    derive: Mapping[str, str | Derived] = getattr(statistic, "derive", {})
    definitions = {
        name: _definition("derive", Derived(expr=wanted) if isinstance(wanted, str) else wanted)
        for name, wanted in derive.items()
    }
    places = {
        name: "formula" if _is_formulas(name, each, statistic) else f"derive[{at}]"
        for at, (name, each) in enumerate(definitions.items())
    }
    view, facts = RowView(schema).adding(definitions, places), {}
    if derive:
        statistic = replace(statistic, derive={})  # type: ignore[type-var]
        facts = {"derived": added_json(view, list(derive))}
    if not isinstance(statistic, Designed):
        return Viewed(statistic, view, facts)
    made = statistic.designed(view)
    return Viewed(made.statistic, made.view, {**facts, **made.facts})


def _is_formulas(name: str, definition: Definition, statistic: Statistic) -> bool:
    """Return whether a derived column is the target that stands in a formula, and is named so."""
    target = getattr(statistic, "target", None)
    return name == target == coefficient_name(definition.tree)


def plain(statistic: Q) -> Q:
    """Return the question without conditions and groups."""
    return replace(statistic, where=(), by=())


def check_asked(statistic: Statistic, schema: Schema) -> None:
    """Raise :class:`InvalidStatisticError` when a question, of whatever records, does not fit."""
    if isinstance(statistic, Question) and not statistic.is_of_all_rows:
        statistic.parting(schema)
        schema = replace(schema, selected=True)
        cast(Statistic, plain(statistic)).check(schema)
    else:
        statistic.check(schema)


def planning_ms(statistic: Statistic, schema: Schema, mechanism: str) -> float:
    """Return about how many milliseconds of one core a plan takes, its conditions included."""
    plan_ms = statistic.planning_ms(schema, mechanism)
    if not isinstance(statistic, Question):
        return plan_ms
    groups = about_groups(statistic.by, schema)
    read_ms = _MS_PER_LETTER * letters_derived(statistic)
    return plan_ms + read_ms + values_ms(statistic.where) + _MS_PER_GROUP * groups


def letters_derived(statistic: Statistic) -> int:
    """Return how many letters the expressions of the columns have that are derived for it."""
    derive: Mapping[str, str | Derived] = getattr(statistic, "derive", {})
    texts = (each if isinstance(each, str) else each.expr for each in derive.values())
    return sum(map(len, texts))


def reading_ms(statistic: Question, parting: Parting, schema: Schema) -> float:
    """Return about how many milliseconds it takes to read the parts, by the rows' public bound.

    The library draws for a schema without a bound on its rows too; then they count for nothing.
    """
    known = schema.rows if schema.adjacency is Adjacency.REPLACE_ONE else schema.max_rows
    rows = known or 0
    ordered = _MS_PER_ORDERED if hasattr(statistic, "column") else 0.0
    read = _MS_PER_CELL * len(_columns_read(statistic, parting)) * rows
    return read + ordered * rows + selecting_ms(statistic.where, rows)


def _columns_read(statistic: Question, parting: Parting) -> set[str]:
    """Return the columns by which rows are placed, and of which they are summed or counted."""
    named = [getattr(statistic, name, None) or () for name in ("columns", "features")]
    single = [getattr(statistic, name, None) for name in ("column", "target")]
    each = [*parting.columns, *(str(name) for names in named for name in names)]
    return {*each, *(str(name) for name in single if name is not None)}
