"""A draw process: it draws charged releases, small ones and jobs, on request.

It reads the vault itself and never the database, and answers with signed bytes, or
with nothing where a draw has failed; what went wrong stays in its log, without values.
It is forked to order (:mod:`app.processes.program`) and ends when its server has no
more for it. It has a lower priority than the server's own threads: woken by the
event loop, it does not take the loop's place. The processes of uploads have spare
time alone.

*The orders to a draw process and its answers, and where such processes come from.* Small draws and
jobs are drawn by processes of one kind (this module). Its first message is its
:class:`DrawOrder`, and every other one is a batch of charged releases; it says None once it is
ready, and then answers the batches in their order. All of it is pickled: both ends are ours and
are believed.
"""

from __future__ import annotations

import gc
import logging
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum, auto
from multiprocessing.connection import Connection
from pathlib import Path

from app.domain.problems import DataUnreadableError, SignerLostError
from app.engine.choice import HERE, Passes
from app.engine.data import DataEngine
from app.engine.executor import DEFAULT_KEEP_BYTES
from app.logs import describe
from app.processes.channel import pickled, unpickled
from app.processes.program import HOSTS, prepare
from app.services.releases.charged_draws import ChargedDraws, take_steps
from app.services.releases.draws import DrawDiedError
from app.services.releases.receipts import Signer
from app.store import DatasetRecord, KeySource, LedgerIdentity, ReceiptKey, ReleaseRecord, key_of
from app.vault.vault import Vault

# The orders to a draw process and its answers, and where such processes come from

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


FORKS = HOSTS["draw"]


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


# A draw process: it draws charged releases, small ones and jobs, on request

_LOG = logging.getLogger(__name__)


def work(descriptor: int) -> None:
    """Draw what is asked for; see :mod:`app.processes.program`."""
    with Connection(descriptor) as channel, suppress(EOFError, ConnectionError):
        order: DrawOrder = unpickled(channel.recv_bytes())
        prepare(log_level=order.log_level, directories=[Path(order.data_dir)], finishes=True)
        try:
            _draw_for(order, channel)
        except (EOFError, ConnectionError):  # the server has gone
            raise
        except Exception as error:
            _LOG.error("draw process failed", extra=describe(error))


def _draw_for(order: DrawOrder, channel: Connection) -> None:
    # What is loaded by now stays: the collector need not look at it again and again.
    gc.freeze()
    draws = charged_draws(order)
    # Ready: the time of the first answer does not include loading.
    channel.send_bytes(pickled(None))
    while True:
        channel.send_bytes(pickled(answers(draws, unpickled(channel.recv_bytes()))))


def charged_draws(order: DrawOrder) -> ChargedDraws:
    """Return what draws from the order's vault and signs with its key."""
    key, identity = key_of(order.key), order.identity
    signer = Signer(ledger=identity.id, epoch=identity.epoch, key=key)
    # blocks may be kept: once they are erased this process ends, and those that it began
    executor = order.passes.executor(keep_bytes=DEFAULT_KEEP_BYTES)
    return ChargedDraws(DataEngine(Vault(Path(order.data_dir)), executor=executor), signer)


def answers(draws: ChargedDraws, batch: Batch) -> Answers:
    """Return the signed answers of charged releases, or why there are none."""
    outcomes = take_steps([draws.steps(*asked) for asked in batch])
    for (record, _, _), outcome in zip(batch, outcomes, strict=True):
        if outcome.error is not None:
            _LOG.error("draw failed", extra={"release": record.id, **describe(outcome.error)})
    return [
        (
            record.id,
            outcome.value if outcome.error is None else NoAnswer.for_want_of(outcome.error),
        )
        for (record, _, _), outcome in zip(batch, outcomes, strict=True)
    ]
