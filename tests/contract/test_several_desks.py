"""Two servers over one ledger in PostgreSQL: what one changes holds at the other at once."""

from __future__ import annotations

import time
from collections.abc import Iterator

import httpx
import pytest

from tests.app.ledgers import place_on
from tests.contract.service import (
    MEAN,
    Service,
    ask,
    assert_problem,
    make_key,
    running,
    upload,
)
from tests.desk.browsing import signed_in

pytestmark = pytest.mark.postgres

QUESTION = {"statistic": MEAN, "epsilon": "0.1"}


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Service, Service]]:
    directory = tmp_path_factory.mktemp("several") / "data"
    with (
        place_on("postgres", directory) as place,
        running(directory, database_url=place.url) as one,
        running(directory, database_url=place.url) as other,
    ):
        yield one, other


@pytest.fixture(scope="module")
def one(servers: tuple[Service, Service]) -> Iterator[httpx.Client]:
    with servers[0].client() as client:
        yield client


@pytest.fixture(scope="module")
def other(servers: tuple[Service, Service]) -> Iterator[httpx.Client]:
    with servers[1].client() as client:
        yield client


@pytest.mark.parametrize("what", ["releases", "previews", "dry-runs"])
def test_a_policy_holds_at_once(one: httpx.Client, other: httpx.Client, what: str) -> None:
    dataset = upload(one)["id"]
    path, headers = f"/v1/datasets/{dataset}/{what}", {"Idempotency-Key": f"{dataset} {what}"}
    warm = other.post(f"/v1/datasets/{dataset}/previews", json=QUESTION)
    assert warm.status_code == 200, warm.text
    edit = {"reason": "counts only", "policy": {"allowed": ["histogram"]}}
    assert one.patch(f"/v1/datasets/{dataset}", json=edit).status_code == 200
    assert_problem(other.post(path, json=QUESTION, headers=headers), 422, "policy-refused")
    edit = {"reason": "means again", "policy": {"allowed": ["mean"]}}
    assert other.patch(f"/v1/datasets/{dataset}", json=edit).status_code == 200
    assert one.post(path, json=QUESTION, headers=headers).status_code in (200, 201)


def test_an_archiving_holds_at_once(one: httpx.Client, other: httpx.Client) -> None:
    dataset = upload(one)["id"]
    assert ask(other, dataset, epsilon="0.1").status_code == 201
    rows = f"/v1/datasets/{dataset}/dry-runs/rows"
    assert other.get(rows).status_code == 200
    assert one.post(f"/v1/datasets/{dataset}/archive").status_code == 200
    for what in ("previews", "dry-runs", "releases"):
        answer = other.post(
            f"/v1/datasets/{dataset}/{what}", json=QUESTION, headers={"Idempotency-Key": "late"}
        )
        assert_problem(answer, 409, "dataset-archived")
    assert_problem(other.get(rows), 409, "dataset-archived")


@pytest.mark.slow
def test_a_pause_holds_at_once(one: httpx.Client, other: httpx.Client) -> None:
    dataset = upload(one)["id"]
    pause = {"what": "dataset", "name": dataset, "paused": True, "reason": "a flood"}
    assert one.put("/v1/pauses", json=pause).status_code == 200
    assert_problem(ask(other, dataset), 409, "paused")


def test_what_is_said_of_a_column_is_published_as_it_is_now(
    one: httpx.Client, other: httpx.Client
) -> None:
    dataset = upload(one)["id"]
    release = ask(other, dataset).json()["id"]
    edit = {"reason": "clearer", "labels": {"income": "Yearly earnings"}}
    assert one.patch(f"/v1/datasets/{dataset}", json=edit).status_code == 200
    made = other.post(
        f"/v1/releases/{release}/publication", json={"reason": "r"}, headers={"If-Match": "*"}
    )
    assert made.status_code == 201, made.text
    found = other.get("/public/releases.json", params={"q": "yearly earnings"}).json()
    assert [each["release"] for each in found["items"]] == [release]


def test_what_is_withdrawn_is_gone_at_every_server_within_two_seconds(
    one: httpx.Client, other: httpx.Client
) -> None:
    dataset = upload(one)["id"]
    release = ask(one, dataset).json()["id"]
    path, page = f"/v1/releases/{release}/publication", f"/public/releases/{release}"
    made = one.post(path, json={"reason": "r"}, headers={"If-Match": "*"})
    assert made.status_code == 201, made.text
    paths = (page, f"{page}.json")
    for each in (*paths, *paths):
        assert other.get(each).status_code == 200
    assert one.post(f"{path}/withdrawal", json={"note": "n"}).status_code == 200
    gone = time.monotonic()
    assert [one.get(each).status_code for each in paths] == [410, 410]
    time.sleep(max(gone + 1.1 - time.monotonic(), 0))
    assert [other.get(each).status_code for each in paths] == [410, 410]


def test_a_session_at_the_desk_is_one_at_every_server(
    servers: tuple[Service, Service], one: httpx.Client
) -> None:
    with (
        signed_in(servers[0], make_key(one, "analyst")["secret"]) as here,
        httpx.Client(base_url=servers[1].url, cookies=here.client.cookies) as there,
    ):
        assert there.get("/desk").status_code == 200
        here.send(here.open("/desk"), "Sign out")
        assert there.get("/desk").headers["location"].startswith("/desk/sign-in")
