"""Pearson correlations of number columns.

    r_jk = Cov_jk / sqrt(Cov_jj Cov_kk),   r_jj = 1,

made of the noisy covariances (see :mod:`covariance`), so by the same vector,
noise and sensitivities as a release of ``moments``: post-processing (Awan &
Slavkovic, Proposition 2.11). Each entry is clamped to [-1, 1]. It is defined for every
noisy vector: where a noisy variance is not positive nothing can be said of a
correlation, and 0 is answered, with an interval as wide as [-1, 1].
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import combinations
from math import sqrt
from typing import ClassVar, Literal, cast

import numpy as np

from mechanisms.contract import (
    InvalidStatisticError,
    Json,
    NearZero,
    Outcome,
    Statistic,
    meaning,
    require_numbers,
)
from mechanisms.domain import SUM_MAX, NumberColumn, Schema
from mechanisms.exact.floats import Many, Number, at_least, clamped
from mechanisms.probes import TURNED, Probe
from mechanisms.statistics.additive import AdditiveForm, Coordinates, Leaf, Tree
from mechanisms.statistics.covariance import (
    Covariance,
    moment_layout,
    scaled_covariances,
    symmetric,
)
from mechanisms.statistics.facts.readings import Reading, covers, of_matrix
from mechanisms.statistics.moments import MAX_COLUMNS, Moments
from mechanisms.statistics.questions import Question
from mechanisms.statistics.second_order import Jet, MomentReader, covariance_error
from mechanisms.statistics.weights import (
    WEIGHTS,
    Weighing,
    private_rows,
    require_weights,
    weighted_form,
)

# The variance of a column whose codes differ by about one step; less is noise.
# A noisy variance may be zero or less: slopes need one of a code step at least.
_LEAST_VARIANCE = Fraction(1, SUM_MAX**2)
_ONE = Fraction(1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Correlation(Question):
    """Pearson correlation matrix of number or boolean columns."""

    __pydantic_config__: ClassVar[dict[str, object]] = {"extra": "forbid"}
    mechanisms: ClassVar[Mapping[str, tuple[str, ...]]] = Moments.mechanisms
    advice: ClassVar[Mapping[str, str]] = Moments.advice
    limits: ClassVar[Mapping[str, int]] = {"columns": MAX_COLUMNS}
    clamped_to: ClassVar[frozenset[float] | None] = frozenset({-1.0, 0.0, 1.0})
    example: ClassVar[Json] = {"kind": "correlation", "columns": ["income", "foodexp"]}
    probes: ClassVar[tuple[Probe, ...]] = (
        Probe({"kind": "correlation", "columns": ["x", "y"]}, TURNED),
    )
    near_zero: ClassVar[NearZero] = "no effect"

    least_columns: ClassVar[int] = 2

    kind: Literal["correlation"] = "correlation"
    columns: tuple[str, ...] = field(
        metadata=meaning("Number or boolean columns, each named once; 2 to 64.")
    )
    weights: Weighing = field(default=None, metadata=WEIGHTS)

    @property
    def divided_by(self) -> tuple[tuple[str, ...], ...]:
        """Return every two columns: a correlation is divided by both standard deviations."""
        return tuple(combinations(self.columns, 2))

    def check(self, schema: Schema) -> None:
        """Raise :class:`InvalidStatisticError` when the question does not fit the schema."""
        Moments(columns=self.columns).check(schema)
        if self.weights is not None:
            require_weights(schema, self.weights)
        if len(self.columns) < self.least_columns:
            raise InvalidStatisticError(
                "a correlation is of two columns or more: that of one with itself is 1; name "
                'another, or ask for its "std"',
                field_name="columns",
            )

    def answer_numbers(self, _schema: Schema, /) -> int:
        """Return about how many numbers an answer has: those of a square matrix."""
        return len(self.columns) * (len(self.columns) + 1)

    def relation(self) -> tuple[str, tuple[str, ...]] | None:
        """Return the last column as explained by the others."""
        *others, last = self.columns
        return last, tuple(others)

    def possible_ranges(self, _schema: Schema, _rows: float, /) -> Json:
        """Return -1 to 1."""
        names = self.columns
        return {"matrix": [[[-1.0, 1.0] for _ in names] for _ in names]}

    def planning_ms(self, schema: Schema, mechanism: str, /) -> float:
        """Return about how many milliseconds of one core a plan takes."""
        return Moments(columns=self.columns).planning_ms(schema, mechanism)

    def moment_columns(self, _schema: Schema, /) -> tuple[str, ...] | None:
        """Return the columns whose moments determine the answer: all of them."""
        return self.columns

    def from_moments(
        self, reader: MomentReader, numbers: Sequence[NumberColumn], coordinates: Coordinates, /
    ) -> Tree:
        """Return the answer made of noisy moments."""
        covariances = scaled_covariances(reader, coordinates)
        errors = [covariance_error(one, one) / one.sum_half_width**2 for one in numbers]
        return symmetric(
            len(reader.names),
            {
                (j, k): _leaf(
                    covariances[j, k],
                    (covariances[j, j], covariances[k, k]),
                    (errors[j], errors[k]),
                )
                if j < k
                else Leaf(value=_ONE, slopes={})
                for j, k in reader.pairs
            },
        )

    def reading(self, source: Statistic, _schema: Schema, /) -> Reading | None:
        """Return how the answer is read off correlations or covariances of more columns."""
        if covers(source, "correlation", self.columns):
            return of_matrix(source, self.columns)
        if not covers(source, "covariance", self.columns):
            return None
        covariances = of_matrix(source, self.columns)
        # its noise is unknown: it depends on means, which covariances do not contain
        return lambda answer: Outcome(_correlations(covariances(answer).value), noise=None)

    def additive(self, schema: Schema) -> AdditiveForm:
        """Return the form: the coordinates of ``moments``, the matrix as the answer."""
        if self.weights is not None:
            form = replace(self, weights=None).additive(private_rows(schema))
            return weighted_form(form, schema, self.weights, total=False, squares=True)
        parent = Covariance(columns=self.columns).additive(schema)
        numbers = require_numbers(schema, self.columns, "columns")
        layout = moment_layout(self.columns, schema)

        def reference(rows: int | None) -> Coordinates | None:
            known = layout.rows if layout.rows is not None else rows
            return None if known is None else layout.spread_evenly(known)

        return AdditiveForm(
            space=parent.space,
            total=parent.total,
            answer=lambda coordinates: self.from_moments(layout, numbers, coordinates),
            reference=reference,
            grid=parent.grid,
            details={
                "columns": list(self.columns),
                "noise": (
                    "not linear in the noise: to first order, too short where a noisy variance is "
                    "within a few of its standard deviations of zero, never wider than [-1, 1]; "
                    "in a preview, for uncorrelated columns spread evenly over their bounds"
                ),
            },
            noise_size=parent.noise_size,
        )


def _leaf(covariance: Jet, variances: tuple[Jet, Jet], errors: tuple[Fraction, Fraction]) -> Leaf:
    """Return the correlation; slopes are those of variances of at least one code step.

    ``errors`` are those of the two variances: half of both is that of the covariance.
    """
    one, two = variances
    # Else a variance just above 0 would make the scale, and the noise stated, as large as it likes.
    first, second = (at_least(jet.value, _LEAST_VARIANCE) for jet in (one, two))
    scale = _over_root(first * second)
    value = _known(clamped(covariance.value * scale, -_ONE, _ONE), one.value, two.value)
    slopes = (
        covariance.scaled(scale)
        + one.scaled(-value / (2 * first))
        + two.scaled(-value / (2 * second))
    ).slopes
    halves = (errors[0] + errors[1]) / 2
    share = errors[0] / first + errors[1] / second
    rounding = scale * halves + abs(value) * share / 2
    return Leaf(value=value, slopes=slopes, limits=(-_ONE, _ONE), rounding=rounding)


def _over_root(number: Number) -> Number:
    """Return one over the square root of a number, as close as floats come."""
    if isinstance(number, Many):
        return number.map(lambda each: 1 / np.sqrt(each))
    return 1 / Fraction(sqrt(number))


def _known(value: Number, one: Number, two: Number) -> Number:
    """Return a value, or zero where one of two variances is not positive."""
    if isinstance(value, Many):
        return value.map(lambda each, *vs: np.where(np.minimum(*vs) > 0, each, 0.0), one, two)
    return value if one > 0 and two > 0 else Fraction(0)


def _correlations(value: Json) -> Json:
    """Return the correlations of a covariance matrix: 0 where a variance is not positive."""
    matrix = cast(Sequence[Sequence[float]], value["matrix"])
    size = range(len(matrix))

    def entry(j: int, k: int) -> float:
        if j == k:
            return 1.0
        if matrix[j][j] <= 0 or matrix[k][k] <= 0:
            return 0.0
        # Two roots: the product of two small variances might underflow to 0.
        ratio = matrix[j][k] / (sqrt(matrix[j][j]) * sqrt(matrix[k][k]))
        return min(max(ratio, -1.0), 1.0)

    return {"matrix": [[entry(j, k) for k in size] for j in size]}
