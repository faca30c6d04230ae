"""Versions of a data set at the desk: the list of them, and the form that adds rows."""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Callable
from random import Random
from typing import Any
from uuid import uuid4

import httpx
import pytest

from tests.contract.service import ADMIN_KEY, Service, upload
from tests.desk.browsing import Browsing, Page, created, signed_in

COLUMNS = {"age": {"type": "integer", "lower": 0, "upper": 10**9}}
SENTINEL = "98219471x"


def _rows(count: int = 30) -> bytes:
    """Return rows of people whom no other test has uploaded."""
    ages = Random(uuid4().int).sample(range(10**9), count)
    return b"age\n" + b"".join(b"%d\n" % age for age in ages)


def _upload(admin: httpx.Client, count: int = 30, **spec: Any) -> str:
    name = f"people {uuid4()}"
    return str(upload(admin, _rows(count), **{"name": name, "columns": COLUMNS, **spec})["id"])


def _form(browsing: Browsing, dataset: str) -> Page:
    return browsing.open(browsing.open(f"/desk/datasets/{dataset}").links()["Add rows"])


def _listed(page: Page) -> list[list[str]]:
    rows = page.tree.xpath("//section[@aria-labelledby='versions']//tbody/tr")
    return [[" ".join(cell.text_content().split()) for cell in row.xpath("td")] for row in rows]


def _faults(page: Page) -> dict[str, str]:
    found = page.tree.xpath("//p[@class='fault']")
    return {each.get("id").removesuffix("-fault"): each.text for each in found}


def test_rows_are_added_and_both_versions_are_listed(
    admin: httpx.Client, curator: Browsing, analyst: Browsing
) -> None:
    dataset = _upload(admin)
    name = admin.get(f"/v1/datasets/{dataset}").json()["name"]
    before = curator.open(f"/desk/datasets/{dataset}")
    assert "There is one version" in before.text
    page = _form(curator, dataset)
    assert page.heading == "Add rows"
    assert page.labels() == ["File", "Name", "Delimiter", "Encoding", "Skip rows"]
    assert "must hold new people only" in page.text
    shown = created(curator, page, "Add rows", file=("more.csv", _rows(32)))
    assert shown.heading == f"{name}, version 2"
    assert "The rows are added." in shown.text
    assert "32 rows were read" in shown.text, "told once"
    assert "rows were read" not in curator.open(shown.path).text
    for who, path in ((curator, shown.path), (analyst, f"/desk/datasets/{dataset}")):
        listed = _listed(who.open(path))
        assert [row[1:3] for row in listed] == [["2", "62"], ["1", "30"]]
        assert all(re.search(r"\d{4}", row[3]) for row in listed), "dates"
        assert sum("(this one)" in row[0] for row in listed) == 1
    old = curator.open(f"/desk/datasets/{dataset}")
    assert "A newer version has these rows and more" in old.text
    assert old.links()[f"{name}, version 2"] == shown.path
    assert old.links()["Add rows"] == f"{shown.path}/versions", "to the newest only"
    assert "Add rows" not in analyst.open(shown.path).links()


def test_a_form_that_is_sent_twice_adds_rows_once(admin: httpx.Client, curator: Browsing) -> None:
    page = _form(curator, _upload(admin))
    file = ("more.csv", _rows(32))
    first = curator.send(page, "Add rows", file=file)
    second = curator.send(page, "Add rows", file=file)
    assert first.path == second.path
    assert "32 rows were read" in second.text
    made = [curator.send(each, "Create data set") for each in (first, first)]
    assert made[0].path == made[1].path == curator.open(first.path).path
    assert len(_listed(made[1])) == 2
    assert "32 rows were read" in made[1].text


def test_a_private_row_count_is_in_no_list_of_versions(
    admin: httpx.Client, curator: Browsing
) -> None:
    # of three digits, as no part of a time or of a name is
    dataset = _upload(admin, 311, adjacency="add_remove", max_rows=1000)
    page = _form(curator, dataset)
    assert page.labels() == ["File", "Max rows", "Name", "Delimiter", "Encoding", "Skip rows"]
    more = {"max_rows": "500", "name": f"later {uuid4()}"}
    shown = created(curator, page, "Add rows", file=("more.csv", _rows(322)), **more)
    assert [row[2] for row in _listed(shown)] == ["private", "private"]
    assert "at most 1,500" in shown.text
    again = curator.open(shown.path)
    assert not re.search(r"\b(311|633|322)\b", again.tree.xpath("//section")[1].text_content())


def test_all_mistakes_are_told_at_once_at_their_fields(
    admin: httpx.Client, curator: Browsing
) -> None:
    page = _form(curator, _upload(admin, adjacency="add_remove", max_rows=1000))
    refused = curator.send(page, "Add rows", status=422, max_rows="many", name="n" * 200)
    assert set(_faults(refused)) == {"file", "max_rows", "name"}
    assert len(refused.alerts()) == 1
    assert str(refused.form("Add rows").fields["max_rows"]) == "many", "as it was filled in"
    unbounded = curator.send(page, "Add rows", status=422, file=("more.csv", _rows()))
    assert _faults(unbounded) == {"max_rows": "is required where the data set has one"}


def test_a_name_that_is_taken_is_refused_at_the_name(
    admin: httpx.Client, curator: Browsing
) -> None:
    dataset = _upload(admin)
    name = admin.get(f"/v1/datasets/{dataset}").json()["name"]
    refused = curator.send(
        _form(curator, dataset), "Add rows", status=409, file=("more.csv", _rows()), name=name
    )
    assert _faults(refused) == {"name": "is taken; choose another one"}


def test_a_wrong_file_is_told_by_its_rows_and_not_by_its_cells(
    admin: httpx.Client, curator: Browsing
) -> None:
    dataset = _upload(admin)
    wrong = _rows() + SENTINEL.encode() + b"\n"
    refused = curator.send(
        _form(curator, dataset), "Add rows", status=422, file=("more.csv", wrong)
    )
    (row,) = refused.tree.xpath("//*[@role='alert']//tbody/tr")
    assert [cell.text for cell in row.xpath("td")] == ["not a number", "age", "1", "31"]
    assert SENTINEL not in refused.answer.text
    other = curator.send(
        _form(curator, dataset), "Add rows", status=422, file=("more.csv", b"height\n1\n")
    )
    assert "age" in other.alerts()[0]


def test_rows_that_are_there_already_are_refused(
    service: Service, admin: httpx.Client, curator: Browsing
) -> None:
    rows = _rows()
    dataset = str(upload(admin, rows, name=f"people {uuid4()}", columns=COLUMNS)["id"])
    page = _form(curator, dataset)
    refused = curator.send(page, "Add rows", status=409, file=("same.csv", rows))
    assert "Send the rows of new people only." in refused.alerts()[0]
    with signed_in(service, ADMIN_KEY) as chief:
        page = _form(chief, dataset)
        assert "Other people" in page.labels()
        shown = created(chief, page, "Add rows", file=("same.csv", rows), overlap="other people")
        assert len(_listed(shown)) == 2


def test_whoever_comes_second_is_led_to_the_newest_version(
    admin: httpx.Client, curator: Browsing
) -> None:
    dataset = _upload(admin)
    page, late = _form(curator, dataset), _form(curator, dataset)
    shown = created(curator, page, "Add rows", file=("more.csv", _rows()))
    refused = curator.send(late, "Add rows", status=409, file=("late.csv", _rows()))
    assert "newer version" in refused.alerts()[0]
    assert refused.links()[f"add rows to {shown.heading}"] == f"{shown.path}/versions"
    assert len(_listed(curator.open(shown.path))) == 2


def test_what_cannot_be_extended_says_why_and_what_to_do(
    admin: httpx.Client, curator: Browsing
) -> None:
    people = b"".join(b"%d,p%d\n" % (at, at // 2) for at in range(60))
    unit = {"column": "who", "max_rows": 1, "reduce": {"age": "mean"}}
    reduced = upload(
        admin, b"age,who\n" + people, name=f"people {uuid4()}", columns=COLUMNS, unit=unit,
        adjacency="add_remove", max_rows=1000,
    )["id"]  # fmt: skip
    page = curator.open(f"/desk/datasets/{reduced}/versions")
    assert "one row for each person" in page.text
    assert page.links()["a new data set"] == "/desk/datasets/new"
    assert not page.tree.xpath("//main//form")
    dataset = _upload(admin)
    assert admin.post(f"/v1/datasets/{dataset}/archive").status_code < 300
    assert "Add rows" not in curator.open(f"/desk/datasets/{dataset}").links()
    page = curator.open(f"/desk/datasets/{dataset}/versions")
    assert "no rows can be added" in page.text
    assert not page.tree.xpath("//main//form")


@pytest.mark.wide
def test_many_versions_are_shown_in_part(admin: httpx.Client, curator: Browsing) -> None:
    dataset = _upload(admin)
    for _ in range(14):
        files = {
            "spec": (None, "{}", "application/json"),
            "file": ("more.csv", _rows(), "text/csv"),
        }
        made = admin.post(f"/v1/datasets/{dataset}/versions", files=files)
        assert made.status_code == 201, made.text
        dataset = made.json()["id"]
    page = curator.open(f"/desk/datasets/{dataset}")
    assert [row[1] for row in _listed(page)] == [str(15 - at) for at in range(12)]
    every = curator.open(f"/desk/datasets/{dataset}{page.links()['All versions (3 more)']}")
    assert len(_listed(every)) == 15


def test_versions_are_not_extended_by_analysts_or_from_other_sites(
    admin: httpx.Client, curator: Browsing, analyst: Browsing
) -> None:
    dataset = _upload(admin)
    path = f"/desk/datasets/{dataset}/versions"
    analyst.open(path, status=403)
    page = curator.open(path)
    filled = {**dict(page.form("Add rows").form_values())}
    sent = curator.client.post(
        path, data=filled, files={"file": ("more.csv", _rows())},
        headers={"Sec-Fetch-Site": "cross-site"},
    )  # fmt: skip
    assert sent.status_code == 403
    assert not _listed(curator.open(f"/desk/datasets/{dataset}"))
    assert curator.open("/desk/datasets/ds_none/versions", status=404)


def test_a_hostile_name_of_a_version_is_text(admin: httpx.Client, curator: Browsing) -> None:
    name = f"<b>{uuid4()}</b>"
    dataset = _upload(admin)
    shown = created(
        curator, _form(curator, dataset), "Add rows", file=("more.csv", _rows()), name=name
    )
    assert shown.heading == name
    assert name in curator.open(f"/desk/datasets/{dataset}").links()


@pytest.mark.slow
def test_whoever_cancels_leaves_nothing_and_may_send_the_form_again(
    service: Service, admin: httpx.Client, curator: Browsing, caplog: pytest.LogCaptureFixture
) -> None:
    dataset = _upload(admin)
    page = _form(curator, dataset)
    sent = curator.client.build_request(
        "POST", page.path, data=dict(page.form("Add rows").form_values()),
        files={"file": ("more.csv", b"age\n" + b"1\n" * 6_000_000)},
        headers={"Sec-Fetch-Site": "same-origin"},
    )  # fmt: skip
    body = sent.read()
    head = "".join(f"{name}: {value}\r\n" for name, value in sent.headers.items())
    host, port = service.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port))) as connection:
        connection.sendall(f"POST {page.path} HTTP/1.1\r\n{head}\r\n".encode() + body)
        _until(lambda: any(service.data_dir.glob("staging/*/part-*")))
    _until(lambda: not any(service.data_dir.glob("staging/*")))
    shown = created(curator, page, "Add rows", file=("more.csv", _rows()))
    assert [row[1] for row in _listed(shown)] == ["2", "1"]
    assert not [each for each in caplog.records if each.getMessage() == "request failed"]


def _until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)
