"""Pauses: stopping a person or a data set, and letting them go on."""

from __future__ import annotations

from typing import Annotated

from app.api.answers.budgets import (
    PauseAnswer,
    SetPauseAnswer,
    pause_answer,
    resumed_answer,
    set_pause_answer,
)
from app.api.answers.paging import Page, Paging, page_of
from app.api.answers.problems import documented
from app.api.dependencies import Admin, State, json_body
from app.api.endpoint import router_of
from app.web.requests.schemas import PauseRequest

router = router_of("/v1/pauses", "pauses")


@router.put(
    "",
    operation_id="setPause",
    responses=documented("busy", "clock-behind"),
)
async def set_pause(
    caller: Admin, body: Annotated[PauseRequest, json_body(PauseRequest)], state: State
) -> SetPauseAnswer:
    """Pause a person or a data set, or resume them (admins). During a pause nothing is charged;
    jobs that are already charged wait, and are drawn once they are resumed."""
    pauses = state.services.pauses
    if not body.paused:
        await pauses.resume(body.what, body.name, reason=body.reason, caller=caller)
        return resumed_answer(body.what.value, body.name)
    record, cancelled = await pauses.pause(
        body.what,
        body.name,
        reason=body.reason,
        cancel_waiting=body.cancel_waiting,
        caller=caller,
    )
    return set_pause_answer(record, cancelled)


@router.get(
    "",
    operation_id="listPauses",
)
def list_pauses(caller: Admin, cut: Paging, state: State) -> Page[PauseAnswer]:
    """List what is paused, oldest first (admins)."""
    del caller
    records = state.services.pauses.list(after=cut.position, limit=cut.limit + 1)
    return page_of([(record.number, pause_answer(record)) for record in records], cut)
