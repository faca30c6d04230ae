"""Public conditions that select the records a statistic is about.

A record is selected when it meets every condition. Comparisons are made on codes,
the condition's value passing through the same encoding as the data, so a
record equal to the value stays equal to it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from mechanisms.contract import Block, InvalidStatisticError, meaning, require_column
from mechanisms.domain import CODE_MAX, CategoryColumn, NumberColumn, Schema
from mechanisms.exact.decimals import as_written
from mechanisms.words import closest_first, listed

MAX_CONDITIONS = 20
MAX_CHOICES = 1000  # of `in`: each is looked for in every row

_MS_PER_VALUE = 0.004
"""What one value of many takes of one core to be read, checked and turned into a code."""
_MS_PER_ROW = 8e-5
"""What one row takes to be looked for among many values; to compare it with one is nothing
beside reading it."""

Operator = Literal["==", "!=", "<", "<=", ">", ">=", "in"]
Scalar = bool | int | float | str
Mask = NDArray[np.bool_]

_COMPARE: dict[str, Callable[[NDArray[np.int32], int], Mask]] = {
    "==": lambda codes, code: codes == code,
    "!=": lambda codes, code: codes != code,
    "<": lambda codes, code: codes < code,
    "<=": lambda codes, code: codes <= code,
    ">": lambda codes, code: codes > code,
    ">=": lambda codes, code: codes >= code,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """One comparison of a column with a public value."""

    __pydantic_config__: ClassVar[dict[str, object]] = {"extra": "forbid"}

    column: str = field(metadata=meaning("A column's name.", example="ocean_proximity"))
    op: Operator = field(
        metadata=meaning(
            "How the column is compared with the value. Categories and booleans know only "
            "`==`, `!=` and `in`.",
            example="==",
        )
    )
    value: Scalar | tuple[Scalar, ...] = field(
        metadata=meaning(
            "A number or date within the column's bounds, one of a category's declared values, or "
            "true or false. With `in` a list of them.",
            example="INLAND",
        )
    )

    def codes(self, schema: Schema) -> tuple[int, ...]:
        """Return the codes compared with; one, unless the operator is ``in``.

        Raises
        ------
        InvalidStatisticError
            The condition does not fit the column.
        """
        column = require_column(schema, self.column, "where")
        ordered = isinstance(column, NumberColumn) and not column.boolean
        if self.op not in _COMPARE and self.op != "in":
            raise _invalid("a condition's op is one of ==, !=, <, <=, >, >=, in")
        if not ordered and self.op not in ("==", "!=", "in"):
            kind = "boolean" if isinstance(column, NumberColumn) else "category"
            raise _invalid(f"{self.column} is a {kind}, which is compared by ==, != or in")
        listed = isinstance(self.value, (tuple, list))
        if listed != (self.op == "in"):
            raise _invalid("a list of values goes with in, a single value with the other ops")
        values = tuple(self.value) if isinstance(self.value, (tuple, list)) else (self.value,)
        if not 1 <= len(values) <= MAX_CHOICES:
            raise _invalid(f"in takes between 1 and {MAX_CHOICES} values")
        if isinstance(column, CategoryColumn):  # its values and these may be thousands
            known = {value: code for code, value in enumerate(column.values)}
            return tuple(_category_code(known, value) for value in values)
        return _number_codes(column, values, self.column)

    def mask(self, block: Block, schema: Schema) -> Mask:
        """Return which rows of the block meet the condition."""
        return self.comparison(schema).mask(block)

    def comparison(self, schema: Schema) -> Comparison:
        """Return the condition on codes: one for all spellings of it."""
        return Comparison(self.column, self.op, tuple(sorted(set(self.codes(schema)))))

    @property
    def choices(self) -> int:
        """Return how many values the column is looked for among; 0 where it is compared."""
        return len(self.value) if isinstance(self.value, (tuple, list)) else 0


@dataclass(frozen=True, slots=True)
class Comparison:
    """A condition on the codes of a column; ``codes`` are ascending, one unless ``op`` is in."""

    column: str
    op: Operator
    codes: tuple[int, ...]

    def mask(self, block: Block) -> Mask:
        """Return which rows of the block meet the condition."""
        rows = block[self.column]
        if self.op == "in":
            return np.isin(rows, np.array(self.codes, dtype=np.int32))
        return _COMPARE[self.op](rows, self.codes[0])


def comparisons(where: Sequence[Condition], schema: Schema) -> list[Comparison]:
    """Return the conditions on codes.

    Raises
    ------
    InvalidStatisticError
        A condition does not fit the schema, or there are too many.
    """
    if len(where) > MAX_CONDITIONS:
        raise _invalid(f"give at most {MAX_CONDITIONS} conditions")
    found = []
    for place, condition in enumerate(where):
        try:
            found.append(condition.comparison(schema))
        except InvalidStatisticError as error:
            raise InvalidStatisticError(error.detail, field_name=f"where[{place}]") from None
    return found


def values_ms(where: Sequence[Condition]) -> float:
    """Return about how many milliseconds of one core it takes to make codes of many values."""
    return _MS_PER_VALUE * sum(condition.choices for condition in where)


def selecting_ms(where: Sequence[Condition], rows: int) -> float:
    """Return about how many milliseconds of one core it takes to select among so many rows."""
    return values_ms(where) + _MS_PER_ROW * rows * sum(each.op == "in" for each in where)


def within(column: NumberColumn, value: float) -> bool:
    """Return whether the number, read as the decimal it was written as, lies in the bounds."""
    if isinstance(value, int):
        return column.lower <= value <= column.upper
    return isfinite(value) and column.lower <= as_written(value) <= column.upper


def _category_code(known: Mapping[str, int], value: Scalar) -> int:
    if not isinstance(value, str) or value not in known:
        there = listed(closest_first(list(known), value if isinstance(value, str) else ""))
        raise _invalid(f"the value is not one that the category declares; those are {there}")
    return known[value]


def _number_codes(column: NumberColumn, values: Sequence[Scalar], name: str) -> tuple[int, ...]:
    """Return the codes of values, which may be thousands, by the same rounding as the data's."""
    if column.boolean:
        return tuple(_boolean_code(value, name) for value in values)
    low, high = float(column.lower), float(column.upper)
    if column.timed is not None:
        # A year, such as 1960, would count days since 1970.
        read = [column.number_of(value) for value in values]
        values = ["" if number is None else number for number in read]
    for value in values:
        if isinstance(value, (bool, str)):
            raise _invalid(f"{name} is {_called(column)}")
        # What rounds to more than the bound does is more than the bound: rounding keeps order.
        # So most values need no fraction.
        if not (isinstance(value, float) and low < value < high) and not within(column, value):
            raise _invalid(
                f"the value must lie within the bounds of {name}, "
                f"{column.shown(low)} to {column.shown(high)}"
            )
    codes: list[int] = column.encode(np.array(values, dtype=np.float64)).tolist()
    return tuple(codes)


def _called(column: NumberColumn) -> str:
    if column.timed is not None:
        return f'a {column.kind} column, and compared with an ISO 8601 text, such as "1960-12-31"'
    return "a number column, and compared with a number"


def _boolean_code(value: Scalar, name: str) -> int:
    if not isinstance(value, bool) and value not in (0, 1):
        raise _invalid(f"{name} is a boolean column, and compared with true or false")
    return CODE_MAX if value else -CODE_MAX


def _invalid(detail: str) -> InvalidStatisticError:
    return InvalidStatisticError(detail, field_name="where")
