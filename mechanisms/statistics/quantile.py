"""Quantiles of one column.

The objective is the check loss, whose gradient at t is ``#{y_i <= t} - tau n``:
a record contributes ``1{y <= t} - tau``, which is ``1 - tau`` or ``-tau``.

*Sensitivity.* Replacing a record changes the gradient by at most 1, whatever
tau; adding or removing one by at most ``max(tau, 1 - tau)``. (KNG section 4.5
prints ``2 (1 - tau)``, which is not private for tau above 1/2.)

*Base measure.* A quantile's law is ``P(t) proportional to nu(t) exp(-rate * score(t))``. Under
``uniform`` nu counts the cells of the column's grid, which are of one width. In a column whose
bounds are a million times as wide as its values, nearly all of them are beyond the data, and where
few records have a larger value, as in a tail, that mass outweighs their score. Under ``log`` nu
gives an interval the difference of asinh(x / s): linear within s of 0, logarithmic beyond, of
either sign, on the candidates of :mod:`mechanisms.grids`. The *scale s* is the standard deviation
that the curator stated as typical of the column, at least 2**-40 of the largest bound. Without one
it is the column's step: 1 for whole numbers, else a cell of its grid. All of it is public.

*Weighted*: ``sum of w over y <= t`` in place of the count, and ``sum w`` in place of n, in units of
the largest weight. Both sensitivities are as above (:mod:`mechanisms.statistics.weights`).

Quantiles that are read off cumulative counts of cells.

*Rule.* The records of a cell are taken to be spread evenly over it. Let F_k be the released number
of records in cells 1 to k, which never falls with k, and n = F_K. The quantile of level t is in the
first cell with ``F_k >= t n``, at the share ``(t n - F_{k-1}) / (F_k - F_{k-1})`` of its width; of
whole numbers, at the whole number there.

*Interval.* Where every F_k lies in its interval [l_k, h_k], the quantile of the records so spread
is between the place where h reaches ``t l_K`` and the place where l reaches ``t h_K``.

**Privacy.** Functions of a released answer and of public edges: post-processing (Awan & Slavkovic,
Proposition 2.11).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise
from typing import Any, ClassVar, Literal, cast

import numpy as np

from mechanisms.contract import (
    ErrorLaw,
    FieldHint,
    InvalidStatisticError,
    Json,
    Noise,
    Outcome,
    Place,
    Reading,
    Statistic,
    meaning,
    require_numbers,
)
from mechanisms.domain import NumberColumn, Schema
from mechanisms.exact.fractions import as_written, decimal_text, has_decimals
from mechanisms.privacy import Adjacency
from mechanisms.probes import MIDDLE, NEAR, Probe
from mechanisms.statistics.cells.axes import Axis
from mechanisms.statistics.facts.defaults import bounds_of
from mechanisms.statistics.histogram import InOrder
from mechanisms.statistics.questions import Question
from mechanisms.statistics.weights import WEIGHTS, Weighing, require_weights

BaseMeasure = Literal["auto", "uniform", "log"]
BASE_MEASURE_HINT = FieldHint(
    "Base measure", "Of candidates.", rare=True, options={"log": "logarithmic"}
)

MAX_LEVELS = 100
MOST_DECIMALS = 9

_LEAST_SCALE = Fraction(1, 1 << 40)  # of the largest bound
_WIDE = 10**6  # a bound that no value reaches
_NARROW = 100  # times as wide as what is usual are such bounds
_GAIN = 10
_TYPICAL_STDS = 2


def base_measure_field() -> Json:
    """Return the catalog's text on the base measure."""
    return meaning(
        "How candidates are weighed where records do not decide. `uniform`: evenly between the "
        "bounds. `log`: evenly in asinh(x / s), which errs far less in tails where bounds are much "
        "wider than values; s is the standard deviation stated as typical of the column, or else "
        "its step. `auto` takes `log` where public facts say that bounds are so wide.",
        example="auto",
    )


_MEDIAN: Json = {"kind": "quantile", "column": "x", "levels": [0.5]}


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantile(Question):
    """Quantiles of a number or boolean column at the given levels.

    By the K-norm gradient mechanism several levels are drawn jointly (norm l1) or one by
    one with an equal part of epsilon each (norm linf). Norm auto takes the one whose
    ranks miss by less, which is jointly but for a few levels close together under
    add-remove, and one by one where epsilon is small for the public bound on rows.
    """

    __pydantic_config__: ClassVar[dict[str, object]] = {"extra": "forbid"}
    mechanisms: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "kng": ("linf", "l1"),
        "exponential": (),
    }
    advice: ClassVar[Mapping[str, str]] = {
        "kng": "Norm l1 draws several levels jointly (Gillenwater, Joseph and Kulesza 2021): the "
        "better one for nearly every set of levels, the more so the more there are. Norm linf "
        "draws them one by one with an equal part of epsilon each: better for a few levels close "
        "together under add_remove, and where epsilon is small for the public bound on rows. A "
        "preview compares both for the levels asked for. With weights levels are drawn one by one. "
        "For very many levels a histogram with fine edges is one release that answers them all.",
        "exponential": "Permute-and-flip, one level after the other with an equal part of epsilon "
        "each: for a single level never worse than the exponential mechanism; for several the "
        "joint draw of kng usually misses by less.",
    }
    example: ClassVar[Json] = {"kind": "quantile", "column": "income", "levels": [0.1, 0.5, 0.9]}
    probes: ClassVar[tuple[Probe, ...]] = (
        Probe(_MEDIAN, MIDDLE),
        Probe(_MEDIAN, NEAR, adjacency=Adjacency.ADD_REMOVE.value),
    )
    hints: ClassVar[Mapping[str, FieldHint]] = {
        "levels": FieldHint(
            "Levels", "Between 0 and 1, with commas between them: 0.25, 0.5, 0.75."
        ),
        "base_measure": BASE_MEASURE_HINT,
    }
    in_unit_of_column: ClassVar[bool] = True
    error_law: ClassVar[ErrorLaw] = "ranks"
    lies_among_values: ClassVar[bool] = True
    rows_for_each_draw: ClassVar[bool] = True
    usual_inference: ClassVar[str] = "1/4"

    kind: Literal["quantile"] = "quantile"
    column: str = field(metadata=meaning("A number or boolean column."))
    levels: tuple[float, ...] = field(
        metadata=meaning(
            "Distinct levels strictly between 0 and 1, with at most 9 decimals; at most 100. "
            "0.5 is the median."
        )
    )
    base_measure: BaseMeasure = field(default="auto", metadata=base_measure_field())
    weights: Weighing = field(default=None, metadata=WEIGHTS)

    def check(self, schema: Schema) -> None:
        """Raise :class:`InvalidStatisticError` when the question does not fit the schema."""
        (column,) = require_numbers(schema, [self.column], "column")
        require_scale(column, self.base_measure)
        if self.weights is not None:
            require_weights(schema, self.weights)
        self.exact_levels()

    def answer_numbers(self, _schema: Schema, /) -> int:
        """Return about how many numbers an answer has: one for each level."""
        return len(self.levels) + 1

    def possible_ranges(self, schema: Schema, _rows: float, /) -> Json:
        """Return the bounds of the column, for each level."""
        ends = bounds_of(schema, self.column)
        return {"quantiles": [{"value": ends}] * len(self.levels)}

    @property
    def value_columns(self) -> tuple[str, ...]:
        """Return the column: a quantile of dates is a date."""
        return (self.column,)

    def column_at(self, place: Place, /) -> str | None:
        """Return the column for each quantile; a level is no value of it."""
        return self.column if place and place[-1] == "value" else None

    def planning_ms(self, _schema: Schema, _mechanism: str, /) -> float:
        """Return about how many milliseconds of one core a plan takes."""
        return 1.0

    def reading(self, source: Statistic, schema: Schema, /) -> Reading | None:
        """Return how quantiles are read off the cumulative counts of the column, if those are."""
        axis = source.ordered_axis(self.column, schema) if isinstance(source, InOrder) else None
        if axis is None:
            return None
        column = cast(NumberColumn, schema.columns[self.column])
        return quantiles_of(axis, column, self.exact_levels())

    def exact_levels(self) -> tuple[Fraction, ...]:
        """Return the levels as the decimals they were written as.

        Raises
        ------
        InvalidStatisticError
            None or too many, out of range, too fine, or repeated.
        """
        if not 1 <= len(self.levels) <= MAX_LEVELS:
            raise _invalid(f"give between 1 and {MAX_LEVELS} levels")
        levels = tuple(_exact_level(level) for level in self.levels)
        if len(set(levels)) != len(levels):
            raise _invalid("a level is given twice")
        return levels


def scale_of(
    column: NumberColumn, wanted: BaseMeasure, levels: Sequence[Fraction]
) -> Fraction | None:
    """Return s of the base measure that draws these levels of a column; None for the uniform one.

    ``auto`` takes ``log`` where it gives the values that are usual at least ten times the mass that
    ``uniform`` does, and a level's tail faces what is not usual: the upper one of levels from 1/2
    on, the lower one of those up to 1/2. Usual is what lies within two standard deviations of what
    the curator stated as typical. Where nothing is stated, bounds of a million or more are taken
    for wider than any value, and what is within a hundredth of them for usual. Dates, moments and
    booleans have no logarithmic scale.
    """
    if wanted == "uniform" or not has_log_scale(column):
        return None
    scale = _scale(column)
    if wanted == "log":
        return scale
    usual = _usual(column)
    if usual is None or not _faces(column, usual, levels):
        return None
    uniform = float((usual[1] - usual[0]) / (column.upper - column.lower))
    return scale if _share(column, scale, *usual) >= _GAIN * uniform else None


def _faces(
    column: NumberColumn, usual: tuple[Fraction, Fraction], levels: Sequence[Fraction]
) -> bool:
    """Return whether the tail of a level faces bounds far from what is usual."""
    low, high = usual
    far = _GAIN * (high - low)
    above, below = column.upper - high > far, low - column.lower > far
    middle = Fraction(1, 2)
    return (above and max(levels) >= middle) or (below and min(levels) <= middle)


def require_scale(column: NumberColumn, wanted: BaseMeasure) -> None:
    """Raise :class:`InvalidStatisticError` where ``log`` is wanted and there is no such scale."""
    if wanted == "log" and not has_log_scale(column):
        raise InvalidStatisticError(
            "log is for numbers: dates, moments and booleans have no size; ask for auto or uniform",
            field_name="base_measure",
        )


def has_log_scale(column: NumberColumn) -> bool:
    """Return whether distances from 0 mean something in a column."""
    return column.timed is None and not column.boolean


def _scale(column: NumberColumn) -> Fraction:
    if column.typical is not None:
        return max(column.typical.std, column.extent * _LEAST_SCALE)
    return Fraction(1) if column.whole else column.grid.step


def _usual(column: NumberColumn) -> tuple[Fraction, Fraction] | None:
    """Return between which values most are, by public facts; None where nothing says so."""
    if column.typical is not None:
        middle, reach = column.typical.mean, _TYPICAL_STDS * column.typical.std
    elif column.extent >= _WIDE:
        middle, reach = Fraction(0), column.extent / _NARROW
    else:
        return None
    low, high = max(middle - reach, column.lower), min(middle + reach, column.upper)
    return (low, high) if low < high else None


def _share(column: NumberColumn, scale: Fraction, low: Fraction, high: Fraction) -> float:
    """Return which share of the measure ``log`` an interval has."""
    ends = [float(end / scale) for end in (column.lower, low, high, column.upper)]
    first, below, above, last = np.arcsinh(ends).tolist()
    return float((above - below) / (last - first))


def gradient_sensitivity(level: Fraction, adjacency: Adjacency) -> Fraction:
    """Return the exact Delta of ``#{y <= t} - level * n``: 1, or max(level, 1 - level)."""
    return Fraction(1) if adjacency is Adjacency.REPLACE_ONE else max(level, 1 - level)


def joint_sensitivity(levels: Sequence[Fraction], adjacency: Adjacency) -> Fraction:
    """Return the exact Delta of the joint score: 2, or 2 (1 - smallest gap).

    The gaps are those between neighbouring levels, 0 and 1 included.
    """
    if adjacency is Adjacency.REPLACE_ONE:
        return Fraction(2)
    edges = (Fraction(0), *sorted(levels), Fraction(1))
    return 2 * (1 - min(after - before for before, after in pairwise(edges)))


def _exact_level(level: float) -> Fraction:
    if not 0 < level < 1:  # also refuses NaN
        raise _invalid("levels must lie strictly between 0 and 1")
    exact = as_written(level)
    if not has_decimals(exact, MOST_DECIMALS):
        raise _invalid("levels must have at most 9 decimals")
    return exact


def _invalid(detail: str) -> InvalidStatisticError:
    return InvalidStatisticError(detail, field_name="levels")


# Quantiles that are read off cumulative counts of cells

_QUARTERS = 4
"""Standard deviations in the width of a 95% interval, about."""


def quantiles_of(axis: Axis, column: NumberColumn, levels: Sequence[Fraction]) -> Reading:
    """Return how quantiles are read off cumulative counts; those of higher levels are not lower."""
    places = _Places.of(axis, column)

    def read(answer: Outcome) -> Outcome:
        curve = _cumulative(answer.value)
        values = [places.at(level * Fraction(curve[-1]), curve) for level in levels]
        value = _answer(levels, values)
        if answer.noise is None:
            return Outcome(value=value, noise=None)
        ends = _cumulative(answer.noise.interval_95)
        low, high = ([end[side] for end in ends] for side in (0, 1))
        intervals = [
            [
                min(places.at(level * Fraction(low[-1]), high), each),
                max(places.at(level * Fraction(high[-1]), low), each),
            ]
            for level, each in zip(levels, values, strict=True)
        ]
        widths = [(last - first) / _QUARTERS for first, last in intervals]
        noise = Noise(std=_answer(levels, widths), interval_95=_answer(levels, intervals))
        return Outcome(value=value, noise=noise)

    return read


def _cumulative(answer: Json) -> list[Any]:
    return [each["cumulative"] for each in cast(Sequence[Mapping[str, Any]], answer["cells"])]


def _answer(levels: Sequence[Fraction], numbers: Sequence[object]) -> Json:
    return {
        "quantiles": [
            {"level": decimal_text(level), "value": number}
            for level, number in zip(levels, numbers, strict=True)
        ]
    }


@dataclass(frozen=True, slots=True)
class _Places:
    """Where cells begin and end; of whole numbers a cell ends before the next one's first."""

    ends: tuple[float, ...]
    whole: bool

    @classmethod
    def of(cls, axis: Axis, column: NumberColumn) -> _Places:
        whole = column.whole
        inner = [] if axis.starts is None else [float(each) for each in axis.starts]
        upper = float(column.upper) + 1 if whole else float(column.upper)
        return cls((float(column.lower), *inner, upper), whole)

    def at(self, wanted: Fraction, curve: Sequence[float]) -> float | int:
        """Return the value up to which there are as many records as wanted."""
        below = 0.0
        for cell, count in enumerate(curve):
            if count >= wanted and count > below:
                share = (float(wanted) - below) / (count - below)
                return self._inside(cell, min(max(share, 0.0), 1.0))
            below = max(below, count)
        return self._inside(len(curve) - 1, 1.0)

    def _inside(self, cell: int, share: float) -> float | int:
        start, end = self.ends[cell], self.ends[cell + 1]
        place = start + share * (end - start)
        return int(min(place, end - 1)) if self.whole else place
