"""Several releases of the same records as one: least squares of what is noisy. Free of charge.

    y_s = A_s theta + e_s,   Cov e_s = Sigma_s known,   s = 1, ..., k
    theta* minimises  sum_s (y_s - A_s theta)' Sigma_s^+ (y_s - A_s theta)

theta holds what all releases are about: the counts of the finest cells that their axes make, and
the columns' sums, or means and second moments. A number of a release is a linear function of it,
and so is an answer r'theta*. Where the row count is public, the cells add up to it exactly.

**Privacy.** A function of released answers and of public facts is post-processing (Awan &
Slavkovic, Proposition 2.11). It costs nothing, and has the guarantee of all releases together,
whose epsilons add up (Dwork & Roth 2014, Corollary 3.15).

*Tables.* Where all is counts, and tables are among them or the cells are too many to solve for,
residuals are combined one by one: :mod:`mechanisms.margins.covered`.

*Error.* The releases' noises are independent, and their covariances follow from public facts. By
Gauss and Markov no other unbiased linear combination has a smaller variance; so none of the
releases alone has. With single numbers y_s of variance v_s this is the mean by weights 1 / v_s,
of variance 1 / sum_s (1 / v_s).

*Consistency.* All answers are sums of one theta*, whose counts are rounded to whole multiples of
2**-20. So totals agree with the sums of their parts to the last bit, as long as counts stay
below 2**32.

*Intervals* are 95% of the combination, as :mod:`mechanisms.geometry.cuts` has it.

The common unknowns of several statistics of the same records: each number is linear in them.

*Cells*: the finest that the axes of all counts and histograms make; a cell of one of them is a
union of these, and a count is all of them. *Columns*: where the row count is public, each column's
mean and each pair's mean product; where it is private, each column's sum.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product
from math import prod
from typing import cast

import numpy as np

from mechanisms.contract import InvalidStatisticError, Json, Noise, Outcome, Statistic
from mechanisms.derivations import Released, parts_of
from mechanisms.domain import Schema
from mechanisms.exact.floats import Floats
from mechanisms.gaussian import additive_noise
from mechanisms.geometry.cuts import combination_factor
from mechanisms.geometry.smooth import NoiseLaw
from mechanisms.knorm import AdditiveNoise
from mechanisms.margins.covered import Source, covered, of_cells, of_tables
from mechanisms.privacy import ONE_ROW, part_of
from mechanisms.statistics.additive import AdditiveForm, AdditiveStatistic, Leaf, Tree, render
from mechanisms.statistics.cells.axes import Axis
from mechanisms.statistics.facts.clipping import is_clipped
from mechanisms.statistics.facts.readings import Atom, LinearInColumns
from mechanisms.statistics.histogram import CellStatistic, RangeCounts
from mechanisms.statistics.questions import Question, check_asked, plain, viewed
from mechanisms.statistics.registry import SINGLE_STATISTICS
from mechanisms.statistics.stack import Stack
from mechanisms.statistics.tables import MarginStatistic
from mechanisms.tables.workload import report, stage

Reading = Mapping[int, Fraction]
"""A linear function: the atoms' places, and their factors."""

Name = tuple[str, ...]
Starts = tuple[float, ...]
"""Values at which cells begin."""

# Least squares solves for all of them at once, in time that grows with their cube.
MOST_ATOMS = 1_000
# Counts become multiples of 1 / _STEP: below 2**32 floats add those without rounding.
_STEP = 2**20
_MS_PER_CELL = 0.05
_READING = 0.2
"""About which share of the time it takes to read the tables of releases."""


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
    if is_clipped(statistic):
        raise InvalidStatisticError("releases of clipped values are not combined with others")
    return statistic.column_atoms(schema) if isinstance(statistic, LinearInColumns) else ()


# Several releases of the same records as one: least squares of what is noisy. Free of charge


KINDS = tuple(
    kind
    for kind, statistic in SINGLE_STATISTICS.items()
    if issubclass(statistic, CellStatistic | LinearInColumns) or "margins" in statistic.mechanisms
)
"""Kinds whose answers are linear in counts of cells, or in sums and means of columns."""
MOST_NUMBERS = 2_000
"""Of all releases together."""

# Relative to the largest: what is smaller is rounding, of a direction without any noise.
_SMALLEST = 1e-10
# A statistic that is determined comes back from floats far closer than this.
_DETERMINED = 1e-6


@dataclass(frozen=True, slots=True)
class _Plain:
    """A question without its conditions, the facts it was planned with, and which rows it is of."""

    statistic: Statistic
    facts: Schema
    rows: Hashable

    @property
    def form(self) -> AdditiveForm:
        """Return the unknowns of its numbers."""
        return cast(AdditiveStatistic, self.statistic).additive(self.facts)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Source:
    """The different numbers of a release, what they read, and the law of their noise.

    ``slopes`` has a row for each number and a column for each coordinate of the noise.
    """

    reads: Sequence[Reading]
    values: Floats
    slopes: Floats
    laws: Sequence[NoiseLaw]
    stds: Floats
    covariance: Floats


def combine(statistic: Statistic, releases: Sequence[Released], schema: Schema) -> Outcome:
    """Return a statistic computed from several releases of one data set together.

    Parameters
    ----------
    statistic
        What is wanted: a count, a histogram, sums, means or moments.
    releases
        What there is. Of stacks, the parts that can be combined.
    schema
        The public facts of the data set.

    Raises
    ------
    InvalidStatisticError
        A release cannot be combined with the others, or all of them together
        do not determine the statistic; the message says why.
    """
    # Noise for people with several rows is that for one row, at a part of epsilon.
    if schema.protects.rows > 1:
        several = schema.protects.rows
        releases = [replace(each, epsilon=part_of(each.epsilon, several)) for each in releases]
        schema = replace(schema, protects=ONE_ROW)
    wanted = _plain(statistic, schema)
    asked = [_usable(release, wanted, schema) for release in releases]
    parts = [part for found in asked for part in found]
    if _are_tables(wanted, parts):
        tables = []
        for place, part in enumerate(parts):
            report(_READING * place / len(parts))
            tables.append(_tables(*part))
        with stage(_READING, 1.0):
            return covered(wanted.statistic, tables, wanted.facts)
    atoms = Atoms.of([part.statistic for _, part in parts], wanted.facts)
    sources = [_source(released, part, atoms) for released, part in parts]
    if sum(len(source.values) for source in sources) > MOST_NUMBERS:
        raise InvalidStatisticError(f"together they have more than {MOST_NUMBERS} numbers")
    return _answer(wanted, sources, atoms)


def combining_ms(sources: Sequence[Statistic], schema: Schema) -> float:
    """Return about how many milliseconds of one core it takes to combine releases of these."""
    numbers = sum(_numbers(source, schema) for source in sources)
    if any(isinstance(each, MarginStatistic) for each in sources):
        return _MS_PER_CELL * numbers
    numbers = min(numbers, MOST_NUMBERS)
    return 10 + numbers + (numbers / 60) ** 3


def _numbers(source: Statistic, schema: Schema) -> int:
    if isinstance(source, Stack):
        return sum(_numbers(part.statistic, schema) for part in source.parts)
    return source.answer_numbers(schema) if source.kind in KINDS else 0


# Tables, each residual by itself


def _are_tables(wanted: _Plain, parts: Sequence[tuple[Released, _Plain]]) -> bool:
    """Return whether residuals are combined one by one: of tables, or of very many cells."""
    asked = [wanted.statistic, *(part.statistic for _, part in parts)]
    if any(isinstance(each, MarginStatistic) for each in asked):
        return True
    if not all(isinstance(each, CellStatistic) for each in asked):
        return False
    cells: dict[str, int] = {}
    for each in cast(Sequence[CellStatistic], asked):
        cells |= {axis.column: len(axis.labels) for axis in each.axes(wanted.facts)}
    numbers = sum(part.statistic.answer_numbers(part.facts) for _, part in parts)
    return prod(cells.values()) > MOST_ATOMS or numbers > MOST_NUMBERS


def _tables(released: Released, asked: _Plain) -> Source:
    """Return a release of counts as a source of residuals.

    Raises
    ------
    InvalidStatisticError
        It is of sums.
    """
    statistic, facts = asked.statistic, asked.facts
    if isinstance(statistic, MarginStatistic):
        return of_tables(statistic, released.value, released.epsilon, released.mechanism, facts)
    if not isinstance(statistic, CellStatistic):
        raise InvalidStatisticError(f"{statistic.kind} says nothing about tables")
    noise = additive_noise(
        asked.form.space, released.mechanism, released.norm, released.epsilon.fraction
    )
    laws, unit = noise.describe()
    variance = (float(unit) * laws[0].std) ** 2
    # cells are exchangeable: one correlation is that of all
    common = variance * float(_correlations(noise, 2)[0, 1]) if len(laws) > 1 else 0.0
    return of_cells(statistic, released.value, variance - common, common, facts)


# What can be combined


def _plain(statistic: Statistic, schema: Schema) -> _Plain:
    """Return a question as all releases must be about the same rows.

    Raises
    ------
    InvalidStatisticError
        It is not one of those that can be combined.
    """
    if statistic.kind not in KINDS:
        kinds = ", ".join(KINDS)
        raise InvalidStatisticError(
            f"{statistic.kind} is no sum over records: only {kinds} are combined"
        )
    if getattr(statistic, "by", None):
        raise InvalidStatisticError("releases with groups of their own are not combined")
    if getattr(statistic, "derive", None):
        raise InvalidStatisticError("releases with derived columns of their own are not combined")
    if getattr(statistic, "weights", None):
        raise InvalidStatisticError("releases with weights of their own are not combined")
    if schema.optional and getattr(statistic, "missing", "complete") != "complete":
        raise InvalidStatisticError('only releases with "missing": "complete" are combined')
    asked = viewed(statistic, schema)
    statistic, schema = asked.statistic, asked.view.schema
    check_asked(statistic, schema)
    rows, facts = None, schema
    if isinstance(statistic, Question) and statistic.where:
        rows, facts = statistic.parting(schema).key, replace(schema, selected=True)
        statistic = cast(Statistic, plain(statistic))
    found = _Plain(statistic, facts, rows)
    if isinstance(statistic, MarginStatistic):
        return found
    if isinstance(statistic, RangeCounts):
        raise InvalidStatisticError(
            "a histogram with ranges is not combined with other releases: its counts are whole and "
            "rise together, so they are no sums of records and noise"
        )
    if not found.form.linear:
        raise InvalidStatisticError(
            f"{statistic.kind} is a ratio of noisy numbers here, as the row count is private: "
            "only sums, counts and histograms are combined"
        )
    return found


def _usable(release: Released, wanted: _Plain, schema: Schema) -> list[tuple[Released, _Plain]]:
    """Return the parts of a release that can be combined: there is one at least."""
    found, refusals = [], []
    for part in parts_of(release):
        try:
            asked = _plain(part.statistic, schema)
            if asked.rows != wanted.rows:
                raise InvalidStatisticError(
                    "they are about different records: only releases under the same conditions "
                    "are combined"
                )
        except InvalidStatisticError as refusal:
            refusals.append(refusal)
        else:
            found.append((part, asked))
    if not found:
        raise refusals[0]
    return found


def _source(released: Released, asked: _Plain, atoms: Atoms) -> _Source:
    form = asked.form
    noise = additive_noise(form.space, released.mechanism, released.norm, released.epsilon.fraction)
    laws, unit = noise.describe()
    leaves = list(_leaves(form.answer([Fraction(0)] * form.space.dimension), released.value))
    places = _different(reads := read_by(asked.statistic, atoms))
    slopes = np.zeros((len(places), form.space.dimension))
    for row, place in enumerate(places):
        for coordinate, slope in leaves[place][0].slopes.items():
            slopes[row, coordinate] = float(slope * unit)
    stds = np.array([law.std for law in laws])
    return _Source(
        reads=[reads[place] for place in places],
        values=np.array([leaves[place][1] for place in places]),
        slopes=slopes,
        laws=laws,
        stds=stds,
        covariance=_correlations(noise, len(stds)) * np.outer(stds, stds),
    )


def _correlations(noise: AdditiveNoise, dimension: int) -> Floats:
    if noise.uncorrelated:
        return np.eye(dimension)
    rows = range(dimension)
    return np.array([[1.0 if j == k else noise.correlation(j, k) for k in rows] for j in rows])


def _different(reads: Sequence[Reading]) -> list[int]:
    """Return where each reading stands first: a matrix of moments has most of them twice."""
    first: dict[tuple[tuple[int, Fraction], ...], int] = {}
    for place, read in enumerate(reads):
        first.setdefault(tuple(sorted(read.items())), place)
    return list(first.values())


def _leaves(tree: Tree, value: object) -> Iterator[tuple[Leaf, float]]:
    """Yield the numbers of an answer with those of its form, in the form's order."""
    if isinstance(tree, Leaf):
        yield tree, float(cast(float, value))
    elif isinstance(tree, Mapping):
        for key, child in tree.items():
            yield from _leaves(child, cast(Json, value)[key])
    elif not isinstance(tree, str):
        for child, part in zip(tree, cast(Sequence[object], value), strict=True):
            yield from _leaves(child, part)


# Least squares


def _answer(wanted: _Plain, sources: Sequence[_Source], atoms: Atoms) -> Outcome:
    rows = wanted.facts.known_rows
    readings = read_by(wanted.statistic, atoms)
    read, _ = atoms.without_the_known(_matrix(readings, atoms), rows)
    every = _matrix([reading for source in sources for reading in source.reads], atoms)
    design, shift = atoms.without_the_known(every, rows)
    white = _blocks([_whitening(source) for source in sources])
    # A pseudoinverse, for the releases need not determine every cell, only what is asked for.
    inverse = np.linalg.pinv(white @ design, rcond=_SMALLEST)
    if not np.allclose(read @ (inverse @ (white @ design)), read, atol=_DETERMINED):
        raise InvalidStatisticError("these releases together do not determine that")
    weights = inverse @ white
    values = np.concatenate([source.values for source in sources])
    theta = atoms.rounded(weights @ (values - shift), rows)
    exact = [
        sum((theta[place] * factor for place, factor in reading.items()), Fraction(0))
        for reading in readings
    ]
    return _outcome(wanted.form, exact, _laws(read @ weights, sources))


def _outcome(form: AdditiveForm, exact: Sequence[Fraction], laws: Sequence[NoiseLaw]) -> Outcome:
    tree = form.answer([Fraction(0)] * form.space.dimension)
    numbers = [float(number) for number in exact]
    ends = [
        [number - law.half_width_95, number + law.half_width_95]
        for number, law in zip(numbers, laws, strict=True)
    ]
    in_turn = iter(numbers), iter([law.std for law in laws]), iter(ends)
    value, std, interval = (
        render(tree, lambda _, rest=rest: next(rest))  # type: ignore[misc]
        for rest in in_turn
    )
    return Outcome(value=value, noise=Noise(std=std, interval_95=interval))


def _matrix(reads: Sequence[Reading], atoms: Atoms) -> Floats:
    matrix = np.zeros((len(reads), atoms.size))
    for row, read in enumerate(reads):
        for place, factor in read.items():
            matrix[row, place] = float(factor)
    return matrix


def _whitening(source: _Source) -> Floats:
    """Return W with W' W the pseudoinverse of the numbers' covariance."""
    covariance = source.slopes @ source.covariance @ source.slopes.T
    values, vectors = np.linalg.eigh(covariance)
    # A sum that is public has no noise, and needs no weight: `without_the_known` took it out.
    kept = values > values.max() * _SMALLEST
    return np.asarray((vectors[:, kept] / np.sqrt(values[kept])).T, dtype=np.float64)


def _blocks(parts: Sequence[Floats]) -> Floats:
    """Return a matrix with these on its diagonal."""
    rows, columns = (sum(part.shape[side] for part in parts) for side in range(2))
    whole = np.zeros((rows, columns))
    row = column = 0
    for part in parts:
        whole[row : row + part.shape[0], column : column + part.shape[1]] = part
        row, column = row + part.shape[0], column + part.shape[1]
    return whole


def _laws(weights: Floats, sources: Sequence[_Source]) -> list[NoiseLaw]:
    """Return the noise of combinations of the releases' numbers, a row for each."""
    variances = np.zeros(len(weights))
    largest, factors = np.zeros(len(weights)), np.ones((len(weights), 2))
    begin = 0
    for source in sources:
        end = begin + len(source.values)
        slopes = weights[:, begin:end] @ source.slopes
        # Releases draw their noise independently: variances add up.
        variances += np.einsum("ij,jk,ik->i", slopes, source.covariance, slopes)
        # How far the sum's law is from a normal one follows from the coordinate that weighs most.
        sizes = np.abs(slopes) * source.stds
        most = np.argmax(sizes, axis=1)
        for row, place in enumerate(most):
            if sizes[row, place] > largest[row]:
                law, largest[row] = source.laws[place], sizes[row, place]
                factors[row] = len(source.laws), law.half_width_95 / law.std
        begin = end
    stds = np.sqrt(np.maximum(variances, 0))
    return [
        _law(std, int(dimension), own, size)
        for std, (dimension, own), size in zip(
            stds.tolist(), factors.tolist(), largest.tolist(), strict=True
        )
    ]


def _law(std: float, dimension: int, own: float, largest: float) -> NoiseLaw:
    if std == 0:
        return NoiseLaw(0.0, 0.0, 0.0)
    half = std * combination_factor(dimension, own, min(largest / std, 1.0))
    return NoiseLaw(std, half, std)
