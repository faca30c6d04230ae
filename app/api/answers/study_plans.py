"""The bodies of answers about what is not yet released: dry runs, and study plans.

What plans cost, and what becomes of saved ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field
from starlette.responses import Response

from app.api.answers.paging import Answer
from app.api.answers.releases import (
    AssumeAnswer,
    ChargeAnswer,
    EdgeAnswer,
    GuaranteeAnswer,
    InferenceAnswer,
    NoiseAnswer,
    PreviewAnswer,
    UsefulnessAnswer,
    WordsAnswer,
)
from app.api.answers.reviews import ExpectedAnswer, JudgedAnswer, expected_answer, judged
from app.services.plans.answers import status_of, tag_within
from app.services.plans.questions import statistic_json
from app.services.reviewing.plan_sheets import PlanSheet
from app.services.reviewing.study_plans import PLAN_NOTICE, PlanView


class StudyPlanAnswer(Answer):
    """What several questions would cost together."""

    questions: list[PreviewAnswer]
    """The preview of each question, in their order."""
    charge: ChargeAnswer
    """What all of them would take from the account."""
    remaining: ChargeAnswer
    """What is left for you, in the account's unit: the budget that remains, or your cap."""
    fits: bool
    """Whether it is enough for all of them."""
    unpriced: list[int]
    """Places, from 0, of questions whose wanted accuracy has no known epsilon: they are counted at
    the epsilon that their preview shows."""
    notice: str
    """What a plan is, and is not."""


def study_answer(plan: Mapping[str, object]) -> StudyPlanAnswer:
    """Return what questions would cost together."""
    return StudyPlanAnswer.model_validate(plan)


class PlannedAnswer(Answer):
    """A question of a study plan."""

    statistic: dict[str, Any]
    """What is asked."""
    mechanism: str
    """The mechanism that was asked for."""
    norm: str
    """The norm that was asked for."""
    epsilon: str
    """Its price, exactly."""
    purpose: str | None
    """What the number is for."""
    words: str
    """What is asked, in a sentence."""
    charge: ChargeAnswer
    """What the account is charged when it is drawn."""
    drawn_by: str
    """The mechanism that it is drawn by."""
    release: str | None
    """Its release, once it is charged; null before."""
    status: str | None
    """The status of the release; null before it is charged."""


class SavedPlanAnswer(Answer):
    """A saved study plan: several questions that are reviewed as one, and drawn one by one."""

    id: str
    """Names the plan."""
    dataset: str
    """The data set that it is about."""
    dataset_name: str
    """And its name."""
    name: str
    """What it is called."""
    purpose: str | None
    """What the numbers are for."""
    status: str
    """`draft`, `awaiting_review`, `changes_requested`, `approved`, `rejected`, `withdrawn` or
    `expired`."""
    turn: int
    """How often it has come before its reviewers; 1 for a draft."""
    edited: bool
    """Whether you have changed it since its reviewers requested changes: they see that once you
    request it again."""
    etag: str
    """What a decision carries as `If-Match`."""
    requested_by: str
    """Whose plan it is."""
    created_at: str
    """When it was saved (UTC)."""
    requested_at: str | None
    """When its approval was last requested (UTC)."""
    decided_by: str | None
    """The reviewer whose vote decided, or requested changes; null where the policy asks for no
    review."""
    decided_at: str | None
    """When it was decided on (UTC)."""
    reason: str | None
    """The reason of the decision."""
    expires_at: str | None
    """Until when its questions may be drawn (UTC)."""
    ended_at: str | None
    """When it was withdrawn or expired (UTC)."""
    questions: list[PlannedAnswer]
    """Its questions, in their order."""
    charge: ChargeAnswer
    """What all of them cost together."""
    paid: ChargeAnswer
    """What has been charged so far."""
    remaining: ChargeAnswer
    """What its owner may still spend of the account."""
    fits: bool
    """Whether what is not charged yet fits into that."""
    notice: str
    """A plan reserves nothing."""


class PlanSheetAnswer(JudgedAnswer):
    """All that a reviewer needs of one study plan."""

    plan: SavedPlanAnswer
    """The plan."""
    epsilon: str
    """The privacy loss of all questions together."""
    share: float
    """Which part of what is left its unpaid questions would take; above 1 they do not fit."""
    expected: list[ExpectedAnswer]
    """What each question's answer would be worth, in their order."""


def plan_answer(view: PlanView) -> SavedPlanAnswer:
    """Return a study plan."""
    record = view.record

    def amount(text: str) -> ChargeAnswer:
        return ChargeAnswer.model_validate({"amount": text, "unit": view.unit})

    return SavedPlanAnswer(
        id=record.id,
        dataset=record.dataset,
        dataset_name=view.dataset_name,
        name=record.name,
        purpose=record.purpose,
        status=record.state.status,
        turn=record.turn,
        edited=view.edited,
        etag=view.etag,
        requested_by=record.person,
        created_at=record.created_at,
        requested_at=record.requested_at,
        decided_by=view.decided_by,
        decided_at=record.decided_at,
        reason=record.reason,
        expires_at=record.expires_at,
        ended_at=record.ended_at,
        questions=[
            PlannedAnswer(
                statistic=dict(statistic_json(each.question.statistic)),
                mechanism=each.question.mechanism,
                norm=each.question.norm,
                epsilon=str(each.question.epsilon),
                purpose=each.question.purpose,
                words=each.words,
                charge=amount(each.charge),
                drawn_by=each.planned.mechanism,
                release=None if each.release is None else each.release.id,
                status=None if each.release is None else status_of(each.release.state),
            )
            for each in view.questions
        ],
        charge=amount(view.charge),
        paid=amount(view.paid),
        remaining=amount(view.remaining),
        fits=view.fits,
        notice=PLAN_NOTICE,
    )


def plan_response(view: PlanView, status_code: int = 200) -> Response:
    """Return a study plan with its entity tag."""
    content = plan_answer(view).model_dump_json().encode()
    headers = {"Cache-Control": "private, no-cache", "ETag": tag_within(view.etag, content)}
    if status_code == 201:
        headers["Location"] = f"/v1/study-plans/{view.record.id}"
    return Response(
        content, status_code=status_code, media_type="application/json", headers=headers
    )


def plan_sheet_answer(sheet: PlanSheet) -> PlanSheetAnswer:
    """Return the review sheet of a study plan."""
    return PlanSheetAnswer(
        **judged(sheet),
        plan=plan_answer(sheet.view),
        epsilon=sheet.epsilon,
        share=sheet.share,
        expected=[expected_answer(each) for each in sheet.expected],
    )


# Dry runs


class DryRunAnswer(WordsAnswer):
    """A release on synthetic rows, with the members of a release. Every number is synthetic."""

    id: str
    """Names the dry run; nothing is stored under it."""
    dataset: str
    """The id of the data set."""
    status: Literal["dry_run"]
    """That nothing was released."""
    synthetic: Literal[True]
    """Every number is drawn from synthetic rows, and is about no real person."""
    rows: int
    """How many rows were made: as many as assumed, at most 100,000, or 1,000 for what takes
    long."""
    assume: AssumeAnswer
    """The population that they were made of."""
    cost: str
    """Always 0."""
    statistic: dict[str, Any]
    """What was asked, defaults filled in."""
    mechanism: str
    """The mechanism that the release would be drawn by."""
    norm: str | None
    """The norm of the noise; null where the mechanism has none to choose."""
    epsilon: str
    """The privacy loss that the release would have."""
    value: dict[str, Any]
    """Synthetic numbers, in the shape of the release's."""
    noise: NoiseAnswer | None
    """The law of their noise; null where it depends on the data."""
    at_edge: list[EdgeAnswer] = Field(default=[], exclude_if=lambda edges: not edges)
    """Numbers of `value` that were clamped to what is possible, as a variance of 0: a reader shows
    the interval, or that they cannot be said. Left out where there is none."""
    at_most: list[EdgeAnswer] = Field(default=[], exclude_if=lambda bounds: not bounds)
    """Upper bounds in `value`, as the smallest p-values: `≤ 0.003`. Left out if there is none."""
    usefulness: UsefulnessAnswer | None
    """The expected quality of a release, judged by these numbers too."""
    inference: InferenceAnswer | None = Field(default=None, exclude_if=lambda made: made is None)
    """Standard errors and confidence intervals; absent where none were asked for."""
    guarantee: GuaranteeAnswer
    """The privacy guarantee that the release would have."""
    grid: dict[str, Any]
    """The public steps that the numbers are multiples of; `read_off` has those of the noisy numbers
    that they follow from, where they are no multiples themselves."""
    details: dict[str, Any]
    """Further public facts of the draw."""
    reason: str
    """Why this mechanism and norm."""
    requested_by: str
    """The requester."""
    created_at: None
    """Always null: the same request has the same answer."""
    released_at: None
    """Always null: nothing was released."""
    citation: str
    """That there is nothing to cite."""
    receipt: None
    """Always null: nothing was charged."""


def dry_run_answer(run: Mapping[str, object]) -> DryRunAnswer:
    """Return what a dry run came to."""
    return DryRunAnswer.model_validate(run)


def rows_answer(rows: bytes, encoding: str) -> Response:
    """Return synthetic rows as a file in an encoding."""
    return Response(rows, media_type=f"text/csv; charset={encoding}")
