"""Numbers as people read them: thousands apart, and no digits that say nothing."""

from __future__ import annotations

import math
from typing import Any

_DIGITS = 5  # of a number whose noise is not shown
_OF_WIDTH = 100.0
"""Of an interval's half-width the hundredth part is worth reading: three digits of it."""
_FIRST = 3  # digits of a number that are shown whatever its interval is
_PLACES = 6  # after the point; what needs more of them is shown with its power of ten
_HAIR = 1e-9  # the logarithm of a power of ten may be a hair less than a whole number


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

    At least three digits count, however wide the interval is: a small coefficient is not nought.

    >>> within(-4.567, (-90, 80)), within(0.0399, (-60, 60)), within(-0.0245, (-60, 60))
    ('-4.57', '0.0399', '-0.0245')
    >>> within(946.1504, (746.2, 1146.1)), within(0.380149, (0.1213, 0.639)), within(2.5, None)
    ('946', '0.380', '2.5')
    >>> within(20640.1234, (20640.12, 20640.13)), within(0.0123456, (0.011, 0.014))
    ('20,640.12340', '0.01235')
    """
    ends = [end for end in interval or () if isinstance(end, int | float)]
    half = (ends[1] - ends[0]) / 2 if len(ends) == 2 else 0.0
    valid = isinstance(value, int | float) and 0 < half < math.inf
    return spaced(value, min(half / _OF_WIDTH, _least_step(value))) if valid else number(value)


def _least_step(value: float) -> float:
    """Return the step that leaves a number its first digits."""
    return 10.0 ** (math.floor(math.log10(abs(value)) + _HAIR) + 1 - _FIRST) if value else math.inf


def spaced(value: float, step: float) -> str:
    """Return a number with the digits that distinguish it from those that are a step away.

    >>> spaced(3 * 0.1, 0.1), spaced(1234.56, 0.02), spaced(1.25e-8, 1e-10), spaced(-0.01, 0.5)
    ('0.3', '1,234.56', '1.25e-08', '0.0')
    """
    if float(value).is_integer():
        return number(value)
    places = max(0, -math.floor(math.log10(step) + _HAIR))
    if places <= _PLACES:
        return f"{value:z,.{places}f}"
    digits = places + 1 + math.floor(math.log10(abs(value)))
    return f"{value:,.{max(1, digits)}g}"
