"""The fields that a kind of document has, and those at a place in it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Self

from pydantic import BaseModel, ConfigDict

# What every body of a request is


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


# The fields that a kind of document has, and those at a place in it

Schema = Mapping[str, Any]


class Fields:
    """The fields of a document, by its JSON schema.

    Parameters
    ----------
    schema
        The schema; what it refers to is in its ``$defs``.
    """

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self._parts: Schema = schema.get("$defs", {})

    @cached_property
    def names(self) -> frozenset[str]:
        """Return the name of every field of the document and of all inside it."""
        parts = (self._schema, *self._parts.values())
        return frozenset(name for part in parts for name in part.get("properties", {}))

    def at(self, location: Sequence[str | int]) -> list[str]:
        """Return the fields of the object at a location as a validator gives it, sorted.

        Between fields and positions a location names branches of unions: by the value that
        distinguishes them, by the model's name, or by words that are the validator's own.
        """
        parts = [self._schema]
        for step in location:
            parts = [inner for part in parts for inner in self._within(part, step)] or parts
        return sorted({name for part in self._forms(parts) for name in part.get("properties", {})})

    def _within(self, part: Schema, step: str | int) -> Iterator[Schema]:
        """Yield what a step leads to from a schema."""
        for form in self._forms([part]):
            if isinstance(step, int):
                if isinstance(form.get("items"), Mapping):
                    yield form["items"]
            elif step in form.get("properties", {}):
                yield form["properties"][step]
            elif form.get("title") == step or step in self._tags(form):
                yield form
            elif isinstance(form.get("additionalProperties"), Mapping):
                yield form["additionalProperties"]

    def _forms(self, parts: Sequence[Schema]) -> Iterator[Schema]:
        """Yield what schemas are once references and unions in them are followed."""
        for part in parts:
            if "$ref" in part:
                yield from self._forms([self._parts[part["$ref"].rsplit("/", 1)[-1]]])
            elif "anyOf" in part or "oneOf" in part:
                if "properties" in part:  # an object that says which of its fields it needs
                    yield part
                yield from self._forms(part.get("anyOf", part.get("oneOf", ())))
            else:
                yield part

    @staticmethod
    def _tags(form: Schema) -> Iterator[str]:
        """Yield the values that distinguish an object from others in a union."""
        yield from (
            each["const"] for each in form.get("properties", {}).values() if "const" in each
        )
