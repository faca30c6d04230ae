"""Noisy counts of cells in groups, and what is simulated of them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil
from typing import Any, ClassVar, NamedTuple, Protocol, TypeGuard, cast, runtime_checkable

import numpy as np
from scipy.special import ndtri, pdtr

from mechanisms.contract import (
    InvalidStatisticError,
    Json,
    Outcome,
    Statistic,
    require_column,
    require_numbers,
)
from mechanisms.domain import Column, NumberColumn, Schema
from mechanisms.exact.floats import Floats
from mechanisms.geometry.laws import hashed_uniforms
from mechanisms.statistics.cells.axes import Edges, Step, about_cells
from mechanisms.statistics.cells.spelling import spelled_edges
from mechanisms.statistics.histogram import Histogram
from mechanisms.statistics.questions import Question, widened

METHOD = (
    "simulated from the released counts: the law of their noise, which is known exactly, and "
    "sampling, for rows drawn independently from the population; together"
)
MAX_COUNTED = 2000
"""Cells of all groups together: an answer simulates some hundred times as many counts."""
EQUAL_CELLS = 50
"""Cells of equal width between the column's bounds, where no edges are given."""
_NUMBERS = 400_000
_LEAST, _MOST = 400, 1_000
_LARGE = 1_000.0
_TAIL = 12.0
"""Standard deviations of a Poisson number, beyond which none is simulated."""
_REACH = 4.0
"""``-log(.025)``, rounded up: with r at risk and no event, a share of up to 4/r is possible."""

Simulate = Callable[[int, bytes], Floats]


@dataclass(frozen=True, slots=True, kw_only=True)
class NoisyCounts:
    """The released counts of all groups, shape (groups, cells, 2), and the law of their noise.

    ``noise`` makes noise of that shape, a number of times, from a seed.
    """

    counts: Floats
    noise: Simulate

    @property
    def replicates(self) -> int:
        """Return how many times counts are simulated: fewer where there are many."""
        return min(max(_NUMBERS // self.counts.size, _LEAST), _MOST)

    def seed(self, part: str) -> bytes:
        """Return a seed made of the released counts, for a part of the simulation."""
        return hashlib.sha256(self.counts.tobytes() + part.encode()).digest()

    def simulated(self, means: Floats, part: str) -> Floats:
        """Return noisy counts of populations in which cells have these means.

        Shape (replicates, groups, cells, 2).
        """
        count = self.replicates
        uniforms = hashed_uniforms(self.seed(f"{part} rows"), count * means.size)
        rows = poisson(means.ravel(), uniforms.reshape(means.size, count))
        return rows.T.reshape(count, *means.shape) + self.noise(count, self.seed(f"{part} noise"))


def poisson(means: Floats, uniforms: Floats) -> Floats:
    """Return Poisson numbers by inversion: for each mean, as many as a row of uniforms has.

    Those of large means by the quantiles of a normal variable, corrected for skewness.
    """
    found = np.empty_like(uniforms)
    for row, mean in enumerate(means.tolist()):
        if mean > _LARGE:
            z = ndtri(uniforms[row])
            found[row] = np.rint(mean + z * mean**0.5 + (z**2 - 1) / 6)
        else:
            highest = int(mean + _TAIL * (mean**0.5 + 1))
            found[row] = np.searchsorted(pdtr(np.arange(highest + 1), mean), uniforms[row])
    return found


class ReadGroups(NamedTuple):
    """The answers of all groups, and the members that an answer about several has besides."""

    outcomes: Sequence[Outcome]
    compared: Mapping[str, object]

    def of_rows_alone(self) -> ReadGroups:
        """Return the answers without what takes rows to be drawn independently, each alike.

        Those of one person are not, and weighted ones count unequally: there are no intervals, and
        groups are not compared.
        """
        return ReadGroups([replace(each, inference=None) for each in self.outcomes], {})


@runtime_checkable
class ReadFromCounts(Statistic, Protocol):
    """A statistic that is read off the noisy counts of a histogram: of numbers, and of yes or no.

    :mod:`mechanisms.knorm` draws the histogram; groups are further cells of it. With ``weights``
    its counts are sums of weights.
    """

    @property
    def weights(self) -> str | None:
        """Return by which column records count; None where each counts once."""

    def histogram(self, schema: Schema, /) -> Histogram:
        """Return the question of all counts, without groups: the last column is a boolean one."""

    def curves(self, counts: Floats, schema: Schema, /) -> Json:
        """Return the answer to counts of shape (..., cells, 2), with arrays for its numbers."""

    def read(self, noisy: NoisyCounts, schema: Schema, /) -> ReadGroups:
        """Return the answer of each group, and what compares them."""


def shares_off(statistic: ReadFromCounts, noisy: NoisyCounts, schema: Schema) -> Sequence[Json]:
    """Return each group's expected errors of the shares in its answer, by the noise alone.

    The released counts stand for the exact ones: noise of the known law moves the answer about
    them. Numbers that are no shares are left out, since their errors need no group's size.

    **Privacy.** A function of the released counts: post-processing.
    """
    ranges = statistic.possible_ranges(schema, 2.0)  # those of counts differ from a share's
    added = noisy.counts + noisy.noise(noisy.replicates, noisy.seed("errors"))
    curves = statistic.curves(np.concatenate([noisy.counts[None], added]), schema)
    return [_shares_off(curves, ranges, group) for group in range(len(noisy.counts))]


def _shares_off(node: Any, possible: Any, group: int) -> Any:
    """Return a group's mean errors of shares, None in place of other numbers."""
    if isinstance(node, Mapping):
        return {name: _shares_off(each, possible.get(name), group) for name, each in node.items()}
    if isinstance(node, list):
        return [_shares_off(*each, group) for each in zip(node, possible, strict=True)]
    if isinstance(node, str):
        return node
    own = node[:, group]
    return float(np.mean(np.abs(own[1:] - own[0]))) if possible == [0.0, 1.0] else None


def about_counted(histogram: Histogram, schema: Schema) -> float:
    """Return about how many counts there are, whether or not the question fits the schema."""
    column = histogram.columns[0]
    edges = histogram.edges.get(column, ())
    return 2 * min(about_cells(edges, schema.columns.get(column)), MAX_COUNTED)


def require_counted(histogram: Histogram, schema: Schema, *, places: tuple[str, str]) -> None:
    """Refuse columns that are not a number with edges, and a yes or no, or too many cells.

    Raises
    ------
    InvalidStatisticError
        As said; ``places`` are the fields that name the columns.
    """
    (number, flag), (place, mark) = histogram.columns, places
    [column] = require_numbers(schema, [number], place)
    if column.timed is not None or column.boolean:
        raise InvalidStatisticError(
            f"{number} is no amount: name a number column, or derive one, such as a duration",
            field_name=place,
        )
    other = require_column(schema, flag, mark)
    if not (isinstance(other, NumberColumn) and other.boolean):
        raise InvalidStatisticError(
            f"{flag} is not a boolean column: derive one, as in "
            f'"derive": {{"happened": "{flag} == ..."}}',
            field_name=mark,
        )
    histogram.check(schema)
    require_few(histogram.size(schema), place)


class OfTwoColumns(Question):
    """A question that is read off one histogram of two of its columns.

    ``counted`` names the two fields that name them, the one with edges first.
    """

    __slots__ = ()
    has_cells: ClassVar[bool] = True
    has_inference: ClassVar[bool] = True
    counts_records: ClassVar[bool] = True
    mechanisms: ClassVar[Mapping[str, tuple[str, ...]]] = {"k_norm": ("optimal", "l1")}
    limits: ClassVar[Mapping[str, int]] = {"cells": MAX_COUNTED}
    counted: ClassVar[tuple[str, str]]
    edges: Mapping[str, Edges]
    weights: str | None

    @property
    def columns(self) -> tuple[str, ...]:
        """Return the columns that are counted."""
        return tuple(getattr(self, each) for each in self.counted)

    def spelled(self, schema: Schema, /) -> Mapping[str, object]:
        """Return the common fields and the edges, in their canonical spelling."""
        wider = widened(cast("Statistic", self), schema)
        given = self.histogram(wider).edges
        edges = {name: spelled_edges(each, name, wider) for name, each in given.items()}
        return {**Question.spelled(self, schema), "edges": edges}

    def check(self, schema: Schema) -> None:
        """Raise :class:`InvalidStatisticError` when the question does not fit the schema."""
        require_counted(self.histogram(schema), schema, places=self.counted)

    def histogram(self, schema: Schema, /) -> Histogram:
        """Return the question of all counts; without edges of cells between the public bounds."""
        first = self.columns[0]
        column = schema.columns.get(first)
        usual = {first: equal_cells(column)} if _has_edges(column) else {}
        return Histogram(columns=self.columns, edges={**usual, **self.edges}, weights=self.weights)

    def planning_ms(self, schema: Schema, _mechanism: str, /) -> float:
        """Return about how many milliseconds of one core a plan takes."""
        return 1 + 0.03 * about_counted(self.histogram(schema), schema)


def _has_edges(column: Column | None) -> TypeGuard[NumberColumn]:
    return isinstance(column, NumberColumn) and not column.boolean and column.timed is None


def equal_cells(column: NumberColumn, most: int = EQUAL_CELLS) -> Edges:
    """Return edges of at most ``most`` cells of one width, from the public bounds alone.

    Of whole numbers a cell for each value, or for as few as make no more cells.

    >>> from fractions import Fraction
    >>> equal_cells(NumberColumn(Fraction(0), Fraction(365), kind="integer"))
    Step(step=8)
    """
    if column.whole:
        values = column.upper - column.lower + 1
        return "values" if values <= most else Step(step=ceil(values / most))
    width = (column.upper - column.lower) / most
    return tuple(float(column.lower + place * width) for place in range(most + 1))


def require_few(counted: int, place: str) -> None:
    """Refuse more counts than are simulated."""
    if counted > MAX_COUNTED:
        raise InvalidStatisticError(
            f"this counts {counted:,} cells of all groups together, and at most {MAX_COUNTED:,} "
            "are counted; give fewer edges or groups",
            field_name=place,
        )


def place_text(place: float) -> str:
    """Return a place of a curve as its decimal text, by which answers name it."""
    return f"{place:.10g}"


def rising(numbers: Floats) -> Floats:
    """Return cumulative counts, last axis, made to rise from 0 or more: see the package."""
    positive = np.maximum(numbers, 0.0)
    highest = np.maximum.accumulate(positive, axis=-1)
    lowest = np.minimum.accumulate(positive[..., ::-1], axis=-1)[..., ::-1]
    return np.asarray((highest + lowest) / 2, dtype=np.float64)


def falling(numbers: Floats) -> Floats:
    """Return counts of what is left, last axis, made to fall to 0 or more."""
    return rising(numbers[..., ::-1])[..., ::-1]


def angle(shares: Floats) -> Floats:
    """Return shares as angles, on which their errors are about as large everywhere."""
    return np.asarray(np.arcsin(np.sqrt(np.clip(shares, 0.0, 1.0))), dtype=np.float64)


def share_at(angles: Floats) -> Floats:
    """Return the shares at angles; of those beyond the ends, 0 and 1."""
    return np.asarray(np.sin(np.clip(angles, 0.0, np.pi / 2)) ** 2, dtype=np.float64)


@dataclass(frozen=True, slots=True)
class Spread:
    """Standard errors of the places of a curve, and half-widths that hold at all of them."""

    errors: Floats
    halves: Floats


def spread_of(errors: Floats, informative: Floats | None = None) -> Spread:
    """Return the spread of simulated errors, shape (replicates, places).

    ``informative`` marks the places that are in the band; None for all.
    """
    sizes = np.sqrt(np.mean(errors**2, axis=0))
    inside = np.ones(len(sizes), dtype=bool) if informative is None else informative.astype(bool)
    inside = inside & (sizes > 0)
    if not inside.any():
        return Spread(sizes, np.zeros_like(sizes))
    worst = np.max(np.abs(errors[:, inside]) / sizes[inside], axis=1)
    widest = float(np.quantile(worst, 0.95, method="median_unbiased"))
    # the bias of the released curve may be larger than that of curves about it
    return Spread(sizes, widest * sizes + np.abs(errors.mean(axis=0)))


def reach(at_risk: Floats) -> Floats:
    """Return the share that may have gone unseen among so few: ``min(1, 4 / at_risk)``."""
    return np.asarray(np.minimum(_REACH / np.maximum(at_risk, _REACH), 1.0), dtype=np.float64)


def changed_arrays(change: Callable[[Floats], Floats], answer: Json) -> Json:
    """Return an answer with each of its arrays changed."""

    def walk(node: Any) -> object:
        if isinstance(node, Mapping):
            return {name: walk(each) for name, each in node.items()}
        if isinstance(node, str):
            return node
        return [walk(each) for each in node] if isinstance(node, list) else change(node)

    return cast(Json, walk(answer))
