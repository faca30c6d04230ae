"""Budgets: what is left, granting more, caps for single people, and pauses."""

from __future__ import annotations

from typing import Annotated

from app.api.answers.ledger import (
    BudgetAnswer,
    CapAnswer,
    EntryAnswer,
    PauseAnswer,
    SetPauseAnswer,
    budget_answer,
    cap_answer,
    entry_answer,
    pause_answer,
    resumed_answer,
    set_pause_answer,
)
from app.api.answers.paging import Page, Paging, page_of
from app.api.answers.problems import documented
from app.api.dependencies import Admin, Curator, Id, Overseer, Reader, State, json_body, router_of
from app.web.requests.schemas import CapRequest, GrantRequest, PauseRequest

router = router_of("/v1/datasets/{dataset}", "budgets")


@router.get("/budget", operation_id="getBudget", responses=documented("not-found"))
def get_budget(caller: Reader, dataset: Id, state: State) -> BudgetAnswer:
    """Show what is left of a data set's budget."""
    return budget_answer(state.services.budgets.view(dataset, caller=caller))


@router.post(
    "/grants",
    operation_id="grantBudget",
    status_code=201,
    responses=documented(
        "not-found", "dataset-archived", "grant-too-large", "target-fixed", "busy", "clock-behind"
    ),
)
async def grant_budget(
    caller: Curator,
    dataset: Id,
    body: Annotated[GrantRequest, json_body(GrantRequest)],
    state: State,
) -> EntryAnswer:
    """Raise a data set's total budget; the entry and its reason stay (curators).

    For accounts where epsilons add up: the target of one in zCDP is fixed when it is opened. One
    grant adds at most what the operator allows (`RELEASE_DESK_MAX_GRANT`).
    """
    entry = await state.services.budgets.grant(
        dataset, body.epsilon, body.reason, caller=caller, expires=body.expires
    )
    facts = await state.services.datasets.present(dataset)
    return entry_answer(entry, facts.meter, {})


@router.put(
    "/caps", operation_id="capPerson", responses=documented("not-found", "busy", "clock-behind")
)
async def cap_person(
    caller: Curator, dataset: Id, body: Annotated[CapRequest, json_body(CapRequest)], state: State
) -> CapAnswer:
    """Cap what one person may use of a data set's budget, or lift the cap (curators)."""
    record = await state.services.budgets.set_cap(
        dataset, body.person, body.epsilon, body.reason, caller=caller
    )
    facts = await state.services.datasets.present(dataset)
    return cap_answer(record, facts.meter)


@router.get("/caps", operation_id="listCaps", responses=documented("not-found"))
def list_caps(caller: Overseer, dataset: Id, cut: Paging, state: State) -> Page[CapAnswer]:
    """List the caps on a data set's budget (curators)."""
    del caller
    records = state.services.budgets.caps(dataset, after=cut.position, limit=cut.limit + 1)
    meter = state.services.datasets.facts(dataset).meter
    return page_of([(record.number, cap_answer(record, meter)) for record in records], cut)


pauses = router_of("/v1/pauses", "pauses")


@pauses.put("", operation_id="setPause", responses=documented("busy", "clock-behind"))
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
        body.what, body.name, reason=body.reason, cancel_waiting=body.cancel_waiting, caller=caller
    )
    return set_pause_answer(record, cancelled)


@pauses.get("", operation_id="listPauses")
def list_pauses(caller: Admin, cut: Paging, state: State) -> Page[PauseAnswer]:
    """List what is paused, oldest first (admins)."""
    del caller
    records = state.services.pauses.list(after=cut.position, limit=cut.limit + 1)
    return page_of([(record.number, pause_answer(record)) for record in records], cut)
