"""The steps of making a release public: it is read first, so that what is published was seen."""

from __future__ import annotations

from app.client.models import Publication
from app.client.steps import Line, Steps


def publishing(line: Line, path: str, reason: str) -> Steps[Publication]:
    """Publish the release at a path as it is now."""
    seen = (yield from line.read(path)).headers["ETag"]
    body, headers = {"reason": reason}, {"If-Match": seen}
    sent = line.repeatable("POST", f"{path}/publication", json=body, headers=headers)
    return Publication.model_validate_json((yield from sent).content)
