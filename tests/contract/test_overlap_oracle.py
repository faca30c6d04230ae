"""Uploads as questions about other people's data: who is a member is not told."""

from __future__ import annotations

import random
from collections.abc import Iterator

import httpx
import pytest

from tests.contract.service import (
    Service,
    assert_problem,
    make_key,
    running,
    send_upload,
    spec,
    upload,
)
from tests.contract.test_lineage import COLUMNS, file_of, money, people, shuffled

MOST = 3
PEOPLE = people(1, rows=60)
STRANGERS = people(2, rows=60)


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    data_dir = tmp_path_factory.mktemp("oracle") / "data"
    with running(data_dir, max_overlaps_per_day=MOST) as found:
        yield found


@pytest.fixture(scope="module")
def admin(service: Service) -> Iterator[httpx.Client]:
    with service.client() as client:
        yield client


@pytest.fixture(scope="module")
def archived(service: Service, admin: httpx.Client) -> Iterator[httpx.Client]:
    """Give the curator who has uploaded the people and archived them."""
    with service.client(make_key(admin, "curator")["secret"]) as client:
        dataset = upload(client, file_of(PEOPLE), columns=COLUMNS)["id"]
        assert client.post(f"/v1/datasets/{dataset}/archive").status_code == 200
        yield client


@pytest.fixture
def nosy(service: Service, admin: httpx.Client, archived: httpx.Client) -> Iterator[httpx.Client]:
    """Give another curator, who has been told of nothing yet."""
    with service.client(make_key(admin, "curator")["secret"]) as client:
        yield client


def pairs(rows: list[str]) -> list[str]:
    return [file_of(rows[place : place + 2]) for place in range(0, 16, 2)]


def test_uploads_of_two_rows_tell_nobody_who_is_in_anothers_data(
    nosy: httpx.Client, archived: httpx.Client
) -> None:
    def answers(client: httpx.Client, files: list[str]) -> list[tuple[int, str]]:
        sent = [send_upload(client, file, money()) for file in files]
        return [(each.status_code, each.json().get("code", "")) for each in sent]

    assert answers(nosy, pairs(PEOPLE)) == [(409, "too-few-rows")] * 8
    assert answers(nosy, pairs(STRANGERS)[:3]) == [(409, "too-few-rows")] * 3
    # must fail: whoever has seen the rows is told of each
    assert answers(archived, pairs(PEOPLE)[:3]) == [(409, "overlapping-dataset")] * 3
    assert answers(archived, pairs(STRANGERS)[:3]) == [(201, "")] * 3


@pytest.mark.parametrize("rows", [PEOPLE[:2], STRANGERS[:2]])
def test_no_account_is_a_way_to_ask(nosy: httpx.Client, rows: list[str]) -> None:
    own = upload(nosy, file_of(people(random.getrandbits(60))), columns=COLUMNS)
    attached = money(account=own["account"], budget=None)
    body = assert_problem(send_upload(nosy, file_of(rows), attached), 409, "too-few-rows")
    assert body["minimum"] == 20
    for padded in (rows * 200, [*rows, *[","] * 200]):
        filled = {name: {**column, "missing": 0} for name, column in COLUMNS.items()}
        answer = send_upload(nosy, file_of(padded), spec(columns=filled))
        assert_problem(answer, 409, "too-few-rows")


def test_a_few_people_among_many_strangers_are_not_told(nosy: httpx.Client) -> None:
    """However often one asks: a no is no refusal, and does not count."""
    first = upload(nosy, file_of([*STRANGERS[40:60], *PEOPLE[:4]]), columns=COLUMNS)
    for number in range(MOST + 1):
        strangers = people(100 + number, rows=16)
        attached = money(account=first["account"], budget=None)
        assert send_upload(nosy, file_of([*strangers, *PEOPLE[:4]]), attached).status_code == 201
    file = file_of([*people(99, rows=16), *PEOPLE[:5]])
    assert_problem(send_upload(nosy, file, money()), 409, "overlapping-dataset")


def test_an_admin_vouches_for_few_rows(admin: httpx.Client, archived: httpx.Client) -> None:
    del archived
    assert_problem(send_upload(admin, file_of(people(77, rows=3)), money()), 409, "too-few-rows")
    reasoned = money(overlap={"reason": "three pilots"})
    for rows in (people(77, rows=3), PEOPLE[:3]):
        made = send_upload(admin, file_of(rows), {**reasoned, "name": f"pilots {rows[0]}"})
        assert made.status_code == 201
        entries = admin.get(f"/v1/datasets/{made.json()['id']}/ledger").json()["items"]
        assert entries[0]["note"].endswith("three pilots")


def test_who_resembles_everybody_needs_no_company(nosy: httpx.Client) -> None:
    columns = {"a": {"type": "boolean"}, "b": {"type": "boolean"}}
    upload(nosy, "a,b\n0,1\n1,1\n", columns=columns)


@pytest.mark.parametrize("counts", [(4_321, 15_679), (700, 800, 500)])
def test_nobody_is_told_how_often_values_are_in_anothers_data(
    nosy: httpx.Client, archived: httpx.Client, counts: tuple[int, ...]
) -> None:
    """Who guesses all counts of a few values is told no more than who errs by one."""
    values = "abc"[: len(counts)]
    columns = {"ill": {"type": "category", "values": [*values]}}

    def rows(*counts: int) -> str:
        return "ill\n" + "".join(f"{x}\n" * n for x, n in zip(values, counts, strict=True))

    upload(archived, rows(*counts), columns=columns)
    # must fail: whoever has seen the rows is told
    assert_problem(send_upload(archived, rows(*counts), spec(columns=columns)), 409)
    first, second, *others = counts
    for guess in (counts, (first - 1, second + 1, *others)):
        assert send_upload(nosy, rows(*guess), spec(columns=columns)).status_code == 201


def test_refusals_are_written_down_and_few_a_day(
    service: Service, admin: httpx.Client, nosy: httpx.Client, archived: httpx.Client
) -> None:
    body = money()
    for _ in range(MOST):
        assert_problem(send_upload(nosy, file_of(shuffled(PEOPLE)), body), 409)
    for rows in (PEOPLE, people(5)):
        answer = send_upload(nosy, file_of(rows), body)
        reported = assert_problem(answer, 429, "too-many-overlaps")
        assert reported["maximum"] == MOST
        assert 86_000 < reported["retry_after"] <= 86_401
        assert answer.headers["retry-after"] == str(reported["retry_after"])
        assert {"dataset", "account"} & reported.keys() == set()
    # somebody else, and an admin with a reason, go on
    assert send_upload(archived, file_of(people(6)), body).status_code == 201
    reasoned = money(overlap={"reason": "our own register"})
    assert send_upload(admin, file_of(PEOPLE), reasoned).status_code == 201
    assert admin.get("/v1/ledger/verification").json()["ok"]
