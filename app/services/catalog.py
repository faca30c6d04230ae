"""The catalog: everything on offer, as the mechanisms declare it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from mechanisms.catalog import offers


class CatalogService:
    """Lists statistic x mechanism x norm; computed once, it never changes."""

    def __init__(self) -> None:
        self.offers: Sequence[dict[str, object]] = tuple(asdict(offer) for offer in offers())
