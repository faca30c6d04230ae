"""The common unknowns of several statistics of the same records: each number is linear in them.

*Cells*: the finest that the axes of all counts and histograms make; a cell of one of them is a
union of these, and a count is all of them. *Columns*: where the row count is public, each column's
mean and each pair's mean product; where it is private, each column's sum.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from math import prod

import numpy as np

from mechanisms.contract import InvalidStatisticError, Statistic
from mechanisms.domain import Schema
from mechanisms.exact.many import Floats
from mechanisms.statistics.cells.axes import Axis
from mechanisms.statistics.facts.readings import Atom, LinearInColumns
from mechanisms.statistics.histogram import CellStatistic

Reading = Mapping[int, Fraction]
"""A linear function: the atoms' places, and their factors."""

Name = tuple[str, ...]
Starts = tuple[float, ...]
"""Values at which cells begin."""

# Least squares solves for all of them at once, in time that grows with their cube.
MOST_ATOMS = 1_000
# Counts become multiples of 1 / _STEP: below 2**32 floats add those without rounding.
_STEP = 2**20


@dataclass(frozen=True, slots=True)
class Atoms:
    """The places of cells, then of the columns' numbers.

    ``axes`` holds for each counted column where its finest cells begin, and how many they are;
    it is None where nothing is counted.
    """

    schema: Schema
    axes: Mapping[str, tuple[Starts | None, int]] | None
    names: tuple[Name, ...]

    @classmethod
    def of(cls, statistics: Sequence[Statistic], schema: Schema) -> Atoms:
        """Return the common unknowns of these statistics.

        Raises
        ------
        InvalidStatisticError
            It is too much.
        """
        counted = [each for each in statistics if isinstance(each, CellStatistic)]
        axes: dict[str, tuple[Starts | None, int]] = {}
        for each in counted:
            for axis in each.axes(schema):
                axes[axis.column] = _refined(axis, axes.get(axis.column))
        names = dict.fromkeys(
            name for each in statistics for name, _ in _column_atoms(each, schema)
        )
        atoms = cls(schema, axes if counted else None, tuple(names))
        if atoms.size > MOST_ATOMS:
            raise InvalidStatisticError(
                f"together they make more than {MOST_ATOMS} different cells and moments"
            )
        return atoms

    @property
    def cells(self) -> int:
        """Return how many cells there are."""
        return 0 if self.axes is None else prod(size for _, size in self.axes.values())

    @property
    def size(self) -> int:
        """Return how many atoms there are."""
        return self.cells + len(self.names)

    def without_the_known(self, matrix: Floats, rows: int | None) -> tuple[Floats, Floats]:
        """Return linear functions of all cells but the last, and what they are where those are 0.

        The cells add up to the row count, where that is public.
        """
        if rows is None or not self.cells:
            return matrix, np.zeros(len(matrix))
        # The last cell is the row count less all others: that is put in its place.
        last = matrix[:, self.cells - 1]
        cut = np.delete(matrix, self.cells - 1, axis=1)
        cut[:, : self.cells - 1] -= last[:, None]
        return cut, last * rows

    def rounded(self, theta: Floats, rows: int | None) -> list[Fraction]:
        """Return all atoms exactly: the cells on a grid, the last of them such that they add up."""
        free = self.cells - 1 if self.cells and rows is not None else self.cells
        found = [Fraction(round(float(count) * _STEP), _STEP) for count in theta[:free]]
        if free < self.cells:
            # Not rounded by itself: the cells might then miss the public row count by a step.
            found.append(Fraction(rows or 0) - sum(found, Fraction(0)))
        return [*found, *(Fraction(float(number)) for number in theta[free:])]


def read_by(statistic: Statistic, atoms: Atoms) -> list[Reading]:
    """Return the unknowns that each number of a statistic's answer reads, in the answer's order.

    Raises
    ------
    InvalidStatisticError
        The atoms are not those that it is made of.
    """
    if isinstance(statistic, CellStatistic):
        return list(_unions(statistic, atoms))
    places = {name: place for place, name in enumerate(atoms.names, start=atoms.cells)}
    wanted = list(_column_atoms(statistic, atoms.schema))
    if not {name for name, _ in wanted} <= places.keys():
        raise InvalidStatisticError("these releases together do not determine that")
    return [{places[name]: factor} for name, factor in wanted]


def _unions(statistic: CellStatistic, atoms: Atoms) -> Iterator[Reading]:
    """Yield for each cell of a histogram which of the finest cells it is made of."""
    own = {axis.column: axis for axis in statistic.axes(atoms.schema)}
    if atoms.axes is None or not own.keys() <= atoms.axes.keys():
        raise InvalidStatisticError("these releases together do not determine that")
    # along each of all axes: in which of the statistic's own cells a finest cell lies
    along = [_parents(own.get(name), starts, size) for name, (starts, size) in atoms.axes.items()]
    order = [list(atoms.axes).index(name) for name in own]
    shape = [len(axis.labels) for axis in own.values()]
    members: dict[tuple[int, ...], dict[int, Fraction]] = {
        cell: {} for cell in product(*(range(size) for size in shape))
    }
    for place, parents in enumerate(product(*along)):
        members[tuple(parents[at] for at in order)][place] = Fraction(1)
    yield from members.values()


def _parents(axis: Axis | None, starts: Starts | None, size: int) -> list[int]:
    """Return in which cell of an axis each finest cell of its column lies."""
    if axis is None:
        return [0] * size
    # The cells of a category are its values, on every axis alike.
    if starts is None or axis.starts is None:
        return list(range(size))
    if not set(axis.starts.tolist()) <= set(starts):
        raise InvalidStatisticError(
            f"these releases do not distinguish the edges of {axis.column} that are asked for"
        )
    # A finest cell lies where its first value does; the lowest one has those below all starts.
    return [0, *(int(cell) for cell in axis.place(np.array(starts, dtype=axis.starts.dtype)))]


def _refined(axis: Axis, earlier: tuple[Starts | None, int] | None) -> tuple[Starts | None, int]:
    if axis.starts is None:
        return None, len(axis.labels)
    starts = set(axis.starts.tolist()) | set((earlier[0] if earlier else None) or ())
    return tuple(sorted(starts)), len(starts) + 1


def _column_atoms(statistic: Statistic, schema: Schema) -> Iterable[Atom]:
    """Return the atom that each number of a statistic of columns is a multiple of."""
    return statistic.column_atoms(schema) if isinstance(statistic, LinearInColumns) else ()
