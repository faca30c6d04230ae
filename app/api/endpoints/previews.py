"""Previews: free, and without a look at the data."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter

from app.api.dependencies import Analyst, Id, State, body_of, json_body
from app.api.problems import documented
from app.api.release_answers import PreviewAnswer
from app.api.schemas import PreviewRequest
from app.services.plans.previews import Wish

router = APIRouter(prefix="/v1/datasets/{dataset}", tags=["releases"])


@router.post(
    "/previews",
    operation_id="previewRelease",
    response_model=PreviewAnswer,
    openapi_extra=body_of(PreviewRequest),
    responses=documented(
        "unauthorized", "not-found", "dataset-archived", "too-large", "unsupported-media-type",
        "invalid-request", "policy-refused", "empty-dataset", "busy",
    ),
)  # fmt: skip
async def preview_release(
    caller: Analyst,
    dataset: Id,
    body: Annotated[PreviewRequest, json_body(PreviewRequest)],
    state: State,
) -> PreviewAnswer:
    """Say what a release would cost, which mechanism and norm it takes and why, and its noise."""
    wish = Wish(accuracy=body.accuracy, assume_rows=body.assume_rows)
    preview = await state.services.previews.preview(dataset, body.question, wish, caller=caller)
    return PreviewAnswer.model_validate(preview)
