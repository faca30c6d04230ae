"""Having checkpoints of the public log time-stamped, in the background.

No request waits for a stamp: checkpoints are signed, and releases published, whether the authority
answers or not. While it does not, the operator reads so in the log, and it is asked again after
longer and longer pauses. What has been signed until then is stamped afterwards.

The authority (RFC 3161) sees the SHA-256 of what it stamps, and nothing else. Its answer is stored
as it came, but for the order of its certificates. Here it is only made sure that it is a stamp of
what was sent. A client that trusts the authority checks its signature, with its certificate and
without the service.

*One POST to an address that the operator has set, without redirects and with little patience.*
Notices are sent with it too.
"""

from __future__ import annotations

import http.client
import logging
import ssl
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from urllib.parse import urlsplit

import anyio
import anyio.to_thread
from rfc3161_client import (
    HashAlgorithm,
    TimestampRequestBuilder,
    TimeStampResponse,
    decode_timestamp_response,
)

from app.domain.problems import Problem
from app.logs import describe
from app.store import Reader, Store

# One POST to an address that the operator has set

_TIMEOUT_S = 10.0


class NotPostedError(Exception):
    """The message was not delivered; says why in a few fixed words, or by a status."""


def post(url: str, body: bytes, headers: Mapping[str, str], *, most_bytes: int = 0) -> bytes:
    """Post a body to an address that the operator has set; no redirect is followed.

    Returns the beginning of the answer: at most ``most_bytes``.

    Raises
    ------
    NotPostedError
        No answer, or a status other than 2xx.
    """
    parts = urlsplit(url)
    # A user and a password in the URL are no part of the host's name.
    host = parts.netloc.rpartition("@")[2]
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    connection = (
        http.client.HTTPSConnection(host, timeout=_TIMEOUT_S, context=ssl.create_default_context())
        if parts.scheme == "https"
        else http.client.HTTPConnection(host, timeout=_TIMEOUT_S)
    )
    try:
        connection.request("POST", path, body=body, headers=dict(headers))
        with connection.getresponse() as answer:
            # Bounded: the other side may answer without end.
            content = answer.read(most_bytes) if most_bytes else b""
    except (OSError, http.client.HTTPException) as error:
        raise NotPostedError(type(error).__name__) from None
    finally:
        connection.close()
    if not 200 <= answer.status < 300:
        raise NotPostedError(f"status {answer.status}")
    return content


# Having checkpoints time-stamped

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


_LOG = logging.getLogger(__name__)
LOOK_EVERY_S = 2.0
FIRST_PAUSE_S = 10.0
LONGEST_PAUSE_S = 3600.0


class StampService:
    """Keeps stamps of the log's checkpoints.

    Parameters
    ----------
    store
        The ledger.
    authority
        Who is asked for stamps; None for no authority.
    """

    def __init__(self, store: Store, authority: Authority | None) -> None:
        self._store = store
        self._authority = authority

    def stamp(self, size: int | None = None) -> bytes:
        """Return the newest stamp, or that of the checkpoint of a size.

        Raises
        ------
        Problem
            ``not-found``.
        """

        def read(reader: Reader) -> bytes:
            wanted = reader.stamps.newest() if size is None else size
            found = None if wanted is None else reader.stamps.of(wanted)
            if found is None:
                raise Problem("not-found")
            return found

        if size is not None:
            return self._store.read_public(read)
        with self._store.reading() as reader:  # the newest must not seem to go back
            return read(reader)

    async def stamp_next(self) -> bool:
        """Have the next checkpoint stamped, and return whether there was one to be stamped.

        Raises
        ------
        NotStampedError
            The authority has given no stamp.
        Problem
            ``busy``, ``ledger-frozen``.
        """
        if self._authority is None:
            return False
        due = await anyio.to_thread.run_sync(self._due)
        if due is None:
            return False
        size, note = due
        # a stopping server waits for its own store, not for somebody else's answer
        stamp = await anyio.to_thread.run_sync(
            self._authority.stamp, note.encode(), abandon_on_cancel=True
        )
        await self._store.awrite(lambda work: work.stamps.add(size, stamp))
        return True

    def _due(self) -> tuple[int, str] | None:
        with self._store.reading() as reader:
            return reader.stamps.due()

    async def keep(self) -> None:
        """Have checkpoints stamped, while somebody serves."""
        failed = 0
        while self._authority is not None:
            failed += 1
            try:
                await self.stamp_next()
                failed = 0
            except NotStampedError as error:
                _LOG.warning("a checkpoint was not stamped", extra={"reason": str(error)})
            except Problem as problem:  # busy, or frozen
                _LOG.info("a checkpoint was not stamped", extra={"code": problem.code})
            except Exception as error:
                _LOG.error("a checkpoint was not stamped", extra=describe(error))
            await anyio.sleep(pause_after(failed))


def pause_after(failed: int) -> float:
    """Return the pause in seconds after a number of failures of the authority in a row."""
    if failed == 0:
        return LOOK_EVERY_S
    return min(FIRST_PAUSE_S * 2.0 ** min(failed - 1, 16), LONGEST_PAUSE_S)
