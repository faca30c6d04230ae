"""The rows of a regression: codes as floats, or as scaled integers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from mechanisms.contract import Block, Data, InvalidStatisticError
from mechanisms.domain import CODE_MAX, EXACT_ROWS, Schema
from mechanisms.exact.arrays import Integers
from mechanisms.objectives.quadratic import NormalEquations
from mechanisms.objectives.rows import distinct_rows
from mechanisms.statistics.designs.scaling import RegressionScaling, ScaledColumn
from mechanisms.statistics.weights import HELD_PARTS, Weights, weighted_data

Rows = NDArray[np.float64]

_CACHED_BYTES = 1 << 29  # half a gigabyte of rows may stay in memory between passes


def code_rows(
    data: Data, columns: Sequence[str], weights: Weights | None = None
) -> Iterator[NDArray[np.float64]]:
    """Yield rows (1, a_1/F, ..., a_k/F) of the named columns in chunks, exact in float64.

    With weights each has one entry more, s/F.
    """
    read = columns if weights is None else tuple(dict.fromkeys((*columns, weights.name)))
    for block in data.blocks(read):
        count = len(block[columns[0]])
        for start in range(0, count, EXACT_ROWS):
            part = slice(start, start + EXACT_ROWS)
            height = len(block[columns[0]][part])
            chunk = np.ones((height, 1 + len(columns) + (weights is not None)))
            for index, name in enumerate(columns, start=1):
                chunk[:, index] = block[name][part]
            if weights is not None:
                chunk[:, -1] = weights.shares(block[weights.name][part])
            chunk[:, 1:] /= CODE_MAX
            yield chunk


def held_rows(
    data: Data,
    read: Callable[[Block], Rows],
    names: Sequence[str],
    weights: Weights | None,
    *,
    entries: int,
) -> tuple[Integers, Integers]:
    """Return the distinct rows that ``read`` makes, and how often each counts; private.

    ``read`` gives those of a block as columns, each of so many entries.

    With weights a row counts in parts of the largest, :data:`HELD_PARTS` at most, and is left out
    where it counts for nothing.
    """
    wanted = names if weights is None else tuple(dict.fromkeys((*names, weights.name)))
    rows, counts = [np.zeros((0, entries), dtype=np.int64)], [np.zeros(0, dtype=np.int64)]
    for block in data.blocks(wanted):
        made = read(block).T.astype(np.int64, order="C")
        often = np.ones(len(made), dtype=np.int64)
        if weights is not None:
            often = weights.shares(block[weights.name], HELD_PARTS)
            made, often = made[often > 0], often[often > 0]
        rows.append(made)
        counts.append(often)
    return distinct_rows(np.concatenate(rows), np.concatenate(counts))


def require_held(weights: Weights | None, rows: int, held: int) -> None:
    """Raise :class:`InvalidStatisticError` for weights of more rows than are held."""
    if weights is not None and rows > held:
        raise InvalidStatisticError(
            f"exact draws on boxes weigh at most {held} rows; use objective_perturbation",
            field_name="weights",
        )


def equations_of(
    scaling: RegressionScaling, data: Data, weights: Weights | None
) -> NormalEquations:
    """Return exact X'X and X'y in scaled units, each record's part times s/F; private."""
    if weights is None:
        return scaling.normal_equations(data.gram(scaling.columns))
    found = scaling.normal_equations(weighted_data(data, weights).gram(scaling.columns))
    return NormalEquations(
        xx=tuple(tuple(entry / CODE_MAX for entry in row) for row in found.xx),
        xy=tuple(entry / CODE_MAX for entry in found.xy),
    )


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
