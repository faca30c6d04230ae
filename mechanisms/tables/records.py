r"""Whole records whose margins are near noisy estimates: no count is negative, all agree.

Noisy estimates disagree with what any data set can have: there are cells below 0, and fractions.
Here records of whole numbers of people are made up, and every margin is counted from them. So all
margins are whole, none is negative, tables agree wherever they share columns, and all have the same
total, the public number of records where it is public. It is the same for margins that were not
asked for, and the records are synthetic rows at once.

**Privacy.** Everything here is a function of released numbers and public facts: post-processing
(Awan & Slavkovic 2021, Proposition 2.11). No data set is read.

*The target.* Estimates are drawn to what is likely, by as much as is noise in them. Residuals
(:mod:`mechanisms.tables.residuals`) of a single column A are multiplied by

    max(0, 1 - D_A s_A / ||r_A||**2),     D_A = product over A of (n_i - 1),

its estimated share of signal: ``E ||estimate||**2 = ||r_A||**2 + D_A s_A``. For Gaussian noise and
D_A of at least 4 the mean squared error of this is less than that of the unbiased estimate whatever
the truth (Baranchik 1970, after James & Stein 1961). In general it is less where noise is larger
than signal, and where there is little noise it changes nothing.

Those of several columns are drawn to independent columns. Let E_A be the margin of columns that are
independent, each with its own target in whole counts, n people in all. Then

    r_A becomes  P_A (E_A + W (r_A - P_A E_A)),     W = t E_A / (t E_A + p_A s_A)   cell by cell,

the posterior mean if cells are away from independence by a variance of t E_A, as counts of E_A
people are, and p_A s_A is that of the noise. t is estimated by moments:
``sum (r_A - P_A E_A)**2 = t n + D_A s_A`` on average, or 0. So cells of rare values, which are
mostly noise, follow from the columns, and those of usual values from the table. Where there is
little noise W is about 1.

*The fit.* The maximal margins T_B of the records minimize

    F = sum over B of  omega_B ||T_B - M_B||**2,

M_B the target and omega_B in proportion to ``1 / s_B``, in whole numbers up to :data:`MOST_WEIGHT`.
Start with columns that are independent, each with its own target margin. Then take some hundred
records and one column at a time. Changing one record of mass m from cell a to v in that column
changes F by ``2 m (G_v - G_a + m omega)``, with G the weighted errors of the cells it would be in,
summed over the margins, and omega the sum of their weights. Records that would gain move, the
largest gain per person first, as many as lower F most; F never rises. Stop when F is a quarter of
what noise alone makes it (a closer fit follows noise; the discrepancy principle, Morozov 1966),
when a round lowers F by less than a part in :data:`LEAST_GAIN`, or after :data:`MOST_ROUNDS`
rounds.

The nearest margins that fractions of records have are at most as far from the truth in the same
norm as the target is, because they are its projection on a convex set: negative counts and
disagreement are noise that it removes. Whole records are near it.

*Masses.* More people than :data:`MOST_RECORDS_FITTED` records are made up of records of many
people: as many of 1, 2, 4, ... each, so that light ones correct what heavy ones cannot. There are
fewer records where noise is large.

*Given records.* :func:`moved_to` begins the same fit at synthetic rows of a model, which has some
of the margins, and ends near all of them. Few records move, so what no margin has stays the
model's.

*The same everywhere.* All numbers are integers, or floats that hold integers below 2**53 exactly.
Sums do not depend on their order, sorting is stable, and pseudo-random orders come from an integer
hash. E_A and W are floats, made of products, sums and quotients of two numbers, which IEEE 754
rounds correctly; sums of many are exact before they are rounded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import floor, fsum, isqrt, log, prod
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from mechanisms.exact.floats import Floats, Integers
from mechanisms.tables.residuals import Residual, centred, diagonal, exact, reconstruct
from mechanisms.tables.workload import ColumnSet, Counts, Workload, count_margins, report

SCALE = 16
"""Steps of a target's cell per person."""
MOST_WEIGHT = 16
MOST_ROUNDS = 40
LEAST_GAIN = 32
FEWEST_RECORDS_FITTED = 1 << 13
MOST_RECORDS_FITTED = 1 << 16
MOST_LOOKS = 1 << 29
"""Cells that are looked at while given records are moved: two or three seconds."""
MOST_RECORDS = 1 << 32
"""A noisy number of records is cut off here, far above what is stored."""

_CLOSE = 4  # share of the noise at which a fit is close enough
_PER_ERROR = 64
_MOST_LOOKS_OF_A_ROUND = 1 << 28  # some seconds
_MISPLACED = 500  # one record in so many
_AT_ONCE = 512  # records that move together: more take more rounds, fewer more time
_SHARE_BITS = 24
_FAR = 16  # targets are cut off at so many times the number of records
_INT64 = 1 << 62
_NEVER = np.iinfo(np.int64).max // 4


@dataclass(frozen=True, slots=True, eq=False)
class FittedRecords:
    """Synthetic records.

    Attributes
    ----------
    codes
        The cell of each record in each column, shape (records, columns); 0 where no margin has it.
    masses
        How many people each record stands for.
    """

    workload: Workload
    codes: Integers
    masses: Integers

    @property
    def people(self) -> int:
        """Return the total of every margin."""
        return int(self.masses.sum())

    def margin(self, columns: ColumnSet) -> Integers:
        """Return the whole counts of any margin."""
        shape = self.workload.shape(columns)
        cells = np.zeros(len(self.masses), dtype=np.int64)
        for column, size in zip(columns, shape, strict=True):
            cells = cells * size + self.codes[:, column]
        return _counted(cells, self.masses, prod(shape)).reshape(shape)


def fit_records(
    workload: Workload,
    residuals: Mapping[ColumnSet, Residual],
    spreads: Mapping[ColumnSet, Fraction],
    people: int | None,
    most: int = MOST_RECORDS,
) -> FittedRecords:
    """Return records whose margins are near what these residuals make.

    Parameters
    ----------
    residuals
        The estimates of a measurement.
    spreads
        Its ``nominal`` s_A: rationals, as floats of a machine's library may not decide.
    people
        The number of records, where it is public.
    most
        A public limit of a noisy number of records.
    """
    if people is None:
        total = Fraction(int(residuals[()].values), residuals[()].scale)
        people = min(max(round(total), 0), most, MOST_RECORDS)
    wanted = workload.maximal()
    weights = _weights(wanted, spreads)
    shrunk, shares = _drawn_in(workload, residuals, spreads, people)
    targets = [_target(workload, shrunk, margin, people) for margin in wanted]
    masses = shared_masses(people, _records(workload, wanted, spreads, people))
    codes = _independent_records(workload, wanted, targets, masses)
    fit = _Fit(workload, (wanted, targets, weights), masses, codes)
    fit.run(_noise(workload, wanted, weights, shares, spreads) * SCALE**2 / _CLOSE)
    return FittedRecords(workload, fit.codes[:, :-1].copy(), masses)


def moved_to(workload: Workload, counts: Mapping[ColumnSet, Integers], codes: Integers) -> Integers:
    """Return records with the shares of these margins, by the fit that begins at given records.

    It stops where about one record in :data:`_MISPLACED` is in a wrong cell of a margin, or one a
    cell; or after :data:`MOST_LOOKS` looks.

    Parameters
    ----------
    counts
        Margins of whole numbers, none negative, of at most ``2**32`` together.
    codes
        The cell of each record in each column, shape (records, columns).
    """
    wanted, rows = workload.maximal(), len(codes)
    targets = [_share_of(counts[margin].ravel(), rows) for margin in wanted]
    masses = np.ones(rows, dtype=np.int64)
    fit = _Fit(workload, (wanted, targets, [1] * len(wanted)), masses, codes)
    cells = sum(map(len, targets))
    apart = max(Fraction(1), Fraction(2 * rows * len(wanted), _MISPLACED * max(cells, 1)))
    fit.run(cells * (SCALE * apart) ** 2, MOST_LOOKS)
    return fit.codes[:, :-1].copy()


def _share_of(counts: Integers, rows: int) -> Integers:
    """Return a margin of so many records with the shares of another, in steps."""
    people = max(int(counts.sum()), 1)
    return (counts * (SCALE * rows) + people // 2) // people


# Targets


def _drawn_in(
    workload: Workload,
    residuals: Mapping[ColumnSet, Residual],
    spreads: Mapping[ColumnSet, Fraction],
    people: int,
) -> tuple[dict[ColumnSet, Residual], dict[ColumnSet, Fraction]]:
    """Return the residuals of the target, and the share of its noise that each has kept."""
    made, shares, singles = {}, {}, {}
    for A, each in residuals.items():
        if len(A) < 2:
            shares[A] = _signal(workload, A, each, spreads)
            values = exact(each.values * shares[A].numerator)
            made[A] = Residual(values, each.scale * shares[A].denominator)
    for A in made:
        if A:
            own = _target(workload, made, A, people).tolist()
            singles[A[0]] = np.array(quotas(own, people), dtype=np.float64)
    for A, each in residuals.items():
        if len(A) >= 2:
            noise = spreads[A] * diagonal(workload, A)
            expected = _independent([singles[i] for i in A], people)
            made[A], shares[A] = _to_independent(each, expected, noise, people)
    return made, shares


def _signal(
    workload: Workload, A: ColumnSet, residual: Residual, spreads: Mapping[ColumnSet, Fraction]
) -> Fraction:
    """Return the estimated share of signal in a residual, rounded down; 1 for the total."""
    squares = sum(int(each) ** 2 for each in residual.values.ravel())
    length = Fraction(squares, (workload.size(A) * residual.scale) ** 2)
    noise = spreads[A] * _freedom(workload, A)
    if not A or noise == 0:
        return Fraction(1)
    share = 1 - noise / length if length > noise else Fraction(0)
    return Fraction(floor(share * (1 << _SHARE_BITS)), 1 << _SHARE_BITS)


def _independent(singles: Sequence[Floats], people: int) -> Floats:
    """Return E_A of the columns' own counts, people in each cell."""
    found = singles[0]
    for each in singles[1:]:
        found = np.multiply.outer(found, each) / max(people, 1)
    return found


def _to_independent(
    residual: Residual, expected: Floats, noise: Fraction, people: int
) -> tuple[Residual, Fraction]:
    """Return a residual drawn to that of independent columns, and the mean of W.

    Parameters
    ----------
    expected
        E_A.
    noise
        The variance of each cell's error, p_A s_A.
    """
    if noise == 0 or people == 0:
        return residual, Fraction(1)
    steps = np.rint(SCALE * expected).astype(np.int64)
    least = centred(steps) / expected.size
    own = _steps(residual.values, residual.scale * expected.size, people)
    apart = own - least
    variance = float(noise * SCALE**2)
    left = fsum((apart * apart).ravel().tolist()) - variance * apart.size
    strength = max(left, 0.0) / people * expected
    kept = strength / (strength + variance)
    made = centred(np.rint(least + kept * apart).astype(np.int64))
    share = fsum(kept.ravel().tolist()) / kept.size
    return Residual(exact(made), SCALE), Fraction(
        floor(share * (1 << _SHARE_BITS)), 1 << _SHARE_BITS
    )


def _steps(values: Counts, denominator: int, people: int) -> Integers:
    """Return numbers in whole steps, cut off far from what is possible."""
    far = _FAR * SCALE * people
    near = (2 * SCALE * values + denominator) // (2 * denominator)
    flat = [min(max(int(each), -far), far) for each in near.ravel()]
    return np.array(flat, dtype=np.int64).reshape(near.shape)


def _freedom(workload: Workload, A: ColumnSet) -> int:
    """Return D_A, the dimension of the arrays whose sums along every axis are 0."""
    return prod(workload.sizes[i] - 1 for i in A)


def _noise(
    workload: Workload,
    wanted: Sequence[ColumnSet],
    weights: Sequence[int],
    shares: Mapping[ColumnSet, Fraction],
    spreads: Mapping[ColumnSet, Fraction],
) -> Fraction:
    """Return about how much of F is noise: ``share D_A s_A`` is left of a residual's."""
    worth: dict[ColumnSet, Fraction] = {}
    for B, weight in zip(wanted, weights, strict=True):
        each = Fraction(weight, workload.size(B))
        for A in workload.parts(B):
            worth[A] = worth.get(A, Fraction(0)) + each
    return sum(
        (
            shares[A] * _freedom(workload, A) * spreads[A] * workload.size(A) * each
            for A, each in worth.items()
            if A
        ),
        Fraction(0),
    )


def _target(
    workload: Workload, residuals: Mapping[ColumnSet, Residual], margin: ColumnSet, people: int
) -> Integers:
    """Return the estimate of a margin in whole steps, flat."""
    made = reconstruct(workload, residuals, margin)
    return _steps(made.values, made.denominator, people).ravel()


def variances_of(
    workload: Workload, wanted: Sequence[ColumnSet], spreads: Mapping[ColumnSet, Fraction]
) -> list[Fraction]:
    """Return the variance of every cell's error in each margin, from rationals."""
    sizes = {A: workload.size(A) for A in spreads}
    own = {A: s * diagonal(workload, A) * sizes[A] ** 2 for A, s in spreads.items()}
    return [
        sum((own[A] for A in workload.parts(B)), Fraction(0)) / workload.size(B) ** 2
        for B in wanted
    ]


def _weights(wanted: Sequence[ColumnSet], spreads: Mapping[ColumnSet, Fraction]) -> list[int]:
    """Return the omega_B: precise margins weigh more."""
    known = [spreads.get(B, Fraction(0)) for B in wanted]
    least = min((each for each in known if each), default=Fraction(1))
    return [max(round(MOST_WEIGHT * least / each), 1) if each else MOST_WEIGHT for each in known]


# Records


def _records(
    workload: Workload,
    wanted: Sequence[ColumnSet],
    spreads: Mapping[ColumnSet, Fraction],
    people: int,
) -> int:
    """Return how many records are made up: more where the noise, relative to people, is small."""
    variances = variances_of(workload, wanted, spreads)
    errors = sum(workload.size(B) * _root(each) for B, each in zip(wanted, variances, strict=True))
    share = errors / (2 * max(people, 1) * len(wanted))  # about the distance of a margin's shares
    most = round(_PER_ERROR / share) if share else MOST_RECORDS_FITTED
    # a round looks at every cell that a record could be in: bounded, as time is
    looks = sum(workload.sizes[i] for B in wanted for i in B)
    most = min(most, MOST_RECORDS_FITTED, _MOST_LOOKS_OF_A_ROUND // looks)
    return min(people, max(FEWEST_RECORDS_FITTED, most))


def _independent_records(
    workload: Workload,
    wanted: Sequence[ColumnSet],
    targets: Sequence[Integers],
    masses: Integers,
) -> Integers:
    """Return records whose columns are independent, each with its own target."""
    codes = np.zeros((len(masses), len(workload.sizes)), dtype=np.int64)
    for i in _moving(workload, wanted):
        place = next(p for p, B in enumerate(wanted) if i in B)
        target = _summed(targets[place], workload, wanted[place], i)
        order = np.argsort(_hashed(len(masses), i + 1), kind="stable")
        ends = np.cumsum(quotas(target, int(masses.sum())))
        codes[order, i] = np.searchsorted(ends, np.cumsum(masses[order]), side="left")
    return codes


def _root(number: Fraction) -> Fraction:
    return Fraction(isqrt(number.numerator * (1 << 40) // number.denominator), 1 << 20)


def shared_masses(people: int, records: int) -> Integers:
    """Return masses that add up: as many records of 1, 2, 4, ... people, the rest of equal masses.

    >>> shared_masses(20, 6).tolist()
    [5, 4, 4, 4, 2, 1]
    """
    if people <= records:
        return np.ones(people, dtype=np.int64)
    levels = 1
    while (records // (levels + 1)) * ((2 << levels) - 1) <= people:
        levels += 1
    each = records // levels
    light = np.repeat(1 << np.arange(levels - 1, dtype=np.int64), each)
    count, left = records - len(light), people - int(light.sum())
    heavy = np.full(count, left // count, dtype=np.int64)
    heavy[: left % count] += 1
    return np.concatenate([heavy, light[::-1]])


def _counted(cells: Integers, masses: Integers, size: int) -> Integers:
    """Return the sum of masses in each cell; floats hold them exactly, being below 2**53."""
    return np.bincount(cells, weights=masses, minlength=size).astype(np.int64)


def _hashed(count: int, salt: int) -> NDArray[np.uint64]:
    """Return numbers that look random."""
    return scrambled(
        np.arange(count, dtype=np.uint64) + np.uint64(salt * 0x9E3779B97F4A7C15 % (1 << 64))
    )


def scrambled(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return words that look random: the finalizer of SplitMix64 (Steele et al. 2014)."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def quotas(target: Sequence[int], people: int) -> list[int]:
    """Return whole counts of this sum nearest to a target in steps, none negative.

    The projection on that simplex is ``max(t - theta, 0)``; what rounding leaves goes to the
    largest remainders.

    >>> quotas([-16, 24, 40], 3)
    [0, 1, 2]
    """
    if people == 0:
        return [0] * len(target)
    whole, total, kept, above = people * SCALE, 0, 1, 0
    for place, each in enumerate(sorted(target, reverse=True), start=1):
        total += each
        if each * place > total - whole:
            kept, above = place, total - whole
    parts = [max(kept * each - above, 0) for each in target]  # over kept * SCALE
    counts = [part // (kept * SCALE) for part in parts]
    order = sorted(range(len(parts)), key=lambda v: (-(parts[v] % (kept * SCALE)), v))
    for v in order[: people - sum(counts)]:
        counts[v] += 1
    return counts


# The fit


@dataclass(frozen=True, slots=True, eq=False)
class _Axis:
    """What changes with a record's cell in one column: T margins, of L cells together.

    Attributes
    ----------
    others, strides
        The margins' other columns, and how far apart their cells are: shape (T, order - 1).
    first
        Where each margin begins among all cells, and ``shift`` from there to its place among the L.
    step
        How far apart the column's own cells are.
    cells
        The L cells.
    places, lines
        Where all cells are that differ in the column alone: shape (L / its size, its size). The
        line of a record is that of its margin, and its cells' ``lines[1]`` times further: (T,) and
        (T, order - 1).
    weight
        The sum of the margins' weights.
    """

    others: Integers
    strides: Integers
    first: Integers
    shift: Integers
    step: Integers
    cells: Integers
    places: Integers
    lines: tuple[Integers, Integers]
    weight: int

    @property
    def looks(self) -> int:
        """Return at how many cells a record looks: the column's own, in each margin."""
        return len(self.first) * int(self.places.shape[1])

    def bases(self, codes: Integers) -> Integers:
        """Return the cells that records would be in, were the column's own cell 0."""
        return self._offset(codes, self.first, self.strides)

    def sums(self, codes: Integers, numbers: Integers) -> Integers:
        """Return the sum of numbers of a record's cells, for each cell of the column."""
        lines = self._offset(codes, *self.lines)
        ends = np.arange(0, lines.size + 1, lines.shape[1])
        chosen = (np.ones(lines.size, dtype=np.int64), lines.ravel(), ends)
        found: Integers = csr_array(chosen, (len(lines), len(self.places))) @ numbers[self.places]
        return found

    def _offset(self, codes: Integers, first: Integers, strides: Integers) -> Integers:
        found = first
        for place in range(self.others.shape[1]):
            more = np.take(codes, self.others[:, place], axis=1)
            more *= strides[:, place]
            more += found
            found = more
        return np.broadcast_to(found, (len(codes), len(first)))


class _Fit:
    """Records, and the errors of all cells of their margins: ``SCALE T_B - M_B``, in steps.

    ``wanted`` are the margins, their M_B in steps, flat, and their omega_B; ``codes`` is where the
    records begin.
    """

    def __init__(
        self,
        workload: Workload,
        wanted: tuple[Sequence[ColumnSet], Sequence[Integers], Sequence[int]],
        masses: Integers,
        codes: Integers,
    ) -> None:
        self.masses = masses
        margins, targets, weights = wanted
        starts = np.concatenate([[0], np.cumsum([len(each) for each in targets])])
        self.cell_weights = np.repeat(weights, np.diff(starts)).astype(np.int64)
        self.axes = {
            i: _axis(workload, i, margins, weights, starts) for i in _moving(workload, margins)
        }
        # one column more, of zeros, stands for columns that a margin lacks
        self.codes: Integers = np.column_stack([codes, np.zeros(len(codes), dtype=np.int64)])
        made = count_margins(self.codes, Workload(workload.sizes, tuple(margins)), masses)
        self.errors: Integers = np.concatenate(
            [SCALE * made[B].ravel() - each for B, each in zip(margins, targets, strict=True)]
        )
        self.weighted: Integers = self.errors * self.cell_weights

    def run(self, close: Fraction, looks: int | None = None) -> None:
        """Move records until they are close, gain too little, or have looked at so many cells."""
        parts = max(1, len(self.masses) // _AT_ONCE)
        # heavy and light records in each part
        groups = [np.arange(part, len(self.masses), parts) for part in range(parts)]
        each = sum(axis.looks for axis in self.axes.values())
        before, looked = self.distance(), 0
        first = before
        for done in range(MOST_ROUNDS):
            if before <= close or not len(self.masses):
                return
            for place, rows in enumerate(groups):
                report(_far(done + place / len(groups), first, before, close))
                for i in self.axes:
                    self._move(i, rows)
                looked += each * len(rows)
                if looks is not None and looked >= looks:
                    return
            after = self.distance()
            if (before - after) * LEAST_GAIN < before:
                return
            before = after

    def distance(self) -> int:
        """Return F, in squared steps."""
        return weighted_squares(self.cell_weights, self.errors, 0 * self.errors)

    def _move(self, i: int, rows: Integers) -> None:
        """Move records of these rows to better cells of one column: those that lower F most."""
        axis = self.axes[i]
        codes, masses = self.codes[rows], self.masses[rows] * SCALE
        own, every = codes[:, i], np.arange(len(rows))
        gains = axis.sums(codes, self.weighted)
        gains -= gains[every, own][:, None]
        gains[every, own] = _NEVER
        best = gains.argmin(axis=1)
        gain = gains[every, best] + masses * axis.weight
        movers = np.flatnonzero(gain < 0)
        movers = movers[np.argsort(gain[movers], kind="stable")]
        if not len(movers):
            return
        bases = axis.bases(codes[movers]) + axis.shift
        to = bases + best[movers][:, None] * axis.step
        off = bases + own[movers][:, None] * axis.step
        cells = axis.cells
        if len(cells) > 2 * to.size:  # most are not touched
            touched, places = np.unique(np.stack([to, off]), return_inverse=True)
            cells, (to, off) = cells[touched], places.reshape(2, *to.shape)
        count, change = self._most(cells, to, off, masses[movers])
        self.errors[cells] += change
        self.weighted[cells] += change * self.cell_weights[cells]
        self.codes[rows[movers[:count]], i] = best[movers[:count]]

    def _most(
        self, cells: Integers, to: Integers, off: Integers, masses: Integers
    ) -> tuple[int, Integers]:
        """Return how many of the first records lower F most, of 1, 2, 4, ..., and the change."""
        errors, weights = self.errors[cells], self.cell_weights[cells]
        change = np.zeros(len(errors), dtype=np.int64)
        best, count, found = 0, 0, change
        both, signs = np.hstack([to, off]), np.repeat([1, -1], to.shape[1])
        steepest = 2 * int(np.abs(errors).max()), int(weights.max())
        done, upto = 0, 1
        while True:
            own = masses[done:upto, None] * signs
            change = change + _counted(both[done:upto].ravel(), own.ravel(), len(errors))
            lowered = weighted_squares(weights, change, errors, steepest)
            if lowered < best:
                best, count, found = lowered, upto, change
            if upto == len(masses) or upto >= 4 * max(count, 1):
                return count, found
            done, upto = upto, min(2 * upto, len(masses))


def _far(rounds: float, first: int, now: int, close: Fraction) -> float:
    """Return about which share of a fit is done after so many rounds.

    F has fallen from ``first`` to ``now``; it ends at ``close``, or after ten rounds as a rule.
    """
    least = max(float(close), 1.0)
    fallen: float = log(first / max(now, 1)) / log(first / least) if first > least else 0.0
    by_rounds: float = 1 - 0.8**rounds
    return min(max(fallen, by_rounds), 1.0)


def _moving(workload: Workload, wanted: Sequence[ColumnSet]) -> list[int]:
    """Return the columns of these margins that have several cells."""
    return [
        i
        for i in range(len(workload.sizes))
        if workload.sizes[i] > 1 and any(i in B for B in wanted)
    ]


def _axis(
    workload: Workload,
    i: int,
    wanted: Sequence[ColumnSet],
    weights: Sequence[int],
    starts: Integers,
) -> _Axis:
    mine = [place for place, B in enumerate(wanted) if i in B]
    order = max(len(wanted[place]) for place in mine)
    others = np.full((len(mine), order - 1), len(workload.sizes), dtype=np.int64)
    strides, step = np.zeros_like(others), np.zeros(len(mine), dtype=np.int64)
    for row, place in enumerate(mine):
        B = wanted[place]
        apart = [prod(workload.shape(B)[p + 1 :]) for p in range(len(B))]
        rest = [(column, stride) for column, stride in zip(B, apart, strict=True) if column != i]
        step[row] = apart[B.index(i)]
        for at, (column, stride) in enumerate(rest):
            others[row, at], strides[row, at] = column, stride
    lengths = [int(starts[place + 1] - starts[place]) for place in mine]
    first, size = starts[mine].astype(np.int64), workload.sizes[i]
    cells = [np.arange(starts[place], starts[place + 1]) for place in mine]
    lines = [
        each.reshape(-1, size, own).swapaxes(1, 2).reshape(-1, size)
        for each, own in zip(cells, step, strict=True)
    ]
    ends = np.cumsum([length // size for length in lengths])
    further = np.where(strides > step[:, None], strides // size, strides)
    return _Axis(
        others=others,
        strides=strides,
        first=first,
        shift=np.concatenate([[0], np.cumsum(lengths)[:-1]]).astype(np.int64) - first,
        step=step,
        cells=np.concatenate(cells),
        places=np.concatenate(lines),
        lines=(np.concatenate([[0], ends[:-1]]).astype(np.int64), further),
        weight=sum(weights[place] for place in mine),
    )


def _summed(target: Integers, workload: Workload, margin: ColumnSet, i: int) -> list[int]:
    axes = tuple(place for place, column in enumerate(margin) if column != i)
    found: list[int] = target.reshape(workload.shape(margin)).sum(axis=axes).tolist()
    return found


def weighted_squares(
    weights: Integers,
    change: Integers,
    errors: Integers,
    steepest: tuple[int, int] | None = None,
) -> int:
    """Return ``sum w ((e + c)**2 - e**2)``, exactly.

    ``steepest`` has the largest ``2 |e|`` and the largest w, where the caller knows them.
    """
    if not len(change):
        return 0
    slope, weight = steepest or (2 * int(np.abs(errors).max()), int(weights.max()))
    sizes = np.abs(change)
    bound = int(sizes.sum()) * (slope + int(sizes.max())) * weight
    numbers: tuple[Any, ...] = (weights, change, errors)
    if bound >= _INT64:
        numbers = tuple(exact(each) for each in numbers)
    w, c, e = numbers
    return int((w * c * (2 * e + c)).sum())
