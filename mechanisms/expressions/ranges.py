"""Which values an expression can have, by interval arithmetic on the columns' public bounds.

Rational operations are exact; ``log``, ``exp`` and the like are floats. A range depends on declared
bounds alone, never on rows. A value outside can only come of rounding, and is clamped.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from fractions import Fraction

from mechanisms.domain import CategoryColumn, Column, NumberColumn
from mechanisms.exact.fractions import decimal_text
from mechanisms.expressions.parsing import LARGEST, ExpressionError, unknown_column
from mechanisms.expressions.presence import Decisions
from mechanisms.expressions.tree import (
    COMPARISONS,
    MOST_POWER,
    Ends,
    Kind,
    Node,
    Range,
    compared_with,
    constant,
    quoted_name,
)
from mechanisms.words import no_value

_MOST_BITS = 256  # of an exact end; longer ones become floats


def range_of(
    node: Node, columns: Mapping[str, Column], *, may_miss: bool, optional: Collection[str] = ()
) -> Range:
    """Return the possible values of an expression of these columns.

    Parameters
    ----------
    may_miss
        Whether cells can be missing, so that ``is missing`` may be asked.
    optional
        Columns with optional values, for which ``is missing`` is allowed.

    Raises
    ------
    ExpressionError
        A column that there is not, an operation on what it is not for, or one without a
        value somewhere within the columns' bounds; the message says how to clip.
    """
    return _Ranges(columns, may_miss=may_miss, optional=optional).of(node)


def _is_fixed(node: Node) -> bool:
    return node.op == "text" or constant(node) is not None


class _Ranges:
    def __init__(
        self, columns: Mapping[str, Column], *, may_miss: bool, optional: Collection[str]
    ) -> None:
        self._columns = columns
        self._may_miss = may_miss
        self._optional = optional
        # Each node is checked once, but deciding it reads its own parts again.
        self._known: dict[int, Range] = {}
        self._decisions = Decisions(columns, self.of)

    def of(self, node: Node) -> Range:
        """Return the range of a node."""
        found = self._known.get(id(node))
        if found is None:
            found = self._known[id(node)] = self._found(node)
        return found

    def _found(self, node: Node) -> Range:
        if node.op in ("number", "text", "column"):
            return self._leaf(node)
        if node.op in COMPARISONS or node.op == "in":
            return self._truth(node, self._compared(node))
        if node.op == "missing":
            return self._missing(node)
        if node.op in ("and", "or", "not"):
            for arg in node.args:
                if self.of(arg).kind != "truth":
                    raise ExpressionError(
                        f"{node.op} joins what is true or false, as comparisons are", arg.place
                    )
            return self._truth(node, Range("truth"))
        ends = [self._number(arg) for arg in node.args]
        return Range("number", *_bounded(node, self._reached(node, ends)))

    def _leaf(self, node: Node) -> Range:
        if node.op == "number":
            kind: Kind = "truth" if node.number in (0, 1) else "number"
            return Range(kind, node.number, node.number)
        if node.op == "text":
            return Range("text")
        column = self._columns.get(node.name)
        if column is None:
            raise unknown_column(list(self._columns), node.name, node.place or None)
        if isinstance(column, CategoryColumn):
            return Range("category")
        return Range("truth" if column.boolean else "number", column.lower, column.upper)

    def _truth(self, node: Node, found: Range) -> Range:
        """Return the range of a truth value: one value where bounds decide it."""
        decided = self._decisions.of(node)
        return found if decided is None else Range("truth", Fraction(decided), Fraction(decided))

    def _number(self, node: Node) -> tuple[Fraction, Fraction]:
        found = self.of(node)
        if found.kind == "category":
            name = quoted_name(node.name)
            raise ExpressionError(
                f"{name} is a category, not a number; compare it with a value, as in "
                f'{name} == "..."',
                node.place,
            )
        if found.kind == "text":
            raise ExpressionError(
                "a quoted value can be compared with a category or a date only", node.place
            )
        return found.low, found.high

    def _missing(self, node: Node) -> Range:
        [arg] = node.args
        if arg.op != "column":
            raise ExpressionError('"is missing" is asked of a column', node.place)
        self.of(arg)
        if not (self._may_miss or arg.name in self._optional):
            name = quoted_name(arg.name)
            raise ExpressionError(
                f"every record has a value of {name}: ask this of a column with "
                '"missing": "keep", or in the derive of the spec, where the file is read',
                node.place,
            )
        return Range("truth")

    def _compared(self, node: Node) -> Range:
        first, *others = node.args
        left = self.of(first)
        if left.kind == "category":
            column = self._columns[first.name]
            assert isinstance(column, CategoryColumn)
            self._with_values(node, quoted_name(first.name), column, others)
            return Range("truth")
        self._number(first)
        timed = self._columns.get(first.name) if first.op == "column" else None
        for other in others:
            if isinstance(timed, NumberColumn) and timed.timed and _is_fixed(other):
                if other.op != "text" or compared_with(timed, other) is None:
                    raise ExpressionError(
                        'a date is compared with an ISO 8601 text in quotes, such as "1960-12-31"',
                        other.place,
                    )
                continue
            if self.of(other).kind == "text":
                raise ExpressionError("a number is compared with a number", other.place)
            self._number(other)
            if node.op == "in" and constant(other) is None:
                raise ExpressionError('after "in" stands a list of values', other.place)
        return Range("truth")

    def _with_values(
        self, node: Node, name: str, column: CategoryColumn, others: list[Node]
    ) -> None:
        if node.op not in ("==", "!=", "in"):
            raise ExpressionError(f"{name} is a category, compared by ==, != or in", node.place)
        for other in others:
            written = other.name if other.op in ("text", "column") else ""
            value = column.value_of(written)
            if other.op != "text" or value is None:
                if other.op == "column" and value is not None:
                    raise ExpressionError(
                        f'a value of a category stands in quotes: "{value}"', other.place
                    )
                raise ExpressionError(no_value(name, column.values, written), other.place)

    def _reached(
        self, node: Node, ends: list[tuple[Fraction, Fraction]]
    ) -> tuple[Fraction, Fraction]:
        """Return the least and the largest value of an operation on numbers."""
        if node.op == "^":
            return self._power(node, ends[0])
        if node.op == "/":
            return _divided(node, ends[0])
        # By its corners a square could be negative, and its root would be refused.
        if node.op == "*" and node.args[0] == node.args[1]:
            return _squared(ends[0], 2)
        if node.op == "clip":
            return _clipped(node, ends)
        if node.op in _OF_ONE:
            return _OF_ONE[node.op](node, *ends[0])
        (one, two), more = ends[0], ends[1:]
        for low, high in more:
            one, two = _OF_TWO[node.op]((one, two), (low, high))
        return one, two

    def _power(self, node: Node, base: tuple[Fraction, Fraction]) -> tuple[Fraction, Fraction]:
        exponent, (low, high) = constant(node.args[1]), base
        if exponent is None or abs(exponent) > MOST_POWER:
            raise ExpressionError(
                f"a power is a number between -{MOST_POWER} and {MOST_POWER}", node.args[1].place
            )
        if exponent < 0 and low <= 0 <= high:
            raise _no_value(node, base, "a negative power of 0", f"max({node.args[0]}, 1)")
        if exponent.denominator == 1:
            return _squared(base, int(exponent))
        if low < 0:
            raise _no_value(
                node, base, "a fractional power of a negative number", f"max({node.args[0]}, 0)"
            )
        # Monotone on numbers of 0 or more, so the ends are at the ends.
        edges = [Fraction(float(end) ** float(exponent)) for end in base]
        return min(edges), max(edges)


def _squared(base: tuple[Fraction, Fraction], power: int) -> tuple[Fraction, Fraction]:
    """Return the range of a whole power; a negative one needs a base that is never 0."""
    low, high = base
    widest = max(abs(low), abs(high))
    if widest > 1 and widest ** abs(power) > LARGEST**2:
        return -(LARGEST**2), LARGEST**2  # too much, whatever it is
    one, two = Fraction(low**power), Fraction(high**power)
    if power > 0 and power % 2 == 0 and low < 0 < high:
        return Fraction(0), max(one, two)
    return min(one, two), max(one, two)


def _divided(node: Node, ends: tuple[Fraction, Fraction]) -> tuple[Fraction, Fraction]:
    by = constant(node.args[1])
    if by is None:
        other = node.args[1]
        way = f"({other})^-1"
        raise ExpressionError(
            f"division is by a number only; for one over a column that is never 0 write {way}",
            other.place,
        )
    if by == 0:
        raise ExpressionError("division by 0", node.args[1].place)
    low, high = sorted((ends[0] / by, ends[1] / by))
    return low, high


def _clipped(node: Node, ends: list[tuple[Fraction, Fraction]]) -> tuple[Fraction, Fraction]:
    least, most = (constant(arg) for arg in node.args[1:])
    if least is None or most is None or not least < most:
        raise ExpressionError(
            "clip takes what is clipped, then the least and the largest value as numbers",
            node.place,
        )
    low, high = ends[0]
    return min(max(low, least), most), min(max(high, least), most)


def _log(node: Node, low: Fraction, high: Fraction) -> tuple[Fraction, Fraction]:
    if low <= 0:
        what = node.args[0]
        raise _no_value(
            node, (low, high), "log of 0 or less", f"log(max({what}, 1))", f"log1p({what})"
        )
    return Fraction(math.log(low)), Fraction(math.log(high))


def _log1p(node: Node, low: Fraction, high: Fraction) -> tuple[Fraction, Fraction]:
    if float(low) <= -1:  # it may be above by less than float precision
        raise _no_value(node, (low, high), "log1p of -1 or less", f"log1p(max({node.args[0]}, 0))")
    return Fraction(math.log1p(low)), Fraction(math.log1p(high))


def _sqrt(node: Node, low: Fraction, high: Fraction) -> tuple[Fraction, Fraction]:
    if low < 0:
        raise _no_value(
            node, (low, high), "the root of a negative number", f"sqrt(max({node.args[0]}, 0))"
        )
    return Fraction(math.sqrt(low)), Fraction(math.sqrt(high))


def _exp(node: Node, low: Fraction, high: Fraction) -> tuple[Fraction, Fraction]:
    # exp(230) is the last below 1e100.
    if high > 230:
        raise _no_value(node, (low, high), "exp of more than 230", f"exp(min({node.args[0]}, 10))")
    bottom = Fraction(math.exp(low)) if low > -700 else Fraction(0)
    return bottom, Fraction(math.exp(high))


def _abs(_node: Node, low: Fraction, high: Fraction) -> tuple[Fraction, Fraction]:
    ends = sorted((abs(low), abs(high)))
    return (Fraction(0) if low < 0 < high else ends[0]), ends[1]


_OF_ONE: Mapping[str, Callable[[Node, Fraction, Fraction], Ends]] = {
    "abs": _abs,
    "exp": _exp,
    "log": _log,
    "log1p": _log1p,
    "sqrt": _sqrt,
    "negative": lambda _node, low, high: (-high, -low),
}


def _times(one: Ends, two: Ends) -> Ends:
    corners = [left * right for left in one for right in two]
    return min(corners), max(corners)


_OF_TWO: Mapping[str, Callable[[Ends, Ends], Ends]] = {
    "+": lambda one, two: (one[0] + two[0], one[1] + two[1]),
    "-": lambda one, two: (one[0] - two[1], one[1] - two[0]),
    "*": _times,
    "max": lambda one, two: (max(one[0], two[0]), max(one[1], two[1])),
    "min": lambda one, two: (min(one[0], two[0]), min(one[1], two[1])),
}


def _bounded(node: Node, ends: Ends) -> Ends:
    """Return a range of numbers that are of a reasonable length, if they are small enough."""
    low, high = ends
    if max(abs(low), abs(high)) > LARGEST:
        raise ExpressionError(
            "values here could exceed 1e100; clip what they are made of", node.place
        )
    # Exact denominators would double their length with every product.
    if max(end.denominator.bit_length() for end in ends) > _MOST_BITS:
        return Fraction(float(low)), Fraction(float(high))
    return low, high


def _no_value(node: Node, ends: Ends, whose: str, *ways: str) -> ExpressionError:
    """Return the message where an operation is undefined for some values in the bounds."""
    low, high = (_shown(end) for end in ends)
    inner, names = node.args[0], " or ".join(ways)
    return ExpressionError(
        f"{whose} has no value, and {inner} lies between {low} and {high} by its bounds; "
        f"write {names}",
        node.place,
    )


def _shown(value: Fraction) -> str:
    return decimal_text(value) if value.denominator == 1 else f"{float(value):.6g}"
