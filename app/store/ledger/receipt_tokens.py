"""Reading a receipt: what it says, and whether a key of the ledger has signed it.

A receipt is a compact JSON Web Signature (RFC 7515, EdDSA of RFC 8037) and the
last member, ``"receipt"``, of the answer that it signs. Making one is a use case
(:mod:`app.services.releases.receipts`); verification reads them too.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass, fields

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from app.domain.hashing import sha256_hex

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
