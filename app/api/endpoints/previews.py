"""Before a release, free and without a look at the data: the catalog, previews and dry runs."""

from __future__ import annotations

from typing import Annotated, Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from app.api.answers.paging import Page, whole_page
from app.api.answers.problems import documented
from app.api.answers.releases import (
    DryRunAnswer,
    PreviewAnswer,
    StudyPlanAnswer,
    dry_run_answer,
    preview_answer,
    rows_answer,
    study_answer,
)
from app.api.dependencies import ANYONE, Analyst, Id, State, json_body, kept, router_of
from app.services.plans.previews import study_json
from app.web.requests.leaving import while_there
from app.web.requests.questions import DryRunRequest, PreviewRequest, StudyPlanRequest

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
        weighing = previews.preview_within(dataset, question, body.options, caller=caller)
        preview, _ = await while_there(request, weighing)
    else:
        weighed = previews.preview(dataset, question, body.options, caller=caller)
        preview = await while_there(request, weighed)
    return preview_answer(preview)


@router.post(
    "/study-plans",
    operation_id="planStudy",
    responses=documented(
        "not-found", "dataset-archived",
        "policy-refused", "empty-dataset", "busy",
    ),
)  # fmt: skip
async def plan_study(
    request: Request,
    caller: Analyst,
    dataset: Id,
    body: Annotated[StudyPlanRequest, json_body(StudyPlanRequest)],
    state: State,
) -> StudyPlanAnswer:
    """Say what several questions would cost together, before the first of them is paid for.

    Each is previewed at its `epsilon`, or at the smallest that reaches its `accuracy`.
    """
    weighed = state.services.previews.study(dataset, body.planned, caller=caller)
    previews = await while_there(request, weighed)
    view = await run_in_threadpool(state.services.budgets.view, dataset, caller=caller)
    return study_answer(study_json(previews, meter=view.meter, remaining=view.remaining))


# Dry runs: releases on synthetic rows, free


@router.post(
    "/dry-runs",
    operation_id="dryRunRelease",
    responses=documented(
        "not-found", "dataset-archived",
        "policy-refused", "empty-dataset", "busy",
    ),
)  # fmt: skip
async def dry_run_release(
    request: Request,
    caller: Analyst,
    dataset: Id,
    body: Annotated[DryRunRequest, json_body(DryRunRequest)],
    state: State,
) -> DryRunAnswer:
    """Draw the same release from synthetic rows: free, and without real people.

    The same request has the same answer.
    """
    running = state.services.dry_runs.run(
        dataset, body.question, body.assume.assumptions, caller=caller
    )
    run = await while_there(request, running)
    return dry_run_answer(run)


@router.get(
    "/dry-runs/rows",
    operation_id="getSyntheticRows",
    response_class=Response,
    responses=documented(
        "not-found", "dataset-archived", "busy",
        answers={200: {"content": {"text/csv": {"schema": {"type": "string"}}}}},
    ),
)  # fmt: skip
async def get_synthetic_rows(
    request: Request, caller: Analyst, dataset: Id, state: State
) -> Response:
    """Show synthetic rows as a CSV file of the data set's form, to try a program with.

    The file has the delimiter, encoding, title lines and spellings that the spec declares.

    They are spread evenly over the declared bounds and values, and at most 10,000.
    """
    making = state.services.dry_runs.rows(dataset, caller=caller)
    rows, encoding = await while_there(request, making)
    return rows_answer(rows, encoding)


catalog = router_of("/v1", "catalog")


@catalog.get("/catalog", operation_id="getCatalog", openapi_extra=ANYONE)
@kept
def get_catalog(state: State) -> Page[dict[str, Any]]:
    """List every statistic x mechanism x norm, its parameters, theorem and limits, on one page."""
    return whole_page(state.services.catalog)
