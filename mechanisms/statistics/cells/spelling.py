"""The canonical spelling of a question: questions of equal meaning have equal fields.

A condition holds for the same records whether its value is 40 or 40.0, true or 1, ``2020-01-01``
or ``2020-01-01T00:00Z``; whether ``in`` lists values in this order or that, or twice; and whether
it is ``in`` one value or ``==`` that value. Conditions must all hold, so their order and repeats
have no meaning. Whether a text is a date or a category's value depends on the column, so a
spelling belongs to a schema.

The order of ``by``, of edges and of columns stays: answers are listed in it.

Columns derived for a question: a canonical expression per name, with or without bounds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import floor, isfinite
from typing import Any, ClassVar, Protocol, TypeVar, cast, runtime_checkable

from mechanisms.contract import InvalidStatisticError, meaning
from mechanisms.domain import CategoryColumn, Column, NumberColumn, Schema, text_of
from mechanisms.exact.fractions import as_written
from mechanisms.expressions.derived import Definition, DefinitionError
from mechanisms.expressions.parsing import parse
from mechanisms.expressions.tree import COMPARISONS, Node
from mechanisms.statistics.cells.axes import Edges, Outside, Step
from mechanisms.statistics.cells.parting import By, Where
from mechanisms.statistics.conditions import Condition, Scalar, comparisons
from mechanisms.views import part_of

T = TypeVar("T")


@runtime_checkable
class Spelled(Protocol):
    """A question that can be asked in more than one spelling."""

    def spelled(self, schema: Schema, /) -> Mapping[str, object]:
        """Return its fields that have several spellings, each in one."""


def canonical(statistic: T, schema: Schema) -> T:
    """Return the one spelling of all questions that mean the same of these columns.

    It is a function of the question and the schema alone, and changes nothing when it is taken
    twice. A question that does not fit the schema is returned as it is, to be refused by the
    places that it has.

    *Order.* Where an answer lists its numbers in the order of a field (``columns``, ``levels``,
    ``features``, ``by``, ``edges``, ``parts``), another order is another question. ``where``, the
    values of ``in`` and ``derive`` have no order.
    """
    if not isinstance(statistic, Spelled):
        return statistic
    try:
        return cast(T, replace(cast(Any, statistic), **statistic.spelled(schema)))
    except InvalidStatisticError:
        return statistic


def spelled_where(where: Where, schema: Schema) -> Where:
    """Return conditions in their one spelling, each once.

    Raises
    ------
    InvalidStatisticError
        A condition does not fit the schema, or there are too many.
    """
    comparisons(where, schema)
    found = {spelled_condition(condition, schema) for condition in where}
    return tuple(sorted(found, key=lambda each: (each.column, each.op, repr(each.value))))


def spelled_condition(condition: Condition, schema: Schema) -> Condition:
    """Return a condition that fits the schema in its one spelling."""
    column, value = schema.columns[condition.column], condition.value
    if value is None:
        return condition
    if not isinstance(value, (tuple, list)):
        return replace(condition, value=_spelled((value,), column)[0])
    values = sorted(set(_spelled(value, column)))
    if len(values) == 1:
        return replace(condition, op="==", value=values[0])
    return replace(condition, value=tuple(values))


def spelled_expression(text: str, schema: Schema) -> str:
    """Return an expression with the values in quotes, of categories and times, in one spelling.

    Of text that does not fit its column nothing changes.
    """
    if '"' not in text and "'" not in text:
        return text
    return str(_spelled_tree(parse(text), schema))


def _spelled_tree(node: Node, schema: Schema) -> Node:
    args = tuple(_spelled_tree(each, schema) for each in node.args)
    if node.op in (*COMPARISONS, "in") and args[0].op == "column":
        column = schema.columns.get(args[0].name)
        if isinstance(column, CategoryColumn) or (column is not None and column.timed is not None):
            args = (args[0], *(_spelled_text(each, column) for each in args[1:]))
    return replace(node, args=args)


def _spelled_text(node: Node, column: Column) -> Node:
    if node.op != "text":
        return node
    return replace(node, value=str(_spelled((node.name,), column)[0]))


def condition_of(tree: Node) -> Condition | None:
    """Return the condition that an expression is, None where it is none.

    >>> from mechanisms.expressions.parsing import parse
    >>> condition_of(parse("income >= 700"))
    Condition(column='income', op='>=', value=700)
    """
    if tree.op not in (*COMPARISONS, "in") or tree.args[0].op != "column":
        return None
    values = [_constant(each) for each in tree.args[1:]]
    found = tuple(value for value in values if value is not None)
    if len(found) < len(values):
        return None
    value: Any = found if tree.op == "in" else found[0]
    op: Any = tree.op
    return Condition(column=tree.args[0].name, op=op, value=value)


def _constant(node: Node) -> Scalar | None:
    """Return the value that a node of an expression is, None for any other."""
    if node.op == "text":
        return node.name
    if node.op == "negative" and node.args[0].op == "number":
        number = -node.args[0].number
    elif node.op == "number":
        number = node.number
    else:
        return None
    if number.denominator == 1:
        return int(number)
    return float(number) if as_written(float(number)) == number else None


def spelled_by(by: By, schema: Schema) -> By:
    """Return groups in their one spelling, in the same order."""
    return tuple(
        each
        if isinstance(each, str)
        else replace(each, edges=spelled_edges(each.edges, each.column, schema))
        for each in by
    )


def spelled_edges(edges: Edges, name: str, schema: Schema) -> Edges:
    """Return the edges of a column in their one spelling; of one that there is not, as they are."""
    if isinstance(edges, Step):
        return replace(edges, step=cast(float, _number(edges.step)))
    column = schema.columns.get(name)
    if column is None or isinstance(edges, str):
        return edges
    return tuple(_spelled(edges, column))


def spelled_outside(outside: Outside | Mapping[str, Outside], columns: Sequence[str]) -> Any:
    """Return the canonical treatment of values outside the edges: by column if they differ."""
    if isinstance(outside, str):
        return outside
    stated = {name: what for name, what in outside.items() if what != "cells"}
    if not stated:
        return "cells"
    return "drop" if set(columns) <= stated.keys() else dict(sorted(stated.items()))


def _spelled(values: Sequence[Scalar], column: Column) -> list[Scalar]:
    """Return the one spelling of each public value; of one that does not fit, the value."""
    if not isinstance(column, NumberColumn):
        pairs = zip(values, column.places_of(values), strict=True)
        return [each if place is None else column.values[place] for each, place in pairs]
    return [_spelled_number(each, column) for each in values]


def _spelled_number(value: Scalar, column: NumberColumn) -> Scalar:
    if column.boolean:
        return bool(value)
    if column.timed is None:
        return _number(value)
    number = column.number_of(value)
    if number is None:
        return value
    whole = floor(number)
    text = text_of(column.timed, whole)
    part = f"{number - whole:.9f}".strip("0") if number != whole else ""
    return text.replace("Z", f"{part}Z") if part != "." else text


def _number(value: Scalar) -> Scalar:
    """Return a number that is whole as an integer, exactly, however it was written."""
    if isinstance(value, float) and value.is_integer():
        return int(as_written(value))
    return value


# Columns derived for a question: a canonical expression per name, with or without bounds


MOST_DERIVED = 100
_LONGEST_NAME = 100


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
        text = str(definition_of(f"derive[{at}]", column).tree)
        bounded = column.lower is not None or column.upper is not None
        found[name] = replace(column, expr=text) if bounded else text
    return found


def definition_of(place: str, column: Derived) -> Definition:
    """Return the definition that a column is; ``place`` is where it was asked for.

    Raises
    ------
    InvalidStatisticError
        It cannot be read.
    """
    try:
        return column.definition()
    except DefinitionError as error:
        raise InvalidStatisticError(error.detail, field_name=part_of(place, error)) from None
