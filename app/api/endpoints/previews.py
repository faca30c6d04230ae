"""Previews: free, and without a look at the data."""

from __future__ import annotations

from typing import Annotated

from starlette.requests import Request

from app.api.answers.problems import documented
from app.api.answers.releases import PreviewAnswer, preview_answer
from app.api.dependencies import Analyst, Id, State, json_body
from app.api.endpoint import router_of
from app.web.requests.leaving import while_there
from app.web.requests.questions import PreviewRequest

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
    request: Request,
    caller: Analyst,
    dataset: Id,
    body: Annotated[PreviewRequest, json_body(PreviewRequest)],
    state: State,
) -> PreviewAnswer:
    """Say what a release would cost, how it is drawn and why, its noise and what it is worth.

    With an `accuracy` and no `epsilon` it is weighed at the smallest epsilon that reaches it. Where
    none is known, `accuracy.epsilon` is null and it is weighed at 1, or at the policy's maximum.
    """
    previews, question = state.services.previews, body.question
    if not body.priced:
        weighing = previews.preview_within(dataset, question, body.wish, caller=caller)
        preview, _ = await while_there(request, weighing)
    else:
        weighed = previews.preview(dataset, question, body.wish, caller=caller)
        preview = await while_there(request, weighed)
    return preview_answer(preview)
