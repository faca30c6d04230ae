"""The bodies of what is said while a release waits for its review."""

from __future__ import annotations

from pydantic import Field

from app.web.requests.base import Request
from app.web.requests.values import Reason


class CommentRequest(Request):
    """Something to say about a release that waits."""

    text: Reason = Field(examples=["Is the second table needed?"])
    """What to say."""
    private: bool = Field(default=False, examples=[True])
    """Whether it stays among reviewers. Otherwise who asked reads it too."""
