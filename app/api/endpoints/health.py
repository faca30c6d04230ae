"""Probes and metrics."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from app.api.answers.paging import (
    MEDIA_TYPE,
    ReadinessAnswer,
    StatusAnswer,
    liveness_answer,
    metrics_answer,
    readiness_answer,
)
from app.api.answers.problems import documented
from app.api.dependencies import ANYONE, State, Watcher, probe, router_of

router = router_of("", "operation")


@router.get("/livez", operation_id="getLiveness", openapi_extra=ANYONE)
@probe
async def get_liveness() -> StatusAnswer:
    """Say that the process answers."""
    return liveness_answer()


@router.get(
    "/readyz",
    operation_id="getReadiness",
    openapi_extra=ANYONE,
    responses=documented("internal", "ledger-frozen", "clock-behind", "not-ready"),
)
@probe
def get_readiness(state: State) -> ReadinessAnswer:
    """Say that releases can be made: ledger, schema and disks are as they must be."""
    return readiness_answer(state.services.health.check())


# What was counted, for Prometheus


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
        }
    ),
)
async def get_metrics(request: Request, caller: Watcher, state: State) -> Response:
    """Count requests and refusals of this server process, for Prometheus (role `metrics`, admins).

    There is nothing about any data set, and no duration that depends on data or on noise.
    """
    del caller
    return metrics_answer(request.app.state.counts, state.settings.data_dir)
