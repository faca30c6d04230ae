"""The ledger's signing key: Ed25519, one file in the data directory, known to the ledger.

The file is made at the first start and readable by its owner alone. Its public
half is recorded in the system account, so that a key put in its place is
noticed. To change keys, remove the file: the next start makes a new one and
records it too, and what the old one signed stays verifiable.

*Reading a receipt: what it says, and whether a key of the ledger has signed it.* A receipt is a
compact JSON Web Signature (RFC 7515, EdDSA of RFC 8037) and the last member, ``"receipt"``, of the
answer that it signs. Making one is a use case (:mod:`app.services.releases.receipts`);
verification reads them too.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Protocol

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from app.domain.ledger import sha256_hex
from app.store.errors import StoreError
from app.store.ledger.entries import SYSTEM, EntriesWriter, Occasion
from app.vault.stored import flush

# Reading a receipt: what it says, and whether a key of the ledger has signed it

MEMBER = b',"receipt":"'
END = b'"}'


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """What a receipt says: this answer was charged for by this entry of this ledger."""

    ledger: str
    epoch: int
    account: str
    seq: int
    entry: str
    release: str
    answer: str


def split(answer: bytes) -> tuple[bytes, str | None]:
    """Return the bytes of an answer that its receipt signs, and the receipt.

    None, and the answer as it is, where no receipt is its last member.
    """
    before, found, rest = answer.strip().rpartition(MEMBER)
    token = rest.removesuffix(END)
    # The last member, or none: bytes behind it, or a quote in it, are no receipt of ours.
    if not found or token == rest or b'"' in token:
        return answer, None
    return before + b"}", token.decode("ascii", "replace")


def answer_digest(answer: bytes) -> str:
    """Return what a receipt says of an answer that is given without it."""
    return sha256_hex(answer)


def read_token(token: str, keys: Mapping[str, str]) -> Receipt | None:
    """Return what a token says, or None when none of the keys (by name) has signed it."""
    signed, _, signature = token.rpartition(".")
    header, _, payload = signed.partition(".")
    try:
        public = Ed25519PublicKey.from_public_bytes(_bytes(keys[json.loads(_bytes(header))["kid"]]))
        public.verify(_bytes(signature), signed.encode())
        said = json.loads(_bytes(payload))
        return Receipt(**{field.name: said[field.name] for field in fields(Receipt)})
    # Any fault: the token comes from an untrusted client, so any part may be anything.
    except (InvalidSignature, KeyError, TypeError, ValueError, RecursionError):
        return None


def _bytes(text: str) -> bytes:
    return base64.b64decode(text + "=" * (-len(text) % 4), b"-_", validate=True)


# The ledger's signing key: Ed25519, one file in the data directory, known to the ledger

KEY_NAME = "receipts.key"
RECEIPT_KEY = "receipt_key"
"""The kind of the system entry whose note is a public key."""


@dataclass(frozen=True, slots=True)
class KeySource:
    """How another process of ours comes to a key: by its private half, or by a program."""

    public: str
    private: bytes | None = None
    command: str | None = None


class ReceiptKey(Protocol):
    """What signs receipts; ``fresh`` is whether the ledger may learn of it."""

    @property
    def name(self) -> str:
        """Return the public half's RFC 7638 thumbprint."""

    @property
    def public(self) -> str:
        """Return the public half in base64url."""

    @property
    def fresh(self) -> bool:
        """Return whether this process has just made it, or the operator has named it."""

    @property
    def source(self) -> KeySource:
        """Return how another process of ours comes to it."""

    def sign(self, message: bytes) -> bytes:
        """Return the signature of a message, 64 bytes.

        Raises
        ------
        SignerLostError
            The key is not at hand for now.
        """

    def close(self) -> None:
        """Free what it holds."""


class SigningKey:
    """A private key and its public half, which is named by its RFC 7638 thumbprint.

    ``fresh`` is whether the ledger may learn of it: this process has just made it, or the
    operator has named it.
    """

    __slots__ = ("_private", "fresh", "name", "public")

    def __init__(self, private: Ed25519PrivateKey, *, fresh: bool = False) -> None:
        self._private = private
        self.fresh = fresh
        self.public = base64url(private.public_key().public_bytes_raw())
        self.name = thumbprint(self.public)

    def sign(self, message: bytes) -> bytes:
        """Return the signature of a message, 64 bytes."""
        return self._private.sign(message)

    @property
    def source(self) -> KeySource:
        """Return the private half, for a process of ours that signs."""
        return KeySource(public=self.public, private=self._private.private_bytes_raw())

    def close(self) -> None:
        """Hold nothing, so there is nothing to free."""

    @classmethod
    def of_bytes(cls, private: bytes) -> SigningKey:
        """Return the key whose private half this is."""
        return cls(Ed25519PrivateKey.from_private_bytes(private))

    @classmethod
    def of(cls, directory: Path) -> SigningKey:
        """Return the directory's key; the first caller makes it, however many come at once.

        Raises
        ------
        StoreError
            The file is no key of ours, or the directory cannot be written to.
        """
        file = directory / KEY_NAME
        try:
            fresh = not file.exists() and _make(file)
            content = file.read_bytes()
        except OSError as error:
            raise StoreError(f"the signing key {file} cannot be used: {error.strerror}") from error
        return cls(_read(content, f"the signing key {file}"), fresh=fresh)

    @classmethod
    def of_pem(cls, text: str) -> SigningKey:
        """Return a key that lies elsewhere, from its text.

        Raises
        ------
        StoreError
            The text is no key of ours.
        """
        return cls(_read(text.encode(), "the signing key in the settings"), fresh=True)


def _read(content: bytes, what: str) -> Ed25519PrivateKey:
    try:
        private = load_pem_private_key(content, password=None)
    except (TypeError, ValueError, UnsupportedAlgorithm):
        private = None
    if not isinstance(private, Ed25519PrivateKey):
        raise StoreError(f"{what} is no Ed25519 key") from None
    return private


def record_key(entries: EntriesWriter, key: ReceiptKey) -> None:
    """Record a key's public half in the system account."""
    occasion = Occasion(principal=SYSTEM, fingerprint=key.name, note=key.public)
    entries.append_system(RECEIPT_KEY, occasion)


def recorded_keys(entries: EntriesWriter) -> list[str | None]:
    """Return the public halves that the ledger knows, oldest first."""
    return [entry.note for entry in entries.of_system(RECEIPT_KEY)]


def base64url(content: bytes) -> str:
    """Return bytes as base64url text without padding (RFC 7515)."""
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


def thumbprint(public: str) -> str:
    """Return the RFC 7638 thumbprint of an Ed25519 public key given in base64url."""
    members = {"crv": "Ed25519", "kty": "OKP", "x": public}
    text = json.dumps(members, sort_keys=True, separators=(",", ":"))
    return base64url(hashlib.sha256(text.encode()).digest())


def _make(file: Path) -> bool:
    """Write a new key durably, or return False when somebody else has just done so."""
    content = Ed25519PrivateKey.generate().private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()
    )
    # Under a name of this process, then linked: no process ever reads half a key.
    fresh = file.with_name(f"{KEY_NAME}.{os.getpid()}")
    fresh.unlink(missing_ok=True)
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as stream:
        stream.write(content)
        stream.flush()
        os.fsync(stream.fileno())
    try:
        # A link, unlike a rename, leaves alone what another process has put there.
        file.hardlink_to(fresh)
    except FileExistsError:
        return False
    finally:
        fresh.unlink()
    flush(file.parent)
    return True
