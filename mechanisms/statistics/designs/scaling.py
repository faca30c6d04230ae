"""Public coordinates of a regression: columns scaled into [-1, 1], and the way back.

*Conventions.* A column with midpoint M has codes a in [-F, F] that stand for ``M + H a / F``.
A regression that reads rows takes F = ``CODE_MAX`` and H the half-width; one that is made of sums
takes the sum codes, F = ``SUM_MAX`` and H the ``sum_half_width``, which may be a little more
(:mod:`mechanisms.domain`). E = |M| + H.

With an intercept, every column (target included) is mapped affinely onto
[-1, 1]: a value becomes a / F. Without one, a column may only be divided, so a
value x becomes x / E = (F u + v a) / (F (|u| + v)), where u / v = M / H in
lowest terms. Either way the scaled value is the exact rational
``(offset + factor * a) / divisor`` with integers and absolute value at most 1.
The intercept is itself a column, the constant 1, and always comes first:
theta = ([intercept,] one entry per feature, in the order asked for).

The possible range of each coefficient of a regression, for its verdict.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import log, sqrt
from typing import NamedTuple

from mechanisms.contract import InvalidStatisticError, Json, Outcome, require_numbers
from mechanisms.domain import CODE_MAX, SUM_MAX, NumberColumn, Schema
from mechanisms.objectives.design import Design
from mechanisms.objectives.quadratic import NormalEquations

_LOG_STEP = Fraction(1, 1 << 16)


def public_log(value: Fraction) -> Fraction:
    """Return a public number's logarithm to within 2**-17, as a multiple of 2**-16.

    Grids of coefficients are at least as fine: with it an intercept stays on the grid that its
    answer states.
    """
    return round(log(max(float(value), 1e-300)) / _LOG_STEP) * _LOG_STEP


def coefficient_ranges(
    scaling: RegressionScaling, *, largest: Fraction, bound: Fraction | None
) -> Json:
    """Return ``[low, high]`` of each coefficient.

    In scaled columns they run from ``-m`` to ``m``, m = min(largest / sqrt(d), bound), d the
    number of features: at that size d equally strong features add up to ``largest``.
    """
    most = largest / Fraction(sqrt(max(len(scaling.features), 1)))
    most = most if bound is None else min(most, bound)
    zeros: Sequence[Fraction] = [Fraction(0)] * scaling.dimension
    middle = scaling.unscale(zeros)
    reach = dict.fromkeys(middle, Fraction(0))
    for place in range(scaling.dimension):
        moved = scaling.unscale([most if at == place else Fraction(0) for at in range(len(zeros))])
        for name, value in moved.items():
            reach[name] += abs(value - middle[name])
    return {
        "coefficients": {
            name: [float(middle[name] - reach[name]), float(middle[name] + reach[name])]
            for name in middle
        }
    }


# Public coordinates of a regression: columns scaled into [-1, 1], and the way back


INTERCEPT = "(intercept)"
_CONSTANT = re.compile(r"(?:.*:)?\(intercept\)|\(hazard to [^()]*\)", re.DOTALL)


def is_slope(name: str) -> bool:
    """Return whether a coefficient, by its name in an answer, is a column's and no constant.

    >>> [is_slope(name) for name in ("age", "III:age", "III:(intercept)", "(hazard to 12)")]
    [True, True, False, False]
    """
    return _CONSTANT.fullmatch(name) is None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaledColumn:
    """One column in scaled units: scaled value = (offset + factor * code) / divisor.

    In the column's own units a value is ``centre + width * scaled value``. ``largest`` is F, and
    ``reach`` the code of the upper bound, at most F; that of the lower bound is its negative.
    """

    name: str
    largest: int
    reach: int
    offset: int
    factor: int
    divisor: int
    centre: Fraction
    width: Fraction

    @property
    def slope(self) -> Fraction:
        """Return the change of the scaled value per half-width (F codes)."""
        return Fraction(self.factor * self.largest, self.divisor)

    @property
    def ends(self) -> tuple[int, int]:
        """Return the codes of the least and the largest value."""
        return -self.reach, self.reach

    def scale(self, code: int) -> Fraction:
        """Return the exact scaled value, in [-1, 1], of one code."""
        return Fraction(self.offset + self.factor * code, self.divisor)


@dataclass(frozen=True, slots=True, kw_only=True)
class RegressionScaling:
    """The public maps between columns and scaled coordinates of one regression.

    ``target`` is None when the target is not a number column scaled here (a
    logistic regression's 0/1 target); coefficients are then per feature unit.
    """

    features: tuple[ScaledColumn, ...]
    target: ScaledColumn | None
    intercept: bool

    @classmethod
    def build(
        cls,
        schema: Schema,
        *,
        features: Sequence[str],
        target: str | None,
        intercept: bool,
        sums: bool = False,
    ) -> RegressionScaling:
        """Scale the named columns of a schema; ``sums`` says that sum codes are scaled.

        Raises
        ------
        InvalidStatisticError
            No feature and no intercept, an unknown, repeated or non-numeric
            column, or a target that is also a feature.
        """
        if not features and not intercept:
            raise InvalidStatisticError("name at least one feature", field_name="features")
        if target is not None and target in features:
            raise InvalidStatisticError("the target is also a feature", field_name="features")
        found = require_numbers(schema, features, "features") if features else []
        scaled = (
            _scale_column(*pair, intercept, sums) for pair in zip(features, found, strict=True)
        )
        answer = None
        if target is not None:
            [column] = require_numbers(schema, [target], "target")
            answer = _scale_column(target, column, intercept, sums)
        return cls(features=tuple(scaled), target=answer, intercept=intercept)

    @property
    def dimension(self) -> int:
        """Return d, the number of coefficients, the intercept included."""
        return len(self.features) + self.intercept

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of the d coefficients, in theta's order."""
        intercept = (INTERCEPT,) if self.intercept else ()
        return intercept + tuple(column.name for column in self.features)

    @property
    def columns(self) -> tuple[str, ...]:
        """Return the columns to ask ``Data.gram`` for: the features, then the target if scaled."""
        target = () if self.target is None else (self.target.name,)
        return tuple(column.name for column in self.features) + target

    @property
    def target_width(self) -> Fraction:
        """Return what one scaled unit of the target is in its own; 1 where none is scaled."""
        return Fraction(1) if self.target is None else self.target.width

    def normal_equations(self, gram: Sequence[Sequence[int]]) -> NormalEquations:
        """Return exact X'X and X'y in scaled units from ``Data.gram(self.columns)``.

        The scaling is one of sum codes.

        Every entry is sum (p + f a)(q + g b) / (C D) over records, expanded
        into the integer sums of codes and of their products.
        """
        design = [Placed.constant()] if self.intercept else []
        design += [Placed.at(j, column) for j, column in enumerate(self.features, start=1)]
        xx = tuple(tuple(_product(gram, one, two) for two in design) for one in design)
        if self.target is None:
            return NormalEquations(xx=xx, xy=())
        target = Placed.at(len(self.features) + 1, self.target)
        return NormalEquations(xx=xx, xy=tuple(_product(gram, one, target) for one in design))

    def unscale(self, theta: Sequence[Fraction]) -> dict[str, Fraction]:
        """Return coefficients in column units, exactly, from scaled theta (length d).

        A slope is theta_j w_y / w_j with w the widths; the intercept takes up
        the centres: m_y + w_y (theta_0 - sum theta_j m_j / w_j). Without a
        scaled target m_y = 0 and w_y = 1.
        """
        centre = Fraction(0) if self.target is None else self.target.centre
        width = self.target_width
        slopes = theta[1:] if self.intercept else theta
        answer: dict[str, Fraction] = {}
        if self.intercept:
            shift = sum(
                (
                    slope * column.centre / column.width
                    for slope, column in zip(slopes, self.features, strict=True)
                ),
                Fraction(0),
            )
            answer[INTERCEPT] = centre + width * (theta[0] - shift)
        for slope, column in zip(slopes, self.features, strict=True):
            answer[column.name] = slope * width / column.width
        return answer

    def scaled(self, coefficients: Mapping[str, Fraction]) -> list[Fraction]:
        """Return the theta that these coefficients in column units stand for, exactly."""
        centre = Fraction(0) if self.target is None else self.target.centre
        width = self.target_width
        slopes = [coefficients[column.name] * column.width / width for column in self.features]
        if not self.intercept:
            return slopes
        shift = sum(
            (
                slope * column.centre / column.width
                for slope, column in zip(slopes, self.features, strict=True)
            ),
            Fraction(0),
        )
        return [(coefficients[INTERCEPT] - centre) / width + shift, *slopes]

    def released(self, theta: Sequence[Fraction]) -> Outcome:
        """Return the answer made of sanitized coefficients, whose noise has no stated law."""
        value = {name: float(exact) for name, exact in self.unscale(theta).items()}
        return Outcome(value={"coefficients": value}, noise=None)

    def grid(self, step: Fraction, *, intercept: bool = False) -> Json:
        """Return the steps of the coefficients where theta lies on a grid of this step.

        The intercept's is the step of theta_0 alone: the slopes move it by other steps.
        """
        width = self.target_width
        own = {INTERCEPT: float(step * width)} if intercept and self.intercept else {}
        slopes = {column.name: float(step * width / column.width) for column in self.features}
        return {"coefficients": {**own, **slopes}, "scaled": float(step)}


def design(scaling: RegressionScaling) -> Design:
    """Return the exact map from codes to scaled features."""
    return Design(
        offsets=tuple(Fraction(column.offset, column.divisor) for column in scaling.features),
        slopes=tuple(column.slope for column in scaling.features),
        intercept=scaling.intercept,
    )


def _scale_column(name: str, column: NumberColumn, intercept: bool, sums: bool) -> ScaledColumn:
    largest, half_width = CODE_MAX, column.half_width
    if sums:
        largest, half_width = SUM_MAX, column.sum_half_width
    reach = column.sum_reach if sums else CODE_MAX
    if intercept:
        return ScaledColumn(
            name=name,
            largest=largest,
            reach=reach,
            offset=0,
            factor=1,
            divisor=largest,
            centre=column.midpoint,
            width=half_width,
        )
    # Nothing takes up a shift here: 0 stays 0, and the value farthest from it becomes 1 or -1.
    ratio = column.midpoint / half_width
    return ScaledColumn(
        name=name,
        largest=largest,
        reach=reach,
        offset=largest * ratio.numerator,
        factor=ratio.denominator,
        divisor=largest * (abs(ratio.numerator) + ratio.denominator),
        centre=Fraction(0),
        width=abs(column.midpoint) + half_width,
    )


class Placed(NamedTuple):
    """A column scaled as (offset + factor * code) / divisor, at its place in a Gram matrix.

    Codes are in [-reach, reach].
    """

    place: int
    offset: int
    factor: int
    divisor: int
    reach: int = 0

    @classmethod
    def constant(cls) -> Placed:
        """Return the constant 1, which is at place 0."""
        return cls(0, 1, 0, 1)

    @classmethod
    def at(cls, place: int, column: ScaledColumn) -> Placed:
        """Return a scaled column at this place, counted from 1."""
        return cls(place, column.offset, column.factor, column.divisor, column.reach)


def sum_of_products(gram: Sequence[Sequence[int]], one: Placed, two: Placed) -> int:
    """Return the exact sum over records of the product of two columns, times both divisors."""
    return (
        one.offset * two.offset * gram[0][0]
        + one.offset * two.factor * gram[0][two.place]
        + one.factor * two.offset * gram[0][one.place]
        + one.factor * two.factor * gram[one.place][two.place]
    )


def _product(gram: Sequence[Sequence[int]], one: Placed, two: Placed) -> Fraction:
    """Return the exact sum over records of the product of two scaled columns."""
    return Fraction(sum_of_products(gram, one, two), one.divisor * two.divisor)
