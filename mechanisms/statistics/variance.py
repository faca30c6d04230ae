"""Variances of number columns, with divisor n.

    Var = H**2 (mean (a/F)**2 - (mean a/F)**2), clamped to [0, H**2],

made of the noisy first and second moments (see :mod:`second_order`).

*Weighted*: with ``sum w x^k / sum w`` for the means, of weighted sums
(:mod:`mechanisms.statistics.weights`). The sum of the weights takes the count's place. It is
private under either adjacency, so the vector is that of a private count, and so are its space and
Delta.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import ClassVar, Literal, Self

from mechanisms.contract import FieldHint, Json, Statistic, meaning, require_numbers
from mechanisms.domain import NumberColumn, Schema
from mechanisms.probes import ENDS, Probe
from mechanisms.statistics.additive import (
    ADVICE,
    AdditiveForm,
    Coordinates,
    Leaf,
    Tree,
    public_rows,
)
from mechanisms.statistics.facts.clipping import CLIP, CLIP_HINT, Clip, require_clip, unclipped
from mechanisms.statistics.facts.defaults import width_of
from mechanisms.statistics.facts.readings import Reading, covers, of_columns, of_diagonal
from mechanisms.statistics.questions import Question
from mechanisms.statistics.second_order import (
    UNIT,
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

MAX_COLUMNS = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Variance(Question):
    """Variances (divisor n) of number or boolean columns."""

    __pydantic_config__: ClassVar[dict[str, object]] = {"extra": "forbid"}
    column_by_column: ClassVar[bool] = True
    mechanisms: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "k_norm": ("optimal", "l1", "l2", "linf"),
        "gaussian": (),
    }
    advice: ClassVar[Mapping[str, str]] = ADVICE
    limits: ClassVar[Mapping[str, int]] = {"columns": MAX_COLUMNS}
    clamped_to: ClassVar[frozenset[float] | None] = frozenset({0.0})
    example: ClassVar[Json] = {"kind": "variance", "columns": ["income", "foodexp"]}
    probes: ClassVar[tuple[Probe, ...]] = (Probe({"kind": "variance", "columns": ["x"]}, ENDS),)

    hints: ClassVar[Mapping[str, FieldHint]] = {"clip": CLIP_HINT}

    kind: Literal["variance"] = "variance"
    columns: tuple[str, ...] = field(
        metadata=meaning("Number or boolean columns, each named once; at most 1000.")
    )
    weights: Weighing = field(default=None, metadata=WEIGHTS)
    clip: Clip = field(default="none", metadata=CLIP)

    def check(self, schema: Schema) -> None:
        """Raise :class:`InvalidStatisticError` when the question does not fit the schema."""
        numbers = require_numbers(schema, self.columns, "columns", most=MAX_COLUMNS)
        require_clip(self.clip, self.columns, numbers)
        if self.weights is not None:
            require_weights(schema, self.weights)
        public_rows(schema)

    def answer_numbers(self, _schema: Schema, /) -> int:
        """Return about how many numbers an answer has: one for each column."""
        return len(self.columns) + 1

    def possible_ranges(self, schema: Schema, _rows: float, /) -> Json:
        """Return none to that of half the records at either bound."""
        return {name: [0.0, width_of(schema, name) ** 2 / 4] for name in self.columns}

    def planning_ms(self, _schema: Schema, _mechanism: str, /) -> float:
        """Return about how many milliseconds of one core a plan takes."""
        return 1 + 0.15 * len(self.columns)

    def moment_columns(self, _schema: Schema, /) -> tuple[str, ...] | None:
        """Return the columns whose moments determine the answer: all of them."""
        return self.columns

    def from_moments(
        self, reader: MomentReader, numbers: Sequence[NumberColumn], coordinates: Coordinates, /
    ) -> Tree:
        """Return the answer made of noisy moments."""
        tree: dict[str, Leaf] = {}
        for j, (name, column) in enumerate(zip(reader.names, numbers, strict=True)):
            mean = reader.mean(coordinates, j)
            square = reader.product(coordinates, j, j)
            spread = (square + (mean * mean).scaled(Fraction(-1))).scaled(column.sum_half_width**2)
            low, high = Fraction(0), column.half_width**2
            # noise may push a variance out of what the bounds allow
            value = spread.clamped(low, high).value
            tree[name] = Leaf(
                value=value,
                slopes=spread.slopes,
                limits=(low, high),
                rounding=covariance_error(column, column),
            )
        return tree

    def reading(self, source: Statistic, _schema: Schema, /) -> Reading | None:
        """Return how the answer is read off variances or covariances of more columns."""
        if covers(source, "variance", self.columns):
            return of_columns(self.columns)
        if covers(source, "covariance", self.columns):
            return of_diagonal(source, self.columns)
        return None

    def estimand(self) -> Self:
        """Return the question of the values themselves, which clamped ones miss."""
        return unclipped(self)

    def additive(self, schema: Schema) -> AdditiveForm:
        """Return the form: two coordinates per column, and the count where it is private."""
        if self.weights is not None:
            form = replace(self, weights=None).additive(private_rows(schema))
            return weighted_form(form, schema, self.weights, total=False, squares=True)
        numbers = require_numbers(schema, self.columns, "columns")
        layout = Layout.of(self.columns, schema, cross=False)
        public = layout.rows is not None

        def reference(rows: int | None) -> Coordinates | None:
            known = layout.rows if public else rows
            return None if known is None else layout.corner(known)

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
            details=public_or_joint_details(layout, linear=False),
            noise_size=2 * len(self.columns),
        )
