"""Checking time stamps offline (RFC 3161): by the authority's certificates alone.

Time stamps: the one part of the client that needs the package rfc3161-client.
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

from app.client.errors import MissingPackageError, ReceiptError


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


# Checking time stamps offline (RFC 3161): by the authority's certificates alone


_NO_PACKAGE = "checking a time stamp needs rfc3161-client: pip install rfc3161-client"


def check_stamp(stamp: bytes, stamped: bytes, authority: bytes) -> str:
    """Return when something was there at the latest, once its time stamp holds.

    Parameters
    ----------
    stamp
        What the authority answered, byte for byte: ``GET /v1/log/stamp``.
    stamped
        What was stamped: a checkpoint, ``GET /v1/log/checkpoint``.
    authority
        The certificates of the authority, PEM: what issues those that sign stamps, up to the
        root's, or the one that signs them where nothing else issues it.

    Returns
    -------
    str
        The authority's time (UTC), such as ``"2026-11-21T09:30:00Z"``.

    Raises
    ------
    ReceiptError
        It does not hold: says what.
    MissingPackageError
        The package rfc3161-client is not installed.
    """
    try:
        from app.client.stamps import time_of  # noqa: PLC0415
    except ImportError:
        raise MissingPackageError(_NO_PACKAGE) from None
    said = time_of(stamp, stamped, authority)
    if said is None:
        raise ReceiptError("the time stamp is not of this checkpoint, or not by this authority")
    return said
