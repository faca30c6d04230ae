"""The body of answers about dry runs: a release's, and what marks it as one about nobody."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field
from starlette.responses import Response

from app.api.answers.base import Answer
from app.api.answers.releases import (
    AssumeAnswer,
    GuaranteeAnswer,
    InferenceAnswer,
    NoiseAnswer,
    UsefulnessAnswer,
)


class DryRunAnswer(Answer):
    """A release on synthetic rows, with the members of a release. Every number is synthetic."""

    id: str
    """Names the dry run; nothing is kept under it."""
    dataset: str
    """The id of the data set."""
    status: Literal["dry_run"]
    """That nothing was released."""
    synthetic: Literal[True]
    """That every number is drawn from synthetic rows, and says nothing of anybody."""
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
    usefulness: UsefulnessAnswer | None
    """What a release would be worth, judged by these numbers too."""
    inference: InferenceAnswer | None = Field(default=None, exclude_if=lambda made: made is None)
    """Standard errors and confidence intervals; absent where none were asked for."""
    guarantee: GuaranteeAnswer
    """What the release would promise."""
    grid: dict[str, Any]
    """The public steps that the numbers are multiples of."""
    details: dict[str, Any]
    """Further public facts of the draw."""
    reason: str
    """Why this mechanism and norm."""
    requested_by: str
    """The person who asked."""
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


def rows_answer(rows: bytes) -> Response:
    """Return synthetic rows as a file."""
    return Response(rows, media_type="text/csv; charset=utf-8")
