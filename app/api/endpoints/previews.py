"""Before a release, free and without a look at the data: the catalog, previews and dry runs.

Study plans: saved, requested and decided on as one; their questions are drawn one by one.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import Query
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from app.api.answers.paging import Page, Paging, nothing, page_of, whole_page
from app.api.answers.problems import carrying, documented
from app.api.answers.releases import (
    PreviewAnswer,
    ReleaseAnswer,
    outcome_answer,
    preview_answer,
)
from app.api.answers.reviews import (
    CommentAnswer,
    CommentsAnswer,
    VersionsAnswer,
    comment_answer,
    comments_answer,
    versions_answer,
)
from app.api.answers.study_plans import (
    DryRunAnswer,
    PlanSheetAnswer,
    SavedPlanAnswer,
    StudyPlanAnswer,
    dry_run_answer,
    plan_answer,
    plan_response,
    plan_sheet_answer,
    rows_answer,
    study_answer,
)
from app.api.dependencies import (
    ANYONE,
    Analyst,
    Id,
    IdFilter,
    Overseer,
    Reader,
    Reviewer,
    State,
    json_body,
    kept,
    router_of,
    tag_named,
    untimed,
)
from app.domain.reviews import PlanState
from app.services.plans.previews import study_json
from app.web.requests.questions import (
    DryRunRequest,
    PlannedReleaseRequest,
    PreviewRequest,
    SavedPlanFields,
    SavedPlanRequest,
    StudyPlanRequest,
)
from app.web.requests.schemas import CommentRequest, DecisionRequest
from app.web.state import while_there

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


# Saved study plans

saved = router_of("/v1/study-plans", "study plans")

PlanStatus = Literal[
    "draft", "awaiting_review", "changes_requested", "approved", "rejected", "withdrawn", "expired"
]
_PLAN = {"model": SavedPlanAnswer, "headers": carrying("ETag")}
_IF_MATCH = {
    "parameters": [
        {
            "name": "If-Match",
            "in": "header",
            "required": True,
            "description": "The `ETag` of the plan as the reviewer has seen it.",
            "schema": {
                "type": "string",
                "minLength": 1,
                "maxLength": 200,
                "examples": ['"requested"'],
            },
        }
    ]
}


@saved.post(
    "",
    operation_id="saveStudyPlan",
    status_code=201,
    response_class=Response,
    responses=documented(
        "not-found", "dataset-archived", "policy-refused", "empty-dataset", "too-much-stored",
        "busy",
        answers={201: {"model": SavedPlanAnswer, "headers": carrying("Location", "ETag")}},
    ),
)  # fmt: skip
async def save_study_plan(
    request: Request,
    caller: Analyst,
    body: Annotated[SavedPlanRequest, json_body(SavedPlanRequest)],
    state: State,
) -> Response:
    """Save a study plan as a draft, which only you see.

    A question with an `accuracy` and no `epsilon` is saved at the smallest epsilon that reaches it.
    """
    services = state.services
    await services.keys.access.require(caller, {"dataset": body.dataset})
    saving = services.study_plans.save(
        body.dataset, body.planned, name=body.name, purpose=body.purpose, caller=caller
    )
    return plan_response(await while_there(request, saving), 201)


@saved.get("", operation_id="listStudyPlans")
def list_study_plans(
    caller: Reader,
    cut: Paging,
    state: State,
    dataset: Annotated[
        IdFilter,
        Query(max_length=100, description="Only plans of this data set.", examples=["ds_8f2c41"]),
    ] = None,
    status: Annotated[
        PlanStatus | None,
        Query(description="Only plans with this status.", examples=["awaiting_review"]),
    ] = None,
) -> Page[SavedPlanAnswer]:
    """List your study plans, newest first; reviewers and curators see everyone's requests."""
    views = state.services.study_plans.list(
        caller=caller,
        span=cut.span(),
        dataset=dataset,
        states=[] if status is None else [PlanState.called(status)],
    )
    return page_of([(each.record.number, plan_answer(each)) for each in views], cut)


@saved.get(
    "/{plan}",
    operation_id="getStudyPlan",
    response_class=Response,
    responses=documented("not-found", answers={200: _PLAN}),
)
async def get_study_plan(caller: Reader, plan: Id, state: State) -> Response:
    """Show a study plan and which of its questions are paid for."""
    return plan_response(await state.services.study_plans.get(plan, caller=caller))


@saved.put(
    "/{plan}",
    operation_id="editStudyPlan",
    response_class=Response,
    responses=documented(
        "not-found", "plan-not-draft", "dataset-archived", "policy-refused", "empty-dataset",
        "too-much-stored", "busy",
        answers={200: _PLAN},
    ),
)  # fmt: skip
async def edit_study_plan(
    request: Request,
    caller: Analyst,
    plan: Id,
    body: Annotated[SavedPlanFields, json_body(SavedPlanFields)],
    state: State,
) -> Response:
    """Change a draft of your own, or a study plan whose reviewers want changes.

    Reviewers see the change once you have requested the plan again.
    """
    editing = state.services.study_plans.edit(
        plan, body.planned, name=body.name, purpose=body.purpose, caller=caller
    )
    return plan_response(await while_there(request, editing))


@saved.delete(
    "/{plan}",
    operation_id="deleteStudyPlan",
    status_code=204,
    response_class=Response,
    responses=documented("not-found", "plan-not-draft", "busy"),
)
async def delete_study_plan(caller: Analyst, plan: Id, state: State) -> Response:
    """Delete a draft of your own."""
    await state.services.study_plans.delete(plan, caller=caller)
    return nothing()


@saved.post(
    "/{plan}/request",
    operation_id="requestStudyPlan",
    response_class=Response,
    responses=documented(
        "not-found", "plan-not-draft", "plan-changed", "precondition", "dataset-archived",
        "policy-refused", "empty-dataset", "busy", "clock-behind",
        answers={200: _PLAN},
    ),
)  # fmt: skip
async def request_study_plan(caller: Analyst, plan: Id, state: State) -> Response:
    """Ask for the approval of a draft as one request; from then on it does not change.

    Where its reviewers want changes, this sends the plan again as it was edited. Nothing is
    reserved. Where the policy asks for no review of any question a draft is approved at once.
    """
    return plan_response(await state.services.study_plans.request(plan, caller=caller))


@saved.post(
    "/{plan}/withdrawal",
    operation_id="withdrawStudyPlan",
    response_class=Response,
    responses=documented(
        "not-found", "not-awaiting-review", "busy", "clock-behind", answers={200: _PLAN}
    ),
)
async def withdraw_study_plan(caller: Analyst, plan: Id, state: State) -> Response:
    """Withdraw a study plan of your own, also an approved one; what has been drawn stays."""
    return plan_response(await state.services.study_plans.withdraw(plan, caller=caller))


@saved.get(
    "/{plan}/review",
    operation_id="getStudyPlanSheet",
    responses=documented("not-found", "not-awaiting-review", "busy"),
)
async def get_study_plan_sheet(caller: Overseer, plan: Id, state: State) -> PlanSheetAnswer:
    """Show all that a reviewer needs of a study plan; nothing is read of the rows."""
    return plan_sheet_answer(await state.services.plan_sheets.sheet(plan, caller=caller))


@saved.post(
    "/{plan}/decision",
    operation_id="decideOnStudyPlan",
    response_class=Response,
    openapi_extra=_IF_MATCH,
    responses=documented(
        "own-request", "not-found", "not-awaiting-review", "votes-complete", "plan-changed",
        "precondition", "precondition-missing", "dataset-archived", "policy-refused",
        "empty-dataset", "busy", "clock-behind",
        answers={200: _PLAN},
    ),
)  # fmt: skip
async def decide_on_study_plan(
    request: Request,
    caller: Reviewer,
    plan: Id,
    body: Annotated[DecisionRequest, json_body(DecisionRequest)],
    state: State,
) -> Response:
    """Approve or reject all questions of a study plan as one, or request changes (never one's own).

    With two reviewers this is a vote, and the second one decides if it is like the first.
    """
    view = await state.services.study_plans.decide(
        plan, body.decision, body.reason, unchanged=tag_named(request), caller=caller
    )
    return plan_response(view)


@saved.get("/{plan}/revisions", operation_id="listPlanVersions", responses=documented("not-found"))
async def list_plan_versions(caller: Reader, plan: Id, state: State) -> VersionsAnswer:
    """List every version of a study plan that was requested (its owner, curators).

    Each is compared with the one before. The questions are counted from 0.
    """
    return versions_answer(await state.services.comments.versions(study_plan=plan, caller=caller))


@saved.post(
    "/{plan}/comments",
    operation_id="commentOnPlan",
    status_code=201,
    responses=documented(
        "not-found", "not-awaiting-review", "too-many-comments", "too-much-stored", "busy",
        "clock-behind",
    ),
)  # fmt: skip
async def comment_on_plan(
    caller: Reader,
    plan: Id,
    body: Annotated[CommentRequest, json_body(CommentRequest)],
    state: State,
) -> CommentAnswer:
    """Say something about a study plan that was requested and has not ended (its owner, curators).

    Said by its owner while changes are requested, it gives the turn back to the reviewers, unless
    the owner has edited the plan: then requesting it again does.
    """
    made = await state.services.comments.add(
        body.text, study_plan=plan, private=body.private, caller=caller
    )
    return comment_answer(made)


@saved.get("/{plan}/comments", operation_id="listPlanComments", responses=documented("not-found"))
async def list_plan_comments(caller: Reader, plan: Id, state: State) -> CommentsAnswer:
    """List what has been said about a study plan, as far as the caller may read it."""
    return comments_answer(await state.services.comments.list(study_plan=plan, caller=caller))


@saved.post(
    "/{plan}/releases",
    operation_id="drawPlannedQuestion",
    status_code=201,
    response_class=Response,
    responses=documented(
        "not-found", "plan-not-approved", "plan-changed", "budget-exceeded", "dataset-archived",
        "policy-refused", "empty-dataset", "release-void", "internal", "busy", "too-many-jobs",
        "too-much-stored", "paused", "dataset-unreadable", "clock-behind", "not-ready",
        answers={
            201: {"model": ReleaseAnswer, "headers": carrying("Location", "ETag")},
            202: {
                "model": ReleaseAnswer,
                "description": "A job: charged, and drawn in the background.",
                "headers": carrying("Location", "ETag", "Retry-After"),
            },
        },
    ),
)  # fmt: skip
@untimed
async def draw_planned_question(
    caller: Analyst,
    plan: Id,
    body: Annotated[PlannedReleaseRequest, json_body(PlannedReleaseRequest)],
    state: State,
) -> Response:
    """Charge the budget and draw a question of your approved plan, without a further review.

    A question is charged once: the same request again replays its answer. So it needs no
    `Idempotency-Key`. The answer leaves at a tick of a public clock.
    """
    services = state.services
    async with state.clock.answer() as answer:
        record = await services.study_plans.draw(plan, body.question, caller=caller)
        return outcome_answer(record, services.releases.moments, answer.hold)
