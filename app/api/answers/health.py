"""The bodies of the probes' answers."""

from __future__ import annotations

from app.api.answers.base import Answer
from app.services.health import Readiness


class StatusAnswer(Answer):
    """The answer of a probe."""

    status: str
    """One word: what the probe found."""


class ReadinessAnswer(StatusAnswer):
    """The answer of a service that can make releases."""

    anchor: str
    """What would notice an older database put in place of this one: a `directory`, one
    `inside the data directory`, a `database`, or none (`off`)."""
    anchor_shares_device: bool
    """Whether it is on the ledger's own disk: who puts both back together is not noticed."""
    replica: str
    """Whether public pages are `read` of a replica, or of the ledger's own database because the
    replica is `away`, or because there is none (`off`)."""


def liveness_answer() -> StatusAnswer:
    """Return what a process says that answers."""
    return StatusAnswer(status="alive")


def readiness_answer(found: Readiness) -> ReadinessAnswer:
    """Return what a service says that can make releases."""
    return ReadinessAnswer(
        status="ready",
        anchor=found.anchor,
        anchor_shares_device=found.anchor_shares_device,
        replica=found.replica,
    )
