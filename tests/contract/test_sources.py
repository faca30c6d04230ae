"""Data sets registered by URL: the same as by upload, from below the allowed roots alone."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import polars as pl
import pytest

from app.vault.vault import ATTACHED, MANIFEST
from tests.contract.service import (
    MEAN,
    ROWS,
    Service,
    ask,
    assert_problem,
    make_key,
    running,
    spec,
    upload,
)

SENTINEL = "sentinel5520193847"
HEADER, *LINES = ROWS.splitlines(keepends=True)


@pytest.fixture(scope="module")
def lying(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder that sources may lie in."""
    return tmp_path_factory.mktemp("lying")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, lying: Path) -> Iterator[Service]:
    roots = f"file://{lying}/people, file://{lying}/others"
    (lying / "people").mkdir()
    (lying / "others").mkdir()
    data = tmp_path_factory.mktemp("service") / "data"
    with running(data, source_roots=roots, max_source_files=3, max_source_bytes=10_000) as found:
        yield found


@pytest.fixture(scope="module")
def curator(server: Service) -> Iterator[httpx.Client]:
    with server.client() as admin, server.client(make_key(admin, "curator")["secret"]) as client:
        yield client


@pytest.fixture
def people(lying: Path, request: pytest.FixtureRequest) -> Path:
    """Return a folder below a root, the test's own."""
    folder = lying / "people" / str(abs(hash(request.node.name)))
    folder.mkdir()
    return folder


def register(client: httpx.Client, url: object, **changes: Any) -> httpx.Response:
    """Register what lies at a URL. What other tests have registered is other people's."""
    return client.post("/v1/datasets", json=spec(**changes) | {"source": url})


def registered(client: httpx.Client, url: str, **changes: Any) -> dict[str, Any]:
    answer = register(client, url, **changes)
    assert answer.status_code == 201, answer.text
    return dict(answer.json())


def source_fault(answer: httpx.Response) -> str:
    """Return what is said of the source, of which nothing is repeated."""
    body = assert_problem(answer, 422, "invalid-request")
    assert SENTINEL not in answer.text
    ((fault),) = body["errors"]
    assert fault["field"] == "source"
    return str(fault["message"])


def stored(server: Service, dataset: str) -> tuple[dict[str, Any], dict[str, bytes]]:
    """Return a data set's manifest, and its other files."""
    folder = server.data_dir / "datasets" / dataset
    files = {path.name: path.read_bytes() for path in folder.iterdir()}
    digests = {p.name: p.read_bytes() for p in (server.data_dir / "lineage").glob(f"{dataset}*")}
    assert digests
    manifest = json.loads(files.pop(MANIFEST))
    assert manifest.pop("id") == dataset
    return manifest, files | {name.replace(dataset, ""): body for name, body in digests.items()}


def test_what_is_stored_is_that_of_an_upload(
    server: Service, curator: httpx.Client, people: Path
) -> None:
    (people / "rows.csv").write_text(ROWS)
    one = upload(curator, ROWS)
    other = registered(curator, f"file://{people}/rows.csv", account=one["account"], budget=None)
    assert one["report"] == other["report"]
    assert (one["rows"], other["rows"]) == (40, 40)
    manifest, files = stored(server, one["id"])
    again, same = stored(server, other["id"])
    assert files.keys() >= {"part-00000.parquet", ATTACHED}
    assert files == same
    told = again["facts"].pop("source")
    assert manifest == again
    ((note),) = told.pop("files")
    assert told == {"url": f"file://{people}/rows.csv", "mode": "copy"}
    assert note["bytes"] == len(ROWS)
    ask_ = ask(curator, other["id"], MEAN)
    assert ask_.status_code == 201
