"""The rows of a regression: codes as floats, or as scaled integers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from mechanisms.contract import Data
from mechanisms.domain import CODE_MAX, EXACT_ROWS, Schema
from mechanisms.statistics.designs.scaling import ScaledColumn

Rows = NDArray[np.float64]

_CACHED_BYTES = 1 << 29  # half a gigabyte of rows may stay in memory between passes


def code_rows(data: Data, columns: Sequence[str]) -> Iterator[NDArray[np.float64]]:
    """Yield rows (1, a_1/F, ..., a_k/F) of the named columns in chunks, exact in float64."""
    for block in data.blocks(columns):
        count = len(block[columns[0]])
        for start in range(0, count, EXACT_ROWS):
            part = slice(start, start + EXACT_ROWS)
            chunk = np.ones((len(block[columns[0]][part]), 1 + len(columns)))
            for index, name in enumerate(columns, start=1):
                chunk[:, index] = block[name][part]
            chunk[:, 1:] /= CODE_MAX
            yield chunk


def scaled_codes(column: ScaledColumn, codes: NDArray[np.int32]) -> NDArray[np.int64]:
    """Return the scaled values of codes as multiples of 1 / F, in [-F, F]."""
    if (column.offset, column.factor, column.divisor) == (0, 1, CODE_MAX):
        return codes.astype(np.int64)
    slope = float(Fraction(column.factor * CODE_MAX, column.divisor))
    offset = float(Fraction(column.offset * CODE_MAX, column.divisor))
    scaled = np.rint(offset + slope * codes.astype(np.float64))
    return np.asarray(np.clip(scaled, -CODE_MAX, CODE_MAX).astype(np.int64))


def passes(
    read: Callable[[], Iterator[Rows]], schema: Schema, columns: int
) -> Callable[[], Iterable[Rows]]:
    """Return what yields the rows once per pass.

    They are kept in memory between passes when the *public* row count (or its
    bound) allows it, and read again for each pass otherwise.
    """
    if schema.row_bound * columns * 8 > _CACHED_BYTES:
        return read
    chunks = list(read())
    return lambda: chunks
