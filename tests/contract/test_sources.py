"""Data sets registered by URL: the same as by upload, from below the allowed roots alone."""

from __future__ import annotations

import asyncio
import hashlib
import json
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import polars as pl
import pytest

from app.client import AsyncDesk, ReleaseDesk
from app.client.questions import far_of
from app.vault.vault import ATTACHED, MANIFEST
from tests.app.object_store import KEY_ID, SECRET, etag, object_store
from tests.app.terminals import looked_at, until_told
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
from tests.speed import PATIENCE_S

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
    reported = again["facts"].pop("source")
    assert manifest == again
    ((note),) = reported.pop("files")
    assert reported == {"url": f"file://{people}/rows.csv", "mode": "copy"}
    assert note["bytes"] == len(ROWS)
    ask_ = ask(curator, other["id"], MEAN)
    assert ask_.status_code == 201


def test_many_files_are_one_table(server: Service, curator: httpx.Client, people: Path) -> None:
    halves = {"a.csv": LINES[:15], "b.csv": LINES[15:]}
    for name, lines in halves.items():
        (people / name).write_text(HEADER + "".join(lines))
    (people / "_SUCCESS").touch()
    one = upload(curator, ROWS)
    account = {"account": one["account"], "budget": None}
    other = registered(curator, f"file://{people}/*.csv", **account)
    assert other["report"] == one["report"]
    assert stored(server, other["id"])[1] == stored(server, one["id"])[1]
    notes = stored(server, other["id"])[0]["facts"]["source"]["files"]
    assert [note["path"].rpartition("/")[2] for note in notes] == ["a.csv", "b.csv"]


@pytest.mark.parametrize("left_out", [["region"], []], ids=["by folders alone", "in files too"])
def test_folders_are_columns_where_such_are_declared(
    server: Service, curator: httpx.Client, people: Path, left_out: list[str]
) -> None:
    frame = pl.read_csv(ROWS.encode())
    one = upload(curator, frame.sort("region").write_csv())
    account = {"account": one["account"], "budget": None}
    for kind in ("csv", "parquet"):
        for (region,), rows in frame.group_by("region"):
            folder = people / kind / f"region={region}" / "year=2024"
            folder.mkdir(parents=True)
            getattr(rows.drop(left_out), f"write_{kind}")(folder / f"rows.{kind}")
        other = registered(curator, f"file://{people}/{kind}/**/*.{kind}", **account)
        assert other["report"] == one["report"]
        parts = [stored(server, each)[1]["part-00000.parquet"] for each in (one["id"], other["id"])]
        assert parts[0] == parts[1]


def test_parquet_is_read_as_from_an_upload(
    server: Service, curator: httpx.Client, people: Path
) -> None:
    pl.read_csv(ROWS.encode()).write_parquet(people / "rows.parquet", row_group_size=7)
    one = upload(curator, (people / "rows.parquet").read_bytes())
    other = registered(
        curator, f"file://{people}/rows.parquet", account=one["account"], budget=None
    )
    assert stored(server, other["id"])[1] == stored(server, one["id"])[1]


@pytest.mark.parametrize(
    "url",
    [
        "file:///etc/passwd",
        f"file:///{SENTINEL}/x.csv",
        "http://127.0.0.1:1/x.csv",
        "s3://people/x.csv",
    ],
)
def test_nothing_but_the_roots_is_reached(curator: httpx.Client, url: str) -> None:
    source_fault(register(curator, url))


def test_a_root_is_a_folder_and_not_the_beginning_of_a_name(
    curator: httpx.Client, lying: Path, people: Path
) -> None:
    (lying / "people2").mkdir()
    (lying / "people2" / "rows.csv").write_text(ROWS)
    (people / "link.csv").symlink_to(lying / "people2" / "rows.csv")
    (people / "link").symlink_to(lying / "people2")
    source_fault(register(curator, f"file://{lying}/people2/rows.csv"))
    for way in ("/../people2/rows.csv", "/%2e%2e/people2/rows.csv", "//rows.csv"):
        source_fault(register(curator, f"file://{people}{way}"))
    for way in ("/link.csv", "/link/rows.csv", "/*/rows.csv", "/*.csv", "/none.csv"):
        body = assert_problem(register(curator, f"file://{people}{way}"), 422, "source-unreadable")
        assert str(lying) not in body["detail"]


def test_what_is_wrong_with_one_of_many_files_is_told_by_its_number(
    curator: httpx.Client, people: Path
) -> None:
    (people / f"{SENTINEL}1.csv").write_text(ROWS)
    (people / f"{SENTINEL}2.csv").write_text(HEADER + LINES[0] + f"{SENTINEL},1,north,true\n")
    answer = register(curator, f"file://{people}/*.csv")
    body = assert_problem(answer, 422, "invalid-upload")
    place = {"column": "income", "count": 1, "rows": [2]}
    assert body["problems"] == [
        {"reason": "not a number", "count": 1, "rows": [2], "columns": [place], "file": 2}
    ]
    assert SENTINEL not in answer.text


def test_files_of_several_kinds_are_refused(curator: httpx.Client, people: Path) -> None:
    (people / "1").write_text(ROWS)
    for other in ("food,income,region,owner\n1,2,north,true\n", "x," + HEADER):
        (people / "2").write_text(other)
        body = assert_problem(register(curator, f"file://{people}/*"), 422, "invalid-upload")
        ((reported),) = body["problems"]
        assert (reported["file"], reported["rows"]) == (2, [])
        assert reported["reason"].startswith("the file has other columns than the first one")
    pl.read_csv(ROWS.encode()).write_parquet(people / "2")
    assert_problem(register(curator, f"file://{people}/*"), 422, "invalid-upload")


def test_parquet_files_may_differ_in_the_widths_of_types(
    curator: httpx.Client, server: Service, people: Path
) -> None:
    rows = pl.read_csv(ROWS.encode())
    half = rows.height // 2
    one = upload(curator, ROWS)
    account = {"account": one["account"], "budget": None}
    rows.head(half).write_parquet(people / "1")
    narrow = {"income": pl.Int32, "food": pl.Float32, "region": pl.Categorical}
    rows.tail(half).cast(narrow).write_parquet(people / "2")
    other = registered(curator, f"file://{people}/*", **account)
    parts = [stored(server, each["id"])[1] for each in (one, other)]
    assert parts[0]["part-00000.parquet"] == parts[1]["part-00000.parquet"]
    rows.tail(half).cast({"food": pl.String}).write_parquet(people / "2")
    body = assert_problem(register(curator, f"file://{people}/*", **account), 422, "invalid-upload")
    ((reported),) = body["problems"]
    assert (reported["file"], reported["rows"]) == (2, [])
    assert [each["column"] for each in reported["columns"]] == ["food"]
    assert reported["reason"].startswith("has another kind of type than in the first file")
    for number, kind in (("1", pl.Int64), ("2", pl.String)):
        more = rows.head(half).with_columns(pl.lit(1).cast(kind).alias(SENTINEL))
        more.write_parquet(people / number)
    refused = register(curator, f"file://{people}/*", **account)
    assert "other columns than the first one" in refused.text
    assert SENTINEL not in refused.text


def test_sources_have_bounds(curator: httpx.Client, people: Path) -> None:
    (people / "large.csv").write_text(ROWS + "1,1,north,true\n" * 700)
    reported = assert_problem(register(curator, f"file://{people}/*.csv"), 413, "too-large")
    assert (reported["limit"], reported["maximum"]) == ("max_source_bytes", 10_000)
    for number in range(4):
        (people / f"{number}.csv").write_text(ROWS)
    reported = assert_problem(register(curator, f"file://{people}/*.csv"), 413, "too-large")
    assert (reported["limit"], reported["maximum"]) == ("max_source_files", 3)


def test_what_is_refused_leaves_nothing(
    server: Service, curator: httpx.Client, people: Path
) -> None:
    def left() -> set[Path]:
        return {
            p for p in server.data_dir.rglob("*") if p.is_file() and "release-desk" not in p.name
        }

    before = left()
    assert_problem(register(curator, f"file://{people}/none.csv"), 422, "source-unreadable")
    assert left() == before


def test_the_form_is_strict(server: Service, curator: httpx.Client) -> None:
    assert_problem(curator.post("/v1/datasets", json=spec()), 422, "invalid-request")
    assert_problem(register(curator, 7), 422, "invalid-request")
    body = assert_problem(register(curator, "file:///x/y", columns={}), 422, "invalid-request")
    assert body["errors"][0]["field"] == "columns"
    with server.client() as admin, server.client(make_key(admin, "analyst")["secret"]) as analyst:
        assert_problem(register(analyst, "file:///x/y"), 403, "forbidden")


def test_without_roots_there_are_only_uploads(tmp_path: Path) -> None:
    with running(tmp_path / "data") as server, server.client() as admin:
        reported = source_fault(register(admin, "file:///srv/people/x.csv"))
        assert "is off on this service" in reported
        assert upload(admin)["rows"] == 40


@pytest.mark.slow
def test_objects_in_a_store_are_taken_in_as_files_are(tmp_path: Path) -> None:
    with object_store() as store:
        table = pl.read_csv(ROWS.encode())
        table.drop("region").write_parquet(tmp_path / "rows.parquet")
        for (region,), rows in table.group_by("region"):
            rows.drop("region").write_parquet(tmp_path / "part.parquet")
            name = f"figures/people/region={region}/part.parquet"
            store.objects[name] = (tmp_path / "part.parquet").read_bytes()
        store.objects["figures/people/all.csv"] = ROWS.encode()
        settings = {
            "source_roots": "s3://figures/people",
            "s3_endpoint": store.url,
            "s3_access_key_id": KEY_ID,
            "s3_secret_access_key": SECRET,
        }
        with running(tmp_path / "data", **settings) as server, server.client() as admin:
            one = upload(admin, table.sort("region").write_csv())
            account = {"account": one["account"], "budget": None}
            for url in ("s3://figures/people/all.csv", "s3://figures/people/*/*.parquet"):
                other = registered(admin, url, **account)
                assert other["report"] == one["report"]
                notes = stored(server, other["id"])[0]["facts"]["source"]["files"]
                for note in notes:
                    content = store.objects[f"figures/people/{note['path']}"]
                    assert note["bytes"] == len(content)
                    assert note["etag"] == etag(content)
                    assert note["sha256"] == hashlib.sha256(content).hexdigest()
            parts = [stored(server, each)[1] for each in (one["id"], other["id"])]
            assert parts[0]["part-00000.parquet"] == parts[1]["part-00000.parquet"]
            source_fault(register(admin, "s3://figures/other/all.csv"))
            reported = register(admin, "s3://figures/people/none.csv", **account)
            assert_problem(reported, 422, "source-unreadable")
            assert SECRET not in reported.text


@pytest.mark.wide
def test_how_far_a_source_is_read_is_told_to_who_registers_it_alone(tmp_path: Path) -> None:
    """The second of two files is held back until the bytes of the first one have been told."""
    lines = "".join(LINES) * 1_500
    rows, size = 1_500 * len(LINES), len(HEADER + lines)
    url, held = "s3://figures/*.csv", threading.Event()
    with object_store() as store, looked_at() as terminal:
        for name in ("a", "b"):
            store.objects[f"figures/{name}.csv"] = (HEADER + lines).encode()

        def hold(method: str, name: str) -> None:
            if (method, name) == ("GET", "figures/b.csv"):
                assert held.wait(PATIENCE_S)

        store.meanwhile = hold
        settings = {
            "source_roots": "s3://figures",
            "s3_endpoint": store.url,
            "s3_access_key_id": KEY_ID,
            "s3_secret_access_key": SECRET,
        }
        with (
            running(tmp_path / "data", **settings) as server,
            server.client() as admin,
            ThreadPoolExecutor(1) as thread,
            held_by(held),
        ):
            key, other = (make_key(admin, "curator")["secret"] for _ in range(2))
            reported = spec() | {"source": url}
            with server.client(key) as own, server.client(other) as stranger:
                named = {"Reading": "mine 1"}
                sent = thread.submit(own.post, "/v1/datasets", json=reported, headers=named)
                far = {"reading": "mine 1", "rows": rows, "bytes": size, "of_bytes": 2 * size}
                # A block comes in several messages; progress is not reported after each one.
                (seen,) = until_some(own)
                assert seen == far | {"rows": seen["rows"]}
                assert 0 < seen["rows"] <= rows
                assert readings(stranger) == readings(admin) == []
                held.set()
                assert sent.result().status_code == 201
                assert readings(own) == []
                assert not [*server.data_dir.glob("*/*/*.progress")]
                twice = [("Reading", "one"), ("Reading", "two")]
                refused = own.post("/v1/datasets", json=reported, headers=twice)
                assert_problem(refused, 422, "invalid-request")
            again = {"account": sent.result().json()["account"], "budget": None}
            for registered in (registered_by_client, registered_by_async_client):
                held.clear()
                terminal.truncate(0)
                seen = thread.submit(registered, server.url, key, url, spec(**again))
                until_told(terminal, f"the service reads {url}: {far_of(size, 2 * size)}, ")
                held.set()
                assert seen.result() == 2 * rows


@contextmanager
def held_by(event: threading.Event) -> Iterator[None]:
    """Let go of what an event holds, however the block ends."""
    try:
        yield
    finally:
        event.set()


def readings(client: httpx.Client) -> list[dict[str, Any]]:
    return list(client.get("/v1/readings").raise_for_status().json()["items"])


def until_some(client: httpx.Client) -> list[dict[str, Any]]:
    deadline = time.monotonic() + PATIENCE_S
    while not (found := readings(client)):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return found


def registered_by_client(url: str, key: str, source: str, reported: dict[str, Any]) -> int | None:
    with ReleaseDesk(url, key) as desk:
        return desk.register(source, reported).rows


def registered_by_async_client(
    url: str, key: str, source: str, reported: dict[str, Any]
) -> int | None:
    async def scenario() -> int | None:
        async with AsyncDesk(url, key) as desk:
            return (await desk.register(source, reported)).rows

    return asyncio.run(scenario())
