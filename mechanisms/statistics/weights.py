r"""Weights: a record counts by its weight, a public-bounded column that is never negative.

    T_w(X) = sum_i s_i t(x_i),   s_i = rint(F w_i / W) in {0, ..., F},   W the upper bound of w,

with F = ``SUM_MAX`` in sums, and ``CODE_MAX`` or less where rows are read one by one. Where whole
weights are summed exactly (:mod:`mechanisms.domain`), ``s_i = k w_i`` with k = floor(F / W), and
F / k takes the place of W.

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

An answer computed from T is computed from T_w / F: ratios and least squares do not depend on the
unit, and a sum is multiplied by W.

*Regressions* minimise ``sum_i (s_i / F) l(theta; record i)``, or are drawn by it or by its gradient
in place of the sum of losses. t is then a record's loss, or its gradient at a theta, and each
mechanism, planned for records that may come, go or be replaced, is private for this reason alone:

- the gradient's changes, as above, lie in any convex set that holds g, -g and (replace-one) g - g',
  so Delta is what it is without weights, in every norm;
- a record's loss lies in [0, Delta], so its part of it does;
- a record multiplies the determinant of the Hessian by 1 + (s / F) c where the whole of it would
  do so by 1 + c, 0 <= c <= lambda / gamma. Replacing one gives a ratio of two such factors.

*Ranks.* The score of a quantile of level tau at t is the distance of 0 to the subgradients of the
check loss there: to an interval [G-, G+] whose ends are sums over records, of
``(s_i / F) (1{y_i < t} - tau)`` and ``(s_i / F) (1{y_i <= t} - tau)``. For each end t(r) above is
1 - tau or -tau. So both ends, and with them the distance, move by at most what they move by without
weights: 1 under replace-one and wherever records may come, go or be replaced, and
``max(tau, 1 - tau)`` under add-remove. Delta is that of a filter, in units of the largest weight.
A draw sums whole parts s_i, and its rate is one for a part: ``epsilon / (2 Delta F)``. The score is
0 somewhere, as without weights, so nothing else in a law of ranks changes.

So the plan is the one for a filter (:mod:`mechanisms.filtered`). The share of each record, like its
codes, comes from rounding that record alone.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial, wraps
from typing import Annotated, Protocol, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from mechanisms.contract import (
    Block,
    Data,
    InvalidStatisticError,
    Json,
    Plan,
    meaning,
    require_numbers,
)
from mechanisms.domain import (
    CODE_MAX,
    EXACT_WIDTH,
    SUM_MAX,
    NumberColumn,
    Schema,
    Values,
    exact,
    summed,
)
from mechanisms.parted import Placing, parts_of
from mechanisms.privacy import PrivacyLoss
from mechanisms.sketches import LIMB_BITS, limbs_of
from mechanisms.statistics.additive import AdditiveForm, Coordinates, Leaf, Tree

Integers = NDArray[np.int64]

UNWEIGHTED = ""
"""What a question holds that says null: each record counts once, whatever the design says."""


class _Stated:
    """Tells null, which a question says, from a field that it leaves out.

    Validation leaves defaults alone. The schema is one of pydantic's, which is not imported here.
    """

    def __get_pydantic_core_schema__(
        self, source: object, handler: Callable[[object], dict[str, object]]
    ) -> dict[str, object]:
        """Return what reads a column's name, or null."""
        described = {"type": "no-info", "function": _unweighted}
        return {"type": "function-after", "function": described, "schema": handler(source)}


def _unweighted(name: str | None) -> str:
    return UNWEIGHTED if name is None else name


Weighing = Annotated[str | None, _Stated()]
"""A column of weights; None where nothing is said, and :data:`UNWEIGHTED` for null."""

_NULL = (
    "Left out: by the weight that the data set's design declares, else each counts once. Null: "
    "each counts once."
)
WEIGHTS = meaning(
    "A number column by which each record counts, its lower bound 0 or more: survey weights, "
    f"hours, population. {_NULL}",
    example="weight",
)
LOSS_WEIGHTS = meaning(
    f"A number column, its lower bound 0 or more, by which each record's loss counts. {_NULL}",
    example="weight",
)
NOTE = "In a preview every record has the largest weight."

_MS_PER_COLUMN, _MS_PER_PRODUCT = 2.2e-5, 6e-7  # measured; of a column's limbs, and of two columns
_CELLS_PER_WEIGHT = 2  # measured; its limbs take as long as reading this many cells
_RUN = 1 << 12  # rows whose limbs are multiplied at once: they stay in the CPU cache
_SHARE_LIMBS = 4
Limbs = tuple[Integers, Integers]


HELD_PARTS = 1 << 12
"""The number of parts of the largest weight in a whole count, where rows are held with counts.

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
    """Return about how many milliseconds the weighted products of ``columns`` columns take."""
    size = columns + 1  # the weights alone are a column of products too
    return (_MS_PER_COLUMN * size + _MS_PER_PRODUCT * size**2) * (rows or 0)


def private_rows(schema: Schema) -> Schema:
    """Return the facts that weighted records are planned with: how many count is private."""
    return replace(schema, selected=True)


def weighted_form(
    form: AdditiveForm, schema: Schema, name: str, *, total: bool, squares: bool = False
) -> AdditiveForm:
    """Return a form of the records by their weights, from that of records that may come or go.

    Parameters
    ----------
    total
        Whether the numbers are totals, which are in units of the weights too.
    squares
        Whether the form sums squares or products of columns, and not only columns.
    """
    weights = Weights(name, require_weights(schema, name))
    factor = weights.largest_share if total else Fraction(1)

    def reference(rows: int | None) -> Coordinates | None:
        found = form.reference(rows if schema.known_rows is None else schema.known_rows)
        return None if found is None else [SUM_MAX * each for each in found]

    return replace(
        form,
        space=replace(form.space, unit=SUM_MAX * form.space.unit),
        total=lambda data: form.total(weighted_data(data, weights, sums_only=not squares)),
        answer=lambda found: _scaled(form.answer([each / SUM_MAX for each in found]), factor),
        reference=reference,
        grid=lambda step: _times(form.grid(step / SUM_MAX), factor),
        details={**form.details, "weights": {**weights.facts(), "note": NOTE}},
        columns_read=form.columns_read + _CELLS_PER_WEIGHT + form.noise_size,
    )


def weighted_counts(
    form: AdditiveForm,
    schema: Schema,
    name: str,
    *,
    reads: Sequence[str],
    place: Callable[[Block], Integers],
    cells: int,
) -> AdditiveForm:
    """Return a form of counts by the records' weights: in each cell the sum of its weights.

    Parameters
    ----------
    form
        Counts of records that may come or go.
    reads, place
        What a block must hold, and the cell of each of its records: a function that pickles.
    cells
        How many there are.
    """
    weights = Weights(name, require_weights(schema, name))
    counted = partial(_shares_in_cells, weights, place, cells)
    wanted = tuple(dict.fromkeys((*reads, exact(name))))

    def total(data: Data) -> list[int]:
        found = np.zeros((2, cells), dtype=np.int64)
        for some in data.map(counted, wanted):
            found += some
        return [(high << LIMB_BITS) + low for low, high in zip(*found.tolist(), strict=True)]

    return replace(
        weighted_form(form, schema, name, total=True),
        total=total,
        columns_read=len(reads) + _CELLS_PER_WEIGHT,
    )


def _shares_in_cells(
    weights: Weights, place: Callable[[Block], Integers], cells: int, block: Block
) -> Integers:
    """Return the sums of both limbs of the shares in each cell, shape (2, cells).

    Floats hold them exactly: a limb has at most 17 bits, and a block at most 2**18 records.
    """
    at, shares = place(block), weights.sum_shares(block[exact(weights.name)])
    sums = [np.bincount(at, weights=limb, minlength=cells) for limb in limbs_of(shares)]
    return np.stack(sums).astype(np.int64)


def _scaled(tree: Tree, factor: Fraction) -> Tree:
    """Return an answer whose slopes are by the finer unit, its numbers times a factor."""
    if isinstance(tree, Leaf):
        slopes = {place: slope * factor / SUM_MAX for place, slope in tree.slopes.items()}
        rounding = tree.rounding * factor
        return replace(
            tree, value=tree.value * factor, slopes=slopes, rounding=rounding, whole=False
        )
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

    @property
    def _exact_factor(self) -> int:
        """Return k, the share of a weight of 1 where whole weights are summed exactly, else 0."""
        exact_sums = self.column.sum_error == 0 and self.column.upper <= EXACT_WIDTH
        return SUM_MAX // int(self.column.upper) if exact_sums else 0

    @property
    def largest_share(self) -> Fraction:
        """Return the weight of the largest share in a sum: the upper bound, or a little more."""
        factor = self._exact_factor
        return Fraction(SUM_MAX, factor) if factor else self.column.upper

    def sum_shares(self, values: Values) -> Integers:
        """Return s in {0, ..., SUM_MAX} of some records, of the values of their weights."""
        factor = self._exact_factor
        if factor:
            return values.astype(np.int64) * factor
        found = np.rint(values * float(SUM_MAX / self.column.upper))
        shares: Integers = np.clip(found, 0, SUM_MAX).astype(np.int64)
        return shares

    def facts(self) -> Json:
        """Return the public facts about them, ready for JSON."""
        return {"column": self.name, "largest": float(self.column.upper)}


class Weighted(Protocol):
    """A question whose records may count by weights."""

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


def weighted_parts(data: Data, placing: Placing) -> list[Data]:
    """Return parts of records, weighted ones as :func:`weighted_data` shows them."""
    if isinstance(data, _WeightedData):
        return [cast(Data, replace(data, data=part)) for part in parts_of(data.data, placing)]
    return [*parts_of(data, placing)]


@dataclass(frozen=True, slots=True)
class _WeightedData:
    data: Data
    weights: Weights
    sums_only: bool

    def gram(self, columns: Sequence[str]) -> list[list[int]]:
        """Return ``sum_i s_i z_i z_i^T``, z = (1, sum codes of the columns), exactly."""
        names = tuple(columns)
        key: Hashable = ("weighted", self.weights.name, names, self.sums_only)
        found = self.data.remembered(
            key, lambda: self._gram(names), lambda made: 100 * len(made) ** 2
        )
        # What is remembered serves other draws too.
        return [row.copy() for row in found]

    def _gram(self, names: tuple[str, ...]) -> list[list[int]]:
        size = 1 + len(names)
        total = np.zeros((size, size), dtype=object)
        wanted = tuple(dict.fromkeys((*map(summed, names), exact(self.weights.name))))
        for some in self.data.map(partial(_sums_of, self.weights, names, self.sums_only), wanted):
            total = total + some
        found: list[list[int]] = (total[:1] if self.sums_only else total).tolist()
        return found


def _sums_of(
    weights: Weights, names: tuple[str, ...], sums_only: bool, block: Block
) -> NDArray[np.object_]:
    """Return a block's matrix ``sum s z z'``, z = (1, sum codes); its first row if ``sums_only``.

    With limbs of 17 bits, s has two, z two and s z four: no product of two exceeds 2**34, and
    floats hold sums of those of ``_RUN`` rows exactly (:mod:`mechanisms.sketches`).
    """
    size, given = 1 + len(names), block[exact(weights.name)]
    lefts = 1 if sums_only else size
    sums = np.zeros((_SHARE_LIMBS * lefts, 2 * size), dtype=np.int64)
    for start in range(0, len(given), _RUN):
        part = slice(start, start + _RUN)
        shares = weights.sum_shares(given[part])
        columns = [np.ones_like(shares), *(block[summed(name)][part] for name in names)]
        parts, limbs = limbs_of(shares), [limbs_of(column) for column in columns]
        left = np.empty((_SHARE_LIMBS, lefts, len(shares)))
        right = np.empty((2, size, len(shares)))
        for place, column in enumerate(limbs):
            right[:, place] = column
            if place < lefts:
                left[:, place] = _products(parts, column)
        found = left.reshape(-1, len(shares)) @ right.reshape(-1, len(shares)).T
        sums += found.astype(np.int64)
    made = sums.astype(object).reshape(_SHARE_LIMBS, lefts, 2, size)
    total = np.zeros((lefts, size), dtype=object)
    for i in range(_SHARE_LIMBS):
        for j in range(2):
            total = total + (made[i, :, j] << (LIMB_BITS * (i + j)))
    return total


def _products(shares: Limbs, column: Limbs) -> tuple[Integers, ...]:
    """Return the limbs of products of two numbers of two limbs each, the lowest first.

    Sums of products of limbs are within 2**35, and what is carried within 2**18 + 1. The highest
    limb takes the rest, which is at most 2**17 as no product exceeds 2**68.
    """
    (s, t), (a, b) = shares, column
    found = []
    carried: Integers = np.zeros_like(s)
    for entry in (s * a, s * b + t * a, t * b):
        carried = carried + entry
        low, carried = limbs_of(carried)
        found.append(low)
    return (*found, carried)
