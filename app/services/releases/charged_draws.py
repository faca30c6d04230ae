"""How a charged release is drawn, wherever that is: one way from the ledger's record to the answer.

Threads of a server, the process of small draws and the processes of jobs all draw by
this. The question is read from the record, planned again where it has not been planned
here, and drawn only by the plan that was charged for; the numbers become the bytes of
the answer, and these get their receipt.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from app.engine.run import run
from app.services.datasets.datasets import DataPlane, DatasetFacts, facts_of
from app.services.plans.answers import release_answer
from app.services.plans.charged_plan import (
    as_charged,
    require_charged_plan,
    told_as_charged,
)
from app.services.plans.plans import make_offer
from app.services.plans.questions import Question, read_question
from app.services.releases.batches import Step
from app.store import DatasetRecord, ReleaseRecord
from mechanisms.contract import Outcome, Plan

_REMEMBERED = 256


@dataclass(frozen=True, slots=True)
class ReadyDraw:
    """A question about a data set, and the plan it was charged by: all that a draw needs."""

    facts: DatasetFacts
    question: Question
    plan: Plan


class Signing(Protocol):
    """Signs answers."""

    def attach(self, record: ReleaseRecord, answer: bytes) -> bytes:
        """Return an answer with its receipt."""


class ChargedDraws:
    """Draws charged releases, and remembers how the last ones were planned.

    Parameters
    ----------
    plane
        Where the rows are.
    receipts
        What signs the answers.
    """

    def __init__(self, plane: DataPlane, receipts: Signing) -> None:
        self._plane = plane
        self._receipts = receipts
        self._planned: OrderedDict[tuple[DatasetRecord, str, str, int], ReadyDraw] = OrderedDict()

    def steps(
        self,
        record: ReleaseRecord,
        dataset: DatasetRecord,
        manifest: str | None,
        ready: ReadyDraw | None = None,
    ) -> Sequence[Step]:
        """Return the steps of a draw: its numbers, its answer, its signed answer.

        They are for :func:`app.services.releases.batches.take_steps`. The first raises
        :class:`~app.services.plans.charged_plan.PlanChangedError` where the release would
        not be drawn as what it was charged for, and
        :class:`~app.domain.problems.DataUnreadableError` where the files are not those that were
        registered; nothing has been read then.

        Parameters
        ----------
        record, dataset, manifest
            The release, its data set, and the SHA-256 of that one's manifest, as the ledger
            has them; None: a data set of an earlier version, which has no such entry.
        ready
            What the release was charged by, where that is known here.
        """
        return (
            partial(self._draw, record, dataset, manifest, ready),
            partial(_answer, record),
            partial(self._receipts.attach, record),
        )

    def _draw(
        self,
        record: ReleaseRecord,
        dataset: DatasetRecord,
        manifest: str | None,
        ready: ReadyDraw | None,
        _before: None,
    ) -> tuple[ReadyDraw, Outcome]:
        ready = ready or self._ready(record, dataset)
        return ready, run(ready.plan, self._plane.open(dataset.id, manifest=manifest))

    def _ready(self, record: ReleaseRecord, dataset: DatasetRecord) -> ReadyDraw:
        """Return how a release is drawn, if that is what it was charged for."""
        # By all that the comparison looks at: the same question may have been
        # charged by another plan.
        key = dataset, record.request, record.plan, record.amount
        known = self._planned.get(key)
        if known is not None:
            self._planned.move_to_end(key)
            return known
        facts, question = facts_of(dataset), read_question(record.request)
        offer = make_offer(facts, as_charged(question, record.plan))
        require_charged_plan(record, plan=offer.text, cost=offer.cost)
        plan = told_as_charged(offer.drawn_here(), record.plan)
        ready = self._planned[key] = ReadyDraw(facts, question, plan)
        if len(self._planned) > _REMEMBERED:
            self._planned.popitem(last=False)
        return ready


def _answer(record: ReleaseRecord, drawn: tuple[ReadyDraw, Outcome]) -> bytes:
    ready, outcome = drawn
    return release_answer(record, ready.facts, ready.question, ready.plan, outcome)
