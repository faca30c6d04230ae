"""Cox regression: hazard ratios of a time to an event on bounded columns.

The baseline hazard is constant within public intervals of time.
:mod:`mechanisms.objectives.exponential` has the likelihood, which is a sum over records, and proves
Theorem 5.1's bounds for it. theta has a number for each interval, then one for each feature:

    s_k = theta_k + x'theta_features + o + log(C share_k) - 2,

o an offset less the middle of its bounds, or 0; s_k the log of the hazard of the whole k-th
interval, share_k its part of the time that is covered. The ridge then pulls the cumulative hazard
towards C / 7.4 where slopes are 0, evenly over time.
Logarithms are public, and rounded to 2**-16. In units of time the log of the hazard is
s_k less the log of the interval's length.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import pairwise
from typing import ClassVar, Literal, Self

import numpy as np

from mechanisms.contract import (
    Block,
    FieldHint,
    InvalidStatisticError,
    Json,
    Outcome,
    meaning,
    require_column,
    require_numbers,
)
from mechanisms.domain import CODE_MAX, NumberColumn, Schema, exact
from mechanisms.exact.floats import Floats
from mechanisms.exact.fractions import as_written
from mechanisms.probes import FACING, Probe
from mechanisms.statistics.cells.axes import Edges, about_cells, axis_of
from mechanisms.statistics.cells.spelling import spelled_edges
from mechanisms.statistics.curves.counts import equal_cells, place_text
from mechanisms.statistics.curves.survival import Clock
from mechanisms.statistics.designs.features import (
    Features,
    count_columns,
    settled_features,
)
from mechanisms.statistics.designs.formula import read_formula
from mechanisms.statistics.designs.regression import (
    HINTS,
    SHARE_HINT,
    OfFeatures,
    features_field,
    of_formula,
    offset_bounds,
    require_offset,
    require_share,
    share_field,
)
from mechanisms.statistics.designs.scaling import (
    RegressionScaling,
    ScaledColumn,
    coefficient_ranges,
    public_log,
)
from mechanisms.statistics.questions import Question, widened
from mechanisms.statistics.weights import LOSS_WEIGHTS, Weighing
from mechanisms.words import worded

_LARGEST_RATE = Fraction(3)  # it moves the hazard by a factor of 400 between the bounds
_START = Fraction(2)
_INTERVALS = 10
_LEAST_CEILING, LARGEST_CEILING = 1, Fraction(20)
_SURVIVAL = re.compile(r"\s*Surv\(\s*(`[^`]+`|[\w.]+)\s*,\s*(`[^`]+`|[\w.]+)\s*\)\s*~")
_PROBED: Json = {
    "kind": "cox_regression",
    "time": "x",
    "event": "yes",
    "edges": {"x": [-1, 0, 1]},
    "features": ["y"],
    "bound": 1,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class CoxRegression(OfFeatures):
    """Hazard ratios of a time to an event, with a baseline that is constant within intervals."""

    __pydantic_config__: ClassVar[dict[str, object]] = {"extra": "forbid"}
    example: ClassVar[Json] = {
        "kind": "cox_regression",
        "time": "median_house_value",
        "event": "below_cap",
        "edges": {"median_house_value": [0, 100000, 200000, 300000, 400000, 500000]},
        "features": ["median_income", "housing_median_age"],
        "derive": {"below_cap": "median_house_value < 500001"},
        "ceiling": 5,
    }
    name: ClassVar[str] = "Cox regression"
    probes: ClassVar[tuple[Probe, ...]] = (Probe(_PROBED, FACING),)
    hints: ClassVar[Mapping[str, FieldHint]] = {
        **HINTS,
        "time": FieldHint(
            "Time", "How long a record was followed: a number column.", columns="amounts"
        ),
        "event": FieldHint(
            "Event",
            "A yes-or-no column: whether the event happened then; derive one if need be.",
            columns="flags",
        ),
        "formula": FieldHint(
            "Formula",
            "In place of time, event and features, as R writes it. A star is an interaction: "
            "Surv(days, died) ~ age * arm.",
        ),
        "ceiling": FieldHint(
            "Ceiling of the cumulative hazard", "Between 1 and 20. Empty: 3.", rare=True
        ),
        "offset": FieldHint(
            "Offset",
            "Added to the log of the hazard with the coefficient 1.",
            rare=True,
            columns="numbers",
        ),
        "q": SHARE_HINT,
    }
    ratios: ClassVar[str] = "hazard_ratios"
    reason_of_bias: ClassVar[str] = worded(
        "cumulative hazards beyond the ceiling are clipped. A larger ceiling clips less, and takes "
        "more noise."
    )
    intercept: ClassVar[bool] = True
    """Each interval has a constant: factors are coded as next to one."""

    kind: Literal["cox_regression"] = "cox_regression"
    time: str | None = field(
        default=None,
        metadata=meaning(
            "A number column: until when a record was followed, until its event or until it was "
            "last seen. Not a date; derive a duration from dates.",
            example="days",
        ),
    )
    event: str | None = field(
        default=None,
        metadata=meaning(
            "A boolean column: whether the event happened at that time. Derive one from a "
            'category, as in `{"died": "status == \'dead\'"}`.',
            example="died",
        ),
    )
    edges: Mapping[str, Edges] = field(
        default_factory=dict,
        metadata=meaning(
            "The intervals of the time within which the baseline hazard is constant: increasing "
            'edges within the column\'s bounds, `{"step": 30}`, or `"values"` for one for each '
            "whole number. A time at an edge belongs to the interval before it. Records are "
            "followed up to the last edge. Without edges there are ten intervals of one length "
            "between the column's public bounds.",
            example={"days": [0, 90, 180, 365]},
        ),
    )
    features: Features | None = field(
        default=None,
        metadata=features_field("At most 100 coefficients, one for each interval included."),
    )
    ceiling: float = field(
        default=3.0,
        metadata=meaning(
            "The largest cumulative hazard of a record in the model, between 1 and 20; beyond it "
            "hazards are clipped. exp(-ceiling) is the least probability of no event. Noise is "
            "proportional to it.",
            example=3,
        ),
    )
    offset: str | None = field(
        default=None,
        metadata=meaning(
            "A number column that is added to the log of the hazard with the coefficient 1, as the "
            "log of a hazard that another study has. Null for none.",
            example="log_risk",
        ),
    )
    bound: float | None = field(
        default=None,
        metadata=meaning(
            "Limit of the l1 norm of the coefficients in scaled columns (each on [-1, 1]), those "
            "of the intervals included. Between 0.000001 and 1000000. Null is no limit.",
            example=10,
        ),
    )
    q: float | Literal["auto"] = field(default="auto", metadata=share_field())
    formula: str | None = field(
        default=None,
        metadata=meaning(
            "In place of `time`, `event` and `features`: Surv(time, event) ~ features as R writes "
            "it, with `+ - : * ^`, `I()`, `log()`, `C(column, ref=value)` and `offset()` in place "
            "of `offset`. It is stored and answered as those fields.",
            example="Surv(days, died) ~ age + C(arm)",
        ),
    )
    weights: Weighing = field(default=None, metadata=LOSS_WEIGHTS)

    def __post_init__(self) -> None:
        Question.__post_init__(self)
        if self.formula is not None:
            self._take_formula(self.formula)
        for name in ("time", "event", "features"):
            if getattr(self, name) is None:
                raise InvalidStatisticError("is required, or a formula is", field_name=name)
        # the class is frozen, and is being made
        object.__setattr__(self, "features", settled_features(self.features or ()))

    def _take_formula(self, text: str) -> None:
        """Set the fields that a formula stands for."""
        if (self.time, self.event, self.features) != (None, None, None):
            raise InvalidStatisticError(
                "a formula holds time, event and features: leave those out", field_name="formula"
            )
        left = _SURVIVAL.match(text)
        if left is None:
            raise InvalidStatisticError(
                "a formula is Surv(time, event) ~ features, as in Surv(days, died) ~ age + arm",
                field_name="formula",
            )
        time, event = (each.strip("`") for each in left.groups())
        # of the same length, so that places in messages are those of the text
        found = read_formula("y".ljust(left.end() - 1) + "~" + text[left.end() :])
        if not found.intercept:
            raise InvalidStatisticError(
                "each interval of time has its own constant: it cannot be taken away",
                field_name="formula",
            )
        values = {
            "time": time,
            "event": event,
            "features": found.features,
            "formula": None,
            **of_formula(self, found),
        }
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def spelled(self, schema: Schema, /) -> Mapping[str, object]:
        """Return the fields that have several spellings, each in one."""
        wider = widened(self, schema)
        given = {**self.edges, str(self.time): self._edges(wider)}
        edges = {name: spelled_edges(each, name, wider) for name, each in given.items()}
        return {**OfFeatures.spelled(self, schema), "edges": edges}

    @property
    def columns(self) -> tuple[str, ...]:
        """Return the columns of the time and the event."""
        return str(self.time), str(self.event)

    def check(self, schema: Schema) -> None:
        """Raise :class:`InvalidStatisticError` when the question does not fit the schema."""
        self._check_columns(schema)
        self.require_usual(schema, self.scaling(schema).dimension)
        if not (_LEAST_CEILING <= self.ceiling <= LARGEST_CEILING):
            raise InvalidStatisticError("must lie between 1 and 20", field_name="ceiling")
        require_share(self.q)

    def _check_columns(self, schema: Schema) -> None:
        if not self.names:
            raise InvalidStatisticError("name at least one feature", field_name="features")
        event = require_column(schema, str(self.event), "event")
        if not (isinstance(event, NumberColumn) and event.boolean):
            raise InvalidStatisticError(
                f"{self.event} is not a boolean column: derive one, as in "
                f'"derive": {{"happened": "{self.event} == ..."}}',
                field_name="event",
            )
        require_offset(schema, self.offset, self.columns, self.names)
        if set(self.columns) & set(self.names):
            raise InvalidStatisticError(
                "the time or the event is also a feature", field_name="features"
            )
        if other := next((name for name in self.edges if name != self.time), None):
            raise InvalidStatisticError(
                f"edges are for the time, and {other} is not it", field_name="edges"
            )

    def times(self, schema: Schema) -> tuple[Fraction, ...]:
        """Return where the intervals begin, and where the last one ends.

        Raises
        ------
        InvalidStatisticError
            The time is no amount, or the edges do not fit its column.
        """
        column = self._time(schema)
        clock = Clock.of(axis_of(str(self.time), column, self._edges(schema)), column)
        return tuple(Fraction(each) for each in sorted({*clock.starts, clock.ends[-1]}))

    def _edges(self, schema: Schema) -> Edges:
        """Return the edges that are given, or those of intervals between the public bounds."""
        given = self.edges.get(str(self.time))
        return equal_cells(self._time(schema), _INTERVALS) if given is None else given

    def _time(self, schema: Schema) -> NumberColumn:
        [column] = require_numbers(schema, [str(self.time)], "time")
        if column.timed is not None or column.boolean:
            raise InvalidStatisticError(
                f"{self.time} is no amount: name a number column, or derive a duration",
                field_name="time",
            )
        return column

    def marks(self, schema: Schema) -> HazardMarks:
        """Return the reader of what a record was exposed to, and when its event was."""
        return HazardMarks(
            str(self.time), str(self.event), tuple(float(each) for each in self.times(schema))
        )

    def estimand(self) -> Self:
        """Return the question with the largest ceiling, beyond which hardly a hazard is clipped."""
        return replace(self, ceiling=float(LARGEST_CEILING))

    def answer_numbers(self, schema: Schema, /) -> int:
        """Return about how many numbers an answer has: two for each feature, one an interval."""
        time = str(self.time)
        return 2 * len(self.features or ()) + about_cells(
            self.edges.get(time, ()), schema.columns.get(time)
        )

    def relation(self) -> tuple[str, tuple[str, ...]] | None:
        """Return the time as explained by the features."""
        return str(self.time), self.names

    def possible_ranges(self, schema: Schema, _rows: float, /) -> Json:
        """Return up to 3 in the log of the hazard, shared by equally strong features."""
        scaling = self.scaling(schema)
        plain = coefficient_ranges(scaling.plain, largest=_LARGEST_RATE, bound=self.exact_bound)
        return scaling.ranges(plain["coefficients"])  # type: ignore[arg-type]

    def planning_ms(self, schema: Schema, _mechanism: str, /) -> float:
        """Return about how many milliseconds of one core a plan takes."""
        return 10 + 0.01 * count_columns(self.features or (), schema) ** 2

    @property
    def exact_ceiling(self) -> Fraction:
        """Return C as the decimal it was written as."""
        return as_written(self.ceiling)

    def scaling(self, schema: Schema) -> HazardScaling:
        """Return the public maps between theta and the answer."""
        plain = RegressionScaling.build(schema, features=self.names, target=None, intercept=True)
        middle, _ = offset_bounds(schema, self.offset)
        return HazardScaling(plain, self.times(schema), self.exact_ceiling, middle)

    def offset_width(self, schema: Schema) -> Fraction | None:
        """Return by how much half of the offset's bounds moves s; None without an offset."""
        return None if self.offset is None else offset_bounds(schema, self.offset)[1]


@dataclass(frozen=True, slots=True)
class HazardScaling:
    """The public maps: a number of theta for each interval of time, then one for each feature.

    ``middle`` is that of the offset's bounds, 0 without one.
    """

    plain: RegressionScaling
    times: tuple[Fraction, ...]
    ceiling: Fraction
    middle: Fraction = Fraction(0)

    @property
    def dimension(self) -> int:
        """Return d."""
        return len(self.intervals) + len(self.features)

    @property
    def features(self) -> tuple[ScaledColumn, ...]:
        """Return the scaled columns."""
        return self.plain.features

    @property
    def target(self) -> None:
        """Return None: a time is not scaled."""
        return None

    @property
    def intercept(self) -> bool:
        """Return that columns are centred."""
        return True

    @property
    def columns(self) -> tuple[str, ...]:
        """Return the columns that are read as numbers."""
        return self.plain.columns

    @property
    def intervals(self) -> tuple[str, ...]:
        """Return what the intervals' numbers are called."""
        return tuple(f"(hazard to {place_text(float(end))})" for end in self.times[1:])

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of the d coefficients, in theta's order."""
        return (*self.intervals, *(column.name for column in self.features))

    @property
    def starts(self) -> tuple[Fraction, ...]:
        """Return s_k at theta 0, where the offset's code is 0."""
        whole = self.times[-1] - self.times[0]
        return tuple(
            public_log(self.ceiling * (end - start) / whole) - _START
            for start, end in pairwise(self.times)
        )

    def unscale(self, theta: Sequence[Fraction]) -> dict[str, Fraction]:
        """Return coefficients in column units, exactly, from theta (length d)."""
        count = len(self.intervals)
        slopes = self.plain.unscale((Fraction(0), *theta[count:]))
        shift = slopes.pop("(intercept)")
        moved = zip(self.intervals, self._levels, theta, strict=False)
        return {name: level + move + shift for name, level, move in moved} | slopes

    def scaled(self, coefficients: Mapping[str, Fraction]) -> list[Fraction]:
        """Return the theta that these coefficients stand for, exactly."""
        slopes = {column.name: coefficients[column.name] for column in self.features}
        shift, *theta = self.plain.scaled({"(intercept)": Fraction(0), **slopes})
        levels = zip(self.intervals, self._levels, strict=True)
        return [*(coefficients[name] - level + shift for name, level in levels), *theta]

    @property
    def _levels(self) -> tuple[Fraction, ...]:
        """Return the log of the hazard in each interval, in units of time, at theta 0."""
        lengths = (public_log(end - start) for start, end in pairwise(self.times))
        return tuple(
            start - length - self.middle for start, length in zip(self.starts, lengths, strict=True)
        )

    def released(self, theta: Sequence[Fraction]) -> Outcome:
        """Return the answer made of sanitized coefficients, whose noise has no stated law."""
        value = {name: float(exact) for name, exact in self.unscale(theta).items()}
        return Outcome(value={"coefficients": value}, noise=None)

    def grid(self, step: Fraction, *, intercept: bool = False) -> Json:
        """Return the steps of the coefficients where theta lies on a grid of this step."""
        plain = self.plain.grid(step)
        own = dict.fromkeys(self.intervals, float(step)) if intercept else {}
        return {**plain, "coefficients": {**own, **plain["coefficients"]}}  # type: ignore[dict-item]

    def ranges(self, plain: Mapping[str, Sequence[float]]) -> Json:
        """Return the ranges of all numbers, given those of a regression with an intercept."""
        low, high = plain["(intercept)"]
        whole = self.times[-1] - self.times[0]
        middle = float(public_log(self.ceiling / whole) - _START - self.middle)
        slopes = {name: each for name, each in plain.items() if name != "(intercept)"}
        return {
            "coefficients": {
                **{name: [middle + low, middle + high] for name in self.intervals},
                **slopes,
            },
        }


@dataclass(frozen=True, slots=True)
class HazardMarks:
    """Reads the exposures E_1, ..., E_K of each record, and in which interval its event was.

    An exposure is rounded to a multiple of 1/F, record by record. An event after the last interval
    is none; one at or before the first begins is in the first.
    """

    time: str
    event: str
    times: tuple[float, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        """Return the names of the columns that are read."""
        return exact(self.time), exact(self.event)

    @property
    def width(self) -> int:
        """Return how many marks a record has."""
        return len(self.times)

    def __call__(self, block: Block) -> Floats:
        """Return the marks, (K + 1) x n."""
        time = block[exact(self.time)].astype(np.float64)
        found = np.zeros((self.width, len(time)))
        for at, (start, end) in enumerate(pairwise(self.times)):
            share = np.clip((time - start) / (end - start), 0.0, 1.0)
            found[at] = np.rint(share * CODE_MAX) / CODE_MAX
        place = np.searchsorted(np.array(self.times[1:]), time, side="left") + 1
        happened = (block[exact(self.event)] > 0) & (place < self.width)
        found[-1] = np.where(happened, place, 0)
        return found
