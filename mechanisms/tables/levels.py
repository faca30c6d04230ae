r"""Whole tables of nested places that agree at every level, fitted from the top down.

Places are the values of one column, the *hierarchy*; levels above it are columns that follow from
it: towns, counties, nations. Every level has a table with the same other columns C, of which a row
is a place and a column a cell c of C. Each is measured by itself, so noisy tables disagree.

*Estimates.* The estimate of a place above the lowest level is a weighted mean of its own
measurement and of the sum of the places in it, from the lowest level up:

    z = (own / v + sum of z' / u) / (1 / v + 1 / u),      u the variance of the sum.

For independent measurements with those variances no other weights are better, as in the first pass
of Hay, Rastogi, Miklau & Suciu (2010, arXiv 0904.0942), whose trees are regular. Other weights have
more variance, and no bias.

*Tables, from the top down* (as TopDown does: Abowd et al. 2022, arXiv 2204.08986). The table of C
for all places together comes first (:mod:`mechanisms.tables.records`). Then each place is split
into the places in it. Totals of places come first: the whole numbers nearest to their estimates
that add up to the place's and keep public totals exactly. Their tables are near the solution of

    min ||X - Z||**2   with   X >= 0,   column sums = the place's table,   row sums = the totals,

in whole numbers. For fixed prices of rows the nearest X has columns that are projections of
``Z - price`` on simplices (:func:`mechanisms.tables.records.quotas`). Prices move by how far row
sums are off, for :data:`MOST_ROUNDS` rounds; what is left is moved between two rows at a time, in
the cells where that costs least. So all counts are whole, none is negative, each place is the sum
of the places in it, cell by cell, and tables of fewer columns are margins of these.

*Public totals* are what the caller states of places, and nothing here compares them with data.
What is stated of a place holds whatever is measured. A place that has stated ones in it has at
least their sum.

**Privacy.** Everything here is a function of released numbers and public facts: post-processing
(Awan & Slavkovic 2021, Proposition 2.11). No data set is read.

*The same everywhere.* All numbers are integers, sums do not depend on their order, and sorting is
stable.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from mechanisms.exact.floats import Integers
from mechanisms.tables.records import MOST_RECORDS, SCALE, FittedRecords, fit_records, variances_of
from mechanisms.tables.residuals import Residual, reconstruct
from mechanisms.tables.workload import ColumnSet, Workload, WorkloadError

MOST_ROUNDS = 12

_WEIGHT_BITS = 10  # of what two estimates of a place weigh
_FINE = 1 << 8  # estimates are whole numbers of this part of a step, before they are rounded
_FAR = 1 << 48  # of estimates, and of prices: products with places and weights fit 64 bits
_FARTHEST = 1 << 44


@dataclass(frozen=True, slots=True)
class Hierarchy:
    """The levels of a column, as columns of a workload.

    Attributes
    ----------
    columns
        The columns of the levels, the highest first; the last one is the hierarchy itself.
    parents
        By level, in which place of the level above each of its places is; 0 for the highest, whose
        places are in the whole.
    known
        By level, public totals of places.
    """

    columns: tuple[int, ...]
    parents: tuple[tuple[int, ...], ...]
    known: tuple[Mapping[int, int], ...]

    def stated(self) -> tuple[list[list[int]], list[list[bool]]]:
        """Return at least how many each place has by what is stated, and whether it has no more.

        By level from the whole on, which is the first one, with one place.

        Raises
        ------
        WorkloadError
            What is stated of a place is not what is stated of all places in it, or less.
        """
        size = 1 + max(self.parents[-1], default=0)
        least, exact = [[0] * len(self.parents[-1])], [[False] * len(self.parents[-1])]
        for level in reversed(range(len(self.columns))):
            for place, total in self.known[level].items():
                if total < least[0][place] or (exact[0][place] and total != least[0][place]):
                    raise WorkloadError("the total of a place is not that of the places in it")
                least[0][place], exact[0][place] = total, True
            size = len(self.parents[level - 1]) if level else 1
            sums, sure = [0] * size, [True] * size
            for place, above in enumerate(self.parents[level]):
                sums[above] += least[0][place]
                sure[above] &= exact[0][place]
            least.insert(0, sums)
            exact.insert(0, sure)
        return least, exact


@dataclass(frozen=True, slots=True, eq=False)
class FittedLevels:
    """Whole tables.

    Attributes
    ----------
    together
        Records of all places together, in the other columns.
    others
        The columns C, in order.
    tables
        By level, counts of shape (places, *C).
    """

    workload: Workload
    hierarchy: Hierarchy
    together: FittedRecords | None
    others: ColumnSet
    tables: tuple[Integers, ...]

    @property
    def people(self) -> int:
        """Return the total of every margin."""
        return int(self.tables[-1].sum())

    def margin(self, columns: ColumnSet) -> Integers:
        """Return the whole counts of a margin of one level at most."""
        level = [i for i in columns if i in self.hierarchy.columns]
        if not level:
            assert self.together is not None
            return self.together.margin(columns)
        held = (level[0], *self.others)
        table = self.tables[self.hierarchy.columns.index(level[0])]
        gone = tuple(place for place, i in enumerate(held) if i not in columns)
        left = [i for i in held if i in columns]
        summed: Integers = table.sum(axis=gone) if gone else table
        return summed.transpose([left.index(i) for i in columns])


def fit_levels(
    workload: Workload,
    hierarchy: Hierarchy,
    residuals: Mapping[ColumnSet, Residual],
    spreads: Mapping[ColumnSet, Fraction],
    *,
    people: int | None,
    most: int = MOST_RECORDS,
) -> FittedLevels:
    """Return tables that agree at all levels and are near what these residuals make.

    Parameters
    ----------
    workload
        Its maximal margins that have a level are those of all levels with the same other columns.
    residuals, spreads
        As :func:`mechanisms.tables.records.fit_records` takes them.
    people
        The number of records, where it is public.
    most
        A public limit of a noisy number of records.
    """
    least, exact = hierarchy.stated()
    if people is None:
        total = round(Fraction(int(residuals[()].values), residuals[()].scale))
        people = min(max(total, least[0][0]), max(most, least[0][0]), MOST_RECORDS)
        people = least[0][0] if exact[0][0] else people
    others = others_of(workload, hierarchy)
    together = _together(workload, hierarchy, residuals, spreads, people)
    whole = np.array([people]) if not others else _of_all(together, others)
    near = _estimates(workload, hierarchy, others, residuals, spreads)
    tables, above = [], whole.reshape(1, -1)
    for level, parents in enumerate(hierarchy.parents):
        bounds = least[level + 1], exact[level + 1]
        above = _split(above, np.array(parents), near[level], *map(np.array, bounds))
        tables.append(above.reshape(-1, *workload.shape(others)))
    return FittedLevels(workload, hierarchy, together, others, tuple(tables))


def others_of(workload: Workload, hierarchy: Hierarchy) -> ColumnSet:
    """Return the columns C with which places are counted.

    Raises
    ------
    WorkloadError
        There are several tables of places, none part of another.
    """
    lowest = hierarchy.columns[-1]
    found = [margin for margin in workload.maximal() if lowest in margin]
    if len(found) != 1:
        raise WorkloadError("the hierarchy is in one table, and in tables that are part of it")
    return tuple(i for i in found[0] if i != lowest)


def _together(
    workload: Workload,
    hierarchy: Hierarchy,
    residuals: Mapping[ColumnSet, Residual],
    spreads: Mapping[ColumnSet, Fraction],
    people: int,
) -> FittedRecords | None:
    """Return records of all places together; None where no other column is counted."""
    levels = {*hierarchy.columns}
    rests = (tuple(i for i in margin if i not in levels) for margin in workload.margins)
    margins = tuple(dict.fromkeys(rest for rest in rests if rest))
    if not margins:
        return None
    part = Workload(workload.sizes, margins)
    wanted = part.closure()
    return fit_records(
        part,
        {A: residuals[A] for A in wanted},
        {A: spreads[A] for A in wanted},
        people,
    )


def _of_all(together: FittedRecords | None, others: ColumnSet) -> Integers:
    assert together is not None
    return together.margin(others)


# Estimates


def _estimates(
    workload: Workload,
    hierarchy: Hierarchy,
    others: ColumnSet,
    residuals: Mapping[ColumnSet, Residual],
    spreads: Mapping[ColumnSet, Fraction],
) -> list[Integers]:
    """Return Z by level, in steps, shape (places, cells)."""
    margins = [tuple(sorted((level, *others))) for level in hierarchy.columns]
    variances = variances_of(workload, margins, spreads)
    found: list[Integers] = []
    below: Integers | None = None
    spread: list[Fraction] = []
    for level in reversed(range(len(margins))):
        made = reconstruct(workload, residuals, margins[level])
        fine = (2 * SCALE * _FINE * made.values + made.denominator) // (2 * made.denominator)
        place = margins[level].index(hierarchy.columns[level])
        own = np.moveaxis(fine, place, 0).reshape(fine.shape[place], -1)
        own = np.clip(own, -_FAR, _FAR).astype(np.int64)
        each = [variances[level]] * len(own)
        if below is not None:
            own, each = _pooled(own, variances[level], below, spread, hierarchy.parents[level + 1])
        found.insert(0, (own + _FINE // 2) // _FINE)
        below, spread = own, each
    return found


def _pooled(
    own: Integers,
    variance: Fraction,
    below: Integers,
    spread: Sequence[Fraction],
    parents: Sequence[int],
) -> tuple[Integers, list[Fraction]]:
    """Return the weighted means of places' own estimates and of what is in them."""
    sums, variances = np.zeros_like(own), [Fraction(0)] * len(own)
    np.add.at(sums, np.array(parents), below)
    for above, each in zip(parents, spread, strict=True):
        variances[above] += each
    shares = [u / (u + variance) if u + variance else Fraction(1) for u in variances]
    weights = np.array([round(share * (1 << _WEIGHT_BITS)) for share in shares])[:, None]
    mean = weights * own + ((1 << _WEIGHT_BITS) - weights) * np.clip(sums, -_FAR, _FAR)
    pooled = [
        share**2 * variance + (1 - share) ** 2 * u
        for share, u in zip(shares, variances, strict=True)
    ]
    rounded = [Fraction(round(each * SCALE**2), SCALE**2) for each in pooled]
    return (mean + (1 << (_WEIGHT_BITS - 1))) >> _WEIGHT_BITS, rounded


# Splits


def _split(
    above: Integers, parents: Integers, near: Integers, least: Integers, exact: Integers
) -> Integers:
    """Return the places' tables, near these, given the tables of the places that they are in."""
    found = np.zeros_like(near)
    order = np.argsort(parents, kind="stable")
    ends = np.searchsorted(parents[order], np.arange(len(above) + 1))
    for place in range(len(above)):
        inside = order[ends[place] : ends[place + 1]]
        table = near[inside]
        sums = table.sum(axis=1)
        totals = _totals(sums, int(above[place].sum()), least[inside], exact[inside])
        found[inside] = split_table(table, above[place], totals)
    return found


def _totals(near: Integers, people: int, least: Integers, exact: Integers) -> Integers:
    """Return whole totals of places that add up, near these in steps."""
    found = least.astype(np.int64)
    free = np.flatnonzero(~exact)
    left = np.array([people - int(found.sum())])
    if len(free):
        more = nearest((near[free] - found[free] * SCALE)[:, None], left)
        found[free] += more[:, 0]
    return found


def nearest(targets: Integers, people: Integers) -> Integers:
    """Return whole columns of these sums nearest to targets in steps, none negative.

    Column by column what :func:`mechanisms.tables.records.quotas` returns.

    >>> nearest(np.array([[-16, 32], [24, 0], [40, 0]]), np.array([3, 1])).tolist()
    [[0, 1], [1, 0], [2, 0]]
    """
    whole = people * SCALE
    ordered = -np.sort(-targets, axis=0, kind="stable")
    sums = np.cumsum(ordered, axis=0)
    places = np.arange(1, len(targets) + 1)[:, None]
    kept = np.maximum((ordered * places > sums - whole).sum(axis=0), 1)
    over = sums[kept - 1, np.arange(len(people))] - whole
    parts = np.maximum(kept * targets - over, 0)
    counts = np.where(people > 0, parts // (kept * SCALE), 0)
    rest = np.where(people > 0, parts % (kept * SCALE), 0)
    ranks = np.argsort(np.argsort(-rest, axis=0, kind="stable"), axis=0, kind="stable")
    return np.asarray(counts + (ranks < people - counts.sum(axis=0)), dtype=np.int64)


def split_table(near: Integers, columns: Integers, rows: Integers) -> Integers:
    """Return whole numbers with these sums of columns and of rows, near targets in steps.

    Parameters
    ----------
    near
        Targets, shape (places, cells).
    columns, rows
        Whole numbers, none negative, of the same total.
    """
    prices = np.zeros(len(rows), dtype=np.int64)
    best, off = np.zeros_like(near), None
    for _ in range(MOST_ROUNDS):
        made = nearest(near - prices[:, None], columns)
        error = made.sum(axis=1) - rows
        size = int(np.abs(error).sum())
        if off is None or size < off:
            best, off = made, size
        if size == 0:
            break
        prices += error * SCALE // np.maximum((made > 0).sum(axis=1), 1)
        prices = np.clip(prices, -_FARTHEST, _FARTHEST)
    return _balanced(best, near, rows)


def _balanced(made: Integers, near: Integers, rows: Integers) -> Integers:
    """Return whole numbers with the sums of rows, too.

    Move what rows have too many of to rows that have too few, where it costs least.
    """
    error = made.sum(axis=1) - rows
    while True:
        over, under = int(error.argmax()), int(error.argmin())
        wanted = min(int(error[over]), -int(error[under]))
        if wanted <= 0:
            return made
        there = np.flatnonzero(made[over])
        dear = SCALE * (made[under] - made[over]) + near[over] - near[under]
        there = there[np.argsort(dear[there], kind="stable")]
        amounts = np.minimum(made[over, there], max(wanted // len(there), 1))
        amounts = np.diff(np.minimum(np.cumsum(amounts), wanted), prepend=0)
        made[over, there] -= amounts
        made[under, there] += amounts
        error[over] -= int(amounts.sum())
        error[under] += int(amounts.sum())
