"""The interquartile range of one column: how far apart its quartiles are.

    answer = q(3/4) - q(1/4),   q the released quantiles, drawn together for the whole epsilon

*Drawn* are both quartiles, by the mechanisms of :mod:`quantile`: jointly, or one by one. Points of
several levels are sorted before they are released, so the answer is 0 or more.

**Privacy.** The difference is a function of the released quartiles, so it is post-processing (Awan
& Slavkovic, Proposition 2.11): it has their guarantee, under either adjacency. The sensitivity is
that of their joint score, 2 under replace-one and ``2 (1 - 1/4)`` under add-remove, or that of one
level's gradient, 1 and 3/4; sampler and theorem are those of the mechanism's quantiles.

*Its interval* is made of those of the quartiles, if these were asked for, as that of a difference
of independent numbers (Zou & Donner 2008). Errors of two quartiles of the same rows are positively
correlated, so it is rather too wide.

*Derived.* It follows from any release of quantiles of the column that has both levels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import hypot
from typing import Any, ClassVar, Literal, cast

from mechanisms.contract import (
    ErrorLaw,
    FieldHint,
    Inference,
    Json,
    Outcome,
    Reading,
    Statistic,
    Term,
    meaning,
)
from mechanisms.domain import Schema
from mechanisms.exact.fractions import as_written
from mechanisms.privacy import Adjacency
from mechanisms.probes import MIDDLE, NEAR, Probe
from mechanisms.statistics.facts.defaults import width_of
from mechanisms.statistics.quantile import (
    BASE_MEASURE_HINT,
    BaseMeasure,
    Quantile,
    base_measure_field,
)
from mechanisms.statistics.questions import Question
from mechanisms.statistics.weights import WEIGHTS, Weighing

LOWER, UPPER = 0.25, 0.75
_Z = 1.959964  # the 97.5% quantile of a normal variable
_METHOD = "The interval of the difference is made of those of both quartiles"
_PROBED: Json = {"kind": "interquartile_range", "column": "x"}


@dataclass(frozen=True, slots=True, kw_only=True)
class InterquartileRange(Question):
    """Difference of the quartiles of a number or boolean column."""

    __pydantic_config__: ClassVar[dict[str, object]] = {"extra": "forbid"}
    mechanisms: ClassVar[Mapping[str, tuple[str, ...]]] = Quantile.mechanisms
    advice: ClassVar[Mapping[str, str]] = {
        "kng": "Norm l1 draws both quartiles jointly, norm linf one by one with half of epsilon "
        "each. A preview compares both.",
        "exponential": "Permute-and-flip, one quartile after the other with half of epsilon each.",
    }
    example: ClassVar[Json] = {"kind": "interquartile_range", "column": "income"}
    probes: ClassVar[tuple[Probe, ...]] = (
        Probe(_PROBED, MIDDLE),
        Probe(_PROBED, NEAR, adjacency=Adjacency.ADD_REMOVE.value),
    )
    hints: ClassVar[Mapping[str, FieldHint]] = {"base_measure": BASE_MEASURE_HINT}
    in_unit_of_column: ClassVar[bool] = True
    error_law: ClassVar[ErrorLaw] = "ranks"
    lies_among_values: ClassVar[bool] = True
    rows_for_each_draw: ClassVar[bool] = True

    kind: Literal["interquartile_range"] = "interquartile_range"
    column: str = field(metadata=meaning("A number or boolean column."))
    base_measure: BaseMeasure = field(default="auto", metadata=base_measure_field())
    weights: Weighing = field(default=None, metadata=WEIGHTS)

    def check(self, schema: Schema) -> None:
        """Raise :class:`InvalidStatisticError` when the question does not fit the schema."""
        self.drawn_by().check(schema)

    def planning_ms(self, _schema: Schema, _mechanism: str, /) -> float:
        """Return about how many milliseconds of one core a plan takes."""
        return 1.0

    def possible_ranges(self, schema: Schema, _rows: float, /) -> Json:
        """Return none to the width of the column's bounds."""
        return {self.column: [0.0, width_of(schema, self.column)]}

    def drawn_by(self) -> Quantile:
        """Return the question of both quartiles."""
        return Quantile(
            column=self.column,
            levels=(LOWER, UPPER),
            base_measure=self.base_measure,
            weights=self.weights,
        )

    def reading(self, source: Statistic, _schema: Schema, /) -> Reading | None:
        """Return how the answer is read off quantiles of the column, if both quartiles are there.

        The law of the noise is not known, as that of the quantiles is not.
        """
        if not (isinstance(source, Quantile) and source.column == self.column):
            return None
        if not {LOWER, UPPER} <= set(source.levels):
            return None
        places = [source.levels.index(level) for level in (LOWER, UPPER)]

        def read(answer: Outcome) -> Outcome:
            quantiles = cast(Sequence[Mapping[str, Any]], answer.value["quantiles"])
            low, high = (as_written(quantiles[place]["value"]) for place in places)
            # The exact difference of decimals, rounded once; of dates it counts days, or seconds.
            range_ = float(high - low)
            return Outcome(
                value={self.column: range_},
                noise=None,
                inference=_inference(self.column, range_, answer.inference, places),
            )

        return read


def _inference(
    name: str, answer: float, quantiles: Inference | None, places: Sequence[int]
) -> Inference | None:
    """Return the interval of the difference of two quartiles, from theirs; None without those."""
    if quantiles is None:
        return None
    found = {term.place: term for term in quantiles.terms}
    terms = [found.get(("quantiles", place, "value")) for place in places]
    if not all(each and isinstance(each.estimate, float | int) for each in terms):
        return None
    lower, upper = cast(Sequence[Term], terms)
    (a, b), (c, d) = (
        [float(as_written(end)) for end in each.confidence_95] for each in (lower, upper)
    )
    low, high = (float(as_written(each.estimate)) for each in (lower, upper))
    least = max(answer - hypot(high - c, b - low), 0.0)
    most = answer + hypot(d - high, low - a)
    term = Term(
        term=name,
        estimate=answer,
        std_error=(most - least) / (2 * _Z),
        confidence_95=(least, most),
        place=(name,),
        open=lower.open and upper.open,
    )
    return Inference(terms=(term,), method=f"{quantiles.method}. {_METHOD}", cost=quantiles.cost)
