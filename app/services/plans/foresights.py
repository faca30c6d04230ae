"""Expected quality of an answer, shown in previews and releases: free, from public facts.

Laws that depend on the data are simulated, which takes up to two seconds: that is done in a
separate process, and the last answers are cached. No release waits for it: it shows
the cached answer, or what a coarse simulation finds in a few milliseconds, and says which.
Nothing here is given data.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from dataclasses import dataclass, replace
from functools import partial

from app.domain.problems import ProcessLostError
from app.services.datasets.datasets import DatasetFacts
from app.services.plans.missing import with_typical
from app.services.plans.plans import Offer, PlanService, foretell
from app.services.plans.questions import Question
from app.services.plans.stored_estimates import kept_json
from mechanisms.foresight.assumptions import Assumptions
from mechanisms.foresight.foresee import Foresight, foreseeing_ms

_Key = tuple[str, str, Assumptions]

_MAX_CACHED = 256
_MAX_KEPT = 64
"""Fewer, as an offer holds its plan; as many as are remembered where plans are made."""


@dataclass(frozen=True, slots=True)
class _Kept:
    """What follows from a question with what a release keeps, and of what it was made."""

    facts: DatasetFacts
    found: Foresight | None
    offer: Offer


class ForesightService:
    """Foresees answers, off the event loop, with a memory."""

    def __init__(self, plans: PlanService) -> None:
        self._plans = plans
        self._known: OrderedDict[_Key, Foresight] = OrderedDict()
        self._kept: OrderedDict[tuple[str, str], _Kept] = OrderedDict()

    async def of(
        self, facts: DatasetFacts, question: Question, assumed: Assumptions, *, person: str
    ) -> Foresight:
        """Return what an answer would be worth under these assumptions.

        Raises
        ------
        Problem
            ``invalid-request`` when they do not fit the data set; ``busy``.
        """
        question = await self._plans.spelled(facts, question, person=person, free=True)
        found = self.known(facts, question, assumed)
        if found is None:
            planning_ms = question.planning_ms(facts.schema)
            found = await self._plans.compute(
                foretell,
                facts,
                question,
                assumed,
                person=person,
                expected_ms=planning_ms + foreseeing_ms(question.statistic, facts.schema),
            )
            self.remember(facts, question, assumed, found)
        return found

    def known(
        self, facts: DatasetFacts, question: Question, assumed: Assumptions
    ) -> Foresight | None:
        """Return what is remembered of a question in its one spelling."""
        key = facts.id, question.canonical, assumed
        if key in self._known:
            self._known.move_to_end(key)
        return self._known.get(key)

    def remember(
        self, facts: DatasetFacts, question: Question, assumed: Assumptions, found: Foresight
    ) -> None:
        """Remember what has been found out of a question in its one spelling."""
        self._known[facts.id, question.canonical, assumed] = found
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
        question = await self._plans.spelled(facts, question, person=person)
        key = facts.id, question.canonical
        known, kept = self.known(facts, question, _USUAL), self._kept.get(key)
        # Many releases are of one question, and facts are others once anything of them changes.
        if kept is not None and kept.facts is facts and kept.found is known:
            self._kept.move_to_end(key)
            return kept.offer
        offer = await self._plans.offer(facts, question, person=person)
        try:
            found = known or offer.foresight or await self._coarse(facts, question, person=person)
        # A foresight is a courtesy: a release must not fail for want of one.
        except ProcessLostError:
            return offer
        offered = with_typical(_USUAL, facts.columns).to_json(facts.schema)
        text = {**json.loads(offer.text), "foresight": kept_json(found, offered)}
        offer = replace(offer, text=json.dumps(text, allow_nan=False))
        self._kept[key] = _Kept(facts, known, offer)
        if len(self._kept) > _MAX_KEPT:
            self._kept.popitem(last=False)
        return offer

    async def _coarse(self, facts: DatasetFacts, question: Question, *, person: str) -> Foresight:
        """Return what takes some milliseconds to find out, in a lane where nothing free is made."""
        planning_ms = question.planning_ms(facts.schema)
        takes_ms = foreseeing_ms(question.statistic, facts.schema, coarse=True)
        return await self._plans.compute(
            partial(foretell, coarse=True),
            facts,
            question,
            _USUAL,
            person=person,
            expected_ms=planning_ms + takes_ms,
            free=False,
            patient=True,
        )


_USUAL = Assumptions()
"""What a release assumes, which says nothing."""
