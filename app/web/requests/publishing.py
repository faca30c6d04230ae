"""What requests about publications must look like."""

from __future__ import annotations

from pydantic import Field

from app.web.requests.base import Request
from app.web.requests.values import Reason


class PublicationRequest(Request):
    """Why a release is made public."""

    reason: Reason = Field(examples=["Table 2 of the annual report"])
    """Kept in the ledger, and shown to the public."""


class PublicationWithdrawalRequest(Request):
    """Why a release is no longer public."""

    note: Reason = Field(examples=["the wrong year was asked for"])
    """Kept in the ledger, and shown to the public at the release's address."""
