"""Checkpoints of the public log, checked offline: who has signed them, and that the log only grows.

A checkpoint is a signed note: the log's name, its size, its root, and a signature over the three.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256

from app.client.errors import MissingPackageError, ReceiptError

_DASH = "\N{EM DASH}"
_NO_PACKAGE = "checking a checkpoint needs cryptography: pip install cryptography"


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
        from app.client.receipts import is_signed  # noqa: PLC0415
    except ImportError:
        raise MissingPackageError(_NO_PACKAGE) from None
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
