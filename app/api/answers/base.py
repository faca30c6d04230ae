"""What all bodies of answers have in common."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict
from starlette.responses import Response


class Answer(BaseModel):
    """A body of an answer."""

    model_config = ConfigDict(frozen=True, use_attribute_docstrings=True)


def nothing() -> Response:
    """Return the answer that has no body."""
    return Response(status_code=204)
