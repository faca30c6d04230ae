"""Every time stamp that this machine's ledger keeps, against its authority's certificates."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from app.store import KeptStamp, Reader

_CLOCKS_APART = timedelta(minutes=1)
"""By how much a sound authority's clock may be behind the service's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StampsFound:
    """What was found: stamps looked at, faults, and checkpoints whose stamps are still to come."""

    checked: int
    faults: tuple[str, ...]
    waiting: int

    @property
    def summary(self) -> str:
        """Return it as a line for a reader; the faults are printed elsewhere."""
        if not self.checked:
            return "time stamps: none is kept"
        summary = f"time stamps: {self.checked} checked"
        return f"{summary}, {self.waiting} still to come" if self.waiting else summary

    @property
    def counts(self) -> dict[str, int]:
        """Return how many were checked, and how many are still to come."""
        return {"checked": self.checked, "waiting": self.waiting}


def check_authority(_: click.Context, __: click.Parameter, path: str | None) -> bytes | None:
    """Return the certificates in a file, if they can be read."""
    from cryptography.x509 import load_pem_x509_certificates  # noqa: PLC0415

    if path is None:
        return None
    with click.open_file(path, "rb") as file:
        pem: bytes = file.read()
    try:
        load_pem_x509_certificates(pem)
    except ValueError:
        raise click.BadParameter("it holds no certificates that can be read (PEM)") from None
    return pem


def check_stamps(reader: Reader, authority: bytes, *, most: int) -> StampsFound:
    """Check every stamp kept: by whom, of what, and when.

    Parameters
    ----------
    reader
        The ledger; that its checkpoints are sound is not looked at here.
    authority
        Certificates (PEM): those that sign stamps or issue what signs them.
    most
        The number of faults after which no more are printed.
    """
    checked, waiting = 0, 0
    faults: list[str] = []
    try:
        for kept in reader.stamps.kept():
            checked += 1
            fault = _fault_of(kept, authority)
            if fault is not None:
                faults.append(f"the time stamp of the log's first {kept.size} leaves: {fault}")
        for size in reader.stamps.left_out(most):
            faults.append(f"the time stamp of the log's first {size} leaves: it was taken out")
        waiting = reader.stamps.waiting()
    except Exception:
        # whatever a damaged file makes fail is the finding
        faults.append("the time stamps cannot be read through")
    return StampsFound(checked=checked, faults=tuple(faults[:most]), waiting=waiting)


def _fault_of(kept: KeptStamp, authority: bytes) -> str | None:
    from app.client import ReceiptError, check_stamp  # noqa: PLC0415

    if kept.note is None or kept.signed_at is None:
        return "there is no such checkpoint"
    try:
        stamped_at = check_stamp(kept.stamp, kept.note.encode(), authority)
    except ReceiptError:
        return "it is not of this checkpoint, or not by this authority"
    signed_at = datetime.fromisoformat(kept.signed_at)
    if datetime.fromisoformat(stamped_at) + _CLOCKS_APART < signed_at:
        return "its time is before the checkpoint's own"
    return None
