"""What every body of a request is."""

from __future__ import annotations

from typing import Self

from pydantic import BaseModel, ConfigDict


class Request(BaseModel):
    """A body: immutable, closed to unknown fields."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        hide_input_in_errors=True,
        arbitrary_types_allowed=True,
        use_attribute_docstrings=True,
    )

    def prepared(self) -> Self:
        """Return this body with everything worked out that a long one takes long for."""
        return self
