"""Caps on persons and grants that end, over HTTP and through the client."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest

from app.client import ReleaseDesk
from tests.contract.service import Service, ask, assert_problem, make_key, upload


@pytest.fixture
def dataset(curator: httpx.Client) -> str:
    return str(upload(curator, budget={"epsilon": "1"})["id"])


def budget(client: httpx.Client, dataset: str) -> dict[str, Any]:
    return dict(client.get(f"/v1/datasets/{dataset}/budget").json())


def put_cap(client: httpx.Client, dataset: str, **body: Any) -> httpx.Response:
    body = {"reason": "a fair share", **body}
    return client.put(f"/v1/datasets/{dataset}/caps", json=body)


def test_a_cap_bounds_one_person(
    service: Service, admin: httpx.Client, curator: httpx.Client, dataset: str
) -> None:
    keys = [make_key(admin, "analyst") for _ in range(2)]
    with service.client(keys[0]["secret"]) as ada, service.client(keys[1]["secret"]) as bob:
        assert budget(ada, dataset)["yours"] == {"spent": "0"}
        assert put_cap(curator, dataset, person=keys[0]["person"], epsilon="0.5").json() == {
            "person": keys[0]["person"], "epsilon": "0.5", "used": "0",
        }  # fmt: skip
        assert ask(ada, dataset, epsilon="0.3").status_code == 201
        assert budget(ada, dataset)["yours"] == {"spent": "0.3", "cap": "0.5", "remaining": "0.2"}
        refused = assert_problem(ask(ada, dataset, epsilon="0.3"), 409, "budget-exceeded")
        assert (refused["requested"], refused["remaining"]) == ("0.3", "0.2")
        assert ask(bob, dataset, epsilon="0.6").status_code == 201
        # a share of what is not there is not there either
        assert budget(ada, dataset)["yours"]["remaining"] == "0.1"
        assert assert_problem(ask(ada, dataset, epsilon="0.15"), 409)["remaining"] == "0.1"
        assert put_cap(curator, dataset, person=keys[1]["person"], epsilon=0).status_code == 200
        assert assert_problem(ask(bob, dataset, epsilon="0.01"), 409)["remaining"] == "0"
        listed = curator.get(f"/v1/datasets/{dataset}/caps", params={"limit": 1}).json()
        assert [item["epsilon"] for item in listed["items"]] == ["0.5"]
        more = curator.get(
            f"/v1/datasets/{dataset}/caps", params={"limit": 1, "cursor": listed["next"]}
        ).json()
        assert more["items"] == [{"person": keys[1]["person"], "epsilon": "0", "used": "0.6"}]
        lifted = put_cap(curator, dataset, person=keys[1]["person"], epsilon=None)
        assert lifted.json()["epsilon"] is None
        assert ask(bob, dataset, epsilon="0.1").status_code == 201
    assert curator.get("/v1/ledger/verification").json()["ok"]


@pytest.mark.wide
def test_a_cap_holds_over_all_of_an_accounts_data_sets(
    service: Service, admin: httpx.Client, curator: httpx.Client, dataset: str
) -> None:
    account = curator.get(f"/v1/datasets/{dataset}").json()["account"]
    second = upload(curator, account=account, budget=None)["id"]
    key = make_key(admin, "analyst")
    assert put_cap(curator, second, person=key["person"], epsilon="0.4").status_code == 200
    with service.client(key["secret"]) as ada:
        assert ask(ada, dataset, epsilon="0.3").status_code == 201
        assert assert_problem(ask(ada, second, epsilon="0.2"), 409)["remaining"] == "0.1"


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"person": "nobody we know", "epsilon": "1"}, "person"),
        ({"person": "", "epsilon": "1"}, "person"),
        ({"person": "bootstrap"}, "epsilon"),
        ({"person": "bootstrap", "epsilon": "-1"}, "epsilon"),
        ({"person": "bootstrap", "epsilon": "0.0000000001"}, "epsilon"),
        ({"person": "bootstrap", "epsilon": "1", "reason": ""}, "reason"),
        ({"person": "bootstrap", "epsilon": "1", "until": "x"}, "body"),
    ],
)
def test_a_cap_is_read_strictly(
    curator: httpx.Client, untouched: str, body: dict[str, Any], field: str
) -> None:
    problem = assert_problem(put_cap(curator, untouched, **body), 422, "invalid-request")
    assert [error["field"] for error in problem["errors"]] == [field]


def test_caps_are_curators_business(analyst: httpx.Client, dataset: str) -> None:
    assert_problem(put_cap(analyst, dataset, person="bootstrap", epsilon="1"), 403, "forbidden")
    assert_problem(analyst.get(f"/v1/datasets/{dataset}/caps"), 403, "forbidden")
    assert_problem(put_cap(analyst, "ds_unknown", person="bootstrap", epsilon="1"), 403)


def test_caps_of_unknown_data_sets(curator: httpx.Client) -> None:
    assert_problem(put_cap(curator, "ds_unknown", person="bootstrap", epsilon="1"), 404)
    assert_problem(curator.get("/v1/datasets/ds_unknown/caps"), 404)


def test_a_grant_may_end(curator: httpx.Client, analyst: httpx.Client, dataset: str) -> None:
    end = datetime.now(UTC) + timedelta(seconds=4)  # in which a busy machine asks thrice
    granted = curator.post(
        f"/v1/datasets/{dataset}/grants",
        json={"epsilon": "2", "reason": "a workshop", "expires": end.isoformat()},
    )
    assert granted.status_code == 201
    assert budget(curator, dataset)["epsilon"]["total"] == "3"
    assert ask(analyst, dataset, epsilon="1.25").status_code == 201
    time.sleep(max(0.0, (end - datetime.now(UTC)).total_seconds() + 0.05))
    assert budget(analyst, dataset)["epsilon"] == {
        "total": "1.25", "spent": "1.25", "reserved": "0", "remaining": "0",
    }  # fmt: skip
    shown = curator.get(f"/v1/datasets/{dataset}").json()["budget"]["epsilon"]
    assert shown["remaining"] == "0"
    refused = assert_problem(ask(analyst, dataset, epsilon="0.1"), 409, "budget-exceeded")
    assert refused["remaining"] == "0"
    entries = curator.get(f"/v1/datasets/{dataset}/ledger").json()["items"]
    assert [entry["kind"] for entry in entries] == ["open", "grant", "debit", "expire"]
    assert entries[-1]["total_after"] == "1.25"
    assert curator.get("/v1/ledger/verification").json()["ok"]


def test_a_grant_cannot_have_ended(curator: httpx.Client, dataset: str) -> None:
    for expires in ("2001-01-01T00:00:00Z", "2101-01-01T00:00:00", "soon"):
        refused = curator.post(
            f"/v1/datasets/{dataset}/grants",
            json={"epsilon": "2", "reason": "late", "expires": expires},
        )
        problem = assert_problem(refused, 422, "invalid-request")
        assert [error["field"] for error in problem["errors"]] == ["expires"]


def test_the_client_does_the_same(service: Service, dataset: str) -> None:
    from tests.contract.service import ADMIN_KEY

    with ReleaseDesk(service.url, ADMIN_KEY) as desk:
        cap = desk.cap(dataset, person="bootstrap", epsilon="0.25", reason="try")
        assert (cap.person, cap.epsilon, cap.used) == ("bootstrap", "0.25", "0")
        assert [each.epsilon for each in desk.caps(dataset)] == ["0.25"]
        desk.grant(dataset, epsilon="1", reason="more", expires="2101-01-01T00:00:00Z")
        assert desk.budget(dataset).epsilon.total == "2"
        assert desk.budget(dataset).yours["remaining"] == "0.25"
        assert desk.cap(dataset, person="bootstrap", epsilon=None, reason="done").epsilon is None
        assert list(desk.caps(dataset)) == []


def test_a_cap_in_zcdp_is_a_target_of_its_own(
    service: Service, admin: httpx.Client, curator: httpx.Client
) -> None:
    dataset = upload(curator, budget={"epsilon": "2", "delta": "1e-6"})["id"]
    key = make_key(admin, "analyst")
    said = put_cap(curator, dataset, person=key["person"], epsilon="0.5").json()
    assert 0.49 < float(said["epsilon"]) <= 0.5
    assert put_cap(curator, dataset, person="bootstrap", epsilon="0").json()["epsilon"] == "0"
    with service.client(key["secret"]) as ada:
        yours = budget(ada, dataset)["yours"]
        assert yours["spent"] == "0"
        most = yours["remaining"]
        assert ask(ada, dataset, epsilon=most).status_code == 201
        yours = budget(ada, dataset)["yours"]
        assert 0.49 < float(yours["spent"]) <= float(yours["cap"]) <= 0.5
        assert_problem(ask(ada, dataset, epsilon="0.05"), 409, "budget-exceeded")
    assert ask(curator, dataset, epsilon="0.1").status_code == 201
