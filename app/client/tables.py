"""Answers as tidy tables: a row for each number, with its group, its name and its noise."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape
from numbers import Real
from typing import Any

from app.client.bars import bars_of
from app.client.errors import MissingPackageError

Row = dict[str, Any]

_NOT_INFERRED: Row = {"std_error": None, "confidence_low": None, "confidence_high": None}
MEASURES = (
    "term", "value", "noise", "noise_low", "noise_high", "expected_error", "synthetic",
    *_NOT_INFERRED,
)  # fmt: skip
"""What a row may say, after the labels of its group."""
_PART = "part"
_SHOWN = 30
"""Rows that a notebook shows; the frame has them all."""
_NO_PANDAS = "to_frame() needs pandas: pip install pandas. Without it, rows() has the same rows."


@dataclass(frozen=True, slots=True)
class _Number:
    """Where a number is in an answer, and what it is called; also in its inference."""

    labels: Mapping[str, Any]
    term: str
    path: tuple[str | int, ...]
    inferred: str | None = None

    def below(self, *steps: str | int, term: str | None = None) -> _Number:
        path = (*self.path, *steps)
        return replace(self, path=path, term=self.term if term is None else term)

    def labelled(self, labels: Mapping[str, Any]) -> _Number:
        """Name the group; a column that is called like a measure shall not be taken for it."""
        taken = {*MEASURES, _PART}
        named = {f"by {name}" if name in taken else name: labels[name] for name in labels}
        return replace(self, labels={**self.labels, **named})


def rows_of(answer: Mapping[str, Any]) -> list[Row]:
    """Return the rows of an answer: of its value, else of what a preview tells of each number."""
    noise = answer.get("noise") or {}
    std, interval = noise.get("std"), noise.get("interval_95")
    expected = answer.get("expected_error")
    value = answer.get("value")
    shape: object = next((each for each in (value, expected, std) if each is not None), {})
    inference = _by_term(answer.get("inference"))
    rows = []
    for number in _numbers(shape, answer.get("statistic"), _Number({}, "", ())):
        row: Row = {**number.labels, "term": number.term}
        if value is not None:
            row["value"] = _at(value, number.path)
        low_high = _at(interval, number.path)
        low, high = low_high if _is_pair(low_high) else (None, None)
        row |= {"noise": _at(std, number.path), "noise_low": low, "noise_high": high}
        if expected is not None:
            row["expected_error"] = _at(expected, number.path)
        if answer.get("synthetic"):
            row["synthetic"] = True
        if inference:
            named = (*number.labels.values(), number.inferred or number.term)
            row |= inference.get(named, _NOT_INFERRED)
        rows.append(row)
    return rows


def _by_term(inference: object) -> dict[tuple[Any, ...], Row]:
    """Return what inference says of each number, by the labels of its group and its name."""
    terms = inference.get("terms") if isinstance(inference, Mapping) else None
    found = {}
    for each in terms if isinstance(terms, list) else []:
        interval = each.get("confidence_95")
        low, high = interval if _is_pair(interval) else (None, None)
        found[*(each.get("by") or {}).values(), str(each.get("term"))] = {
            "std_error": each.get("std_error"), "confidence_low": low, "confidence_high": high
        }  # fmt: skip
    return found


def _numbers(part: object, statistic: object, here: _Number) -> Iterator[_Number]:
    """Yield the numbers of an answer's value, in its order."""
    if part is None or isinstance(part, Real):
        yield here
    elif isinstance(part, list):
        yield from _matrix(part, statistic, here)
    elif isinstance(part, Mapping):
        for name, inner in part.items():
            if name in _TABLES and isinstance(inner, list):
                for index, each in enumerate(inner):
                    yield from _TABLES[name](each, statistic, here.below(name, index))
            else:
                # what holds numbers of its own names them: means, coefficients, matrix
                yield from _numbers(inner, statistic, here.below(name, term=str(name)))


def _matrix(rows: Sequence[Any], statistic: object, here: _Number) -> Iterator[_Number]:
    """Yield the upper triangle of a symmetric matrix, or the entries of a list."""
    columns = _at(statistic, ("columns",))
    named = isinstance(columns, list) and len(columns) == len(rows)
    names = columns if named else range(len(rows))
    for i, row in enumerate(rows):
        if isinstance(row, list):
            for j in range(i, len(row)):
                yield here.below(i, j, term=f"{names[i]}:{names[j]}")
        else:
            yield from _numbers(row, statistic, here.below(i, term=f"{here.term}[{i}]"))


def _group(part: Mapping[str, Any], statistic: object, here: _Number) -> Iterator[_Number]:
    yield from _numbers(part["value"], statistic, here.labelled(part["by"]).below("value"))


def _cell(part: Mapping[str, Any], _: object, here: _Number) -> Iterator[_Number]:
    yield here.labelled(part["cell"]).below("count", term="count")


def _quantile(part: Mapping[str, Any], _: object, here: _Number) -> Iterator[_Number]:
    level = str(part["level"])
    yield replace(here.below("value", term=f"level {level}"), inferred=level)


def _part(part: object, statistic: object, here: _Number) -> Iterator[_Number]:
    index = int(here.path[-1])
    own = _at(statistic, ("parts", index, "statistic"))
    yield from _numbers(part, own, replace(here, labels={**here.labels, _PART: index + 1}))


_TABLES = {"groups": _group, "parts": _part, "cells": _cell, "quantiles": _quantile}


def _at(part: Any, path: Sequence[str | int]) -> Any:
    """Return what lies at a path, None where the way there is not."""
    for step in path:
        try:
            part = part[step]
        except (IndexError, KeyError, TypeError):
            return None
    return part


def _is_pair(part: object) -> bool:
    return isinstance(part, list) and len(part) == 2


def columns_of(rows: Sequence[Row]) -> list[str]:
    """Return every column of the rows, in the order in which they first occur."""
    ordered = list(dict.fromkeys(name for row in rows for name in row))
    labels = [name for name in ordered if name not in MEASURES]
    return [*labels, *(name for name in MEASURES if name in ordered)]


def frame_of(rows: Sequence[Row]) -> Any:
    """Return rows as a data frame of pandas.

    Raises
    ------
    MissingPackageError
        pandas is not installed.
    """
    try:
        pandas = importlib.import_module("pandas")
    except ImportError:
        raise MissingPackageError(_NO_PANDAS) from None
    return pandas.DataFrame(rows, columns=columns_of(rows))


def html_of(caption: str, rows: Sequence[Row], note: str = "") -> str:
    """Return a small table of rows for a notebook: no script, and every text escaped.

    Where intervals are known, a drawing beside each number shows its own.
    """
    meaning, bars = bars_of(rows[:_SHOWN])
    columns = columns_of(rows)
    head = "".join(f"<th>{escape(name)}</th>" for name in columns)
    cells = [
        "".join(f"<td>{escape(shown(row.get(name)))}</td>" for name in columns)
        for row in rows[:_SHOWN]
    ]
    if any(bars):
        head += f"<th>{meaning}</th>"
        cells = [f"{own}<td>{bar}</td>" for own, bar in zip(cells, bars, strict=True)]
    body = "".join(f"<tr>{own}</tr>" for own in cells)
    more = f"<p>and {len(rows) - _SHOWN} more rows</p>" if len(rows) > _SHOWN else ""
    said = f"<p>{escape(note)}</p>" if note else ""
    return (
        f"<table><caption>{escape(caption)}</caption>"
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}{said}"
    )


def shown(value: object) -> str:
    """Return a cell as people read it: numbers to six digits, nothing for what is not known."""
    if value is None:
        return ""
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def lines_of(rows: Sequence[Row]) -> Iterator[str]:
    """Yield rows as aligned lines below their names, words to the left and numbers to the right.

    Measures that no row has, as the noise where it is not known beforehand, are left out.
    """
    for_people = [
        name
        for name in columns_of(rows)
        if name not in MEASURES or any(row.get(name) is not None for row in rows)
    ]
    columns = [[name, *(shown(row.get(name)) for row in rows)] for name in for_people]
    right = [any(isinstance(row.get(name), Real) for row in rows) for name in for_people]
    widths = [max(map(len, column)) for column in columns]
    for line in zip(*columns, strict=True):
        cells = zip(line, widths, right, strict=True)
        padded = (cell.rjust(width) if is_number else cell.ljust(width)
                  for cell, width, is_number in cells)  # fmt: skip
        yield "  ".join(padded).rstrip()
