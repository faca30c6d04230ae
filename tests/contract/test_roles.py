"""The life of keys, and what they open. Who may call what is in ``test_role_matrix``."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import datetime
from typing import Any

import httpx
import pytest

from tests.contract.service import (
    MEAN,
    Service,
    ask,
    assert_problem,
    in_time,
    make_key,
    send_upload,
    sleep_until,
    upload,
)


def test_foreign_and_unknown_releases_look_the_same(
    service: Service, admin: httpx.Client, analyst: httpx.Client, dataset: str
) -> None:
    foreign = ask(admin, dataset).json()["id"]
    bodies: list[dict[str, Any]] = []
    for release in (foreign, "rel_" + "0" * 32):
        body = assert_problem(analyst.get(f"/v1/releases/{release}"), 404, "not-found")
        bodies.append({key: value for key, value in body.items() if key != "request_id"})
    assert bodies[0] == bodies[1]
    assert foreign not in analyst.get("/v1/releases").text
    with service.client(make_key(admin, "curator")["secret"]) as curator:
        assert foreign in curator.get("/v1/releases").text


def test_a_secret_is_shown_once_and_kept_as_a_hash(service: Service, admin: httpx.Client) -> None:
    made = make_key(admin, "analyst")
    prefix, _, text = made["secret"].partition("_")
    assert prefix == "rd"
    assert len(base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)) >= 32
    assert made["secret"] not in admin.get("/v1/keys").text
    for path in service.data_dir.glob("*.db*"):
        assert made["secret"].encode() not in path.read_bytes()


def test_a_revoked_key_is_refused_at_once(service: Service, admin: httpx.Client) -> None:
    made = make_key(admin, "analyst")
    with service.client(made["secret"]) as client:
        assert client.get("/v1/datasets").status_code == 200
        assert admin.delete(f"/v1/keys/{made['id']}").status_code == 204
        assert_problem(client.get("/v1/datasets"), 401, "unauthorized")
    assert admin.delete(f"/v1/keys/{made['id']}").status_code == 204
    listed = {key["id"]: key for key in admin.get("/v1/keys").json()["items"]}
    assert listed[made["id"]]["revoked_at"]


def test_a_key_expires_by_itself(service: Service, admin: httpx.Client) -> None:
    def used(soon: datetime) -> str:
        body = {"name": "brief", "role": "analyst", "expires": soon.isoformat()}
        made = admin.post("/v1/keys", json=body)
        assert made.status_code == 201
        assert datetime.fromisoformat(made.json()["expires"]) == soon
        with service.client(made.json()["secret"]) as client:
            assert client.get("/v1/datasets").status_code == 200
        return str(made.json()["secret"])

    secret, end = in_time(used)
    sleep_until(end)
    with service.client(secret) as client:
        assert_problem(client.get("/v1/datasets"), 401, "unauthorized")


def test_keys_of_one_name_are_one_person(
    service: Service, admin: httpx.Client, dataset: str
) -> None:
    first, second = (make_key(admin, "analyst", "ada of the tests") for _ in range(2))
    with service.client(first["secret"]) as old, service.client(second["secret"]) as new:
        answer = ask(old, dataset, key="rotation")
        assert ask(new, dataset, key="rotation").content == answer.content
        assert new.get(f"/v1/releases/{answer.json()['id']}").status_code == 200


@pytest.fixture
def by_role(service: Service, admin: httpx.Client) -> Iterator[Callable[[str], httpx.Client]]:
    with ExitStack() as held:
        yield lambda role: held.enter_context(service.client(make_key(admin, role)["secret"]))


def test_a_reviewer_decides_and_does_nothing_else(
    admin: httpx.Client, analyst: httpx.Client, by_role: Callable[[str], httpx.Client]
) -> None:
    dataset = upload(admin, policy={"review": "always"})["id"]
    release = ask(analyst, dataset).json()["id"]
    reviewer = by_role("reviewer")
    assert release in reviewer.get("/v1/releases").text
    sheet = reviewer.get(f"/v1/releases/{release}/review")
    assert sheet.status_code == 200
    said = reviewer.post(f"/v1/releases/{release}/comments", json={"text": "Why?"})
    assert said.status_code == 201
    decided = reviewer.post(
        f"/v1/releases/{release}/decision",
        json={"decision": "approve", "reason": "within the protocol"},
        headers={"If-Match": "*"},
    )
    assert decided.status_code in (200, 202), decided.text
    refused = assert_problem(ask(reviewer, dataset), 403, "forbidden")
    assert refused["detail"] == "This needs the role analyst, curator or admin."
    assert_problem(send_upload(reviewer), 403, "forbidden")
    grant = {"epsilon": "1", "reason": "more"}
    assert_problem(reviewer.post(f"/v1/datasets/{dataset}/grants", json=grant), 403, "forbidden")
    path, seen = f"/v1/releases/{release}/publication", {"If-Match": "*"}
    assert_problem(reviewer.post(path, json={"reason": "x"}, headers=seen), 403, "forbidden")
    lines = reviewer.get(f"/v1/datasets/{dataset}/ledger").json()["items"]
    assert [each["kind"] for each in lines] == ["open", "reserve", "debit"]
    assert admin.get("/v1/ledger/verification").json()["ok"]


def test_an_auditor_sees_everything_and_changes_nothing(
    admin: httpx.Client, analyst: httpx.Client, by_role: Callable[[str], httpx.Client]
) -> None:
    dataset = upload(admin, policy={"review": "always"})["id"]
    release = ask(analyst, dataset).json()["id"]
    auditor = by_role("auditor")
    for seen in (
        "/v1/datasets", f"/v1/datasets/{dataset}/budget", f"/v1/datasets/{dataset}/ledger",
        f"/v1/datasets/{dataset}/caps", f"/v1/releases/{release}", "/v1/ledger/verification",
        f"/v1/releases/{release}/review", f"/v1/releases/{release}/comments", "/v1/audit",
    ):  # fmt: skip
        assert auditor.get(seen).status_code == 200, seen
    refused = {
        f"/v1/releases/{release}/decision": {"decision": "reject", "reason": "no"},
        f"/v1/releases/{release}/comments": {"text": "Why?"},
        f"/v1/datasets/{dataset}/previews": {"statistic": MEAN, "epsilon": "1"},
        "/v1/keys": {"name": "eve", "role": "admin"},
    }
    for path, body in refused.items():
        answer = auditor.post(path, json=body, headers={"If-Match": "*"})
        assert_problem(answer, 403, "forbidden")
    assert_problem(ask(auditor, dataset), 403, "forbidden")
    assert_problem(auditor.get("/v1/keys"), 403, "forbidden")
