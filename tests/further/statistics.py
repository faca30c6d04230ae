"""Two statistics that the library does not have: one additive, one read off another's answer.

Each is what the guide asks for: one class. :func:`register` is the line in the registry.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from mechanisms.contract import (
    FieldHint,
    Json,
    NearZero,
    Outcome,
    Reading,
    Statistic,
    meaning,
    require_numbers,
)
from mechanisms.domain import Schema
from mechanisms.probes import ENDS, MIDDLE, Probe
from mechanisms.statistics import registry
from mechanisms.statistics.additive import AdditiveForm
from mechanisms.statistics.facts.defaults import width_of
from mechanisms.statistics.quantile import Quantile
from mechanisms.statistics.questions import Question
from mechanisms.statistics.total import Sum


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally(Question):
    """Total of one number column, with a remark."""

    __pydantic_config__: ClassVar[dict[str, object]] = {"extra": "forbid"}
    mechanisms: ClassVar[Mapping[str, tuple[str, ...]]] = {"k_norm": ("l1",)}
    example: ClassVar[Json] = {"kind": "tally", "column": "income"}
    probes: ClassVar[tuple[Probe, ...]] = (Probe({"kind": "tally", "column": "x"}, ENDS),)
    near_zero: ClassVar[NearZero] = "nothing"
    name: ClassVar[str] = "grand total"
    hints: ClassVar[Mapping[str, FieldHint]] = {
        "remark": FieldHint("Remark", "Any words.", rare=True)
    }

    kind: Literal["tally"] = "tally"
    column: str = field(metadata=meaning("A number column."))
    remark: str = field(default="", metadata=meaning("Any words.", example="of 2020"))

    def check(self, schema: Schema) -> None:
        """Raise an error where the question does not fit."""
        require_numbers(schema, [self.column], "column")

    def planning_ms(self, _schema: Schema, _mechanism: str, /) -> float:
        """Return about how long a plan takes."""
        return 1.0

    def possible_ranges(self, schema: Schema, rows: float, /) -> Json:
        """Return none to the width of the bounds for each row."""
        return {self.column: [0.0, rows * width_of(schema, self.column)]}

    def additive(self, schema: Schema) -> AdditiveForm:
        """Return the form of a sum."""
        return Sum(columns=(self.column,)).additive(schema)


@dataclass(frozen=True, slots=True, kw_only=True)
class DecileRange(Question):
    """How far apart the outer deciles of a number column are."""

    __pydantic_config__: ClassVar[dict[str, object]] = {"extra": "forbid"}
    mechanisms: ClassVar[Mapping[str, tuple[str, ...]]] = {"kng": Quantile.mechanisms["kng"]}
    example: ClassVar[Json] = {"kind": "decile_range", "column": "income"}
    probes: ClassVar[tuple[Probe, ...]] = (Probe({"kind": "decile_range", "column": "x"}, MIDDLE),)
    lies_among_values: ClassVar[bool] = True

    kind: Literal["decile_range"] = "decile_range"
    column: str = field(metadata=meaning("A number column."))

    def check(self, schema: Schema) -> None:
        """Raise an error where the question does not fit."""
        require_numbers(schema, [self.column], "column")

    def planning_ms(self, _schema: Schema, _mechanism: str, /) -> float:
        """Return about how long a plan takes."""
        return 1.0

    def possible_ranges(self, schema: Schema, _rows: float, /) -> Json:
        """Return none to the width of the bounds."""
        return {self.column: [0.0, width_of(schema, self.column)]}

    def drawn_by(self) -> Statistic:
        """Return the question of both deciles."""
        return Quantile(column=self.column, levels=(0.1, 0.9))

    def reading(self, source: Statistic, _schema: Schema, /) -> Reading | None:
        """Return how it is read off both deciles."""
        if source != self.drawn_by():
            return None

        def read(answer: Outcome) -> Outcome:
            quantiles: Any = answer.value["quantiles"]
            return Outcome({self.column: quantiles[1]["value"] - quantiles[0]["value"]}, None)

        return read


def register() -> None:
    """Add both to the registry, before anything has read it."""
    registry.SINGLE_STATISTICS |= {"tally": Tally, "decile_range": DecileRange}
