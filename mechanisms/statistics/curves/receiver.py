r"""Receiver operating characteristic curves of noisy counts, and the area below them.

    y_k = P(score >= t_k | label),   x_k = P(score >= t_k | no label),
    area = sum over neighbouring points of (x - x') (y + y') / 2

t_k the edges between the cells of the score, from (1, 1) below all of them to (0, 0) above. Records
of a cell count as tied: of a pair of them half is won (Bamber 1975).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from mechanisms.exact.floats import Floats
from mechanisms.statistics.curves.counts import (
    NoisyCounts,
    angle,
    falling,
    reach,
    share_at,
    spread_of,
)


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
