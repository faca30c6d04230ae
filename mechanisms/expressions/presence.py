"""Whether an expression has a value in a record that lacks some.

*The rule.* A result computed from a missing cell is missing, except:

- ``c is missing`` is true or false in every record;
- ``and`` is false where one part is false, and ``or`` is true where one part is true, whatever the
  others are. So ``c is missing or c > 3`` always has a value.

These are the rules of SQL and R. A condition in ``where`` selects the records in which it is true,
so a comparison with a missing cell selects none, under ``not`` neither.

*Whether an expression is true, or false, in every row, by public bounds and declared values.*
Comparisons of a column with public values are reasoned about together
(:mod:`mechanisms.expressions.conjunctions`), all others by the ranges of both sides.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

import numpy as np

from mechanisms.domain import CategoryColumn, Column, NumberColumn
from mechanisms.expressions.conjunctions import Conjunction, Fact, Mask
from mechanisms.expressions.tree import COMPARISONS, Ends, Node, Range, Rows, compared_with

_Outcome = bool | None
_VALUE: frozenset[_Outcome] = frozenset({True, False})
_SURE: frozenset[_Outcome] = frozenset({True})
_NONE: frozenset[_Outcome] = frozenset({None})
_OPPOSITE: Mapping[_Outcome, _Outcome] = {True: False, False: True, None: None}


def values_read(node: Node) -> tuple[str, ...]:
    """Return the columns whose values an expression reads: not those it only asks about."""
    if node.op == "missing":
        return ()
    own = (node.name,) if node.op == "column" else ()
    return tuple(dict.fromkeys([*own, *(name for arg in node.args for name in values_read(arg))]))


def asked_about(node: Node) -> tuple[str, ...]:
    """Return the columns that an expression tests with ``is missing``."""
    return tuple(dict.fromkeys(each.args[0].name for each in node.walk() if each.op == "missing"))


def is_strict(node: Node) -> bool:
    """Return whether one missing cell that is read always leaves the expression without a value."""
    return not any(each.op in ("and", "or") for each in node.walk())


def misses(node: Node, optional: Collection[str]) -> tuple[str, ...]:
    """Return the columns whose missing cells may leave an expression without a value.

    >>> from mechanisms.expressions.parsing import parse
    >>> misses(parse("log(income) + age"), {"income"})
    ('income',)
    >>> misses(parse("income is missing or income > 3"), {"income"})
    ()
    """
    read = [name for name in values_read(node) if name in optional]
    return tuple(name for name in read if None in _possible(node, name))


def has_value(node: Node, rows: Rows, optional: Collection[str]) -> Mask:
    """Return in which rows an expression has a value; one truth for all where it is the same.

    ``rows`` hold a mask for each optional column that has missing cells, and any code in those.
    """
    if node.op == "column":
        mask = rows.missing.get(node.name) if node.name in optional else None
        return np.asarray(True) if mask is None else ~mask
    if node.op == "missing" or not node.args:
        return np.asarray(True)
    known = [has_value(arg, rows, optional) for arg in node.args]
    found = _all(known)
    if node.op in ("and", "or") and not found.all():
        for arg, own in zip(node.args, known, strict=True):
            # One part that is known and decides is enough.
            truth = rows.truths(arg)
            found = found | (own & (truth if node.op == "or" else ~truth))
    return found


def _all(masks: list[Mask]) -> Mask:
    found = masks[0]
    for mask in masks[1:]:
        found = found & mask
    return found


def _possible(node: Node, lacking: str) -> frozenset[_Outcome]:
    """Return the possible values of an expression in a record that lacks a value of one column.

    A number is true or false here: only whether there is one matters.
    """
    if node.op == "missing":
        return _SURE if node.args[0].name == lacking else _VALUE
    if node.op == "column":
        return _NONE if node.name == lacking else _VALUE
    if not node.args:
        return _VALUE
    parts = [_possible(arg, lacking) for arg in node.args]
    if node.op == "not":
        return frozenset(_OPPOSITE[each] for each in parts[0])
    if node.op in ("and", "or"):
        return _joined(parts, decides=node.op == "or")
    found = _VALUE if all(part & _VALUE for part in parts) else frozenset()
    return found | _NONE if any(None in part for part in parts) else found


def _joined(parts: list[frozenset[_Outcome]], *, decides: bool) -> frozenset[_Outcome]:
    """Combine parts where one can decide, as a false one does in ``and``."""
    found: set[_Outcome] = set()
    if any(decides in part for part in parts):
        found.add(decides)
    if all((not decides) in part for part in parts):
        found.add(not decides)
    if all(part - {decides} for part in parts) and any(None in part for part in parts):
        found.add(None)
    return frozenset(found)


# Whether an expression is true, or false, in every row, by public bounds and declared values


class Decisions:
    """Decides what is true or false of these columns.

    Parameters
    ----------
    range_of
        Returns the range of a node, which it remembers: a node is asked for more than once.
    """

    def __init__(self, columns: Mapping[str, Column], range_of: Callable[[Node], Range]) -> None:
        self._columns = columns
        self._range_of = range_of

    def of(self, node: Node) -> bool | None:
        """Return whether it is true, or false, in every row; None where rows may differ."""
        if node.op == "not":
            inner = self.of(node.args[0])
            return None if inner is None else not inner
        if node.op in ("and", "or"):
            return self._joined(node)
        if (fact := self._fact(node)) is not None:
            return self._conjunction([fact])
        return self._compared_ranges(node)

    def _compared_ranges(self, node: Node) -> bool | None:
        """Return the truth of a comparison from the ranges of both sides, or of a constant."""
        if node.op == "in":
            return None
        if node.op not in COMPARISONS:
            return _one_truth(self._range_of(node))
        one, two = (self._range_of(arg) for arg in node.args)
        if "category" in (one.kind, two.kind) or "text" in (one.kind, two.kind):
            return None
        return _ordered(node.op, (one.low, one.high), (two.low, two.high))

    def _joined(self, node: Node) -> bool | None:
        """Return the truth of parts joined by ``and`` or ``or``, from each part and from all."""
        is_and = node.op == "and"
        each = [self.of(arg) for arg in node.args]
        if (not is_and) in each:  # one false part decides an and, one true part an or
            return not is_and
        if None not in each:
            return is_and
        facts = [fact for arg in node.args if (fact := self._fact(arg)) is not None]
        if is_and:
            return False if self._conjunction(facts) is False else None
        # Not (a or b) is (not a) and (not b): where those contradict, one of a and b holds.
        others = self._conjunction([fact.negated for fact in facts])
        return True if others is False else None

    def _conjunction(self, facts: list[Fact]) -> bool | None:
        known = Conjunction(tuple(facts), self._columns)
        if known.culprits:
            return False
        return True if len(facts) == 1 and known.without_effect() else None

    def _fact(self, node: Node) -> Fact | None:
        """Return a comparison of a column with public values as reasoning knows it."""
        if node.op == "column":
            return Fact(node.name, "==", (1,))
        if node.op == "not":
            inner = self._fact(node.args[0])
            return None if inner is None else inner.negated
        if node.op not in (*COMPARISONS, "in") or node.args[0].op != "column":
            return None
        first, *others = node.args
        column = self._columns[first.name]
        values = [_value(column, other) for other in others]
        known = tuple(value for value in values if value is not None)
        if not known or len(known) < len(values):
            return None
        if isinstance(column, NumberColumn) and column.boolean and node.op not in _OF_VALUES:
            return None
        return Fact(first.name, node.op, known)


_OF_VALUES = ("==", "!=", "in")


def _value(column: Column, node: Node) -> int | float | str | None:
    """Return the public value that a column is compared with, as cells hold it."""
    if isinstance(column, CategoryColumn):
        return column.value_of(node.name) if node.op == "text" else None
    number = compared_with(column, node)
    if number is None:
        return None
    return number.numerator if number.denominator == 1 else float(number)


def _one_truth(found: Range) -> bool | None:
    return bool(found.low) if found.kind == "truth" and found.low == found.high else None


def _ordered(op: str, one: Ends, two: Ends) -> bool | None:
    """Return the truth of a comparison of two intervals, if it is constant on both."""
    (low, high), (least, most) = one, two
    if op in (">", ">="):
        return _ordered("<" if op == ">" else "<=", two, one)
    if op == "<":
        return True if high < least else False if low >= most else None
    if op == "<=":
        return True if high <= least else False if low > most else None
    apart = high < least or most < low
    same = low == high == least == most
    if not (apart or same):
        return None
    return same if op == "==" else apart
