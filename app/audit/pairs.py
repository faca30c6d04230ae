"""Which neighbours each offer is tried with: those that its statistic names."""

from __future__ import annotations

from app.audit.offers import Offer
from mechanisms.catalog import STATISTICS
from mechanisms.probes import COLUMNS, Pair, Probe

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
