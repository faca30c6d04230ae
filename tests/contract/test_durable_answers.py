"""No answer before its flush, and none that a full disk could not keep, on the whole service."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, MutableMapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from app.services import health
from app.settings import Settings
from app.store import inspecting
from tests.app.disk import Tape, image, recorded
from tests.contract import service
from tests.contract.service import Service, ask, assert_problem, running, upload

Message = MutableMapping[str, Any]


@contextmanager
def on_tape(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rewrite: Callable[[str], str] = str
) -> Iterator[tuple[Tape, Service]]:
    """A service whose disk remembers; the moment each 201 begins to leave is on the tape too."""
    create = service.create_app

    def noting(settings: Settings) -> Any:
        app: FastAPI = create(settings)

        async def wrapped(scope: Any, receive: Any, send: Any) -> None:
            async def noted(message: Message) -> None:
                if message.get("status") == 201 and scope["path"].endswith("/releases"):
                    keys = dict(scope["headers"])
                    tape.acknowledge(keys[b"idempotency-key"].decode())
                await send(message)

            await app(scope, receive, noted)

        return wrapped

    monkeypatch.setattr(service, "create_app", noting)
    with recorded(rewrite=rewrite) as tape, running(tmp_path / "data") as server:
        yield tape, server


def answers_on_disk(directory: Path) -> set[bytes]:
    with inspecting(f"sqlite:///{directory}/data/release-desk.db") as reader:
        return {release.result or b"" for release in reader.releases.list(limit=1000)}


def check_every_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rewrite: Callable[[str], str] = str
) -> None:
    """Cut the power as each answer begins to leave; what it says is on the disk."""
    with on_tape(tmp_path, monkeypatch, rewrite) as (tape, server), server.client() as client:
        dataset = upload(client)["id"]
        with ThreadPoolExecutor(4) as pool:
            keys = [f"key-{number}" for number in range(12)]
            answers = list(pool.map(lambda key: ask(client, dataset, key=key), keys))
        bodies = {key: answer.content for key, answer in zip(keys, answers, strict=True)}
        assert [answer.status_code for answer in answers] == [201] * len(keys)
        events = tuple(tape.events)
    moments = [(number, e.path) for number, e in enumerate(events) if e.kind == "ack"]
    assert sorted(key for _, key in moments) == sorted(keys)
    for number, key in moments:
        cut = tmp_path / f"cut {number}"
        image(events[:number], tmp_path, cut, fate="dropped", rng=random.Random(1))
        assert bodies[key] in answers_on_disk(cut), "an answer left before it was flushed"


def test_no_answer_before_its_flush(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check_every_answer(tmp_path, monkeypatch)


def test_answers_before_their_flush_are_found_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def weaker(sql: str) -> str:
        if sql == "PRAGMA synchronous":
            return "SELECT 2"
        return sql.replace("PRAGMA synchronous = FULL", "PRAGMA synchronous = NORMAL")

    with pytest.raises(AssertionError, match="before it was flushed"):
        check_every_answer(tmp_path, monkeypatch, weaker)


@pytest.mark.parametrize("error", ["ENOSPC", "EIO"])
def test_no_answer_from_a_disk_that_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: str
) -> None:
    with on_tape(tmp_path, monkeypatch) as (tape, server), server.client() as client:
        dataset = upload(client)["id"]
        assert ask(client, dataset, key="before").status_code == 201
        tape.operations, tape.fail_at, tape.fail_for, tape.error = 0, 0, float("inf"), error
        for _ in range(2):
            assert_problem(ask(client, dataset, key="meanwhile"), 500, "internal")
        assert_problem(httpx.get(f"{server.url}/readyz"), 503, "not-ready")
        assert client.get(f"/v1/datasets/{dataset}").status_code == 200, "reads go on"
        assert ask(client, dataset, key="before").status_code == 201, "and what is kept is told"
        tape.fail_at = None
        assert ask(client, dataset, key="meanwhile").status_code == 201
        assert httpx.get(f"{server.url}/readyz").status_code == 200
        assert client.get("/v1/ledger/verification").json()["ok"] is True


def test_a_disk_that_is_filling_up_is_not_ready(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running(tmp_path / "data") as server:
        assert httpx.get(f"{server.url}/readyz").status_code == 200
        monkeypatch.setattr(health, "MIN_FREE_BYTES", 1 << 62)
        body = assert_problem(httpx.get(f"{server.url}/readyz"), 503, "not-ready")
        assert body["detail"] == "A disk is full."


def test_another_schema_is_not_ready(tmp_path: Path) -> None:
    import sqlite3

    with running(tmp_path / "data") as server:
        with sqlite3.connect(tmp_path / "data" / "release-desk.db") as raw:
            raw.execute("UPDATE alembic_version SET version_num = '0001'")
        raw.close()
        body = assert_problem(httpx.get(f"{server.url}/readyz"), 503, "not-ready")
        assert "schema" in body["detail"]
