"""The orders to a draw process and its answers, and where such processes come from.

Small draws and jobs are drawn by processes of one kind (:mod:`app.processes.draw_child`).
Its first message is its :class:`DrawOrder`, and every other one is a batch of charged
releases; it says None once it is ready, and then answers the batches in their order.
All of it is pickled: both ends are ours and are believed.
"""

from __future__ import annotations

import atexit
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path

from app.domain.errors import DataUnreadableError, SignerLostError
from app.engine.choice import HERE, Passes
from app.processes.forking import Forks
from app.services.releases.draws import DrawDiedError
from app.store import DatasetRecord, KeySource, LedgerIdentity, ReceiptKey, ReleaseRecord

Batch = Sequence[tuple[ReleaseRecord, DatasetRecord, str | None]]
"""Charged releases, each with its data set and the SHA-256 of that one's manifest, if known."""


class NoAnswer(Enum):
    """Why there is no answer."""

    FAILED = auto()
    """The draw has failed, for good."""
    UNREAD = auto()
    """The data could not be read; nothing has been drawn."""
    UNSIGNED = auto()
    """There was no signature; what has been drawn is forgotten."""
    STARVED = auto()
    """There was too little memory, of which a process may also die."""

    @classmethod
    def for_want_of(cls, error: BaseException) -> NoAnswer:
        """Return what is said of an error."""
        if isinstance(error, DataUnreadableError):
            return cls.UNREAD
        if isinstance(error, SignerLostError):
            return cls.UNSIGNED
        return cls.STARVED if isinstance(error, MemoryError) else cls.FAILED


Answers = Sequence[tuple[str, bytes | NoAnswer]]
"""Releases and their signed answers, or why there is none."""


def answer_of(answered: bytes | NoAnswer) -> bytes | None:
    """Return a signed answer, or None when the draw has failed for good.

    Raises
    ------
    DataUnreadableError, SignerLostError, DrawDiedError
        It may be drawn again.
    """
    match answered:
        case NoAnswer.UNREAD:
            raise DataUnreadableError("a draw process could not read the data")
        case NoAnswer.UNSIGNED:
            raise SignerLostError("a draw process could not sign")
        case NoAnswer.STARVED:
            raise DrawDiedError
        case NoAnswer.FAILED:
            return None
    return answered


FORKS = Forks("app.processes.draw_child", quiet=False)
atexit.register(FORKS.close)


@dataclass(frozen=True, slots=True)
class DrawOrder:
    """Where a process reads and makes passes, whose answers it signs, and how much it logs.

    It gets the signing key itself, or the program that signs: the file may hold another by now.
    """

    data_dir: str
    identity: LedgerIdentity
    key: KeySource
    log_level: str
    passes: Passes = HERE

    @classmethod
    def of(
        cls,
        *,
        data_dir: Path,
        identity: LedgerIdentity,
        key: ReceiptKey,
        log_level: str,
        passes: Passes = HERE,
    ) -> DrawOrder:
        """Return the order for the vault in a directory and the ledger's present key."""
        return cls(str(data_dir.absolute()), identity, key.source, log_level, passes)
