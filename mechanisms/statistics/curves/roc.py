r"""The receiver operating characteristic of a score: how well it separates those with a label.

    y_k = P(score >= t_k | label),   x_k = P(score >= t_k | no label),
    area = sum over neighbouring points of (x - x') (y + y') / 2

t_k the edges between the cells of the score, from (1, 1) below all of them to (0, 0) above. Records
of a cell count as tied: of a pair of them half is won (Bamber 1975).

The curve is read off one histogram of cells of the score by label, and by group. A record is in one
cell, so sensitivities, hulls and theorem are those of :mod:`mechanisms.statistics.histogram`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal, Self

import numpy as np

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
    angle,
    falling,
    place_text,
    reach,
    share_at,
    spread_of,
)
from mechanisms.statistics.weights import WEIGHTS, Weighing

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

    weights: Weighing = field(default=None, metadata=WEIGHTS)

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


# The curve and its bands


@dataclass(frozen=True, slots=True, kw_only=True)
class Receiver:
    """Curves of counts, arrays whose last axis are thresholds, ascending; and their areas.

    ``tails`` are counts at or above the start of each cell, shape (..., cells, 2).
    """

    tails: Floats
    false_positive: Floats
    true_positive: Floats
    area: Floats

    @classmethod
    def of(cls, counts: Floats) -> Self:
        """Return the curves of counts of shape (..., cells, 2), those without the label first."""
        left = np.cumsum(counts[..., ::-1, :], axis=-2)[..., ::-1, :]
        tails = np.moveaxis(falling(np.moveaxis(left, -1, -2)), -1, -2)
        shares = tails / np.maximum(tails[..., :1, :], 1.0)
        x, y = shares[..., 0], shares[..., 1]
        # to (0, 0), above the last cell; from (1, 1) even where hardly a record is left
        x, y = (np.concatenate([each, np.zeros_like(each[..., :1])], axis=-1) for each in (x, y))
        x[..., 0] = y[..., 0] = 1.0
        area = ((x[..., :-1] - x[..., 1:]) * (y[..., :-1] + y[..., 1:]) / 2).sum(axis=-1)
        return cls(tails=tails, false_positive=x[..., 1:-1], true_positive=y[..., 1:-1], area=area)

    def means(self) -> Floats:
        """Return the counts that the curves stand for."""
        beyond = np.concatenate([self.tails[..., 1:, :], 0 * self.tails[..., :1, :]], axis=-2)
        return np.asarray(self.tails - beyond)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bands:
    """Simultaneous intervals of both rates at all thresholds, and the interval of the area.

    ``low``, ``high`` and ``errors`` have shape (2, thresholds): false positives first.
    """

    low: Floats
    high: Floats
    errors: Floats
    area_95: tuple[float, float]
    area_error: float


def bands(noisy: NoisyCounts) -> Sequence[tuple[Receiver, Bands]]:
    """Return each group's curve and its intervals."""
    released = Receiver.of(noisy.counts)
    means = released.means()
    settled = Receiver.of(means)
    simulated = Receiver.of(noisy.simulated(means, "bands"))
    found = []
    for group in range(len(noisy.counts)):
        own = _of_group(released, group)
        exact, several = _of_group(settled, group), _of_group(simulated, group)
        found.append((own, _bands(own, exact, several)))
    return found


def _of_group(curves: Receiver, group: int) -> Receiver:
    """Return one group's curves; groups are the first axis of one, and the second of several."""
    return Receiver(
        tails=curves.tails[..., group, :, :],
        false_positive=curves.false_positive[..., group, :],
        true_positive=curves.true_positive[..., group, :],
        area=curves.area[..., group],
    )


def _rates(curves: Receiver) -> Floats:
    return np.concatenate([curves.false_positive, curves.true_positive], axis=-1)


def _bands(own: Receiver, exact: Receiver, simulated: Receiver) -> Bands:
    rates, exacts, several = _rates(own), _rates(exact), _rates(simulated)
    spread = spread_of(angle(several) - angle(exacts))
    # rates of so few records may be this far off where none was seen beyond a threshold
    few = np.repeat(reach(own.tails[0]), own.false_positive.size)
    low = np.minimum(share_at(angle(rates) - spread.halves), np.maximum(rates - few, 0.0))
    high = np.maximum(share_at(angle(rates) + spread.halves), np.minimum(rates + few, 1.0))
    off = angle(simulated.area) - angle(exact.area)
    half = float(np.quantile(np.abs(off), 0.95, method="median_unbiased") + abs(np.mean(off)))
    middle, unseen = angle(own.area), float(few.max()) / 4
    area = float(own.area)
    ends = (
        min(float(share_at(middle - half)), max(area - unseen, 0.0)),
        max(float(share_at(middle + half)), min(area + unseen, 1.0)),
    )
    return Bands(
        low=low.reshape(2, -1),
        high=high.reshape(2, -1),
        errors=np.sqrt(np.mean((several - exacts) ** 2, axis=0)).reshape(2, -1),
        area_95=ends,
        area_error=float(np.sqrt(np.mean((simulated.area - exact.area) ** 2))),
    )
