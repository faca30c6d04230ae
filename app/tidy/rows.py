"""An answer as rows: a number each, with what the answer says of it, joined by key.

A row holds a number, where it would have been without the noise (*noise interval*), and where the
population's number is, sampling error included (*confidence interval*), each where the answer
shows it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from app.tidy.keys import Key, at, fit_key, keys_of
from app.tidy.names import Labels, name, statistic, term

# Numbers as people read them: thousands apart, and no digits that say nothing

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


# An answer as rows: a number each, with what the answer says of it, joined by key

Interval = tuple[Any, Any]
"""Low and high: numbers, or ISO 8601 texts where the column holds dates or moments."""

CANNOT_BE_SAID = "cannot be said"
"""What stands in place of a number that has a ``note`` and no estimate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One number of an answer.

    Attributes
    ----------
    key
        Which number it is.
    estimate
        The number: an int, a float, an ISO 8601 text, or None where the answer has none.
    noise_std, noise
        The standard deviation of its noise, and its noise interval; None where not shown.
    std_error, confidence
        Its standard error and its confidence interval; None where not shown.
    expected_error
        Of a preview: how far the number is expected to be off.
    note
        Why there is no estimate, in a sentence.
    at_most
        Why the estimate is an upper bound, in a sentence; None where it is the number itself.
    """

    key: Key
    estimate: Any = None
    noise_std: Any = None
    noise: Interval | None = None
    std_error: Any = None
    confidence: Interval | None = None
    expected_error: Any = None
    note: str | None = None
    at_most: str | None = None

    @property
    def term(self) -> str:
        """Return which number it is within its statistic and group."""
        return term(self.key)

    @property
    def statistic(self) -> str:
        """Return which statistic it is, as tables have it."""
        return statistic(self.key)

    @property
    def name(self) -> str:
        """Return its name in a line: ``mean of age (sex=M)``."""
        return name(self.key)

    def named(self, labels: Labels) -> str:
        """Return its name in a line, with the labels of categories."""
        return name(self.key, labels)

    @property
    def interval(self) -> Interval | None:
        """Return the interval that says how exact it is: the noise's, else the confidence one."""
        return self.noise or self.confidence

    @property
    def shown(self) -> str:
        """Return the number as pages show it, or that it cannot be said."""
        if self.note is not None:
            return CANNOT_BE_SAID
        return bounded(within(self.estimate, self.interval), bound=self.at_most is not None)

    @property
    def remark(self) -> str | None:
        """Return what files say next to the number: why there is none, or why it is a bound."""
        return self.note or self.at_most


def bounded(text: str, *, bound: bool) -> str:
    """Return a written number with the sign of an upper bound, where it is one.

    >>> bounded("0.003", bound=True), bounded("0.003", bound=False)
    ('≤ 0.003', '0.003')
    """
    return f"≤ {text}" if bound else text


def rows_of(answer: Mapping[str, Any]) -> tuple[Row, ...]:
    """Return the numbers of an answer, in its order, and then those of a fit.

    Parameters
    ----------
    answer
        The members of a release, derivation, dry run or preview: ``statistic`` and ``value``, and
        where shown ``noise``, ``inference`` and ``expected_error``. Without a value the numbers are
        those that the answer says anything else of.
    """
    noise = answer.get("noise") or {}
    std, interval = noise.get("std"), noise.get("interval_95")
    value, errors = answer.get("value"), answer.get("expected_error")
    asked = answer.get("statistic")
    shape = next((each for each in (value, errors, std) if each), None)
    inference = answer.get("inference") or {}
    inferred = {tuple(each.get("place") or ()): each for each in inference.get("terms") or ()}
    edges = {tuple(each["place"]): each["reason"] for each in answer.get("at_edge") or ()}
    bounds = {tuple(each["place"]): each["reason"] for each in answer.get("at_most") or ()}
    rows = []
    for key in keys_of(shape, asked):
        number, known = at(value, key.place), inferred.get(key.place) or {}
        note = known.get("reason") or edges.get(key.place)
        rows.append(
            Row(
                key=key,
                estimate=None if note else number,
                noise_std=at(std, key.place),
                noise=_pair(at(interval, key.place)),
                std_error=known.get("std_error"),
                confidence=_pair(known.get("confidence_95")),
                expected_error=at(errors, key.place),
                note=note,
                at_most=bounds.get(key.place),
            )
        )
    return (*rows, *(_of_fit(each, asked) for each in inference.get("fit") or ()))


def _of_fit(each: Mapping[str, Any], asked: object) -> Row:
    return Row(
        key=fit_key(each, asked),
        estimate=each.get("estimate"),
        noise=_pair(each.get("noise_95")),
        std_error=each.get("std_error"),
        confidence=_pair(each.get("confidence_95")),
        note=each.get("reason"),
    )


def _pair(interval: Any) -> Interval | None:
    if isinstance(interval, list | tuple) and len(interval) == 2:
        return interval[0], interval[1]
    return None


def with_intervals(rows: Sequence[Row]) -> Iterator[Row]:
    """Yield rows, of a quantity with confidence intervals only those that have an interval.

    A test has an estimate with its interval, and a statistic and a p-value, which have none and are
    no amounts of what the estimate is of: on its axis they would be misread.
    """
    inferred = {statistic(row.key) for row in rows if row.confidence}
    for row in rows:
        if row.note or row.interval or statistic(row.key) not in inferred:
            yield row


def notes_of(rows: Sequence[Row]) -> list[str]:
    """Return why numbers are missing, or upper bounds, each reason once."""
    return list(dict.fromkeys(row.remark for row in rows if row.remark is not None))
