"""Certificates of a cluster that exists for a test."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat


def certificates() -> tuple[str, str, str]:
    """Return an authority's certificate, one that it has signed, and the key of that, as PEM."""
    authority, own = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    issuer = _named("an authority of tests")
    signed = _certificate("a member of the cluster", own.public_key(), issuer, authority, ca=False)
    trusted = _certificate(
        "an authority of tests", authority.public_key(), issuer, authority, ca=True
    )
    key = own.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return trusted, signed, key.decode()


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])


def _certificate(
    name: str,
    key: ec.EllipticCurvePublicKey,
    issuer: x509.Name,
    authority: ec.EllipticCurvePrivateKey,
    *,
    ca: bool,
) -> str:
    now = datetime.now(UTC)
    builder = x509.CertificateBuilder(issuer, _named(name), key, x509.random_serial_number())
    builder = builder.not_valid_before(now - timedelta(days=1))
    builder = builder.not_valid_after(now + timedelta(days=1))
    builder = builder.add_extension(x509.BasicConstraints(ca, None), critical=True)
    return builder.sign(authority, hashes.SHA256()).public_bytes(Encoding.PEM).decode()
