"""Publications: making a release public, and withdrawing it."""

from __future__ import annotations

from typing import Annotated

from starlette.requests import Request
from starlette.responses import Response

from app.api.answers.problems import carrying, documented
from app.api.answers.releases import PublicationAnswer, publication_answer
from app.api.dependencies import Analyst, Curator, Id, State, json_body, unchanged
from app.api.endpoint import router_of
from app.services.publishing.published import path_of
from app.web.requests.reviews import PublicationRequest, PublicationWithdrawalRequest

router = router_of("/v1/releases/{release}/publication", "publications")

_IF_MATCH = {
    "parameters": [
        {
            "name": "If-Match",
            "in": "header",
            "required": True,
            "description": "The `ETag` of the release as the curator has seen it.",
            "schema": {"type": "string", "minLength": 1, "maxLength": 200, "examples": ["*"]},
        }
    ]
}
_AGAIN = "It is public already, by the same person and for the same reason."


@router.post(
    "",
    operation_id="publishRelease",
    status_code=201,
    openapi_extra=_IF_MATCH,
    responses=documented(
        "not-found", "not-released", "already-published", "publication-withdrawn",
        "precondition", "precondition-missing", "busy", "clock-behind",
        answers={
            201: {"model": PublicationAnswer, "headers": carrying("Location")},
            200: {"model": PublicationAnswer, "description": _AGAIN},
        },
    ),
)  # fmt: skip
async def publish_release(
    *,
    request: Request,
    response: Response,
    caller: Curator,
    release: Id,
    body: Annotated[PublicationRequest, json_body(PublicationRequest)],
    state: State,
) -> PublicationAnswer:
    """Make a released release readable without a key, at `Location` (curators).

    The reason stays in the ledger and is shown. Nothing is charged or drawn.
    """
    record, made = await state.services.publications.publish(
        release,
        body.reason,
        unchanged=unchanged(request),
        caller=caller,
    )
    response.headers["Location"] = path_of(release)
    if not made:
        response.status_code = 200
    return publication_answer(record)


@router.get(
    "",
    operation_id="getPublication",
    responses=documented("not-found"),
)
async def get_publication(caller: Analyst, release: Id, state: State) -> PublicationAnswer:
    """Show who made a release public, and who withdrew it (its owner and curators)."""
    return publication_answer(await state.services.publications.publication(release, caller=caller))


@router.post(
    "/withdrawal",
    operation_id="withdrawPublication",
    responses=documented(
        "not-found", "not-published", "publication-withdrawn", "busy", "clock-behind"
    ),
)
async def withdraw_publication(
    caller: Curator,
    release: Id,
    body: Annotated[PublicationWithdrawalRequest, json_body(PublicationWithdrawalRequest)],
    state: State,
) -> PublicationAnswer:
    """Withdraw a release from the public, for good (curators). Its address says so, and why."""
    return publication_answer(
        await state.services.publications.withdraw(release, body.note, caller=caller)
    )
