"""Reviews: deciding on releases that wait for it, and withdrawing them."""

from __future__ import annotations

from typing import Annotated

from starlette.requests import Request
from starlette.responses import Response

from app.api.answers.problems import carrying, documented
from app.api.answers.releases import ReleaseAnswer, accepted_answer, ended_answer
from app.api.dependencies import Analyst, Curator, Id, State, json_body
from app.api.endpoint import router_of
from app.domain.problems import Problem
from app.domain.releases import ReleaseState
from app.services.plans.answers import etag_of
from app.web.requests.schemas import DecisionRequest

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
        "plan-changed", "precondition", "precondition-missing", "busy", "paused",
        "dataset-unreadable",
        answers={
            200: {
                "model": ReleaseAnswer,
                "description": "Rejected: its budget is given back.",
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
    caller: Curator,
    release: Id,
    body: Annotated[DecisionRequest, json_body(DecisionRequest)],
    state: State,
) -> Response:
    """Approve or reject a release that waits for a review (curators; never one's own).

    The reason stays in the ledger. The answer leaves at a tick of a public clock.
    """
    services = state.services
    async with state.clock.answer():
        condition = request.headers.get("if-match")
        if condition is None:
            raise Problem("precondition-missing")
        record = await services.reviews.decide(
            release,
            body.decision,
            body.reason,
            unchanged=lambda found: _names(condition, etag_of(found)),
            caller=caller,
        )
        if record.state is ReleaseState.DEBITED:
            return accepted_answer(record, services.releases.moments)
        return ended_answer(record)


@router.post(
    "/withdrawal",
    operation_id="withdrawRelease",
    response_class=Response,
    responses=documented(
        "not-found", "not-awaiting-review", "busy",
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


def _names(condition: str, tag: str) -> bool:
    """Return whether an If-Match names the tag (strong comparison, RFC 9110 13.1.1)."""
    return condition.strip() == "*" or tag in (part.strip() for part in condition.split(","))
