r"""Survival curves of noisy counts: the curve, its band and the median.

    S_k = prod_{j <= k} (1 - d_j / n_j)

d_j the events in the j-th cell of time and n_j the records at risk in it (Kaplan & Meier 1958). In
a cell that is one value, censored records are at risk of the events at that value. In a wider cell
they are at risk during half of it: n_j is less by half of its censored records (the actuarial
estimate, Cutler & Ederer 1958).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import log
from typing import Self

import numpy as np

from mechanisms.domain import NumberColumn
from mechanisms.exact.floats import Floats
from mechanisms.statistics.cells.axes import Axis
from mechanisms.statistics.curves.counts import (
    NoisyCounts,
    angle,
    falling,
    reach,
    rising,
    share_at,
    spread_of,
)

_LEAST = 1e-3
_FEWEST = 5.0
"""At risk: with fewer, or with no more than twice their noise, a curve is not followed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Clock:
    """The cells of time.

    ``starts`` and ``ends`` of those on the curve; the one beyond the last edge is not on it.
    ``late`` is 1/2 for a cell of several values, else 0. ``last`` is the column's upper bound.
    """

    starts: tuple[float, ...]
    ends: tuple[float, ...]
    late: Floats
    last: float

    @classmethod
    def of(cls, axis: Axis, column: NumberColumn) -> Self:
        """Return the cells of an axis of time."""
        upper = float(column.upper)
        inner = [] if axis.starts is None else [float(each) for each in axis.starts]
        starts = [float(column.lower), *inner]
        whole = column.whole or column.boolean
        closes = [*inner, upper + 1 if whole else upper]
        single = [whole and end - start == 1 for start, end in zip(starts, closes, strict=True)]
        ends = [
            start if alone else min(end, upper)
            for start, end, alone in zip(starts, closes, single, strict=True)
        ]
        shown = len(starts) - axis.labels[-1].startswith(">= ")
        return cls(
            starts=tuple(starts[:shown]),
            ends=tuple(ends[:shown]),
            late=np.where(single[:shown], 0.0, 0.5),
            last=upper,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Survival:
    """Curves of counts: arrays whose last axis is time."""

    at_risk: Floats
    events: Floats
    censored: Floats
    survival: Floats

    @classmethod
    def of(cls, counts: Floats, clock: Clock) -> Self:
        """Return the curves of counts of shape (..., cells, 2), no event first."""
        cells = len(clock.ends)
        events = np.diff(rising(np.cumsum(counts[..., 1], axis=-1)), axis=-1, prepend=0.0)
        left = falling(np.cumsum(counts.sum(axis=-1)[..., ::-1], axis=-1)[..., ::-1])
        beyond = np.concatenate([left[..., 1:], np.zeros_like(left[..., :1])], axis=-1)
        censored = np.maximum(left - beyond - events, 0.0)
        at_risk, events, lost = left[..., :cells], events[..., :cells], censored[..., :cells]
        exposed = np.maximum(np.maximum(at_risk - clock.late * lost, events), 1.0)
        return cls(
            at_risk=at_risk,
            events=events,
            censored=censored,
            survival=np.cumprod(1 - events / exposed, axis=-1),
        )

    def means(self, counts: Floats) -> Floats:
        """Return the counts that the curves stand for, of the shape of those they were made of."""
        found = np.zeros_like(counts)
        cells = self.events.shape[-1]
        found[..., 1][..., :cells] = self.events
        found[..., 0] = self.censored
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Band:
    """A simultaneous band of a curve, the standard errors, and the interval of its median.

    ``median`` is None where the curve does not fall to one half.
    """

    low: Floats
    high: Floats
    errors: Floats
    median: float | None
    median_95: tuple[float, float]
    median_error: float


def bands(noisy: NoisyCounts, clock: Clock) -> Sequence[tuple[Survival, Band]]:
    """Return each group's curve and its band."""
    released = Survival.of(noisy.counts, clock)
    means = released.means(noisy.counts)
    settled = Survival.of(means, clock)
    simulated = Survival.of(noisy.simulated(means, "bands"), clock)
    return [
        (own, _band(own, at, several, clock))
        for own, at, several in zip(
            _by_group(released, 0),
            _by_group(settled, 0),
            _by_group(simulated, 1),
            strict=True,
        )
    ]


def _by_group(curves: Survival, axis: int) -> Sequence[Survival]:
    return [
        Survival(
            at_risk=np.take(curves.at_risk, group, axis=axis),
            events=np.take(curves.events, group, axis=axis),
            censored=np.take(curves.censored, group, axis=axis),
            survival=np.take(curves.survival, group, axis=axis),
        )
        for group in range(curves.survival.shape[axis])
    ]


def _band(own: Survival, settled: Survival, simulated: Survival, clock: Clock) -> Band:
    """Return the band of one group; where too few are at risk, the curve may have fallen to 0."""
    curve = own.survival
    unsure = np.std(simulated.at_risk, axis=0)
    followed = own.at_risk >= np.maximum(_FEWEST, 2 * unsure)
    # once it is not followed it is not followed again
    followed = np.minimum.accumulate(followed)
    scaled = angle(simulated.survival) - angle(settled.survival)
    spread = spread_of(scaled, followed)
    low, high = _ends(own, spread.halves, followed)
    # A curve that only falls is inside a band that does.
    high = np.minimum.accumulate(high)
    low = np.maximum.accumulate(low[::-1])[::-1]
    single = np.quantile(np.abs(scaled), 0.95, axis=0, method="median_unbiased")
    lowest, highest = _ends(own, single, followed)
    median = _median(curve, clock)
    first, last = _median(lowest, clock), _median(highest, clock)
    ends = clock.last if first is None else first, clock.last if last is None else last
    if median is not None:
        ends = min(ends[0], median), max(ends[1], median)
    return Band(
        low=np.minimum(low, curve),
        high=np.maximum(high, curve),
        errors=np.sqrt(np.mean((simulated.survival - settled.survival) ** 2, axis=0)),
        median=median,
        median_95=ends,
        median_error=(ends[1] - ends[0]) / 4,
    )


def _ends(own: Survival, halves: Floats, followed: Floats) -> tuple[Floats, Floats]:
    """Return the ends of intervals this wide about a curve's angles.

    They allow for events that none of few records has shown.
    """
    middle, unseen = angle(own.survival), reach(own.at_risk)
    before = np.concatenate([[1.0], own.survival[:-1]])
    low, high = share_at(middle - halves), share_at(middle + halves)
    low = np.minimum(low, np.maximum(own.survival - unseen * before, 0.0))
    high = np.maximum(high, np.minimum(own.survival + unseen * before, 1.0))
    return np.where(followed, low, 0.0), np.where(followed, high, 1.0)


def _falls(curve: Floats) -> int | None:
    """Return the first cell in which a curve is one half or less."""
    below = np.flatnonzero(curve <= 0.5)
    return int(below[0]) if len(below) else None


def _median(curve: Floats, clock: Clock) -> float | None:
    """Return when a curve falls to one half, by a constant hazard in a cell of several values."""
    at = _falls(curve)
    if at is None:
        return None
    start, end = clock.starts[at], clock.ends[at]
    before = 1.0 if at == 0 else float(curve[at - 1])
    if clock.late[at] == 0 or before <= curve[at]:
        return end
    # a curve that falls to 0 in a cell has no constant hazard there
    after = max(float(curve[at]), _LEAST)
    return start + (end - start) * log(before / 0.5) / log(before / after)
