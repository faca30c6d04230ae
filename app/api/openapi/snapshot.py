"""The document as a file's text, for review and for programs that are built from it."""

from __future__ import annotations

import json
from functools import cache

from app.api.application import bare_application


@cache
def snapshot() -> str:
    """Return the document as the snapshot's text; to describe it takes a second."""
    return json.dumps(bare_application().openapi(), indent=1, sort_keys=True) + "\n"
