"""What a killed server leaves of an upload is removed: at the start, and by time."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest

from app.domain.problems import Problem
from app.services.build import Services
from app.services.datasets.unfinished import UnfinishedUploads
from app.store import Store, UnitOfWork
from app.store.reconciliation import Forgotten, record_forgotten
from app.vault.lineage import LineageFiles
from tests.app.killed_uploads import BEFORE, kill, serving, upload
from tests.app.ledgers import Place, place_on
from tests.speed import slowness

POLL_S = 0.05


def left(directory: Path) -> list[str]:
    """Return what there is of any upload; the index of many has a folder of its own."""
    places = ("staging/*", "datasets/*", "stale/*", "lineage/*")
    found = (path for place in places for path in directory.glob(place))
    return sorted(path.name for path in found if path.name not in ("index", "key"))


def under_way(store: Store) -> int:
    with store.reading() as reader:
        return len(reader.uploads.under_way())


async def until_nothing_is_left(place: Place, store: Store) -> None:
    while left(place.directory) or under_way(store):  # an upload is struck out last
        await asyncio.sleep(POLL_S)


@pytest.mark.wide
def test_a_start_clears_away_what_a_kill_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And a start that does not, its twin, leaves digests of people whom no one knows of."""
    place = Place(tmp_path, f"sqlite:///{tmp_path / 'ledger.sqlite'}")
    kill(place, "kept")

    async def twin() -> None:
        async with serving(tmp_path, place.url) as (store, _):
            assert under_way(store) == 1
            assert [name for name in left(tmp_path) if name.endswith(".digests")]

    async def scenario() -> None:
        async with serving(tmp_path, place.url) as (store, services):
            # the twin has moved the rows aside, as those of an older database
            assert under_way(store) == 0
            assert not [name for name in left(tmp_path) if "." in name]
            dataset = await upload(services)
            names = {name.partition(".")[0] for name in left(tmp_path) if "-" not in name}
            assert (names, under_way(store)) == ({dataset}, 0)
            # they are known again
            with pytest.raises(Problem, match="overlapping-dataset"):
                await upload(services, "another name")

    with monkeypatch.context() as patched:
        patched.setattr(UnfinishedUploads, "clear_all", lambda _: None)
        asyncio.run(twin())
    asyncio.run(scenario())


@pytest.mark.parametrize(
    "kills",
    [
        pytest.param(8, marks=pytest.mark.slow),
        pytest.param(50, marks=[pytest.mark.long, pytest.mark.timeout(3600)]),
    ],
)
@pytest.mark.parametrize(
    "backend", ["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)]
)
def test_after_many_kills_nothing_is_left(tmp_path: Path, backend: str, kills: int) -> None:
    """Wherever they hit: before every step, and at random moments."""
    chance = random.Random(17)
    with place_on(backend, tmp_path) as place:
        whole_s = kill(place, "60", 1)
        assert whole_s is not None
        moments = [f"{whole_s * chance.random():.4f}" for _ in range(kills - len(BEFORE))]
        for people, point in enumerate([*BEFORE, *moments], start=2):
            kill(place, point, people)

        async def scenario() -> None:
            async with serving(tmp_path, place.url) as (store, services):
                names = {name.partition(".")[0] for name in left(tmp_path)}
                known = services.datasets.ids()
                assert names == known
                assert under_way(store) == 0
                names.add(await upload(services))
                assert {name.partition(".")[0] for name in left(tmp_path)} == names

        asyncio.run(scenario())


@pytest.mark.slow
@pytest.mark.postgres
def test_a_living_server_clears_away_what_a_dead_one_left(tmp_path: Path) -> None:
    """Once its lease has ended, and not before."""
    with place_on("postgres", tmp_path) as place:

        async def scenario() -> None:
            async with serving(tmp_path, place.url) as (store, living):
                await asyncio.to_thread(kill, place, "kept")
                assert left(tmp_path)
                clearing = asyncio.create_task(_keep_clearing(living))
                await asyncio.wait_for(until_nothing_is_left(place, store), 10 * slowness())
                clearing.cancel()
                assert under_way(store) == 0
                await upload(living)

        asyncio.run(scenario())


def test_a_note_written_by_hand_removes_no_file(tmp_path: Path) -> None:
    """A name that is a path or a pattern would reach the digests of every data set."""
    directory = tmp_path / "data"
    directory.mkdir()

    async def scenario() -> None:
        async with serving(directory, f"sqlite:///{directory / 'ledger.sqlite'}") as (store, all_):
            await upload(all_)
            held = sorted(tmp_path.rglob("*"))
            for name in ("*", "../lineage"):
                store.write(lambda work, of=name: work.uploads.begin(of, worker="w_gone"))
            all_.unfinished.clear()
            assert under_way(store) == 0
            files = [each for each in held if "-wal" not in each.name and "-shm" not in each.name]
            assert all(each.exists() for each in files)

    asyncio.run(scenario())


async def _keep_clearing(services: Services) -> None:
    while True:
        await asyncio.to_thread(services.unfinished.clear)
        await asyncio.sleep(POLL_S)


@pytest.mark.postgres
def test_one_who_was_thought_dead_registers_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor is anything of a living server's upload touched."""
    with place_on("postgres", tmp_path) as place:

        async def scenario() -> None:
            async with (
                serving(tmp_path, place.url) as (_, one),
                serving(tmp_path, place.url) as (store, other),
            ):
                kept, go = asyncio.Event(), asyncio.Event()
                keep, loop = LineageFiles.keep, asyncio.get_running_loop()

                def paused(*arguments: object) -> str:
                    found: str = keep(*arguments)  # type: ignore[arg-type]
                    loop.call_soon_threadsafe(kept.set)
                    asyncio.run_coroutine_threadsafe(go.wait(), loop).result()
                    return found

                with monkeypatch.context() as patched:
                    patched.setattr(LineageFiles, "keep", paused)
                    uploading = asyncio.create_task(upload(one))
                    await kept.wait()
                before = left(tmp_path)
                await asyncio.to_thread(other.unfinished.clear)
                await asyncio.to_thread(one.unfinished.clear)
                assert left(tmp_path) == before
                assert len(before) == 3

                await one.lease.end()
                await asyncio.to_thread(other.unfinished.clear)
                assert (left(tmp_path), under_way(store)) == ([], 0)
                go.set()
                with pytest.raises(Problem, match="busy"):
                    await uploading
                assert other.datasets.ids() == frozenset()
                assert left(tmp_path) == []
                await upload(other)

        asyncio.run(scenario())


def test_what_a_reconciliation_knows_is_not_cleared_away(tmp_path: Path) -> None:
    """An older database may hold an upload under way that was registered later."""
    place = Place(tmp_path, f"sqlite:///{tmp_path / 'ledger.sqlite'}")

    async def scenario() -> None:
        async with serving(tmp_path, place.url) as (store, services):
            dataset = await upload(services)
            files = LineageFiles(tmp_path)
            origin, sha256 = files.origin(dataset), files.sha256_of(dataset)
            assert origin is not None

            def forgotten(work: UnitOfWork) -> None:
                record_forgotten(work, (Forgotten(dataset=dataset, sha256=sha256, origin=origin),))
                work.uploads.begin(dataset, worker="wrk_gone")

            store.write(forgotten)
            before = left(tmp_path)
            await asyncio.to_thread(services.unfinished.clear)
            assert (left(tmp_path), under_way(store)) == (before, 0)

    asyncio.run(scenario())
