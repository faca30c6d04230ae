"""Calculations that outlast the request for them: made once, reported on, and kept for a while."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from app.domain.problems import Problem, ProcessLostError, invalid_request
from app.services.plans.lanes import OnProgress, ProcessLane
from app.services.releases import derivations
from app.services.releases.derivations import Calculations, UnfinishedError
from app.uploads.storing import Stop
from app.vault import stored
from app.vault.stored import CalculatedFiles

KEY = "a" * 64


class Calculator:
    """Calculates in a thread, when it is let go."""

    def __init__(self) -> None:
        self.go_on = threading.Event()
        self.begun = 0
        self.on_progress: OnProgress = lambda _: None

    def run(
        self,
        function: Callable[..., Any],
        *arguments: Any,
        stop: Stop,
        seconds: float,
        urgent: bool,
        on_progress: OnProgress | None = None,
    ) -> Any:
        """Wait, as for a process."""
        del seconds, urgent
        assert on_progress is not None
        self.begun += 1
        self.on_progress = on_progress
        gone = threading.Event()
        with stop.ends(gone.set):
            while not self.go_on.wait(0.01):
                if gone.is_set():
                    raise ProcessLostError
        return function(*arguments)

    def start(self) -> None:
        """There is nothing to load."""

    def is_ready(self) -> bool:
        """There is nothing to load."""
        return True

    def close(self) -> None:
        """Do nothing."""


def answer(*, refused: str = "") -> bytes:
    """Return two lines, or refuse."""
    if refused == "busy":
        raise Problem("busy")
    if refused:
        raise invalid_request("statistic", refused)
    return b'{"text":\n"x"}'


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(derivations, "AGAIN_S", 0.05)


def made_in(folder: Path) -> tuple[Calculator, Calculations]:
    calculator = Calculator()
    lane = ProcessLane(calculator, most=2, seconds=60)
    return calculator, Calculations(lane, CalculatedFiles(folder))


async def result(calculations: Calculations, refused: str = "", key: str = KEY) -> bytes:
    """Ask again until it is there."""
    for _ in range(1_000):
        try:
            return await calculations.result(key, _asked, refused, person="ada")
        except UnfinishedError:
            await asyncio.sleep(0.01)
    raise AssertionError("it has not ended")


def _asked(refused: str) -> bytes:
    return answer(refused=refused)


def test_it_goes_on_and_says_how_far_it_is_in_every_process(tmp_path: Path) -> None:
    async def scenario() -> None:
        calculator, calculations = made_in(tmp_path)
        another, elsewhere = made_in(tmp_path)
        with pytest.raises(UnfinishedError) as first:
            await calculations.result(KEY, _asked, "", person="ada")
        assert first.value.share == 0.0
        calculator.on_progress(0.25)
        with pytest.raises(UnfinishedError) as later:
            await calculations.result(KEY, _asked, "", person="ada")
        assert later.value.share == 0.25
        await asyncio.sleep(1.2)
        with pytest.raises(UnfinishedError) as there:
            await elsewhere.result(KEY, _asked, "", person="bob")
        assert there.value.share == 0.25
        calculator.go_on.set()
        assert await result(calculations) == answer()
        assert await result(elsewhere) == answer(), "it is kept"
        assert (calculator.begun, another.begun) == (1, 0)

    asyncio.run(scenario())


def test_what_is_done_in_time_is_answered_at_once(tmp_path: Path) -> None:
    async def scenario() -> None:
        calculator, calculations = made_in(tmp_path)
        calculator.go_on.set()
        assert await calculations.result(KEY, _asked, "", person="ada") == answer()

    asyncio.run(scenario())


def test_a_refusal_is_kept_and_a_full_queue_is_not(tmp_path: Path) -> None:
    async def scenario() -> None:
        calculator, calculations = made_in(tmp_path)
        calculator.go_on.set()
        for _ in range(2):
            with pytest.raises(Problem) as refused:
                await result(calculations, "has no such column")
            assert refused.value.extras == invalid_request("statistic", "has no such column").extras
        assert calculator.begun == 1
        for _ in range(2):
            with pytest.raises(Problem, match="busy"):
                await result(calculations, "busy", "b" * 64)
        assert calculator.begun == 3

    asyncio.run(scenario())


def test_no_person_fills_the_queue_of_another(tmp_path: Path) -> None:
    async def scenario() -> None:
        calculator, calculations = made_in(tmp_path)
        for key in ("a", "b"):
            with pytest.raises(UnfinishedError):
                await calculations.result(key, _asked, "", person="ada")
        with pytest.raises(Problem, match="busy"):
            await calculations.result("c", _asked, "", person="ada")
        with pytest.raises(UnfinishedError):
            await calculations.result("c", _asked, "", person="bob")
        calculator.go_on.set()
        for key in ("a", "b", "c"):
            assert await result(calculations, key=key) == answer()

    asyncio.run(scenario())


def test_a_server_that_ends_leaves_it_to_the_next_process(tmp_path: Path) -> None:
    async def scenario() -> None:
        calculator, calculations = made_in(tmp_path)
        with pytest.raises(UnfinishedError):
            await calculations.result(KEY, _asked, "", person="ada")
        await calculations.close()
        another, elsewhere = made_in(tmp_path)
        another.go_on.set()
        assert await elsewhere.result(KEY, _asked, "", person="ada") == answer()
        assert (calculator.begun, another.begun) == (1, 1)

    asyncio.run(scenario())


def test_one_whose_process_has_died_is_made_again(tmp_path: Path) -> None:
    """It says nothing any more, and is taken for gone."""

    async def scenario() -> None:
        files = CalculatedFiles(tmp_path)
        files.say(KEY, 0.5)
        another, elsewhere = made_in(tmp_path)
        another.go_on.set()
        with pytest.raises(UnfinishedError):
            await elsewhere.result(KEY, _asked, "", person="ada")
        os.utime(tmp_path / "calculated" / f"{KEY}.share", (0, 0))
        assert await elsewhere.result(KEY, _asked, "", person="ada") == answer()

    asyncio.run(scenario())


def test_a_failure_is_heard_by_who_asks_next_and_then_forgotten(tmp_path: Path) -> None:
    async def scenario() -> None:
        calculator, calculations = made_in(tmp_path)
        calculator.go_on.set()

        with pytest.raises(ZeroDivisionError):
            await calculations.result(KEY, _failed, person="ada")
        assert await result(calculations) == answer()

    asyncio.run(scenario())


def _failed() -> bytes:
    raise ZeroDivisionError


def test_outcomes_are_kept_for_a_while_and_not_too_many(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stored, "MOST_KEPT", 3)
    files = CalculatedFiles(tmp_path)
    for place in range(5):
        files.put(str(place), b"x" * place)
        since = time.time() - 100 + place
        os.utime(tmp_path / "calculated" / str(place), (since, since))
    assert [files.read(str(place)) for place in range(5)] == [None, None, b"xx", b"xxx", b"xxxx"]
    since = time.time() - stored.KEPT_S - 1
    os.utime(tmp_path / "calculated" / "4", (since, since))
    files.put("5", b"")
    assert [files.read(str(place)) for place in range(2, 5)] == [b"xx", b"xxx", None]
    assert (tmp_path / "calculated").stat().st_mode & 0o777 == 0o700
