"""First and second moments of columns, as one integer vector.

*Coordinates*, with sum codes |a| <= F = ``SUM_MAX``, all in lattice units, never re-rounded:

- replace-one: ``F a_j``, ``2 a_j**2`` and, with cross products, ``a_j a_k``;
- add-remove, and wherever the count is private: ``F**2 N``, ``F a_j``, ``2 a_j**2 - F**2`` and
  ``a_j a_k``.

In scaled units (divided by F**2) a person moves each by at most 2, or 1 under
add-remove, where one record reaches a corner of that cube, so that
``Delta_p = m**(1/p)`` exactly (Proposition 3.3).

*Replace-one sensitivities.* One column is SS Example 3.1: Delta_1 = 3.125,
Delta_2 = sqrt(71 + 8 sqrt 2)/4. Without cross products columns move
independently, so Delta_1 and Delta_2**2 add up. With them the exact values are
non-convex problems; the hull lies inside the cylinders |u_jj| <= g(|u_j|),
|u_jk| <= min(2, 4 - |u_j| - |u_k|), g(u) = 2 up to u = 1, then 2 - 2(u - 1)**2,
where the concave ``sum |u_j| + g(|u_j|) + ...`` is largest at |u_j| = 1: Delta_1
<= p**2 + 2p. And Delta_2**2 <= p (71 + 8 sqrt 2)/16 + 4 p (p - 1)/2. Where only p of
the q columns have their squares included (a regression's target has not), the same
bounds are ``q**2 + 2p`` and ``p (71 + 8 sqrt 2)/16 + 4 (q - p) + 2 q (q - 1)``.

*A private count, and a record replaced, added or removed* (a filter under replace-one). The
differences are those of both kinds: those under replace-one leave the count as it is, and a centred
square moves as one that is not. Each l_p sensitivity is the larger of the two, which is that
of replace-one: 2 against 1; ``3.125 p + 2 (q - p) >= 1 + q + p`` for p >= 1, and 2 = 2 for one
column without its square; with products ``q**2 + 2p`` against ``1 + q + p + q (q - 1)/2``; and so
for Delta_2. The ball is that of :mod:`mechanisms.geometry.counted`. It lies inside the l_p balls:
at the count s its l1 norms reach ``|s| + (1 - c |s|) Delta_1``, largest at s = 0 since
c Delta_1 >= 1, and the squares of l2 norms ``s**2 + (1 - c |s|)**2 Delta_2**2``, convex in |s|
and no larger at 1 than at 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Protocol, runtime_checkable

from mechanisms.contract import Data, Json
from mechanisms.domain import SUM_MAX, NumberColumn, Schema
from mechanisms.exact.floats import Many, at_least, clamped
from mechanisms.exact.fractions import once
from mechanisms.geometry.counted import PRODUCTS, SQUARES, SUMS, CountedBall
from mechanisms.geometry.cuts import add_remove_ball, replace_one_ball
from mechanisms.geometry.joint_moments import JointMomentBall
from mechanisms.geometry.second_moments import SecondMomentBall
from mechanisms.geometry.smooth import SmoothBall
from mechanisms.geometry.spaces import AdjacentOutputSpace, StackedBall, cube_space, upper_root
from mechanisms.privacy import Adjacency
from mechanisms.statistics.additive import Coordinates, Tree, public_rows

UNIT = SUM_MAX**2
JOINT_UNIT = "records and squared half-widths of the columns' bounds"
_ONE_COLUMN_L1 = Fraction(25, 8)
_ONE_COLUMN_L2_SQUARED = (71 + 8 * upper_root(Fraction(2))) / 16


@dataclass(frozen=True, slots=True)
class Jet:
    """A number made of the coordinates, with its slopes in them: first-order arithmetic."""

    value: Fraction
    slopes: Mapping[int, Fraction]

    def __add__(self, other: Jet) -> Jet:
        slopes = dict(self.slopes)
        for i, slope in other.slopes.items():
            slopes[i] = slopes[i] + slope if i in slopes else slope
        return Jet(self.value + other.value, slopes)

    def __mul__(self, other: Jet) -> Jet:
        mine, theirs = self.slopes, other.slopes
        slopes = {i: slope * other.value for i, slope in mine.items()}
        for i, slope in theirs.items():
            slopes[i] = slopes[i] + slope * self.value if i in slopes else slope * self.value
        return Jet(self.value * other.value, slopes)

    def scaled(self, factor: Fraction) -> Jet:
        """Return this number times a constant."""
        return Jet(self.value * factor, {i: slope * factor for i, slope in self.slopes.items()})

    def shifted(self, offset: Fraction) -> Jet:
        """Return this number plus a constant."""
        return Jet(self.value + offset, self.slopes)

    def clamped(self, low: Fraction, high: Fraction) -> Jet:
        """Return the number clamped to [low, high], with the same slopes."""
        return Jet(clamped(self.value, low, high), self.slopes)


class MomentReader(Protocol):
    """Reads the moments of its columns from noisy coordinates; see :class:`Layout`."""

    @property
    def names(self) -> tuple[str, ...]: ...

    @property
    def rows(self) -> int | None: ...

    @property
    def pairs(self) -> tuple[tuple[int, int], ...]:
        """Return the column pairs (j, k), j <= k."""

    def mean(self, coordinates: Coordinates, j: int) -> Jet:
        """Return the mean of a_j / F."""

    def product(self, coordinates: Coordinates, j: int, k: int) -> Jet:
        """Return the mean of a_j a_k / F**2."""

    def sums(self, coordinates: Coordinates) -> dict[tuple[int, int], Jet]:
        """Return the sums of products of (1, a_1 / F, ...), by their places (i, j), i <= j."""


@runtime_checkable
class MomentStatistic(Protocol):
    """A statistic that the first and second moments of its columns determine.

    It is drawn from them, or derived from a release of ``moments`` for free.
    """

    def moment_columns(self, schema: Schema, /) -> tuple[str, ...] | None:
        """Return the columns whose moments determine it; None where none do."""

    def from_moments(
        self, reader: MomentReader, numbers: Sequence[NumberColumn], coordinates: Coordinates, /
    ) -> Tree:
        """Return the answer made of the noisy moments of those columns, in their order."""


@runtime_checkable
class MomentSource(Protocol):
    """A statistic whose answers are moments: others are derived from them."""

    @property
    def columns(self) -> tuple[str, ...]: ...

    def layout(self, schema: Schema, /) -> Layout:
        """Return the coordinates of the released vector."""

    def read_back(self, value: Json, schema: Schema, /) -> list[Fraction]:
        """Return the noisy vector that released moments were made of."""


@dataclass(frozen=True)
class Layout:
    """Where the moments of ``names`` sit in the vector, and how to read them.

    Attributes
    ----------
    cross
        Whether products of different columns are included.
    rows
        The public row count, or None where the count is private and released jointly.
    squared
        How many columns, from the first on, have their squares included; None for all.
    replaced
        Whether a record may be replaced where the count is private, and not only added or removed.
    """

    names: tuple[str, ...]
    cross: bool
    rows: int | None
    squared: int | None = None
    replaced: bool = False

    @classmethod
    def of(
        cls, names: tuple[str, ...], schema: Schema, *, cross: bool, squared: int | None = None
    ) -> Layout:
        """Return the layout of moments of these columns by the schema's public facts.

        Raises
        ------
        InvalidStatisticError
            The row count is public and zero.
        """
        replaced = schema.adjacency is Adjacency.REPLACE_ONE
        return cls(names, cross, public_rows(schema), squared, replaced)

    @once
    def pairs(self) -> tuple[tuple[int, int], ...]:
        """Return the column pairs (j, k), j <= k, in the vector's order."""
        size, squares = range(len(self.names)), self._squares
        return tuple(
            (j, k) for j in size for k in size if (j == k and j < squares) or (self.cross and j < k)
        )

    @once
    def places(self) -> Mapping[tuple[int, int], int]:
        """Return each pair's place in the vector."""
        start = self._first + len(self.names)
        return {pair: start + index for index, pair in enumerate(self.pairs)}

    @property
    def dimension(self) -> int:
        """Return m."""
        return self._first + len(self.names) + len(self.pairs)

    @property
    def _first(self) -> int:
        return 1 if self.rows is None else 0

    @property
    def _squares(self) -> int:
        return len(self.names) if self.squared is None else self.squared

    def total(self, data: Data) -> list[int]:
        """Return the exact vector, in lattice units, from the Gram matrix of codes."""
        gram = data.gram(self.names)
        count = UNIT * gram[0][0]
        joint = self.rows is None
        vector = [count] if joint else []
        vector += [SUM_MAX * total for total in gram[0][1:]]
        for j, k in self.pairs:
            product = gram[1 + j][1 + k]
            # With a private count squares are centred, 2 a**2 - F**2, so that a record moves them
            # by F**2.
            square = 2 * product - (gram[0][0] * UNIT if joint else 0)
            vector.append(square if j == k else product)
        return vector

    def sums(self, coordinates: Coordinates) -> dict[tuple[int, int], Jet]:
        """Return the sums of products of (1, a_1 / F, ...), by their places (i, j), i <= j.

        Linear in the coordinates; a square that is not included is left out.
        """
        unit = Fraction(1, UNIT)

        def read(index: int) -> Jet:
            return Jet(coordinates[index] * unit, {index: unit})

        count = Jet(Fraction(self.rows), {}) if self.rows is not None else read(0)
        half = Fraction(1, 2)
        found = {(0, 0): count}
        for j in range(len(self.names)):
            found[0, 1 + j] = read(self._first + j)
        for (j, k), place in self.places.items():
            product = read(place)
            if j == k:
                product = (product if self.rows is not None else product + count).scaled(half)
            found[1 + j, 1 + k] = product
        return found

    def mean(self, coordinates: Coordinates, j: int) -> Jet:
        """Return the mean of a_j / F, within [-1, 1] where the count is noisy."""
        return self._share(coordinates, self._first + j)

    def product(self, coordinates: Coordinates, j: int, k: int) -> Jet:
        """Return the mean of a_j a_k / F**2."""
        share = self._share(coordinates, self.places[min(j, k), max(j, k)])
        if j != k:
            return share
        half = share.scaled(Fraction(1, 2))
        return half if self.rows is not None else half.shifted(Fraction(1, 2))

    def _share(self, coordinates: Coordinates, index: int) -> Jet:
        """Return a coordinate divided by F**2 times the public or the noisy count."""
        if self.rows is not None:
            slope = Fraction(1, UNIT * self.rows)
            share = coordinates[index] * slope
            return Jet(share, {} if isinstance(share, Many) else {index: slope})
        # A noisy count below one record would turn shares over or blow them up.
        records = at_least(coordinates[0], Fraction(UNIT))
        share = clamped(coordinates[index] / records, Fraction(-1), Fraction(1))
        if isinstance(share, Many):  # whose noise is simulated and not described
            return Jet(share, {})
        return Jet(share, {0: -share / records, index: 1 / records})

    def corner(self, rows: int) -> Coordinates:
        """Return the vector of ``rows`` records that all sit on their upper bounds."""
        # Of a record there a square is 2 F**2, or 2 F**2 - F**2 where it is centred.
        sizes = [1] * (self._first + len(self.names))
        sizes += [2 if j == k and self.rows is not None else 1 for j, k in self.pairs]
        return [Fraction(size * UNIT * max(rows, 1)) for size in sizes]

    def spread_evenly(self, rows: int) -> Coordinates:
        """Return the vector of ``rows`` records on uncorrelated columns, even over their bounds.

        Their codes then average 0, and their squared codes F**2 / 3.
        """
        # Twice a third, less 1 where squares are centred.
        square = Fraction(2, 3) if self.rows is not None else Fraction(-1, 3)
        sizes = [Fraction(1)] * self._first + [Fraction(0)] * len(self.names)
        sizes += [square if j == k else Fraction(0) for j, k in self.pairs]
        return [size * UNIT * max(rows, 1) for size in sizes]

    def space(self) -> AdjacentOutputSpace:
        """Return the adjacent output space."""
        if self.rows is not None:
            return self._replace_space()
        return self._any_change_space() if self.replaced else self._joint_space()

    def _replace_space(self) -> AdjacentOutputSpace:
        q, p = len(self.names), self._squares
        mixed = self.cross and q > 1
        text = f"sqrt({p}*(71+8*sqrt(2)))/4" if p > 1 else "sqrt(71+8*sqrt(2))/4"
        # 4 for each product, and for the sum of each column without its square
        others = (2 * q * (q - 1) if mixed else 0) + 4 * (q - p)
        if others:
            text = f"sqrt({p}*(71+8*sqrt(2))/16+{others})" if p else ""
        return AdjacentOutputSpace(
            dimension=self.dimension,
            l1=Fraction(q * q + 2 * p) if mixed else p * _ONE_COLUMN_L1 + 2 * (q - p),
            linf=Fraction(2),
            l2_squared=p * _ONE_COLUMN_L2_SQUARED + others,
            l2_text=text,
            bounds_only=frozenset({"l1", "l2"}) if mixed else frozenset(),
            hull="other",
            norm_ball=self._replace_ball(),
            description=(
                "inside |u_jj| <= 2 (2 - 2(|u_j|-1)^2 beyond |u_j| = 1)"
                + (", |u_jk| <= min(2, 4 - |u_j| - |u_k|)" if mixed else "")
            ),
            negligible_structure=False,
            unit=UNIT,
            unit_name="squared half-widths of the columns' bounds",
            outline=_lens() if q == p == 1 else (),
        )

    def _replace_ball(self) -> SmoothBall:
        """Return K_T, cut where it pays, or without products the hull: a K_2 for each column."""
        p = len(self.names)
        if self.cross or p == 1:
            return replace_one_ball(SecondMomentBall(effects=p, pairs=self.pairs))
        one = SecondMomentBall(effects=1, pairs=((0, 0),))
        order = tuple(place for j in range(p) for place in (j, p + j))
        return StackedBall(parts=(one,) * p, order=order, hull=True)

    def _any_change_space(self) -> AdjacentOutputSpace:
        products = any(j < k for j, k in self.pairs)
        taper = PRODUCTS if products else SQUARES if self.pairs else SUMS
        ball = CountedBall(self._replace_ball(), taper, hull=not self.pairs)
        return replace(
            self._replace_space(),
            norm_ball=ball,
            description=(
                "plus or minus (1, x_j, 2 x_j^2 - 1, x_j x_k) of one record, and what replacing "
                "one does to the rest while the count stays"
            ),
            unit_name=JOINT_UNIT,
            outline=(),
        )

    def _joint_space(self) -> AdjacentOutputSpace:
        if not self.pairs:  # a regression on an intercept alone: each sum moves as it likes
            return cube_space(
                self.dimension,
                half_width=Fraction(1),
                unit=UNIT,
                unit_name=JOINT_UNIT,
                description="a cube: plus or minus (1, x_j) of one record",
            )
        return AdjacentOutputSpace(
            dimension=self.dimension,
            l1=Fraction(self.dimension),
            linf=Fraction(1),
            l2_squared=Fraction(self.dimension),
            hull="other",
            norm_ball=add_remove_ball(JointMomentBall(effects=len(self.names), pairs=self.pairs)),
            description="plus or minus (1, x_j, 2 x_j^2 - 1, x_j x_k) of one record",
            negligible_structure=False,
            unit=UNIT,
            unit_name=JOINT_UNIT,
        )


def _lens() -> tuple[tuple[float, float], ...]:
    """Return the boundary of SS Example 3.1's S_T: ``|u_2| <= 2 - 2 (1 - |u_1|)**2``."""
    right = [step / 40 for step in range(81)]
    upper = [(u, 2 - 2 * (1 - u) ** 2) for u in right]
    lower = [(u, -w) for u, w in reversed(upper)]
    return (*upper, *lower, *((-u, w) for u, w in upper), *((-u, w) for u, w in lower))


@dataclass(frozen=True)
class Selection:
    """Some columns of a layout, in an order of their own, read from the layout's coordinates.

    ``order`` holds each column's place in ``layout.names``.
    """

    layout: Layout
    order: tuple[int, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of the columns."""
        return tuple(self.layout.names[place] for place in self.order)

    @property
    def rows(self) -> int | None:
        """Return the public row count, if it is."""
        return self.layout.rows

    @once
    def pairs(self) -> tuple[tuple[int, int], ...]:
        """Return all pairs (j, k), j <= k."""
        size = range(len(self.order))
        return tuple((j, k) for j in size for k in size if j <= k)

    def mean(self, coordinates: Coordinates, j: int) -> Jet:
        """Return the mean of a_j / F."""
        return self.layout.mean(coordinates, self.order[j])

    def product(self, coordinates: Coordinates, j: int, k: int) -> Jet:
        """Return the mean of a_j a_k / F**2."""
        return self.layout.product(coordinates, self.order[j], self.order[k])

    def sums(self, coordinates: Coordinates) -> dict[tuple[int, int], Jet]:
        """Return the sums of products of (1, a_1 / F, ...), as ``Layout.sums`` does."""
        found = self.layout.sums(coordinates)
        places = (0, *(1 + place for place in self.order))
        size = range(len(places))
        return {
            (i, j): found[min(places[i], places[j]), max(places[i], places[j])]
            for i in size
            for j in size
            if i <= j
        }


def covariance_error(one: NumberColumn, two: NumberColumn) -> Fraction:
    """Return by how much a covariance of sum codes differs from that of values at most.

    With u = u' + e and v = v' + f, ``cov(u, v) - cov(u', v') = cov(u', f) + cov(e, v)``, and no
    covariance exceeds the product of the largest distances from any fixed centres.
    """
    return (one.half_width + one.sum_error) * two.sum_error + two.half_width * one.sum_error


def public_or_joint_details(layout: Layout, *, linear: bool) -> dict[str, object]:
    """Return the answer's sentence about its noise description."""
    details: dict[str, object] = {"columns": list(layout.names)}
    if not linear:
        details["noise"] = (
            "not linear in the noise: to first order, and wider than 95% where the noise is as "
            "large as the number itself; sampling error is not in it; in a preview, with every "
            "record on its upper bound, where it is widest"
        )
    return details
