"""Signatures of receipts, checkpoints and time stamps: what needs the package cryptography.

Nothing imports it but where a signature is checked, so that the client works without the package.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import load_pem_public_key
from cryptography.x509 import (
    Certificate,
    load_der_x509_certificate,
    load_pem_x509_certificates,
)

from app.client.errors import ReceiptError

if TYPE_CHECKING:
    from rfc3161_client import TimeStampResponse


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


# Time stamps (RFC 3161), which need the package rfc3161-client too


def time_of(stamp: bytes, stamped: bytes, authority: bytes) -> str | None:
    """Return the time of a stamp, or None if it does not hold.

    Raises
    ------
    ReceiptError
        The certificates cannot be read.
    ImportError
        The package rfc3161-client is not installed.
    """
    import rfc3161_client  # noqa: F401, PLC0415 - so that a missing package is no bad stamp

    try:
        trusted = load_pem_x509_certificates(authority)
    except ValueError:
        raise ReceiptError("the authority's certificates cannot be read") from None
    try:
        return _time_of(stamp, stamped, trusted)
    except Exception:
        # the parsers say in a dozen ways that bytes are no stamp
        return None


def _time_of(stamp: bytes, stamped: bytes, trusted: Sequence[Certificate]) -> str:
    from rfc3161_client import (  # noqa: PLC0415
        VerificationError,
        VerifierBuilder,
        decode_timestamp_response,
    )

    answer = decode_timestamp_response(stamp)
    sent = [load_der_x509_certificate(each) for each in answer.signed_data.certificates]
    # what signs a stamp is looked for by its name: its other bytes count no less
    if not all(_is_issued(each, [*trusted, *sent]) for each in sent):
        raise VerificationError
    verifier = VerifierBuilder(roots=[*trusted], tsa_certificate=_signer(answer, trusted, sent))
    verifier.build().verify_message(answer, stamped)
    return answer.tst_info.gen_time.strftime("%Y-%m-%dT%H:%M:%SZ")


def _is_issued(certificate: Certificate, issuers: Sequence[Certificate]) -> bool:
    for issuer in issuers:
        try:
            certificate.verify_directly_issued_by(issuer)
        except (InvalidSignature, TypeError, UnsupportedAlgorithm, ValueError):
            continue
        return True
    return False


def _signer(
    answer: TimeStampResponse, trusted: Sequence[Certificate], sent: Sequence[Certificate]
) -> Certificate | None:
    """Return the trusted certificate that signs a stamp which comes without one."""
    names = {(each.issuer, each.serial_number) for each in answer.signed_data.signer_infos}
    own = [each for each in trusted if (each.issuer, each.serial_number) in names]
    return None if sent or not own else own[0]
