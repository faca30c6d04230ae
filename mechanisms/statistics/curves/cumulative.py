"""Quantiles that are read off cumulative counts of cells.

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
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, cast

from mechanisms.contract import Json, Noise, Outcome, Reading
from mechanisms.domain import NumberColumn
from mechanisms.exact.fractions import decimal_text
from mechanisms.statistics.cells.axes import Axis

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
