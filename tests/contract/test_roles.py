"""The life of keys, and what they open. Who may call what is in ``test_role_matrix``."""

from __future__ import annotations

import base64
from datetime import datetime
from typing import Any

import httpx

from tests.contract.service import (
    Service,
    ask,
    assert_problem,
    in_time,
    make_key,
    sleep_until,
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
