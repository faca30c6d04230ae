"""Derivations: free answers from released numbers."""

from __future__ import annotations

from typing import Annotated

from starlette.requests import Request

from app.api.answers.problems import documented
from app.api.answers.releases import DerivationAnswer, derivation_answer
from app.api.dependencies import Analyst, Id, State, json_body
from app.api.endpoint import router_of
from app.web.requests.leaving import while_there
from app.web.requests.questions import DerivationRequest

router = router_of("/v1/releases/{release}", "releases")


@router.post(
    "/derivations",
    operation_id="deriveFromRelease",
    responses=documented(
        "not-found",
        "busy",
    ),
)
async def derive_from_release(
    request: Request,
    caller: Analyst,
    release: Id,
    body: Annotated[DerivationRequest, json_body(DerivationRequest)],
    state: State,
) -> DerivationAnswer:
    """Compute a statistic from a release that is out (its owner and curators).

    Free, and without the data: from `moments`, any linear regression of their columns, and all that
    first and second moments determine; from most statistics, the same of fewer columns. With
    `together_with`, from several releases at once: counts, histograms, sums, means and moments.
    """
    deriving = state.services.derivations.derive(
        release, body.statistic, together_with=body.together_with, caller=caller
    )
    derived = await while_there(request, deriving)
    for each in (release, *body.together_with):
        state.services.sights.note_id(each, "derived", caller=caller)
    return derivation_answer(derived)
