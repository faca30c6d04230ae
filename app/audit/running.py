"""An audit from the catalog to the verdicts: throw-away data sets, many draws, bounds."""

from __future__ import annotations

import asyncio
import math
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from functools import partial
from typing import Any

import numpy as np

from app.audit.keys import DELTA, AuditKeys, NeighbourDatasets, Place
from app.audit.report import (
    PURE,
    Finding,
    Findings,
    Floats,
    Offer,
    Probe,
    Terms,
    certified,
    offers_in,
    probe_of,
)
from app.client import ProblemError, Release

OnDraws = Callable[[int, int], None]
"""Called with the number of draws made, and the most there will be."""

_AT_ONCE = 8
"""Offers that are asked at once, each of both data sets."""
_ENOUGH = 400
"""How many draws an offer gets before another one has its turn: enough to flag a loud one."""
_JOBS_AT_ONCE, _JOBS_IN_A_ROW = 40, 4
"""Releases that the desk draws in the background, at once: of all offers, and of one data set.

It draws few at a time and shows each at a public moment, so its queue must never run empty.
"""
_PARTS_OF_JOBS = 5
"""How many draws come in one of those: the desk has a lane that takes short jobs only."""
_BATCH, _MORE = 20, 4
"""How many draws an offer is asked for at once, and how many times as many as the last time."""
_LOOK_AGAIN_S, _LOOK_AGAIN_SHARE = 0.5, 1 / 16
"""When to look again at what is not drawn yet: after so long, or that share of its time so far."""
_STACK = "stack"


@dataclass(slots=True)
class _Arm:
    """An offer under audit: what it is asked, and what both data sets have answered.

    ``last`` is how many draws its last releases held, and ``took_s`` how long they took.
    """

    offer: Offer
    probe: Probe
    drawn: tuple[list[list[float]], list[list[float]]] = field(default_factory=lambda: ([], []))
    note: str = ""
    is_job: bool = False
    last: int = 0
    took_s: float = 0.0

    @property
    def place(self) -> Place:
        """Return which data sets it is asked of."""
        return self.probe.pair, self.offer.adjacency, self.offer.accounting

    def refuse(self, problem: ProblemError) -> None:
        """Note that the desk refuses to answer."""
        self.note = f"refused: {problem.code}: {problem.detail}"

    def finding(self, terms: Terms, offers: int) -> Finding:
        """Return what these draws certify."""
        count = min(map(len, self.drawn))
        if not count:
            note = self.note or "there was no time to ask"
            return Finding(self.offer, terms.epsilon, note=note)
        first, second = (_table(draws[:count]) for draws in self.drawn)
        bound = certified(
            first,
            second,
            confidence=terms.confidence,
            offers=offers,
            pure=self.offer.accounting == PURE,
        )
        return Finding(self.offer, terms.epsilon, count, bound, self.note)


async def audit(url: str, key: str | None, terms: Terms, on_draws: OnDraws) -> Findings:
    """Audit a running desk with an admin's key.

    What it has made there it takes away again, however it ends: the rows of its data sets are
    erased, and its keys revoked. The ledger keeps what was spent on them.

    Raises
    ------
    ProblemError
        The desk refused what an admin may do.
    UnreachableError
        It could not be reached.
    """
    began, began_at = time.monotonic(), datetime.now(UTC).isoformat(timespec="seconds")
    async with AuditKeys(url, key) as keys:
        catalog = [line async for line in keys.admin.catalog()]
        offers = offers_in(catalog, terms.patterns)
        probes = ((offer, probe_of(offer)) for offer in _mixed(offers))
        arms = [_Arm(offer, probe) for offer, probe in probes if probe is not None]
        parts = 1 if terms.alone else _most_parts(catalog)
        async with NeighbourDatasets(keys, _costs(arms, terms)) as datasets:
            asking = _Asking(
                keys=keys,
                datasets=datasets,
                terms=terms,
                parts=parts,
                on_draws=on_draws,
                arms=arms,
            )
            await asking.all()
    found = {arm.offer: arm.finding(terms, len(arms)) for arm in arms}
    unknown = "there is no pair of neighbours for it"
    return Findings(
        url=url,
        began_at=began_at,
        took_s=round(time.monotonic() - began, 1),
        terms=terms,
        offers=[
            found.get(offer) or Finding(offer, terms.epsilon, note=unknown) for offer in offers
        ],
    )


class _Asking:
    """Asks all offers at once, in turns, until each has its draws or the time is over."""

    def __init__(
        self,
        *,
        keys: AuditKeys,
        datasets: NeighbourDatasets,
        terms: Terms,
        parts: int,
        on_draws: OnDraws,
        arms: Sequence[_Arm],
    ) -> None:
        self._keys, self._datasets, self._terms = keys, datasets, terms
        self._parts, self._on_draws, self._arms = parts, on_draws, arms
        self._turns = asyncio.Semaphore(_AT_ONCE)
        self._turns_of_jobs = asyncio.Semaphore(_JOBS_AT_ONCE)
        self._end = time.monotonic() + terms.seconds
        self._made = 0

    async def all(self) -> None:
        """Ask; what was asked in time is waited for."""
        try:
            async with asyncio.TaskGroup() as tasks:
                for arm in self._arms:
                    tasks.create_task(self._ask(arm))
        except ExceptionGroup as several:
            # Who reads it wants the refusal, not the group that the tasks made of it.
            raise several.exceptions[0] from None

    async def _ask(self, arm: _Arm) -> None:
        async with self._turns:
            going = await self._ask_once(arm)
        while going and not arm.is_job:
            async with self._turns:
                going = await self._ask_once(arm)
                while going and not arm.is_job and len(arm.drawn[0]) < _ENOUGH:
                    going = await self._ask_once(arm)
        if going:
            asked = [len(draws) for draws in arm.drawn]
            asking = (self._ask_jobs(arm, side, asked) for side in (0, 1) * _JOBS_IN_A_ROW)
            await asyncio.gather(*asking)

    async def _ask_once(self, arm: _Arm) -> bool:
        """Ask both data sets for some more draws; return whether there may be more after it."""
        count, began = self._next(arm), time.monotonic()
        if not count:
            return False
        try:
            answers = await asyncio.gather(*(self._answers(arm, side, count) for side in range(2)))
        except ProblemError as problem:
            arm.refuse(problem)
            return False
        for side, answered in enumerate(answers):
            self._keep(arm, side, answered)
        arm.last, arm.took_s = count, time.monotonic() - began
        return True

    async def _ask_jobs(self, arm: _Arm, side: int, asked: list[int]) -> None:
        """Ask one data set for short jobs, one after the other; ``asked`` counts all draws of each.

        Who has asked waits behind all others, so every offer gets as many.
        """
        while not arm.note:
            async with self._turns_of_jobs:
                began = time.monotonic()
                count = min(self._parts, _PARTS_OF_JOBS, self._terms.draws - asked[side])
                if count < 1 or began + arm.took_s >= self._end:
                    return
                asked[side] += count
                try:
                    answered = await self._draws(arm, side, count)
                except ProblemError as problem:
                    arm.refuse(problem)
                    return
                self._keep(arm, side, answered)
                arm.took_s = time.monotonic() - began

    def _keep(self, arm: _Arm, side: int, answered: Sequence[list[float]]) -> None:
        arm.drawn[side].extend(answered)
        self._made += len(answered)
        self._on_draws(self._made, 2 * self._terms.draws * len(self._arms))

    def _next(self, arm: _Arm) -> int:
        """Return how many draws to ask for next, 0 where it is enough or would take too long.

        The first is alone, and shows how long such draws take, and whether they are jobs. Nothing
        drawn has a say in it.
        """
        count = min(_BATCH, self._terms.draws - len(arm.drawn[0]), max(1, _MORE * arm.last))
        expected_s = arm.took_s * count / max(1, arm.last)
        return count if time.monotonic() + expected_s < self._end else 0

    async def _answers(self, arm: _Arm, side: int, count: int) -> list[list[float]]:
        """Return the numbers of several draws of one data set, requested in parallel."""
        together = 1 if arm.offer.statistic == _STACK else self._parts
        sizes = [min(together, count - begin) for begin in range(0, count, together)]
        found = await asyncio.gather(*(self._draws(arm, side, size) for size in sizes))
        return [draw for draws in found for draw in draws]

    async def _draws(self, arm: _Arm, side: int, count: int) -> list[list[float]]:
        """Return the numbers of several draws, requested in one release."""
        offer = arm.offer
        statistic, mechanism, norm = arm.probe.question, offer.mechanism, offer.norm
        if count > 1:
            part = {"statistic": statistic, "mechanism": mechanism, "norm": norm}
            statistic = {"kind": _STACK, "parts": [part] * count}
            mechanism = norm = "auto"
        dataset = self._datasets.id(arm.place, side)
        # A stack parts its epsilon evenly: each draw then has what was promised.
        epsilon = str(Decimal(self._terms.epsilon) * count)
        release = await self._keys.release(
            dataset, statistic, epsilon=epsilon, mechanism=mechanism, norm=norm
        )
        began = time.monotonic()
        while release.status == "running":
            arm.is_job = True
            passed_s = time.monotonic() - began
            await asyncio.sleep(max(_LOOK_AGAIN_S, _LOOK_AGAIN_SHARE * passed_s))
            look = partial(self._keys.admin.released, release.id)
            release = await self._keys.patiently(look)
        value = _value_of(release)
        return [_numbers(part) for part in (value["parts"] if count > 1 else [value])]


def _mixed(offers: Sequence[Offer]) -> list[Offer]:
    """Return the first offer of each mechanism, then the second of each, and so on."""
    seen: Counter[str] = Counter()
    order = []
    for offer in offers:
        order.append((seen[offer.mechanism], offer))
        seen[offer.mechanism] += 1
    return [offer for _, offer in sorted(order, key=lambda each: each[0])]


def _value_of(release: Release) -> Mapping[str, Any]:
    if release.value is None:
        detail = f"a release came to nothing: it is {release.status}"
        raise ProblemError(status=200, body={"code": release.status, "detail": detail})
    return release.value


def _most_parts(catalog: Sequence[Mapping[str, Any]]) -> int:
    """Return how many draws one release may hold."""
    return max(
        (line["limits"]["parts"] for line in catalog if line["statistic"] == _STACK), default=1
    )


def _costs(arms: Sequence[_Arm], terms: Terms) -> dict[Place, str]:
    """Return the epsilon of the budget that each pair's data sets need."""
    asked = Counter(arm.place for arm in arms)
    return {place: _budget(place, count * terms.draws, terms) for place, count in asked.items()}


def _budget(place: Place, draws: int, terms: Terms) -> str:
    *_, accounting = place
    if accounting == PURE:
        return str(math.ceil(Decimal(terms.epsilon) * draws))
    # rho-zCDP is (rho + 2 sqrt(rho log(1 / delta)), delta)-DP (Bun & Steinke 2016, Proposition 1.3)
    rho = draws * float(terms.epsilon) ** 2 / 2
    return str(math.ceil(rho + 2 * math.sqrt(rho * math.log(1 / float(DELTA)))))


def _numbers(value: object) -> list[float]:
    """Return the numbers of an answer, in their order."""
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, list):
        return [number for part in value for number in _numbers(part)]
    return [] if isinstance(value, str) or value is None else [float(str(value))]


def _table(draws: Sequence[Sequence[float]]) -> Floats:
    return np.array(draws, dtype=np.float64)
