"""Additive statistics: integer vectors that sum one contribution per record.

    T(X) = sum_i t(x_i),   t(x) in Z^m,

exact at any row count. A mechanism adds an integer vector; everything after
that is post-processing in exact fractions, turned into floats at the very end.

*Conventions.* A sum code a in [-F, F], F = ``SUM_MAX``, stands for the value ``M + H a / F``, H the
``sum_half_width`` (see :mod:`mechanisms.domain`). *Coordinates* are the entries of T in lattice
units; after the noise they are fractions, since the lattice may have been refined.
An *answer* is a tree of dicts and lists whose numbers are :class:`Leaf`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from math import pi, sqrt
from typing import Protocol, TypeVar, runtime_checkable

from mechanisms.contract import Data, InvalidStatisticError, Json, Noise, Statistic
from mechanisms.domain import Schema
from mechanisms.geometry.cuts import combination_factor
from mechanisms.geometry.smooth import NoiseLaw
from mechanisms.geometry.spaces import AdjacentOutputSpace
from mechanisms.statistics.cells.parting import Parting

ADVICE: Mapping[str, str] = {
    "k_norm": "A release is pure epsilon-DP. In accounts with a delta its noise is mostly larger.",
    "gaussian": "In accounts with a delta: the smaller noise at the same charge, but for a "
    "histogram of two cells whose sum is public.",
}
"""Of a noisy sum: when each of its mechanisms serves better."""

Coordinates = Sequence[Fraction]
Slopes = Mapping[int, Fraction]
Correlation = Callable[[int, int], float]
Made = TypeVar("Made")

_NORMAL_SIZE = sqrt(2 / pi)
"""The mean size of a standard normal variable."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaf:
    """One number of an answer.

    Attributes
    ----------
    value
        The exact number.
    slopes
        Coordinate to d value / d coordinate, for the noise description.
    limits
        Public bounds the number was clamped to, if any.
    rounding
        By how much the number differs at most from that of values, as it is made of sum codes;
        to first order where it is not linear.
    whole
        The number is an integer when the lattice is the integers.
    root
        The number is the square root of all this: of the value, which is 0 or more, and of both
        ends of its interval, which then hold it as often as they hold the value.
    """

    value: Fraction
    slopes: Slopes
    limits: tuple[Fraction, Fraction] | None = None
    rounding: Fraction = Fraction(0)
    whole: bool = False
    root: bool = False

    def number(self) -> float | int:
        """Return the number for JSON."""
        if self.root:
            return sqrt(self.value)
        return int(self.value) if self.whole and self.value.denominator == 1 else float(self.value)


Tree = Leaf | str | Mapping[str, "Tree"] | Sequence["Tree"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AdditiveForm:
    """An additive statistic on one schema: its geometry, its sum, and what is made of it.

    Attributes
    ----------
    space
        The adjacent output space.
    total
        T(X), in lattice units. The only member that sees data.
    answer
        The answer made of (noisy) coordinates; defined for every vector.
    reference
        Coordinates at which a preview reads the slopes of ``answer``, given an
        assumed row count; None where a row count is needed and was not given.
    grid
        The public steps of the answer, given the step of a coordinate.
    details
        Public facts that the answer should carry.
    noise_size
        As how many single coordinates the noise counts when the time of a draw is reckoned.
    columns_read
        How many columns a draw reads row by row; 0 where the sketches hold the sum.
    linear
        Whether all answers have the same numbers with the same slopes and limits.
    """

    space: AdjacentOutputSpace
    total: Callable[[Data], list[int]]
    answer: Callable[[Coordinates], Tree]
    reference: Callable[[int | None], Coordinates | None]
    grid: Callable[[Fraction], Json]
    details: Json
    noise_size: int
    columns_read: int = 0
    linear: bool = False


@runtime_checkable
class AdditiveStatistic(Statistic, Protocol):
    """A statistic that k-norm noise can be added to."""

    def additive(self, schema: Schema) -> AdditiveForm:
        """Return the statistic's form on this schema; the statistic has been checked."""


@runtime_checkable
class GroupedAdditive(Protocol):
    """An additive statistic whose answers for all groups may be one vector."""

    def additive_in_groups(self, parting: Parting, schema: Schema) -> AdditiveForm | None:
        """Return the numbers of all groups as one vector; None where they are drawn apart."""


def constant_slopes(dimension: int) -> Callable[[int | None], Coordinates]:
    """Return the reference of an answer whose slopes are the same everywhere."""
    zeros = (Fraction(0),) * dimension
    return lambda _rows: zeros


def render(tree: Tree, number: Callable[[Leaf], Made]) -> dict[str, object]:
    """Return the tree as JSON with each leaf replaced by ``number(leaf)``."""

    def walk(node: Tree) -> object:
        if isinstance(node, Leaf):
            return number(node)
        if isinstance(node, str):
            return node
        if isinstance(node, Mapping):
            return {key: walk(child) for key, child in node.items()}
        return [walk(child) for child in node]

    if not isinstance(tree, Mapping):
        raise TypeError("an answer is a mapping")
    return {key: walk(child) for key, child in tree.items()}


def describe_noise(
    tree: Tree,
    laws: Sequence[NoiseLaw],
    unit: Fraction,
    *,
    centred: bool,
    correlation: Correlation = lambda _one, _other: 0.0,
) -> Noise:
    """Return the noise of every leaf, given the law of each coordinate in these units.

    A leaf's ``rounding`` is added to all three, of which it is no part by itself.
    A leaf that reads one coordinate has that coordinate's law. One that reads
    several has the standard deviation of the combination and the interval of
    :mod:`mechanisms.geometry.cuts`. A ratio or a square is taken to first order.
    A number clamped to limits has a standard deviation of at most half their width.
    Of a root see :func:`root_std`; in a preview its interval is as wide as it can get, since
    ``|sqrt(v) - sqrt(w)| <= sqrt(|v - w|)``.

    Parameters
    ----------
    centred : bool
        Whether intervals surround the released number (else zero, in a preview).
    correlation : callable
        The correlation of two coordinates, zero under most balls.
    """
    return noise_describer(tree, laws, unit, correlation=correlation)(tree, centred=centred)


def noise_describer(
    tree: Tree, laws: Sequence[NoiseLaw], unit: Fraction, *, correlation: Correlation
) -> Callable[..., Noise]:
    """Return a function that describes the noise of trees with the slopes of this one.

    The answers of a linear form differ in their values alone, so the expensive part
    runs once.
    """
    spreads: list[NoiseLaw] = []
    known: dict[int, NoiseLaw] = {}

    def spread(leaf: Leaf) -> None:
        # Both halves of a matrix hold the same leaves.
        if id(leaf) not in known:
            known[id(leaf)] = _spread(leaf, laws, unit, correlation)
        spreads.append(known[id(leaf)])

    render(tree, spread)
    std = render(tree, _in_turn([spread.std for spread in spreads]))
    size = render(tree, _in_turn([spread.mean_size for spread in spreads]))
    halves = [spread.half_width_95 for spread in spreads]

    def describe(tree: Tree, *, centred: bool = True) -> Noise:
        half = iter(halves)
        interval = _interval if centred else _interval_of_zero
        ends = render(tree, lambda leaf: interval(leaf, next(half)))
        return Noise(std=std, interval_95=ends, expected_error=size)

    return describe


def _in_turn(spreads: Sequence[float]) -> Callable[[Leaf], float]:
    """Return each leaf's standard deviation, or mean size, in turn: the root's where it is one."""
    rest = iter(spreads)
    return lambda leaf: _root_std(leaf, next(rest)) if leaf.root else next(rest)


def _root_std(leaf: Leaf, std: float) -> float:
    most = None if leaf.limits is None else sqrt(leaf.limits[1])
    return root_std(float(leaf.value), std, most=most)


def root_std(value: float, std: float, *, most: float | None) -> float:
    """Return the standard deviation of the square root of a number with this one.

    To first order, ``std / (2 sqrt(value))``, and never more than ``sqrt(std)``, which bounds the
    root of the mean squared error whatever the law: ``|sqrt(v) - sqrt(w)|**2 <= |v - w|``. A root
    that is at most ``most`` has one of at most half of that.
    """
    bounds = [sqrt(std)]
    if value > 0:
        bounds.append(std / (2 * sqrt(value)))
    if most is not None:
        bounds.append(most / 2)
    return min(bounds)


def _interval(leaf: Leaf, half: float) -> list[float]:
    number = float(leaf.value) if leaf.root else leaf.number()
    low, high = number - half, number + half
    if leaf.limits is not None:
        low, high = max(low, float(leaf.limits[0])), min(high, float(leaf.limits[1]))
    return [sqrt(low), sqrt(high)] if leaf.root else [low, high]


def _interval_of_zero(leaf: Leaf, half: float) -> list[float]:
    widest = sqrt(half) if leaf.root else half
    return [0.0 - widest, widest]


def _spread(
    leaf: Leaf, laws: Sequence[NoiseLaw], unit: Fraction, correlation: Correlation
) -> NoiseLaw:
    """Return the law of a number's noise."""
    parts = {at: float(slope * unit) for at, slope in leaf.slopes.items()}
    if len(parts) == 1:
        ((at, slope),) = parts.items()
        law, size = laws[at], abs(slope)
        spread = NoiseLaw(size * law.std, size * law.half_width_95, size * law.mean_size)
    else:
        spread = _combined(parts, laws, correlation)
    if leaf.rounding:
        off = float(leaf.rounding)
        spread = NoiseLaw(spread.std + off, spread.half_width_95 + off, spread.mean_size + off)
    if leaf.limits is None:
        return spread
    width = float(leaf.limits[1] - leaf.limits[0])
    return NoiseLaw(
        min(spread.std, width / 2),
        min(spread.half_width_95, width),
        min(spread.mean_size, width / 2),
    )


def _combined(
    slopes: Mapping[int, float],
    laws: Sequence[NoiseLaw],
    correlation: Correlation,
) -> NoiseLaw:
    """Return the law of a combination of coordinates.

    Its mean size lies between that of the coordinate that weighs most, for a combination of that
    alone, and a normal variable's, by the others' share of the variance.
    """
    sizes = {at: abs(slope) * laws[at].std for at, slope in slopes.items()}
    at = max(sizes, key=sizes.__getitem__, default=None)
    if at is None or sizes[at] == 0:
        return NoiseLaw(0.0, 0.0, 0.0)
    largest = sizes[at]
    # Divided by the largest, or the squares of huge slopes would leave the floats.
    signed = {at: slope * laws[at].std / largest for at, slope in slopes.items()}
    square = sum(size**2 for size in signed.values()) + 2 * sum(
        correlation(one, other) * signed[one] * signed[other]
        for one, other in combinations(signed, 2)
    )
    # Opposite correlated coordinates may cancel, and rounding then leave less than nothing.
    std = largest * sqrt(max(square, 0.0))
    if std == 0:
        return NoiseLaw(0.0, 0.0, 0.0)
    law, alone = laws[at], min(largest / std, 1.0) ** 2
    half = std * combination_factor(len(laws), law.half_width_95 / law.std, largest / std)
    size = alone * law.mean_size / law.std + (1 - alone) * _NORMAL_SIZE
    return NoiseLaw(std, half, std * size)


def public_rows(schema: Schema) -> int | None:
    """Return the row count where it is public, which must not be zero; None where it is private."""
    if schema.known_rows == 0:
        raise InvalidStatisticError("the data set has no rows")
    return schema.known_rows
