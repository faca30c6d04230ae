"""Numbers as people read them: thousands apart, and no digits that say nothing."""

from __future__ import annotations

import math
from typing import Any

_DIGITS = 5  # of a number about whose noise nothing is told
_OF_WIDTH = 3
"""So many digits of an interval's half-width are worth reading, and as many places of a number."""


def number(value: float | str | None) -> str:
    """Return a number with at most five digits that count, thousands apart.

    >>> number(20640), number(0.0123456), number(-3.0), number(None)
    ('20,640', '0.012346', '-3', '–')
    """
    if value is None:
        return "–"
    if isinstance(value, str):
        return value
    if float(value).is_integer() and abs(value) < 1e15:
        return f"{int(value):,}"
    text = f"{value:,.{_DIGITS}g}"
    return f"{value:,.0f}" if "e+" in text and abs(value) < 1e9 else text


def within(value: Any, interval: tuple[Any, Any] | None) -> str:
    """Return a number with the digits that an interval around it leaves worth reading.

    >>> within(946.1504, (746.2, 1146.1)), within(0.380149, (0.1213, 0.639)), within(2.5, None)
    ('946', '0.380', '2.5')
    """
    ends = [end for end in interval or () if isinstance(end, int | float)]
    half = (ends[1] - ends[0]) / 2 if len(ends) == 2 else 0.0
    whole = not isinstance(value, int | float) or float(value).is_integer()
    if whole or not 0 < half < math.inf:
        return number(value)
    places = max(0, _OF_WIDTH - 1 - math.floor(math.log10(half)))
    return f"{value:,.{places}f}" if places <= _OF_WIDTH + 1 else number(value)
