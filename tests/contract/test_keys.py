"""The life of keys: whose they are, when they were used, and the last one that can make others."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.contract.service import (
    Service,
    ask,
    assert_problem,
    in_time,
    make_key,
    running,
    sleep_until,
)
from tests.speed import PATIENCE_S


def listed(admin: httpx.Client) -> dict[str, dict[str, Any]]:
    """Return every key by its id."""
    return {key["id"]: key for key in admin.get("/v1/keys", params={"limit": 200}).json()["items"]}


def test_one_name_by_two_admins_is_two_people(
    service: Service, admin: httpx.Client, dataset: str
) -> None:
    second = make_key(admin, "admin", "the other admin of the tests")
    name = "j. smith of the tests"
    ours = [make_key(admin, "analyst", name) for _ in range(2)]
    with service.client(second["secret"]) as other_admin:
        theirs = [make_key(other_admin, "analyst", name) for _ in range(2)]
        given = other_admin.post(
            "/v1/keys", json={"name": "smith's new laptop", "role": "analyst", "person": name}
        ).json()
    assert [key["person"] for key in ours] == [name] * 2
    assert [key["person"] for key in theirs] == [f"{name} #2"] * 2
    assert given["person"] == name
    with (
        service.client(ours[0]["secret"]) as mine,
        service.client(theirs[0]["secret"]) as foreign,
        service.client(given["secret"]) as same,
    ):
        released = ask(mine, dataset, key="one question").json()
        assert released["requested_by"] == name
        path = f"/v1/releases/{released['id']}"
        assert_problem(foreign.get(path), 404, "not-found")
        # the same Idempotency-Key of somebody else is another question
        assert ask(foreign, dataset, key="one question").json()["id"] != released["id"]
        assert same.get(path).status_code == 200
        assert ask(same, dataset, key="one question").json()["id"] == released["id"]


def test_a_person_must_have_had_a_key(admin: httpx.Client) -> None:
    body = {"name": "somebody", "role": "analyst", "person": "sentinel nobody"}
    problem = assert_problem(admin.post("/v1/keys", json=body), 422, "invalid-request")
    assert problem["errors"][0]["field"] == "person"
    assert "sentinel" not in str(problem)


@pytest.mark.parametrize("name", ["system", "System", " SYSTEM "])
def test_nobody_is_called_as_the_service_calls_itself(admin: httpx.Client, name: str) -> None:
    before = listed(admin)
    refused = admin.post("/v1/keys", json={"name": name, "role": "analyst"})
    problem = assert_problem(refused, 422, "invalid-request")
    assert [error["field"] for error in problem["errors"]] == ["name"]
    assert listed(admin).keys() == before.keys()


def test_a_key_shows_when_it_was_used_last(service: Service, admin: httpx.Client) -> None:
    made = make_key(admin, "analyst")
    assert made["last_used_at"] is None
    assert listed(admin)[made["id"]]["last_used_at"] is None
    before = datetime.now(UTC)
    with service.client(made["secret"]) as client:
        assert client.get("/v1/datasets").status_code == 200
    deadline = time.monotonic() + PATIENCE_S
    while (used := listed(admin)[made["id"]]["last_used_at"]) is None:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    minute = before.replace(second=0, microsecond=0)
    assert minute <= datetime.fromisoformat(used) <= minute + timedelta(minutes=1)
    assert used.endswith(":00.000000Z")
    # an unsuccessful try is no use
    with service.client(made["secret"] + "x") as client:
        assert_problem(client.get("/v1/datasets"), 401)
    assert listed(admin)[made["id"]]["last_used_at"] == used


def test_the_last_admin_key_stays(tmp_path: Path) -> None:
    with running(tmp_path / "data") as service, service.client() as admin:
        (first,) = listed(admin)
        assert_problem(admin.delete(f"/v1/keys/{first}"), 409, "last-admin-key")

        def brief(soon: datetime) -> None:
            body = {"name": "brief", "role": "admin", "expires": soon.isoformat()}
            assert admin.post("/v1/keys", json=body).status_code == 201

        _, end = in_time(brief)
        make_key(admin, "curator")
        sleep_until(end)  # an admin key that has run out is none
        assert_problem(admin.delete(f"/v1/keys/{first}"), 409, "last-admin-key")
        second = make_key(admin, "admin")
        assert admin.delete(f"/v1/keys/{first}").status_code == 204
        assert_problem(admin.get("/v1/keys"), 401, "unauthorized")
        with service.client(second["secret"]) as other:
            assert other.delete(f"/v1/keys/{first}").status_code == 204
            assert_problem(other.delete(f"/v1/keys/{second['id']}"), 409, "last-admin-key")
            assert listed(other)[second["id"]]["revoked_at"] is None


def test_one_human_has_one_name(admin: httpx.Client, dataset: str) -> None:
    """However it is typed: a cap reaches them, and no one else may look like them."""
    name = "Grete of the tests"
    assert make_key(admin, "analyst", f" {name}  ")["person"] == name
    assert make_key(admin, "curator", "\uff27rete of the\u3000tests")["person"] == name
    cap = {"person": f"{name} ", "epsilon": "0.5", "reason": "one slice, one human"}
    capped = admin.put(f"/v1/datasets/{dataset}/caps", json=cap)
    assert capped.json()["person"] == name
    before = listed(admin)
    for twin in (name.upper(), name.replace("e", "\N{CYRILLIC SMALL LETTER IE}")):
        refused = admin.post("/v1/keys", json={"name": twin, "role": "curator"})
        assert assert_problem(refused, 409, "name-confusable")["person"] == name
    assert listed(admin).keys() == before.keys()
    assert [key["twins"] for key in before.values()] == [[]] * len(before)
