"""Growing data: versions over HTTP. One budget, people known again, and old versions as they were.

Epsilons are so large here that answers are the exact figures.
"""

from __future__ import annotations

import json
import random
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest

from tests.contract.service import Service, ask, assert_problem, make_key, running, spec, upload

COLUMNS = {
    "day": {"type": "date", "lower": "2024-01-01", "upper": "2025-12-31"},
    "income": {"type": "number", "lower": 0, "upper": 5000},
    "food": {"type": "number", "lower": 0, "upper": 2500},
}
EXACT = "10000"
ROOM = {"columns": COLUMNS, "budget": {"epsilon": "1000000"}}
PRIVATE = {**ROOM, "adjacency": "add_remove", "max_rows": 500}
UNIT = {"column": "person", "max_rows": 3}
COUNT = {"kind": "count"}
SENTINEL = "SENTINELCELL"


def people(seed: int | str, rows: int = 60, year: int = 2024) -> list[str]:
    """Return rows that no other file's people share: the server may know those already."""
    chance = random.Random(f"versions {seed}")
    return [
        f"{year}-{chance.randint(1, 4):02d}-01,"
        f"{chance.uniform(0, 5000):.3f},{chance.uniform(0, 2500):.3f}"
        for _ in range(rows)
    ]


def file_of(rows: list[str], header: str = "day,income,food") -> str:
    return "\n".join([header, *rows, ""])


def visits(rows: dict[str, int], seed: int) -> str:
    """A file with so many rows of each person."""
    chance = random.Random(f"visits {seed}")
    lines = [
        f"{person},2024-01-01,{chance.uniform(0, 5000):.3f},{chance.uniform(0, 2500):.3f}"
        for person, count in rows.items()
        for _ in range(count)
    ]
    return file_of(lines, "person,day,income,food")


def extend(
    client: httpx.Client, dataset: str, rows: str, body: str | None = None, **said: Any
) -> httpx.Response:
    return client.post(
        f"/v1/datasets/{dataset}/versions",
        files={"file": ("rows.csv", rows), "spec": (None, body or json.dumps(said))},
    )


def extended(client: httpx.Client, dataset: str, rows: str, **said: Any) -> dict[str, Any]:
    answer = extend(client, dataset, rows, **said)
    assert answer.status_code == 201, answer.text
    assert answer.headers["Location"] == f"/v1/datasets/{answer.json()['id']}"
    return dict(answer.json())


def value(client: httpx.Client, dataset: str, statistic: Any, **more: Any) -> Any:
    answer = ask(client, dataset, statistic, epsilon=EXACT, **more)
    assert answer.status_code == 201, answer.text
    return answer.json()["value"]


def test_rows_are_added_and_the_version_before_stays(curator: httpx.Client) -> None:
    first = upload(curator, file_of(people(1, 60)), **ROOM, policy={"max_epsilon_per_release": "9"})
    assert (first["version"], first["extends"], first["rows"]) == (1, None, 60)
    edited = {"policy": {"max_epsilon_per_release": None}, "labels": {"income": "a month"}}
    path = f"/v1/datasets/{first['id']}"
    assert curator.patch(path, json={**edited, "reason": "grown"}).status_code == 200
    more = extended(curator, first["id"], file_of(people(2, 40)))
    assert (more["version"], more["extends"], more["rows"]) == (2, first["id"], 100)
    assert more["name"] == f"{first['name']}, version 2"
    assert more["report"]["rows"] == 40
    same = ("account", "adjacency", "max_rows", "unit", "protects", "description")
    now = curator.get(path).json()
    assert {name: more[name] for name in same} == {name: now[name] for name in same}
    assert more["columns"] == now["columns"]
    assert more["columns"]["income"]["label"] == "a month"
    assert more["policy"] == now["policy"]
    third = extended(curator, more["id"], file_of(people(3, 30, 2025)), name=f"grown {uuid4()}")
    assert third["name"].startswith("grown ")
    listed = curator.get(f"{path}/versions").json()
    assert [(each["version"], each["id"], each["rows"]) for each in listed["items"]] == [
        (3, third["id"], 130), (2, more["id"], 100), (1, first["id"], 60)
    ]  # fmt: skip
    page = curator.get(f"/v1/datasets/{third['id']}/versions", params={"limit": 2}).json()
    rest = curator.get(f"{path}/versions", params={"cursor": page["next"]}).json()
    assert [each["version"] for each in page["items"] + rest["items"]] == [3, 2, 1]
    for dataset, rows in ((first["id"], 60), (more["id"], 100), (third["id"], 130)):
        everywhere = {**COUNT, "where": [{"column": "income", "op": ">=", "value": 0}]}
        assert value(curator, dataset, everywhere)["count"] == rows
    assert curator.get("/v1/ledger/verification").json()["ok"]


def test_a_window_by_date_is_a_condition(curator: httpx.Client) -> None:
    """Whole years of a grown data set, for statistics that read sketches, rows and boxes."""
    first = upload(curator, file_of(people(11, 60, 2024)), **ROOM)
    grown = extended(curator, first["id"], file_of(people(12, 40, 2025)))
    window = [
        {"column": "day", "op": ">=", "value": "2025-01-01"},
        {"column": "day", "op": "<=", "value": "2025-12-31"},
    ]
    assert value(curator, grown["id"], {**COUNT, "where": window})["count"] == 40
    assert value(curator, first["id"], {**COUNT, "where": window})["count"] == 0
    incomes = [float(row.split(",")[1]) for row in people(12, 40, 2025)]
    mean = {"kind": "mean", "columns": ["income"], "where": window}
    assert value(curator, grown["id"], mean)["income"] == pytest.approx(sum(incomes) / 40, abs=0.1)


def test_one_budget_for_all_versions(curator: httpx.Client) -> None:
    first = upload(curator, file_of(people(21)), **{**ROOM, "budget": {"epsilon": "1"}})
    assert ask(curator, first["id"], epsilon="0.7").status_code == 201
    grown = extended(curator, first["id"], file_of(people(22)))
    assert grown["budget"]["epsilon"]["remaining"] == "0.3"
    refused = assert_problem(ask(curator, grown["id"], epsilon="0.4"), 409, "budget-exceeded")
    assert refused["remaining"] == "0.3"
    assert ask(curator, grown["id"], epsilon="0.3").status_code == 201
    assert_problem(ask(curator, first["id"], epsilon="0.1"), 409, "budget-exceeded")


def test_a_question_belongs_to_its_version(curator: httpx.Client) -> None:
    """Sent again it is replayed after an extension, and of the new version it is a new question."""
    first = upload(curator, file_of(people(31)), **ROOM)
    before = ask(curator, first["id"], epsilon="0.5", key="of a version")
    grown = extended(curator, first["id"], file_of(people(32)))
    assert ask(curator, first["id"], epsilon="0.5", key="of a version").content == before.content
    other = ask(curator, grown["id"], epsilon="0.5", key="of a version")
    assert_problem(other, 422, "idempotency-key-reused")
    assert ask(curator, grown["id"], epsilon="0.5").json()["dataset"] == grown["id"]


@pytest.mark.slow
def test_people_who_come_again_are_refused(admin: httpx.Client, curator: httpx.Client) -> None:
    rows = people(41)
    first = upload(curator, file_of(rows), **ROOM)
    again = assert_problem(
        extend(curator, first["id"], file_of(rows[:40] + people(42, 20))),
        409,
        "overlapping-dataset",
    )
    assert (again["dataset"], again["account"]) == (first["id"], first["account"])
    grown = extended(curator, first["id"], file_of(people(43)))
    # those of any version, and those of another account
    assert_problem(extend(curator, grown["id"], file_of(rows)), 409, "overlapping-dataset")
    assert_problem(extend(curator, grown["id"], file_of(people(43))), 409, "overlapping-dataset")
    stranger = upload(curator, file_of(people(44)), **ROOM)
    other = assert_problem(
        extend(curator, grown["id"], file_of(people(44))), 409, "overlapping-dataset"
    )
    assert other["account"] == stranger["account"]
    reason = {"reason": "copied by mistake, and harmless"}
    assert_problem(extend(curator, grown["id"], file_of(rows), overlap=reason), 403, "forbidden")
    assert extended(admin, grown["id"], file_of(rows), overlap=reason)["rows"] == 180
    # and whoever brings them elsewhere is told of the version that they came with
    elsewhere = curator.post(
        "/v1/datasets",
        files={"file": ("r.csv", file_of(people(43))), "spec": (None, json.dumps(spec(**ROOM)))},
    )
    assert assert_problem(elsewhere, 409, "overlapping-dataset")["dataset"] == grown["id"]


@pytest.mark.wide
def test_a_cap_of_rows_holds_over_versions(curator: httpx.Client) -> None:
    """Of 3 rows each, whatever the files: 2, then 2 more of which 1 stays, then none."""
    known = {f"P{number}": 2 for number in range(30)}
    first = upload(curator, visits(known, 1), **PRIVATE, unit=UNIT)
    second = extended(curator, first["id"], visits({**known, "new": 5}, 2), max_rows=200)
    assert (second["rows"], second["max_rows"]) == (None, 700)
    third = extended(
        curator, second["id"], visits({**known, "new": 1, "newest": 1}, 3), max_rows=1000
    )
    assert third["max_rows"] == 1700
    counts = [value(curator, each["id"], COUNT)["count"] for each in (first, second, third)]
    assert counts == [60, 93, 94]
    # what the sender of a file is told follows from that file alone
    assert second["report"]["people"]["rows_left_out"] == 2
    assert third["report"]["people"]["rows_left_out"] == 0


@pytest.mark.slow
def test_what_cannot_be_promised_is_refused(curator: httpx.Client) -> None:
    reduced = upload(
        curator, visits({"a": 9, "b": 30}, 4), **PRIVATE,
        unit={"column": "person", "reduce": {"income": "sum"}},
    )  # fmt: skip
    refused = extend(curator, reduced["id"], visits({"c": 30}, 5), max_rows=10)
    assert_problem(refused, 409, "not-extendable")
    bounded = upload(curator, file_of(people(51)), **PRIVATE)
    assert_problem(extend(curator, bounded["id"], file_of(people(52))), 422, "invalid-request")
    many = extend(curator, bounded["id"], file_of(people(52)), max_rows=59)
    assert_problem(many, 422, "invalid-upload")
    plain = upload(curator, file_of(people(53)), **ROOM)
    assert_problem(
        extend(curator, plain["id"], file_of(people(54)), max_rows=60), 422, "invalid-request"
    )
    assert_problem(extend(curator, "ds_none", file_of(people(54))), 404, "not-found")
    unknown = extend(curator, plain["id"], file_of(people(54)), budget={"epsilon": "1"})
    assert_problem(unknown, 422, "invalid-request")
    long = upload(curator, file_of(people(55)), **ROOM, name="n" * 95)
    assert_problem(extend(curator, long["id"], file_of(people(56))), 422, "invalid-request")
    assert extended(curator, long["id"], file_of(people(56)), name=str(uuid4()))["version"] == 2


@pytest.mark.slow
def test_nothing_of_a_refused_file_is_told_or_left(curator: httpx.Client, service: Service) -> None:
    first = upload(curator, file_of(people(61)), **ROOM)
    before = sorted(each.name for each in (service.data_dir / "datasets").iterdir())
    refused = extend(curator, first["id"], file_of([*people(62), f"2024-01-01,{SENTINEL},1"]))
    assert_problem(refused, 422, "invalid-upload")
    assert SENTINEL not in refused.text
    assert sorted(each.name for each in (service.data_dir / "datasets").iterdir()) == before
    assert list((service.data_dir / "staging").iterdir()) == []
    assert value(curator, first["id"], {"kind": "mean", "columns": ["income"]})


def test_versions_follow_one_another(curator: httpx.Client) -> None:
    """Of extensions of one version that come at once exactly one is taken in."""
    first = upload(curator, file_of(people(71)), **ROOM)
    with ThreadPoolExecutor(3) as pool:
        sent = pool.map(
            lambda seed: extend(curator, first["id"], file_of(people(seed))),
            (72, 73, 74),
        )
    answers = sorted(sent, key=lambda answer: answer.status_code)
    assert [answer.status_code for answer in answers] == [201, 409, 409]
    newer = answers[0].json()["id"]
    for answer in answers[1:]:
        assert assert_problem(answer, 409, "newer-version")["newer"] == newer
    another = extend(curator, first["id"], file_of(people(75)), name=str(uuid4()))
    assert_problem(another, 409, "newer-version")
    listed = curator.get(f"/v1/datasets/{first['id']}/versions").json()["items"]
    assert [each["id"] for each in listed] == [newer, first["id"]]


@pytest.mark.slow
def test_releases_while_a_data_set_grows(curator: httpx.Client) -> None:
    first = upload(curator, file_of(people(81)), **ROOM)
    with ThreadPoolExecutor(3) as pool:
        growing = pool.submit(extended, curator, first["id"], file_of(people(82)))
        answers = [pool.submit(ask, curator, first["id"]) for _ in range(8)]
        assert {answer.result().status_code for answer in answers} == {201}
    assert growing.result()["rows"] == 120
    assert curator.get("/v1/ledger/verification").json()["ok"]


@pytest.mark.wide
def test_archiving_archives_every_version(curator: httpx.Client, service: Service) -> None:
    first = upload(curator, file_of(people(91)), **ROOM)
    second = extended(curator, first["id"], file_of(people(92)))
    third = extended(curator, second["id"], file_of(people(93)))
    versions = [first["id"], second["id"], third["id"]]
    assert curator.post(f"/v1/datasets/{second['id']}/archive").status_code == 200
    for dataset in versions:
        assert curator.get(f"/v1/datasets/{dataset}").json()["status"] == "archived"
        assert_problem(ask(curator, dataset), 409, "dataset-archived")
        assert not (service.data_dir / "datasets" / dataset).exists()
    assert_problem(extend(curator, third["id"], file_of(people(94))), 409, "dataset-archived")
    assert_problem(curator.post("/v1/datasets/ds_none/archive"), 404, "not-found")


def test_an_analyst_reads_versions_and_adds_none(
    admin: httpx.Client, curator: httpx.Client
) -> None:
    first = upload(curator, file_of(people(95)), **ROOM)
    analyst = {"Authorization": f"Bearer {make_key(admin, 'analyst')['secret']}"}
    path = f"/v1/datasets/{first['id']}/versions"
    reported = curator.get(path, headers=analyst)
    assert [each["version"] for each in reported.json()["items"]] == [1]
    sent = curator.post(path, headers=analyst, files={"file": ("r.csv", "x"), "spec": (None, "{}")})
    assert_problem(sent, 403, "forbidden")
    assert_problem(curator.get("/v1/datasets/ds_none/versions"), 404, "not-found")


@pytest.mark.slow
def test_a_source_extends_too(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (root / "one.csv").write_text(file_of(people(96)))
    (root / "two.csv").write_text(file_of(people(97)))
    running_here = running(tmp_path / "data", source_roots=f"file://{root}")
    with running_here as service, service.client() as admin:
        body = {**spec(**ROOM), "source": f"file://{root}/one.csv"}
        first = admin.post("/v1/datasets", json=body).json()
        path = f"/v1/datasets/{first['id']}/versions"
        more = admin.post(path, json={"source": f"file://{root}/two.csv"})
        assert (more.status_code, more.json().get("rows")) == (201, 120), more.text
        refused = admin.post(path, json={"source": "file:///etc/passwd"})
        assert_problem(refused, 422, "invalid-request")
