"""The bodies of answers about publications."""

from __future__ import annotations

from typing import Literal

from app.api.answers.base import Answer
from app.services.publishing.publications import PublicationRecord
from app.services.publishing.published import path_of


class PublicationAnswer(Answer):
    """A release that is public, or was."""

    release: str
    """The release's id."""
    dataset: str
    """The id of its data set."""
    status: Literal["published", "withdrawn"]
    """Withdrawn: the address says who did it, when and why, and shows no numbers."""
    address: str
    """The path of the public page; with `.json` or `.csv` at its end, that form."""
    reason: str
    """Why it was made public."""
    published_by: str
    """The person who did."""
    published_at: str
    """When (UTC)."""
    seq: int
    """The number of the entry about it in the system's account, `0`."""
    withdrawn_by: str | None
    """The person who withdrew it; null while it is public."""
    withdrawn_at: str | None
    """When (UTC); null while it is public."""
    note: str | None
    """Why; null while it is public."""


def publication_answer(record: PublicationRecord) -> PublicationAnswer:
    """Return a publication."""
    return PublicationAnswer(
        release=record.release,
        dataset=record.dataset,
        status="published" if record.withdrawn_at is None else "withdrawn",
        address=path_of(record.release),
        reason=record.reason,
        published_by=record.published_by,
        published_at=record.published_at,
        seq=record.seq,
        withdrawn_by=record.withdrawn_by,
        withdrawn_at=record.withdrawn_at,
        note=record.note,
    )
