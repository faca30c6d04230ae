"""Directories of uploads in progress."""

from __future__ import annotations

import secrets
import shutil
from contextlib import suppress
from pathlib import Path


def staged(staging: Path, dataset_id: str) -> Path:
    """Return a new directory for a data set, of whose id a file's name can be made."""
    directory = staging / f"{dataset_id}-{secrets.token_hex(8)}"
    directory.mkdir(mode=0o700)
    return directory


def discard(directory: Path) -> None:
    """Remove a directory that somebody may still write to, who finds it no more."""
    aside = directory.with_name(f"{directory.name}-left")
    with suppress(OSError):
        directory.rename(aside)
    for each in (aside, directory):
        shutil.rmtree(each, ignore_errors=True)
