"""Which of many samples have digests in common with another one, found in one pass."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from app.uploads.samples import Digests

_NOBODY = np.zeros(0, dtype=np.intp)


class Pool:
    """Several samples, put in order together once.

    Parameters
    ----------
    samples
        Digests; each sample holds each of its own once.
    """

    def __init__(self, samples: Sequence[Digests]) -> None:
        found = np.concatenate([np.zeros(0, dtype=np.uint64), *samples])
        owners = np.repeat(np.arange(len(samples)), [len(each) for each in samples])
        order = np.argsort(found, kind="stable")
        self._found, self._owners = found[order], owners[order]
        self._samples = len(samples)

    def common(self, digests: Digests) -> NDArray[np.intp]:
        """Return how many of these digests each sample has."""
        starts = self._found.searchsorted(digests)
        stops = self._found.searchsorted(digests, side="right")
        some = (stops > starts).nonzero()[0].tolist()
        runs = [self._owners[starts[place] : stops[place]] for place in some]
        owners = np.concatenate([_NOBODY, *runs])
        return np.bincount(owners, minlength=self._samples)

    def sharing(self, digests: Digests, least: int) -> Sequence[int]:
        """Return the places of the samples that have at least ``least`` of these digests."""
        found: list[int] = (self.common(digests) >= least).nonzero()[0].tolist()
        return found


def in_both(one: Digests, other: Digests) -> int:
    """Return how many digests are in both samples, which are in order and hold each once."""
    few, many = (one, other) if len(one) <= len(other) else (other, one)
    places = many.searchsorted(few)
    # Any place will do for what would be behind the last one: it is not what lies there.
    places[places == len(many)] = 0
    return int(np.count_nonzero(many[places] == few)) if len(many) else 0
