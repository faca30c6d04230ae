"""Synthetic rows, and draws from them: made of a hash of public facts, never of data.

    x_ij = F_j^-1(u_ij),   F_j uniform, or normal and clamped, or by the shares of values,
    target: z = sqrt(R^2) s + sqrt(1 - R^2) e,   s the standardised sum of the features,

where SHAKE-256 of the public facts gives the u. In a numbered sample they are independent, so
samples vary like real ones: distances between neighbouring values, and so quantiles, are right on
average. In the sample without a number, which is shown, each column's u are (k + 1/2) / n,
k = 0 .. n - 1, in an order of its own. The same question makes the same rows and the same draws, so
repeating it reveals nothing more.

**Privacy.** A draw from a reproducible stream protects nothing, because anyone can compute the
stream. So only this module makes such a stream, and :func:`drawn` accepts only
:class:`SyntheticRows`. A release uses the operating system's bits (:mod:`mechanisms.randomness`).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from mechanisms.contract import Outcome, Plan, T
from mechanisms.domain import (
    CategoryColumn,
    Column,
    NumberColumn,
    Schema,
    Values,
    celled,
    coded,
    facts_of,
    is_presence,
    presence_of,
    presence_values,
    summed,
)
from mechanisms.estimates.assumptions import Assumptions, Factor, factors_of
from mechanisms.exact.floats import Floats
from mechanisms.geometry.laws import hashed_uniforms
from mechanisms.randomness import Randomness
from mechanisms.sketches import ArrayData, Ordered, distinct, exact_gram

# One hash serves many small draws.
_STREAM_BYTES = 4096

E = TypeVar("E", bound="np.generic[Any]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Relation:
    """A column that depends on others: what a regression would find."""

    target: str
    features: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SyntheticRows:
    """Rows of no real person: data to draw from in a simulation."""

    data: ArrayData
    seed: bytes


def synthetic_rows(
    schema: Schema,
    assumptions: Assumptions,
    count: int,
    relation: Relation | None,
    *,
    sample: int | None = None,
    together: float = 0.0,
) -> SyntheticRows:
    """Return ``count`` rows of the assumed population: a sample, or spread evenly without one.

    ``together`` is how much every two columns correlate, the target apart, by a Gaussian copula.
    """
    seed = _seed(schema, assumptions, relation)
    if sample is not None:
        # A stream for each sample and column: none depends on which is read first.
        seed += b"sample%d" % sample

    def uniforms_of(name: str) -> Floats:
        found = hashed_uniforms(seed + name.encode(), count)
        if together and (relation is None or name != relation.target):
            common = ndtri(hashed_uniforms(seed + b"together", count))
            found = ndtr(np.sqrt(together) * common + np.sqrt(1 - together) * ndtri(found))
        return found if sample is not None else _even(found)

    uniforms = _Made(schema.columns, uniforms_of)

    columns = schema.as_stored
    absent = {presence_of(name): share for name, share in assumptions.missing}

    def values_of(name: str) -> Values:
        if is_presence(name):  # of every record, or of the share that is assumed to have a value
            share = absent.get(name)
            return presence_values(uniforms_of(name) < share if share else None, count)
        if relation is not None and name == relation.target:
            return _related(relation, schema, assumptions, uniforms)
        return _values_of(name, schema.columns[name], uniforms[name], assumptions)

    values = _Made(columns, values_of)
    codes = _Made(columns, lambda name: coded(facts_of(columns, name), values[name]))
    data = _Remembering(columns=columns, codes=codes, values=values, count=count)
    return SyntheticRows(data, seed)


def drawn(plan: Plan, rows: SyntheticRows, turn: int) -> Outcome:
    """Return what a plan draws from synthetic rows; each turn has its own random bits."""
    # Never the bits of a release: anyone who knows the question can reproduce these.
    return plan.draw(rows.data, Randomness(_HashedBits(rows.seed + b"draw%d" % turn)))


def _seed(schema: Schema, assumptions: Assumptions, relation: Relation | None) -> bytes:
    facts = {
        "columns": {name: _form_of(column) for name, column in schema.columns.items()},
        "assume": assumptions.to_json(schema),
        "relation": None if relation is None else [relation.target, *relation.features],
    }
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).digest()


def _form_of(column: Column) -> str:
    """Return what is declared of a column, but for what is typical: that is an assumption."""
    return repr(replace(column, typical=None) if isinstance(column, NumberColumn) else column)


def _values_of(name: str, column: Column, uniforms: Floats, assumptions: Assumptions) -> Values:
    if isinstance(column, CategoryColumn):
        shares = assumptions.shares_of(name, column)
        if shares is None:
            return np.floor(uniforms * len(column.values)).astype(np.int32)
        ends = np.cumsum(shares)[:-1]
        return np.searchsorted(ends, uniforms, side="right").astype(np.int32)
    spread = assumptions.spread_of(name)
    low, width = float(column.lower), float(column.upper - column.lower)
    if column.boolean:
        share = 0.5 if spread is None else spread.mean
        # The larger u are the ones, so that a column rises with its u like all others.
        return column.clamped(np.where(uniforms > 1 - share, 1.0, 0.0))
    values = low + width * uniforms
    if spread is not None:
        values = spread.mean + spread.std * ndtri(uniforms)
    return column.clamped(np.rint(values) if column.whole else values)


def _related(
    relation: Relation,
    schema: Schema,
    assumptions: Assumptions,
    uniforms: Mapping[str, Floats],
) -> Values:
    """Return the target's values: the features' effect plus noise.

    Where the target has its own distribution, its values come from its own u, in that order.
    """
    name = relation.target
    column, spread = schema.columns[name], assumptions.spread_of(name)
    noise = ndtri(uniforms[name])
    share = assumptions.r_squared
    slopes = {each: slope for each, slope in assumptions.coefficients if each != name}
    if slopes and not isinstance(column, CategoryColumn) and not column.boolean:
        signal = _sum_of_values(slopes, schema, assumptions, uniforms)
        rest = float(np.std(signal)) * np.sqrt((1 - share) / share)
        centre = float(column.midpoint) if spread is None else spread.mean
        values = centre + signal - np.mean(signal) + rest * noise
        return column.clamped(np.rint(values) if column.whole else values)
    # A target without a scale of its own is put in the order of a latent variable.
    signal = _standardised(relation.features, uniforms)
    latent = np.sqrt(share) * signal + np.sqrt(1 - share) * noise
    return _values_of(name, column, _in_order(np.sort(uniforms[name]), latent), assumptions)


def _even(numbers: Floats) -> Floats:
    """Return numbers that are spread evenly over (0, 1), in the order of these."""
    return _in_order((np.arange(len(numbers)) + 0.5) / len(numbers), numbers)


def _in_order(ascending: Floats, numbers: Floats) -> Floats:
    """Return ascending numbers in the order of others."""
    placed = np.empty(len(numbers))
    placed[np.argsort(numbers, kind="stable")] = ascending
    return placed


def _standardised(features: Sequence[str], uniforms: Mapping[str, Floats]) -> Floats:
    total: Floats = sum((uniforms[name] - 0.5 for name in features), np.zeros(1))
    spread = float(np.std(total))
    # Features that do not vary explain nothing.
    return total / spread if spread > 0 else np.zeros(1)


def _sum_of_values(
    slopes: Mapping[str, float],
    schema: Schema,
    assumptions: Assumptions,
    uniforms: Mapping[str, Floats],
) -> Floats:
    total: Floats = np.zeros(1)
    for name, slope in slopes.items():
        product = np.full(1, slope)
        for factor in factors_of(name, schema) or ():
            product = product * _values(factor, schema, assumptions, uniforms)
        total = total + product
    return total


def _values(
    factor: Factor, schema: Schema, assumptions: Assumptions, uniforms: Mapping[str, Floats]
) -> Floats:
    column = schema.columns[factor.column]
    values = _values_of(factor.column, column, uniforms[factor.column], assumptions)
    if isinstance(column, CategoryColumn):
        return np.asarray(values == column.values.index(str(factor.value)), dtype=np.float64)
    return values.astype(np.float64)


@dataclass(frozen=True, slots=True)
class _Made(Mapping[str, NDArray[E]]):
    """Columns, each made when it is first read: a question reads few of all that there are."""

    names: Mapping[str, object]
    make: Callable[[str], NDArray[E]]
    made: dict[str, NDArray[E]] = field(default_factory=dict)

    def __getitem__(self, name: str) -> NDArray[E]:
        if name not in self.made:
            self.made[name] = self.make(name)
        return self.made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)


@dataclass(frozen=True)
class _Remembering(ArrayData):
    """Rows that are drawn from many times, with a cache of their sketches."""

    count: int = 0
    made: dict[Hashable, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Make no column before it is read: all have the same number of rows."""

    @property
    def rows(self) -> int:
        """Return how many rows there are."""
        return self.count

    def gram(self, columns: Sequence[str]) -> list[list[int]]:
        """Return the exact Gram matrix of (1, sum codes of the named number columns)."""

        def made() -> list[list[int]]:
            sum_codes = [self.array(summed(name)) for name in columns]
            found: list[list[int]] = exact_gram(sum_codes, self.count).tolist()
            return found

        return self.remembered(("gram", *columns), made, len)

    def ordered(self, column: str) -> Ordered:
        """Return a number column's occupied cells, ascending, and their counts."""
        return self.remembered(
            ("ordered", column), lambda: distinct(self.array(celled(column))), len
        )

    def category_counts(self, column: str) -> NDArray[np.int64]:
        """Return how often each declared value of a category column occurs."""
        facts = self.columns[column]
        assert isinstance(facts, CategoryColumn)  # the statistic has been checked
        return np.bincount(self.codes[column], minlength=len(facts.values)).astype(np.int64)

    def remembered(self, key: Hashable, make: Callable[[], T], _size: Callable[[T], int], /) -> T:
        """Return the cached object of this key, or make it."""
        if key not in self.made:
            self.made[key] = make()
        return cast(T, self.made[key])


class _HashedBits:
    """A stream of bits that its seed determines: for simulations, never for a release."""

    __slots__ = ("_buffer", "_left", "_seed", "_turn")

    def __init__(self, seed: bytes) -> None:
        self._seed = seed
        self._turn = 0
        self._buffer = 0
        self._left = 0

    def bits(self, count: int) -> int:
        """Return the next bits as an integer in [0, 2**count)."""
        if self._left < count:
            size = max(_STREAM_BYTES, (count + 7) // 8)
            stream = hashlib.shake_256(self._seed + b"bits%d" % self._turn).digest(size)
            self._turn += 1
            self._buffer, self._left = int.from_bytes(stream, "little"), 8 * size
        value = self._buffer & ((1 << count) - 1)
        self._buffer >>= count
        self._left -= count
        return value
