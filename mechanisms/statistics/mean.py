"""Means of number columns.

*Conventions.* F = ``SUM_MAX``; sum codes a stand for ``M + H a / F``, H the ``sum_half_width``.

*Replace-one*: T_j = sum of codes, ``mean = M + (H / F) T / n``, n public.

*Add-remove*: the count is private and released jointly: T = (F N, sums of
codes), a cube with sensitivity F, since a record adds (F, a) with |a| <= F.
``mean = M + H T_j / max(T_0, F)``, clamped to the bounds: post-processing.

*Weighted*: ``sum w x / sum w``, of two weighted sums (:mod:`mechanisms.statistics.weights`).

*Under a filter of replace-one data* the count is private too, and a record may come, go or be
replaced: the same T, its differences (0, a - a') and +-(F, a), with the hull
``|s| <= 1, |w_j| <= 2 - |s|`` in units of F (:mod:`mechanisms.geometry.counted`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import ClassVar, Literal, Self

from mechanisms.contract import Data, ErrorLaw, FieldHint, Json, Statistic, meaning, require_numbers
from mechanisms.domain import SUM_MAX, NumberColumn, Schema
from mechanisms.exact.floats import at_least, clamped
from mechanisms.geometry.counted import SUMS, CountedBall, Cube
from mechanisms.geometry.spaces import AdjacentOutputSpace, cube_space
from mechanisms.privacy import Adjacency
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
from mechanisms.statistics.facts.defaults import bounds_of
from mechanisms.statistics.facts.readings import Atom, Reading, covers, of_columns
from mechanisms.statistics.questions import Question
from mechanisms.statistics.second_order import Jet, MomentReader
from mechanisms.statistics.total import centred_space, linear_form
from mechanisms.statistics.weights import (
    WEIGHTS,
    Weighing,
    private_rows,
    require_weights,
    weighted_form,
)

_UNIT = "records and half-widths of the columns' bounds"


@dataclass(frozen=True, slots=True, kw_only=True)
class Mean(Question):
    """Means of number or boolean columns."""

    __pydantic_config__: ClassVar[dict[str, object]] = {"extra": "forbid"}
    column_by_column: ClassVar[bool] = True
    mechanisms: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "k_norm": ("l1", "l2", "linf", "optimal"),
        "gaussian": (),
    }
    advice: ClassVar[Mapping[str, str]] = ADVICE
    clamped_to: ClassVar[frozenset[float] | None] = frozenset()  # its column's bounds
    in_unit_of_column: ClassVar[bool] = True
    example: ClassVar[Json] = {"kind": "mean", "columns": ["income", "foodexp"]}
    probes: ClassVar[tuple[Probe, ...]] = (Probe({"kind": "mean", "columns": ["x", "y"]}, ENDS),)
    error_law: ClassVar[ErrorLaw] = "linear where rows are known"
    precedes_columns: ClassVar[bool] = True
    by_design: ClassVar[Literal["mean", "total"] | None] = "mean"
    suggested: ClassVar[bool] = True

    hints: ClassVar[Mapping[str, FieldHint]] = {"clip": CLIP_HINT}

    kind: Literal["mean"] = "mean"
    columns: tuple[str, ...] = field(
        metadata=meaning("Number or boolean columns, each named once.")
    )
    weights: Weighing = field(default=None, metadata=WEIGHTS)
    clip: Clip = field(default="none", metadata=CLIP)

    def check(self, schema: Schema) -> None:
        """Raise :class:`InvalidStatisticError` when the question does not fit the schema."""
        require_clip(self.clip, self.columns, require_numbers(schema, self.columns, "columns"))
        if self.weights is not None:
            require_weights(schema, self.weights)
        public_rows(schema)

    def answer_numbers(self, _schema: Schema, /) -> int:
        """Return about how many numbers an answer has: one for each column."""
        return len(self.columns) + 1

    def possible_ranges(self, schema: Schema, _rows: float, /) -> Json:
        """Return the bounds of each column."""
        return {name: bounds_of(schema, name) for name in self.columns}

    @property
    def value_columns(self) -> tuple[str, ...]:
        """Return all columns: a mean of dates is a date."""
        return self.columns

    def column_atoms(self, _schema: Schema, /) -> Iterator[Atom]:
        """Yield each column's mean."""
        for name in self.columns:
            yield ("mean", name), Fraction(1)

    def planning_ms(self, _schema: Schema, _mechanism: str, /) -> float:
        """Return about how many milliseconds of one core a plan takes."""
        return 1 + 0.15 * len(self.columns)

    def moment_columns(self, _schema: Schema, /) -> tuple[str, ...] | None:
        """Return the columns whose moments determine the answer: all of them."""
        return self.columns

    def from_moments(
        self, reader: MomentReader, numbers: Sequence[NumberColumn], coordinates: Coordinates, /
    ) -> Tree:
        """Return the answer made of the noisy moments of more columns."""
        tree = {}
        for j, (name, column) in enumerate(zip(reader.names, numbers, strict=True)):
            scaled = reader.mean(coordinates, j).scaled(column.sum_half_width)
            mean = scaled.shifted(column.midpoint)
            if reader.rows is None:
                tree[name] = _within_bounds(column, mean)
            else:
                rounding = column.sum_error
                tree[name] = Leaf(value=mean.value, slopes=mean.slopes, rounding=rounding)
        return tree

    def reading(self, source: Statistic, schema: Schema, /) -> Reading | None:
        """Return how the answer is read off means, or off sums where n is public."""
        if covers(source, "mean", self.columns):
            return of_columns(self.columns)
        rows = public_rows(schema)
        if rows is None or self.weights or not covers(source, "sum", self.columns):
            return None
        return of_columns(self.columns, factor=Fraction(1, rows))

    def estimand(self) -> Self:
        """Return the question of the values themselves, which clamped ones miss."""
        return unclipped(self)

    def additive(self, schema: Schema) -> AdditiveForm:
        """Return the means' form: one coordinate per column, and the count where it is private."""
        if self.weights is not None:
            # The sum of the weights takes the count's place, and it is private under either
            # adjacency.
            form = replace(self, weights=None).additive(private_rows(schema))
            return weighted_form(form, schema, self.weights, total=False)
        names = self.columns
        numbers = require_numbers(schema, names, "columns")
        rows = public_rows(schema)
        if rows is not None:
            return linear_form(
                names,
                space=centred_space(len(names)),
                total=lambda data: data.gram(names)[0][1:],
                offsets=[column.midpoint for column in numbers],
                units=[column.sum_step / rows for column in numbers],
                roundings=[column.sum_error for column in numbers],
            )
        replaced = schema.adjacency is Adjacency.REPLACE_ONE
        space = any_change_space(len(names)) if replaced else add_remove_space(len(names))
        return _joint_form(names, numbers, space)


def add_remove_space(columns: int) -> AdjacentOutputSpace:
    """Return the space of the count and sums of codes where a record is added or removed."""
    return cube_space(
        1 + columns,
        half_width=Fraction(1),
        unit=SUM_MAX,
        unit_name=_UNIT,
        description="a cube: the count moves by one, each centred sum by half its width",
    )


def any_change_space(columns: int) -> AdjacentOutputSpace:
    """Return the space of the count and p sums where a record may also be replaced.

    Delta_1 = 2 p and Delta_2 = 2 sqrt(p), of a replaced record; 1 + p and sqrt(1 + p), of one that
    comes or goes, are no larger.
    """
    return AdjacentOutputSpace(
        dimension=1 + columns,
        l1=Fraction(2 * columns),
        linf=Fraction(2),
        l2_squared=Fraction(4 * columns),
        hull="other",
        norm_ball=CountedBall(Cube(columns), SUMS, hull=True),
        description=(
            "a centred sum moves by its width while the count stays, or by half of it as the "
            "count moves by one"
        ),
        negligible_structure=False,
        unit=SUM_MAX,
        unit_name=_UNIT,
    )


def _joint_form(
    names: tuple[str, ...], numbers: list[NumberColumn], space: AdjacentOutputSpace
) -> AdditiveForm:
    ratios = [_Ratio.of(column) for column in numbers]

    def total(data: Data) -> list[int]:
        gram = data.gram(names)
        return [SUM_MAX * gram[0][0], *gram[0][1:]]

    def answer(coordinates: Coordinates) -> Tree:
        return {
            name: ratio.leaf(coordinates[0], index, coordinates[index])
            for index, (name, ratio) in enumerate(zip(names, ratios, strict=True), start=1)
        }

    def reference(rows: int | None) -> Coordinates | None:
        # At a mean on a bound the count's noise weighs most: the widest the noise can be.
        return None if rows is None else [Fraction(SUM_MAX * max(rows, 1))] * (1 + len(names))

    def grid(step: Fraction) -> Json:
        return {
            "count_step": float(step / SUM_MAX),
            "sum_step": {
                name: float(column.sum_step * step)
                for name, column in zip(names, numbers, strict=True)
            },
        }

    return AdditiveForm(
        space=space,
        total=total,
        answer=answer,
        reference=reference,
        grid=grid,
        details={
            "noise": "a ratio of two noisy numbers: to first order, and wider than 95% where the "
            "noise is as large as the count; sampling error is not in it; in a preview, at a "
            "mean on its bound, where it is widest"
        },
        noise_size=len(names),
    )


@dataclass(frozen=True, slots=True)
class _Ratio:
    """The computation of a mean from a count and a sum: the same in every draw."""

    column: NumberColumn
    midpoint: Fraction
    half_width: Fraction

    @classmethod
    def of(cls, column: NumberColumn) -> _Ratio:
        return cls(column, column.midpoint, column.sum_half_width)

    def leaf(self, count: Fraction, index: int, total: Fraction) -> Leaf:
        """Return the mean from the noisy F N and sum of codes, clamped to its bounds."""
        records = at_least(count, Fraction(SUM_MAX))
        share = clamped(total / records, Fraction(-1), Fraction(1))
        slope = self.half_width / records
        value = self.midpoint + self.half_width * share
        return _within_bounds(self.column, Jet(value, {0: -slope * share, index: slope}))


def _within_bounds(column: NumberColumn, mean: Jet) -> Leaf:
    """Return a mean as a number of the answer, clamped to the bounds of its column."""
    low, high = column.lower, column.upper
    return Leaf(
        value=clamped(mean.value, low, high),
        slopes=mean.slopes,
        limits=(low, high),
        rounding=column.sum_error,
    )
