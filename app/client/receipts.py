"""Checking a released answer's receipt offline: with a public key, and without the service.

The receipt is a compact JSON Web Signature (EdDSA) over the answer's bytes without
its last member, ``"receipt"``. Keep answers as they came: reformatted JSON says the
same and is not what was signed.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import load_pem_public_key

from app.client.errors import ReceiptError
from app.client.models import Receipt

_RECEIPT = re.compile(rb'(.*),"receipt":"([\w-]+)\.([\w-]+)\.([\w-]+)"\}\s*', re.DOTALL | re.ASCII)


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
    """
    found = _RECEIPT.fullmatch(answer)
    if found is None:
        raise ReceiptError("there is no receipt at the end of the answer")
    before, header, payload, signature = found.groups()
    keys = _keys(public_keys)
    if not any(_signed(key, header + b"." + payload, _bytes(signature)) for key in keys):
        raise ReceiptError("the receipt is not signed by this key")
    receipt = Receipt.model_validate_json(_bytes(payload))
    if hashlib.sha256(before + b"}").hexdigest() != receipt.answer:
        raise ReceiptError("the receipt belongs to another answer, or this one has been edited")
    return receipt


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
            points = [_bytes(key["x"].encode()) for key in json.loads(content)["keys"]]
        elif content.startswith(b"-----"):
            key = load_pem_public_key(content)
            return [key] if isinstance(key, Ed25519PublicKey) else []
        else:
            points = [_bytes(content)]
        return [Ed25519PublicKey.from_public_bytes(point) for point in points]
    except (AttributeError, KeyError, TypeError, ValueError):
        raise ReceiptError("the public key cannot be read") from None


def _bytes(text: bytes) -> bytes:
    return base64.urlsafe_b64decode(text + b"=" * (-len(text) % 4))
