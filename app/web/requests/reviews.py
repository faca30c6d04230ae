"""The bodies of what is said while a release waits, and of edits of what reviews go by."""

from __future__ import annotations

from pydantic import Field

from app.services.datasets.erasing import Edit
from app.web.requests.fields import Request
from app.web.requests.schemas import Kinds, ReviewText
from app.web.requests.values import (
    Line,
    Name,
    Printable,
    Reason,
    ReleaseEpsilon,
    Text,
)
from mechanisms.privacy import Epsilon


class CommentRequest(Request):
    """Something to say about a release that waits."""

    text: Reason = Field(examples=["Is the second table needed?"])
    """What to say."""
    private: bool = Field(default=False, examples=[True])
    """Whether it stays among reviewers. Otherwise who asked reads it too."""


class ReadRequest(Request):
    """Notices that have been read."""

    ids: tuple[Printable, ...] = Field(min_length=1, max_length=200, examples=[["ntf_2f7c"]])
    """Their ids; those that are not yours are passed over."""


class PolicyEdit(Request):
    """What of a policy changes; what is left out stays as it is."""

    review: ReviewText = Field(default="never", examples=["above:0.5"])
    """Which releases wait for a curator's approval, as in the spec."""
    reviewers: int = Field(default=1, ge=1, le=2, examples=[2])
    """How many curators decide on a release that waits."""
    max_epsilon_per_release: ReleaseEpsilon | None = Field(default=None, examples=["1"])
    """The most that one release may cost; null for no limit."""
    allowed: Kinds | None = Field(default=None, examples=[["count", "histogram"]])
    """Kinds of statistics that may be released; null: every kind."""


class DatasetEdit(Request):
    """What is to be said of a data set from now on; what is left out stays as it is."""

    reason: Reason = Field(examples=["the board's decision of May"])
    """Kept in the ledger."""
    description: Text | None = Field(default=None, examples=["235 Belgian households, 1857."])
    """Where the data come from and what a row is."""
    policy: PolicyEdit | None = Field(default=None, examples=[{"reviewers": 2}])
    """Limits of single releases, and which wait for a review."""
    notices: tuple[Line, ...] | None = Field(default=None, max_length=20, examples=[["Old"]])
    """What analysts of this data set should know, a sentence each."""
    labels: dict[Name, Line | None] | None = Field(default=None, examples=[{"income": "Income"}])
    """What columns are called in words, by name; null takes a label away."""
    checklist: tuple[Line, ...] | None = Field(
        default=None, max_length=50, examples=[["Is it published?"]]
    )
    """What reviewers look at, a question each."""

    @property
    def edit(self) -> Edit:
        """Return the edit, as the services know it."""
        policy = None
        if self.policy is not None:
            every = {
                "review": self.policy.review,
                "reviewers": self.policy.reviewers,
                "max_epsilon_per_release": _text(self.policy.max_epsilon_per_release),
                "allowed": None if self.policy.allowed is None else list(self.policy.allowed),
            }
            policy = {name: every[name] for name in every if name in self.policy.model_fields_set}
        return Edit(
            description=self.description,
            policy=policy,
            notices=self.notices,
            labels=self.labels,
            checklist=self.checklist,
        )


def _text(epsilon: Epsilon | None) -> str | None:
    return None if epsilon is None else str(epsilon)


# What requests about publications must look like


class PublicationRequest(Request):
    """Why a release is made public."""

    reason: Reason = Field(examples=["Table 2 of the annual report"])
    """Kept in the ledger, and shown to the public."""


class PublicationWithdrawalRequest(Request):
    """Why a release is no longer public."""

    note: Reason = Field(examples=["the wrong year was asked for"])
    """Kept in the ledger, and shown to the public at the release's address."""
