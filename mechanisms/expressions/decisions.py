"""Whether an expression is true, or false, in every row, by public bounds and declared values.

Comparisons of a column with public values are reasoned about together
(:mod:`mechanisms.expressions.conjunctions`), all others by the ranges of both sides.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from mechanisms.domain import CategoryColumn, Column, NumberColumn
from mechanisms.expressions.conjunctions import Conjunction, Fact
from mechanisms.expressions.tree import COMPARISONS, Node
from mechanisms.expressions.values import Ends, Range, compared_with


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
