"""The process that makes small draws: what it is told, how it draws, what it answers.

It is forked to order (:mod:`app.processes.forking`) and ends when its server has no
more for it. Beside the server's own threads it has a lower priority: woken by the
event loop, it does not take the loop's place. The processes of uploads have spare
time alone.

*Frames.* Each side sends a pickled object after its length in four bytes. Both
are ours and are believed. The first is the :class:`Order`, every other one a batch;
the process says None once it is ready, and answers keep the order of what was asked.
"""

from __future__ import annotations

import gc
import logging
import pickle
import signal
import socket
import struct
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

from app.engine.data import DataEngine
from app.engine.run import run
from app.logs import configure_logs, describe
from app.processes.forking import confine
from app.services.datasets.datasets import DatasetFacts, facts_of
from app.services.plans.answers import release_answer
from app.services.plans.charged_plan import require_charged_plan
from app.services.plans.plans import make_offer
from app.services.plans.questions import Question, read_question
from app.services.releases.batches import take_steps
from app.services.releases.receipts import Signer
from app.store import DatasetRecord, LedgerIdentity, ReleaseRecord, SigningKey
from app.vault.vault import Vault
from mechanisms.contract import Outcome, Plan

LENGTH = struct.Struct(">I")
"""What a frame begins with."""

_OOM_SCORE = 500
_COLLECT_AFTER = 50_000
_REMEMBERED_TERMS = 256

_LOG = logging.getLogger(__name__)

Answers = Sequence[tuple[str, bytes | None]]
"""Releases and their answers, None where a draw has failed."""
Terms = tuple[DatasetFacts, Question, Plan]


@dataclass(frozen=True, slots=True)
class Order:
    """What a process is told at first."""

    data_dir: str
    identity: LedgerIdentity
    key: bytes
    log_level: str


def work(descriptor: int) -> None:
    """Draw what is asked for; see :mod:`app.processes.forking`."""
    with socket.socket(fileno=descriptor) as channel, channel.makefile("rb") as stream:
        order = _read(stream)
        if order is None:
            return
        configure_logs(level=order.log_level)
        try:
            _work(order, channel, stream)
        except Exception as error:
            _LOG.error("draw process failed", extra=describe(error))


def _work(order: Order, channel: socket.socket, stream: BinaryIO) -> None:
    # one for the whole group is the server's to act on, which lets draws finish
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    confine({}, oom_score=_OOM_SCORE)
    gc.freeze()
    gc.set_threshold(_COLLECT_AFTER)
    drawer = _Drawer(order)
    channel.sendall(framed(None))
    while (batch := _read(stream)) is not None:
        channel.sendall(framed(drawer.answers(batch)))


def framed(content: object) -> bytes:
    """Return an object as it is sent."""
    frame = pickle.dumps(content, pickle.HIGHEST_PROTOCOL)
    return LENGTH.pack(len(frame)) + frame


def _read(stream: BinaryIO) -> Any:
    """Return the next frame; None at the end of them."""
    length = stream.read(LENGTH.size)
    if not length:
        return None
    return pickle.loads(stream.read(*LENGTH.unpack(length)))  # noqa: S301 - from the server itself


class _Drawer:
    """What draws."""

    def __init__(self, order: Order) -> None:
        data_dir, identity = Path(order.data_dir), order.identity
        self._plane = DataEngine(Vault(data_dir))
        key = SigningKey.of_bytes(order.key)
        self._signer = Signer(ledger=identity.id, epoch=identity.epoch, key=key)
        self._terms: OrderedDict[tuple[DatasetRecord, str, str, int], Terms] = OrderedDict()

    def answers(self, batch: Sequence[tuple[ReleaseRecord, DatasetRecord]]) -> Answers:
        """Return the signed answers of charged releases."""
        outcomes = take_steps(
            [
                (
                    partial(self._draw, record, dataset),
                    partial(_answer, record),
                    partial(self._signer.attach, record),
                )
                for record, dataset in batch
            ]
        )
        for (record, _), outcome in zip(batch, outcomes, strict=True):
            if outcome.error is not None:
                about = describe(outcome.error)
                _LOG.error("draw failed", extra={"release": record.id, **about})
        return [
            (record.id, None if outcome.error is not None else outcome.value)
            for (record, _), outcome in zip(batch, outcomes, strict=True)
        ]

    def _draw(
        self, record: ReleaseRecord, dataset: DatasetRecord, _before: object
    ) -> tuple[Terms, Outcome]:
        terms = self._terms_of(record, dataset)
        return terms, run(terms[2], self._plane.open(dataset.id))

    def _terms_of(self, record: ReleaseRecord, dataset: DatasetRecord) -> Terms:
        """Return how a release is drawn, if that is what it was charged for."""
        key = dataset, record.request, record.plan, record.amount
        known = self._terms.get(key)
        if known is None:
            facts, question = facts_of(dataset), read_question(record.request)
            offer = make_offer(facts, question)
            require_charged_plan(record, plan=offer.text, cost=offer.cost)
            known = self._terms[key] = facts, question, offer.drawn_here()
            if len(self._terms) > _REMEMBERED_TERMS:
                self._terms.popitem(last=False)
        else:
            self._terms.move_to_end(key)
        return known


def _answer(record: ReleaseRecord, drawn: tuple[Terms, Outcome]) -> bytes:
    (facts, question, plan), outcome = drawn
    return release_answer(record, facts, question, plan, outcome)
