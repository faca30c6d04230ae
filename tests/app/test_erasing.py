"""Letting go of erased data: what fails for one data set holds up no other, and is tried again."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from app.services.datasets import erasing
from app.services.datasets.erasing import ErasingService
from tests.speed import PATIENCE_S

BROKEN = "ds_broken"


class Plane:
    """Data of which one set cannot be erased."""

    def __init__(self) -> None:
        self.tried: list[str] = []

    def erase(self, dataset: str) -> None:
        self.tried.append(dataset)
        if dataset == BROKEN:
            raise PermissionError


def test_one_that_fails_holds_up_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    plane, store = Plane(), SimpleNamespace(shared=True)
    service = ErasingService(store, plane, plane)  # type: ignore[arg-type]
    others = [f"ds_{number}" for number in range(5)]
    monkeypatch.setattr(erasing, "LOOK_EVERY_S", 0.001)
    monkeypatch.setattr(service, "_found", lambda: frozenset({BROKEN, *others}))

    async def scenario() -> None:
        keeping: asyncio.Task[Any] = asyncio.ensure_future(service.keep_erasing())
        async with asyncio.timeout(PATIENCE_S):
            while plane.tried.count(BROKEN) < 3:
                await asyncio.sleep(0.001)
        keeping.cancel()

    asyncio.run(scenario())
    assert sorted(each for each in plane.tried if each != BROKEN) == others
