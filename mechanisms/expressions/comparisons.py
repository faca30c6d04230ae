"""A column's values compared with a public number, exactly.

Values of whole kinds are integers, and are compared as such: those above 2.5 are those of 3 or
more, and no integer is rounded to a float on the way. Numbers are binary64, and the
constant is the binary64 nearest to the decimal that was written, as the cells are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from math import ceil, floor
from typing import Any

import numpy as np
from numpy.typing import NDArray

Number = int | float | Fraction
Mask = NDArray[np.bool_]

ORDERED: Mapping[str, Callable[[Any, Any], Mask]] = {
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
}
EQUAL: Mapping[str, Callable[[Any, Any], Mask]] = {"==": np.equal, "!=": np.not_equal}
COMPARE: Mapping[str, Callable[[Any, Any], Mask]] = {**ORDERED, **EQUAL}


def order_of_whole(op: str, number: Number) -> tuple[str, int]:
    """Return the same order relation of integers, as ``<=`` or ``>=`` an integer.

    >>> order_of_whole(">", 2.5), order_of_whole("<", 3)
    (('>=', 3), ('<=', 2))
    """
    if op in (">", ">="):
        return ">=", floor(number) + 1 if op == ">" else ceil(number)
    return "<=", ceil(number) - 1 if op == "<" else floor(number)


def compared(values: NDArray[Any], op: str, number: Number) -> Mask:
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
