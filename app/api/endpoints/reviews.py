"""Reviews: deciding, revising, withdrawing and commenting; the inbox; and who has seen what."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query
from starlette.requests import Request
from starlette.responses import Response

from app.api.answers.paging import Page, Paging, page_of
from app.api.answers.problems import carrying, documented
from app.api.answers.releases import ReleaseAnswer, accepted_answer, ended_answer
from app.api.answers.reviews import (
    CommentAnswer,
    CommentsAnswer,
    NoticeAnswer,
    ReadAnswer,
    SheetAnswer,
    VersionsAnswer,
    ViewAnswer,
    comment_answer,
    comments_answer,
    notice_answer,
    read_answer,
    sheet_response,
    versions_answer,
    view_answer,
)
from app.api.dependencies import (
    Analyst,
    Id,
    IdFilter,
    Overseer,
    Reader,
    Reviewer,
    State,
    json_body,
    router_of,
    unchanged,
)
from app.domain.releases import ReleaseState
from app.web.anonymous import names
from app.web.requests.questions import ReleaseRequest
from app.web.requests.schemas import CommentRequest, DecisionRequest, ReadRequest

router = router_of("/v1/releases/{release}", "reviews")

_IF_MATCH = {
    "parameters": [
        {
            "name": "If-Match",
            "in": "header",
            "required": True,
            "description": "The `ETag` of the release as the reviewer has seen it.",
            "schema": {
                "type": "string",
                "minLength": 1,
                "maxLength": 200,
                "examples": ['"reserved"'],
            },
        }
    ]
}
_APPROVED = (
    "Approved: charged, and drawn in the background. Its outcome is shown at its public deadline."
)


@router.post(
    "/decision",
    operation_id="decideOnRelease",
    response_class=Response,
    openapi_extra=_IF_MATCH,
    responses=documented(
        "own-request", "not-found", "not-awaiting-review",
        "votes-complete", "plan-changed", "precondition", "precondition-missing", "busy", "paused",
        "dataset-unreadable", "clock-behind",
        answers={
            200: {
                "model": ReleaseAnswer,
                "description": "Rejected: its budget is given back. Or changes are requested, "
                "or another vote is needed: then it keeps waiting.",
                "headers": carrying("ETag"),
            },
            202: {
                "model": ReleaseAnswer,
                "description": _APPROVED,
                "headers": carrying("Location", "ETag", "Retry-After"),
            },
        },
    ),
)  # fmt: skip
async def decide_on_release(
    request: Request,
    caller: Reviewer,
    release: Id,
    body: Annotated[DecisionRequest, json_body(DecisionRequest)],
    state: State,
) -> Response:
    """Approve or reject a release that waits, or request changes (curators; never one's own).

    With two reviewers this is a vote, and the second one decides if it is like the first. The
    reason stays in the ledger. The answer leaves at a tick of a public clock.
    """
    services = state.services
    async with state.clock.answer():
        record = await services.reviews.decide(
            release, body.decision, body.reason, unchanged=unchanged(request), caller=caller
        )
        if record.state is ReleaseState.DEBITED:
            return accepted_answer(record, services.releases.moments)
        return ended_answer(record)


@router.post(
    "/withdrawal",
    operation_id="withdrawRelease",
    response_class=Response,
    responses=documented(
        "not-found", "not-awaiting-review", "busy", "clock-behind",
        answers={
            200: {
                "model": ReleaseAnswer,
                "description": "Its budget is given back.",
                "headers": carrying("ETag"),
            }
        },
    ),
)  # fmt: skip
async def withdraw_release(caller: Analyst, release: Id, state: State) -> Response:
    """Withdraw a release of your own that waits for a review."""
    async with state.clock.answer():
        return ended_answer(await state.services.reviews.withdraw(release, caller=caller))


@router.get(
    "/review",
    operation_id="getReviewSheet",
    response_class=Response,
    responses=documented(
        "not-found", "not-awaiting-review", "busy",
        answers={
            200: {"model": SheetAnswer, "headers": carrying("ETag")},
            304: {"description": "Nothing has changed.", "headers": carrying("ETag")},
        },
    ),
)  # fmt: skip
async def get_review_sheet(
    request: Request, caller: Overseer, release: Id, state: State
) -> Response:
    """Show all that a reviewer needs of a release (curators); nothing is read of the rows.

    With two reviewers, the other's vote and comments are shown once both votes are in. The `ETag`
    changes with anything on the sheet. A decision takes it as `If-Match`, which compares the state
    of the release alone: a comment by someone else does not prevent a decision.
    """
    sheet = await state.services.sheets.sheet(release, caller=caller)
    condition = request.headers.get("if-none-match")
    return sheet_response(sheet, known=lambda tag: names(condition, tag))


@router.post(
    "/revisions",
    operation_id="reviseRelease",
    status_code=202,
    response_class=Response,
    openapi_extra=_IF_MATCH,
    responses=documented(
        "not-found", "not-your-turn", "precondition", "precondition-missing", "busy", "paused",
        "budget-exceeded", "dataset-archived", "policy-refused", "empty-dataset",
        "too-much-stored", "dataset-unreadable", "clock-behind",
        answers={
            202: {
                "model": ReleaseAnswer,
                "description": "It waits for its reviewers again.",
                "headers": carrying("Location", "ETag", "Retry-After"),
            }
        },
    ),
)  # fmt: skip
async def revise_release(
    request: Request,
    caller: Analyst,
    release: Id,
    body: Annotated[ReleaseRequest, json_body(ReleaseRequest)],
    state: State,
) -> Response:
    """Put another request in the place of your own, whose reviewers want changes.

    The reserved budget changes to the new price at once. The version before is kept.
    """
    services = state.services
    async with state.clock.answer():
        record = await services.reviews.revise(
            release, body.question, unchanged=unchanged(request), caller=caller
        )
        return accepted_answer(record, services.releases.moments)


@router.get("/revisions", operation_id="listRevisions", responses=documented("not-found"))
async def list_revisions(caller: Reader, release: Id, state: State) -> VersionsAnswer:
    """List every version of a request, each compared with the one before (its owner, curators)."""
    return versions_answer(await state.services.comments.versions(release=release, caller=caller))


@router.post(
    "/comments",
    operation_id="commentOnRelease",
    status_code=201,
    responses=documented(
        "not-found",
        "not-awaiting-review",
        "too-many-comments",
        "too-much-stored",
        "busy",
        "clock-behind",
    ),
)
async def comment_on_release(
    caller: Reader,
    release: Id,
    body: Annotated[CommentRequest, json_body(CommentRequest)],
    state: State,
) -> CommentAnswer:
    """Say something about a release that waits (its owner, curators).

    Said by its owner while changes are requested, it gives the turn back to the reviewers.
    """
    made = await state.services.comments.add(
        body.text, release=release, private=body.private, caller=caller
    )
    return comment_answer(made)


@router.get("/comments", operation_id="listComments", responses=documented("not-found"))
async def list_comments(caller: Reader, release: Id, state: State) -> CommentsAnswer:
    """List what has been said about a release, as far as the caller may read it."""
    return comments_answer(await state.services.comments.list(release=release, caller=caller))


inbox = router_of("/v1", "reviews")


@inbox.get("/inbox", operation_id="listInbox")
def list_inbox(
    caller: Reader,
    cut: Paging,
    state: State,
    unread: Annotated[
        bool, Query(description="Only what you have not read.", examples=[True])
    ] = False,
) -> Page[NoticeAnswer]:
    """List what has happened to your releases under review, newest first; a curator sees all.

    Notices of your own acts are marked as read.
    """
    notices = state.services.inbox.list(caller=caller, span=cut.span(), unread=unread)
    return page_of([(each.number, notice_answer(each)) for each in notices], cut)


@inbox.post("/inbox/read", operation_id="markRead", responses=documented("busy"))
async def mark_read(
    caller: Reader, body: Annotated[ReadRequest, json_body(ReadRequest)], state: State
) -> ReadAnswer:
    """Mark notices of your inbox as read; for you alone. Once more changes nothing."""
    return read_answer(await state.services.inbox.mark_read(body.ids, caller=caller))


@inbox.get("/audit", operation_id="listAudit", responses=documented("busy"))
async def list_audit(
    caller: Overseer,
    cut: Paging,
    state: State,
    release: Annotated[
        IdFilter,
        Query(max_length=100, description="Only of this release.", examples=["rel_8f2c41"]),
    ] = None,
) -> Page[ViewAnswer]:
    """List who has seen results that were not public, newest first (curators).

    Each person, release, way and day has one line.
    """
    records = await state.services.views.list(caller=caller, span=cut.span(), release=release)
    return page_of([(each.number, view_answer(each)) for each in records], cut)
