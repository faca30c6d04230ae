"""The rows of a regression: codes as floats, or as scaled integers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Generic, Protocol

import numpy as np
from numpy.typing import NDArray

from mechanisms.contract import Block, Data, InvalidStatisticError, T
from mechanisms.domain import CODE_MAX, EXACT_ROWS, SUM_MAX, Schema
from mechanisms.exact.floats import Integers
from mechanisms.objectives.affine import Chunks
from mechanisms.objectives.affine import Rows as Passes
from mechanisms.objectives.design import distinct_rows
from mechanisms.objectives.quadratic import NormalEquations
from mechanisms.statistics.designs.cells import Placing
from mechanisms.statistics.designs.scaling import RegressionScaling, ScaledColumn
from mechanisms.statistics.weights import HELD_PARTS, Weights, weighted_data

Rows = NDArray[np.float64]

HELD_ROWS = 1 << 20
"""The largest number of rows held in memory; more are read in passes."""

KEPT_CODES = 1 << 26
"""The largest number of codes kept between passes where they are made; more are read in each."""

_HELD_BYTES = 1 << 29  # half a gigabyte of rows may stay in memory between passes

# Measured: a pass of a sum and a Gram matrix over rows, and to read a code.
_MS_PER_ROW, _MS_PER_PRODUCT, _MS_PER_CODE = 3e-5, 1e-7, 1e-5


@dataclass(frozen=True, slots=True)
class CodeRows:
    """Reads the rows (1, a_1/F, ..., a_k/F) of columns of a block, exact in float64.

    With weights each has one entry more, s/F.
    """

    names: tuple[str, ...]
    weights: Weights | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        """Return the names of the columns that are read."""
        return with_weights(self.names, self.weights)

    def __call__(self, block: Block) -> Iterator[Rows]:
        """Yield them in chunks."""
        for start in range(0, len(block[self.names[0]]), EXACT_ROWS):
            some = {name: block[name][start : start + EXACT_ROWS] for name in self.columns}
            yield code_chunk(some, self.names, self.weights)


class Marks(Protocol):
    """Reads what a row has besides its codes: a label, or what it was exposed to."""

    @property
    def columns(self) -> tuple[str, ...]:
        """Return the names of the columns that are read."""

    @property
    def width(self) -> int:
        """Return how many marks a row has."""

    def __call__(self, block: Block, /) -> Rows:
        """Return the marks of a block, width x n, exact in float64."""


@dataclass(frozen=True, slots=True)
class MarkedRows:
    """Reads the rows (1, a_1/F, ..., a_k/F, marks) of columns of a block, exact in float64.

    With weights each has one entry more, s/F.
    """

    names: tuple[str, ...]
    marks: Marks
    weights: Weights | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        """Return the names of the columns that are read."""
        return with_weights((*self.names, *self.marks.columns), self.weights)

    @property
    def width(self) -> int:
        """Return how many entries a row has."""
        return 1 + len(self.names) + self.marks.width + (self.weights is not None)

    def __call__(self, block: Block) -> Iterator[Rows]:
        """Yield them in chunks."""
        for start in range(0, len(block[self.columns[0]]), EXACT_ROWS):
            some = {name: block[name][start : start + EXACT_ROWS] for name in self.columns}
            marks = self.marks(some)
            codes = code_chunk(some, self.names, None, np.ones(marks.shape[1])).T
            own = [] if self.weights is None else [self._shares(some, self.weights)]
            yield np.concatenate([codes, marks, *own]).T

    def _shares(self, some: Block, weights: Weights) -> Rows:
        return weights.shares(some[weights.name])[None, :] / CODE_MAX


@dataclass(frozen=True, slots=True)
class CellRows:
    """Reads the rows (z, b/F) of columns of a block, exact in float64: see ``CellDesign``.

    ``effects`` names each cell's own, ``shared`` those of all. With weights a row has one entry
    more, s/F.
    """

    placing: Placing
    effects: tuple[tuple[str, ...], ...]
    shared: tuple[str, ...]
    target: str
    weights: Weights | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        """Return the names of the columns that are read."""
        read = (name for names in self.effects for name in names)
        return with_weights((*read, *self.shared, self.target, *self.placing.columns), self.weights)

    @property
    def width(self) -> int:
        """Return how many entries a row has."""
        own = sum(1 + len(names) for names in self.effects)
        return own + len(self.shared) + 1 + (self.weights is not None)

    def __call__(self, block: Block) -> Iterator[Rows]:
        """Yield them in chunks."""
        for start in range(0, len(block[self.target]), EXACT_ROWS):
            yield self._chunk(
                {name: block[name][start : start + EXACT_ROWS] for name in self.columns}
            )

    def _chunk(self, some: Block) -> Rows:
        place = self.placing.place(some)
        chunk = np.zeros((self.width, len(place)))
        row = 0
        for cell, names in enumerate(self.effects):
            here = place == cell
            chunk[row] = here
            for index, name in enumerate(names, start=1):
                np.multiply(some[name], here / CODE_MAX, out=chunk[row + index])  # exact
            row += 1 + len(names)
        inside = place < self.placing.cells
        for index, name in enumerate(self.shared):
            np.multiply(some[name], inside / CODE_MAX, out=chunk[row + index])
        np.multiply(some[self.target], 1 / CODE_MAX, out=chunk[row + len(self.shared)])
        if self.weights is not None:
            chunk[-1] = self.weights.shares(some[self.weights.name]) / CODE_MAX
        return chunk.T


def with_weights(names: Sequence[str], weights: Weights | None) -> tuple[str, ...]:
    """Return the names of the columns to read, that of the weights too."""
    return tuple(dict.fromkeys((*names, *(() if weights is None else (weights.name,)))))


def code_chunk(
    block: Block, names: Sequence[str], weights: Weights | None, signs: Rows | None = None
) -> Rows:
    """Return the rows (1, a_1/F, ..., a_k/F) of some columns, times 1 or -1, and s/F with weights.

    A block of no named column needs signs: they say how many rows there are.
    """
    rows = len(block[names[0]]) if signs is None else len(signs)
    # each column in one run: every pass makes this again
    chunk = np.empty((1 + len(names) + (weights is not None), rows))
    chunk[0] = 1.0 if signs is None else signs
    for index, name in enumerate(names, start=1):
        np.multiply(block[name], 1 / CODE_MAX, out=chunk[index])  # a power of two: exact
        if signs is not None:
            chunk[index] *= signs
    if weights is not None:
        chunk[-1] = weights.shares(block[weights.name]) / CODE_MAX
    return chunk.T


def held_rows(
    data: Data,
    read: Callable[[Block], Rows],
    names: Sequence[str],
    weights: Weights | None,
    *,
    entries: int,
) -> tuple[Integers, Integers]:
    """Return the distinct rows that ``read`` makes, and how often each counts; private.

    ``read`` returns the rows of a block as columns of equal length.

    With weights a row counts in parts of the largest, :data:`HELD_PARTS` at most, and is left out
    where it counts for nothing.
    """
    wanted = with_weights(names, weights)
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
    """Return exact X'X and X'y in scaled units, each record's part times s/F; private.

    The scaling is one of sum codes.
    """
    if weights is None:
        return scaling.normal_equations(data.gram(scaling.columns))
    found = scaling.normal_equations(weighted_data(data, weights).gram(scaling.columns))
    return NormalEquations(
        xx=tuple(tuple(entry / SUM_MAX for entry in row) for row in found.xx),
        xy=tuple(entry / SUM_MAX for entry in found.xy),
    )


def sums_of_codes(data: Data, names: Sequence[str], weights: Weights | None) -> list[Fraction]:
    """Return the sums of (1, a_1/F, ..., a_k/F) over rows, each times s/F with weights; private.

    Those of the codes that rows are read as: sum codes are finer, and a record must count
    alike in all of a loss.
    """
    wanted = with_weights(names, weights)
    key = ("sums of codes", tuple(names), None if weights is None else weights.name)

    def made() -> list[int]:
        each = data.map(partial(_sums_of_codes, tuple(names), weights), wanted)
        return [sum(some) for some in zip([0] * (1 + len(names)), *each, strict=True)]

    count, *totals = data.remembered(key, made, lambda found: 40 * len(found))
    whole = 1 if weights is None else CODE_MAX
    return [Fraction(count, whole), *(Fraction(total, whole * CODE_MAX) for total in totals)]


def _sums_of_codes(names: Sequence[str], weights: Weights | None, block: Block) -> list[int]:
    rows = len(next(iter(block.values())))
    if weights is None:
        return [rows, *(int(block[name].sum(dtype=np.int64)) for name in names)]
    totals = [0] * (1 + len(names))
    for start in range(0, rows, HELD_ROWS):  # below 2**(20 + 20 + 20): they fit 64 bits
        part = slice(start, start + HELD_ROWS)
        shares = weights.shares(block[weights.name][part])
        for place, name in enumerate(("", *names)):
            codes = block[name][part].astype(np.int64) if place else np.ones_like(shares)
            totals[place] += int(shares @ codes)
    return totals


def scaled_codes(column: ScaledColumn, codes: NDArray[np.int32]) -> NDArray[np.int64]:
    """Return the scaled values of codes as multiples of 1 / F, in [-F, F]."""
    if (column.offset, column.factor, column.divisor) == (0, 1, CODE_MAX):
        return codes.astype(np.int64)
    slope = float(Fraction(column.factor * CODE_MAX, column.divisor))
    offset = float(Fraction(column.offset * CODE_MAX, column.divisor))
    # To whole multiples of 1 / F, as the exact laws take integers: by half of one at most.
    scaled = np.rint(offset + slope * codes.astype(np.float64))
    return np.asarray(np.clip(scaled, -CODE_MAX, CODE_MAX).astype(np.int64))


class Reader(Protocol):
    """Reads the rows of a block in chunks; it travels."""

    @property
    def columns(self) -> tuple[str, ...]:
        """Return the names of the columns that are read."""

    def __call__(self, block: Block, /) -> Iterator[Rows]:
        """Yield the chunks."""


def passes(data: Data, read: Reader, schema: Schema, *, width: int | None = None) -> Passes:
    """Return a function that makes a pass over the rows, of ``width`` entries.

    By default they have as many entries as columns are read.

    The rows stay in memory when the *public* row count (or its bound) allows it. Otherwise each
    pass runs where passes over ``data`` run.
    """
    columns, most = read.columns, schema.row_bound
    # From the bound, not the number of rows: the time of a draw must not reveal it.
    if not are_held(most, width or len(columns)):
        return lambda function: data.map(_OfChunks(read, function), columns)
    chunks = [chunk for block in data.blocks(columns) for chunk in read(block)]
    return lambda function: iter([function(chunks)])


def are_held(rows: int, columns: int) -> bool:
    """Return whether :func:`passes` keeps ``rows`` rows of ``columns`` columns in memory."""
    return rows <= HELD_ROWS and rows * (columns + 1) * 8 <= _HELD_BYTES


def passes_ms(count: int, rows: int, columns: int) -> float:
    """Return about how many milliseconds ``count`` passes take over rows that are not held.

    The place of the passes may cache them as codes, and then reads them once.
    """
    read = 1 if rows * columns <= KEPT_CODES else count
    summed_ms = _MS_PER_ROW + _MS_PER_PRODUCT * columns**2
    return rows * (count * summed_ms + read * _MS_PER_CODE * columns)


@dataclass(frozen=True, slots=True)
class _OfChunks(Generic[T]):
    """A function of a block's rows in chunks, as one of the block."""

    read: Reader
    function: Callable[[Chunks], T]

    def __call__(self, block: Block) -> T:
        return self.function(self.read(block))
