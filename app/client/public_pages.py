"""Checking a public release offline: with a public key, and without the service.

What is checked, in this order: the signature over every byte of the document, the receipt of the
answer in it, that the entry of the receipt is a leaf of the public log, and the checkpoint that
signs the log's root, and the time stamp of the checkpoint, where the certificates of its authority
are given. :mod:`app.client.offline` checks an answer alone.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from app.client.answers import Answer
from app.client.errors import ReceiptError
from app.client.models import Receipt
from app.client.offline import (
    Checkpoint,
    check_checkpoint,
    check_growth,
    check_receipt,
    check_stamp,
    signed_payload,
)
from app.client.releasing import Call, Line, Steps

# The calls about the public log, which take no key


@dataclass(frozen=True, slots=True, kw_only=True)
class Inclusion(Answer):
    """That a leaf is in the tree of the first ``size`` leaves; hashes are SHA-256, in hex."""

    index: int
    size: int
    leaf: str
    path: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Consistency(Answer):
    """That the tree of ``size`` leaves begins with that of ``before``; hashes in hex."""

    before: int
    size: int
    path: Sequence[str]


class LogCalls:
    """The methods about the public log, of both desks."""

    line: Line

    @Call
    def checkpoint(self, size: int | None = None) -> Steps[str]:
        """Return the newest checkpoint, or that of a size that was signed: keep it as it is."""
        params = None if size is None else {"size": str(size)}
        return (yield from self.line.read("/v1/log/checkpoint", params=params)).text

    @Call
    def stamp(self, size: int | None = None) -> Steps[bytes]:
        """Return the time stamp of a checkpoint, by default the newest there is (RFC 3161)."""
        params = None if size is None else {"size": str(size)}
        return (yield from self.line.read("/v1/log/stamp", params=params)).content

    @Call
    def inclusion(self, index: int, size: int) -> Steps[Inclusion]:
        """Prove that leaf ``index``, from 0, is in the tree of the first ``size`` leaves."""
        params = {"index": str(index), "size": str(size)}
        response = yield from self.line.read("/v1/log/proof/inclusion", params=params)
        return Inclusion.model_validate_json(response.content)

    @Call
    def consistency(self, before: int, size: int) -> Steps[Consistency]:
        """Prove that the tree of ``size`` leaves begins with the one of ``before``."""
        return (yield from self._consistency(before, size))

    def _consistency(self, before: int, size: int) -> Steps[Consistency]:
        params = {"from": str(before), "to": str(size)}
        response = yield from self.line.read("/v1/log/proof/consistency", params=params)
        return Consistency.model_validate_json(response.content)

    @Call
    def check_log(self, earlier: str, public_keys: str | bytes) -> Steps[Checkpoint]:
        """Return the newest checkpoint, once the log still begins with that of an earlier one.

        ``earlier`` is a checkpoint as it was kept, and ``public_keys`` what was kept with it.

        Raises
        ------
        ReceiptError
            The log has another name by now, or does not begin with what was in it.
        """
        kept = check_checkpoint(earlier, public_keys)
        later = (yield from self.line.read("/v1/log/checkpoint")).text
        newest = check_checkpoint(later, public_keys)
        path: Sequence[str] = ()
        # of another log, or of one that has shrunk, there is no proof to ask for
        if kept.log == newest.log and kept.size <= newest.size:
            path = (yield from self._consistency(kept.size, newest.size)).path
        return check_growth(earlier, later, path, public_keys)


# Checking a public release offline: with a public key, and without the service

_SIGNED = re.compile(rb'(.*),"signature":"([\w-]+\.[\w-]+\.[\w-]+)"\}\s*', re.DOTALL | re.ASCII)
_SHOWN = (
    "ledger", "account", "seq", "epoch", "kind", "release", "amount", "at", "hash", "hidden",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class PageCheck(Answer):
    """What a public release is proved to be.

    The answer is the one that entry ``seq`` of ``account`` in ``ledger`` has charged ``amount``
    for, in the account's unit. The entry is leaf ``index`` of the log ``log``, whose first
    ``size`` leaves have the ``root``. That was so at ``stamped_at`` at the latest, by the clock of
    the time-stamping authority; None where none was looked at.
    """

    release: str
    ledger: str
    account: str
    seq: int
    amount: int
    log: str
    index: int
    size: int
    root: str
    stamped_at: str | None = None


def is_page(document: bytes) -> bool:
    """Return whether a saved document is a public release, and not an answer alone."""
    return _SIGNED.fullmatch(document) is not None


def check_page(
    document: bytes, public_keys: str | bytes, *, authority: bytes | None = None
) -> PageCheck:
    """Return what a public release is proved to be, once all of it holds.

    Parameters
    ----------
    document
        The document byte for byte, as ``/public/releases/{id}.json`` answered it. White space
        behind it means nothing.
    public_keys
        What ``GET /v1/ledger/public-keys`` answered, or one key: a PEM file's content or
        base64url text.
    authority
        The certificates of the time-stamping authority (PEM). With them the time stamp of the
        checkpoint must be there, and hold.

    Raises
    ------
    ReceiptError
        Something does not hold: says what.
    MissingPackageError
        The package cryptography is not installed, or for time stamps rfc3161-client.
    """
    found = _SIGNED.fullmatch(document)
    if found is None:
        raise ReceiptError("there is no signature at the end of the document")
    signed = signed_payload(found[2], public_keys, "the document is not signed by this key")
    if sha256(found[1] + b"}").hexdigest() != signed.get("page"):
        raise ReceiptError("the signature belongs to another document, or this one has been edited")
    page = json.loads(found[1] + b"}")
    receipt = check_receipt(_answer_in(found[1], page), public_keys)
    proof = page.get("proof")
    if not isinstance(proof, Mapping):
        raise ReceiptError("there is no proof in the document yet: get it again in some minutes")
    try:
        proved = _proved(proof, receipt, public_keys)
        if authority is None:
            return proved
        return _stamped(proved, proof, authority)
    except (KeyError, TypeError, ValueError, AttributeError):
        raise ReceiptError("the proof in the document cannot be read") from None


def _stamped(proved: PageCheck, proof: Mapping[str, Any], authority: bytes) -> PageCheck:
    """Return what is proved, with the time of the checkpoint's stamp, once that holds."""
    if "stamp" not in proof:
        raise ReceiptError("there is no time stamp in the document: get it again in some minutes")
    stamp = base64.b64decode(proof["stamp"], validate=True)
    stamped_at = check_stamp(stamp, proof["checkpoint"].encode(), authority)
    return PageCheck.model_validate({**proved.members, "stamped_at": stamped_at})


def _answer_in(before: bytes, page: Mapping[str, Any]) -> bytes:
    """Return the answer that a document begins with, byte for byte."""
    member = b',"receipt":"%s"' % str(page.get("receipt")).encode()
    answer, there, _ = before.partition(member)
    if not there:
        raise ReceiptError("there is no receipt in the document")
    return answer + member + b"}"


def _proved(proof: Mapping[str, Any], receipt: Receipt, public_keys: str | bytes) -> PageCheck:
    entry = proof["entry"]
    own = (entry["ledger"], entry["account"], entry["seq"], entry["release"], entry["hash"])
    said = (receipt.ledger, receipt.account, receipt.seq, receipt.release, receipt.entry)
    if own != said or entry["kind"] != "debit":
        raise ReceiptError("the entry in the proof is not the one that the receipt names")
    signed = check_checkpoint(proof["checkpoint"], public_keys)
    if not signed.log.startswith(f"release-desk/{receipt.ledger}/"):
        raise ReceiptError("the checkpoint is of another log")
    path = [bytes.fromhex(each) for each in proof["path"]]
    if _root(proof["index"], signed.size, _leaf(entry), path) != signed.root:
        raise ReceiptError("the entry is not in the log that the checkpoint signs")
    return PageCheck.model_validate(
        {
            "release": receipt.release,
            "ledger": receipt.ledger,
            "account": receipt.account,
            "seq": receipt.seq,
            "amount": entry["amount"],
            "log": signed.log,
            "index": proof["index"],
            "size": signed.size,
            "root": signed.root.hex(),
        }
    )


def _leaf(entry: Mapping[str, Any]) -> bytes:
    """Return the hash of an entry's leaf, from what is shown of it."""
    parts = ["release-desk log leaf 1", *(entry[name] for name in _SHOWN)]
    return sha256(b"\0" + b"".join(map(_canonical, parts))).digest()


def _canonical(value: str | int) -> bytes:
    """Return length, type and content of a part of a leaf."""
    kind = b"t" if isinstance(value, str) else b"i"
    content = str(value).encode()
    return len(content).to_bytes(8, "big") + kind + content


def _root(index: int, size: int, leaf: bytes, path: Sequence[bytes]) -> bytes | None:
    """Return the root that an audit path leads to (RFC 9162, 2.1.3.2); None if it is none."""
    if not 0 <= index < size:
        return None
    first, last, root = index, size - 1, leaf
    for other in path:
        if last == 0:
            return None
        if first & 1 or first == last:
            root = sha256(b"\1" + other + root).digest()
            while first and not first & 1:
                first, last = first >> 1, last >> 1
        else:
            root = sha256(b"\1" + root + other).digest()
        first, last = first >> 1, last >> 1
    return root if last == 0 else None
