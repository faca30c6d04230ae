r"""Sums and means of clamped values: ``clip``, for every statistic that has the field.

    a, b ~ exp(-epsilon_1 / 2 |#{x < a} - k|), exp(-epsilon_1 / 2 |#{x > b} - k|),
    release (a, b) and M_{a, b}(clamp(D; a, b)) at the rest of epsilon,

by one charge. The bounds a and b are coarse candidates of the column under the base measure ``log``
(:mod:`mechanisms.grids`): a the start of a cell, and b the end of one. Finer cells would have less
mass where values are tied or close together. About k records are beyond each,
``k = 20 / epsilon_1``, a public number that needs no row count. Where a column has one of its
bounds at 0, that end is kept, and all of the share pays for the other one. Half of epsilon is spent
on bounds, in equal parts: in the 40 settings of ``studies/clipping.py`` this errs 1.3 times as much
as the best of 12 rules in the median, and 2.6 times at most. With 14 / epsilon_1 records beyond it
errs up to 160,000 times as much: where values are close together, candidates far away outweigh
them.

*The score.* Of the upper end it is the distance of ``w = max(n - k, 1/2)`` to
``[#{x < t}, #{x <= t}]``, and of the lower one that of ``w = min(k, n - 1/2)``. Either w is a
function of n that never falls, and grows by at most 1 with each record.

**Privacy.** *A bound.* Replacing a record leaves w, and moves each count by at most 1. Adding one
moves w by some u in [0, 1] and a count by some v in {0, 1}: their difference by at most 1. So the
score has sensitivity 1 under add-remove, replace-one, and for a replaced record that may enter or
leave those that a filter selects. The exponential mechanism at rate ``epsilon_1 / 2`` is
epsilon_1-DP (KNG Theorem 3.1, one dimension), whatever the public base measure; without records
the score is the same everywhere. Its range is bounded by epsilon_1: ``epsilon_1**2 / 8`` in zCDP.

*The answer.* For each fixed (a, b) clamping is a public function of one record, so neighbours stay
neighbours, of the same kind. M_{a, b} is planned for columns of these bounds as if they were
declared, and is epsilon_2-DP.

*Together.* With q(a, b | D) the probability of the bounds, and p(y | a, b, D) that of the answer,

    q(a, b | D) p(y | a, b, D) <= exp(sum of epsilon_1 + epsilon_2) q(a, b | D') p(y | a, b, D'),

for each (a, b, y): the adaptive composition of Dwork & Roth 2014, Theorem 3.16 and its remark. All
of a, b and y are released. Filters, groups and people with several rows use this as any other
mechanism under their adjacency (:mod:`mechanisms.filtered`, :mod:`mechanisms.grouped`,
:mod:`mechanisms.people`): it is planned for each group by itself.

*Bounds that a question states* are public: the plan is that of a column that has them.

May enter: what clamps values before another mechanism releases them. May import: mechanisms, and
all below them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from math import ceil
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from mechanisms import gaussian, knorm
from mechanisms.contract import (
    Block,
    Calibrate,
    Data,
    Drawing,
    Json,
    Outcome,
    Parameters,
    Plan,
    Statistic,
    T,
    require_numbers,
)
from mechanisms.domain import NumberColumn, Schema, array_of, column_named, exact, summed, text_of
from mechanisms.exact.floats import Floats, Many
from mechanisms.exact.fractions import as_written
from mechanisms.geometry.laws import hashed_uniforms
from mechanisms.grids import COARSE
from mechanisms.privacy import (
    ONE_ROW,
    PURE,
    ZCDP,
    Epsilon,
    EpsilonShare,
    PrivacyLoss,
    bounded_range_rho,
    split,
)
from mechanisms.randomness import Randomness
from mechanisms.samplers.intervals import GridCodes, draw_point, likely_points
from mechanisms.sketches import exact_gram
from mechanisms.statistics.additive import AdditiveStatistic, Leaf, render
from mechanisms.statistics.curves.counts import changed_arrays
from mechanisms.statistics.facts.clipping import (
    ClipBounds,
    clip_of,
    is_clipped,
    narrowed,
    unclipped,
    warning,
)
from mechanisms.statistics.quantile import scale_of
from mechanisms.statistics.ranks.draw import Candidates

SHARE = Fraction(1, 2)
"""Of epsilon, for the bounds."""

BEYOND = 20
"""Records beyond a bound, times the epsilon that it is drawn at."""

_TURNS = 12
"""Of simulated bounds."""

_THEOREMS = {
    PURE: "Reimherr & Awan 2019, Theorem 3.1 (bounds); Dwork & Roth 2014, Theorem 3.16 "
    "(composition)",
    ZCDP: "Reimherr & Awan 2019, Theorem 3.1 (bounds); Bun & Steinke 2016, Lemma 1.7 (composition)",
}


def plan_clipped(
    calibrate: Calibrate, statistic: Statistic, schema: Schema, epsilon: PrivacyLoss, norm: str
) -> Plan:
    """Return the plan of a statistic of clamped values, epsilon-DP with its bounds.

    Parameters
    ----------
    calibrate
        The mechanism's, for the statistic of the values themselves.

    Raises
    ------
    InvalidStatisticError
        What the mechanism raises; the bounds do not fit the column.
    """
    clip = clip_of(statistic)
    if clip == "none":
        return calibrate(statistic, schema, epsilon, norm)
    statistic.check(schema)
    if isinstance(clip, ClipBounds):
        return _plan_stated(calibrate, statistic, schema, epsilon, norm)
    return _plan_private(calibrate, statistic, schema, epsilon, norm)


def _plan_stated(
    calibrate: Calibrate, statistic: Statistic, schema: Schema, epsilon: PrivacyLoss, norm: str
) -> Plan:
    columns = _stated(statistic, schema)
    facts = _narrow(schema, columns)
    plan = calibrate(unclipped(statistic), facts, epsilon, norm)
    clip = {"method": "stated", "bounds": _shown(columns), "share": "0", **warning("")}
    return replace(
        plan,
        statistic=statistic,
        schema=schema,
        parameters=StatedClip(plan.parameters),
        details={**plan.details, "clip": clip},
    )


def _stated(statistic: Statistic, schema: Schema) -> Mapping[str, NumberColumn]:
    """Return the column that a question states bounds of, with those."""
    (name,), clip = cast(Any, statistic).columns, cast(ClipBounds, clip_of(statistic))
    (column,) = require_numbers(schema, [name], "columns")
    return {name: narrowed(column, clip)}


@dataclass(frozen=True, slots=True)
class StatedClip:
    """The parameters of a statistic of values clamped to stated bounds: those of such columns."""

    clamped: Parameters

    def drawing(self, statistic: Statistic, schema: Schema) -> Drawing:
        """Return a drawing from the clamped values; errors include what clamping misses."""
        columns, plain = _stated(statistic, schema), unclipped(statistic)
        drawn = self.clamped.drawing(plain, _narrow(schema, columns))

        def errors(data: Data, count: int, seed: bytes, times: float) -> Json:
            exact, clamped = _exact(plain, schema, data, times), ClampedData(data, columns)
            own = _errors_of(drawn, clamped, count, seed, times)
            bias = _exact(plain, _narrow(schema, columns), clamped, times) - exact
            return _tree(own, np.abs(bias[:, None] + _signed(own)))

        return replace(
            drawn,
            draw=lambda data, randomness: drawn.draw(ClampedData(data, columns), randomness),
            errors_on=errors,
        )


def _plan_private(
    calibrate: Calibrate, statistic: Statistic, schema: Schema, epsilon: PrivacyLoss, norm: str
) -> Plan:
    ends = ends_of(statistic, schema)
    own, rest = split(epsilon, [SHARE, 1 - SHARE])
    each = split(own, [Fraction(1)] * len(ends))[0]
    plan = calibrate(unclipped(statistic), schema, rest, norm)
    beyond = ceil(BEYOND / each.fraction)
    candidates = [candidates_of(name, schema) for name in dict.fromkeys(name for name, _ in ends)]
    rows = schema.row_bound
    return replace(
        plan,
        statistic=statistic,
        parameters=PrivateClip(
            whole=rest.whole,
            rest=rest.weight,
            norm=norm,
            each=each.fraction,
            beyond=beyond,
            mechanism=plan.mechanism,
        ),
        guarantee=replace(
            plan.guarantee,
            epsilon=epsilon,
            sensitivity=f"{plan.guarantee.sensitivity}; 1",
            sensitivity_unit=f"{plan.guarantee.sensitivity_unit}; records beyond a bound",
            theorem=f"{plan.guarantee.theorem}; {_THEOREMS[plan.guarantee.definition]}",
            rho=plan.guarantee.zcdp + len(ends) * bounded_range_rho(each),
        ),
        expected_ms=plan.expected_ms + sum(found.expected_ms(1, rows) for found in candidates),
        time_depends_on_data=True,
        alternatives=(),
        details={
            **plan.details,
            "noise": (
                "the law of the noise of clamped values, known once the bounds are drawn: its "
                "width depends on the data"
            ),
            "clip": {
                "method": "private",
                "share": str(float(SHARE)),
                "epsilon": str(own),
                "records_beyond": beyond,
                "ends": [f"{name} {side}" for name, side in ends],
                **warning(f", and about {beyond} records are beyond each bound"),
            },
        },
    )


def ends_of(statistic: Statistic, schema: Schema) -> list[tuple[str, str]]:
    """Return which ends of which columns are drawn: all but those at 0."""
    names: Sequence[str] = cast(Any, statistic).columns
    found = []
    for name, column in zip(names, require_numbers(schema, names, "columns"), strict=True):
        # of a column from 0 to 0 there would be none
        sides = [side for side, end in (("lower", column.lower), ("upper", column.upper)) if end]
        found += [(name, side) for side in sides]
    return found


def candidates_of(name: str, schema: Schema) -> Candidates:
    """Return the values that a bound of a column may be."""
    (column,) = require_numbers(schema, [name], "columns")
    scale = scale_of(column, "log", ())
    assert scale is not None  # the question has been checked
    return Candidates.on_scale(column, scale, COARSE)


@dataclass(frozen=True, slots=True, kw_only=True)
class PrivateClip:
    """What each bound is drawn with, and what of epsilon is left for the answer.

    ``whole`` and ``rest`` are an exact share of epsilon. ``mechanism`` draws the answer, and
    ``norm`` is the one asked for.
    """

    whole: Epsilon
    rest: Fraction
    norm: str
    each: Fraction
    beyond: int
    mechanism: str = "k_norm"

    def drawing(self, statistic: Statistic, schema: Schema) -> Drawing:
        """Return a drawing of the bounds, and then of the statistic of clamped values."""
        if clip_of(statistic) != "private":
            raise ValueError("these are the parameters of bounds that are drawn")
        return Drawing(
            draw=partial(self._draw, statistic, schema),
            errors_on=lambda data, *how: self._errors(statistic, schema, data, *how),
        )

    def _draw(
        self, statistic: Statistic, schema: Schema, data: Data, randomness: Randomness
    ) -> Outcome:
        columns = self.bounds(statistic, schema, data, randomness)
        plan = self._within(statistic, schema, columns)
        outcome = plan.draw(ClampedData(data, columns), randomness)
        return replace(outcome, facts={"clip": {"bounds": _shown(columns)}})

    def _within(
        self, statistic: Statistic, schema: Schema, columns: Mapping[str, NumberColumn]
    ) -> Plan:
        """Return the plan of clamped values."""
        # The share is that of one row, of people who may have several.
        facts = replace(_narrow(schema, columns), protects=ONE_ROW)
        rest = EpsilonShare(self.whole, self.rest)
        calibrate = gaussian.calibrate if self.mechanism == "gaussian" else knorm.calibrate
        return calibrate(unclipped(statistic), facts, rest, self.norm)

    def _errors(
        self,
        statistic: Statistic,
        schema: Schema,
        data: Data,
        *how: *tuple[int, bytes, float],
    ) -> Json:
        """Return the errors of simulated answers, in floats: bias and noise within some bounds.

        The bounds are at evenly spaced shares of their laws, in an order of its own for each end.
        """
        plain, (count, seed, times) = unclipped(statistic), how
        exact = _exact(plain, schema, data, times)
        turns = Counter(self._likely_bounds(statistic, schema, data, seed, times))
        found: list[Floats] = []
        for place, (ends, weight) in enumerate(turns.items()):
            columns = dict(ends)
            plan, clamped = self._within(statistic, schema, columns), ClampedData(data, columns)
            size = count * weight // _TURNS
            own = _errors_of(plan.drawing, clamped, size, seed + b"%d" % place, times)
            bias = _exact(plain, plan.schema, clamped, times) - exact
            found.append(np.abs(bias[:, None] + _signed(own)))
        return _tree(own, np.hstack(found))

    def _likely_bounds(
        self, statistic: Statistic, schema: Schema, data: Data, seed: bytes, times: float
    ) -> Iterator[tuple[tuple[str, NumberColumn], ...]]:
        """Yield simulated bounds of all columns, each as likely as the others."""
        shares = (np.arange(_TURNS) + 0.5) / _TURNS
        drawn: list[list[Fraction]] = []
        ends = ends_of(statistic, schema)
        for name, side in ends:
            candidates = candidates_of(name, schema)
            grid, level = self._sought(candidates, name, side, data, times)
            order = np.argsort(hashed_uniforms(seed + f"{name} {side}".encode(), _TURNS))
            rate = self.each / 2 * Fraction(times)
            points = likely_points(grid, level=level, rate=rate, shares=shares[order])
            drawn.append([_end(candidates, point, side) for point in points])
        for turn in zip(*drawn, strict=True):
            yield tuple(_bounded(schema, ends, turn).items())

    def bounds(
        self, statistic: Statistic, schema: Schema, data: Data, randomness: Randomness
    ) -> Mapping[str, NumberColumn]:
        """Return each column with the bounds that are drawn for it: the private step."""
        drawn, ends = [], ends_of(statistic, schema)
        for name, side in ends:
            candidates = candidates_of(name, schema)
            point = self._point(candidates, name, side, data, randomness)
            drawn.append(_end(candidates, point, side))
        return _bounded(schema, ends, drawn)

    def _point(
        self, candidates: Candidates, name: str, side: str, data: Data, randomness: Randomness
    ) -> int:
        grid, level = self._sought(candidates, name, side, data)
        return draw_point(grid, level=level, rate=self.each / 2, randomness=randomness)

    def _sought(
        self, candidates: Candidates, name: str, side: str, data: Data, times: float = 1
    ) -> tuple[GridCodes, Fraction]:
        """Return a column's values, and the level of the wanted bound among them.

        Each row is as many records as ``times`` says: 1, but in a simulation.
        """
        grid = candidates.grid(name, data)
        rows, half = int(grid.reached[-1]) * Fraction(times), Fraction(1, 2)
        if side == "upper":
            wanted = max(rows - self.beyond, half)
        else:
            wanted = min(Fraction(self.beyond), rows - half)
        return grid, wanted / rows if rows else half


def _end(candidates: Candidates, point: int, side: str) -> Fraction:
    """Return the bound that a candidate stands for: of an upper one, where its cell ends."""
    if side == "upper":
        point = min(point + 1, candidates.high)
    return as_written(candidates.value(point))


def _bounded(
    schema: Schema, ends: Sequence[tuple[str, str]], drawn: Sequence[Fraction]
) -> dict[str, NumberColumn]:
    """Return each column with the bounds that were drawn for it."""
    found: dict[str, list[Fraction]] = {}
    for (name, _), bound in zip(ends, drawn, strict=True):
        found.setdefault(name, []).append(bound)
    return {
        name: _between(cast(NumberColumn, schema.columns[name]), own) for name, own in found.items()
    }


def _exact(statistic: Statistic, schema: Schema, data: Data, times: float) -> Floats:
    """Return an answer's numbers without noise, each row as many records as ``times`` says."""
    form = cast(AdditiveStatistic, statistic).additive(schema)
    sums: Any = [Many(np.array([times * float(total)])) for total in form.total(data)]

    def number(leaf: Leaf) -> Floats:
        value: Any = leaf.value
        found = value.floats if isinstance(value, Many) else np.array([float(value)])
        return np.sqrt(np.maximum(found, 0.0)) if leaf.root else found

    return _arrays(render(form.answer(sums), number))[:, 0]


def _errors_of(drawn: Drawing, data: Data, count: int, seed: bytes, times: float) -> Json:
    assert drawn.errors_on is not None  # of every additive statistic
    return drawn.errors_on(data, count, seed, times)


def _signed(errors: Json) -> Floats:
    """Return sizes of noise as noise, every other one negative: shape (numbers, draws)."""
    sizes = _arrays(errors)
    return sizes * np.where(np.arange(sizes.shape[1]) % 2, 1.0, -1.0)


def _arrays(tree: Json) -> Floats:
    """Return the arrays of a tree, in their order."""
    found: list[Floats] = []

    def keep(each: Floats) -> Floats:
        found.append(each)
        return each

    changed_arrays(keep, tree)
    return np.array(found)


def _tree(shape: Json, numbers: Floats) -> Json:
    """Return a tree with other arrays, in their order."""
    left = iter(numbers)
    return changed_arrays(lambda _: next(left), shape)


def _between(column: NumberColumn, ends: Sequence[Fraction]) -> NumberColumn:
    """Return a column with the bounds that were drawn; an end at 0 is its own.

    Two equal ones are moved apart by a step, within the column's bounds.
    """
    kept = [end for end in (column.lower, column.upper) if end == 0] if len(ends) == 1 else []
    low, high = sorted([*ends, *kept])
    if low == high:
        step = Fraction(1) if column.whole else column.grid.step
        low, high = max(low - step, column.lower), min(high + step, column.upper)
    return replace(column, lower=low, upper=high)


def _narrow(schema: Schema, columns: Mapping[str, NumberColumn]) -> Schema:
    return replace(schema, columns={**schema.columns, **columns})


def _shown(columns: Mapping[str, NumberColumn]) -> Json:
    """Return bounds by column, ready for JSON: those of dates and moments as texts."""

    def end(column: NumberColumn, bound: Fraction) -> object:
        if column.timed is not None:
            return text_of(column.timed, int(bound))
        return int(bound) if bound.denominator == 1 else float(bound)

    return {
        name: {"lower": end(column, column.lower), "upper": end(column, column.upper)}
        for name, column in columns.items()
    }


@dataclass(frozen=True, slots=True, eq=False)
class ClampedData:
    """Private data whose values of some columns are clamped: it is read for sums, and by blocks.

    Nothing of it is remembered, as each draw has bounds of its own.
    """

    data: Data
    columns: Mapping[str, NumberColumn]

    @property
    def rows(self) -> int:
        """Return the true row count: private under add-remove."""
        return self.data.rows

    def gram(self, columns: Sequence[str]) -> list[list[int]]:
        """Return the exact Gram matrix of (1, sum codes of the named number columns)."""
        names = tuple(map(summed, columns))
        total = exact_gram([np.zeros(0, dtype=np.int64) for _ in columns], 0)
        for some in self.map(partial(_gram_of, names), names):
            total = total + some
        return [[int(entry) for entry in row] for row in total]

    def ordered(self, column: str) -> tuple[NDArray[np.integer[Any]], NDArray[np.int64]]:
        """Return a column's occupied cells; not of one that is clamped, which is read for sums."""
        assert column not in self.columns
        return self.data.ordered(column)

    def category_counts(self, column: str) -> NDArray[np.int64]:
        """Return how often each declared value of a category column occurs."""
        return self.data.category_counts(column)

    def blocks(self, columns: Sequence[str]) -> Iterator[Block]:
        """Yield blocks of rows in stored order."""
        return map(_Clamping(self.columns, tuple(columns)), self.data.blocks(self._read(columns)))

    def map(self, function: Callable[[Block], T], columns: Sequence[str], /) -> Iterator[T]:
        """Yield the function's result for each of the blocks."""
        clamping = _Clamping(self.columns, tuple(columns))
        return self.data.map(partial(_after, clamping, function), self._read(columns))

    def remembered(self, _key: Hashable, make: Callable[[], T], _size: Callable[[T], int], /) -> T:
        """Make the object."""
        return make()

    def _read(self, names: Sequence[str]) -> list[str]:
        """Return the stored arrays that these are made of."""
        read = (exact(own) if (own := column_named(n)) in self.columns else n for n in names)
        return list(dict.fromkeys(read))


@dataclass(frozen=True, slots=True)
class _Clamping:
    """Makes arrays of a block from its values: of some columns, from clamped ones."""

    columns: Mapping[str, NumberColumn]
    names: tuple[str, ...]

    def __call__(self, block: Block) -> Block:
        return {name: self._array(name, block) for name in self.names}

    def _array(self, name: str, block: Block) -> NDArray[Any]:
        column = self.columns.get(column_named(name))
        if column is None:
            return block[name]
        return array_of(name, column, column.clamped(block[exact(column_named(name))]))


def _after(clamping: _Clamping, function: Callable[[Block], T], block: Block) -> T:
    return function(clamping(block))


def _gram_of(names: Sequence[str], block: Block) -> NDArray[np.object_]:
    sum_codes = [block[name] for name in names]
    return exact_gram(sum_codes, len(sum_codes[0]))


__all__ = ["ClampedData", "PrivateClip", "StatedClip", "is_clipped", "plan_clipped"]
