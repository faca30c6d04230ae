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

*T without an intercept.* A column is divided by its extent, c / C with integers c, C and
|c| <= C (:mod:`mechanisms.statistics.designs.scaling`), and T holds the sums of c_j c_k and c_j c_y
only: neither sums nor a count. A product's reach D_jk is the length of its range over the
columns' bounds (replace-one), 0 included where the record may also come or go (a filter), or its
largest size (add-remove); entries get integer weights ``D // D_jk``, D a common multiple, so that
Delta_inf = D for all of them. Delta_1 <= m D and Delta_2 <= sqrt(m) D, attained under add-remove,
and where no lower bound is negative.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from math import lcm

from mechanisms.contract import Data, InvalidStatisticError
from mechanisms.domain import SUM_MAX, Schema
from mechanisms.functional.sanitized import SanitizedEquations, equations
from mechanisms.geometry.spaces import AdjacentOutputSpace
from mechanisms.privacy import Adjacency
from mechanisms.statistics.additive import Coordinates, public_rows
from mechanisms.statistics.designs.scaling import Placed, RegressionScaling, sum_of_products
from mechanisms.statistics.moments import MAX_COLUMNS
from mechanisms.statistics.second_order import Jet, Layout
from mechanisms.statistics.weights import Weights, weighted_data

# As for sums: beyond _MOST_BITS bits the weights share a D that overstates no reach
# by more than one part in 2**100, not the least common multiple.
_MOST_BITS = 256
_SLACK_BITS = 100  # a shared reach then overstates no sensitivity by more than 2**-100


@dataclass(frozen=True, slots=True, kw_only=True)
class RegressionMoments:
    """T of one regression: its geometry, its exact sum, and the equations made of it.

    ``reference`` is T of records spread evenly over their bounds, given their (assumed) count;
    None where a count is needed and was not given.
    """

    space: AdjacentOutputSpace
    total: Callable[[Data], list[int]]
    equations: Callable[[Coordinates], SanitizedEquations]
    reference: Callable[[int | None], Coordinates | None]


def regression_moments(scaling: RegressionScaling, schema: Schema) -> RegressionMoments:
    """Return T of a regression under the schema's adjacency."""
    if len(scaling.columns) > MAX_COLUMNS:
        raise InvalidStatisticError(
            f"functional takes at most {MAX_COLUMNS} columns, the target included; "
            "use objective_perturbation",
            field_name="features",
        )
    if not scaling.intercept:
        return _products(scaling, schema)
    layout = Layout.of(scaling.columns, schema, cross=True, squared=len(scaling.features))
    return RegressionMoments(
        space=layout.space(),
        total=layout.total,
        equations=lambda coordinates: equations(scaling, layout.sums(coordinates)),
        reference=lambda assumed: _known(layout.spread_evenly, layout.rows, assumed),
    )


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
