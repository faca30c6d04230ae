"""Who may see a data set, and the groups of persons that may be named."""

from __future__ import annotations

from typing import Annotated

from app.api.answers.ledger import (
    DatasetAccessAnswer,
    GroupAnswer,
    access_answer,
    group_answer,
)
from app.api.answers.paging import Page, Paging, page_of
from app.api.answers.problems import documented
from app.api.dependencies import Admin, Curator, Id, Overseer, State, json_body, router_of
from app.web.requests.schemas import AccessRequest, GroupRequest, access_in

router = router_of("/v1/datasets/{dataset}/access", "access")


@router.get("", operation_id="getAccess", responses=documented("not-found"))
def get_access(caller: Overseer, dataset: Id, state: State) -> DatasetAccessAnswer:
    """Show who may see a data set (curators)."""
    del caller
    return access_answer(state.services.access.list_of(dataset))


@router.put("", operation_id="setAccess", responses=documented("not-found", "busy", "clock-behind"))
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
    found = state.services.access.groups(after=cut.position, limit=cut.limit + 1)
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
