"""Covariances of number columns, with divisor n.

    Cov_jk = H_j H_k (mean a_j a_k / F**2 - mean a_j / F * mean a_k / F),

made of the noisy first and second moments (see :mod:`second_order`): the same
vector, noise and sensitivities as a release of ``moments``, so the matrix is
post-processing (Awan & Slavkovic, Proposition 2.11). Each entry is clamped to what the bounds
allow, [0, H_j**2] on the diagonal and [-H_j H_k, H_j H_k] off it; the matrix as
a whole need not be positive definite.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import ClassVar, Literal

from mechanisms.contract import (
    InvalidStatisticError,
    Json,
    NearZero,
    Statistic,
    meaning,
    require_numbers,
)
from mechanisms.domain import NumberColumn, Schema
from mechanisms.probes import ENDS, Probe
from mechanisms.statistics.additive import AdditiveForm, Coordinates, Leaf, Tree
from mechanisms.statistics.facts.defaults import width_of
from mechanisms.statistics.facts.readings import Reading, covers, of_matrix
from mechanisms.statistics.moments import MAX_COLUMNS, Moments
from mechanisms.statistics.questions import Question
from mechanisms.statistics.second_order import (
    Jet,
    Layout,
    MomentReader,
    covariance_error,
    public_or_joint_details,
)
from mechanisms.statistics.weights import (
    WEIGHTS,
    Weighing,
    private_rows,
    require_weights,
    weighted_form,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Covariance(Question):
    """Covariance matrix (divisor n) of number or boolean columns."""

    __pydantic_config__: ClassVar[dict[str, object]] = {"extra": "forbid"}
    mechanisms: ClassVar[Mapping[str, tuple[str, ...]]] = Moments.mechanisms
    advice: ClassVar[Mapping[str, str]] = Moments.advice
    limits: ClassVar[Mapping[str, int]] = {"columns": MAX_COLUMNS}
    clamped_to: ClassVar[frozenset[float] | None] = frozenset()  # what the bounds allow
    example: ClassVar[Json] = {"kind": "covariance", "columns": ["income", "foodexp"]}
    probes: ClassVar[tuple[Probe, ...]] = (
        Probe({"kind": "covariance", "columns": ["x", "y"]}, ENDS),
    )
    near_zero: ClassVar[NearZero] = "no effect"
    name_on_diagonal: ClassVar[str] = "variance"

    least_columns: ClassVar[int] = 2

    kind: Literal["covariance"] = "covariance"
    columns: tuple[str, ...] = field(
        metadata=meaning("Number or boolean columns, each named once; 2 to 64.")
    )
    weights: Weighing = field(default=None, metadata=WEIGHTS)

    def check(self, schema: Schema) -> None:
        """Raise :class:`InvalidStatisticError` when the question does not fit the schema."""
        Moments(columns=self.columns).check(schema)
        if self.weights is not None:
            require_weights(schema, self.weights)
        if len(self.columns) < self.least_columns:
            raise InvalidStatisticError(
                "a covariance is of two columns or more: that of one with itself is its variance; "
                'ask for the kind "variance"',
                field_name="columns",
            )

    def answer_numbers(self, _schema: Schema, /) -> int:
        """Return about how many numbers an answer has: those of a square matrix."""
        return len(self.columns) * (len(self.columns) + 1)

    def relation(self) -> tuple[str, tuple[str, ...]] | None:
        """Return the last column as explained by the others."""
        *others, last = self.columns
        return last, tuple(others)

    def possible_ranges(self, schema: Schema, _rows: float, /) -> Json:
        """Return up to those of half the records at either bound of both columns."""

        def entry(one: str, other: str) -> list[float]:
            most = width_of(schema, one) * width_of(schema, other) / 4
            return [0.0 if one == other else -most, most]

        names = self.columns
        return {"matrix": [[entry(one, other) for other in names] for one in names]}

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
        return symmetric(
            len(numbers),
            {
                pair: _leaf(jet, *(numbers[index] for index in pair))
                for pair, jet in scaled_covariances(reader, coordinates).items()
            },
        )

    def reading(self, source: Statistic, _schema: Schema, /) -> Reading | None:
        """Return how the answer is read off covariances of more columns."""
        known = covers(source, "covariance", self.columns)
        return of_matrix(source, self.columns) if known else None

    def additive(self, schema: Schema) -> AdditiveForm:
        """Return the form: the coordinates of ``moments``, the matrix as the answer."""
        if self.weights is not None:
            form = replace(self, weights=None).additive(private_rows(schema))
            return weighted_form(form, schema, self.weights, total=False, squares=True)
        numbers = require_numbers(schema, self.columns, "columns")
        layout = moment_layout(self.columns, schema)

        def reference(rows: int | None) -> Coordinates | None:
            known = layout.rows if layout.rows is not None else rows
            return None if known is None else layout.corner(known)

        parent = Moments(columns=self.columns).additive(schema)
        return AdditiveForm(
            space=parent.space,
            total=parent.total,
            answer=lambda coordinates: self.from_moments(layout, numbers, coordinates),
            reference=reference,
            grid=parent.grid,
            details=public_or_joint_details(layout, linear=False),
            noise_size=parent.noise_size,
        )


def moment_layout(columns: tuple[str, ...], schema: Schema) -> Layout:
    """Return where the moments of these columns sit in a release of all of them."""
    return Layout.of(columns, schema, cross=True)


def scaled_covariances(
    layout: MomentReader, coordinates: Coordinates
) -> dict[tuple[int, int], Jet]:
    """Return the covariances of a_j / F and a_k / F for j <= k, clamped to what codes allow."""
    means = [layout.mean(coordinates, j) for j in range(len(layout.names))]
    one = Fraction(1)
    return {
        (j, k): (
            layout.product(coordinates, j, k) + (means[j] * means[k]).scaled(Fraction(-1))
        ).clamped(Fraction(0) if j == k else -one, one)
        for j, k in layout.pairs
    }


def symmetric(size: int, upper: Mapping[tuple[int, int], Leaf]) -> Tree:
    """Return the answer ``{"matrix": rows}`` of the entries (j, k), j <= k."""
    order = range(size)
    return {"matrix": [[upper[min(j, k), max(j, k)] for k in order] for j in order]}


def _leaf(jet: Jet, one: NumberColumn, two: NumberColumn) -> Leaf:
    widest = one.half_width * two.half_width
    low = Fraction(0) if one is two else -widest
    scaled = jet.scaled(one.sum_half_width * two.sum_half_width).clamped(low, widest)
    return Leaf(
        value=scaled.value,
        slopes=scaled.slopes,
        limits=(low, widest),
        rounding=covariance_error(one, two),
    )
