"""What an answer would be worth, told in previews and releases: from public facts, for free.

Laws that depend on the data are simulated, which takes up to some seconds: that is done in a
process beside the server, and the last answers are remembered. Nothing here is given data.
"""

from __future__ import annotations

import asyncio
import json
from collections import OrderedDict
from dataclasses import dataclass, replace

from app.domain.errors import ProcessLostError
from app.services.datasets.datasets import DatasetFacts
from app.services.plans.foretold import kept_json
from app.services.plans.plans import Offer, PlanService, foretell
from app.services.plans.questions import Question
from app.services.plans.typical import with_typical
from mechanisms.foresight.assumptions import Assumptions
from mechanisms.foresight.foresee import Foresight, foreseeing_ms

_Key = tuple[str, str, Assumptions]

_MAX_CACHED = 256
_MAX_KEPT = 64
"""Fewer, as an offer holds its plan; as many as are remembered where plans are made."""


@dataclass(frozen=True, slots=True)
class _Kept:
    """What follows from a question with what a release keeps, and of which facts it was made."""

    facts: DatasetFacts
    offer: Offer


class ForesightService:
    """Foresees answers, off the event loop, with a memory."""

    def __init__(self, plans: PlanService) -> None:
        self._plans = plans
        self._known: OrderedDict[_Key, Foresight] = OrderedDict()
        self._kept: OrderedDict[tuple[str, str], _Kept] = OrderedDict()
        self._running: dict[_Key, asyncio.Task[Foresight]] = {}

    async def of(
        self,
        facts: DatasetFacts,
        question: Question,
        assumed: Assumptions,
        *,
        person: str,
        patient: bool = False,
    ) -> Foresight:
        """Return what an answer would be worth under these assumptions.

        Whoever asks while it is being found out waits for the same calculation.

        Raises
        ------
        Problem
            ``invalid-request`` when they do not fit the data set; ``busy``, unless patient.
        """
        key = facts.id, question.canonical, assumed
        known = self.known(facts, question, assumed)
        if known is not None:
            return known
        running = self._running.get(key)
        if running is None:
            found = self._find(facts, question, assumed, person=person, patient=patient)
            # A task of its own: whoever asked first may go away, and others wait for it.
            running = self._running[key] = asyncio.ensure_future(found)
            running.add_done_callback(lambda done: self._remember(key, done))
        return await asyncio.shield(running)

    async def _find(
        self,
        facts: DatasetFacts,
        question: Question,
        assumed: Assumptions,
        *,
        person: str,
        patient: bool,
    ) -> Foresight:
        planning_ms = question.planning_ms(facts.schema)
        return await self._plans.compute(
            foretell,
            facts,
            question,
            assumed,
            person=person,
            expected_ms=planning_ms + foreseeing_ms(question.statistic, facts.schema),
            patient=patient,
        )

    def _remember(self, key: _Key, done: asyncio.Task[Foresight]) -> None:
        del self._running[key]
        if done.cancelled() or done.exception() is not None:
            return
        self._keep(key, done.result())

    def known(
        self, facts: DatasetFacts, question: Question, assumed: Assumptions
    ) -> Foresight | None:
        """Return what has been found out before, if it is remembered."""
        key = facts.id, question.canonical, assumed
        if key in self._known:
            self._known.move_to_end(key)
        return self._known.get(key)

    def remember(
        self, facts: DatasetFacts, question: Question, assumed: Assumptions, found: Foresight
    ) -> None:
        """Remember what has been found out elsewhere."""
        self._keep((facts.id, question.canonical, assumed), found)

    def _keep(self, key: _Key, found: Foresight) -> None:
        self._known[key] = found
        if len(self._known) > _MAX_CACHED:
            self._known.popitem(last=False)

    async def offer(self, facts: DatasetFacts, question: Question, *, person: str) -> Offer:
        """Return what :meth:`PlanService.offer` does, with what the answer is worth in its text.

        Where that could not be found out, the release goes on without it.

        Raises
        ------
        Problem
            As :meth:`PlanService.offer`.
        """
        key = facts.id, question.canonical
        kept = self._kept.get(key)
        # Many releases are of one question, and facts are others once anything of them changes.
        if kept is not None and kept.facts is facts:
            self._kept.move_to_end(key)
            return kept.offer
        offer = await self._plans.offer(facts, question, person=person)
        assumed = Assumptions()
        try:
            found = offer.foresight or await self.of(
                facts, question, assumed, person=person, patient=True
            )
        # A foresight is a courtesy: a release must not fail for want of one.
        except ProcessLostError:
            return offer
        told = with_typical(assumed, facts.columns).to_json(facts.schema)
        text = {**json.loads(offer.text), "foresight": kept_json(found, told)}
        offer = replace(offer, text=json.dumps(text, allow_nan=False))
        self._kept[key] = _Kept(facts, offer)
        if len(self._kept) > _MAX_KEPT:
            self._kept.popitem(last=False)
        return offer
