"""What a block of rows holds between the process that reads a file and the one that stores it.

Columns of 32-bit words: the stored columns' codes, or, where a person's rows are reduced, what
they are reduced from: a number as the two halves of its float, and which cells were missing. The
words of the person's digest come last. Names beside the columns' own are no names of columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from app.domain.columns import BooleanSpec, CategorySpec, ColumnSpec, Fill
from app.domain.datasets import ColumnsSpec, DerivedSpec
from app.uploads.people.ids import WORDS
from mechanisms.domain import CODE_MAX

Codes = NDArray[np.int32]
Range = tuple[int, int]

PERSON = tuple(f"\0person {place}" for place in range(WORDS))
_ANY = -(1 << 31), (1 << 31) - 1


def halves(name: str) -> tuple[str, str]:
    """Return the names of a number's two words."""
    return f"\0low {name}", f"\0high {name}"


def missing(name: str) -> str:
    """Return the name of the word that says whether a cell was missing."""
    return f"\0missing {name}"


def is_number(column: ColumnSpec) -> bool:
    """Say whether a column's cells are numbers, which are reduced before they are encoded."""
    return not isinstance(column, CategorySpec | BooleanSpec)


def words_of(spec: ColumnsSpec) -> Mapping[str, Range]:
    """Return the words of a row in order, each with the least and the largest it may be."""
    if spec.unit is None:
        return dict(_stored(spec))
    person = dict.fromkeys(PERSON, _ANY)
    if spec.unit.reduce is None:
        return {**dict(_stored(spec)), **person}
    return {**dict(_unreduced(spec)), **person}


def _stored(spec: ColumnsSpec) -> Iterator[tuple[str, Range]]:
    for name, column in spec.stored.items():
        yield name, _range(column)


def _unreduced(spec: ColumnsSpec) -> Iterator[tuple[str, Range]]:
    for name, column in spec.in_file.items():
        if is_number(column):
            yield from ((half, _ANY) for half in halves(name))
        else:
            yield name, _range(column)
        if isinstance(column.missing, Fill):
            yield missing(name), (0, 1)


def _range(column: ColumnSpec | DerivedSpec) -> Range:
    match column:
        case CategorySpec():
            return 0, len(column.values) - 1
    return -CODE_MAX, CODE_MAX
