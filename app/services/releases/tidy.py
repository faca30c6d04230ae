"""An answer as a tidy table: one number a row, with its intervals and nothing else.

A page, a CSV file and a chart show the same rows. They say what the answer says: a number, where
it would have been without the noise (*noise interval*), and where the population's number is,
sampling error included (*confidence interval*), each where the answer tells it.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

Interval = tuple[Any, Any]
"""Low and high: numbers, or ISO 8601 texts where the column holds dates or moments."""

CSV_COLUMNS = (
    "term", "estimate", "noise_low", "noise_high", "confidence_low", "confidence_high", "epsilon",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class TidyRow:
    """One number of an answer.

    Attributes
    ----------
    term
        Which number: a column, coefficient, level, or pair of columns; ``count``.
    labels
        The group, cell or part that it is of, by name; empty where it is about all records.
    estimate
        The number: an int, a float, an ISO 8601 text, or None where the answer has none.
    noise, confidence
        Its intervals; None where the answer does not tell them.
    """

    term: str
    labels: Mapping[str, str] = field(default_factory=dict)
    estimate: Any = None
    noise: Interval | None = None
    confidence: Interval | None = None

    @property
    def name(self) -> str:
        """Return the term with its labels: ``count[region=north]``."""
        if not self.labels:
            return self.term
        inside = ", ".join(f"{name}={value}" for name, value in self.labels.items())
        return f"{self.term}[{inside}]"


def tidy_rows(answer: Mapping[str, Any]) -> tuple[TidyRow, ...]:
    """Return the numbers of a released answer, in its order, and then those of a fit.

    Parameters
    ----------
    answer
        The members of a released answer: ``value``, and where told ``noise`` and ``inference``.
    """
    interval = (answer.get("noise") or {}).get("interval_95")
    inference = answer.get("inference") or {}
    known = {
        (each["term"], _texts(each.get("by") or {})): _pair(each["confidence_95"])
        for each in inference.get("terms", ())
    }
    rows = _walk(answer.get("value"), interval, answer.get("statistic"), TidyRow(term=""))
    found = [replace(row, confidence=known.get((row.term, _texts(row.labels)))) for row in rows]
    return (*found, *(_of_fit(each) for each in inference.get("fit", ())))


def tidy_csv(answer: Mapping[str, Any]) -> str:
    """Return the rows of a released answer as a CSV file (RFC 4180) with a line of names."""
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(CSV_COLUMNS)
    for row in tidy_rows(answer):
        low_high = (*(row.noise or ("", "")), *(row.confidence or ("", "")))
        estimate = "" if row.estimate is None else row.estimate
        writer.writerow((row.name, estimate, *low_high, answer["epsilon"]))
    return text.getvalue()


def _of_fit(term: Mapping[str, Any]) -> TidyRow:
    return TidyRow(
        term=term["term"],
        labels=term.get("by") or {},
        estimate=term["estimate"],
        noise=_pair(term.get("noise_95")),
        confidence=_pair(term["confidence_95"]),
    )


def _walk(part: Any, interval: Any, statistic: Any, here: TidyRow) -> Iterator[TidyRow]:
    """Yield the numbers of a value beside their intervals, which have its shape."""
    if isinstance(part, Mapping):
        for name, inner in part.items():
            beside = interval.get(name) if isinstance(interval, Mapping) else None
            if name in _LISTS and isinstance(inner, list):
                for index, each in enumerate(inner):
                    low_high = _item(beside, index)
                    yield from _LISTS[name](each, low_high, statistic, here, index)
            else:
                yield from _walk(inner, beside, statistic, replace(here, term=str(name)))
    elif isinstance(part, list):
        yield from _matrix(part, interval, statistic, here)
    else:
        yield replace(here, estimate=part, noise=_pair(interval))


def _matrix(rows: Sequence[Any], interval: Any, statistic: Any, here: TidyRow) -> Iterator[TidyRow]:
    """Yield the upper triangle of a symmetric matrix, its columns named where it has names."""
    columns = statistic.get("columns") if isinstance(statistic, Mapping) else None
    named = isinstance(columns, list) and len(columns) == len(rows)
    names = [str(each) for each in (columns if named and columns else range(len(rows)))]
    for i, row in enumerate(rows):
        for j in range(i, len(row)):
            term = f"{names[i]}:{names[j]}"
            beside = _item(_item(interval, i), j)
            yield from _walk(row[j], beside, statistic, replace(here, term=term))


def _group(part: Any, interval: Any, statistic: Any, here: TidyRow, _: int) -> Iterator[TidyRow]:
    inside = replace(here, labels={**here.labels, **part["by"]})
    yield from _walk(part["value"], _member(interval, "value"), statistic, inside)


def _cell(part: Any, interval: Any, _: Any, here: TidyRow, __: int) -> Iterator[TidyRow]:
    inside = replace(here, term="count", labels={**here.labels, **part["cell"]})
    yield from _walk(part["count"], _member(interval, "count"), None, inside)


def _quantile(part: Any, interval: Any, _: Any, here: TidyRow, __: int) -> Iterator[TidyRow]:
    inside = replace(here, term=f"level {part['level']}")
    yield from _walk(part["value"], _member(interval, "value"), None, inside)


def _part(part: Any, interval: Any, statistic: Any, here: TidyRow, index: int) -> Iterator[TidyRow]:
    own = _item(_member(statistic, "parts"), index)
    inside = replace(here, labels={**here.labels, "part": str(index + 1)})
    yield from _walk(part, interval, _member(own, "statistic"), inside)


_LISTS = {"groups": _group, "parts": _part, "cells": _cell, "quantiles": _quantile}


def _member(part: Any, name: str) -> Any:
    return part.get(name) if isinstance(part, Mapping) else None


def _item(part: Any, index: int) -> Any:
    return part[index] if isinstance(part, list) and index < len(part) else None


def _pair(interval: Any) -> Interval | None:
    if isinstance(interval, list | tuple) and len(interval) == 2:
        return interval[0], interval[1]
    return None


def _texts(labels: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    return tuple((name, str(value)) for name, value in labels.items())
