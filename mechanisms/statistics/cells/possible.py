"""The records that conditions and groups can select, by public facts alone, before any charge.

A question that public facts answer is refused: conditions that no record can meet, groups that no
record can be in, a column that is constant in the selected records. A condition without effect,
and an empty group of a category, give a warning. The reasoning is that of
:mod:`mechanisms.expressions.conjunctions`, for expressions too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from math import inf
from sys import float_info

from mechanisms.contract import InvalidStatisticError
from mechanisms.domain import CategoryColumn, Column, NumberColumn, Schema
from mechanisms.expressions.conjunctions import (
    Conjunction,
    Fact,
    Value,
    left_of,
    why_empty,
    why_whole,
)
from mechanisms.statistics.cells.axes import Axis
from mechanisms.statistics.conditions import PRESENCE, Condition
from mechanisms.words import listed, worded


def fact_of(condition: Condition, schema: Schema) -> Fact | None:
    """Return a condition as reasoning knows it; None where it does not fit its column."""
    column = schema.columns.get(condition.column)
    if column is None:
        return None
    if condition.op in PRESENCE:
        return Fact(condition.column, condition.op)
    many = isinstance(condition.value, (tuple, list))
    if many != (condition.op == "in"):
        return None
    given = tuple(condition.value) if isinstance(condition.value, (tuple, list)) else ()
    values = _values(column, given if many else (condition.value,))
    if any(value is None for value in values) or not values:
        return None
    if _is_unordered(column) and condition.op not in ("==", "!=", "in"):
        return None
    return Fact(condition.column, condition.op, tuple(v for v in values if v is not None))


def _is_unordered(column: Column) -> bool:
    return isinstance(column, CategoryColumn) or column.boolean


def _values(column: Column, given: Sequence[object]) -> list[Value | None]:
    """Return the stored values of cells that equal public values; None where no cell can."""
    if isinstance(column, CategoryColumn):
        places = column.places_of(given)
        return [None if place is None else column.values[place] for place in places]
    return [_number(column, each) for each in given]


def _number(column: NumberColumn, value: object) -> int | float | None:
    if column.boolean:
        return int(bool(value)) if value in (0, 1) else None
    number = column.number_of(value)
    # An integer that no float holds is refused elsewhere, and is too long to be shown.
    return number if number is not None and abs(number) <= float_info.max else None


def require_possible(where: Sequence[Condition], schema: Schema) -> None:
    """Refuse conditions that no record can meet, and values that no cell can hold.

    Raises
    ------
    InvalidStatisticError
        As said; the message names the conditions, and why.
    """
    facts = [fact_of(condition, schema) for condition in where]
    known = _known(facts, schema)
    if culprits := known.culprits:
        place = f"where[{facts.index(culprits[0])}]" if len(culprits) == 1 else "where"
        raise InvalidStatisticError(why_empty(culprits, schema.columns), field_name=place)
    for number, fact in enumerate(facts):
        if fact is None:  # it does not fit its column, which is refused elsewhere
            continue
        if fact.op == "in":
            _require_held(fact, schema, f"where[{number}]")
        elif known.is_outside(fact):
            why = why_whole(fact, schema.columns)
            raise InvalidStatisticError(
                f"{why}; leave the condition out", field_name=f"where[{number}]"
            )


def _require_held(fact: Fact, schema: Schema, place: str) -> None:
    """Refuse a list with a value that no cell holds: it is a mistake, whatever the others are."""
    held = frozenset(left_of(schema.columns[fact.column], [fact]).only or ())
    for value in fact.values:
        if value not in held:
            alone = Fact(fact.column, "==", (value,))
            why = why_empty([alone], schema.columns)
            raise InvalidStatisticError(f"{why}; leave it out of the list", field_name=place)


def conjunction(where: Sequence[Condition], schema: Schema) -> Conjunction:
    """Return conditions as reasoning knows them, without those that do not fit their columns."""
    return _known([fact_of(condition, schema) for condition in where], schema)


def _known(facts: Sequence[Fact | None], schema: Schema) -> Conjunction:
    known = tuple(fact for fact in facts if fact is not None)
    return Conjunction(known, schema.columns, schema.optional)


def require_groups(where: Sequence[Condition], axes: Sequence[Axis], schema: Schema) -> None:
    """Refuse groups of which conditions leave one.

    Raises
    ------
    InvalidStatisticError
        As said; the message names the groups and the condition.
    """
    known = conjunction(where, schema)
    for place, axis in enumerate(axes):
        empty = _empty_cells(axis, known)
        if empty and len(axis.labels) - len(empty) < 2:
            name, why = axis.column, _why(known, axis.column)
            raise InvalidStatisticError(
                f"{why}, so only one group of {name} can hold records; leave {name} out of by, or "
                "the condition out of where",
                field_name=f"by[{place}]",
            )


def _why(known: Conjunction, name: str) -> str:
    said = [fact.words(known.columns) for fact in known.facts if fact.column == name]
    if len(said) == 1:
        return worded("the condition says %(condition)s", condition=said[0])
    return worded("the conditions say %(names)s", names=listed(said))


def _empty_cells(axis: Axis, known: Conjunction) -> list[str]:
    """Return the labels of cells that no record which meets the conditions can be in."""
    if all(fact.column != axis.column for fact in known.facts):
        return []
    left, column = known.left(axis.column), known.columns[axis.column]
    if isinstance(column, CategoryColumn) or column.boolean:
        every: tuple[Value, ...] = column.values if isinstance(column, CategoryColumn) else (0, 1)
        # Beyond them is the cell of those without a value, which a condition leaves out.
        pairs = zip(every, axis.labels, strict=False)
        return [label for value, label in pairs if value not in (left.only or ())]
    if axis.starts is None:
        return []
    starts = [-inf, *axis.starts.tolist(), inf]
    return [
        label
        for label, (low, high) in zip(axis.labels, pairwise(starts), strict=True)
        if not left.reaches(low, high, closed=False)
    ]


def warnings_of(where: Sequence[Condition], axes: Sequence[Axis], schema: Schema) -> Iterator[str]:
    """Yield warnings on conditions without effect, and on groups that stay empty."""
    known = conjunction(where, schema)
    for fact in known.without_effect():
        why = why_whole(fact, schema.columns)
        yield worded("A condition has no effect, since %(why)s; leave it out.", why=why)
    for axis in axes:
        if empty := _empty_cells(axis, known):
            why = _why(known, axis.column)
            if len(empty) == 1:
                yield worded(
                    "No record can be in the group %(group)s of %(name)s, since %(why)s: what is "
                    "released there is noise alone.",
                    group=empty[0], name=axis.column, why=why,
                )  # fmt: skip
            else:
                yield worded(
                    "No record can be in the groups %(names)s of %(name)s, since %(why)s: what is "
                    "released there is noise alone.",
                    names=listed(empty), name=axis.column, why=why,
                )  # fmt: skip


def constants(where: Sequence[Condition], by: Sequence[str], schema: Schema) -> Mapping[str, str]:
    """Return the columns that are the same in all records of an answer, and why, in words.

    ``by`` names the columns whose single values make groups.
    """
    known = conjunction(where, schema)
    found = {
        name: worded(
            "%(name)s makes the groups, so it is the same in all records of one", name=name
        )
        for name in by
    }
    for name in dict.fromkeys(fact.column for fact in known.facts):
        fixed = known.left(name).constant
        if fixed is not None:
            alone = Fact(name, "==", (fixed,)).words(schema.columns).replace(" == ", " is ", 1)
            found[name] = worded(
                "%(why)s, so %(condition)s in every record that is left",
                why=_why(known, name), condition=alone,
            )  # fmt: skip
    return found


def require_both(target: Condition, where: Sequence[Condition], schema: Schema) -> None:
    """Refuse a condition that makes 0 and 1 where conditions or bounds leave one of the two.

    Raises
    ------
    InvalidStatisticError
        As said.
    """
    fact = fact_of(target, schema)
    if fact is None:  # it does not fit its column, which is refused elsewhere
        return
    known = conjunction(where, schema)
    target_said, names = (
        fact.words(schema.columns), listed([each.words(schema.columns) for each in known.facts])
    )  # fmt: skip
    if known.implies(fact):
        raise InvalidStatisticError(
            f"the target {target_said} holds of every record where {names}, so there is nothing "
            "to explain"
            if where
            else f"the target {target_said} holds of every record, so there is nothing to explain",
            field_name="target",
        )
    if known.implies(fact.negated):
        raise InvalidStatisticError(
            f"the target {target_said} holds of no record where {names}, so there is nothing to "
            "explain"
            if where
            else f"the target {target_said} holds of no record, so there is nothing to explain",
            field_name="target",
        )
