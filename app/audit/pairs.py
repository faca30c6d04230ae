"""Which neighbours each offer is tried with: those that its statistic names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mechanisms.catalog import STATISTICS
from mechanisms.probes import COLUMNS, Pair, Probe

# What is on offer: each statistic by each mechanism and norm, under each adjacency

_NO_NORM = "auto"


@dataclass(frozen=True, slots=True)
class Offer:
    """One line of the catalog under one adjacency; the norm is ``auto`` where there is none."""

    statistic: str
    mechanism: str
    norm: str
    adjacency: str

    def __str__(self) -> str:
        return "/".join((self.statistic, self.mechanism, self.norm, self.adjacency))

    def is_meant_by(self, wish: str) -> bool:
        """Return whether each part of a wish such as ``mean/l1`` names a part of this offer."""
        return set(wish.split("/")) <= set(str(self).split("/"))


def offers_in(catalog: Iterable[Mapping[str, Any]], wishes: Sequence[str]) -> list[Offer]:
    """Return the catalog's offers that a wish means; without a wish all of them."""
    every = [
        Offer(line["statistic"], line["mechanism"], norm, adjacency)
        for line in catalog
        for norm in line["norms"] or [_NO_NORM]
        for adjacency in line["adjacencies"]
    ]
    return [
        offer for offer in every if not wishes or any(offer.is_meant_by(wish) for wish in wishes)
    ]


# Which neighbours each offer is tried with: those that its statistic names

__all__ = ["ADD_REMOVE", "COLUMNS", "MAX_ROWS", "Pair", "Probe", "probe_of"]

ADD_REMOVE = "add_remove"
MAX_ROWS = 100  # any public bound above the pairs' own few rows


def probe_of(offer: Offer) -> Probe | None:
    """Return what an offer is tried with; None of one that is not known here.

    The narrowest is taken: one for its mechanism before one for its adjacency.
    """
    statistic = STATISTICS.get(offer.statistic)
    meant = [
        probe
        for probe in (() if statistic is None else statistic.probes)
        if probe.mechanism in (None, offer.mechanism) and probe.adjacency in (None, offer.adjacency)
    ]
    narrow = [(probe.mechanism is not None, probe.adjacency is not None) for probe in meant]
    return meant[narrow.index(max(narrow))] if meant else None
