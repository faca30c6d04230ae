"""Answers as tidy tables: a row for each number, with its group, its name and its noise."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from numbers import Real
from typing import Any

from app.client.bars import bars_of
from app.client.errors import MissingPackageError
from app.tidy import rows as tidy
from app.tidy.names import NO_LABELS, grouping, where

Row = dict[str, Any]

MEASURES = (
    "term", "value", "noise", "noise_low", "noise_high", "expected_error", "synthetic",
    "std_error", "confidence_low", "confidence_high", "note",
)  # fmt: skip
"""What a row may say, after the labels of its group."""
_PART = ("part", "where", "statistic")
_TAKEN = frozenset({*MEASURES, *_PART})
_SHOWN = 30
"""Rows that a notebook shows; the frame has them all."""
_NO_PACKAGE = (
    "{method}() needs {package}: pip install {package}. rows() has the same rows without it."
)


def rows_of(answer: Mapping[str, Any]) -> list[Row]:
    """Return the rows of an answer: of its value, else of what a preview shows of each number.

    They are those of :mod:`app.tidy`, as flat dictionaries. A stack's rows also say which part they
    are of, its conditions and its statistic, and those of moments which moment. A category's labels
    follow its values.
    """
    found = tidy.rows_of(answer)
    groups = grouping([row.key for row in found], _TAKEN, answer.get("labels") or NO_LABELS)
    conditions = any(row.key.where for row in found)
    answered = answer.get("value") is not None
    expected = answer.get("expected_error") is not None
    inferred, noted = bool(answer.get("inference")), any(row.note for row in found)
    rows = []
    for each in found:
        key = each.key
        row: Row = {}
        if key.part is not None:
            row |= {"part": key.part}
            row |= {"where": where(key)} if conditions else {}
        if key.part is not None or key.mixed:
            row |= {"statistic": each.statistic}
        row |= groups.cells(key)
        row["term"] = each.term
        if answered:
            row["value"] = each.estimate
        low, high = each.noise or _MISSING
        row |= {"noise": each.noise_std, "noise_low": low, "noise_high": high}
        if expected:
            row["expected_error"] = each.expected_error
        if answer.get("synthetic"):
            row["synthetic"] = True
        if inferred:
            low, high = each.confidence or _MISSING
            row |= {"std_error": each.std_error, "confidence_low": low, "confidence_high": high}
        if noted:
            row["note"] = each.note
        rows.append(row)
    return rows


_MISSING = (None, None)


def columns_of(rows: Sequence[Row]) -> list[str]:
    """Return every column of the rows, in the order in which they first occur."""
    ordered = list(dict.fromkeys(name for row in rows for name in row))
    labels = [name for name in ordered if name not in MEASURES]
    return [*labels, *(name for name in MEASURES if name in ordered)]


def cell(row: Row, name: str) -> str:
    """Return a cell as people read it; one whose number cannot be said says so."""
    if name == "value" and row.get("note"):
        return tidy.CANNOT_BE_SAID
    return shown(row.get(name))


def name_of(row: Row) -> str:
    """Return what a row's number is of, in a few words: its group and its term."""
    own = [fact for name, fact in row.items() if name not in MEASURES and fact not in (None, "")]
    return " ".join(map(str, [*own, row["term"]]))


def notes_of(rows: Sequence[Row]) -> list[str]:
    """Return why numbers cannot be said, each reason once."""
    return list(dict.fromkeys(row["note"] for row in rows if row.get("note")))


def frame_of(rows: Sequence[Row]) -> Any:
    """Return rows as a data frame of pandas.

    Raises
    ------
    MissingPackageError
        pandas is not installed.
    """
    return _package("pandas", "to_frame").DataFrame(rows, columns=columns_of(rows))


def polars_of(rows: Sequence[Row]) -> Any:
    """Return rows as a data frame of Polars; a cell that a row does not have is null.

    Raises
    ------
    MissingPackageError
        polars is not installed.
    """
    names = columns_of(rows)
    cells = {name: [row.get(name) for row in rows] for name in names}
    return _package("polars", "to_polars").DataFrame(cells, strict=False)


def _package(package: str, method: str) -> Any:
    try:
        return importlib.import_module(package)
    except ImportError:
        message = _NO_PACKAGE.format(method=method, package=package)
        raise MissingPackageError(message) from None


def html_of(caption: str, rows: Sequence[Row], note: str = "") -> str:
    """Return a small table of rows for a notebook: no script, and every text escaped.

    Where intervals are known, a drawing next to each number shows its own.
    """
    meaning, bars = bars_of(rows[:_SHOWN])
    columns = [name for name in columns_of(rows) if name != "note"]
    head = "".join(f"<th>{escape(name)}</th>" for name in columns)
    cells = [
        "".join(f"<td>{escape(cell(row, name))}</td>" for name in columns) for row in rows[:_SHOWN]
    ]
    if any(bars):
        head += f"<th>{meaning}</th>"
        cells = [f"{own}<td>{bar}</td>" for own, bar in zip(cells, bars, strict=True)]
    body = "".join(f"<tr>{own}</tr>" for own in cells)
    more = f"<p>and {len(rows) - _SHOWN} more rows</p>" if len(rows) > _SHOWN else ""
    said = "".join(f"<p>{escape(each)}</p>" for each in (*notes_of(rows), note) if each)
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

    Measures that no row has, as the noise where it is not known beforehand, are left out. Below
    the lines is why numbers cannot be said, each reason once.
    """
    for_people = [
        name
        for name in columns_of(rows)
        if name not in MEASURES or any(_has(row, name) for row in rows)
    ]
    columns = [[name, *(cell(row, name) for row in rows)] for name in for_people]
    right = [any(isinstance(row.get(name), Real) for row in rows) for name in for_people]
    widths = [max(map(len, column)) for column in columns]
    for line in zip(*columns, strict=True):
        cells = zip(line, widths, right, strict=True)
        padded = (text.rjust(width) if is_number else text.ljust(width)
                  for text, width, is_number in cells)  # fmt: skip
        yield "  ".join(padded).rstrip()
    yield from notes_of(rows)


def _has(row: Row, name: str) -> bool:
    """Return whether a measure of a row has a cell of its own."""
    return name != "note" and bool(cell(row, name))
