"""A restored database on a real server: frozen, then reconciled from the command line.

Of SQLite files that a person puts back, and of PostgreSQL with its anchor in a second database.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from click.testing import CliRunner, Result

from app.cli import main
from app.store.anchor.standing import Standing
from tests.app.homes import Home, home_on
from tests.e2e.live import LiveServer, release_mean, upload

pytestmark = pytest.mark.slow

COLUMNS = {"income": {"type": "number", "lower": 0, "upper": 100}}
ROWS = "income\n" + "\n".join(str(value % 100) for value in range(200)) + "\n"
OTHERS = "income\n" + "\n".join(f"{value * 0.317 % 100:.3f}" for value in range(200)) + "\n"


@pytest.fixture
def server(tmp_path: Path) -> LiveServer:
    return LiveServer(tmp_path / "data")


def command(server: LiveServer, *words: str, said: str | None = None) -> Result:
    return CliRunner(env=server.environment).invoke(main, words, input=said)


def ask(client: httpx.Client, dataset: str, key: str) -> httpx.Response:
    return release_mean(client, dataset, column="income", epsilon="1", key=key)


def spent(client: httpx.Client, dataset: str) -> object:
    return client.get(f"/v1/datasets/{dataset}/budget").json()["epsilon"]["spent"]


def restore(server: LiveServer, backup: Path | None) -> None:
    """Put a backup in the database's place as a person would, or nothing."""
    database = server.data_dir / "release-desk.db"
    for suffix in ("", "-wal", "-shm"):
        Path(f"{database}{suffix}").unlink(missing_ok=True)
    if backup is not None:
        database.write_bytes(backup.read_bytes())


def logged(server: LiveServer, event: str) -> dict[str, Any]:
    """Return the last line of an event in the server's log."""
    lines = (each for each in server.log.read_text().splitlines() if each.startswith("{"))
    return [line for line in map(json.loads, lines) if line["event"] == event][-1]


def assert_frozen(server: LiveServer, dataset: str | None) -> None:
    """Reads are answered, writes are not, and no rows go."""
    stored = sorted((server.data_dir / "datasets").iterdir())
    server.start(ready=503)
    answer = httpx.get(f"{server.url}/readyz")
    assert answer.json()["code"] == "ledger-frozen"
    assert httpx.get(f"{server.url}/livez").status_code == 200
    if dataset is not None:
        with server.client() as client:
            (fault,) = client.get("/v1/ledger/verification").json()["faults"]
            assert fault.startswith("the anchor: ")
            assert client.get(f"/v1/datasets/{dataset}").status_code == 200
            new = client.post("/v1/keys", json={"name": "new", "role": "analyst"})
            answers = (ask(client, dataset, "first"), ask(client, dataset, "new"), new)
            assert [(a.status_code, a.json()["code"]) for a in answers] == [
                (503, "ledger-frozen")
            ] * 3
    server.stop()
    assert sorted((server.data_dir / "datasets").iterdir()) == stored


def test_a_restored_backup_is_frozen_until_it_is_reconciled(
    server: LiveServer, tmp_path: Path
) -> None:
    with server, server.client() as client:
        assert httpx.get(f"{server.url}/readyz").json() == {
            "status": "ready",
            "anchor": "directory",
            "anchor_shares_device": True,
            "replica": "off",
        }
        dataset = upload(client, ROWS, COLUMNS, budget={"epsilon": "10"})["id"]
        first = ask(client, dataset, "first")
        assert command(server, "backup", str(tmp_path / "backup")).exit_code == 0
        others = upload(client, OTHERS, COLUMNS, budget={"epsilon": "1"})
        forgotten, account = others["id"], others["account"]
        assert ask(client, dataset, "second").status_code == 201
        assert ask(client, forgotten, "third").status_code == 201
        assert command(server, "ledger", "reconcile", "--yes").exit_code == 1, "a server runs"
    restore(server, tmp_path / "backup")
    assert_frozen(server, dataset)
    refused = command(server, "ledger", "reconcile", said="n\n")
    assert refused.exit_code == 1
    assert "it lacks what the anchor knows of" in refused.output
    assert f"{account}: 1 epsilon will be burned" in refused.output
    assert f"data set {forgotten} of {account} is forgotten" in refused.output
    assert_frozen(server, dataset)
    assert command(server, "ledger", "reconcile", said="y\n").exit_code == 0
    with server, server.client() as client:
        assert spent(client, dataset) == "2"
        assert client.get("/v1/ledger/verification").json()["ok"] is True
        assert ask(client, dataset, "first").content == first.content
        assert ask(client, dataset, "second").status_code == 201
        assert spent(client, dataset) == "3"
        assert client.get(f"/v1/datasets/{forgotten}").status_code == 404
        (aside,) = (server.data_dir / "stale").iterdir()
        assert aside.name.startswith(forgotten)
        assert logged(server, "the ledger is frozen")["reason"] == Standing.OLDER
        moved = "a data set is not in the database: its rows are now in stale"
        assert logged(server, moved)["dataset"] == forgotten
        # its people are not: they come back to what they have spent
        with pytest.raises(AssertionError, match=rf'overlapping-dataset.*"account":"{account}"'):
            upload(client, OTHERS, COLUMNS)
        back = upload(client, OTHERS, COLUMNS, account=account, budget=None)
        assert back["account"] == account
        assert spent(client, back["id"]) == "1"
        assert ask(client, back["id"], "fourth").json()["code"] == "budget-exceeded"
        again = client.get("/v1/ledger/verification").json()
        assert again["ok"] is True
    assert command(server, "audit", "verify").exit_code == 0


@pytest.mark.wide
def test_a_deleted_database_is_frozen(server: LiveServer, tmp_path: Path) -> None:
    with server, server.client() as client:
        upload(client, ROWS, COLUMNS)
    restore(server, None)
    assert_frozen(server, None)


@pytest.mark.wide
def test_a_deleted_anchor_is_frozen(server: LiveServer, tmp_path: Path) -> None:
    with server, server.client() as client:
        dataset = upload(client, ROWS, COLUMNS)["id"]
        ask(client, dataset, "first")
    for file in (tmp_path / "data-anchor").iterdir():
        file.unlink()
    (tmp_path / "data-anchor").rmdir()
    assert_frozen(server, dataset)
    done = command(server, "ledger", "reconcile", "--yes")
    assert "nothing is known" in done.output
    assert done.exit_code == 0
    with server, server.client() as client:
        assert ask(client, dataset, "first").status_code == 201
        assert spent(client, dataset) == "1"


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    with home_on("postgres", tmp_path / "data") as home:
        yield home


@pytest.fixture
def shared(home: Home) -> LiveServer:
    """A server on PostgreSQL."""
    return LiveServer(
        home.directory, RELEASE_DESK_DATABASE_URL=home.url, RELEASE_DESK_ANCHOR_URL=home.anchor_url
    )


@pytest.mark.postgres
def test_an_older_database_on_postgresql_is_reconciled(home: Home, shared: LiveServer) -> None:
    with shared, shared.client() as client:
        assert httpx.get(f"{shared.url}/readyz").json()["anchor"] == "database"
        dataset = upload(client, ROWS, COLUMNS, budget={"epsilon": "10"})
        name, account = dataset["id"], dataset["account"]
        first = ask(client, name, "first")
        saved = home.save()
        assert ask(client, name, "second").status_code == 201
        assert ask(client, name, "third").status_code == 201
        refused = command(shared, "ledger", "reconcile", "--yes")
        assert (refused.exit_code, "a server is running here" in refused.output) == (1, True)
    home.put_back(saved)
    assert_frozen(shared, name)
    found = command(shared, "audit", "verify")
    assert (found.exit_code, "the anchor: " in found.output) == (1, True)
    refused = command(shared, "ledger", "reconcile", said="n\n")
    assert refused.exit_code == 1
    assert "it lacks what the anchor knows of" in refused.output
    assert f"account {account}: 2 epsilon will be burned" in refused.output
    assert command(shared, "ledger", "reconcile", said="y\n").exit_code == 0
    with shared, shared.client() as client:
        assert spent(client, name) == "3"
        assert ask(client, name, "first").content == first.content
        assert ask(client, name, "second").status_code == 201
        assert spent(client, name) == "4"
    assert command(shared, "audit", "verify").exit_code == 0


@pytest.mark.postgres
@pytest.mark.wide
def test_a_deleted_database_on_postgresql_is_reconciled(home: Home, shared: LiveServer) -> None:
    with shared, shared.client() as client:
        dataset = upload(client, ROWS, COLUMNS, budget={"epsilon": "10"})
        assert ask(client, dataset["id"], "first").status_code == 201
    home.remove()
    assert_frozen(shared, None)
    done = command(shared, "ledger", "reconcile", "--yes")
    assert done.exit_code == 0, done.output
    assert Standing.FOREIGN in done.output
    assert f"account {dataset['account']}: 1 epsilon will be burned" in done.output
    assert f"data set {dataset['id']} of {dataset['account']} is forgotten" in done.output
    with shared, shared.client() as client:
        with pytest.raises(AssertionError, match="overlapping-dataset"):
            upload(client, ROWS, COLUMNS)
        back = upload(client, ROWS, COLUMNS, account=dataset["account"], budget=None)
        assert ask(client, back["id"], "again").json()["code"] == "budget-exceeded"
    assert command(shared, "audit", "verify").exit_code == 0
