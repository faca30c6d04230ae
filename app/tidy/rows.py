"""An answer as rows: a number each, with what the answer says of it, joined by key.

A row holds a number, where it would have been without the noise (*noise interval*), and where the
population's number is, sampling error included (*confidence interval*), each where the answer
shows it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from app.tidy.keys import Key, at, fit_key, keys_of
from app.tidy.names import Labels, name, statistic, term
from app.tidy.numerals import within

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
    """

    key: Key
    estimate: Any = None
    noise_std: Any = None
    noise: Interval | None = None
    std_error: Any = None
    confidence: Interval | None = None
    expected_error: Any = None
    note: str | None = None

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
        return within(self.estimate, self.interval) if self.note is None else CANNOT_BE_SAID


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


def notes_of(rows: Sequence[Row]) -> list[str]:
    """Return why numbers are missing, each reason once."""
    return list(dict.fromkeys(row.note for row in rows if row.note is not None))
