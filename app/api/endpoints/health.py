"""Probes."""

from __future__ import annotations

from app.api.answers.health import ReadinessAnswer, StatusAnswer, liveness_answer, readiness_answer
from app.api.answers.problems import documented
from app.api.dependencies import State
from app.api.endpoint import ANYONE, probe, router_of

router = router_of("", "operation")


@router.get(
    "/livez",
    operation_id="getLiveness",
    openapi_extra=ANYONE,
)
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
