"""The keys that an audit asks with: an admin makes them for it, and revokes them after it.

Each is a person of its own, as a desk limits what one person asks in a minute and stores in a day.
No limit is lifted: a key that must wait waits, and another follows one that has stored enough.
"""

from __future__ import annotations

import asyncio
import uuid
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Any, Self, TypeVar

from app.audit.report import ADD_REMOVE, COLUMNS, MAX_ROWS, PURE, Pair
from app.client import AsyncDesk, ProblemError, Release

# The data sets of an audit: invented rows, a budget of their own, archived when it is over

_AT_ONCE = 4  # each upload is read by a process of the desk's own
_REASON = "invented rows of a privacy audit, archived after it"

DELTA = "0.000001"
"""The delta of a budget in zCDP."""

Place = tuple[Pair, str, str]
"""A pair under an adjacency, and how its account is kept."""


class NeighbourDatasets:
    """Both data sets of each pair, uploaded with a budget that covers what will be asked."""

    def __init__(self, keys: AuditKeys, costs: Mapping[Place, str]) -> None:
        self._keys = keys
        self._costs = costs
        self._ids: dict[tuple[Place, int], str] = {}
        self._turns = asyncio.Semaphore(_AT_ONCE)

    async def __aenter__(self) -> Self:
        try:
            await self._upload_all()
        # Leaving is only called after entering: what was uploaded before the fault is archived
        # here.
        except BaseException:
            await self._archive_all()
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._archive_all()

    def id(self, place: Place, side: int) -> str:
        """Return the id of the first (``side`` 0) or the second data set of a pair."""
        return self._ids[place, side]

    async def _upload_all(self) -> None:
        with TemporaryDirectory() as folder:
            try:
                async with asyncio.TaskGroup() as tasks:
                    for place, cost in self._costs.items():
                        for side in range(2):
                            upload = self._upload(Path(folder), place, side, cost)
                            tasks.create_task(upload)
            except ExceptionGroup as several:
                raise several.exceptions[0] from None

    async def _upload(self, folder: Path, place: Place, side: int, cost: str) -> None:
        pair, adjacency, accounting = place
        name = f"privacy audit {self._keys.run} {pair.name} {adjacency} {accounting} {side + 1}"
        spec: dict[str, Any] = {
            "name": name,
            "description": _REASON,
            "adjacency": adjacency,
            "columns": COLUMNS,
            "budget": {"epsilon": cost} | ({} if accounting == PURE else {"delta": DELTA}),
            # neighbours share nearly all rows: that is the point of them
            "overlap": {"reason": _REASON},
        }
        if adjacency == ADD_REMOVE:
            spec["max_rows"] = MAX_ROWS
        file = folder / f"{pair.name}-{adjacency}-{accounting}-{side}.csv"
        file.write_text(pair.csv(adjacency, side), "utf-8")
        async with self._turns:
            upload = partial(self._keys.admin.upload, file, spec)
            dataset = await self._keys.patiently(upload)
        self._ids[place, side] = dataset.id

    async def _archive_all(self) -> None:
        for dataset in self._ids.values():
            await self._keys.patiently(partial(self._keys.admin.archive, dataset))


# The keys that an audit asks with: an admin makes them for it, and revokes them after it

T = TypeVar("T")

_GUESTS = 4  # this many take turns, as a desk limits the requests of one person
_DAYS = 2  # an audit that is killed leaves its keys behind: they end by themselves
_WAIT = frozenset({"rate-limited", "too-many-jobs", "busy"})
_STORED_ENOUGH = "too-much-stored"
_PAUSE_S, _LONGEST_PAUSE_S, _MOST_WAITS = 2.0, 60.0, 60
_TIMEOUT_S = 120.0  # a desk that is asked for thousands of draws is slow to answer


class AuditKeys:
    """Analysts of one audit, who take turns; ``run`` is its name."""

    def __init__(self, url: str, key: str | None) -> None:
        self.run = uuid.uuid4().hex[:8]
        self.admin = AsyncDesk(url, key, timeout_s=_TIMEOUT_S)
        self._url = url
        self._made: list[tuple[str, AsyncDesk]] = []
        self._turns: deque[AsyncDesk] = deque()
        self._making = asyncio.Lock()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for key, desk in self._made:
            await desk.close()
            await self.patiently(partial(self.admin.revoke_key, key))
        await self.admin.close()

    async def release(
        self, dataset: str, statistic: Mapping[str, Any], *, epsilon: str, mechanism: str, norm: str
    ) -> Release:
        """Ask for a release; one that runs is not waited for."""
        # One name for every try: asked again after a lost answer, nothing is charged twice.
        name = uuid.uuid4().hex
        for _ in range(_MOST_WAITS):
            desk = await self._next()
            try:
                return await desk.release(
                    dataset,
                    statistic,
                    epsilon=epsilon,
                    mechanism=mechanism,
                    norm=norm,
                    idempotency_key=name,
                    wait=False,
                )
            except ProblemError as problem:
                if problem.code != _STORED_ENOUGH:
                    await _wait_for(problem)
                # Another of the tasks may have taken it out already.
                elif desk in self._turns:
                    self._turns.remove(desk)
        raise _refused_for_long()

    async def patiently(self, call: Callable[[], Awaitable[T]]) -> T:
        """Do as an admin, and wait where the desk says so."""
        for _ in range(_MOST_WAITS):
            try:
                return await call()
            except ProblemError as problem:
                await _wait_for(problem)
        raise _refused_for_long()

    async def _next(self) -> AsyncDesk:
        async with self._making:
            while len(self._turns) < _GUESTS:
                name = f"privacy audit {self.run} {len(self._made) + 1}"
                expires = (datetime.now(UTC) + timedelta(days=_DAYS)).isoformat(timespec="seconds")
                make = partial(self.admin.create_key, name=name, role="analyst", expires=expires)
                key = await self.patiently(make)
                desk = AsyncDesk(self._url, key.secret, timeout_s=_TIMEOUT_S)
                self._made.append((key.id, desk))
                self._turns.append(desk)
        self._turns.rotate()
        return self._turns[0]


async def _wait_for(problem: ProblemError) -> None:
    """Wait as long as a refusal says, if it is one that passes; else raise it."""
    if problem.code not in _WAIT:
        raise problem
    said = problem.extras.get("retry_after")
    pause_s = float(said) if isinstance(said, int | float) else _PAUSE_S
    await asyncio.sleep(min(pause_s, _LONGEST_PAUSE_S))


def _refused_for_long() -> ProblemError:
    detail = "the desk was busy, again and again"
    return ProblemError(status=503, body={"code": "busy", "detail": detail})
