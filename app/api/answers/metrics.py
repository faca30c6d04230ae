"""What was counted, in Prometheus' text format."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import Metric
from prometheus_client.registry import Collector
from starlette.responses import Response

from app.api.counts import Counts

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
