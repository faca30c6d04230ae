"""How far the reading of an upload is, noted while it is stored, for who has sent it.

The note is a small file in the upload's own directory. Any server of the desk finds it there by its
name, which follows from the person. When all is stored it is gone.

**Privacy.** Only the sender of the rows, who has them, sees how many rows and bytes were read.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

from app.domain.upload_reports import UploadProgress
from app.uploads.reading_task import Tally
from mechanisms.contract import Block

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
