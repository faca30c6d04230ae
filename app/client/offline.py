"""Receipts, checkpoints and time stamps, checked offline: with public keys, without the service.

The receipt of a released answer is a compact JSON Web Signature (EdDSA) over the answer's bytes
without its last member, ``"receipt"``. Keep answers as they came: reformatted JSON says the
same and is not what was signed.

A checkpoint of the public log is a signed note: the log's name, its size, its root, and a signature
over the three. Its time stamp (RFC 3161) is checked by the authority's certificates alone.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from app.client.answers import members_of
from app.client.errors import ClientError, MissingPackageError, ReceiptError
from app.client.models import Receipt

_NO_CRYPTOGRAPHY = (
    "checking a receipt offline needs cryptography: pip install cryptography. "
    "ReleaseDesk.check_receipt() asks the service instead."
)
_RECEIPT = re.compile(rb'(.*),"receipt":"([\w-]+\.[\w-]+\.[\w-]+)"\}\s*', re.DOTALL | re.ASCII)


def check_receipt(answer: bytes, public_keys: str | bytes) -> Receipt:
    """Return what the receipt in an answer says, once its signature and the answer fit.

    It says that this very answer was charged for by entry ``seq`` of ``account`` in
    ``ledger``. Whether that ledger still has the entry, only the service can say.

    Parameters
    ----------
    answer
        The answer byte for byte, e.g. :attr:`Release.body` or a saved file.
    public_keys
        What ``GET /v1/ledger/public-keys`` answered, or one key: a PEM file's content or
        base64url text.

    Raises
    ------
    ReceiptError
        There is no receipt, none of the keys has signed it, or it is another answer's.
    MissingPackageError
        The package cryptography is not installed.
    """
    found = _RECEIPT.fullmatch(answer)
    if found is None:
        raise ReceiptError("there is no receipt at the end of the answer")
    before, token = found.groups()
    said = signed_payload(token, public_keys, "the receipt is not signed by this key")
    try:
        receipt = Receipt.model_validate(said)
    except ClientError:
        raise ReceiptError("this is no receipt") from None
    if sha256(before + b"}").hexdigest() != receipt.answer:
        raise ReceiptError("the receipt belongs to another answer, or this one has been edited")
    return receipt


def signed_payload(token: bytes, public_keys: str | bytes, refusal: str) -> Mapping[str, Any]:
    """Return what a compact JSON Web Signature says, once one of the keys has signed it.

    Raises
    ------
    ReceiptError
        None of them has; ``refusal`` says so.
    MissingPackageError
        The package cryptography is not installed.
    """
    try:
        from app.client.signatures import bytes_of, is_signed, text_of  # noqa: PLC0415
    except ImportError:
        raise MissingPackageError(_NO_CRYPTOGRAPHY) from None
    signed, _, signature = token.rpartition(b".")
    content = bytes_of(signature)
    # one text for each signature: the last letter has bits that stand for nothing
    if text_of(content) != signature or not is_signed(signed, content, public_keys):
        raise ReceiptError(refusal)
    return members_of(bytes_of(signed.partition(b".")[2]))


_DASH = "\N{EM DASH}"
_NO_SIGNATURES = "checking a checkpoint needs cryptography: pip install cryptography"


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """What a checkpoint signs: the log's name, how many leaves it has, and their root."""

    log: str
    size: int
    root: bytes


def check_checkpoint(note: str, public_keys: str | bytes) -> Checkpoint:
    """Return what a checkpoint says, once one of the keys has signed it.

    Parameters
    ----------
    note
        The text that ``GET /v1/log/checkpoint`` answered.
    public_keys
        What ``GET /v1/ledger/public-keys`` answered, or one key: a PEM file's content or
        base64url text.

    Raises
    ------
    ReceiptError
        It is no checkpoint, or none of the keys has signed it.
    MissingPackageError
        The package cryptography is not installed.
    """
    try:
        from app.client.signatures import is_signed  # noqa: PLC0415
    except ImportError:
        raise MissingPackageError(_NO_SIGNATURES) from None
    try:
        body, there, line = note.partition("\n\n")
        log, size, root = body.split("\n")
        mark, name, signature = line.split(" ")
        content = base64.b64decode(signature.strip(), validate=True)
        said = Checkpoint(log=log, size=int(size), root=base64.b64decode(root, validate=True))
    except ValueError:
        raise ReceiptError("this is no checkpoint") from None
    sound = there and (mark, name) == (_DASH, log)
    if not (sound and is_signed(f"{body}\n".encode(), content[4:], public_keys)):
        raise ReceiptError("the checkpoint is not signed by this key")
    return said


def check_growth(
    earlier: str, later: str, path: Sequence[str], public_keys: str | bytes
) -> Checkpoint:
    """Return what the later checkpoint says, once its log begins with that of the earlier one.

    Parameters
    ----------
    earlier, later
        Two checkpoints, such as one that was kept and the newest.
    path
        The hashes of the proof: ``path`` of ``GET /v1/log/proof/consistency``.
    public_keys
        As of :func:`check_checkpoint`.

    Raises
    ------
    ReceiptError
        They are of two logs, or what was in the log has been changed or taken out.
    MissingPackageError
        The package cryptography is not installed.
    """
    before, after = (check_checkpoint(note, public_keys) for note in (earlier, later))
    if before.log != after.log:
        raise ReceiptError("the checkpoints are of two logs")
    try:
        hashes = [bytes.fromhex(each) for each in path]
    except ValueError:
        raise ReceiptError("the proof cannot be read") from None
    if not _begins_with(before, after, hashes):
        raise ReceiptError("the log does not begin with what was in it")
    return after


def _begins_with(before: Checkpoint, after: Checkpoint, path: Sequence[bytes]) -> bool:
    """Say whether a path proves that one tree begins with another (RFC 9162, 2.1.4.2)."""
    if before.size == after.size:
        return not path and before.root == after.root
    if not 0 < before.size < after.size or not path:
        return False
    first, last = before.size - 1, after.size - 1
    while first & 1:
        first, last = first >> 1, last >> 1
    # a full tree's own root is not in the path
    start, *others = path if first else [before.root, *path]
    old = new = start
    for other in others:
        if last == 0:
            return False
        if first & 1 or first == last:
            old, new = _node(other, old), _node(other, new)
            while first and not first & 1:
                first, last = first >> 1, last >> 1
        else:
            new = _node(new, other)
        first, last = first >> 1, last >> 1
    return last == 0 and (old, new) == (before.root, after.root)


def _node(left: bytes, right: bytes) -> bytes:
    return sha256(b"\1" + left + right).digest()


_NO_STAMPS = "checking a time stamp needs rfc3161-client: pip install rfc3161-client"


def check_stamp(stamp: bytes, stamped: bytes, authority: bytes) -> str:
    """Return when something was there at the latest, once its time stamp holds.

    Parameters
    ----------
    stamp
        What the authority answered, byte for byte: ``GET /v1/log/stamp``.
    stamped
        What was stamped: a checkpoint, ``GET /v1/log/checkpoint``.
    authority
        The certificates of the authority, PEM: what issues those that sign stamps, up to the
        root's, or the one that signs them where nothing else issues it.

    Returns
    -------
    str
        The authority's time (UTC), such as ``"2026-11-21T09:30:00Z"``.

    Raises
    ------
    ReceiptError
        It does not hold: says what.
    MissingPackageError
        The package rfc3161-client is not installed.
    """
    try:
        from app.client.signatures import time_of  # noqa: PLC0415

        said = time_of(stamp, stamped, authority)
    except ImportError:
        raise MissingPackageError(_NO_STAMPS) from None
    if said is None:
        raise ReceiptError("the time stamp is not of this checkpoint, or not by this authority")
    return said
