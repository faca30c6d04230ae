"""One column's cells as codes, and which of them hold no value or cannot be read.

A cell is *missing* when it is empty or one of the declared markers. One that is neither
missing nor of the column's type is *unreadable*.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from app.uploads.prf import BLANK
from app.uploads.trouble import (
    MISSING,
    NOT_A_BOOLEAN,
    NOT_A_NUMBER,
    NOT_FINITE,
    UNKNOWN_VALUE,
)
from mechanisms.domain import CODE_MAX, NumberColumn

_BOOLEANS = pl.Enum(["false", "true", "0", "1"])

Codes = NDArray[np.int32]
Mask = NDArray[np.bool_]
Numbers = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Markers:
    """What stands for a missing cell beside an empty one: texts, and the numbers among them."""

    texts: tuple[str, ...]
    numbers: tuple[float, ...]
    not_a_number: bool

    @classmethod
    def of(cls, na: tuple[str, ...]) -> Markers:
        """Return the markers that are declared."""
        texts = tuple(marker.strip(BLANK) for marker in na)
        read = pl.Series(texts, dtype=pl.String).cast(pl.Float64, strict=False).drop_nulls()
        numbers = [float(number) for number in read]
        plain = tuple(number for number in numbers if not math.isnan(number))
        return cls(texts, plain, len(plain) < len(numbers))

    def among(self, cells: pl.Series) -> Mask:
        """Say which texts are empty or markers."""
        stripped = cells.str.strip_chars(BLANK)
        return stripped.is_in(["", *self.texts]).fill_null(value=True).to_numpy()

    def among_numbers(self, values: Numbers) -> Mask:
        """Say which numbers are markers."""
        found = np.isin(values, self.numbers)
        return found | np.isnan(values) if self.not_a_number else found


class Read(NamedTuple):
    """Codes, arbitrary where ``missing``; None when nothing is. ``reason`` words one row.

    ``unreadable`` are those of the missing that hold something, None where none does.
    ``numbers`` are a number column's values as they are in the file, and so many of them
    were moved to a bound.
    """

    codes: Codes
    missing: Mask | None
    unreadable: Mask | None
    reason: Callable[[int], str]
    numbers: Numbers | None = None
    clamped_low: int = 0
    clamped_high: int = 0

    @property
    def plain(self) -> tuple[Numbers | Codes, Mask | None]:
        """Return the cells before any bounds: numbers, or places in the list of values."""
        if self.numbers is not None:
            return self.numbers, self.missing
        return self.codes, self.missing


def read_number(cells: pl.Series, column: NumberColumn, markers: Markers) -> Read:
    """Read a column of numbers."""
    texts = cells if cells.dtype == pl.String else None
    if texts is not None:
        cells = texts.str.strip_chars(BLANK).cast(pl.Float64, strict=False)
    values = (cells.fill_null(float("nan")) if cells.null_count() else cells).to_numpy()
    finite = np.isfinite(values)
    missing = None if finite.all() else ~finite
    if markers.numbers:
        marked = markers.among_numbers(values)
        if marked.any():
            missing = marked if missing is None else missing | marked
    if missing is None:
        low, high = _outside(column, values)
        return Read(_encode(column, values), None, None, _missing, values, low, high)
    nulls = cells.is_null().to_numpy()
    absent = nulls if texts is None else markers.among(texts)
    if markers.numbers or markers.not_a_number:
        numbers = ~nulls if texts is not None else np.ones(len(values), dtype=np.bool_)
        absent = absent | (numbers & markers.among_numbers(values))
    unreadable = missing & ~absent
    low, high = _outside(column, values[~missing])
    codes = _encode(column, np.where(missing, 0.0, values))

    def reason(row: int) -> str:
        if not unreadable[row]:
            return MISSING
        return NOT_A_NUMBER if nulls[row] or np.isnan(values[row]) else NOT_FINITE

    return Read(codes, missing, _any(unreadable), reason, values, low, high)


def _outside(column: NumberColumn, values: Numbers) -> tuple[int, int]:
    """Return how many values lie below and above the bounds."""
    below = np.count_nonzero(values < float(column.lower))
    return int(below), int(np.count_nonzero(values > float(column.upper)))


def _encode(column: NumberColumn, values: Numbers) -> Codes:
    with np.errstate(over="ignore"):  # far outside the bounds: an infinity, then clamped
        return column.encode(values)


def read_boolean(cells: pl.Series, markers: Markers) -> Read:
    """Read a column of true or false."""
    lowered = cells.str.strip_chars(BLANK).str.to_lowercase()
    read = _read_enum(lowered, cells, _BOOLEANS, markers, NOT_A_BOOLEAN)
    return read._replace(codes=np.where(read.codes & 1, np.int32(CODE_MAX), np.int32(-CODE_MAX)))


def read_category(cells: pl.Series, kind: pl.Enum, markers: Markers) -> Read:
    """Read a column of texts of a closed list."""
    return _read_enum(cells, cells, kind, markers, UNKNOWN_VALUE)


def _read_enum(
    cells: pl.Series, as_written: pl.Series, kind: pl.Enum, markers: Markers, otherwise: str
) -> Read:
    places = cells.cast(kind, strict=False).to_physical()
    if not places.null_count():
        return Read(places.to_numpy().astype(np.int32), None, None, _missing)
    codes = places.fill_null(0).to_numpy().astype(np.int32)
    missing = places.is_null().to_numpy()
    unreadable = missing & ~markers.among(as_written)
    return Read(
        codes, missing, _any(unreadable), lambda row: otherwise if unreadable[row] else MISSING
    )


def _any(mask: Mask) -> Mask | None:
    return mask if mask.any() else None


def _missing(_: int) -> str:
    return MISSING
