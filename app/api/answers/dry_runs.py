"""The body of answers about dry runs: a release's, and what marks it as synthetic."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field
from starlette.responses import Response

from app.api.answers.paging import Answer
from app.api.answers.releases import (
    AssumeAnswer,
    EdgeAnswer,
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
    excludes_missing: list[str] = Field(default=[], exclude_if=lambda names: not names)
    """Columns whose missing cells leave records out: the answer is about those that have a value.
    Left out where there is none."""
    fills: dict[str, Any] = Field(default={}, exclude_if=lambda fills: not fills)
    """By column that it uses, what missing cells were filled in with when the file was read. Left
    out where there is none."""
    about_missing: list[str] = Field(default=[], exclude_if=lambda said: not said)
    """Both in words, to be shown with the numbers: "income: missing values count as 0." Left out
    where there is nothing to say."""
    labels: dict[str, dict[str, str]] = Field(default={}, exclude_if=lambda labels: not labels)
    """What values of categories mean, by column and value, where the data set's spec says it. Left
    out where there is none."""
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


def rows_answer(rows: bytes, encoding: str) -> Response:
    """Return synthetic rows as a file in an encoding."""
    return Response(rows, media_type=f"text/csv; charset={encoding}")
