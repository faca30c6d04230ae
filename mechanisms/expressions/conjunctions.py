"""Which values conditions leave of a column, from public bounds and declared values alone.

    V(c) = {v in domain of c : v meets every condition on c}

The domain of a number column is the interval between its bounds, of whole numbers where the column
holds those; of a category its declared values; of a boolean 0 and 1. Every stored cell lies in
the domain, as cells are clamped and undeclared values are refused. So where V(c) is empty no record
can meet the conditions, where it is the whole domain every record does, and where it is one value
a column is the same in every record that does.

Each condition is on one column. Conditions on several columns hold together of some record exactly
where they do so column by column, as far as public facts say.

**Privacy.** No row is read: every decision here is a function of the request and of the spec.

*A column's values compared with a public number, exactly.* Values of whole kinds are integers, and
are compared as such: those above 2.5 are those of 3 or more, and no integer is rounded to a float
on the way. Numbers are binary64, and the constant is the binary64 nearest to the decimal that was
written, as the cells are.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import combinations
from math import ceil, floor
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from mechanisms.domain import CategoryColumn, Column, NumberColumn
from mechanisms.words import listed, worded

# A column's values compared with a public number, exactly

ExactNumber = int | float | Fraction
Mask = NDArray[np.bool_]

ORDERED: Mapping[str, Callable[[Any, Any], Mask]] = {
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
}
EQUAL: Mapping[str, Callable[[Any, Any], Mask]] = {"==": np.equal, "!=": np.not_equal}
COMPARE: Mapping[str, Callable[[Any, Any], Mask]] = {**ORDERED, **EQUAL}


def order_of_whole(op: str, number: ExactNumber) -> tuple[str, int]:
    """Return the same order relation of integers, as ``<=`` or ``>=`` an integer.

    >>> order_of_whole(">", 2.5), order_of_whole("<", 3)
    (('>=', 3), ('<=', 2))
    """
    if op in (">", ">="):
        return ">=", floor(number) + 1 if op == ">" else ceil(number)
    return "<=", ceil(number) - 1 if op == "<" else floor(number)


def compared(values: NDArray[Any], op: str, number: ExactNumber) -> Mask:
    """Return of each value whether it is in this relation to a finite number."""
    if values.dtype.kind == "f":
        return COMPARE[op](values, float(number))
    if op in ORDERED:
        op, number = order_of_whole(op, number)
    elif number != floor(number):
        return np.full(values.shape, op == "!=")
    # An integer beyond the type is beyond all values; Python's would make numpy refuse.
    kind = np.iinfo(values.dtype)
    if not kind.min <= number <= kind.max:
        true = op == "!=" or ((op in ("<", "<=")) == (number > kind.max) and op != "==")
        return np.full(values.shape, true)
    return COMPARE[op](values, values.dtype.type(int(number)))


# Which values conditions leave of a column, from public bounds and declared values alone

Value = int | float | str
Number = int | float
V = TypeVar("V", int | float, str, int | float | str)

NEGATED: Mapping[str, str] = {
    "==": "!=", "!=": "==", "<": ">=", "<=": ">", ">": "<=", ">=": "<",
    "in": "not in", "not in": "in", "present": "missing", "missing": "present",
}  # fmt: skip
_STATES = ("present", "missing")
_EXCLUDING = ("!=", "not in")
_MOST_COUNTED = 2_000
"""Whole numbers of an interval that are checked one by one, to see whether all are excluded."""


@dataclass(frozen=True, slots=True)
class Fact:
    """One condition: a column, an operator, and the public values it is compared with.

    Of a number column the values are numbers in the column's units, read as they are stored.
    """

    column: str
    op: str
    values: tuple[Value, ...] = ()

    @property
    def negated(self) -> Fact:
        """Return the condition that holds exactly where this one does not."""
        return Fact(self.column, NEGATED[self.op], self.values)

    def words(self, columns: Mapping[str, Column]) -> str:
        """Return the condition as it is written, long lists cut."""
        if self.op in _STATES:
            return f"{self.column} is {self.op}"
        shown = [_shown(columns[self.column], value) for value in self.values]
        if self.op in ("in", "not in"):
            return f"{self.column} {self.op} [{listed(shown, last='and')}]"
        return f"{self.column} {self.op} {shown[0]}"


@dataclass(frozen=True, slots=True)
class Left:
    """The values of one column that conditions leave.

    ``only`` holds them where they are few enough to be listed, in order, else None; ``low`` and
    ``high`` are then the ends of the remaining values, which include them unless ``open_low`` or
    ``open_high``. ``whole`` says that nothing is excluded.
    """

    only: tuple[Value, ...] | None
    whole: bool
    low: Number = -math.inf
    high: Number = math.inf
    open_low: bool = False
    open_high: bool = False
    states: frozenset[str] = frozenset(_STATES)

    @property
    def is_empty(self) -> bool:
        """Return whether no record can meet the conditions."""
        return not self.states or (self.only == () and "missing" not in self.states)

    @property
    def constant(self) -> Value | None:
        """Return the one value that the column has in every record that meets them, if it is."""
        return self.only[0] if self.only is not None and len(self.only) == 1 else None

    def reaches(self, low: Number, high: Number, *, closed: bool) -> bool:
        """Return whether a number in [low, high) is left, or in [low, high] if it is closed."""
        if self.only is not None:
            return any(low <= one < high or (closed and one == high) for one in _numbers(self.only))
        above = self.low < high or (closed and self.low == high and not self.open_low)
        below = self.high > low or (self.high == low and not self.open_high)
        return above and below


def left_of(column: Column, facts: Sequence[Fact]) -> Left:
    """Return which values of a column all these conditions on it leave."""
    states = frozenset(_STATES)
    for fact in facts:
        # A comparison is about a value, so it says that there is one.
        states &= {fact.op if fact.op in _STATES else "present"}
    compared = [fact for fact in facts if fact.op not in _STATES]
    if "present" not in states:
        return Left((), whole=False, states=states)
    found = _of_values(column, compared) if _is_listed(column) else _of_numbers(column, compared)
    return replace(found, whole=found.whole and len(compared) == len(facts), states=states)


def _is_listed(column: Column) -> bool:
    return isinstance(column, CategoryColumn) or column.boolean


_COMPARED: Mapping[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq, "!=": operator.ne,
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip


def _meeting(values: Iterable[V], facts: Sequence[Fact]) -> list[V]:
    """Return those of some values that meet each of the conditions, in time linear in both."""
    left = list(values)
    for fact in facts:
        if fact.op in ("in", "not in"):
            named, wanted = frozenset(fact.values), fact.op == "in"
            left = [one for one in left if (one in named) == wanted]
        else:
            compared = _COMPARED[fact.op]
            left = [one for one in left if compared(one, fact.values[0])]
    return left


def _of_values(column: Column, facts: Sequence[Fact]) -> Left:
    every: tuple[Value, ...] = column.values if isinstance(column, CategoryColumn) else (0, 1)
    if not facts:
        return Left(every, whole=True)
    only = tuple(_meeting(every, facts))
    return Left(only, len(only) == len(every))


def _of_numbers(column: Column, facts: Sequence[Fact]) -> Left:
    assert isinstance(column, NumberColumn)  # others are listed
    ends = (_plain(column.lower), _plain(column.upper))
    named = [fact for fact in facts if fact.op in ("==", "in")]
    if named:
        some = {one for one in _numbers(named[0].values) if _is_of(column, one, ends)}
        only = tuple(sorted(_meeting(some, facts)))
        every = column.whole and len(only) == ends[1] - ends[0] + 1
        return Left(only, every)
    (low, open_low), (high, open_high) = _least(column, facts, ends), _most(column, facts, ends)
    outside = low > high or (low == high and (open_low or open_high))
    if outside:
        return Left((), whole=False)
    excluded = {
        one
        for fact in facts
        if fact.op in _EXCLUDING
        for one in _numbers(fact.values)
        if _is_of(column, one, (low, high))
    }
    whole = not excluded and (low, high) == ends and not (open_low or open_high)
    only_left: tuple[Value, ...] | None = None
    if low == high:
        only_left = () if low in excluded else (low,)
    elif column.whole and high - low < min(_MOST_COUNTED, 2 + len(excluded)):
        only_left = tuple(n for n in range(int(low), int(high) + 1) if n not in excluded)
    return Left(only_left, whole, low, high, open_low, open_high)


def _least(
    column: NumberColumn, facts: Sequence[Fact], ends: tuple[Number, Number]
) -> tuple[Number, bool]:
    """Return the lower end of the remaining values, and whether it is itself excluded."""
    low, is_open = ends[0], False
    for fact in facts:
        if fact.op not in (">", ">="):
            continue
        (value,) = _numbers(fact.values)
        if column.whole:
            value = math.floor(value) + 1 if fact.op == ">" else math.ceil(value)
            low = max(low, value)
        elif value > low or (value == low and fact.op == ">"):
            low, is_open = value, fact.op == ">"
    return low, is_open


def _most(
    column: NumberColumn, facts: Sequence[Fact], ends: tuple[Number, Number]
) -> tuple[Number, bool]:
    """Return the upper end of the remaining values, and whether it is itself excluded."""
    high, is_open = ends[1], False
    for fact in facts:
        if fact.op not in ("<", "<="):
            continue
        (value,) = _numbers(fact.values)
        if column.whole:
            value = math.ceil(value) - 1 if fact.op == "<" else math.floor(value)
            high = min(high, value)
        elif value < high or (value == high and fact.op == "<"):
            high, is_open = value, fact.op == "<"
    return high, is_open


def _is_of(column: NumberColumn, one: Number, ends: tuple[Number, Number]) -> bool:
    """Return whether a cell can hold this number."""
    return ends[0] <= one <= ends[1] and not (column.whole and one != math.floor(one))


def _numbers(values: Sequence[Value]) -> list[Number]:
    return [one for one in values if not isinstance(one, str)]


def _plain(bound: Fraction) -> Number:
    """Return a bound as a cell that equals it is stored: an integer, or the nearest float."""
    return bound.numerator if bound.denominator == 1 else float(bound)


@dataclass(frozen=True, slots=True)
class Conjunction:
    """Conditions that a record must all meet, and the public facts of the columns.

    ``optional`` names the columns that some records may lack: a comparison leaves those out.
    """

    facts: tuple[Fact, ...]
    columns: Mapping[str, Column]
    optional: Collection[str] = ()

    def left(self, name: str) -> Left:
        """Return which values of a column are left."""
        return left_of(self.columns[name], self._on(name))

    def _on(self, name: str) -> list[Fact]:
        return [fact for fact in self.facts if fact.column == name]

    @property
    def culprits(self) -> tuple[Fact, ...]:
        """Return conditions that no record can meet together, as few as say so; or none."""
        for name in dict.fromkeys(fact.column for fact in self.facts):
            if self.left(name).is_empty:
                return _fewest(self.columns[name], self._on(name))
        return ()

    def implies(self, fact: Fact) -> bool:
        """Return whether a condition holds of every record that meets these."""
        return left_of(self.columns[fact.column], [*self._on(fact.column), fact.negated]).is_empty

    def without_effect(self) -> list[Fact]:
        """Return the conditions that leave out no record that the columns allow."""
        return [
            fact
            for fact in self.facts
            if fact.column not in self.optional and left_of(self.columns[fact.column], [fact]).whole
        ]

    def is_outside(self, fact: Fact) -> bool:
        """Return whether a condition compares a number with one beyond its column's bounds."""
        column = self.columns[fact.column]
        if isinstance(column, CategoryColumn) or column.boolean:
            return False
        low, high = _plain(column.lower), _plain(column.upper)
        return any(not low <= value <= high for value in _numbers(fact.values))


def _fewest(column: Column, facts: Sequence[Fact]) -> tuple[Fact, ...]:
    for count in (1, 2):
        for some in combinations(facts, count):
            if left_of(column, some).is_empty:
                return some
    return tuple(facts)


def why_empty(culprits: Sequence[Fact], columns: Mapping[str, Column]) -> str:
    """Return why no record meets these conditions, which are on one column.

    >>> age = NumberColumn(Fraction(0), Fraction(100))
    >>> why_empty([Fact("age", ">", (50,)), Fact("age", "<", (20,))], {"age": age})
    'age > 50 and age < 20 cannot both hold'
    >>> why_empty([Fact("age", ">", (200,))], {"age": age})
    'age > 200 holds of no record, by the bounds 0 to 100 of age'
    """
    names = " and ".join(fact.words(columns) for fact in culprits)
    if len(culprits) > 2:
        return worded("%(names)s cannot all hold", names=names)
    if len(culprits) > 1:
        return worded("%(names)s cannot both hold", names=names)
    by = _domain(culprits[0], columns)
    return worded("%(condition)s holds of no record, %(by)s", condition=names, by=by)


def why_whole(fact: Fact, columns: Mapping[str, Column]) -> str:
    """Return why every record meets a condition."""
    condition, by = fact.words(columns), _domain(fact, columns)
    return worded("%(condition)s holds of every record, %(by)s", condition=condition, by=by)


def _domain(fact: Fact, columns: Mapping[str, Column]) -> str:
    name, column = fact.column, columns[fact.column]
    if isinstance(column, CategoryColumn):
        names = listed(column.values)
        return worded("as the declared values of %(name)s are %(names)s", name=name, names=names)
    if column.boolean:
        return worded("as %(name)s is true or false", name=name)
    if column.whole and any(value != math.floor(value) for value in _numbers(fact.values)):
        return worded("as %(name)s holds whole numbers", name=name)
    low, high = (_shown(column, _plain(end)) for end in (column.lower, column.upper))
    return worded("by the bounds %(low)s to %(high)s of %(name)s", name=name, low=low, high=high)


def _shown(column: Column, value: Value) -> str:
    if isinstance(column, CategoryColumn) or isinstance(value, str):
        return f'"{value}"'
    if column.boolean:
        return "true" if value else "false"
    if column.timed is not None:
        return column.shown(value)
    return repr(value).removesuffix(".0")
