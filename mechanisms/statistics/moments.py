"""First and second moments of number columns: means, and means of all products.

    means_j = mean x_j,   second_jk = mean x_j x_k   (in the columns' units),

made of the noisy vector of :mod:`second_order`. Every mean, variance, covariance
and regression on these columns can be computed from them free of charge.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import product
from typing import ClassVar, Literal, cast

from mechanisms.contract import ErrorLaw, Json, meaning, require_numbers
from mechanisms.domain import NumberColumn, Schema
from mechanisms.probes import ENDS, Probe
from mechanisms.statistics.additive import (
    ADVICE,
    AdditiveForm,
    Coordinates,
    Leaf,
    Tree,
    constant_slopes,
    public_rows,
)
from mechanisms.statistics.facts.defaults import bounds_of
from mechanisms.statistics.facts.readings import Atom
from mechanisms.statistics.questions import Question
from mechanisms.statistics.second_order import (
    UNIT,
    Jet,
    Layout,
    MomentReader,
    public_or_joint_details,
)
from mechanisms.words import worded

MAX_COLUMNS = 64  # their products are 2,080 coordinates, planned in about a second


@dataclass(frozen=True, slots=True, kw_only=True)
class Moments(Question):
    """Means of number or boolean columns, and of all their products."""

    __pydantic_config__: ClassVar[dict[str, object]] = {"extra": "forbid"}
    mechanisms: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "k_norm": ("optimal", "l1", "l2", "linf"),
        "gaussian": (),
    }
    advice: ClassVar[Mapping[str, str]] = ADVICE
    limits: ClassVar[Mapping[str, int]] = {"columns": MAX_COLUMNS}
    clamped_to: ClassVar[frozenset[float] | None] = frozenset()  # its columns' bounds
    example: ClassVar[Json] = {"kind": "moments", "columns": ["income", "foodexp"]}
    probes: ClassVar[tuple[Probe, ...]] = (Probe({"kind": "moments", "columns": ["x", "y"]}, ENDS),)
    error_law: ClassVar[ErrorLaw] = "linear where rows are known"
    no_inference: ClassVar[str] = worded(
        "moments are what other numbers follow from: a mean, variance, correlation or regression "
        "that is derived from them has intervals at no cost"
    )

    kind: Literal["moments"] = "moments"
    columns: tuple[str, ...] = field(
        metadata=meaning("Number or boolean columns, each named once; at most 64.")
    )

    def check(self, schema: Schema) -> None:
        """Raise :class:`InvalidStatisticError` when the question does not fit the schema."""
        require_numbers(schema, self.columns, "columns", most=MAX_COLUMNS)
        public_rows(schema)

    def answer_numbers(self, _schema: Schema, /) -> int:
        """Return about how many numbers an answer has: those of a square matrix."""
        return len(self.columns) * (len(self.columns) + 1)

    def relation(self) -> tuple[str, tuple[str, ...]] | None:
        """Return the last column as explained by the others."""
        *others, last = self.columns
        return last, tuple(others)

    def possible_ranges(self, schema: Schema, rows: float, /) -> Json:
        """Return all rows, the bounds of each column, and products of two columns' bounds."""
        names = self.columns

        def second(one: str, other: str) -> list[float]:
            corners = [a * b for a in bounds_of(schema, one) for b in bounds_of(schema, other)]
            low = min(corners)
            return [max(low, 0.0) if one == other else low, max(corners)]

        return {
            "count": [0.0, rows],
            "means": {name: bounds_of(schema, name) for name in names},
            "second": [[second(one, other) for other in names] for one in names],
        }

    def column_atoms(self, _schema: Schema, /) -> Iterator[Atom]:
        """Yield each column's mean, and each pair's mean product."""
        for name in self.columns:
            yield ("mean", name), Fraction(1)
        for pair in product(self.columns, repeat=2):
            yield ("product", *sorted(pair)), Fraction(1)

    def layout(self, schema: Schema, /) -> Layout:
        """Return the coordinates of the released vector."""
        return Layout.of(self.columns, schema, cross=True)

    def read_back(self, value: Json, schema: Schema, /) -> list[Fraction]:
        """Return the noisy vector that released moments were made of.

        Exact fractions of the released numbers; what had been clamped stays so.
        """
        layout = self.layout(schema)
        numbers = require_numbers(schema, self.columns, "columns")
        means = cast(Mapping[str, float], value["means"])
        second = cast(Sequence[Sequence[float]], value["second"])
        shares = [
            (Fraction(means[name]) - column.midpoint) / column.sum_half_width
            for name, column in zip(layout.names, numbers, strict=True)
        ]
        known = layout.rows
        count = Fraction(cast(float, value["count"])) if known is None else Fraction(known)
        records = max(count, Fraction(1))
        entries = [count] if known is None else []
        entries += [records * share for share in shares]
        for j, k in layout.pairs:
            one, two = numbers[j], numbers[k]
            # With x = m + h u and y = n + k v: x y = m n + m k v + n h u + h k u v, solved for u v.
            entry = (
                Fraction(second[j][k])
                - one.midpoint * two.midpoint
                - one.midpoint * two.sum_half_width * shares[k]
                - two.midpoint * one.sum_half_width * shares[j]
            ) / (one.sum_half_width * two.sum_half_width)
            # Squares are summed twice, and centred where the count is private: see second_order.
            if j == k:
                entry = 2 * entry - (1 if known is None else 0)
            entries.append(records * entry)
        return [UNIT * entry for entry in entries]

    def planning_ms(self, _schema: Schema, _mechanism: str, /) -> float:
        """Return about how many milliseconds of one core a plan takes."""
        return 1 + 0.3 * len(self.columns) ** 2  # laws of products, with weights from all pairs

    def moment_columns(self, _schema: Schema, /) -> tuple[str, ...] | None:
        """Return the columns whose moments determine the answer: all of them."""
        return self.columns

    def from_moments(
        self, reader: MomentReader, numbers: Sequence[NumberColumn], coordinates: Coordinates, /
    ) -> Tree:
        """Return the answer made of the noisy vector."""
        size = range(len(numbers))
        means = [reader.mean(coordinates, j) for j in size]
        upper = {
            (j, k): _leaf(
                _second(numbers[j], numbers[k], means[j], means[k], product),
                _rounding(numbers[j], numbers[k]),
            )
            for j, k in reader.pairs
            for product in [reader.product(coordinates, j, k)]
        }
        tree: dict[str, Tree] = {}
        if reader.rows is None:
            tree["count"] = Leaf(value=coordinates[0] / UNIT, slopes={0: Fraction(1, UNIT)})
        tree["means"] = {
            name: _mean(column, mean, clamped=reader.rows is None)
            for name, column, mean in zip(reader.names, numbers, means, strict=True)
        }
        tree["second"] = [[upper[min(j, k), max(j, k)] for k in size] for j in size]
        return tree

    def additive(self, schema: Schema) -> AdditiveForm:
        """Return the form: ``p + p (p + 1) / 2`` coordinates, one more under add-remove."""
        numbers = require_numbers(schema, self.columns, "columns")
        layout = Layout.of(self.columns, schema, cross=True)
        public = layout.rows is not None

        def reference(rows: int | None) -> Coordinates | None:
            if public:
                return constant_slopes(layout.dimension)(rows)
            return None if rows is None else layout.corner(rows)

        return AdditiveForm(
            space=layout.space(),
            total=layout.total,
            answer=lambda coordinates: self.from_moments(layout, numbers, coordinates),
            reference=reference,
            grid=lambda step: {
                "coordinate_step": float(step / UNIT),
                "code_step": {
                    name: float(column.sum_step)
                    for name, column in zip(self.columns, numbers, strict=True)
                },
            },
            details=public_or_joint_details(layout, linear=public),
            # a point of a conditioned hull in about that many coordinates
            noise_size=len(self.columns) ** 2,
            linear=public,
        )


def _second(one: NumberColumn, two: NumberColumn, mean: Jet, other: Jet, product: Jet) -> Jet:
    """Return the mean of x y for x = M + H a/F, from the means of a/F, b/F and their product."""
    linear = mean.scaled(one.sum_half_width * two.midpoint) + other.scaled(
        two.sum_half_width * one.midpoint
    )
    return (linear + product.scaled(one.sum_half_width * two.sum_half_width)).shifted(
        one.midpoint * two.midpoint
    )


def _rounding(one: NumberColumn, two: NumberColumn) -> Fraction:
    """Return by how much a product of sum codes differs from that of values at most."""
    return (one.extent + one.sum_error) * two.sum_error + two.extent * one.sum_error


def _mean(column: NumberColumn, mean: Jet, *, clamped: bool) -> Leaf:
    """Return a mean, which a noisy count has clamped to what sum codes reach."""
    middle, half = column.midpoint, column.sum_half_width
    limits = (middle - half, middle + half) if clamped else None
    return replace(_leaf(mean.scaled(half).shifted(middle), column.sum_error), limits=limits)


def _leaf(jet: Jet, rounding: Fraction) -> Leaf:
    return Leaf(value=jet.value, slopes=jet.slopes, rounding=rounding)
