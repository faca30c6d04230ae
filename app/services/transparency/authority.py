"""A time-stamping authority (RFC 3161): who says, from outside, when something was there.

The authority sees the SHA-256 of what it stamps, and nothing else. Its answer is kept as it came,
but for the order of its certificates. Here it is only made sure that it is a stamp of what was
sent; who trusts the authority checks its signature, with its certificate and without the service.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256

from rfc3161_client import (
    HashAlgorithm,
    TimestampRequestBuilder,
    TimeStampResponse,
    decode_timestamp_response,
)

from app.services.archiving import NotPostedError, post

REPLY_TYPE = "application/timestamp-reply"
_QUERY_TYPE = "application/timestamp-query"
_GRANTED = 0  # PKIStatus of RFC 3161; other words come with no stamp
_CERTIFICATES = 0xA0  # of SignedData (RFC 5652)
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
            answer = in_order(answer)
            fits = _fits(decode_timestamp_response(answer), content, asked.nonce)
        except (IndexError, ValueError):
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


def in_order(answer: bytes) -> bytes:
    """Return a stamp with its certificates in the order that DER asks for.

    OpenSSL sends the signer's own first and those that issued it after, which who reads DER to the
    letter refuses. No signature covers them, and their order says nothing.

    Raises
    ------
    IndexError, ValueError
        It is no stamp.
    """
    (whole,) = _parts(answer, 0, len(answer))
    _, *token = _parts(answer, *whole[1:])
    if not token:  # a refusal
        return answer
    _, content = _parts(answer, *token[0][1:])
    (signed,) = _parts(answer, *content[1:])
    for start, inside, end in _parts(answer, *signed[1:]):
        if answer[start] == _CERTIFICATES:
            each = sorted(answer[first:last] for first, _, last in _parts(answer, inside, end))
            return answer[:inside] + b"".join(each) + answer[end:]
    return answer


def _parts(content: bytes, start: int, end: int) -> Iterator[tuple[int, int, int]]:
    """Return where each value of DER begins, where what is in it begins, and where it ends."""
    while start < end:
        size, inside = content[start + 1], start + 2
        if size >= 128:
            inside += size - 128
            size = int.from_bytes(content[start + 2 : inside], "big")
        if inside + size > end:
            raise ValueError("a value goes on beyond what holds it")
        yield start, inside, inside + size
        start = inside + size
