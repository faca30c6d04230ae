"""Derivations: free answers made of released numbers alone.

A reader of a release may compute with it; doing it here saves them the geometry. No data set
is opened (none need be left), nothing is charged, no ledger entry is made, and no policy
applies: a policy limits what leaves the data, and this has left it.

*What takes long.* A calculation that is expected to take more than two seconds outlasts its
request: who asks again hears how far it is, and gets what it came to. Calculations of that sort
have a lane of their own, so that no other question waits for them. What they came to is kept in
the data directory for an hour, where all processes of the service find it.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import anyio.to_thread

from app.domain.problems import Problem, invalid_request
from app.services.datasets.datasets import DatasetFacts, DatasetService
from app.services.people.keys import Caller
from app.services.plans.answers import inference_json, limits_json, noise_json
from app.services.plans.lanes import ProcessLane
from app.services.plans.missing import joined_members
from app.services.plans.plans import PlanService
from app.services.plans.questions import read_question, statistic_json
from app.services.releases.releases import ReleaseService
from app.store import ReleaseRecord
from app.tidy.keys import read_answer
from app.vault.stored import CalculatedFiles
from mechanisms.catalog import written_guarantee
from mechanisms.combined import combine, combining_ms
from mechanisms.composition import THEOREM, THEOREM_OF_ZCDP
from mechanisms.contract import InvalidStatisticError, Noise, Outcome, Statistic
from mechanisms.derivations import Released, derive, deriving_ms
from mechanisms.domain import Schema
from mechanisms.exact.fractions import decimal_text
from mechanisms.presentation import counted, shown
from mechanisms.privacy import NANOS_PER_EPSILON, PURE, ZCDP, Epsilon, definition_of
from mechanisms.statistics.questions import weighed

_ALL_WORDING = (
    "Post-processing: least squares of the numbers of these releases, by the known law of their "
    "noise, without the data. It has the guarantee of all of them together, and costs nothing."
)
_TOGETHER = "together_with"
_COMPOSED = {PURE: THEOREM, ZCDP: THEOREM_OF_ZCDP}

WORDING = (
    "Post-processing: computed from the released numbers and public facts alone, without the data. "
    "It has the guarantee of the release it was derived from, and costs nothing."
)


AT_ONCE_MS = 2_000.0
"""What is expected to take longer outlasts its request."""
LONGEST_S = 180.0
"""How much processor time such a calculation may take."""
AGAIN_S = 2
"""Seconds after which it is worth asking again."""
_MOST_FAILED = 64
_REFUSED = "invalid-request"


class UnfinishedError(Exception):
    """A calculation goes on, and ``share`` of it is done; ask the same again."""

    def __init__(self, share: float) -> None:
        super().__init__(share)
        self.share = share


@dataclass(slots=True)
class _Running:
    """A calculation that this process makes."""

    share: float = 0.0
    task: asyncio.Task[bytes] | None = None


class Calculations:
    """Calculations of public numbers that outlast the request for them.

    Parameters
    ----------
    lane
        Where they are made.
    files
        Where what they came to is kept.
    """

    def __init__(self, lane: ProcessLane, files: CalculatedFiles) -> None:
        self._lane = lane
        self._files = files
        self._running: dict[str, _Running] = {}

    async def result(
        self, key: str, function: Callable[..., bytes], *arguments: object, person: str
    ) -> bytes:
        """Return what a function of a module comes to.

        Parameters
        ----------
        key
            Names the calculation in a file's name: the same one is made once.
        person
            Who asks; people take turns.

        Raises
        ------
        UnfinishedError
            It goes on.
        Problem
            What the function raises; ``busy``.
        """
        kept = await anyio.to_thread.run_sync(self._files.read, key)
        if kept is not None:
            return _outcome(kept)
        running = self._running.get(key)
        if running is None:
            share = await anyio.to_thread.run_sync(self._files.share, key)
            if share is not None:  # another process of the service makes it
                raise UnfinishedError(share)
            running = self._running.setdefault(key, _Running())
        if running.task is None:
            making = self._made(key, running, function, arguments, person)
            running.task = asyncio.ensure_future(making)
            self._drop_failed()
        await asyncio.wait((running.task,), timeout=AGAIN_S)
        if not running.task.done():
            raise UnfinishedError(running.share)
        self._running.pop(key, None)
        return _outcome(running.task.result())

    async def _made(
        self,
        key: str,
        running: _Running,
        function: Callable[..., bytes],
        arguments: Sequence[object],
        person: str,
    ) -> bytes:
        """Return what a calculation came to, or was refused for, as it is kept."""

        def on_progress(share: float) -> None:
            running.share = share

        saying = asyncio.ensure_future(self._keep_saying(key, running))
        try:
            try:
                kept = b"\n" + await self._lane.run(
                    person, function, *arguments, on_progress=on_progress
                )
            except Problem as problem:
                if problem.code != _REFUSED:
                    raise
                kept = json.dumps([problem.detail, problem.extras]).encode() + b"\n"
            # kept before it is said to be over: else another process would begin it again
            await anyio.to_thread.run_sync(self._files.put, key, kept)
        finally:
            saying.cancel()
            await asyncio.gather(saying, return_exceptions=True)
            await anyio.to_thread.run_sync(self._files.forget, key)
        self._running.pop(key, None)
        return kept

    async def _keep_saying(self, key: str, running: _Running) -> None:
        """Report to other processes how far it is, as long as it goes on."""
        while True:
            await anyio.to_thread.run_sync(self._files.say, key, running.share)
            await asyncio.sleep(1)

    def _drop_failed(self) -> None:
        """Forget those that failed and were not asked for again, but for the last ones."""
        failed = [
            key
            for key, each in self._running.items()
            if each.task is not None and each.task.done() and not each.task.cancelled()
        ]
        for key in failed[:-_MOST_FAILED]:
            task = self._running.pop(key).task
            if task is not None:
                task.exception()

    async def close(self) -> None:
        """End what goes on: it is begun again when somebody asks for it."""
        tasks = [each.task for each in self._running.values() if each.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _outcome(kept: bytes) -> bytes:
    """Return what a calculation came to, as it was kept.

    Raises
    ------
    Problem
        It was refused.
    """
    refused, _, answer = kept.partition(b"\n")
    if refused:
        detail, extras = json.loads(refused)
        raise Problem(_REFUSED, detail, **extras)
    return answer


class DerivationService:
    """Derives statistics from releases, for those who may see them."""

    def __init__(
        self,
        releases: ReleaseService,
        datasets: DatasetService,
        plans: PlanService,
        calculations: Calculations,
    ) -> None:
        self._releases = releases
        self._datasets = datasets
        self._plans = plans
        self._calculations = calculations

    async def derive(
        self,
        release: str,
        statistic: Statistic,
        *,
        together_with: Sequence[str],
        caller: Caller,
    ) -> bytes:
        """Return the answer derived from one release, or several, as JSON.

        Raises
        ------
        UnfinishedError
            It takes long, and goes on.
        Problem
            ``not-found`` for foreign and unknown releases alike; ``invalid-request``
            when the release has no result, or does not determine the statistic; ``busy``.
        """
        record = await self._releases.get(release, caller=caller)
        facts = await self._datasets.present(record.dataset)
        statistic = weighed(statistic, facts.schema)
        if together_with:
            return await self._all(record, together_with, facts, statistic, caller=caller)
        asked = read_question(record.request)
        expected_ms = asked.planning_ms(facts.schema) + deriving_ms(asked.statistic, facts.schema)
        asking = _Asking(_derivation, [record], facts, statistic)
        return await self._answer(asking, person=caller.person, expected_ms=expected_ms)

    async def _all(
        self,
        record: ReleaseRecord,
        together_with: Sequence[str],
        facts: DatasetFacts,
        statistic: Statistic,
        *,
        caller: Caller,
    ) -> bytes:
        records = [record]
        for name in together_with:
            records.append(await self._releases.get(name, caller=caller))
        if len({each.id for each in records}) < len(records):
            raise invalid_request(_TOGETHER, "a release is named twice")
        if any(each.dataset != record.dataset for each in records):
            raise invalid_request(_TOGETHER, "the releases are not all of one data set")
        asked = [read_question(each.request) for each in records]
        expected_ms = sum(each.planning_ms(facts.schema) for each in asked)
        expected_ms += combining_ms([each.statistic for each in asked], facts.schema)
        asking = _Asking(_combined, records, facts, statistic)
        return await self._answer(asking, person=caller.person, expected_ms=expected_ms)

    async def _answer(self, asking: _Asking, *, person: str, expected_ms: float) -> bytes:
        """Return what is calculated from releases, at once or as a calculation that goes on."""
        arguments = asking.records, asking.facts, asking.statistic
        if expected_ms > AT_ONCE_MS:
            result = self._calculations.result
            return await result(asking.key, asking.function, *arguments, person=person)
        return await self._plans.compute(
            asking.function, *arguments, person=person, expected_ms=expected_ms
        )


@dataclass(frozen=True, slots=True)
class _Asking:
    """What is calculated of which releases."""

    function: Callable[[Sequence[ReleaseRecord], DatasetFacts, Statistic], bytes]
    records: Sequence[ReleaseRecord]
    facts: DatasetFacts
    statistic: Statistic

    @property
    def key(self) -> str:
        """Return what the answer depends on, in short."""
        names, data = [each.id for each in self.records], self.facts.record
        text = json.dumps([names, data.digest, data.edits, statistic_json(self.statistic)])
        return hashlib.sha256(text.encode()).hexdigest()


def _derivation(
    records: Sequence[ReleaseRecord], facts: DatasetFacts, statistic: Statistic
) -> bytes:
    (record,) = records
    answer = answer_of_stored(record, "release")
    with _refused_in_words():
        outcome = derive(statistic, _released(record, answer, facts.schema), facts.schema)
        outcome = shown(outcome, statistic, facts.schema)
    return _told([record], statistic, outcome, guarantee=answer["guarantee"], reason=WORDING)


def _combined(records: Sequence[ReleaseRecord], facts: DatasetFacts, statistic: Statistic) -> bytes:
    answers = {
        each.id: answer_of_stored(each, "release" if each is records[0] else _TOGETHER)
        for each in records
    }
    # in one order, so that every answer made of the same releases agrees with the others
    in_order = sorted(records, key=lambda each: each.id)
    with _refused_in_words():
        released = [_released(each, answers[each.id], facts.schema) for each in in_order]
        outcome = combine(statistic, released, facts.schema)
        outcome = shown(outcome, statistic, facts.schema)
    epsilon = sum((each.epsilon.fraction for each in released), Fraction(0))
    promised = [written_guarantee(json.loads(each.plan)) for each in records]
    definition = definition_of(promised)
    # Post-processing: the guarantee is that of all releases together, whose losses add up.
    guarantee = {
        **answers[records[0].id]["guarantee"],
        "definition": definition,
        "epsilon": str(Epsilon(int(epsilon * NANOS_PER_EPSILON))),
        "sensitivity": "; ".join(answers[each.id]["guarantee"]["sensitivity"] for each in records),
        "sensitivity_unit": "one for each release, each in its own unit",
        "theorem": f"{_COMPOSED[definition]}; each release by its own theorem",
    }
    if definition == ZCDP:
        guarantee["rho"] = decimal_text(sum((each.zcdp for each in promised), Fraction(0)))
    return _told(records, statistic, outcome, guarantee=guarantee, reason=_ALL_WORDING)


def _told(
    records: Sequence[ReleaseRecord],
    statistic: Statistic,
    outcome: Outcome,
    *,
    guarantee: Mapping[str, object],
    reason: str,
) -> bytes:
    first, *others = records
    answer = {
        "derived_from": first.id,
        "together_with": [each.id for each in others],
        "dataset": first.dataset,
        "statistic": statistic_json(statistic),
        "value": outcome.value,
        "noise": noise_json(outcome.noise),
        **limits_json(outcome),
        "inference": inference_json(outcome.inference),
        "guarantee": guarantee,
        "cost": "0",
        "reason": reason,
        **joined_members(json.loads(each.plan)["details"] for each in records),
    }
    return json.dumps(answer, allow_nan=False, ensure_ascii=False, separators=(",", ":")).encode()


@contextmanager
def _refused_in_words() -> Iterator[None]:
    try:
        yield
    except InvalidStatisticError as error:
        place = error.field_name
        raise invalid_request(
            place if place == "statistic" else f"statistic.{place}", error.detail
        ) from None


def answer_of_stored(record: ReleaseRecord, place: str) -> dict[str, Any]:
    """Return a stored answer; ``place`` is what the request calls the release.

    Raises
    ------
    Problem
        ``invalid-request``: there is none.
    """
    if record.result is None:
        raise invalid_request(place, "the release has no result to derive from")
    return read_answer(record.result)


def _released(record: ReleaseRecord, answer: Mapping[str, object], schema: Schema) -> Released:
    """Return a stored answer as the mechanisms read it."""
    question = read_question(record.request)
    kept = json.loads(record.plan)
    counted_answer = counted(answer, question.statistic, schema)
    noise = counted_answer["noise"]
    return Released(
        statistic=question.statistic,
        mechanism=kept["mechanism"],
        norm=kept["norm"],
        epsilon=question.epsilon,
        value=counted_answer["value"],
        noise=None if noise is None else Noise(**noise),
        details=kept["details"],
    )
