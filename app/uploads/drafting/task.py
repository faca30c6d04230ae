"""The request to the process that drafts a spec, and its answer."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, BinaryIO

from app.domain.problems import invalid_request
from app.uploads.dictionaries.described import DictionaryError
from app.uploads.dictionaries.reading import dictionary_in
from app.uploads.drafting.drafts import Draft, drafted_file
from app.uploads.limits import Limits
from app.uploads.trouble import UnreadableError

_MARK = "draft"


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftingTask:
    """Draft a spec of a file under a name, with the bytes of a dictionary if there is one."""

    name: str
    limits: Limits
    dictionary: bytes = b""

    def to_json(self) -> bytes:
        """Return the task as it is sent."""
        limits = {each.name: getattr(self.limits, each.name) for each in fields(self.limits)}
        content = {"name": self.name, "dictionary": base64.b64encode(self.dictionary).decode()}
        return json.dumps({_MARK: {**content, "limits": limits}}).encode()

    @classmethod
    def found_in(cls, order: bytes) -> DraftingTask | None:
        """Return the task that an order is, None for any other."""
        fields = json.loads(order).get(_MARK)
        if fields is None:
            return None
        dictionary = base64.b64decode(fields["dictionary"])
        return cls(name=fields["name"], limits=Limits(**fields["limits"]), dictionary=dictionary)

    def done(self, file: BinaryIO) -> Draft:
        """Return the draft of a file.

        Raises
        ------
        Problem
            ``invalid-request``, about the file or the dictionary; ``too-large``.
        """
        try:
            known = dictionary_in(self.dictionary) if self.dictionary else None
        except DictionaryError as error:
            raise invalid_request("dictionary", str(error)) from None
        try:
            return drafted_file(file, name=self.name, dictionary=known, limits=self.limits)
        except UnreadableError as error:
            raise invalid_request("file", str(error)) from None


def draft_json(draft: Draft) -> bytes:
    """Return a draft as it is sent."""
    return json.dumps({"spec": draft.spec, "notes": list(draft.notes)}).encode()


def draft_in(content: bytes) -> Draft:
    """Return the inverse of :func:`draft_json`.

    Raises
    ------
    ValueError
        It is no draft: who sends it has read a file of an untrusted client.
    """
    order = json.loads(content)
    spec, notes = order["spec"], order["notes"]
    columns = spec["columns"] if isinstance(spec, Mapping) else None
    sound = isinstance(columns, Mapping) and all(
        isinstance(each, Mapping) and isinstance(each.get("type"), str) for each in columns.values()
    )
    if not sound or not all(isinstance(each, str) for each in notes):
        raise ValueError("not a draft")
    typed: dict[str, Any] = dict(spec)
    return Draft(typed, tuple(notes))
