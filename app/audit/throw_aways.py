"""The data sets of an audit: invented rows, a budget of their own, archived when it is over."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Any, Self

from app.audit.guests import Guests
from app.audit.pairs import ADD_REMOVE, COLUMNS, MAX_ROWS, Pair

_AT_ONCE = 4  # each upload is read by a process of the desk's own
_REASON = "invented rows of a privacy audit, archived after it"

Place = tuple[Pair, str]
"""A pair under an adjacency."""


class ThrowAways:
    """Both data sets of each pair, uploaded with a budget that covers what will be asked."""

    def __init__(self, guests: Guests, costs: Mapping[Place, str]) -> None:
        self._guests = guests
        self._costs = costs
        self._ids: dict[tuple[Pair, str, int], str] = {}
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

    def id(self, pair: Pair, adjacency: str, side: int) -> str:
        """Return the id of the first (``side`` 0) or the second data set of a pair."""
        return self._ids[pair, adjacency, side]

    async def _upload_all(self) -> None:
        with TemporaryDirectory() as folder:
            try:
                async with asyncio.TaskGroup() as tasks:
                    for (pair, adjacency), cost in self._costs.items():
                        for side in range(2):
                            upload = self._upload(Path(folder), pair, adjacency, side, cost)
                            tasks.create_task(upload)
            except ExceptionGroup as several:
                raise several.exceptions[0] from None

    async def _upload(self, folder: Path, pair: Pair, adjacency: str, side: int, cost: str) -> None:
        name = f"privacy audit {self._guests.run} {pair.name} {adjacency} {side + 1}"
        spec: dict[str, Any] = {
            "name": name,
            "description": _REASON,
            "adjacency": adjacency,
            "columns": COLUMNS,
            "budget": {"epsilon": cost},
            # neighbours share nearly all rows: that is the point of them
            "overlap": {"reason": _REASON},
        }
        if adjacency == ADD_REMOVE:
            spec["max_rows"] = MAX_ROWS
        file = folder / f"{pair.name}-{adjacency}-{side}.csv"
        file.write_text(pair.csv(adjacency, side), "utf-8")
        async with self._turns:
            upload = partial(self._guests.admin.upload, file, spec)
            dataset = await self._guests.patiently(upload)
        self._ids[pair, adjacency, side] = dataset.id

    async def _archive_all(self) -> None:
        for dataset in self._ids.values():
            await self._guests.patiently(partial(self._guests.admin.archive, dataset))
