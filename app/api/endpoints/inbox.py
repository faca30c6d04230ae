"""The inbox: what has happened to releases under review; and who has seen what."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query

from app.api.answers.paging import Page, Paging, page_of
from app.api.answers.problems import documented
from app.api.answers.reviews import (
    NoticeAnswer,
    ReadAnswer,
    SightAnswer,
    notice_answer,
    read_answer,
    sight_answer,
)
from app.api.dependencies import Analyst, Curator, IdFilter, State, json_body
from app.api.endpoint import router_of
from app.web.requests.reviews import ReadRequest

router = router_of("/v1", "reviews")


@router.get("/inbox", operation_id="listInbox")
def list_inbox(
    caller: Analyst,
    cut: Paging,
    state: State,
    unread: Annotated[
        bool, Query(description="Only what you have not read.", examples=[True])
    ] = False,
) -> Page[NoticeAnswer]:
    """List what has happened to your releases under review, newest first; a curator sees all.

    What somebody has done themselves is read already.
    """
    notices = state.services.inbox.list(
        caller=caller, before=cut.position, limit=cut.limit + 1, unread=unread
    )
    return page_of([(each.number, notice_answer(each)) for each in notices], cut)


@router.post("/inbox/read", operation_id="markRead", responses=documented("busy"))
async def mark_read(
    caller: Analyst, body: Annotated[ReadRequest, json_body(ReadRequest)], state: State
) -> ReadAnswer:
    """Mark notices of your inbox as read; for you alone. Once more changes nothing."""
    return read_answer(await state.services.inbox.mark_read(body.ids, caller=caller))


@router.get("/audit", operation_id="listAudit", responses=documented("busy"))
async def list_audit(
    caller: Curator,
    cut: Paging,
    state: State,
    release: Annotated[
        IdFilter,
        Query(max_length=100, description="Only of this release.", examples=["rel_8f2c41"]),
    ] = None,
) -> Page[SightAnswer]:
    """List who has seen results that were not public, newest first (curators).

    Each person, release, way and day has one line.
    """
    del caller
    records = await state.services.sights.list(
        before=cut.position, limit=cut.limit + 1, release=release
    )
    return page_of([(each.number, sight_answer(each)) for each in records], cut)
