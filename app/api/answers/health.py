"""The bodies of the probes' answers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import Metric
from prometheus_client.registry import Collector
from starlette.responses import Response

from app.api.answers.paging import Answer
from app.api.counts import Counts
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


# What was counted, in Prometheus' text format

MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class _Families(Collector):
    """Hands the families to prometheus-client's text format."""

    def __init__(self, counts: Counts, data_dir: Path) -> None:
        self._counts = counts
        self._data_dir = data_dir

    def collect(self) -> Iterator[Metric]:
        return self._counts.families(self._data_dir)


def metrics_answer(counts: Counts, data_dir: Path) -> Response:
    """Return the present counts."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Families(counts, data_dir))
    return Response(generate_latest(registry), media_type=MEDIA_TYPE)
