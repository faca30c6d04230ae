"""Checking a released answer's receipt offline: with a public key, and without the service.

The receipt is a compact JSON Web Signature (EdDSA) over the answer's bytes without
its last member, ``"receipt"``. Keep answers as they came: reformatted JSON says the
same and is not what was signed.

Signatures of receipts: the one part of the client that needs the package cryptography.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import load_pem_public_key

from app.client.answers import members_of
from app.client.errors import ClientError, MissingPackageError, ReceiptError
from app.client.models import Receipt


def is_signed(message: bytes, signature: bytes, public_keys: str | bytes) -> bool:
    """Return whether one of the keys has signed a message.

    Raises
    ------
    ReceiptError
        The keys cannot be read.
    """
    return any(_signed(key, message, signature) for key in _keys(public_keys))


def bytes_of(text: bytes) -> bytes:
    """Return what base64url text stands for, padded or not."""
    return base64.urlsafe_b64decode(text + b"=" * (-len(text) % 4))


def text_of(content: bytes) -> bytes:
    """Return bytes as base64url text without padding."""
    return base64.urlsafe_b64encode(content).rstrip(b"=")


def _signed(key: Ed25519PublicKey, message: bytes, signature: bytes) -> bool:
    try:
        key.verify(signature, message)
    except InvalidSignature:
        return False
    return True


def _keys(text: str | bytes) -> list[Ed25519PublicKey]:
    content = (text.encode() if isinstance(text, str) else text).strip()
    try:
        if content.startswith(b"{"):
            points = [bytes_of(key["x"].encode()) for key in json.loads(content)["keys"]]
        elif content.startswith(b"-----"):
            key = load_pem_public_key(content)
            return [key] if isinstance(key, Ed25519PublicKey) else []
        else:
            points = [bytes_of(content)]
        return [Ed25519PublicKey.from_public_bytes(point) for point in points]
    except (AttributeError, KeyError, TypeError, ValueError):
        raise ReceiptError("the public key cannot be read") from None


# Checking a released answer's receipt offline: with a public key, and without the service


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
    if hashlib.sha256(before + b"}").hexdigest() != receipt.answer:
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
        from app.client.receipts import bytes_of, is_signed, text_of  # noqa: PLC0415
    except ImportError:
        raise MissingPackageError(_NO_CRYPTOGRAPHY) from None
    signed, _, signature = token.rpartition(b".")
    content = bytes_of(signature)
    # one text for each signature: the last letter has bits that stand for nothing
    if text_of(content) != signature or not is_signed(signed, content, public_keys):
        raise ReceiptError(refusal)
    return members_of(bytes_of(signed.partition(b".")[2]))
