"""What is on offer: each statistic by each mechanism and norm, under each adjacency."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

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
