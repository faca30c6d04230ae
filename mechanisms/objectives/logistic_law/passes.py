"""Passes over rows of a logistic loss that lie in blocks: sums, in exact integers.

Each is a function of one block and travels to where the block is. A term of a sum is made from its
row alone, in floats with a proved error, rounded to a multiple of ``2**-44``, and added up as an
integer. So a sum is the same bits in whichever blocks and order the rows come.

*Terms.* A row's t = zeta'theta is summed entry by entry, so sigma(t) and sigma(t) sigma(-t) err as
:func:`mechanisms.objectives.logistic_law.expansion.term_error` says; products with up to three
entries, all of them at most 1, add less than 2**-50 and rounding adds 2**-45. That, and the float
that a sum ends as, is below ``TERM_ERROR`` for each row.

*The last word* is in integers as well: sigma in balls, times ``2**bits``, rounded to an integer
within ``EXACT_ERROR``, times the row's codes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from flint import arb, arb_mat, fmpz

from mechanisms.domain import CODE_MAX
from mechanisms.exact.arrays import Floats, Integers
from mechanisms.exact.floats import sigmoid, softplus
from mechanisms.exact.rounding import working_precision
from mechanisms.objectives.check_loss.passes import Block, Reader
from mechanisms.objectives.logistic_law import expansion
from mechanisms.objectives.logistic_law.cells import Cells, cell_keys
from mechanisms.objectives.logistic_law.expansion import pairs
from mechanisms.objectives.sigmoid import ball_sigmoid

TERM_ERROR = 2.0**-44
"""How far a row's term of a sum may err beside its weight."""

EXACT_ERROR = 2
"""How far a row's weight may be off in :class:`ExactGradient`, in its last bit."""

LOSS_UNIT = 2.0**-24
"""What losses of rows are rounded to multiples of."""

LARGEST_LOSS = 2.0**24
"""Those of longer theta are not summed up: integers would overflow."""

_TERM_BITS = 44
_PRODUCT_BITS = 24  # of a cell's products: sums of 2**39 rows fit
_CHUNK_ROWS = 1 << 14  # integers of a chunk stay below 2**63, and its arrays in the cache
_BALL_ROWS = 1 << 12  # a ball takes far more memory than a float
_GUARD_BITS = 64  # so that _whole errs by what it cuts off, and not by the balls

Sums = tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Expand:
    """A pass: the sums of expansions at points (k x d, scaled units), times ``2**44``.

    They are g and the upper triangles of H, K and the Q_j, as in
    :mod:`mechanisms.objectives.logistic_law.expansion`.
    """

    read: Reader
    points: Floats

    def __call__(self, block: Block) -> list[Sums]:
        """Return a block's sums at each point."""
        columns = self.read(block)
        found = [[0] * _terms(len(columns)) for _ in self.points]
        for start in range(0, columns.shape[1], _CHUNK_ROWS):
            zeta = columns[:, start : start + _CHUNK_ROWS] / CODE_MAX
            for sums, point in zip(found, self.points, strict=True):
                _add(sums, zeta, point)
        return [tuple(sums) for sums in found]


@dataclass(frozen=True, slots=True, eq=False)
class Loss:
    """A pass: the loss at a point (scaled units), in units of ``LOSS_UNIT``."""

    read: Reader
    point: Floats

    def __call__(self, block: Block) -> int:
        """Return a block's loss."""
        columns, total = self.read(block), 0
        for start in range(0, columns.shape[1], _CHUNK_ROWS):
            zeta = columns[:, start : start + _CHUNK_ROWS] / CODE_MAX
            scaled: Any = np.rint(softplus(_tilts(zeta, self.point)) / LOSS_UNIT)
            total += int(scaled.astype(np.int64).sum())
        return total


def _terms(dimension: int) -> int:
    return dimension + (2 + dimension) * dimension * (dimension + 1) // 2


def _tilts(zeta: Floats, point: Floats) -> Floats:
    tilt = np.zeros(zeta.shape[1])
    # In this order always: a matrix product may add in another, and give other bits.
    for entry, column in zip(point.tolist(), zeta, strict=True):
        tilt += entry * column
    return tilt


def _add(sums: list[int], zeta: Floats, point: Floats) -> None:
    """Add the terms of some rows (d x n) at a point."""
    weight, rest = sigmoid(_tilts(zeta, point))
    curve = weight * rest
    spread, bent = curve * np.abs(1 - 6 * curve), curve * (rest - weight)
    products = [zeta[j] * zeta[k] for j, k in pairs(len(zeta))]
    place = 0
    for column in zeta:
        sums[place] += _total(weight * column)
        place += 1
    for weights in (curve, spread, *(bent * column for column in zeta)):  # H, K, then each Q_j
        for each in products:
            sums[place] += _total(weights * each)
            place += 1


def _total(term: Floats) -> int:
    """Return the sum of a term times ``2**44``, each rounded."""
    scaled: Any = np.rint(term * 2.0**_TERM_BITS)
    return int(scaled.astype(np.int64).sum())


def as_floats(sums: Sums, dimension: int, errors: tuple[float, float]) -> expansion.Sums:
    """Return a pass's sums in units of 1."""
    every = np.array([float(total) for total in sums]) * 2.0**-_TERM_BITS
    rest = every[dimension:].reshape(2 + dimension, len(pairs(dimension)))
    return expansion.Sums(every[:dimension], rest[0], rest[1], rest[2:], errors)


@dataclass(frozen=True, slots=True, eq=False)
class CellSums:
    """Cells in the order of their keys, with integers: what :class:`Cells` is made of.

    ``products`` are in multiples of ``2**-24``, each row's rounded; all else is in codes, exact.
    """

    keys: Integers
    counts: Integers
    least: Integers
    most: Integers
    sums: Integers
    sizes: Integers
    products: Integers

    @classmethod
    def of(cls, columns: Floats) -> CellSums:
        """Return the cells of rows (d x n codes)."""
        zeta, rows = columns.T / CODE_MAX, columns.T.astype(np.int64)
        both = [zeta[:, j] * zeta[:, k] for j, k in pairs(len(columns))]
        scaled: Any = np.rint(np.column_stack(both) * 2.0**_PRODUCT_BITS)
        ones = np.ones(len(rows), dtype=np.int64)
        products = scaled.astype(np.int64)
        return cls(cell_keys(zeta), ones, rows, rows, rows, np.abs(rows), products)._joined()

    def added(self, other: CellSums) -> CellSums:
        """Return the cells of both."""
        both = (
            np.concatenate([getattr(self, name), getattr(other, name)])
            for name in self.__dataclass_fields__
        )
        return CellSums(*both)._joined()

    def _joined(self) -> CellSums:
        """Return them with equal keys as one."""
        order = np.argsort(self.keys, kind="stable")
        keys = self.keys[order]
        starts = np.flatnonzero(np.diff(keys, prepend=-1))
        return CellSums(
            keys[starts],
            np.add.reduceat(self.counts[order], starts),
            np.minimum.reduceat(self.least[order], starts),
            np.maximum.reduceat(self.most[order], starts),
            np.add.reduceat(self.sums[order], starts),
            np.add.reduceat(self.sizes[order], starts),
            np.add.reduceat(self.products[order], starts),
        )

    @property
    def cells(self) -> Cells:
        """Return the cells as floats."""
        return Cells(
            middle=(self.least + self.most) / (2 * CODE_MAX),
            radius=(self.most - self.least) / (2 * CODE_MAX),
            sums=self.sums / CODE_MAX,
            sizes=self.sizes / CODE_MAX,
            products=self.products / (1 << _PRODUCT_BITS),
            shares=self.counts / self.counts.sum(),
            sum_error=2.0**-_PRODUCT_BITS,
        )


@dataclass(frozen=True, slots=True)
class Sort:
    """A pass: the cells of all rows, None of no rows."""

    read: Reader

    def __call__(self, block: Block) -> CellSums | None:
        """Return a block's cells."""
        columns = self.read(block)
        return CellSums.of(columns) if columns.size else None


@dataclass(frozen=True, slots=True)
class ExactGradient:
    """A pass: g at a grid point, times ``CODE_MAX 2**bits``, from weights each within 2."""

    read: Reader
    point: tuple[int, ...]
    grid_bits: int
    bits: int

    def __call__(self, block: Block) -> Sums:
        """Return a block's sum."""
        rows = self.read(block).T.astype(np.int64).tolist()
        total = [0] * len(self.point)
        with working_precision(self.bits + _GUARD_BITS):
            shift = arb((1, -self.grid_bits)) / CODE_MAX
            w = arb_mat([[arb(index) * shift] for index in self.point])
            for start in range(0, len(rows), _BALL_ROWS):
                part = rows[start : start + _BALL_ROWS]
                for row, tilt in zip(part, (arb_mat(part) * w).entries(), strict=True):
                    whole = _whole(ball_sigmoid(tilt) * arb((1, self.bits)))
                    total = [t + whole * code for t, code in zip(total, row, strict=True)]
        return tuple(total)


def _whole(value: arb) -> int:
    """Return an integer within 2 of a real known to far less than 1."""
    return int(fmpz(value.mid().floor().unique_fmpz() or 0))
