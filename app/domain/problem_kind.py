"""What a kind of refusal is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class ProblemKind:
    """One sort of refusal: its code, HTTP status, title, meaning and remedy.

    ``extras`` names the additional members a problem of this kind carries,
    each with its meaning. ``retry_after_s`` is sent as ``Retry-After``.
    """

    code: str
    status: int
    title: str
    meaning: str
    remedy: str
    extras: Mapping[str, str] = field(default_factory=dict)
    retry_after_s: int | None = None
