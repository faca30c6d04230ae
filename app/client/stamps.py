"""Checking time stamps offline (RFC 3161): by the authority's certificates alone."""

from __future__ import annotations

from app.client.errors import MissingPackageError, ReceiptError

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
        from app.client.timestamps import time_of  # noqa: PLC0415
    except ImportError:
        raise MissingPackageError(_NO_PACKAGE) from None
    said = time_of(stamp, stamped, authority)
    if said is None:
        raise ReceiptError("the time stamp is not of this checkpoint, or not by this authority")
    return said
