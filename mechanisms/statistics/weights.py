r"""Weights: a record counts by its weight, a public-bounded column that is never negative.

    T_w(X) = sum_i s_i t(x_i),   s_i = rint(F w_i / W) in {0, ..., F},   W the upper bound of w.

A weight is a *fractional filter*: a record that meets a condition counts whole, one that does not
counts for nothing, and one of weight w counts for w / W.

**Privacy.** Let t be planned for records that may come, go or be replaced (a schema with
``selected`` set): K, a convex set, holds t(r), -t(r) and, under replace-one, t(r) - t(r'). Of
neighbours under weights the difference is ``s t(r) - s' t(r')``, or ``+-s t(r)``. In units of F
it lies in K:

    (s t - s' t') / F = (s'/F) (t - t') + ((s - s')/F) t + (1 - s/F) 0,   for s >= s',

a convex combination of points of K, and likewise for s' > s. Under add-remove ``s t / F`` is one of
t and 0. So T_w has the adjacent output space of T, with F times as many lattice steps in a unit;
nothing is rounded but each record's own share, which is a public function of that record alone.

What is made of T is made of T_w / F: a ratio or least squares do not know the unit, a sum takes W.

*Regressions* minimise ``sum_i (s_i / F) l(theta; record i)``, or are drawn by it or by its gradient
in place of the sum of losses. t is then a record's loss, or its gradient at a theta, and each
mechanism, planned for records that may come, go or be replaced, is private for this reason alone:

- the gradient's changes, as above, lie in any convex set that holds g, -g and (replace-one) g - g',
  so Delta is what it is without weights, in every norm;
- a record's loss lies in [0, Delta], so its part of it does;
- a record multiplies the determinant of the Hessian by 1 + (s / F) c where the whole of it would
  do so by 1 + c, 0 <= c <= lambda / gamma. Replacing one gives a ratio of two such factors.

So a plan is that of a filter (:mod:`mechanisms.filtered`), and the share of each record, like its
codes, is made by rounding that record alone.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial, wraps
from typing import Protocol, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from mechanisms.contract import (
    Block,
    Data,
    InvalidStatisticError,
    Json,
    Plan,
    Statistic,
    meaning,
    require_numbers,
)
from mechanisms.domain import CODE_BITS, CODE_MAX, NumberColumn, Schema
from mechanisms.privacy import PrivacyLoss
from mechanisms.statistics.additive import AdditiveForm, Coordinates, Leaf, Tree

Integers = NDArray[np.int64]

WEIGHTS = meaning(
    "A number column by which each record counts, its lower bound 0 or more: survey weights, "
    "hours, population. Null: each counts once.",
    example="weight",
)
LOSS_WEIGHTS = meaning(
    "A number column, its lower bound 0 or more, by which each record's loss counts. Null: each "
    "counts once.",
    example="weight",
)
NOTE = "In a preview every record has the largest weight."

_MS_PER_PRODUCT = 6e-6  # measured; of two columns and the weights, for one row
_RUN = 1 << 16  # rows whose products are summed in words of 64 bits
_LOW = (1 << CODE_BITS) - 1


HELD_PARTS = 1 << 12
"""Where rows are held with whole counts, a weight counts in so many parts of the largest.

Sums of codes by 2**20 such counts are then below 2**53, and exact in floats."""


def require_weights(schema: Schema, name: str) -> NumberColumn:
    """Return the column of weights.

    Raises
    ------
    InvalidStatisticError
        There is no such column, or its bounds let it be negative.
    """
    (column,) = require_numbers(schema, (name,), "weights")
    if column.lower < 0:
        raise InvalidStatisticError(
            "weights are never negative: the column's lower bound must be 0 or more",
            field_name="weights",
        )
    return column


def reading_ms(columns: int, rows: int | None) -> float:
    """Return about how many milliseconds the weighted products of so many columns take."""
    return _MS_PER_PRODUCT * (columns + 1) ** 2 / 2 * (rows or 0)


def private_rows(schema: Schema) -> Schema:
    """Return the facts that weighted records are planned with: how many count is private."""
    return replace(schema, selected=True)


def weighted_form(form: AdditiveForm, schema: Schema, name: str, *, total: bool) -> AdditiveForm:
    """Return a form of the records by their weights, from that of records that may come or go.

    Parameters
    ----------
    total
        Whether the numbers are totals, which are in units of the weights too.
    """
    weights = Weights(name, require_weights(schema, name))
    factor = weights.column.upper if total else Fraction(1)

    def reference(rows: int | None) -> Coordinates | None:
        found = form.reference(rows if schema.known_rows is None else schema.known_rows)
        return None if found is None else [CODE_MAX * each for each in found]

    return replace(
        form,
        space=replace(form.space, unit=CODE_MAX * form.space.unit),
        total=lambda data: form.total(weighted_data(data, weights, sums_only=True)),
        answer=lambda found: _scaled(form.answer([each / CODE_MAX for each in found]), factor),
        reference=reference,
        grid=lambda step: _times(form.grid(step / CODE_MAX), factor),
        details={**form.details, "weights": {**weights.facts(), "note": NOTE}},
        columns_read=form.columns_read + 1 + form.noise_size,
    )


def _scaled(tree: Tree, factor: Fraction) -> Tree:
    """Return an answer whose slopes are by the finer unit, its numbers times a factor."""
    if isinstance(tree, Leaf):
        slopes = {place: slope * factor / CODE_MAX for place, slope in tree.slopes.items()}
        return replace(tree, value=tree.value * factor, slopes=slopes)
    if isinstance(tree, str):
        return tree
    if isinstance(tree, Sequence):
        return [_scaled(each, factor) for each in tree]
    return {name: _scaled(each, factor) for name, each in tree.items()}


def _times(steps: Json, factor: Fraction) -> Json:
    return {
        name: _times(step, factor) if isinstance(step, dict) else float(step) * float(factor)  # type: ignore[arg-type]
        for name, step in steps.items()
    }


@dataclass(frozen=True, slots=True)
class Weights:
    """A column of weights, and the share of the largest that each record counts for."""

    name: str
    column: NumberColumn

    def shares(self, codes: NDArray[np.int32], parts: int = CODE_MAX) -> Integers:
        """Return s in {0, ..., parts} of some records."""
        largest, middle = self.column.upper * CODE_MAX / parts, self.column.midpoint
        slope, at_middle = self.column.half_width / largest, CODE_MAX * middle / largest
        found = np.rint(codes * float(slope) + float(at_middle))
        shares: Integers = np.clip(found, 0, parts).astype(np.int64)
        return shares

    def facts(self) -> Json:
        """Return what is public of them, ready for JSON."""
        return {"column": self.name, "largest": float(self.column.upper)}


class Weighted(Statistic, Protocol):
    """A statistic whose records may count by weights."""

    @property
    def weights(self) -> str | None:
        """Return the column; None where each record counts once."""


class Scaled(Protocol):
    """The public maps between columns and scaled coordinates."""

    @property
    def columns(self) -> Collection[str]:
        """Return the columns that are read."""


class WeightedFit(Weighted, Protocol):
    """A regression whose records may count by weights."""

    def scaling(self, schema: Schema, /) -> Scaled:
        """Return the public maps between columns and scaled coordinates."""


S = TypeVar("S", bound=WeightedFit)


def weights_of(statistic: Weighted, schema: Schema) -> Weights | None:
    """Return by which weights the records count, None where each counts once."""
    name = statistic.weights
    return None if name is None else Weights(name, require_weights(schema, name))


def weighing(
    calibrate: Callable[[S, Schema, PrivacyLoss, str], Plan],
) -> Callable[[S, Schema, PrivacyLoss, str], Plan]:
    """Return a regression's ``calibrate`` that plans weighted records like those of a filter."""

    @wraps(calibrate)
    def planned(statistic: S, schema: Schema, epsilon: PrivacyLoss, norm: str) -> Plan:
        weights = weights_of(statistic, schema)
        if weights is None:
            return calibrate(statistic, schema, epsilon, norm)
        plan = calibrate(statistic, private_rows(schema), epsilon, norm)
        read_ms = reading_ms(len(statistic.scaling(schema).columns), schema.row_bound)
        return replace(
            plan,
            expected_ms=plan.expected_ms + read_ms,
            details={**plan.details, "weights": weights.facts()},
        )

    return planned


def weighted_data(data: Data, weights: Weights, *, sums_only: bool = False) -> Data:
    """Return records as a form sees them that sums what they hold, by weights and F times as large.

    Such a form reads a Gram matrix and nothing else: its first row, if ``sums_only``.
    """
    return cast(Data, _WeightedData(data, weights, sums_only))


@dataclass(frozen=True, slots=True)
class _WeightedData:
    data: Data
    weights: Weights
    sums_only: bool

    def gram(self, columns: Sequence[str]) -> list[list[int]]:
        """Return ``sum_i s_i z_i z_i^T``, z = (1, codes of the columns), exactly."""
        names = tuple(columns)
        key: Hashable = ("weighted", self.weights.name, names, self.sums_only)
        found = self.data.remembered(
            key, lambda: self._gram(names), lambda made: 100 * len(made) ** 2
        )
        # What is remembered serves other draws too.
        return [row.copy() for row in found]

    def _gram(self, names: tuple[str, ...]) -> list[list[int]]:
        size = 1 + len(names)
        totals = [[0] * size for _ in range(size)]
        wanted = tuple(dict.fromkeys((*names, self.weights.name)))
        for some in self.data.map(partial(_sums_of, self.weights, names, self.sums_only), wanted):
            for j, row in enumerate(some):
                for k, entry in enumerate(row):
                    totals[j][k] += entry
        if self.sums_only:
            return [[row[0] for row in totals]]
        return [[totals[max(j, k)][min(j, k)] for k in range(size)] for j in range(size)]


def _sums_of(
    weights: Weights, names: tuple[str, ...], sums_only: bool, block: Block
) -> list[list[int]]:
    """Return the lower half of a block's matrix, or its first column alone."""
    totals = [[0] * (1 if sums_only else j + 1) for j in range(1 + len(names))]
    for shares, columns in _runs(weights, names, block):
        codes = [np.ones_like(shares), *columns]
        for row, one in zip(totals, codes, strict=True):
            for k, other in enumerate(codes[: len(row)]):
                # Products of codes fit 64 bits, and those times a share would not when summed.
                row[k] += _exact_sum(shares, one * other)
    return totals


def _runs(
    weights: Weights, names: tuple[str, ...], block: Block
) -> Iterator[tuple[Integers, list[Integers]]]:
    """Yield shares and codes of some records at a time."""
    given = block[weights.name]
    for start in range(0, len(given), _RUN):
        part = slice(start, start + _RUN)
        codes = [block[name][part].astype(np.int64) for name in names]
        yield weights.shares(given[part]), codes


def _exact_sum(shares: Integers, products: Integers) -> int:
    """Return sum s p of one run, |p| <= F**2, in two words: each is below 2**(40 + 16)."""
    # A shift rounds down and the rest is never below 0, so negative products come out right too.
    high, low = products >> CODE_BITS, products & _LOW
    return (int((shares * high).sum()) << CODE_BITS) + int((shares * low).sum())
