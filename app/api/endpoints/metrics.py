"""What was counted, for Prometheus."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import Metric
from prometheus_client.registry import Collector
from starlette.requests import Request
from starlette.responses import Response

from app.api.counts import Counts
from app.api.dependencies import Admin, State
from app.api.endpoint import router_of
from app.api.problems import documented

router = router_of("", "operation")

MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class _Families(Collector):
    """Hands the families to prometheus-client's text format."""

    def __init__(self, counts: Counts, data_dir: Path) -> None:
        self._counts = counts
        self._data_dir = data_dir

    def collect(self) -> Iterator[Metric]:
        return self._counts.families(self._data_dir)


@router.get(
    "/metrics",
    operation_id="getMetrics",
    response_class=Response,
    responses=documented(
        answers={
            200: {
                "description": "Prometheus text format.",
                "content": {MEDIA_TYPE: {"schema": {"type": "string"}}},
            }
        },
    ),
)
async def get_metrics(request: Request, caller: Admin, state: State) -> Response:
    """Count requests and refusals of this server process, for Prometheus (admins).

    There is nothing about any data set and no duration.
    """
    del caller
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Families(request.app.state.counts, state.settings.data_dir))
    return Response(generate_latest(registry), media_type=MEDIA_TYPE)
