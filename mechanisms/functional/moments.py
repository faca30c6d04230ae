"""T(X): the moments that the functional mechanism sanitizes, as an exact integer vector.

*T with an intercept*, in codes |a| <= F, for p features and the target, all in lattice units:

- replace-one: the sums of ``F a_j`` and ``F b``, of ``2 a_j**2``, and of ``a_j a_k`` and ``a_j b``:
  m = (p + 1)(p + 2)/2 - 1 + p + 1 entries. A record moves each by at most Delta_inf = 2 F**2,
  a square twice itself for just that reason (it moves by F**2 only), and there is no need for the
  target's square. Delta_1 and Delta_2 are those of :mod:`mechanisms.statistics.second_order`.
- add-remove: the count is private and released with the sums, ``F**2 N`` next to
  ``2 a_j**2 - F**2``: Delta_inf = F**2, and one record reaches a corner of that cube.
- a filter under replace-one: the same T, with the sensitivities of replace-one.

The norm "optimal" is that of K_T (SS 6.1), under add-remove of the ball in
:mod:`mechanisms.geometry.joint_moments`, and under a filter of that in
:mod:`mechanisms.geometry.counted`, all without the target's square: Delta_K = 1.

A boolean has no square: its codes are -F and F, so that ``a**2 = F**2`` is the count's.

*T by cells* (:mod:`mechanisms.statistics.designs.cells`). The columns of a design are 0, 1 or one
of few effects in each cell of some categories and booleans. T holds for each cell the joint moments
of its effects and the target, its count included: F**2 N_g, F a_j, 2 a_j**2 - F**2, a_j a_k, summed
over the records of the cell. X'X and X'y are sums over cells of those, exactly, as a column that
is 0 or 1 there is public. One record adds (1, x_j, 2 x_j**2 - 1, x_j x_k) to the block of its cell
and 0 to the others, so the space is that of :mod:`mechanisms.geometry.spaces`: Delta = 1 in the
norm ``sum_g ||u_g||``, or twice its ball where a record is replaced. With b the longest block's
length Delta_inf = 1, Delta_1 = b and Delta_2 = sqrt(b) under add-remove, and at most twice that
under replace-one.

*T without an intercept.* A column is divided by its extent, c / C with integers c, C and
|c| <= C (:mod:`mechanisms.statistics.designs.scaling`), and T holds the sums of c_j c_k and c_j c_y
only: neither sums nor a count. A product's reach D_jk is the length of its range over the
columns' bounds (replace-one), 0 included where the record may also come or go (a filter), or its
largest size (add-remove); entries get integer weights ``D // D_jk``, D a common multiple, so that
Delta_inf = D for all of them. Delta_1 <= m D and Delta_2 <= sqrt(m) D, attained under add-remove,
and where no lower bound is negative.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from math import lcm

from mechanisms.contract import Data, InvalidStatisticError
from mechanisms.domain import SUM_MAX, Schema
from mechanisms.exact.floats import Floats
from mechanisms.functional.sanitized import SanitizedEquations
from mechanisms.geometry.counted import Cube
from mechanisms.geometry.cuts import add_remove_ball
from mechanisms.geometry.joint_moments import JointMomentBall
from mechanisms.geometry.spaces import AdjacentOutputSpace, JoinedBall
from mechanisms.privacy import Adjacency
from mechanisms.statistics.additive import Coordinates, public_rows
from mechanisms.statistics.designs.cells import Cells, Form, Shape, shapes_of
from mechanisms.statistics.designs.scaling import Placed, RegressionScaling, sum_of_products
from mechanisms.statistics.moments import MAX_COLUMNS
from mechanisms.statistics.second_order import JOINT_UNIT, UNIT, Jet, Layout
from mechanisms.statistics.weights import Weights, weighted_data, weighted_parts

# As for sums: beyond _MOST_BITS bits the weights share a D that overstates no reach
# by more than one part in 2**100, not the least common multiple.
_MOST_BITS = 256
_EVEN = 1000  # records of each cell, of which a design's usual X'X is made
_SLACK_BITS = 100  # a shared reach then overstates no sensitivity by more than 2**-100


@dataclass(frozen=True, slots=True, kw_only=True)
class RegressionMoments:
    """T of one regression: its geometry, its exact sum, and the equations made of it.

    ``reference`` is T of records spread evenly over their bounds, given their (assumed) count;
    None where a count is needed and was not given. ``split`` names the columns whose values make
    cells.
    """

    space: AdjacentOutputSpace
    total: Callable[[Data], list[int]]
    equations: Callable[[Coordinates], SanitizedEquations]
    reference: Callable[[int | None], Coordinates | None]
    split: tuple[str, ...] = ()


def regression_moments(
    scaling: RegressionScaling, schema: Schema, *, squared: bool = False
) -> RegressionMoments:
    """Return T of a regression under the schema's adjacency.

    ``squared`` asks for the target's square, as standard errors need it: by cells only.
    """
    if len(scaling.columns) > MAX_COLUMNS:
        raise InvalidStatisticError(
            f"functional takes at most {MAX_COLUMNS} columns, the target included; "
            "use objective_perturbation",
            field_name="features",
        )
    names = tuple(column.name for column in scaling.features)
    cells = Cells.chosen(names, schema)
    if not scaling.intercept and not _worth_cells(cells, len(names)):
        return _products(scaling, schema)
    return _by_cells(scaling, schema, cells, squared=squared)


def weighted_moments(
    moments: RegressionMoments, weights: Weights, *, rows: int | None
) -> RegressionMoments:
    """Return T of records that count by weights, F times as fine.

    ``moments`` are those of records that may come or go, ``rows`` how many there are where that is
    public; see :mod:`mechanisms.statistics.weights`.
    """
    return replace(
        moments,
        space=replace(moments.space, unit=SUM_MAX * moments.space.unit),
        total=lambda data: moments.total(weighted_data(data, weights)),
        reference=lambda assumed: moments.reference(assumed if rows is None else rows),
    )


# Moments by cells


@dataclass(frozen=True, slots=True)
class _Block:
    """The moments of a cell, and where they begin."""

    shape: Shape
    layout: Layout
    start: int

    @property
    def end(self) -> int:
        """Return where they end."""
        return self.start + self.layout.dimension

    @property
    def is_squared(self) -> bool:
        """Return whether the target's square is among them."""
        last = len(self.layout.names) - 1
        return (last, last) in self.layout.places

    def sums(self, coordinates: Coordinates) -> dict[tuple[int, int], Jet]:
        """Return the sums of products of (1, effects, target), with slopes in all coordinates."""
        own = self.layout.sums(coordinates[self.start : self.end])
        found = {
            places: Jet(jet.value, {self.start + at: slope for at, slope in jet.slopes.items()})
            for places, jet in own.items()
        }
        for place in range(1, len(self.layout.names)):
            # Of what is left out the square is 1 in scaled units: -1 or 1 are its only codes.
            found.setdefault((place, place), found[0, 0])
        return found


def _worth_cells(cells: Cells, features: int) -> bool:
    """Return whether cells say more than weighted products do, which need no intercept."""
    products = features * (features + 1) // 2 + features
    return cells.placing is not None and cells.spread < 1 + products


def _by_cells(
    scaling: RegressionScaling, schema: Schema, cells: Cells, *, squared: bool
) -> RegressionMoments:
    """Return T of a design by its cells."""
    rows, blocks, start = public_rows(schema), [], 0
    for shape in shapes_of(cells, scaling, schema):
        if cells.placing is None:
            layout = Layout.of(shape.columns, schema, cross=True, squared=shape.numbers)
        else:  # how many records of all are in a cell is private
            layout = Layout(
                shape.columns, cross=True, rows=None, squared=None if squared else shape.numbers
            )
        blocks.append(_Block(shape, layout, start))
        start = blocks[-1].end

    def total(data: Data) -> list[int]:
        if cells.placing is None:
            return blocks[0].layout.total(data)
        parts = weighted_parts(data, cells.placing)
        totals = (block.layout.total(part) for block, part in zip(blocks, parts, strict=True))
        return [entry for some in totals for entry in some]

    def even(count: int) -> Coordinates:
        own = count // len(blocks)
        return [entry for block in blocks for entry in block.layout.spread_evenly(own)]

    def made(coordinates: Coordinates) -> SanitizedEquations:
        return _equations(blocks, coordinates)

    @cache  # it takes as long as the equations themselves
    def root() -> Floats:
        return made(even(_EVEN * len(blocks))).inverse_root()

    return RegressionMoments(
        space=blocks[0].layout.space() if cells.placing is None else _joined(blocks, schema),
        total=total,
        equations=made
        if cells.placing is None
        else lambda coordinates: replace(made(coordinates), root=root()),
        reference=lambda assumed: _known(even, rows, assumed),
        split=() if cells.placing is None else tuple(each.name for each in cells.placing.splits),
    )


def _equations(blocks: Sequence[_Block], coordinates: Coordinates) -> SanitizedEquations:
    """Return the equations in scaled units: each entry a sum over cells."""
    size = range(len(blocks[0].shape.design))
    xx = {(i, j): _Sum() for i in size for j in size if i <= j}
    xy = [_Sum() for _ in size]
    yy, count = _Sum(), _Sum()
    one: Form = ((0, Fraction(1)),)
    for block in blocks:
        sums = block.sums(coordinates)
        for (i, j), entry in xx.items():
            entry.add(sums, block.shape.design[i], block.shape.design[j])
        for i, entry in enumerate(xy):
            entry.add(sums, block.shape.design[i], block.shape.target)
        count.add(sums, one, one)
        if block.is_squared:
            yy.add(sums, block.shape.target, block.shape.target)
    return SanitizedEquations(
        xx={places: entry.jet() for places, entry in xx.items()},
        xy=[entry.jet() for entry in xy],
        yy=yy.jet() if blocks[0].is_squared else None,
        count=count.jet(),
    )


class _Sum:
    """A sum of products of columns over records, in place: jets that grow would be copied."""

    __slots__ = ("slopes", "value")

    def __init__(self) -> None:
        self.value, self.slopes = Fraction(0), dict[int, Fraction]()

    def add(self, sums: Mapping[tuple[int, int], Jet], one: Form, two: Form) -> None:
        """Add the sum over a cell's records of the product of two columns."""
        for i, left in one:
            for j, right in two:
                jet, weight = sums[min(i, j), max(i, j)], left * right
                self.value += jet.value * weight
                for at, slope in jet.slopes.items():
                    self.slopes[at] = self.slopes.get(at, Fraction(0)) + slope * weight

    def jet(self) -> Jet:
        """Return the sum with its slopes."""
        return Jet(self.value, self.slopes)


def _joined(blocks: Sequence[_Block], schema: Schema) -> AdjacentOutputSpace:
    """Return the adjacent output space of sums by cell: see :mod:`mechanisms.geometry.spaces`."""
    balls = [
        add_remove_ball(JointMomentBall(effects=len(each.names), pairs=each.pairs))
        if each.pairs
        else Cube(each.dimension, half=1)
        for each in (block.layout for block in blocks)
    ]
    size = 2 if schema.adjacency is Adjacency.REPLACE_ONE else 1
    longest = max(block.layout.dimension for block in blocks)
    return AdjacentOutputSpace(
        dimension=blocks[-1].end,
        l1=Fraction(size * longest),
        linf=Fraction(size),
        l2_squared=Fraction(size**2 * longest),
        # of two records the parts may be in two cells, and in one the counts cancel
        bounds_only=frozenset({"l1", "l2"}) if size > 1 else frozenset(),
        hull="other",
        norm_ball=JoinedBall(tuple(balls), size),
        description="plus or minus (1, x_j, 2 x_j^2 - 1, x_j x_k) of a record, in its own cell"
        + (", of two records" if size > 1 else ""),
        negligible_structure=False,
        unit=UNIT,
        unit_name=JOINT_UNIT,
    )


# Weighted products, without an intercept


def _known(
    reference: Callable[[int], Coordinates], rows: int | None, assumed: int | None
) -> Coordinates | None:
    count = assumed if rows is None else rows
    return None if count is None else reference(count)


@dataclass(frozen=True, slots=True)
class _Product:
    """The sum of c_j c_k, its two columns, and how far one record moves it (its reach)."""

    one: Placed
    two: Placed
    reach: int

    @classmethod
    def of(cls, one: Placed, two: Placed, *, replace: bool, optional: bool) -> _Product:
        ends = [_range(column) for column in (one, two)]
        corners = [left * right for left in ends[0] for right in ends[1]]
        low, high = min(corners), max(corners)
        if one == two:  # a square is never below 0, which no corner may show
            low = 0 if ends[0][0] <= 0 <= ends[0][1] else min(end * end for end in ends[0])
        if optional:  # a record that may be there or not contributes this or 0
            low, high = min(low, 0), max(high, 0)
        reach = high - low if replace else max(abs(low), abs(high))
        return cls(one, two, reach)

    @property
    def mean_if_even(self) -> Fraction:
        """Return the mean of c_j c_k for independent columns, each even over its range."""
        (low, high), (least, most) = _range(self.one), _range(self.two)
        if self.one == self.two:
            return Fraction(low * low + low * high + high * high, 3)
        return Fraction((low + high) * (least + most), 4)


def _range(column: Placed) -> tuple[int, int]:
    """Return the least and the largest integer c of a column scaled as c / C."""
    reach = abs(column.factor) * column.reach
    return column.offset - reach, column.offset + reach


@dataclass(frozen=True, slots=True, kw_only=True)
class _WeightedProducts:
    """T without an intercept: ``weights[i] * products[i]``, each moved by at most ``reach``.

    ``products`` are those of the ``features`` with each other, then with the target.
    """

    columns: tuple[str, ...]
    features: int
    products: tuple[_Product, ...]
    weights: tuple[int, ...]
    reach: int

    @classmethod
    def build(cls, scaling: RegressionScaling, schema: Schema) -> _WeightedProducts:
        if scaling.target is None:
            raise ValueError("a regression from moments has a number as its target")
        features = [Placed.at(j, column) for j, column in enumerate(scaling.features, start=1)]
        target = Placed.at(len(features) + 1, scaling.target)
        pairs = [(one, two) for place, one in enumerate(features) for two in features[place:]]
        pairs += [(one, target) for one in features]
        replace = schema.adjacency is Adjacency.REPLACE_ONE
        optional = schema.known_rows is None
        products = tuple(
            _Product.of(one, two, replace=replace, optional=optional) for one, two in pairs
        )
        shared = lcm(*(product.reach for product in products))
        if shared.bit_length() > _MOST_BITS:
            shared = max(product.reach for product in products) << _SLACK_BITS
        return cls(
            columns=scaling.columns,
            features=len(features),
            products=products,
            # Rounded down, so that no weighted product moves by more than `shared`.
            weights=tuple(shared // product.reach for product in products),
            reach=shared,
        )

    def total(self, data: Data) -> list[int]:
        """Return T(X), exactly; private."""
        gram = data.gram(self.columns)
        return [
            weight * sum_of_products(gram, product.one, product.two)
            for weight, product in zip(self.weights, self.products, strict=True)
        ]

    def spread_evenly(self, count: int) -> Coordinates:
        """Return T of ``count`` records spread evenly over their bounds."""
        return [
            count * weight * product.mean_if_even
            for weight, product in zip(self.weights, self.products, strict=True)
        ]

    def equations(self, coordinates: Coordinates) -> SanitizedEquations:
        """Return the equations in scaled units that sanitized coordinates make."""
        xx: dict[tuple[int, int], Jet] = {}
        xy: list[Jet] = []
        for place, (weight, product) in enumerate(zip(self.weights, self.products, strict=True)):
            unit = Fraction(1, weight * product.one.divisor * product.two.divisor)
            jet = Jet(coordinates[place] * unit, {place: unit})
            if product.two.place > self.features:
                xy.append(jet)
            else:
                xx[product.one.place - 1, product.two.place - 1] = jet
        return SanitizedEquations(xx=xx, xy=xy)


def _products(scaling: RegressionScaling, schema: Schema) -> RegressionMoments:
    """Return T without an intercept: weighted products of scaled columns."""
    rows = public_rows(schema)
    drawn = _WeightedProducts.build(scaling, schema)
    size = len(drawn.products)
    sides = [column for product in drawn.products for column in (product.one, product.two)]
    added = schema.adjacency is Adjacency.ADD_REMOVE
    # A corner of the cube is reached by some record: then Delta_1 and Delta_2 are exact.
    attained = added or all(_range(column)[0] >= 0 for column in sides)
    return RegressionMoments(
        space=AdjacentOutputSpace(
            dimension=size,
            l1=Fraction(size),
            linf=Fraction(1),
            l2_squared=Fraction(size),
            bounds_only=frozenset() if attained else frozenset({"l1", "l2"}),
            hull="other",
            description="within the cube of the largest changes of the columns' products",
            negligible_structure=False,
            unit=drawn.reach,
            unit_name="largest changes by one record",
        ),
        total=drawn.total,
        equations=drawn.equations,
        reference=lambda assumed: _known(drawn.spread_evenly, rows, assumed),
    )
