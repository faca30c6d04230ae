"""Releases: asking, listing, showing."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import Query
from starlette.requests import Request
from starlette.responses import Response

from app.api.answers.paging import MOST_BYTES, Page, Paging
from app.api.answers.problems import carrying, documented
from app.api.answers.releases import (
    UNFINISHED,
    ReleaseAnswer,
    accepted_answer,
    made_answer,
    releases_answer,
    shown_answer,
)
from app.api.dependencies import (
    Analyst,
    Id,
    IdFilter,
    State,
    id_in_path,
    id_parameter,
    idempotency_key_of,
    json_body,
    state_of,
)
from app.api.endpoint import router_of, untimed
from app.domain.problems import Problem
from app.domain.releases import GIVEN_BACK, ReleaseState
from app.services.plans.answers import state_called
from app.web.anonymous import names
from app.web.requests.questions import ReleaseRequest

router = router_of("/v1", "releases")
direct = router_of("/v1", "releases", direct=True)

_ACCEPTED = (
    "A job: charged, and drawn in the background. Or it waits for a review: its budget is set "
    "aside, and it is a job once a curator has approved it. Ask at `Location` again after "
    "`Retry-After` seconds, or send the same request again."
)
_STATUS = (
    "Only releases that wait for a review, or ended without approval. There is no list by what a "
    "draw leads to: when it ends is not public before its deadline."
)
Reviewed = Literal["awaiting_review", "changes_requested", "rejected", "withdrawn", "expired"]
_PARAMETERS = {
    "parameters": [
        id_parameter("dataset"),
        {
            "name": "Idempotency-Key",
            "in": "header",
            "required": True,
            "description": "Yours to choose, once per question. It belongs to the person, not to "
            "the API key, and never expires: the same question again, in any spelling, gives the "
            "same stored answer. With `auto` the service chooses it, by data set, question and "
            "epsilon, so that each question is charged once.",
            "schema": {
                "type": "string",
                "minLength": 1,
                "maxLength": 200,
                "examples": ["household-means"],
            },
        },
    ]
}


@direct.post(
    "/datasets/{dataset}/releases",
    operation_id="createRelease",
    status_code=201,
    response_class=Response,
    openapi_extra=_PARAMETERS,
    responses=documented(
        "idempotency-key-missing", "not-found", "budget-exceeded",
        "dataset-archived",
        "policy-refused", "empty-dataset", "idempotency-key-reused", "release-closed",
        "release-void", "internal", "busy", "too-many-jobs", "too-much-stored", "paused",
        "dataset-unreadable", "clock-behind", "not-ready",
        answers={
            201: {"model": ReleaseAnswer, "headers": carrying("Location", "ETag")},
            202: {
                "model": ReleaseAnswer,
                "description": _ACCEPTED,
                "headers": carrying("Location", "ETag", "Retry-After"),
            },
        },
    ),
)  # fmt: skip
@untimed
async def create_release(
    request: Request,
    caller: Analyst,
    body: Annotated[ReleaseRequest, json_body(ReleaseRequest)],
) -> Response:
    """Charge the budget and release a statistic. The same key and body replay the answer.

    What may take long to plan or draw is a job, by a public rule that previews show. Every
    answer, a refusal too, leaves at a tick of a public clock.
    """
    dataset, state = id_in_path(request, "dataset"), state_of(request)
    releases = state.services.releases
    async with state.clock.answer() as answer:
        record = await releases.submit(
            dataset, body.question, idem=idempotency_key_of(request), caller=caller
        )
        if record.state in UNFINISHED:
            return accepted_answer(record, releases.moments)
        if record.state in GIVEN_BACK:
            raise Problem("release-closed", outcome=record.state.value, release=record.id)
        answer.hold(releases.moments.public_from_ms(record))
        if record.state is ReleaseState.VOID:
            raise Problem("release-void")
        return made_answer(record)


@router.get(
    "/releases",
    operation_id="listReleases",
    response_class=Response,
    responses=documented(answers={200: {"model": Page[ReleaseAnswer]}}),
)
def list_releases(
    caller: Analyst,
    cut: Paging,
    state: State,
    dataset: Annotated[
        IdFilter,
        Query(
            max_length=100, description="Only releases of this data set.", examples=["ds_8f2c41"]
        ),
    ] = None,
    status: Annotated[
        Reviewed | None, Query(description=_STATUS, examples=["awaiting_review"])
    ] = None,
) -> Response:
    """List your releases, newest first; a curator sees everybody's.

    A page may hold fewer than `limit`, since it ends after 8 MiB: go on until `next` is null.
    """
    page = state.services.releases.list(
        caller=caller,
        dataset=dataset,
        state=None if status is None else state_called(status),
        before=cut.position,
        limit=cut.limit,
        most_bytes=MOST_BYTES,
    )
    state.services.sights.note(page.records, "listed", caller=caller)
    return releases_answer(page)


@router.get(
    "/releases/{release}",
    operation_id="getRelease",
    response_class=Response,
    responses=documented(
        "not-found",
        answers={
            200: {"model": ReleaseAnswer, "headers": carrying("ETag")},
            304: {"description": "Nothing has changed.", "headers": carrying("ETag")},
        },
    ),
)
async def get_release(request: Request, caller: Analyst, release: Id, state: State) -> Response:
    """Show a release (its owner and curators), with an ETag for polling."""
    record = await state.services.releases.get(release, caller=caller)
    state.services.sights.note([record], "read", caller=caller)
    condition = request.headers.get("if-none-match")
    return shown_answer(
        record,
        state.services.releases.moments,
        known=lambda tag: names(condition, tag),
    )
