"""An analyst's script: pyright knows the types of its answers, and a service answers it."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import httpx

from app.client import AsyncDesk, Release, ReleaseDesk
from tests.contract import typed_client
from tests.contract.service import Service, make_key, upload
from tests.documents import ROOT

WRONG = """
from typing import assert_type

from app.client import Preview, ReleaseDesk


def wrong(desk: ReleaseDesk) -> None:
    assert_type(desk.dataset("wages").mean("income", epsilon="1"), Preview)
    desk.dataset("wages").mean("income")
"""


def test_pyright_knows_what_the_client_returns(tmp_path: Path) -> None:
    right, wrong = Path(typed_client.__file__), tmp_path / "wrong.py"
    wrong.write_text(WRONG)
    command = [sys.executable, "-m", "basedpyright", "--pythonpath", sys.executable]
    options = ["--outputjson", "--level", "error"]
    done = subprocess.run(
        [*command, *options, right, wrong], cwd=ROOT, capture_output=True, text=True, check=False
    )
    report = json.loads(done.stdout)
    assert report["summary"]["filesAnalyzed"] == 2
    found = [
        (Path(each["file"]).name, each["range"]["start"]["line"] + 1, each["rule"])
        for each in report["generalDiagnostics"]
    ]
    assert found == [
        (wrong.name, 8, "reportAssertTypeFailure"),
        (wrong.name, 9, "reportCallIssue"),
    ], done.stdout


def test_the_script_runs(service: Service, admin: httpx.Client, curator: httpx.Client) -> None:
    name = upload(curator, budget={"epsilon": "100"})["name"]
    analyst, reader = (str(make_key(admin, role)["secret"]) for role in ("analyst", "curator"))

    async def at_once() -> Release:
        async with AsyncDesk(service.url, analyst) as desk:
            return await typed_client.at_once(desk, name)

    with ReleaseDesk(service.url, analyst) as desk:
        assert typed_client.analyse(desk, name).status == "released"
        assert desk.dataset(name).mean("income", epsilon="0.1").id == asyncio.run(at_once()).id
    with ReleaseDesk(service.url, reader) as desk:
        typed_client.look(desk, name)
