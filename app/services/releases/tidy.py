"""The CSV file of a release: a number a row, with its key in columns of its own.

Its rows are those that pages and the Python client show (:mod:`app.tidy`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from app.tidy.csv_text import csv_text
from app.tidy.names import NO_LABELS, Grouping, Labels, grouping, where
from app.tidy.rows import Row, rows_of

MEASURES = (
    "estimate", "noise_std", "noise_low", "noise_high", "std_error", "confidence_low",
    "confidence_high", "epsilon", "note",
)  # fmt: skip
NUMBERS = frozenset(MEASURES) - {"epsilon", "note"}
"""The columns that hold numbers, or texts where those are dates or moments."""
_FIRST = ("statistic", "term")
_PART, _WHERE = "part", "where"
_TAKEN = frozenset({_PART, _WHERE, *_FIRST, *MEASURES})
_MISSING = (None, None)


def csv_columns(rows: Sequence[Row], labels: Labels = NO_LABELS) -> tuple[str, ...]:
    """Return the header: the parts of a number's key, then what is known of it."""
    return (*_of_parts(rows), *_FIRST, *_groups(rows, labels).names, *MEASURES)


def tidy_csv(answer: Mapping[str, Any]) -> str:
    """Return the numbers of a released answer as a CSV file with a line of names."""
    rows, labels = rows_of(answer), answer.get("labels", NO_LABELS)
    parts, groups = _of_parts(rows), _groups(rows, labels)
    said: Sequence[str] = answer.get("about_missing", ())
    return csv_text(
        csv_columns(rows, labels),
        (
            (
                *(row.key.part if each == _PART else where(row.key) or None for each in parts),
                row.statistic,
                row.term,
                *map(groups.cells(row.key).get, groups.names),
                row.estimate,
                row.noise_std,
                *(row.noise or _MISSING),
                row.std_error,
                *(row.confidence or _MISSING),
                answer["epsilon"],
                " ".join(filter(None, (row.note, *said))) or None,
            )
            for row in rows
        ),
    )


def _groups(rows: Sequence[Row], labels: Labels) -> Grouping:
    return grouping([row.key for row in rows], _TAKEN, labels)


def _of_parts(rows: Sequence[Row]) -> tuple[str, ...]:
    """Return the columns that say which part of a stack a number is of, where there are parts."""
    found = (_PART,) if any(row.key.part is not None for row in rows) else ()
    return (*found, _WHERE) if any(row.key.where for row in rows) else found
