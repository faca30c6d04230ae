"""Dry runs: releases on synthetic rows, free."""

from __future__ import annotations

from typing import Annotated

from starlette.requests import Request
from starlette.responses import Response

from app.api.answers.dry_runs import DryRunAnswer, dry_run_answer, rows_answer
from app.api.answers.problems import documented
from app.api.dependencies import Analyst, Id, State, json_body
from app.api.endpoint import router_of
from app.web.requests.leaving import while_there
from app.web.requests.questions import DryRunRequest

router = router_of("/v1/datasets/{dataset}", "releases")


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
