"""Budgets: what is left, granting more, caps for single people, and pauses.

Access: who may see a data set, and the groups of persons that may be named.
"""

from __future__ import annotations

from typing import Annotated

from app.api.answers.ledger import (
    BudgetAnswer,
    CapAnswer,
    DatasetAccessAnswer,
    EntryAnswer,
    GroupAnswer,
    PauseAnswer,
    SetPauseAnswer,
    access_answer,
    budget_answer,
    cap_answer,
    entry_answer,
    group_answer,
    pause_answer,
    resumed_answer,
    set_pause_answer,
)
from app.api.answers.paging import Page, Paging, page_of
from app.api.answers.problems import documented
from app.api.dependencies import Admin, Curator, Id, Overseer, Reader, State, json_body, router_of
from app.web.requests.schemas import (
    AccessRequest,
    CapRequest,
    GrantRequest,
    GroupRequest,
    PauseRequest,
    access_in,
)

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
    """Cap what one person may use of a data set's budget, or remove the limit (curators)."""
    record = await state.services.budgets.set_cap(
        dataset, body.person, body.epsilon, body.reason, caller=caller
    )
    facts = await state.services.datasets.present(dataset)
    return cap_answer(record, facts.meter)


@router.get("/caps", operation_id="listCaps", responses=documented("not-found"))
def list_caps(caller: Overseer, dataset: Id, cut: Paging, state: State) -> Page[CapAnswer]:
    """List the caps on a data set's budget (curators)."""
    del caller
    records = state.services.budgets.caps(dataset, cut.span(ascending=True))
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


# Who may see a data set, and the groups of persons that may be named

access = router_of("/v1/datasets/{dataset}/access", "access")


@access.get("", operation_id="getAccess", responses=documented("not-found"))
def get_access(caller: Overseer, dataset: Id, state: State) -> DatasetAccessAnswer:
    """Show who may see a data set (curators)."""
    del caller
    return access_answer(state.services.access.list_of(dataset))


@access.put("", operation_id="setAccess", responses=documented("not-found", "busy", "clock-behind"))
async def set_access(
    caller: Curator,
    dataset: Id,
    body: Annotated[AccessRequest, json_body(AccessRequest)],
    state: State,
) -> DatasetAccessAnswer:
    """Restrict a data set to named persons and groups, or open it to everyone (curators).

    The list holds for all data sets that share its budget account, as versions do. For everyone
    else they do not exist: neither they nor their releases, unless a release is public. Admins
    and auditors see all data sets.
    """
    listed = await state.services.access.restrict(
        dataset, access_in(body), body.reason, caller=caller
    )
    return access_answer(listed)


groups = router_of("/v1/groups", "access")


@groups.get("", operation_id="listGroups")
def list_groups(caller: Curator, cut: Paging, state: State) -> Page[GroupAnswer]:
    """List the groups that admins have made, in the order they were first made (curators)."""
    del caller
    found = state.services.access.groups(cut.span(ascending=True))
    return page_of([(group.number, group_answer(group)) for group in found], cut)


@groups.put("", operation_id="setGroup", responses=documented("busy", "clock-behind"))
async def set_group(
    caller: Admin, body: Annotated[GroupRequest, json_body(GroupRequest)], state: State
) -> GroupAnswer:
    """Say who is in a group; one without persons is empty (admins)."""
    group = await state.services.access.set_group(
        body.name, body.persons, body.reason, caller=caller
    )
    return group_answer(group)
