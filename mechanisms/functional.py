"""The functional mechanism: linear regression from sanitized moments (SS section 6).

    release T(X) + V,   T = unique non-constant entries of X'X and X'y,   V by the K-norm mechanism

and compute the coefficients from it (:mod:`mechanisms.objectives.sanitized`). SS: Awan &
Slavkovic, *Structure and Sensitivity in Differential Privacy*.

*T with an intercept*, in codes |a| <= F, for p features and the target, all in lattice units:

- replace-one: the sums of ``F a_j`` and ``F b``, of ``2 a_j**2``, and of ``a_j a_k`` and ``a_j b``:
  m = (p + 1)(p + 2)/2 - 1 + p + 1 entries. A record moves each by at most Delta_inf = 2 F**2,
  a square twice itself for just that reason (it moves by F**2 only), and there is no need for the
  target's square. Delta_1 and Delta_2 are those of :mod:`mechanisms.statistics.second_order`.
- add-remove: the count is private and released with the sums, ``F**2 N`` beside
  ``2 a_j**2 - F**2``: Delta_inf = F**2, and one record reaches a corner of that cube.

The norm "optimal" is that of K_T (SS 6.1) or, under add-remove, of the ball in
:mod:`mechanisms.geometry.joint_moments`, both without the target's square: Delta_K = 1.

*T without an intercept.* A column is divided by its extent, c / C with integers c, C and
|c| <= C (:mod:`mechanisms.statistics.regression`), and T holds the sums of c_j c_k and c_j c_y
only: neither sums nor a count. A product's reach D_jk is the length of its range over the
columns' bounds (replace-one) or its largest size (add-remove); entries get integer weights
``D // D_jk``, D a common multiple, so that Delta_inf = D for all of them. Delta_1 <= m D and
Delta_2 <= sqrt(m) D, attained under add-remove, and where no lower bound is negative.

**Privacy.** One argument for all of it. T is an exact integer vector, and neighbours' vectors
differ by u with ||u||_K <= Delta_K (above). V has the law exp(-(epsilon / Delta_K) ||v||_K), or
its ceiling on the integers (:mod:`mechanisms.samplers.knorm`), so by the triangle inequality the
probability of any point changes by at most exp(epsilon): Proposition 2.10. Coefficients,
interval and all later derivations are functions of T(X) + V and of public numbers:
post-processing (Proposition 2.11) costs nothing. Nothing else of the data is read: no row
count under add-remove, no residual, no condition number of X'X. Pure epsilon-DP, either adjacency.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import lcm, sqrt
from statistics import fmean

from mechanisms.contract import (
    Alternative,
    Data,
    InvalidStatisticError,
    Noise,
    Outcome,
    Plan,
    Statistic,
)
from mechanisms.domain import CODE_MAX, Schema
from mechanisms.geometry.advisor import advise
from mechanisms.geometry.spaces import AdjacentOutputSpace
from mechanisms.knorm import (
    IntegerNoise,
    ball_of,
    guarantee_of,
    integer_noise,
    offered_norms,
)
from mechanisms.objectives.sanitized import (
    CoordinateNoise,
    Rule,
    SanitizedEquations,
    equations,
    regression_outcome,
)
from mechanisms.privacy import Adjacency, PrivacyLoss
from mechanisms.randomness import Randomness
from mechanisms.statistics.additive import Coordinates, public_rows
from mechanisms.statistics.linear_regression import LinearRegression
from mechanisms.statistics.moments import MAX_COLUMNS
from mechanisms.statistics.regression import RegressionScaling, ScaledColumn
from mechanisms.statistics.second_order import Jet, Layout

THEOREM = "Awan & Slavkovic 2021, Proposition 2.10 and section 6 (functional mechanism)"
NOISE = (
    "privacy noise alone, by a parametric bootstrap from the sanitized moments: approximate; it "
    "aims at the same rule's answer without noise; sampling error is not in it; in a preview, for "
    "columns that are independent and spread evenly over their bounds"
)

# As for sums: beyond so many bits the weights share a D that overstates no reach
# by more than one part in 2**100, not the least common multiple.
_MOST_BITS = 256
_SLACK_BITS = 100


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


def calibrate(statistic: Statistic, schema: Schema, epsilon: PrivacyLoss, norm: str) -> Plan:
    """Return the plan of a linear regression by sanitized moments.

    Raises
    ------
    InvalidStatisticError
        The statistic is no linear regression, does not fit the schema, names more
        columns than ``moments`` takes, or asks for a norm that is not offered.
    """
    if not isinstance(statistic, LinearRegression):
        raise InvalidStatisticError("functional releases linear_regression", field_name="mechanism")
    statistic.check(schema)
    offered = LinearRegression.mechanisms["functional"]
    if norm not in ("auto", *offered):
        raise InvalidStatisticError(
            f"linear_regression by functional offers the norms {', '.join(offered)}",
            field_name="norm",
        )
    scaling = statistic.scaling(schema)
    moments = regression_moments(scaling, schema)
    advice = advise(moments.space)
    chosen = advice.norm if norm == "auto" else norm
    ball = ball_of(moments.space, chosen)
    drawn = FunctionalDraw(
        scaling=scaling,
        moments=moments,
        noise=IntegerNoise.calibrated(moments.space, ball, epsilon.fraction),
        rule=rule_of(statistic),
    )
    return Plan(
        mechanism="functional",
        norm=chosen,
        guarantee=guarantee_of(moments.space, ball, schema, epsilon, THEOREM),
        grid={"coordinate_step": float(Fraction(1, moments.space.unit * drawn.noise.refinement))},
        reason=advice.reason if norm == "auto" else f"Asked for. Advised: {advice.norm}.",
        draw=drawn,
        preview=drawn.preview,
        alternatives=_alternatives(moments.space, chosen, epsilon.fraction),
        details=drawn.details(statistic),
    )


def rule_of(statistic: LinearRegression) -> Rule:
    """Return how the coefficients of this question are made of sanitized moments."""
    return Rule(ridge=statistic.exact_ridge, bound=statistic.exact_bound)


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionalDraw:
    """Sanitizes the moments and returns the coefficients in column units."""

    scaling: RegressionScaling
    moments: RegressionMoments
    noise: IntegerNoise
    rule: Rule

    def coordinates(self, data: Data, randomness: Randomness) -> list[Fraction]:
        """Return T(X) + V, in lattice units of T: the private step, all of it."""
        added, steps = self.noise.draw(randomness), self.noise.refinement
        return [
            Fraction(exact * steps + error, steps)
            for exact, error in zip(self.moments.total(data), added, strict=True)
        ]

    def __call__(self, data: Data, randomness: Randomness) -> Outcome:
        """Return one release."""
        return self.outcome(self.coordinates(data, randomness), centred=True)

    def outcome(self, coordinates: Coordinates, *, centred: bool) -> Outcome:
        """Return what is made of sanitized moments; intervals surround zero unless centred."""
        return regression_outcome(
            self.moments.equations(coordinates),
            self.scaling,
            self.rule,
            coordinate_noise(self.noise),
            seed=str(coordinates).encode(),
            centred=centred,
        )

    def preview(self, assumed_rows: int | None) -> Noise | None:
        """Return the noise for columns that are independent and spread evenly."""
        coordinates = self.moments.reference(assumed_rows)
        return None if coordinates is None else self.outcome(coordinates, centred=False).noise

    def details(self, statistic: LinearRegression) -> dict[str, object]:
        """Return the public facts of the answer."""
        blank = self.moments.equations([Fraction(0)] * self.moments.space.dimension)
        automatic = self.rule.ridge is None
        edge = blank.noise_edge(coordinate_noise(self.noise))
        return {
            "columns": [*statistic.features, statistic.target],
            "coefficients": self.scaling.dimension,
            "sanitized_moments": self.moments.space.dimension,
            "bound": float(self.rule.bound),
            "ridge": statistic.ridge,
            "least_eigenvalue": edge if automatic else None,
            "noise": NOISE,
            "adjacent_output_space": self.moments.space.description,
        }


def coordinate_noise(noise: IntegerNoise) -> CoordinateNoise:
    """Return what describing an answer needs to know of the noise."""
    laws, unit = noise.describe()
    return CoordinateNoise(
        ball=noise.ball,
        dimension=noise.dimension,
        rate=noise.rate * noise.refinement,
        stds=tuple(Fraction(law.std) * unit for law in laws),
        correlation=noise.correlation,
    )


def regression_moments(scaling: RegressionScaling, schema: Schema) -> RegressionMoments:
    """Return T of a regression under the schema's adjacency."""
    if len(scaling.columns) > MAX_COLUMNS:
        raise InvalidStatisticError(
            f"functional takes at most {MAX_COLUMNS} columns, the target included; "
            "use objective_perturbation",
            field_name="features",
        )
    public = schema.adjacency is Adjacency.REPLACE_ONE
    rows = public_rows(schema) if public else None
    if not scaling.intercept:
        return _products(scaling, rows)
    layout = Layout(scaling.columns, cross=True, rows=rows, squared=len(scaling.features))
    return RegressionMoments(
        space=layout.space(),
        total=layout.total,
        equations=lambda coordinates: equations(scaling, layout.sums(coordinates)),
        reference=lambda assumed: _known(layout.spread_evenly, rows, assumed),
    )


def _known(
    reference: Callable[[int], Coordinates], rows: int | None, assumed: int | None
) -> Coordinates | None:
    count = assumed if rows is None else rows
    return None if count is None else reference(count)


@dataclass(frozen=True, slots=True)
class _Product:
    """The sum of c_j c_k: its columns, its places in the equations, and its reach."""

    one: int
    two: int
    scale: int
    reach: int

    @classmethod
    def of(cls, columns: Sequence[ScaledColumn], one: int, two: int, *, replace: bool) -> _Product:
        ends = [_range(columns[index]) for index in (one, two)]
        corners = [left * right for left in ends[0] for right in ends[1]]
        low, high = min(corners), max(corners)
        if one == two:
            low = 0 if ends[0][0] <= 0 <= ends[0][1] else min(end * end for end in ends[0])
        reach = high - low if replace else max(abs(low), abs(high))
        return cls(one, two, columns[one].divisor * columns[two].divisor, reach)


def _range(column: ScaledColumn) -> tuple[int, int]:
    """Return the least and the largest integer c of a column scaled as c / C."""
    reach = abs(column.factor) * CODE_MAX
    return column.offset - reach, column.offset + reach


def _products(scaling: RegressionScaling, rows: int | None) -> RegressionMoments:
    """Return T without an intercept: weighted products of scaled columns."""
    replace = rows is not None
    if scaling.target is None:
        raise ValueError("a regression from moments has a number as its target")
    columns, d = [*scaling.features, scaling.target], len(scaling.features)
    pairs = [(j, k) for j in range(d) for k in range(j, d)] + [(j, d) for j in range(d)]
    products = [_Product.of(columns, j, k, replace=replace) for j, k in pairs]
    shared = lcm(*(product.reach for product in products))
    if shared.bit_length() > _MOST_BITS:
        shared = max(product.reach for product in products) << _SLACK_BITS
    weights = [shared // product.reach for product in products]
    attained = not replace or all(_range(column)[0] >= 0 for column in columns)

    def total(data: Data) -> list[int]:
        gram = data.gram(scaling.columns)
        return [
            weight * _sum(gram, columns, product)
            for weight, product in zip(weights, products, strict=True)
        ]

    def even(count: int) -> Coordinates:
        return [
            count * weight * _even_product(columns, product)
            for weight, product in zip(weights, products, strict=True)
        ]

    def made(coordinates: Coordinates) -> SanitizedEquations:
        jets = []
        for place, (weight, product) in enumerate(zip(weights, products, strict=True)):
            unit = Fraction(1, weight * product.scale)
            jets.append(Jet(coordinates[place] * unit, {place: unit}))
        squares = len(jets) - d
        return SanitizedEquations(
            xx=dict(zip(pairs[:squares], jets[:squares], strict=True)), xy=jets[squares:]
        )

    return RegressionMoments(
        space=AdjacentOutputSpace(
            dimension=len(products),
            l1=Fraction(len(products)),
            linf=Fraction(1),
            l2_squared=Fraction(len(products)),
            bounds_only=frozenset() if attained else frozenset({"l1", "l2"}),
            hull="other",
            description="within the cube of the largest changes of the columns' products",
            negligible_structure=False,
            unit=shared,
            unit_name="largest changes by one record",
        ),
        total=total,
        equations=made,
        reference=lambda assumed: _known(even, rows, assumed),
    )


def _even_product(columns: Sequence[ScaledColumn], product: _Product) -> Fraction:
    """Return the mean of c_j c_k for independent columns, each even over its range."""
    (low, high), (least, most) = (_range(columns[place]) for place in (product.one, product.two))
    if product.one == product.two:
        return Fraction(low * low + low * high + high * high, 3)
    return Fraction((low + high) * (least + most), 4)


def _sum(gram: Sequence[Sequence[int]], columns: Sequence[ScaledColumn], product: _Product) -> int:
    """Return the exact sum of c_j c_k over records, c = offset + factor * code."""
    one, two = columns[product.one], columns[product.two]
    i, j = product.one + 1, product.two + 1
    return (
        one.offset * two.offset * gram[0][0]
        + one.offset * two.factor * gram[0][j]
        + one.factor * two.offset * gram[0][i]
        + one.factor * two.factor * gram[i][j]
    )


def _alternatives(
    space: AdjacentOutputSpace, chosen: str, epsilon: Fraction
) -> tuple[Alternative, ...]:
    def std(norm: str) -> float:
        laws, unit = integer_noise(space, norm, epsilon).describe()
        return float(Fraction(sqrt(fmean(law.std**2 for law in laws))) * unit / space.unit)

    own = std(chosen)
    rows = [
        Alternative(
            mechanism="functional",
            norm=norm,
            comparison=f"{std(norm) / own:.3g} times the standard deviation of the moments",
        )
        for norm in offered_norms(space)
        if norm != chosen
    ]
    gradient = Alternative(
        mechanism="kng",
        norm="linf",
        comparison=(
            "usually a smaller error for this one regression, up to 20 coefficients; released "
            "moments serve every regression on their columns"
        ),
    )
    return (*rows, gradient)
