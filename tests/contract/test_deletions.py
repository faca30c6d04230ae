"""Data sets without releases: deleted and replaced, their people come again; the ledger says so."""

from __future__ import annotations

import json
import random
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from app.client import ReleaseDesk
from tests.contract.service import Service, ask, assert_problem, send_upload, spec, upload
from tests.contract.test_versions import COLUMNS, extend, extended, file_of, people

ROOM: dict[str, Any] = {"columns": COLUMNS, "budget": {"epsilon": "3"}}


def delete(client: httpx.Client, dataset: str) -> httpx.Response:
    return client.delete(f"/v1/datasets/{dataset}")


def new(client: httpx.Client, seed: str, **changes: Any) -> tuple[dict[str, Any], str]:
    """Upload people of their own, and return the data set and its file."""
    rows = file_of(people(seed))
    return upload(client, rows, **{**ROOM, **changes}), rows


def kinds(client: httpx.Client, dataset: str) -> list[str]:
    items = client.get(f"/v1/datasets/{dataset}/ledger").json()["items"]
    return [each["kind"] for each in items]


def assert_verified(client: httpx.Client) -> None:
    assert client.get("/v1/ledger/verification").json()["ok"] is True


def test_a_deleted_data_set_leaves_its_people_free_and_its_ledger(
    curator: httpx.Client, analyst: httpx.Client, service: Service
) -> None:
    found, rows = new(curator, "deleted")
    dataset, body = found["id"], spec(**ROOM)
    lineage = service.data_dir / "lineage"
    assert [*lineage.glob(f"{dataset}.*")]
    assert_problem(send_upload(curator, rows, body), 409, "overlapping-dataset")
    assert_problem(delete(analyst, dataset), 403, "forbidden")
    for _ in range(2):  # the second time nothing changes
        gone = delete(curator, dataset)
        assert (gone.status_code, gone.json()["status"]) == (200, "deleted")
        assert kinds(curator, dataset) == ["open", "expire"]
    assert not (service.data_dir / "datasets" / dataset).exists()
    assert not [*lineage.glob(f"{dataset}.*")]
    left = curator.get(f"/v1/datasets/{dataset}/budget").json()["epsilon"]
    assert left == {"total": "0", "spent": "0", "reserved": "0", "remaining": "0"}
    assert_problem(ask(curator, dataset), 409, "dataset-archived")
    grant = {"epsilon": "1", "reason": "for whom?"}
    refused = curator.post(f"/v1/datasets/{dataset}/grants", json=grant)
    assert_problem(refused, 409, "dataset-archived")
    assert_problem(curator.post(f"/v1/datasets/{dataset}/archive"), 409, "dataset-archived")
    shared = {**ROOM, "budget": None, "account": found["account"]}
    reported = assert_problem(send_upload(curator, rows, spec(**shared)), 422, "invalid-request")
    assert "is closed" in str(reported["errors"])
    again = upload(curator, rows, **ROOM, name=found["name"])
    assert again["account"] != found["account"]
    assert again["budget"]["epsilon"]["remaining"] == "3"
    assert ask(curator, again["id"]).status_code == 201
    assert_verified(curator)


@pytest.mark.parametrize("first", ["release", "reservation", "withdrawn reservation"])
def test_after_the_first_release_or_reservation_it_is_refused(
    curator: httpx.Client, first: str
) -> None:
    policy = {"review": "never" if first == "release" else "always"}
    found, _ = new(curator, first, policy=policy)
    release = ask(curator, found["id"]).json()["id"]
    if first.startswith("withdrawn"):
        path = f"/v1/releases/{release}/withdrawal"
        done = curator.post(path, headers={"If-Match": "*"}, json={})
        assert done.status_code == 200, done.text
    assert_problem(delete(curator, found["id"]), 409, "dataset-has-releases")
    body = spec(**ROOM, replaces=found["id"])
    rows = file_of(people(f"instead of {first}"))
    assert_problem(send_upload(curator, rows, body), 409, "dataset-has-releases")
    assert curator.get(f"/v1/datasets/{found['id']}").json()["status"] == "active"
    assert curator.get(f"/v1/datasets/{found['id']}/budget").json()["epsilon"]["total"] == "3"


def test_a_data_set_is_replaced_in_one_step(curator: httpx.Client) -> None:
    wrong, rows = new(curator, "replaced")
    body = spec(**{**ROOM, "budget": {"epsilon": "2"}}, name=wrong["name"], replaces=wrong["id"])
    answer = send_upload(curator, rows, body)
    assert answer.status_code == 201, answer.text
    assert answer.json()["budget"]["epsilon"]["total"] == "2"
    assert curator.get(f"/v1/datasets/{wrong['id']}").json()["status"] == "deleted"
    assert kinds(curator, wrong["id"]) == ["open", "expire"]
    again = spec(**ROOM, replaces=wrong["id"])
    assert_problem(send_upload(curator, rows, again), 422, "invalid-request")
    assert_problem(send_upload(curator, rows, spec(**ROOM, replaces="ds_0")), 422)
    assert_verified(curator)


def test_an_account_that_others_share_stays_open(curator: httpx.Client) -> None:
    first, rows = new(curator, "shared")
    other = upload(curator, rows, **{**ROOM, "budget": None}, account=first["account"])
    assert delete(curator, first["id"]).status_code == 200
    assert kinds(curator, other["id"]) == ["open"]
    assert ask(curator, other["id"]).status_code == 201
    curator.post(f"/v1/datasets/{other['id']}/archive")
    assert_problem(delete(curator, other["id"]), 409, "dataset-has-releases")
    assert_verified(curator)


def test_an_archived_one_may_be_deleted_and_a_grant_may_end_later(curator: httpx.Client) -> None:
    found, rows = new(curator, "archived first")
    grant = {"epsilon": "1", "reason": "a while", "expires": "2999-01-01T00:00:00Z"}
    assert curator.post(f"/v1/datasets/{found['id']}/grants", json=grant).status_code == 201
    assert curator.post(f"/v1/datasets/{found['id']}/archive").status_code == 200
    assert delete(curator, found["id"]).json()["status"] == "deleted"
    assert kinds(curator, found["id"]) == ["open", "grant", "expire"]
    upload(curator, rows, **ROOM)
    assert_verified(curator)


def test_the_newest_version_is_deleted_first_and_rows_are_added_again(
    curator: httpx.Client,
) -> None:
    first, _ = new(curator, "versions")
    more = file_of(people("more"))
    second = extended(curator, first["id"], more)
    reported = assert_problem(delete(curator, first["id"]), 409, "newer-version")
    assert reported["newer"] == second["id"]
    assert delete(curator, second["id"]).status_code == 200
    assert kinds(curator, first["id"]) == ["open"]
    third = extended(curator, first["id"], more)
    assert (third["version"], third["extends"]) == (3, first["id"])
    listed = curator.get(f"/v1/datasets/{first['id']}/versions").json()["items"]
    assert [each["version"] for each in listed] == [3, 1]
    assert_problem(extend(curator, second["id"], more), 409, "dataset-archived")
    assert delete(curator, third["id"]).status_code == 200
    assert delete(curator, first["id"]).status_code == 200
    assert kinds(curator, first["id"]) == ["open", "expire"]
    assert_verified(curator)


def test_a_release_at_the_same_time_wins_or_loses(curator: httpx.Client) -> None:
    chance = random.Random("races")
    with ThreadPoolExecutor(4) as pool:
        for number in range(8):
            found, _ = new(curator, f"race {number}")
            calls = [lambda found=found: ask(curator, found["id"]) for _ in range(3)]
            calls.insert(chance.randrange(4), lambda found=found: delete(curator, found["id"]))
            answers = [each.result() for each in [pool.submit(call) for call in calls]]
            deleted = curator.get(f"/v1/datasets/{found['id']}").json()["status"] == "deleted"
            statuses = sorted(each.status_code for each in answers)
            released = curator.get("/v1/releases", params={"limit": 200}).json()["items"]
            assert deleted == (statuses == [200, 409, 409, 409]), statuses
            assert deleted != any(each["dataset"] == found["id"] for each in released)
    assert_verified(curator)


def test_the_python_client_deletes_and_replaces(
    curator: httpx.Client, service: Service, tmp_path: Any
) -> None:
    found, rows = new(curator, "python")
    file = tmp_path / "rows.csv"
    file.write_text(rows)
    key = curator.headers["Authorization"].removeprefix("Bearer ")
    with ReleaseDesk(service.url, key) as desk:
        reported = json.loads(json.dumps(spec(**ROOM, name=found["name"])))
        replaced = desk.replace(found["id"], file, reported)
        assert desk.dataset(found["id"]).status == "deleted"
        assert desk.dataset(found["name"]).id == replaced.id
        assert desk.check(file, {}, extends=replaced)["rows"] == 60
        assert desk.delete(replaced).status == "deleted"
        assert desk.check(file, reported)["columns"]["income"]["values"] == 60


def test_a_file_is_checked_before_it_is_uploaded_or_added(
    curator: httpx.Client, service: Service
) -> None:
    """The report of the check is that of the upload, and nothing is kept of it."""
    found, _ = new(curator, "checked first")
    body = json.dumps(spec(**ROOM, name="never there"))
    before = curator.get("/v1/ledger/verification").json()["entries"]
    stored = {path.name for path in (service.data_dir / "datasets").iterdir()}
    clamped = file_of(["2024-01-01,9000,1"] * 40)
    sent = {
        "/v1/datasets": {"file": ("rows.csv", clamped), "spec": (None, body)},
        f"/v1/datasets/{found['id']}/versions": {
            "file": ("rows.csv", clamped), "spec": (None, "{}"),
        },
    }  # fmt: skip
    for path, files in sent.items():
        answer = curator.post(path, params={"check": "true"}, files=files)
        assert answer.status_code == 200, answer.text
        assert answer.json().keys() == {"report"}
        assert answer.json()["report"]["columns"]["income"]["clamped_high"] == 40
        assert answer.json()["report"]["warnings"][0]["column"] == "income"
    assert {path.name for path in (service.data_dir / "datasets").iterdir()} == stored
    assert curator.get("/v1/ledger/verification").json()["entries"] == before
    wrong = {"file": ("rows.csv", "income\n1\n"), "spec": (None, body)}
    refused = curator.post("/v1/datasets", params={"check": "true"}, files=wrong)
    assert_problem(refused, 422, "invalid-upload")
    gone = delete(curator, found["id"])
    assert gone.status_code == 200
    path = f"/v1/datasets/{found['id']}/versions"
    late = curator.post(path, params={"check": "true"}, files=sent[path])
    assert_problem(late, 409, "dataset-archived")
