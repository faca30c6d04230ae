"""The runbook is a test: docs/operations/backup.md backs up and restores a real service."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from time import sleep

import httpx
import pytest

from app.client import check_receipt
from tests.app.ledgers import place_on
from tests.documents import documents
from tests.e2e.live import LiveServer, release_mean, upload
from tests.e2e.test_documents import checkout, environment

pytestmark = pytest.mark.slow

PAGES = documents()
BLOCKS = [block.text for block in PAGES["docs/operations/backup.md"].blocks]
(ROTATE,) = (
    block.text for block in PAGES["docs/operations/README.md"].blocks if "--person" in block.text
)
LATE = "x\n" + "".join(f"{value * 0.00317 % 1:.5f}\n" for value in range(200))
COLUMNS = {"x": {"type": "number", "lower": 0, "upper": 1}}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Return a directory with the command where a checkout has it."""
    return checkout(tmp_path)


def run(block: str, project: Path, url: str, **settings: str) -> str:
    """Run one block of the runbook and return what it printed."""
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", block],
        cwd=project,
        env=environment(project, url, **settings),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


def ask(client: httpx.Client, dataset: str, key: str) -> httpx.Response:
    return release_mean(client, dataset, column="x", epsilon="1", key=key)


def check_receipts(client: httpx.Client, *, known: bytes, forgotten: bytes) -> None:
    """Check two receipts offline, and ask the service, which lacks the second one's entry."""
    keys = client.get("/v1/ledger/public-keys").content
    found = []
    for answer in (known, forgotten):
        assert check_receipt(answer, keys).release == json.loads(answer)["id"]
        headers = {"Content-Type": "application/json"}
        judged = client.post("/v1/ledger/receipts", content=answer, headers=headers)
        assert judged.status_code == 200, judged.text
        found.append(judged.json())
    names = ("ok", "signature", "sent", "entry", "stored", "forgotten")
    assert [[each[name] for name in names] for each in found] == [
        [True, True, True, True, True, False],
        [False, True, True, False, False, True],
    ]


def test_the_runbook(project: Path) -> None:
    back_up, restore, _, _ = BLOCKS
    with LiveServer(project / "data") as server, server.client() as admin:
        body = {"name": "Ada", "role": "analyst"}
        ada = admin.post("/v1/keys", json=body).json()
        printed = run(ROTATE, project, server.url)
        assert "Ada, new laptop" in printed
        with server.client(printed.splitlines()[1]) as new, server.client(ada["secret"]) as old:
            dataset = upload(admin, "x\n" + "1\n0\n" * 50, COLUMNS)["id"]
            first = ask(old, dataset, "before the backup")
            assert ask(new, dataset, "before the backup").content == first.content
        assert "ok" in run(back_up, project, server.url)
        sleep(1.1)  # backups are named by the second
        assert "ok" in run(back_up, project, server.url)  # the next night
        assert len([*(project / "backup").iterdir()]) == 2
        after = ask(admin, dataset, "after the backup")
        assert after.status_code == 201
        late = upload(admin, LATE, COLUMNS, budget={"epsilon": "1"})
        assert ask(admin, late["id"], "all of it").status_code == 201
    assert "INVALID" not in run(restore, project, server.url)
    with LiveServer(project / "data") as server, server.client() as admin:
        assert httpx.get(f"{server.url}/readyz").status_code == 200
        with server.client(ada["secret"]) as old:
            assert ask(old, dataset, "before the backup").content == first.content
        # the answer after the backup is known to somebody: its epsilon stays spent
        budget = admin.get(f"/v1/datasets/{dataset}/budget").json()["epsilon"]
        assert budget["spent"] == "2"
        check_receipts(admin, known=first.content, forgotten=after.content)
        assert ask(admin, dataset, "a new question").status_code == 201
        # and people who came after the backup have no second budget
        with pytest.raises(AssertionError, match="overlapping-dataset"):
            upload(admin, LATE, COLUMNS)
        back = upload(admin, LATE, COLUMNS, account=late["account"], budget=None)
        assert back["budget"]["epsilon"]["remaining"] == "0"


@pytest.fixture
def on_postgresql(project: Path) -> Iterator[dict[str, str]]:
    """Give the settings of a ledger on PostgreSQL, and of an anchor in another database."""
    from tests.app.postgres import databases

    with place_on("postgres", project / "data") as place:
        anchor = databases().url(databases().empty())
        yield {"RELEASE_DESK_DATABASE_URL": place.url, "RELEASE_DESK_ANCHOR_URL": anchor}


@pytest.mark.postgres
@pytest.mark.wide
def test_the_runbook_on_postgresql(project: Path, on_postgresql: dict[str, str]) -> None:
    from tests.app.postgres import databases

    _, _, back_up, restore = BLOCKS
    tools = {"PATH": f"{databases().tools()}:{os.environ['PATH']}", **on_postgresql}
    with LiveServer(project / "data", **on_postgresql) as server, server.client() as admin:
        assert httpx.get(f"{server.url}/readyz").json()["anchor"] == "database"
        dataset = upload(admin, "x\n" + "1\n0\n" * 50, COLUMNS)["id"]
        first = ask(admin, dataset, "before the backup")
        assert "ok" in run(back_up, project, server.url, **tools)
        after = ask(admin, dataset, "after the backup")
        late = upload(admin, LATE, COLUMNS, budget={"epsilon": "1"})
        assert ask(admin, late["id"], "all of it").status_code == 201
    printed = run(restore, project, server.url, **tools)
    assert "it lacks what the anchor knows of" in printed
    assert "INVALID" not in printed
    with LiveServer(project / "data", **on_postgresql) as server, server.client() as admin:
        assert ask(admin, dataset, "before the backup").content == first.content
        check_receipts(admin, known=first.content, forgotten=after.content)
        budget = admin.get(f"/v1/datasets/{dataset}/budget").json()["epsilon"]
        assert budget["spent"] == "2"
        with pytest.raises(AssertionError, match="overlapping-dataset"):
            upload(admin, LATE, COLUMNS)
        back = upload(admin, LATE, COLUMNS, account=late["account"], budget=None)
        assert back["budget"]["epsilon"]["remaining"] == "0"
        assert admin.get("/v1/ledger/verification").json()["ok"]
