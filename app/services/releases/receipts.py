"""Receipts: a signature on each released answer, which everyone can check offline.

A receipt is a JSON Web Signature in compact form (RFC 7515, EdDSA of RFC 8037)
and the last member, ``"receipt"``, of the answer that it signs::

    {"id":"rel_...", ..., "receipt":"<header>.<payload>.<signature>"}

Its payload names the ledger, the ledger's epoch at the signing, the entry that
charged for the answer (account, seq and hash), the release, and as ``answer`` the
SHA-256 of the answer's bytes without the receipt, i.e. with ``,"receipt":"..."``
cut out. An entry's hash binds every entry of its account before it. So a receipt
commits the service to that much of its ledger.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256

from app.domain.ledger import chain_hash
from app.domain.problems import Problem, invalid_request
from app.store import RECEIPT_KEY, ReceiptKey, ReleaseRecord, Store, base64url
from app.store.ledger.signing import END, MEMBER, Receipt, answer_digest, read_token, split

_encode = json.JSONEncoder(separators=(",", ":")).encode


_LONGEST_RECEIPT = 4096  # a receipt has some hundreds of bytes


@dataclass(frozen=True, slots=True)
class SentAnswer:
    """A receipt that somebody has sent back, and the digest of the answer that it came with.

    None: it came alone.
    """

    receipt: str
    digest: str | None


def sent_answer(document: Mapping[str, object], content: bytes) -> SentAnswer:
    """Return a released answer that was sent back, or its receipt alone.

    Parameters
    ----------
    document
        What was sent, parsed.
    content
        The same as bytes: only the very bytes that were answered are signed.

    Raises
    ------
    Problem
        ``invalid-request`` when there is no receipt in it.
    """
    receipt = document.get("receipt")
    if not isinstance(receipt, str):
        raise _missing()
    return SentAnswer(receipt, None if len(document) == 1 else answer_digest(split(content)[0]))


class LongAnswer:
    """An answer that is hashed as it comes: of all of it, only the end is kept."""

    def __init__(self) -> None:
        self._hash = sha256()
        self._end = bytearray()
        self.begun = False

    def add(self, content: bytes | bytearray) -> None:
        """Take in what comes next."""
        self.begun = True
        self._end += content
        # A receipt is at the end and no longer than this: what lies before is surely signed text.
        before = len(self._end) - _LONGEST_RECEIPT
        if before > 0:
            self._hash.update(self._end[:before])
            del self._end[:before]

    def sent(self) -> SentAnswer:
        """Return the answer, now that all of it has come.

        Raises
        ------
        Problem
            ``invalid-request`` when it does not end with a receipt.
        """
        opened = b"{"  # splitting takes white space off both sides, and this side is in the middle
        before, receipt = split(opened + self._end)
        if receipt is None:
            raise _missing()
        self._hash.update(before.removeprefix(opened))
        return SentAnswer(receipt, self._hash.hexdigest())


def _missing() -> Problem:
    return invalid_request("receipt", "is required, as text")


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What this ledger makes of a receipt; without a good signature it says no more.

    ``sent`` is whether the answer that came with the receipt is the signed one
    (None: it came alone), ``entry`` whether the ledger has the entry in place,
    ``stored`` whether the stored answer is the signed one. ``forgotten`` is whether the
    entry is missing and of an epoch that a reconciliation has ended, as when a restored
    database did not know it yet.
    """

    signature: bool
    sent: bool | None = None
    entry: bool | None = None
    stored: bool | None = None
    forgotten: bool | None = None
    receipt: Receipt | None = None

    @property
    def ok(self) -> bool:
        """Return whether everything that was looked at holds."""
        return self.signature and self.sent is not False and bool(self.entry and self.stored)


@dataclass(frozen=True, slots=True, kw_only=True)
class PublicKey:
    """A public key that the ledger has recorded, by its thumbprint, and since when."""

    name: str
    public: str
    since: str


class Signer:
    """Signs answers of one epoch of a ledger."""

    def __init__(self, *, ledger: str, epoch: int, key: ReceiptKey) -> None:
        self._ledger = ledger
        self._epoch = epoch
        self._key = key
        self._header = base64url(_encode({"alg": "EdDSA", "kid": key.name}).encode())

    def attach(self, record: ReleaseRecord, answer: bytes) -> bytes:
        """Return an answer, a JSON object, with its receipt as the last member."""
        receipt = {
            "ledger": self._ledger,
            "epoch": self._epoch,
            "account": record.account,
            "seq": record.seq,
            "entry": record.entry_hash,
            "release": record.id,
            "answer": answer_digest(answer),
        }
        return b"%s%s%s%s" % (answer[:-1], MEMBER, self._signed(receipt), END)

    def page(self, release: str, content: bytes) -> bytes:
        """Return the signature of a public document, which covers its bytes and its release."""
        return self._signed(
            {"ledger": self._ledger, "release": release, "page": answer_digest(content)}
        )

    def _signed(self, payload: Mapping[str, object]) -> bytes:
        """Return a payload as a compact JSON Web Signature."""
        signed = f"{self._header}.{base64url(_encode(payload).encode())}".encode()
        return b"%s.%s" % (signed, base64url(self._key.sign(signed)).encode())


class Receipts:
    """Signs answers, and judges receipts by the keys and entries of this ledger."""

    def __init__(self, store: Store) -> None:
        self._store = store
        identity = store.identity
        self._signer = Signer(ledger=identity.id, epoch=identity.epoch, key=store.key)
        # Keys are recorded at starts only, so what was read at this one stays right.
        with store.reading() as reader:
            recorded = reader.entries.of_system(RECEIPT_KEY)
        self.keys = tuple(
            PublicKey(name=entry.fingerprint or "", public=entry.note or "", since=entry.at)
            for entry in reversed(recorded)
        )
        """The ledger's public keys, the present one first."""

    @property
    def ledger(self) -> str:
        """Return the ledger's id."""
        return self._store.identity.id

    def attach(self, record: ReleaseRecord, answer: bytes) -> bytes:
        """Do what :meth:`Signer.attach` does, with the ledger's present key."""
        return self._signer.attach(record, answer)

    def sign_page(self, release: str, content: bytes) -> bytes:
        """Do what :meth:`Signer.page` does, with the ledger's present key."""
        return self._signer.page(release, content)

    def check(self, sent: SentAnswer) -> Finding:
        """Judge a released answer, or its receipt alone."""
        receipt = read_token(sent.receipt, {key.name: key.public for key in self.keys})
        if receipt is None:
            return Finding(signature=False)
        with self._store.reading() as reader:
            # The entry in that place, if any: a receipt may name one that a restored
            # database lacks.
            entries = reader.entries.list(receipt.account, after=receipt.seq - 1, limit=1)
            record = reader.releases.get(receipt.release)
        stored = None if record is None or record.result is None else record.result
        in_place = any(
            (entry.seq, entry.hash, entry.release, chain_hash(entry, self.ledger))
            == (receipt.seq, receipt.entry, receipt.release, receipt.entry)
            for entry in entries
        )
        return Finding(
            signature=True,
            sent=None if sent.digest is None else sent.digest == receipt.answer,
            entry=in_place,
            stored=stored is not None and answer_digest(split(stored)[0]) == receipt.answer,
            forgotten=not in_place and receipt.epoch < self._store.identity.epoch,
            receipt=receipt,
        )
