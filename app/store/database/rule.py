"""One rule between rows; :mod:`app.store.database.rules` renders it as a trigger."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Event = Literal["INSERT", "UPDATE", "DELETE"]


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule: a row of ``table`` passes ``event`` only where ``holds`` is true.

    ``holds`` is a condition on ``NEW`` and ``OLD``; None lets nothing pass.
    ``message`` is the error of the refused statement.
    """

    name: str
    table: str
    event: Event
    holds: str | None
    message: str
