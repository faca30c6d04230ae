"""Checking a released answer's receipt offline: with a public key, and without the service.

The receipt is a compact JSON Web Signature (EdDSA) over the answer's bytes without
its last member, ``"receipt"``. Keep answers as they came: reformatted JSON says the
same and is not what was signed.
"""

from __future__ import annotations

import hashlib
import re

from app.client.errors import MissingPackageError, ReceiptError
from app.client.models import Receipt

_NO_CRYPTOGRAPHY = (
    "checking a receipt offline needs cryptography: pip install cryptography. "
    "ReleaseDesk.check_receipt() asks the service instead."
)
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
    MissingPackageError
        The package cryptography is not installed.
    """
    try:
        from app.client.signatures import bytes_of, is_signed  # noqa: PLC0415
    except ImportError:
        raise MissingPackageError(_NO_CRYPTOGRAPHY) from None
    found = _RECEIPT.fullmatch(answer)
    if found is None:
        raise ReceiptError("there is no receipt at the end of the answer")
    before, header, payload, signature = found.groups()
    if not is_signed(header + b"." + payload, bytes_of(signature), public_keys):
        raise ReceiptError("the receipt is not signed by this key")
    receipt = Receipt.model_validate_json(bytes_of(payload))
    if hashlib.sha256(before + b"}").hexdigest() != receipt.answer:
        raise ReceiptError("the receipt belongs to another answer, or this one has been edited")
    return receipt
