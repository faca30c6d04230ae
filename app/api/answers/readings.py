"""The body of an answer about uploads that are being read."""

from __future__ import annotations

from collections.abc import Sequence

from app.api.answers.base import Answer
from app.domain.upload_reports import UploadProgress


class ReadingAnswer(Answer):
    """How far an upload of yours is."""

    reading: str
    """The `Reading` that it was sent with."""
    rows: int
    """Rows that have been read."""
    bytes: int
    """Bytes that have been read. Of Parquet it is the part that its rows are of all rows."""
    of_bytes: int | None
    """Of how many, all files of a source together; null while that is not known."""


class ReadingsAnswer(Answer):
    """Those of your uploads that are being read."""

    items: list[ReadingAnswer]
    """In no order."""


def readings_answer(found: Sequence[UploadProgress]) -> ReadingsAnswer:
    """Return the body about uploads."""
    return ReadingsAnswer(
        items=[
            ReadingAnswer(
                reading=each.reading,
                rows=each.rows,
                bytes=each.read_bytes,
                of_bytes=each.total_bytes,
            )
            for each in found
        ]
    )
