"""Time stamps (RFC 3161): what needs the package rfc3161-client.

Nothing imports it but where a stamp is checked, so that the client works without the package.
"""

from __future__ import annotations

from collections.abc import Sequence

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.x509 import (
    Certificate,
    load_der_x509_certificate,
    load_pem_x509_certificates,
)
from rfc3161_client import (
    TimeStampResponse,
    VerificationError,
    VerifierBuilder,
    decode_timestamp_response,
)

from app.client.errors import ReceiptError


def time_of(stamp: bytes, stamped: bytes, authority: bytes) -> str | None:
    """Return the time of a stamp, or None if it does not hold.

    Raises
    ------
    ReceiptError
        The certificates cannot be read.
    """
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
