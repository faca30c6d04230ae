"""The place that a source's root names."""

from __future__ import annotations

from pathlib import Path

from app.domain.sources import Source
from app.uploads.sources.folders import Folders
from app.uploads.sources.objects import ObjectAccess, Objects
from app.uploads.sources.places import Place


def place_of(source: Source, access: ObjectAccess, scratch: Path) -> Place:
    """Return where the files of a source are.

    Raises
    ------
    Problem
        ``source-unreadable``: there is no such place.
    """
    if source.root.scheme == "file":
        return Folders(source)
    return Objects(source, access, scratch)
