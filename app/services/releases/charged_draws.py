"""How a charged release is drawn, wherever that is: one way from the ledger's record to the answer.

Threads of a server, the process of small draws and the processes of jobs all draw by
this. Question and plan are read from the record, unless they were charged for here; the numbers
become the bytes of the answer, and these get their receipt.

Short calculations handed to threads many at a time.

Waking a thread and being woken by it costs more than a small draw takes, and
while many threads want the interpreter each of them waits for all the others.
So the calls of one turn of the event loop are handed over together, and
resolved together when they are done.

A calculation comes in steps, and each step is taken for all of a batch before
the next one is: the same code over and over stays in the processor's caches,
which makes small draws a quarter faster.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, TypeVar

from app.domain.problems import StorageError
from app.engine.data import DataEngine
from app.engine.run import run
from app.services.datasets.datasets import DatasetFacts, facts_of
from app.services.plans.answers import release_answer
from app.services.plans.plans import charged_plan
from app.services.plans.questions import Question
from app.store import DatasetRecord, ReleaseRecord
from mechanisms.contract import Outcome, Plan

MOST_MS = 10.0
"""Together calculations are expected to take no longer than this; a longer one goes alone."""

Step = Callable[[Any], Any]
"""Makes of what the step before came to (of None, the first one) what the next one gets."""


class Expected(Protocol):
    """Something of which it is known about how long it takes."""

    @property
    def expected_ms(self) -> float:
        """Return about how many milliseconds it takes."""


Timed = TypeVar("Timed", bound=Expected)


@dataclass(frozen=True, slots=True)
class _Call:
    """The steps of a calculation, about how long it takes, and who waits for it."""

    steps: Sequence[Step]
    expected_ms: float
    waiter: asyncio.Future[Any]


@dataclass(frozen=True, slots=True)
class StepOutcome:
    """What a call has come to so far, or what it raised."""

    value: Any = None
    error: BaseException | None = None

    def then(self, step: Step) -> StepOutcome:
        """Return what a step makes of it."""
        if self.error is not None:
            return self
        try:
            return StepOutcome(value=step(self.value))
        except BaseException as error:  # the waiter gets it
            return StepOutcome(error=error)

    def resolve(self, waiter: asyncio.Future[Any]) -> None:
        """Resolve the waiter, unless it is cancelled."""
        if waiter.done():
            return
        if self.error is None:
            waiter.set_result(self.value)
        else:
            waiter.set_exception(self.error)


class Batches:
    """Threads, and the calls that wait for the event loop's turn to end.

    **Privacy.** Which calls share a hand-over follows from when they were
    asked for and from how long each is *expected* to take. That must be
    public, and infinite where the data decide how long a call really takes:
    those that share a hand-over wait for each other, and for those before it.

    Parameters
    ----------
    threads
        How many long calls run at once. All the short ones have one thread of their own:
        more would only take the interpreter's lock, and the processor's caches, from
        one another.
    name
        How the threads' names begin.
    """

    def __init__(self, *, threads: int, name: str) -> None:
        self._short = ThreadPoolExecutor(1, thread_name_prefix=name)
        self._long = ThreadPoolExecutor(threads, thread_name_prefix=name)
        self._waiting: list[_Call] = []
        self._closed = False

    def submit(self, *steps: Step, expected_ms: float) -> asyncio.Future[Any]:
        """Have steps taken in a thread; return the future of what the last one comes to."""
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[Any] = loop.create_future()
        if not self._waiting:
            loop.call_soon(self._hand_over, loop)  # after all that this turn still asks for
        self._waiting.append(_Call(steps, expected_ms, waiter))
        return waiter

    def _refuse(self, batch: Sequence[_Call], error: RuntimeError) -> None:
        """Fail the calls that no thread takes: the queue is full, or the threads are closed."""
        if self._closed:
            _cancel(batch)
            return
        # A running thread may take it nonetheless; its outcome is dropped.
        for call in batch:
            StepOutcome(error=StorageError(str(error))).resolve(call.waiter)

    def close(self) -> None:
        """Begin no further call; those not begun are cancelled."""
        self._closed = True
        for threads in (self._short, self._long):
            threads.shutdown(wait=False, cancel_futures=True)

    def _hand_over(self, loop: asyncio.AbstractEventLoop) -> None:
        waiting, self._waiting = self._waiting, []
        for batch in packed(waiting):
            threads = self._short if batch[0].expected_ms <= MOST_MS else self._long
            try:
                job = threads.submit(_call_all, batch)
            except RuntimeError as error:
                self._refuse(batch, error)
            else:
                job.add_done_callback(partial(_report, loop, batch))


def packed(calls: Sequence[Timed], *, most_ms: float = MOST_MS) -> Iterator[Sequence[Timed]]:
    """Yield calls in order, as many together as are expected to take no longer than that."""
    batch: list[Timed] = []
    expected_ms = 0.0
    for call in calls:
        # An infinite time is more than any bound: such a call is always alone.
        if batch and expected_ms + call.expected_ms > most_ms:
            yield batch
            batch, expected_ms = [], 0.0
        batch.append(call)
        expected_ms += call.expected_ms
    yield batch


def take_steps(calls: Sequence[Sequence[Step]]) -> Sequence[StepOutcome]:
    """Return what each call comes to, taking each step for all of them before the next."""
    outcomes = [StepOutcome()] * len(calls)
    for at in range(max(map(len, calls))):
        outcomes = [
            outcome.then(steps[at]) if at < len(steps) else outcome
            for steps, outcome in zip(calls, outcomes, strict=True)
        ]
    return outcomes


def _call_all(batch: Sequence[_Call]) -> Sequence[StepOutcome]:
    return take_steps([call.steps for call in batch])


def _report(
    loop: asyncio.AbstractEventLoop, batch: Sequence[_Call], job: Future[Sequence[StepOutcome]]
) -> None:
    with suppress(RuntimeError):  # the event loop has ended, and its tasks with it
        loop.call_soon_threadsafe(_resolve, batch, job)


def _resolve(batch: Sequence[_Call], job: Future[Sequence[StepOutcome]]) -> None:
    if job.cancelled():
        _cancel(batch)
        return
    for call, outcome in zip(batch, job.result(), strict=True):
        outcome.resolve(call.waiter)


def _cancel(batch: Sequence[_Call]) -> None:
    for call in batch:
        call.waiter.cancel()


# How a charged release is drawn, wherever that is: one way from the ledger's record to the answer


_REMEMBERED = 256


@dataclass(frozen=True, slots=True)
class ReadyDraw:
    """A question about a data set, and the plan it was charged by: all that a draw needs.

    ``planning_ms`` is about how long it takes to make the plan, and at most to read it.
    """

    facts: DatasetFacts
    question: Question
    plan: Plan
    planning_ms: float


class Signing(Protocol):
    """Signs answers."""

    def attach(self, record: ReleaseRecord, answer: bytes) -> bytes:
        """Return an answer with its receipt."""


class ChargedDraws:
    """Draws charged releases, and remembers the plans that were read for the last ones.

    Parameters
    ----------
    plane
        Where the rows are.
    receipts
        What signs the answers.
    """

    def __init__(self, plane: DataEngine, receipts: Signing) -> None:
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

        They are for :func:`app.services.releases.charged_draws.take_steps`. The first raises
        :class:`~mechanisms.catalog.PlanChangedError` where the release cannot be drawn as
        what it was charged for, and
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
        ready = ready or self.ready(record, dataset)
        return ready, run(ready.plan, self._plane.open(dataset.id, manifest=manifest))

    def ready(self, record: ReleaseRecord, dataset: DatasetRecord) -> ReadyDraw:
        """Return how a release is drawn: as it was charged for.

        Raises
        ------
        PlanChangedError
            It cannot be.
        """
        key = dataset, record.request, record.plan, record.amount
        known = self._planned.get(key)
        if known is not None:
            self._planned.move_to_end(key)
            return known
        facts = facts_of(dataset)
        question, plan = charged_plan(record, facts)
        takes_ms = question.planning_ms(facts.schema)
        ready = self._planned[key] = ReadyDraw(facts, question, plan, takes_ms)
        if len(self._planned) > _REMEMBERED:
            self._planned.popitem(last=False)
        return ready


def _answer(record: ReleaseRecord, drawn: tuple[ReadyDraw, Outcome]) -> bytes:
    ready, outcome = drawn
    return release_answer(record, ready.facts, ready.question, outcome)
