"""A draw process: it draws charged releases, small ones and jobs, on request.

It reads the vault itself and never the database, and answers with signed bytes, or
with nothing where a draw has failed; what went wrong stays in its log, without values.
It is forked to order (:mod:`app.processes.forking`) and ends when its server has no
more for it. It has a lower priority than the server's own threads: woken by the
event loop, it does not take the loop's place. The processes of uploads have spare
time alone. :mod:`app.processes.draw_orders` says what both ends say.
"""

from __future__ import annotations

import gc
import logging
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path

from app.engine.data import DataEngine
from app.engine.executor import DEFAULT_KEEP_BYTES
from app.logs import describe
from app.processes.channel import pickled, unpickled
from app.processes.child import prepare
from app.processes.draw_orders import Answers, Batch, DrawOrder, NoAnswer
from app.services.releases.batches import take_steps
from app.services.releases.charged_draws import ChargedDraws
from app.services.releases.receipts import Signer
from app.store import key_of
from app.vault.vault import Vault

_COLLECT_AFTER = 50_000

_LOG = logging.getLogger(__name__)


def work(descriptor: int) -> None:
    """Draw what is asked for; see :mod:`app.processes.forking`."""
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
    # Rarely, since a collection takes longer than a small draw.
    gc.set_threshold(_COLLECT_AFTER)
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
