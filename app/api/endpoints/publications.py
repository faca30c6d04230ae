"""Publications: making a release public, withdrawing it, and exporting what is public."""

from __future__ import annotations

from typing import Annotated, Any

from starlette.requests import Request
from starlette.responses import Response

from app.api.answers.problems import carrying, documented
from app.api.answers.releases import PublicationAnswer, publication_answer
from app.api.dependencies import Curator, Id, Reader, State, json_body, router_of, unchanged
from app.services.publishing.linked_data import EXPORTS
from app.services.publishing.published import path_of
from app.web.anonymous import base_of
from app.web.requests.schemas import PublicationRequest, PublicationWithdrawalRequest

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
        release, body.reason, unchanged=unchanged(request), caller=caller
    )
    response.headers["Location"] = path_of(release)
    if not made:
        response.status_code = 200
    return publication_answer(record)


@router.get("", operation_id="getPublication", responses=documented("not-found"))
async def get_publication(caller: Reader, release: Id, state: State) -> PublicationAnswer:
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


exports = router_of("/v1/datasets/{dataset}/exports", "publications")


@exports.get("/registry", operation_id="exportToRegistry", responses=documented("not-found"))
def export_to_registry(
    request: Request, caller: Reader, dataset: Id, state: State
) -> dict[str, Any]:
    """Describe a data set's public releases in the fields of the Deployments Registry, all three
    tiers (arXiv 2509.13509). The newest hundred are in it."""
    del caller
    return _exported(request, dataset, state, "registry")


@exports.get("/datacite", operation_id="exportToDatacite", responses=documented("not-found"))
def export_to_datacite(
    request: Request, caller: Reader, dataset: Id, state: State
) -> dict[str, Any]:
    """Describe a data set's public releases in the fields of DataCite 4, without a DOI."""
    del caller
    return _exported(request, dataset, state, "datacite")


@exports.get("/croissant", operation_id="exportToCroissant", responses=documented("not-found"))
def export_to_croissant(
    request: Request, caller: Reader, dataset: Id, state: State
) -> dict[str, Any]:
    """Describe a data set's public releases in the Croissant format 1.0: a table for each."""
    del caller
    return _exported(request, dataset, state, "croissant")


def _exported(request: Request, dataset: str, state: State, form: str) -> dict[str, Any]:
    facts, items = state.services.publications.of_dataset(dataset)
    return EXPORTS[form](facts, items, base_of(request, state.settings.public_url))
