"""Public conditions that select the records a statistic is about.

A record is selected when it meets every condition. Comparisons are made on values, which are
stored exactly: of whole kinds in integers, of numbers as binary64, where a condition's decimal is
read as the cells' are. A column of a trillion whole numbers distinguishes 0 from 1.
A record without a value meets no comparison, not even ``!=``: it meets ``missing`` alone.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import floor, isfinite
from typing import ClassVar, Literal, cast

import numpy as np

from mechanisms.contract import Block, InvalidStatisticError, meaning, require_column
from mechanisms.domain import CategoryColumn, NumberColumn, Schema, exact, presence_of
from mechanisms.exact.fractions import as_written
from mechanisms.expressions.conjunctions import ORDERED, Mask, compared, order_of_whole
from mechanisms.expressions.tree import quoted_name
from mechanisms.words import closest_first, listed, no_value, slip_of, worded

MAX_CONDITIONS = 20
MAX_CHOICES = 1000  # of `in`: each is looked for in every row

_MS_PER_VALUE = 0.004
"""What one value of many takes of one core to be read and checked."""
_MS_PER_ROW = 8e-5
"""Milliseconds to look a row up among many values; comparing it with one value takes far less
than reading it."""

Operator = Literal["==", "!=", "<", "<=", ">", ">=", "in", "present", "missing"]
Scalar = bool | int | float | str
Number = int | float

_CHOSEN = ("==", "!=", "in")


PRESENCE = ("present", "missing")
"""Operators without a value: whether a record has one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """One comparison of a column with a public value, or whether a record has a value at all."""

    __pydantic_config__: ClassVar[dict[str, object]] = {"extra": "forbid"}

    column: str = field(metadata=meaning("A column's name.", example="ocean_proximity"))
    op: Operator = field(
        metadata=meaning(
            "How the column is compared with the value. Categories and booleans know only "
            "`==`, `!=` and `in`. `present` and `missing` take no value: they select the records "
            "that have a value in a column whose missing cells are kept, and those that have none.",
            example="==",
        )
    )
    value: Scalar | tuple[Scalar, ...] | None = field(
        default=None,
        metadata=meaning(
            "A number or date within the column's bounds, one of a category's declared values, or "
            "true or false. With `in` a list of them; with `present` and `missing` none.",
            example="INLAND",
        ),
    )

    def __post_init__(self) -> None:
        if self.op in PRESENCE:
            if self.value is not None:
                raise InvalidStatisticError(
                    f"{self.op} takes no value: leave it out", field_name="value"
                )
        elif self.value is None:
            raise InvalidStatisticError(
                f"{self.op} needs a value to compare {self.column} with", field_name="value"
            )

    def numbers(self, schema: Schema) -> tuple[Number, ...]:
        """Return the values compared with, as a block has them; one, unless ``op`` is ``in``.

        Raises
        ------
        InvalidStatisticError
            The condition does not fit the column.
        """
        column = require_column(schema, self.column, "where")
        if self.op in PRESENCE:
            name = quoted_name(self.column)
            raise _invalid(
                f"{self.op} is for where, which selects records; a derived column says the same: "
                f'"derive": {{"missing": "{name} is missing"}}'
            )
        ordered = isinstance(column, NumberColumn) and not column.boolean
        if self.op not in ORDERED and self.op not in _CHOSEN:
            raise _invalid("a condition's op is one of ==, !=, <, <=, >, >=, in, present, missing")
        if not ordered and self.op not in _CHOSEN:
            raise _invalid(
                f"{self.column} is a boolean, which is compared by ==, != or in"
                if isinstance(column, NumberColumn)
                else f"{self.column} is a category, which is compared by ==, != or in"
            )
        listed = isinstance(self.value, (tuple, list))
        if listed != (self.op == "in"):
            raise _invalid("a list of values goes with in, a single value with the other ops")
        values = self._values
        if not 1 <= len(values) <= MAX_CHOICES:
            raise _invalid(
                f"in takes between 1 and {MAX_CHOICES} values; an empty list selects no record"
            )
        if isinstance(column, CategoryColumn):  # its values and these may be thousands
            places = zip(column.places_of(values), values, strict=True)
            return tuple(_declared(place, column, value, self.column) for place, value in places)
        return _numbers(column, values, self.column)

    def mask(self, block: Block, schema: Schema) -> Mask:
        """Return which rows of the block meet the condition."""
        return self.comparison(schema).mask(block)

    def comparison(self, schema: Schema) -> Comparison:
        """Return the condition as it is applied: one for all spellings of it."""
        if self.op in PRESENCE:
            self._require_optional(schema)
            return Comparison(presence_of(self.column), "in", (int(self.op == "present"),))
        numbers, column = self.numbers(schema), schema.columns[self.column]
        whole = not isinstance(column, NumberColumn) or column.dtype.kind == "i"
        if self.op in _CHOSEN:
            # No whole number is one with decimals.
            held = {int(each) if whole else float(each) for each in numbers if _held(each, whole)}
            op: Operator = "!=" if self.op == "!=" else "in"
            return Comparison(self.column, op, tuple(sorted(held)))
        if not whole:
            return Comparison(self.column, self.op, (float(numbers[0]),))
        order, number = order_of_whole(self.op, numbers[0])
        return Comparison(self.column, cast(Operator, order), (number,))

    @property
    def _values(self) -> tuple[Scalar, ...]:
        if isinstance(self.value, (tuple, list)):
            return tuple(self.value)
        return () if self.value is None else (self.value,)

    def _require_optional(self, schema: Schema) -> None:
        require_column(schema, self.column, "where")
        if self.column not in schema.optional:
            kept = sorted(schema.optional & {*schema.columns})
            names = listed(kept)
            raise _invalid(
                f"every record has a value of {self.column}: the data set does not keep missing "
                f'cells of this column. Columns with "missing": "keep" are {names}'
                if kept
                else f"every record has a value of {self.column}: the data set does not keep "
                "missing cells of this column"
            )

    @property
    def choices(self) -> int:
        """Return how many values the column is looked for among; 0 where it is compared."""
        return len(self.value) if isinstance(self.value, (tuple, list)) else 0


@dataclass(frozen=True, slots=True)
class Comparison:
    """A condition on the values of a column; ``numbers`` are ascending.

    ``op`` is ``in``, ``!=`` (none of the numbers), or an order, which has one number.
    """

    column: str
    op: Operator
    numbers: tuple[Number, ...]

    @property
    def reads(self) -> str:
        """Return under which name a block holds what is compared."""
        return exact(self.column)

    def mask(self, block: Block) -> Mask:
        """Return which rows of the block meet the condition."""
        values = block[self.reads]
        if len(self.numbers) == 1:
            return compared(values, "==" if self.op == "in" else self.op, self.numbers[0])
        known = np.array(self.numbers, dtype=values.dtype)
        return np.isin(values, known, invert=self.op == "!=")


def _held(number: Number, whole: bool) -> bool:
    return not whole or number == floor(number)


def comparisons(where: Sequence[Condition], schema: Schema) -> list[Comparison]:
    """Return the conditions as they are applied.

    Raises
    ------
    InvalidStatisticError
        A condition does not fit the schema, or there are too many.
    """
    # Whether records have values at all is asked of each column that an answer needs.
    if sum(each.op not in PRESENCE for each in where) > MAX_CONDITIONS:
        raise _invalid(f"give at most {MAX_CONDITIONS} conditions")
    found = []
    for place, condition in enumerate(where):
        try:
            found.append(condition.comparison(schema))
        except InvalidStatisticError as error:
            raise InvalidStatisticError(error.detail, field_name=f"where[{place}]") from None
    return found


def values_ms(where: Sequence[Condition]) -> float:
    """Return about how many milliseconds of one core it takes to read many values."""
    return _MS_PER_VALUE * sum(condition.choices for condition in where)


def selecting_ms(where: Sequence[Condition], rows: int) -> float:
    """Return about how many milliseconds of one core it takes to select among ``rows`` rows."""
    return values_ms(where) + _MS_PER_ROW * rows * sum(each.op == "in" for each in where)


def within(column: NumberColumn, value: float) -> bool:
    """Return whether the number, read as the decimal it was written as, lies in the bounds."""
    if isinstance(value, int):
        return column.lower <= value <= column.upper
    return isfinite(value) and column.lower <= as_written(value) <= column.upper


def _declared(place: int | None, column: CategoryColumn, value: Scalar, name: str) -> int:
    if place is None:
        text = value if isinstance(value, str) else ""
        if text and slip_of(list(column.values), text) is not None:
            raise _invalid(no_value(name, list(column.values), text))
        names = listed(closest_first(list(column.values), text))
        raise _invalid(f"the value is not one that the category declares; those are {names}")
    return place


def _numbers(column: NumberColumn, values: Sequence[Scalar], name: str) -> tuple[Number, ...]:
    """Return the numbers that values, which may be thousands, stand for."""
    if column.boolean:
        return tuple(_truth(value, name) for value in values)
    low, high = float(column.lower), float(column.upper)
    if column.timed is not None:
        # A year, such as 1960, would count days since 1970.
        read = [column.number_of(value) for value in values]
        values = ["" if number is None else number for number in read]
    numbers: list[Number] = []
    for value in values:
        if isinstance(value, (bool, str)):
            raise _invalid(_not_of(column, value, name))
        # What rounds to more than the bound does is more than the bound: rounding keeps order.
        # So most values need no fraction.
        if not (isinstance(value, float) and low < value < high) and not within(column, value):
            first, last = column.shown(low), column.shown(high)
            raise _invalid(f"the value must lie between {first} and {last}, the bounds of {name}")
        numbers.append(value)
    return tuple(numbers)


def _not_of(column: NumberColumn, value: Scalar, name: str) -> str:
    """Return the message for what is no number, or for a text that is no time, of a column."""
    said = (
        worded("%(name)s is a number column, and compared with a number", name=name)
        if column.timed is None
        else worded(
            '%(name)s is a %(kinds)s column, and compared with an ISO 8601 text, such as '
            '"1960-12-31"',
            name=name, kinds=column.kind,
        )
    )  # fmt: skip
    # for whom has written decimals with a comma
    if isinstance(value, str) and re.fullmatch(r"[+-]?\d+,\d+", value.strip()):
        said += "; " + worded("decimals are written with a point, as in 3.5")
    return said


def _truth(value: Scalar, name: str) -> int:
    if not isinstance(value, bool) and value not in (0, 1):
        raise _invalid(f"{name} is a boolean column, and compared with true or false")
    return int(bool(value))


def _invalid(detail: str) -> InvalidStatisticError:
    return InvalidStatisticError(detail, field_name="where")
