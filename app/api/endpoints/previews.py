"""Previews: free, and without a look at the data."""

from __future__ import annotations

from typing import Annotated

from app.api.answers.problems import documented
from app.api.answers.releases import PreviewAnswer, preview_answer
from app.api.dependencies import Analyst, Id, State, json_body
from app.api.endpoint import router_of
from app.services.plans.previews import Wish
from app.web.requests.schemas import PreviewRequest

router = router_of("/v1/datasets/{dataset}", "releases")


@router.post(
    "/previews",
    operation_id="previewRelease",
    responses=documented(
        "not-found", "dataset-archived",
        "policy-refused", "empty-dataset", "busy",
    ),
)  # fmt: skip
async def preview_release(
    caller: Analyst,
    dataset: Id,
    body: Annotated[PreviewRequest, json_body(PreviewRequest)],
    state: State,
) -> PreviewAnswer:
    """Say what a release would cost, how it is drawn and why, its noise and what it is worth."""
    wish = Wish(
        accuracy=body.accuracy,
        assume_rows=body.assume_rows,
        assume=body.assume.assumptions,
    )
    preview = await state.services.previews.preview(dataset, body.question, wish, caller=caller)
    return preview_answer(preview)
