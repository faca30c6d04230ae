"""Sums of number columns.

*Replace-one*: T_j = sum of sum codes a, each centred at the column's midpoint, so a
person moves every entry by at most 2F, F = ``SUM_MAX``; the sum is ``n M + s T``, n public, s the
``sum_step``.

*Add-remove, or with the count private*: a record contributes its value or nothing. Of a column
that is summed exactly that is the whole number itself. Else, with M / s = u / v in lowest terms,
the value is ``(s / v) c``, c = u + v a an integer. Contributions run from L to U in these units.
Their reach D_j differs by column, so entries get
integer weights ``w_j = D // D_j`` which give all of them the sensitivity D.

*Weighted*: ``sum w x``, in units of w times x (:mod:`mechanisms.statistics.weights`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from math import lcm
from typing import ClassVar, Literal, Self

from mechanisms.contract import (
    Data,
    ErrorLaw,
    FieldHint,
    Json,
    NearZero,
    Statistic,
    meaning,
    require_numbers,
)
from mechanisms.domain import SUM_MAX, NumberColumn, Schema
from mechanisms.geometry.histograms import ContributionHull, contribution_hull
from mechanisms.geometry.spaces import AdjacentOutputSpace, cube_space
from mechanisms.parted import parts_of
from mechanisms.privacy import Adjacency
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
from mechanisms.statistics.cells.parting import Parting
from mechanisms.statistics.facts.clipping import (
    CLIP,
    CLIP_HINT,
    Clip,
    is_clipped,
    require_clip,
    unclipped,
)
from mechanisms.statistics.facts.defaults import bounds_of
from mechanisms.statistics.facts.readings import Atom, Reading, covers, of_columns
from mechanisms.statistics.histogram import filtered_space
from mechanisms.statistics.questions import Question
from mechanisms.statistics.second_order import MomentReader
from mechanisms.statistics.weights import (
    WEIGHTS,
    Weighing,
    private_rows,
    require_weights,
    weighted_form,
)
from mechanisms.words import worded

# The weights share the least common multiple of all reaches while it has at most _MOST_BITS
# bits; beyond, a D that overstates no sensitivity by more than one part in 2**100.
_MOST_BITS = 256
_SLACK_BITS = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Sum(Question):
    """Sums of number or boolean columns, over the records that meet ``where``."""

    __pydantic_config__: ClassVar[dict[str, object]] = {"extra": "forbid"}
    column_by_column: ClassVar[bool] = True
    mechanisms: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "k_norm": ("l1", "l2", "linf", "optimal"),
        "gaussian": (),
    }
    advice: ClassVar[Mapping[str, str]] = ADVICE
    in_unit_of_column: ClassVar[bool] = True
    example: ClassVar[Json] = {"kind": "sum", "columns": ["population", "households"]}
    probes: ClassVar[tuple[Probe, ...]] = (Probe({"kind": "sum", "columns": ["x", "y"]}, ENDS),)
    error_law: ClassVar[ErrorLaw] = "linear"
    near_zero: ClassVar[NearZero] = "nothing"
    no_inference: ClassVar[str] = worded(
        "a sum is of the records of this data set, and estimates no number of a population: a mean "
        "does, and has intervals"
    )
    by_design: ClassVar[Literal["mean", "total"] | None] = "total"
    stated_fields: ClassVar[frozenset[str]] = frozenset({"where"})

    hints: ClassVar[Mapping[str, FieldHint]] = {"clip": CLIP_HINT}

    kind: Literal["sum"] = "sum"
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

    def answer_numbers(self, _schema: Schema, /) -> int:
        """Return about how many numbers an answer has: one for each column."""
        return len(self.columns) + 1

    def possible_ranges(self, schema: Schema, rows: float, /) -> Json:
        """Return what all rows at one of the bounds, or none, add up to."""
        most = rows * (1.0 if self.weights is None else bounds_of(schema, self.weights)[1])
        ends = {name: bounds_of(schema, name) for name in self.columns}
        return {
            name: [min(0.0, most * low), max(0.0, most * high)]
            for name, (low, high) in ends.items()
        }

    def column_atoms(self, schema: Schema, /) -> Iterator[Atom]:
        """Yield each column's sum; where the row count is public, that many times its mean."""
        rows = schema.known_rows
        for name in self.columns:
            if rows is None:
                yield ("sum", name), Fraction(1)
            else:
                yield ("mean", name), Fraction(rows)

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
        sums = reader.sums(coordinates)
        tree = {}
        for j, (name, column) in enumerate(zip(reader.names, numbers, strict=True), start=1):
            total = sums[0, 0].scaled(column.midpoint) + sums[0, j].scaled(column.sum_half_width)
            rounding = max(sums[0, 0].value, Fraction(0)) * column.sum_error
            tree[name] = Leaf(value=total.value, slopes=total.slopes, rounding=rounding)
        return tree

    def reading(self, source: Statistic, schema: Schema, /) -> Reading | None:
        """Return how the answer is read off sums, or off means where n is public."""
        if covers(source, "sum", self.columns):
            return of_columns(self.columns)
        rows = public_rows(schema)
        if rows is None or self.weights or not covers(source, "mean", self.columns):
            return None
        return of_columns(self.columns, factor=Fraction(rows))

    def estimand(self) -> Self:
        """Return the question of the values themselves, which clamped ones miss."""
        return unclipped(self)

    def additive(self, schema: Schema) -> AdditiveForm:
        """Return the sums' form: one coordinate per column."""
        if self.weights is not None:
            form = replace(self, weights=None).additive(private_rows(schema))
            return weighted_form(form, schema, self.weights, total=True)
        numbers = require_numbers(schema, self.columns, "columns")
        rows = public_rows(schema)
        if rows is not None:
            return self._centred(rows, numbers)
        return self._contributed(schema, numbers)

    def additive_in_groups(self, parting: Parting, schema: Schema) -> AdditiveForm | None:
        """Return the sums of all groups as one vector; None where their hull is not known."""
        columns = require_numbers(schema, self.columns, "columns")
        part = Contribution.of(columns[0], replace=True)
        optional = part.starts_at_zero or bool(self.where)
        own = self.weights is not None or is_clipped(self) or len(columns) > 1
        if own or not (part.has_one_sign and optional):
            return None
        (name,) = self.columns
        rounding = most_rows(schema) * columns[0].sum_error

        def total(data: Data) -> list[int]:
            sums = [each.gram((name,))[0] for each in parts_of(data, parting)]
            return [part.total(count, codes) for count, codes in sums]

        def answer(coordinates: Coordinates) -> Tree:
            sums = [
                {name: Leaf(value=part.unit * value, slopes={place: part.unit}, rounding=rounding)}
                for place, value in enumerate(coordinates)
            ]
            labelled = zip(parting.labels, sums, strict=True)
            return {"groups": [{"by": labels, "value": value} for labels, value in labelled]}

        return AdditiveForm(
            space=filtered_space(
                parting.cells, unit=part.reach, unit_name="largest contributions of one record"
            ),
            total=total,
            answer=answer,
            reference=constant_slopes(parting.cells),
            grid=lambda step: {"step": {name: float(part.unit * step)}},
            details={},
            noise_size=parting.cells,
            linear=True,
        )

    def _centred(self, rows: int, numbers: list[NumberColumn]) -> AdditiveForm:
        names = self.columns
        return linear_form(
            names,
            space=centred_space(len(names)),
            total=lambda data: data.gram(names)[0][1:],
            offsets=[rows * column.midpoint for column in numbers],
            units=[column.sum_step for column in numbers],
            roundings=[rows * column.sum_error for column in numbers],
        )

    def _contributed(self, schema: Schema, numbers: list[NumberColumn]) -> AdditiveForm:
        replace = schema.adjacency is Adjacency.REPLACE_ONE
        parts = [Contribution.of(column, replace=replace) for column in numbers]
        shared = lcm(*(part.reach for part in parts))
        if shared.bit_length() <= _MOST_BITS:
            reach = shared
        else:
            reach = max(part.reach for part in parts) << _SLACK_BITS
        weights = [reach // part.reach for part in parts]

        def total(data: Data) -> list[int]:
            count, *sums = data.gram(self.columns)[0]
            return [
                weight * part.total(count, codes)
                for weight, part, codes in zip(weights, parts, sums, strict=True)
            ]

        crossing = {part.crosses_zero for part in parts}
        whole = len(parts) == 1 or (
            crossing == {True} if replace else all(part.low == -part.high for part in parts)
        )
        ranges = [
            (Fraction(weight * part.low, reach), Fraction(weight * part.high, reach))
            for weight, part in zip(weights, parts, strict=True)
        ]
        return linear_form(
            self.columns,
            space=_reach_space(
                len(parts),
                reach,
                hull=None if whole else contribution_hull(ranges, replace=replace),
                is_cube=whole,
                corner=not replace or len(crossing) == 1,
            ),
            total=total,
            offsets=[Fraction(0)] * len(parts),
            units=[part.unit / weight for part, weight in zip(parts, weights, strict=True)],
            roundings=[most_rows(schema) * column.sum_error for column in numbers],
        )


@dataclass(frozen=True, slots=True)
class Contribution:
    """A column's integer contribution ``c = (u + v a) / g``, its unit, and how far it reaches.

    ``a`` is a sum code; g is a common divisor of all contributions.
    """

    offset: int
    factor: int
    divisor: int
    unit: Fraction
    reach: int
    low: int
    high: int

    @property
    def starts_at_zero(self) -> bool:
        """Return whether contributions run from nothing to the reach, in one direction."""
        return 0 in (self.low, self.high)

    @property
    def has_one_sign(self) -> bool:
        """Return whether no two contributions cancel."""
        return self.low >= 0 or self.high <= 0

    @property
    def crosses_zero(self) -> bool:
        """Return whether a record may contribute nothing by its value alone."""
        return self.low <= 0 <= self.high

    @classmethod
    def of(cls, column: NumberColumn, *, replace: bool) -> Contribution:
        ratio = column.midpoint / column.sum_step
        # What is summed exactly contributes whole numbers.
        divisor = int(1 / column.sum_step) if column.sum_error == 0 else 1
        unit = column.sum_step * divisor / ratio.denominator
        low, high = int(column.lower / unit), int(column.upper / unit)
        # Replace-one moves within {0} and [low, high]; add-remove from 0 into it.
        span = max(high, 0) - min(low, 0)
        reach = span if replace else max(abs(low), abs(high))
        return cls(ratio.numerator, ratio.denominator, divisor, unit, reach, low, high)

    def total(self, count: int, codes: int) -> int:
        """Return the sum of contributions of ``count`` records whose sum codes sum to ``codes``."""
        return (self.offset * count + self.factor * codes) // self.divisor


def most_rows(schema: Schema) -> int:
    """Return the public bound on how many records are summed; 0 where the library has none."""
    rows = schema.rows if schema.adjacency is Adjacency.REPLACE_ONE else schema.max_rows
    return rows or 0


def centred_space(dimension: int) -> AdjacentOutputSpace:
    """Return the space of sums of codes under replace-one: the cube of half-width 2F."""
    return cube_space(
        dimension,
        half_width=Fraction(2),
        unit=SUM_MAX,
        unit_name="half-widths of the columns' bounds",
        description="a cube: each column's sum moves by at most the width of its bounds",
    )


def _reach_space(
    dimension: int, reach: int, *, hull: ContributionHull | None, is_cube: bool, corner: bool
) -> AdjacentOutputSpace:
    """Return the space of weighted contributions: within the unit cube.

    Where S_T reaches a corner of it, l1 and l2 sensitivities are exact
    (Proposition 3.3), else upper bounds. The hull is the cube only where every
    combination of signs is reached, else that of :mod:`mechanisms.geometry.histograms`.
    """
    return AdjacentOutputSpace(
        dimension=dimension,
        l1=Fraction(dimension),
        linf=Fraction(1),
        l2_squared=Fraction(dimension),
        bounds_only=frozenset() if corner else frozenset({"l1", "l2"}),
        hull="cube" if is_cube else "other",
        norm_ball=hull,
        description=(
            "the cube of one record's largest contributions"
            if is_cube
            else "one record's contributions come or go, within the cube of the largest"
        ),
        negligible_structure=is_cube,
        unit=reach,
        unit_name="largest contributions of one record",
    )


def linear_form(
    names: tuple[str, ...],
    *,
    space: AdjacentOutputSpace,
    total: Callable[[Data], list[int]],
    offsets: list[Fraction],
    units: list[Fraction],
    roundings: list[Fraction],
) -> AdditiveForm:
    """Return the form whose answer is ``{name: offset + unit * coordinate}``.

    ``roundings`` are what sum codes may differ by from values, in all.
    """
    slopes = [{index: unit} for index, unit in enumerate(units)]

    def answer(coordinates: Coordinates) -> Tree:
        return {
            name: Leaf(value=offset + unit * value, slopes=slope, rounding=rounding)
            for name, offset, unit, value, slope, rounding in zip(
                names, offsets, units, coordinates, slopes, roundings, strict=True
            )
        }

    return AdditiveForm(
        space=space,
        total=total,
        answer=answer,
        reference=constant_slopes(space.dimension),
        grid=lambda step: {
            "step": {name: float(unit * step) for name, unit in zip(names, units, strict=True)}
        },
        details={},
        noise_size=len(names),
        linear=True,
    )
