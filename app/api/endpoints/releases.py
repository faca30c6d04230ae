"""Releases: asking, listing, showing."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import Query
from starlette.requests import Request
from starlette.responses import Response

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
from app.api.paging import MOST_BYTES, Page, Paging, json_page_of
from app.api.problems import carrying, documented
from app.api.release_answers import ReleaseAnswer
from app.api.schemas import ReleaseRequest
from app.domain.problems import Problem
from app.domain.releases import GIVEN_BACK, ReleaseState
from app.services.plans.answers import answer_of, etag_of, state_called
from app.services.releases.public_moments import PublicMoments
from app.services.releases.releases import ReleaseRecord

router = router_of("/v1", "releases")
direct = router_of("/v1", "releases", direct=True)

_JSON = "application/json"
_ACCEPTED = (
    "A job: charged, and drawn in the background. Or it waits for a review: its budget is set "
    "aside, and it is a job once a curator has approved it. Ask at `Location` again after "
    "`Retry-After` seconds, or send the same request again."
)
_UNFINISHED = (ReleaseState.RESERVED, ReleaseState.DEBITED)
_STATUS = (
    "Only releases that wait for a review, or ended without approval. There is no list by what a "
    "draw leads to: when it ends is not public before its deadline."
)
Reviewed = Literal["awaiting_review", "rejected", "withdrawn", "expired"]
_PARAMETERS = {
    "parameters": [
        id_parameter("dataset"),
        {
            "name": "Idempotency-Key",
            "in": "header",
            "required": True,
            "description": "Yours to choose, once per question. It belongs to the person, not to "
            "the API key, and never expires: the same body again gives the same stored answer.",
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
        "release-void", "internal", "busy",
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

    What may take long to plan or draw is a job, by a public rule that previews tell. Every
    answer, a refusal too, leaves at a tick of a public clock.
    """
    dataset, state = id_in_path(request, "dataset"), state_of(request)
    releases = state.services.releases
    async with state.clock.answer() as answer:
        record = await releases.submit(
            dataset, body.question, idem=idempotency_key_of(request), caller=caller
        )
        if record.state in _UNFINISHED:
            return unfinished(record, releases.moments)
        if record.state in GIVEN_BACK:
            raise Problem("release-closed", outcome=record.state.value, release=record.id)
        answer.hold(releases.moments.public_from_ms(record))
        if record.state is ReleaseState.VOID:
            raise Problem("release-void")
        return Response(
            answer_of(record),
            status_code=201,
            media_type=_JSON,
            headers={"Location": _location(record), "ETag": etag_of(record)},
        )


def unfinished(record: ReleaseRecord, moments: PublicMoments) -> Response:
    """Return the answer about a release that is under way, or waits for a review."""
    return Response(
        answer_of(record),
        status_code=202,
        media_type=_JSON,
        headers={
            "Location": _location(record),
            "ETag": etag_of(record),
            "Retry-After": str(moments.retry_after_s(record)),
        },
    )


def _location(record: ReleaseRecord) -> str:
    return f"/v1/releases/{record.id}"


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
    # what is listed is what was answered
    items = [(record.number, answer_of(record)) for record in page.records]
    return json_page_of(items, more=page.more)


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
    tag = etag_of(record)
    headers = {"ETag": tag, "Cache-Control": "private, no-cache"}
    if record.state in _UNFINISHED:
        headers["Retry-After"] = str(state.services.releases.moments.retry_after_s(record))
    if _matches(request.headers.get("if-none-match"), tag):
        return Response(status_code=304, headers=headers)
    return Response(answer_of(record), media_type=_JSON, headers=headers)


def _matches(condition: str | None, tag: str) -> bool:
    """Return whether an If-None-Match names the tag (weak comparison, RFC 9110 13.1.2)."""
    if condition is None:
        return False
    named = [part.strip().removeprefix("W/") for part in condition.split(",")]
    return "*" in named or tag in named
