"""The receiver operating characteristic of a score: how well it separates those with a label.

The curve is read off one histogram of cells of the score by label, and by group, as
:mod:`mechanisms.statistics.curves.receiver` says. A record is in one cell, so sensitivities, hulls
and theorem are those of :mod:`mechanisms.statistics.histogram`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Literal

from mechanisms.contract import FieldHint, Inference, Json, Outcome, Term, meaning
from mechanisms.domain import Schema
from mechanisms.exact.floats import Floats
from mechanisms.probes import ENDS, Probe
from mechanisms.statistics.cells.axes import Edges
from mechanisms.statistics.curves.counts import (
    METHOD,
    NoisyCounts,
    OfTwoColumns,
    ReadGroups,
    place_text,
)
from mechanisms.statistics.curves.receiver import Bands, Receiver, bands

_METHOD = (
    f"{METHOD}. The intervals of the rates hold at all thresholds together with 95%, that of the "
    "area by itself; scores of one cell count as equal"
)
_RATES = ("false_positive", "true_positive")


@dataclass(frozen=True, slots=True, kw_only=True)
class Roc(OfTwoColumns):
    """The curve of true and false positives of a score, with bands, and the area below it."""

    __pydantic_config__: ClassVar[dict[str, object]] = {"extra": "forbid"}
    counted: ClassVar[tuple[str, str]] = ("score", "label")
    example: ClassVar[Json] = {
        "kind": "roc",
        "score": "median_income",
        "label": "dear",
        "edges": {"median_income": {"step": 1}},
        "derive": {"dear": "median_house_value > 200000"},
    }
    name: ClassVar[str] = "ROC curve"
    probes: ClassVar[tuple[Probe, ...]] = (
        Probe({"kind": "roc", "score": "x", "label": "yes", "edges": {"x": [-1, 0, 1]}}, ENDS),
    )
    hints: ClassVar[Mapping[str, FieldHint]] = {
        "score": FieldHint(
            "Score", "A number column: the larger, the likelier.", columns="amounts"
        ),
        "label": FieldHint(
            "Label", "A yes-or-no column that the score is to predict.", columns="flags"
        ),
    }

    kind: Literal["roc"] = "roc"
    score: str = field(
        metadata=meaning(
            "A number column: the larger it is, the likelier the label.", example="risk"
        )
    )
    label: str = field(
        metadata=meaning(
            "A boolean column that the score is to predict. Derive one from a category, as in "
            '`{"ill": "status == \'ill\'"}`.',
            example="ill",
        )
    )
    edges: Mapping[str, Edges] = field(
        default_factory=dict,
        metadata=meaning(
            "The cells of the score, as a histogram takes them: increasing edges within the "
            'column\'s bounds, `{"step": 0.1}`, or `"values"` for a cell for each whole number. '
            "The edges between cells are the thresholds. Without edges there are 50 cells of one "
            "width between the column's public bounds.",
            example={"risk": {"step": 0.1}},
        ),
    )

    def answer_numbers(self, schema: Schema, /) -> int:
        """Return two numbers for each threshold, and one for the area."""
        return 2 * len(self._thresholds(schema)) + 1

    def possible_ranges(self, schema: Schema, _rows: float, /) -> Json:
        """Return none to all, of each rate and of the area."""
        ends = [0.0, 1.0]
        rates = dict.fromkeys(_RATES, ends)
        return {"curve": [rates for _ in self._thresholds(schema)], "area": ends}

    def _thresholds(self, schema: Schema) -> list[float]:
        starts = self.histogram(schema).axes(schema)[0].starts
        return [] if starts is None else [float(each) for each in starts]

    def curves(self, counts: Floats, schema: Schema, /) -> Json:
        """Return the answer to counts of shape (..., cells, 2), with arrays for its numbers."""
        return self._answer(Receiver.of(counts), schema)

    def _answer(self, curves: Receiver, schema: Schema) -> Json:
        def shown(numbers: Floats) -> object:
            return numbers if numbers.ndim else float(numbers)

        x, y = curves.false_positive, curves.true_positive
        return {
            "curve": [
                {
                    "threshold": place_text(threshold),
                    "false_positive": shown(x[..., place]),
                    "true_positive": shown(y[..., place]),
                }
                for place, threshold in enumerate(self._thresholds(schema))
            ],
            "area": shown(curves.area),
        }

    def read(self, noisy: NoisyCounts, schema: Schema, /) -> ReadGroups:
        """Return each group's curve and intervals."""
        found = [
            Outcome(self._answer(curve, schema), None, self._inference(curve, each, schema))
            for curve, each in bands(noisy)
        ]
        return ReadGroups(found, {})

    def _inference(self, curve: Receiver, found: Bands, schema: Schema) -> Inference:
        rates = (curve.false_positive, curve.true_positive)
        terms = [
            Term(
                term=f"{name.replace('_', ' ')} at {place_text(threshold)}",
                estimate=float(rates[which][at]),
                std_error=float(found.errors[which, at]),
                confidence_95=(float(found.low[which, at]), float(found.high[which, at])),
                place=("curve", at, name),
            )
            for at, threshold in enumerate(self._thresholds(schema))
            for which, name in enumerate(_RATES)
        ]
        area = Term(
            term="area",
            estimate=float(curve.area),
            std_error=found.area_error,
            confidence_95=found.area_95,
            place=("area",),
        )
        return Inference(terms=(*terms, area), method=_METHOD)
