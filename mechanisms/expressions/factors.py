"""Columns as products of indicators: which of them are 0 where another is not.

    column = [v_1 = a_1] ... [v_k = a_k] rest,

v_1, ..., v_k categories and booleans. A factor's indicators are such columns, as are a boolean and
an interaction with either. Where one v_j has another value the column is 0; where all have theirs
it is the rest, which other columns may be too. Sums of products of columns then have fewer distinct
entries than pairs of columns (:mod:`mechanisms.functional.moments`).

All of it follows from definitions, which are public. Nothing private depends on whether it is
right: sums by cell are private whatever a column's values are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from mechanisms.domain import CategoryColumn, Column, Factors, NumberColumn, Schema
from mechanisms.expressions.tree import Node, product, quoted_name


def factors_of(
    definitions: Mapping[str, Node],
    columns: Mapping[str, Column],
    known: Mapping[str, Factors] | None = None,
) -> dict[str, Factors]:
    """Return the indicators and the rest of derived columns.

    Parameters
    ----------
    definitions
        Their expressions, each of columns before it.
    columns
        The facts of all columns, these among them.
    known
        The factors of columns that were derived before.

    >>> from mechanisms.expressions.parsing import parse
    >>> columns = {"race": CategoryColumn(("a", "b"))}
    >>> factors_of({"z": parse("x * (race == 'b')")}, {**columns, "z": None})
    {'z': Factors(levels=(('race', 1),), rest='x')}
    """
    found = dict(known or {})
    truths: dict[Node, str] = {}
    for name, tree in definitions.items():
        found[name] = _factors_of(tree, columns, found, truths)
        if _is_boolean(columns.get(name)):
            truths[tree] = name
            if found[name].rest:  # no product, so an indicator of itself
                found[name] = Factors(((name, 1),), "")
    return found


def _factors_of(
    tree: Node,
    columns: Mapping[str, Column],
    known: Mapping[str, Factors],
    truths: Mapping[Node, str],
) -> Factors:
    levels: dict[str, int] = {}
    rest = []
    for factor in _flat(tree):
        indicators = _indicators(factor, columns, known, truths)
        if not indicators:
            rest.append(factor)
        for name, value in indicators:
            if levels.setdefault(name, value) != value:
                return Factors((), str(tree))  # two values at once: 0 in every row
    # in one order, as a product has no order
    ordered = sorted(rest, key=str)
    return Factors(tuple(sorted(levels.items())), str(product(*ordered)) if ordered else "")


def factors_in(schema: Schema, name: str) -> Factors:
    """Return the indicators and the rest of a column."""
    found = schema.factors.get(name)
    if found is not None:
        return found
    if _is_boolean(schema.columns[name]):
        return Factors(((name, 1),), "")
    return Factors((), quoted_name(name))


def _flat(tree: Node) -> Iterator[Node]:
    if tree.op == "*":
        for each in tree.args:
            yield from _flat(each)
    else:
        yield tree


def _indicators(
    node: Node,
    columns: Mapping[str, Column],
    known: Mapping[str, Factors],
    truths: Mapping[Node, str],
) -> tuple[tuple[str, int], ...]:
    """Return the columns and values that a factor is the indicator of; none if it is none."""
    if node.op == "==" and [each.op for each in node.args] == ["column", "text"]:
        name, text = (each.name for each in node.args)
        column = columns.get(name)
        if isinstance(column, CategoryColumn):
            (place,) = column.places_of([text])
            return () if place is None else ((name, place),)
    named = truths.get(node, node.name if node.op == "column" else "")
    if not _is_boolean(columns.get(named)):
        return ()
    return known[named].levels if named in known else ((named, 1),)


def _is_boolean(column: Column | None) -> bool:
    return isinstance(column, NumberColumn) and column.boolean
