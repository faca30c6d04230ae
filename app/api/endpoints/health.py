"""Probes."""

from __future__ import annotations

from app.api.answers import ReadinessAnswer, StatusAnswer
from app.api.dependencies import State
from app.api.endpoint import ANYONE, router_of
from app.api.problems import documented

router = router_of("", "operation")


@router.get(
    "/livez",
    operation_id="getLiveness",
    response_model=StatusAnswer,
    openapi_extra=ANYONE,
)
async def get_liveness() -> StatusAnswer:
    """Say that the process answers."""
    return StatusAnswer(status="alive")


@router.get(
    "/readyz",
    operation_id="getReadiness",
    response_model=ReadinessAnswer,
    openapi_extra=ANYONE,
    responses=documented("internal", "ledger-frozen", "not-ready"),
)
def get_readiness(state: State) -> ReadinessAnswer:
    """Say that releases can be made: ledger, schema and disks are as they must be."""
    return ReadinessAnswer(status="ready", anchor=state.services.health.check().anchor)
