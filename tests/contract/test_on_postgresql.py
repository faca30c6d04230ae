"""The contract where the ledger is kept in PostgreSQL: the same answers as on SQLite."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from tests.app.ledgers import place_on
from tests.contract.service import (
    MEAN,
    ROWS,
    Service,
    ask,
    assert_problem,
    make_key,
    running,
    send_upload,
    spec,
    spent,
    upload,
)

pytestmark = pytest.mark.postgres


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    directory = tmp_path_factory.mktemp("postgresql") / "data"
    with (
        place_on("postgres", directory) as place,
        running(directory, database_url=place.url) as found,
    ):
        yield found


@pytest.fixture(scope="module")
def admin(service: Service) -> Iterator[httpx.Client]:
    with service.client() as client:
        yield client


def test_a_data_set_lives_and_is_archived(service: Service, admin: httpx.Client) -> None:
    dataset = upload(admin, budget={"epsilon": "1"})["id"]
    key = make_key(admin, "analyst")
    with service.client(key["secret"]) as analyst:
        first = ask(analyst, dataset, epsilon="0.6", key="k")
        assert first.status_code == 201, first.text
        assert ask(analyst, dataset, epsilon="0.6", key="k").content == first.content
        assert_problem(ask(analyst, dataset, epsilon="0.5", key="k"), 422)
        refused = assert_problem(ask(analyst, dataset, epsilon="0.5"), 409, "budget-exceeded")
        assert (refused["requested"], refused["remaining"]) == ("0.5", "0.4")
        assert analyst.get("/v1/releases").json()["items"] == [first.json()]
    assert spent(admin, dataset) == "0.6"
    grant = {"epsilon": "1", "reason": "a second wave"}
    assert admin.post(f"/v1/datasets/{dataset}/grants", json=grant).status_code == 201
    assert ask(admin, dataset, epsilon="0.5").status_code == 201
    entries = admin.get(f"/v1/datasets/{dataset}/ledger").json()["items"]
    assert [entry["kind"] for entry in entries] == ["open", "debit", "grant", "debit"]
    assert admin.delete(f"/v1/keys/{key['id']}").status_code == 204
    with service.client(key["secret"]) as analyst:
        assert_problem(analyst.get("/v1/datasets"), 401)
    archived = admin.post(f"/v1/datasets/{dataset}/archive").json()
    assert archived["status"] == "archived"
    assert_problem(ask(admin, dataset), 409, "dataset-archived")
    verification = admin.get("/v1/ledger/verification").json()
    assert (verification["ok"], verification["anchor"]) == (True, None), "the anchor is off"


def test_the_same_name_again_is_refused(admin: httpx.Client) -> None:
    body = spec()
    assert send_upload(admin, ROWS, body).status_code == 201
    assert_problem(send_upload(admin, ROWS, body), 409, "name-taken")


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v1/datasets/%00"),
        ("GET", "/v1/datasets/%00/budget"),
        ("GET", "/v1/datasets/%00/ledger"),
        ("GET", "/v1/releases/a%00b"),
        ("DELETE", "/v1/keys/%00"),
        ("POST", "/v1/datasets/%00/archive"),
    ],
)
def test_an_id_that_cannot_be_stored_is_an_unknown_one(
    admin: httpx.Client, method: str, path: str
) -> None:
    assert_problem(admin.request(method, path), 404, "not-found")


def test_text_that_cannot_be_stored_is_refused(admin: httpx.Client) -> None:
    dataset = upload(admin)["id"]
    assert_problem(ask(admin, "%00"), 404, "not-found")
    assert admin.get("/v1/releases", params={"dataset": "\0"}).json()["items"] == []
    for change in ({"name": "x\0"}, {"account": "x\0", "budget": None}, {"description": "\0"}):
        assert_problem(send_upload(admin, ROWS, spec(**change)), 422, "invalid-request")
    key = {"name": "x\0", "role": "analyst"}
    assert_problem(admin.post("/v1/keys", json=key), 422, "invalid-request")
    grant = {"epsilon": "1", "reason": "x\0"}
    assert_problem(admin.post(f"/v1/datasets/{dataset}/grants", json=grant), 422)
    assert ask(admin, dataset, MEAN, key="k" * 200).status_code == 201
