"""Signatures of receipts and checkpoints: what needs the package cryptography.

Nothing imports it but where a signature is checked, so that the client works without the package.
"""

from __future__ import annotations

import base64
import json

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import load_pem_public_key

from app.client.errors import ReceiptError


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
