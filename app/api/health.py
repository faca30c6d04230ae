"""Probes."""

from __future__ import annotations

from fastapi import APIRouter

from app.api.answers import StatusAnswer
from app.api.dependencies import State
from app.api.problems import documented

router = APIRouter(tags=["operation"])


@router.get(
    "/livez",
    operation_id="getLiveness",
    response_model=StatusAnswer,
    openapi_extra={"security": []},
)
async def get_liveness() -> StatusAnswer:
    """Say that the process answers."""
    return StatusAnswer(status="alive")


@router.get(
    "/readyz",
    operation_id="getReadiness",
    response_model=StatusAnswer,
    openapi_extra={"security": []},
    responses=documented("internal"),
)
def get_readiness(state: State) -> StatusAnswer:
    """Say that the database answers too."""
    state.services.audit.check_alive()
    return StatusAnswer(status="ready")
