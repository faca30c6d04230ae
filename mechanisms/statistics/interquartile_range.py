"""The interquartile range of one column: how far apart its quartiles are.

    answer = q(3/4) - q(1/4),   q the released quantiles, drawn together for the whole epsilon

*Drawn* are both quartiles, by the mechanisms of :mod:`quantile`: jointly, or one by one. Points of
several levels are sorted before they are released, so the answer is 0 or more.

**Privacy.** The difference is a function of the released quartiles, so it is post-processing (Awan
& Slavkovic, Proposition 2.11): it has their guarantee, under either adjacency. The sensitivity is
that of their joint score, 2 under replace-one and ``2 (1 - 1/4)`` under add-remove, or that of one
level's gradient, 1 and 3/4; sampler and theorem are those of the mechanism's quantiles.

*Derived.* It follows from any release of quantiles of the column that has both levels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, cast

from mechanisms.contract import Json, Outcome, Reading, Statistic, meaning, require_numbers
from mechanisms.domain import Schema
from mechanisms.exact.fractions import as_written
from mechanisms.privacy import Adjacency
from mechanisms.probes import MIDDLE, NEAR, Probe
from mechanisms.statistics.facts.defaults import width_of
from mechanisms.statistics.quantile import Quantile
from mechanisms.statistics.questions import Question

LOWER, UPPER = 0.25, 0.75
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
    lies_among_values: ClassVar[bool] = True
    rows_for_each_draw: ClassVar[bool] = True

    kind: Literal["interquartile_range"] = "interquartile_range"
    column: str = field(metadata=meaning("A number or boolean column."))

    def check(self, schema: Schema) -> None:
        """Raise :class:`InvalidStatisticError` when the question does not fit the schema."""
        require_numbers(schema, [self.column], "column")

    def planning_ms(self, _schema: Schema, _mechanism: str, /) -> float:
        """Return about how many milliseconds of one core a plan takes."""
        return 1.0

    def possible_ranges(self, schema: Schema, _rows: float, /) -> Json:
        """Return none to the width of the column's bounds."""
        return {self.column: [0.0, width_of(schema, self.column)]}

    def drawn_by(self) -> Statistic:
        """Return the question of both quartiles."""
        return Quantile(column=self.column, levels=(LOWER, UPPER))

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
            return Outcome(value={self.column: float(high - low)}, noise=None)

        return read
