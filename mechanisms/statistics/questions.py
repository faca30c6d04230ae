"""The common fields of questions about rows: derived columns, conditions and groups.

    derive: {name: expression, ...}
    where: [condition, ...]
    by: [column, ...]

Derived columns are columns of a view of the data (:mod:`mechanisms.views`), so they cost nothing;
:func:`viewed` returns the question on that view. Expressions are stored as their canonical text, so
two spellings are one question. Conditions and groups select the rows of an answer, by the view's
columns: :mod:`mechanisms.filtered` and :mod:`mechanisms.grouped`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Generic, Literal, Protocol, TypeVar, cast, runtime_checkable

from mechanisms.contract import InvalidStatisticError, Json, Statistic, meaning
from mechanisms.domain import CategoryColumn, Schema, column_named
from mechanisms.expressions.derived import Definition
from mechanisms.expressions.tree import coefficient_name
from mechanisms.privacy import Adjacency
from mechanisms.statistics.cells.parting import (
    BY,
    WHERE,
    By,
    Parting,
    Where,
    about_groups,
    columns_named,
    columns_of,
    dropping,
    is_of_each_column,
)
from mechanisms.statistics.cells.possible import constants, require_both, warnings_of
from mechanisms.statistics.cells.spelling import (
    Derived,
    definition_of,
    settled,
    spelled_by,
    spelled_expression,
    spelled_where,
)
from mechanisms.statistics.conditions import PRESENCE, Condition, selecting_ms, values_ms
from mechanisms.statistics.facts.defaults import Facts
from mechanisms.statistics.weights import UNWEIGHTED
from mechanisms.views import RowView, added_json
from mechanisms.words import worded

_MS_PER_GROUP = 0.1  # of a plan
_MS_PER_LETTER = 0.012  # measured; to read an expression, and to find its bounds
_MS_PER_CELL = 1e-5  # of a row and a column that is read
_MS_PER_ORDERED = 8e-5  # of a row whose value is sorted among others

Missing = Literal["complete", "available", "cell"]

_MISSING = meaning(
    "What becomes of records that lack a value, in columns that keep their missing cells. "
    "`complete`: the answer is about the records that have all values it needs. `available`: each "
    "column's number is about the records that have a value of that column (mean, sum, variance "
    "and std of several columns). `cell`: categories of a histogram and of `by` have one cell "
    "more, for the records without a value.",
    example="complete",
)

S = TypeVar("S", bound=Statistic)
Q = TypeVar("Q", bound="Question")


@dataclass(frozen=True, slots=True, kw_only=True)
class Question(Facts):
    """A statistic of rows: of all or of some, in groups or not, with columns derived for it."""

    derive: Mapping[str, str | Derived] = field(
        default_factory=dict,
        metadata=meaning(
            "Columns derived for this question, each from one row alone, by name: an expression, "
            "or one with narrower `lower` and `upper`. They may be used wherever a column may.",
            example={"log_income": "log(income + 1)"},
        ),
    )
    where: Where = field(default=(), metadata=WHERE)
    by: By = field(default=(), metadata=BY)
    missing: Missing = field(default="complete", metadata=_MISSING)

    def __post_init__(self) -> None:
        object.__setattr__(self, "derive", settled(self.derive))

    @property
    def divided_by(self) -> tuple[tuple[str, ...], ...]:
        """Return the columns whose standard deviations a number is divided by, for each number.

        How far values spread then decides how exact the number is. It is asked of a question as
        mechanisms know it.
        """
        return ()

    @property
    def is_of_all_rows(self) -> bool:
        """Return whether the answer is one, and about every record."""
        return not (self.where or self.by)

    def spelled(self, schema: Schema, /) -> Mapping[str, object]:
        """Return conditions, groups and derived columns in their one spelling.

        Raises
        ------
        InvalidStatisticError
            They do not fit the schema.
        """
        wider = widened(cast(Statistic, self), schema)
        found = {
            "derive": _spelled_derive(self.derive, wider),
            "where": spelled_where(self.where, wider),
            "by": spelled_by(self.by, wider),
            **_spelled_weights(self, schema),
        }
        return {**found, **_spelled_missing(self, schema, wider)}

    def parting(self, schema: Schema) -> Parting:
        """Return the parts of the rows that the question is about.

        Raises
        ------
        InvalidStatisticError
            Conditions or groups do not fit the schema, or there are too many; no record can meet
            the conditions, or they leave one value of a column that is asked about.
        """
        parting = Parting.of(self.where, self.by, schema)
        _require_varying(self, schema)
        return parting

    def warnings(self, schema: Schema) -> list[str]:
        """Return warnings for the caller, from public facts; the question must fit the schema."""
        found = list(warnings_of(self.where, self.parting(schema).axes, schema))
        fixed = constants(self.where, _single_values(self.by), schema)
        return [
            *found,
            *(
                worded("A column is asked about that is constant: %(why)s.", why=fixed[name])
                for name in _asked_about(self)
                if name in fixed
            ),
        ]

    def dropping(self, schema: Schema, /) -> Where:
        """Return further conditions, under which a record is not left out by edges."""
        return dropping(self.by, schema)


def _single_values(by: By) -> list[str]:
    return [each for each in by if isinstance(each, str)]


def _require_varying(statistic: Question, schema: Schema) -> None:
    """Refuse what nothing can be found out about: all that is asked about is one public value.

    Raises
    ------
    InvalidStatisticError
        As said; the message names a column and what fixes it.
    """
    fixed = constants(statistic.where, _single_values(statistic.by), schema)
    asked = _asked_about(statistic)
    varying = {place: sum(name not in fixed for name, at in asked.items() if at == place)
               for place in asked.values()}  # fmt: skip
    for name, place in asked.items():
        if name in fixed and place != "features" and varying[place] < _least_columns(statistic):
            why = fixed[name]
            raise InvalidStatisticError(
                f"{why}, and nothing is to be found out about it; leave it out of {place}, or ask "
                "for a count",
                field_name=place,
            )
    target = getattr(statistic, "target", None)
    if isinstance(target, Condition):
        require_both(target, statistic.where, schema)


def _least_columns(statistic: object) -> int:
    """Return how many columns that vary an answer is about at least."""
    return int(getattr(statistic, "least_columns", 1))


def _asked_about(statistic: object) -> dict[str, str]:
    """Return the columns whose values a question is about, and the field that each is in."""
    fields = ("columns", "column", "target", "features")
    named = ((place, getattr(statistic, place, None)) for place in fields)
    lists = ((place, [value] if isinstance(value, str) else value) for place, value in named)
    return {
        name: place
        for place, names in lists
        if isinstance(names, tuple | list)
        for name in names
        if isinstance(name, str)
    }


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


def canonical_ms(statistic: Statistic) -> float:
    """Return about how many milliseconds of one core it takes to spell a question in one way.

    See :func:`mechanisms.statistics.cells.spelling.canonical`.
    """
    where: Where = getattr(statistic, "where", ())
    # expressions are read for the spelling, and when the question is made again
    return 0.1 + 2 * (_MS_PER_LETTER * letters_derived(statistic) + values_ms(where))


@dataclass(frozen=True, slots=True)
class Viewed(Generic[S]):
    """A question about plain columns of a view, which is what mechanisms know.

    ``facts`` are public, and are echoed in ``details`` of the plan.
    """

    statistic: S
    view: RowView
    facts: Json = field(default_factory=dict)


@runtime_checkable
class Several(Protocol):
    """Several questions in one."""

    @property
    def parts(self) -> tuple[Any, ...]:
        """Return them, each as the ``statistic`` of a dataclass."""


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
    view, facts = _view(statistic, schema, derive), {}
    if getattr(statistic, "weights", None) == UNWEIGHTED:
        statistic = replace(statistic, weights=None)  # type: ignore[type-var]
    if derive:
        statistic = replace(statistic, derive={})  # type: ignore[type-var]
        facts = {"derived": added_json(view, list(derive))}
    if isinstance(statistic, Question) and (inside := statistic.dropping(view.schema)):
        statistic = replace(statistic, where=(*statistic.where, *inside))
    if not isinstance(statistic, Designed):
        return complete(Viewed(statistic, view, facts))
    made = statistic.designed(view)
    return complete(Viewed(made.statistic, made.view, {**facts, **made.facts}))


def widened(statistic: Statistic, schema: Schema) -> Schema:
    """Return the schema with the columns that are derived for a question.

    Raises
    ------
    InvalidStatisticError
        One of them does not fit the schema.
    """
    derive: Mapping[str, str | Derived] = getattr(statistic, "derive", {})
    return _view(statistic, schema, derive).schema


def _view(statistic: Statistic, schema: Schema, derive: Mapping[str, str | Derived]) -> RowView:
    definitions = {
        name: definition_of("derive", Derived(expr=wanted) if isinstance(wanted, str) else wanted)
        for name, wanted in derive.items()
    }
    places = {
        name: "formula" if _is_formulas(name, each, statistic) else f"derive[{at}]"
        for at, (name, each) in enumerate(definitions.items())
    }
    return RowView.of(schema).adding(definitions, places)


def _is_formulas(name: str, definition: Definition, statistic: Statistic) -> bool:
    """Return whether a derived column is the target that stands in a formula, and is named so."""
    target = getattr(statistic, "target", None)
    return name == target == coefficient_name(definition.tree)


def complete(asked: Viewed[S]) -> Viewed[S]:
    """Return a question as one about the records that have every value it needs.

    That is a filter like any other (:mod:`mechanisms.filtered`): a condition ``present`` for each
    column that keeps its missing cells. With ``missing: "cell"`` a category has one value more
    instead; with ``"available"`` the columns themselves are left to :mod:`mechanisms.available`.
    ``facts`` name the stored columns whose missing cells leave records out.

    Raises
    ------
    InvalidStatisticError
        ``missing`` is not for this statistic.
    """
    statistic, view = asked.statistic, asked.view
    if not isinstance(statistic, Question):
        return asked
    cells = _missing_cells(statistic, view.schema)
    if not view.schema.optional:
        return asked
    own = () if is_of_each_column(statistic) else columns_named(statistic)
    read = [name for name in (*own, *columns_of(statistic.by)) if name not in cells]
    read += [each.column for each in statistic.where if each.op not in PRESENCE]
    needed = dict.fromkeys(name for used in read for name in view.presences(used))
    where = tuple(Condition(column=name, op="present") for name in needed)
    statistic = replace(statistic, where=(*statistic.where, *where))
    excluded = [each.column for each in statistic.where if each.op == "present"]
    stored = dict.fromkeys(base for name in excluded for base in view.misses(name))
    facts = {"excludes_missing": [*stored]} if stored else {}
    return Viewed(cast(S, statistic), view.with_missing_cells(cells), {**asked.facts, **facts})


def stored_columns_read(statistic: Statistic, schema: Schema) -> tuple[str, ...]:
    """Return the stored columns of whose values an answer is made, or by which records are chosen.

    Raises
    ------
    InvalidStatisticError
        The question does not fit the schema.
    """
    asked = viewed(statistic, schema)
    waiting = list(columns_named(asked.statistic))
    if isinstance(asked.statistic, Question):
        waiting += columns_of(asked.statistic.by)
        waiting += [each.column for each in asked.statistic.where if each.op not in PRESENCE]
    found: dict[str, None] = {}
    while waiting:
        name = waiting.pop(0)
        made = asked.view.added.get(name)
        if made is not None:
            waiting += made.values_read
        elif name in asked.view.schema.columns:
            found[name] = None
    return tuple(found)


def _missing_cells(statistic: Question, schema: Schema) -> frozenset[str]:
    """Return the categories that have a cell for missing values; most questions have none."""
    if statistic.missing == "available" and not statistic.column_by_column:
        raise InvalidStatisticError(
            'all of its columns are needed in each record: "available" is for mean, sum, variance '
            'and std; leave it out, or say "complete"',
            field_name="missing",
        )
    if statistic.missing != "cell":
        return frozenset()
    counted = columns_named(statistic) if statistic.has_cells else ()
    names = {*counted, *columns_of(statistic.by)} & schema.optional
    found = [name for name in names if isinstance(schema.columns.get(name), CategoryColumn)]
    if not found:
        raise InvalidStatisticError(
            '"cell" needs a category with "missing": "keep" among the columns of a histogram or of '
            '"by"; of other columns derive one, as in "derive": {"no_income": "income is missing"}',
            field_name="missing",
        )
    return frozenset(found)


def _spelled_derive(
    derive: Mapping[str, str | Derived], wider: Schema
) -> Mapping[str, str | Derived]:
    """Return derived columns by name, each expression in its one spelling."""
    return {
        name: spelled_expression(each, wider)
        if isinstance(each, str)
        else replace(each, expr=spelled_expression(each.expr, wider))
        for name, each in sorted(derive.items())
    }


def weighed(statistic: S, schema: Schema) -> S:
    """Return a question with the weights of the data set's design, where it says none.

    A question that says null keeps saying so; without a design it says nothing by it.
    """
    whole: Any = statistic
    if isinstance(statistic, Several):
        parts = (replace(each, statistic=weighed(each.statistic, schema)) for each in whole.parts)
        return cast(S, replace(whole, parts=tuple(parts)))
    said = _spelled_weights(statistic, schema)
    return cast(S, replace(whole, **said)) if said else statistic


def _spelled_weights(statistic: object, schema: Schema) -> dict[str, object]:
    """Return the weights of a question that may have some, as it is meant of a data set."""
    if not hasattr(statistic, "weights"):
        return {}
    said, design = statistic.weights, schema.design
    if design is None:
        return {"weights": said or None}
    return {"weights": design.weight if said is None else said}


def _spelled_missing(statistic: Question, schema: Schema, wider: Schema) -> Mapping[str, object]:
    """Return conditions and ``missing`` without what they say of missing cells in vain.

    A condition ``present`` says nothing of a column whose missing cells leave a record out anyway,
    and one column is complete where it is available.
    """
    asked = cast(Statistic, statistic)
    missing, several = statistic.missing, wider.optional and is_of_each_column(asked)
    if missing == "available" and statistic.column_by_column and not several:
        missing = "complete"
    where = spelled_where(statistic.where, wider)
    if all(each.op != "present" for each in where):
        return {"missing": missing}
    bare = tuple(each for each in where if each.op != "present")
    found = viewed(cast(Statistic, replace(statistic, where=bare)), schema).statistic
    anyway = {each.column for each in cast(Question, found).where if each.op == "present"}
    said = (each for each in where if each.op != "present" or each.column not in anyway)
    return {"missing": missing, "where": tuple(said)}


def plain(statistic: Q) -> Q:
    """Return the question without conditions and groups."""
    return replace(statistic, where=(), by=(), missing="complete")


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
    return {*map(column_named, parting.columns), *columns_named(statistic)}
