"""A time-stamping authority (RFC 3161): who says, from outside, when something was there.

The authority sees the SHA-256 of what it stamps, and nothing else. Its answer is kept as it came.
Here it is only made sure that it is a stamp of what was sent; who trusts the authority checks its
signature, with its certificate and without the service.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256

from rfc3161_client import (
    HashAlgorithm,
    TimestampRequestBuilder,
    TimeStampResponse,
    decode_timestamp_response,
)

from app.services.posting import NotPostedError, post

REPLY_TYPE = "application/timestamp-reply"
_QUERY_TYPE = "application/timestamp-query"
_GRANTED = 0  # PKIStatus of RFC 3161; other words come with no stamp
_MOST_BYTES = 2**16  # a stamp has a few kilobytes, certificates included


class NotStampedError(Exception):
    """The authority has given no stamp; it is asked again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Authority:
    """An authority, at the address that takes requests by POST."""

    url: str

    def stamp(self, content: bytes) -> bytes:
        """Return the authority's answer: a stamp of the content's SHA-256, as DER.

        Raises
        ------
        NotStampedError
            It cannot be reached, refuses, or answers something else.
        """
        asked = TimestampRequestBuilder(content, HashAlgorithm.SHA256).build()
        headers = {"Content-Type": _QUERY_TYPE, "Accept": REPLY_TYPE}
        try:
            answer = post(self.url, asked.as_bytes(), headers, most_bytes=_MOST_BYTES)
        except NotPostedError as error:
            raise NotStampedError(str(error)) from None
        try:
            fits = _fits(decode_timestamp_response(answer), content, asked.nonce)
        except ValueError:
            raise NotStampedError("the answer cannot be read") from None
        if not fits:
            raise NotStampedError("the answer is no stamp of what was sent")
        return answer


def _fits(answer: TimeStampResponse, content: bytes, nonce: int | None) -> bool:
    if answer.status != _GRANTED:
        return False
    said = answer.tst_info
    # Without the nonce an earlier answer could be sent again, with its earlier time.
    return said.nonce == nonce and said.message_imprint.message == sha256(content).digest()
