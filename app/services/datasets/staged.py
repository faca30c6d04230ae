"""An upload that is stored and waits until its sender has seen how it was read.

It is no data set yet: it has no account, no name, and is in no list. Only its sender sees it, for
an hour. Then it is cleared away, as it is when the sender has more of them waiting than may be.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any

from app.domain.hashing import sha256_hex
from app.domain.upload_reports import UploadReport
from app.vault.lineage import Origin
from mechanisms.privacy import NANOS_PER_EPSILON, Epsilon

WAITS_S = 3_600
MOST_OF_A_PERSON = 3
MOST = 50
LARGE_BUDGET = Epsilon(10 * NANOS_PER_EPSILON)
"""A budget above it is worth a second look."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Staged:
    """A stored upload that waits.

    ``declared`` is the JSON text that it was sent with, and ``extends`` the data set that it adds
    rows to. ``sha256`` is that of its digests, if it has any, ``manifest`` that of its manifest.
    """

    dataset: str
    name: str
    declared: str
    extends: str | None
    rows: int
    report: UploadReport
    sha256: str | None
    manifest: str
    origin: Origin

    def to_bytes(self) -> bytes:
        """Return it as JSON."""
        fields = {**asdict(self), "report": self.report.to_json(), "origin": self.origin.to_text()}
        return json.dumps(fields).encode()

    @classmethod
    def of_bytes(cls, content: bytes) -> Staged:
        """Return the inverse of :meth:`to_bytes`."""
        fields: dict[str, Any] = json.loads(content)
        report = UploadReport.of(fields["report"], fields["report"]["columns"])
        origin = Origin.of_text(fields["origin"])
        assert origin is not None
        return cls(**{**fields, "report": report, "origin": origin})


def owner_of(person: str) -> str:
    """Return the digest by which the notes of a person's uploads are found."""
    return sha256_hex(person.encode())


def doubts(report: UploadReport, budget: Epsilon | None) -> list[str]:
    """Return what is to be confirmed before a data set is created, in words.

    >>> doubts(UploadReport(), Epsilon.parse("100"))
    ['The budget is epsilon 100. Above 10 it protects little: 1 = strong privacy, 10 = weak.']
    """
    found = [
        f"{name}: {counts.clamped_low + counts.clamped_high} of {counts.values} values lie outside "
        "the bounds and were moved to the nearest bound."
        for name, counts in report.columns.items()
        if 2 * (counts.clamped_low + counts.clamped_high) > counts.values
    ]
    if budget is not None and budget.nanos > LARGE_BUDGET.nanos:
        found.append(
            f"The budget is epsilon {budget}. Above 10 it protects little: 1 = strong privacy, "
            "10 = weak."
        )
    return found
