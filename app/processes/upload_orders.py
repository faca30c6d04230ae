"""The first message to a process that stores uploads, or compares them.

*How far the reading of an upload is, noted while it is stored, for who has sent it.* The note is a
small file in the upload's own directory. Any server of the desk finds it there by its name, which
follows from the person. When all is stored it is gone.

**Privacy.** Only the sender of the rows, who has them, sees how many rows and bytes were read.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from app.domain.upload_problems import UploadProgress
from app.uploads.reading_task import Tally
from mechanisms.contract import Block

# How far the reading of an upload is, noted while it is stored, for who has sent it

_EVERY_S = 0.5  # often enough for who looks once a second


def noted(
    blocks: Iterator[Block], tally: Tally, note: Path, reading: str, total: Callable[[], int]
) -> Iterator[Block]:
    """Yield blocks, and note from time to time how far they are; ``total`` counts all bytes."""
    rows, next_s, partial = 0, 0.0, note.with_suffix(".part")
    try:
        for block in blocks:
            rows += len(next(iter(block.values())))
            if time.monotonic() >= next_s:
                next_s, known = time.monotonic() + _EVERY_S, total()
                # a reader is not believed, and could say anything
                read = min(tally.read_bytes, known)
                progress = UploadProgress(
                    reading=reading, rows=rows, read_bytes=read, total_bytes=known or None
                )
                partial.touch(mode=0o600)
                partial.write_bytes(progress.to_json())
                partial.replace(note)
            yield block
    finally:
        note.unlink(missing_ok=True)


# The first message to a process that stores uploads, or compares them


@dataclass(frozen=True, slots=True, kw_only=True)
class StoringOrder:
    """What a storing process is to do: store, if it gets a reader, and compare or index otherwise.

    ``extends`` is the data set that rows are added to, with the SHA-256 of its manifest, and
    ``data_dir`` is where it lies. ``source`` is where the files are that it has to feed the reader
    with, and ``access`` is how a store of objects is asked for them. ``passes`` says where parts
    are sketched. ``note`` is the name of a file that says how far it is, and by
    which text its sender knows it, if they want to know (:mod:`app.processes.upload_orders`).
    ``size`` is how large an upload is. With ``indexing`` the digests of ``earlier`` data sets are
    brought into their index (:mod:`app.uploads.digest_index`).
    """

    log_level: str
    memory_bytes: int
    directory: str
    dataset: str
    spare: bool
    task: str | None = None
    source: Mapping[str, Any] | None = None
    access: Mapping[str, Any] = field(default_factory=dict, repr=False)
    passes: Mapping[str, Any] = field(default_factory=dict, repr=False)
    sha256: str = ""
    earlier: Sequence[tuple[str, str, bool, str | None]] = ()
    together: Sequence[tuple[str, str, bool, str | None]] = ()
    data_dir: str = ""
    extends: tuple[str, str] | None = None
    note: tuple[str, str] | None = None
    size: int = 0
    indexing: bool = False

    def to_json(self) -> bytes:
        """Return the order as it is sent."""
        # not by asdict(): it would copy each of thousands of data sets
        return json.dumps({each.name: getattr(self, each.name) for each in fields(self)}).encode()

    @classmethod
    def from_json(cls, content: bytes) -> StoringOrder:
        """Return the order that was sent."""
        return cls(**json.loads(content))
