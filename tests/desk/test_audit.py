"""The audit at the desk: whether the ledger holds, its entries with filters, and one's own."""

from __future__ import annotations

import asyncio
import csv
import io
import time
from collections.abc import Callable
from pathlib import Path
from threading import Event
from unittest.mock import patch
from uuid import uuid4

import httpx
import pytest

from app.desk.pages import audit
from app.services.audit import AuditService, Looked
from app.store import Store, Verification
from tests.contract.service import ADMIN_KEY, MEAN, ask, make_key, running, settled, upload
from tests.desk.browsing import Browsing, Page, signed_in
from tests.speed import PATIENCE_S


def _rows(page: Page) -> list[list[str]]:
    rows = page.tree.xpath("//section[@aria-labelledby='ledger']//tbody/tr")
    return [[" ".join(each.text_content().split()) for each in row.xpath("td")] for row in rows]


def test_the_ledger_is_verified_and_the_time_is_told(curator: Browsing) -> None:
    page = _looked_at_until(curator, "/desk/audit", lambda page: not _goes_on(page))
    assert page.heading == "Audit"
    assert "All hash chains, totals and results were checked" in page.text
    (before,) = page.tree.xpath("//section[@aria-labelledby='verification']//time/@datetime")
    curator.send(page, "Verify now")
    again = _looked_at_until(curator, "/desk/audit", lambda page: not _goes_on(page))
    (after,) = again.tree.xpath("//section[@aria-labelledby='verification']//time/@datetime")
    assert after >= before


def test_a_page_waits_for_no_walk_and_shows_how_far_it_is(tmp_path: Path) -> None:
    begun, gate = Event(), Event()

    def verify(self: Store, *, progress: Callable[[float], None], **_: object) -> Verification:
        begun.set()
        progress(0.47)
        assert gate.wait(PATIENCE_S)
        return Verification(entries=3, head="")

    with (
        patch.object(Store, "verify", verify),
        running(tmp_path / "data") as service,
        service.client() as admin,
        signed_in(service, ADMIN_KEY) as chief,
    ):
        account = upload(admin)["account"]
        for path in (f"/desk/audit?account={account}", f"/desk/audit/report?account={account}"):
            chief.open(path)
            assert begun.wait(PATIENCE_S)
            page = chief.open(path)
            assert "The ledger is being verified." in page.text
            assert page.tree.xpath("//progress/@value") == ["40"]
            assert page.links()["Look again"] == path
            assert "Verified" not in page.text
            assert _rows(page) or "Nothing was released." in page.text
        gate.set()
        for path in ("/desk/audit", f"/desk/audit/report?account={account}"):
            page = _looked_at_until(chief, path, lambda page: not _goes_on(page))
            assert "Verified" in page.text


def _goes_on(page: Page) -> bool:
    return bool(page.tree.xpath("//*[@data-follow]"))


def _looked_at_until(browsing: Browsing, path: str, is_there: Callable[[Page], bool]) -> Page:
    limit = time.monotonic() + PATIENCE_S
    while not is_there(page := browsing.open(path)):
        assert time.monotonic() < limit
    return page


def test_entries_of_every_account_are_filtered(admin: httpx.Client, curator: Browsing) -> None:
    mine, other = upload(admin), upload(admin)
    person = make_key(admin, "analyst")["person"]
    for dataset in (mine, other):
        ask(admin, dataset["id"], epsilon="0.25")
    grant = {"epsilon": "1", "reason": "the board's decision"}
    admin.post(f"/v1/datasets/{mine['id']}/grants", json=grant).raise_for_status()
    cap = {"person": person, "epsilon": "0.5", "reason": f"first {uuid4()}"}
    admin.put(f"/v1/datasets/{mine['id']}/caps", json=cap).raise_for_status()
    every = curator.open("/desk/audit")
    named = {row[0] for row in _rows(every)}
    assert {mine["name"], other["name"], "the service"} <= named
    assert f"person: {person}; reason: {cap['reason']}" in every.text
    whole = curator.open(f"/desk/audit?account={mine['account']}")
    assert [row[1] for row in _rows(whole)] == ["3 grant", "2 debit", "1 open"]
    assert {row[0] for row in _rows(whole)} == {mine["name"]}
    form = whole.form("Show")
    # A list of choices, or where there are many data sets a field for a name.
    assert form.fields["account"] in (mine["account"], mine["name"])
    for called in (mine["account"], mine["id"], mine["name"]):
        assert _rows(curator.send(whole, "Show", account=called)) == _rows(whole)
    unknown = curator.send(whole, "Show", account="a name that no data set has")
    assert "No entry is like that." in unknown.text
    grants = curator.send(whole, "Show", kind="grant")
    assert [(row[1], row[3], row[4].split("Hash")[0]) for row in _rows(grants)] == [
        ("3 grant", "1", "the board's decision"),
    ]  # fmt: skip
    nobody = curator.send(whole, "Show", person="nobody of this name")
    assert "No entry is like that." in nobody.text


def test_what_seals_results_is_on_no_page(admin: httpx.Client, curator: Browsing) -> None:
    settled(admin, ask(admin, upload(admin)["id"]))
    page = curator.open("/desk/audit")
    assert not {"result", "checkpoint"} & {row[1] for row in _rows(page)}
    # nor do places or hashes of the system's entries tell how many lie between
    for row in page.tree.xpath("//section[@aria-labelledby='ledger']//tbody/tr"):
        if row.xpath("string(td[1])") == "the service":
            assert not row.xpath(".//summary")
            assert not row.xpath("string(td[2])").strip()[0].isdigit()


def test_who_saw_a_result_that_is_not_public_is_listed(
    admin: httpx.Client, curator: Browsing, analyst: Browsing
) -> None:
    release = settled(admin, ask(admin, upload(admin)["id"])).json()["id"]
    curator.open(f"/desk/releases/{release}")
    page = curator.open("/desk/audit")
    rows = page.tree.xpath("//section[@aria-labelledby='seen']//tbody/tr")
    assert release in {row.xpath("string(td[3])") for row in rows}
    assert "Who saw" not in analyst.open("/desk/audit").text


def test_a_long_ledger_is_paged(admin: httpx.Client, curator: Browsing) -> None:
    dataset = upload(admin, budget={"epsilon": "1000"})
    for _ in range(26):
        grant = {"epsilon": "1", "reason": "more"}
        admin.post(f"/v1/datasets/{dataset['id']}/grants", json=grant).raise_for_status()
    page = curator.open(f"/desk/audit?account={dataset['account']}")
    assert len(_rows(page)) == 25
    # the list of who saw what has a way of its own
    rest = curator.open(page.tree.xpath("//nav[@aria-label='Pages']/a[@rel='next']")[0].get("href"))
    assert [row[1] for row in _rows(rest)] == ["2 grant", "1 open"]
    own = f"/desk/audit?account={dataset['account']}"
    assert (rest.links()["First page"], rest.links()["Previous page"]) == (own, own)
    third = curator.open(f"{own}&page=3")
    assert third.links()["Previous page"] == f"{own}&page=2"
    curator.open("/desk/audit?page=x", status=404)


def test_an_analyst_sees_their_own_and_no_ledger(
    admin: httpx.Client, analyst: Browsing, curator: Browsing
) -> None:
    dataset = upload(admin)
    ask(admin, dataset["id"], {**MEAN, "columns": ["food"]})
    page = analyst.open("/desk/audit")
    assert page.heading == "Audit"
    assert "mean of food" not in page.text
    assert not page.tree.xpath("//form[.//button[normalize-space()='Verify now']]")
    for query in (f"?account={dataset['account']}", "?kind=grant"):
        shown = analyst.open(f"/desk/audit{query}")
        assert dataset["name"] not in shown.text
    assert analyst.client.post("/desk/audit", data={"form_key": "x"}).status_code == 403


def test_a_walk_that_takes_long_goes_on_and_is_waited_for_once() -> None:
    walks: list[str] = []

    class Slow(AuditService):
        def __init__(self) -> None:
            self.gate = asyncio.Event()
            super().__init__(None, None)  # type: ignore[arg-type]

        async def verify(self) -> Verification:
            walks.append("begun")
            await self.gate.wait()
            return Verification(entries=0, head="")

    async def scenario() -> None:
        slow = Slow()
        for _ in range(2):
            slow.begin()
            assert await slow.look(wait_s=0) == Looked(last=None, percent=0)
        slow.gate.set()
        assert (await slow.look(wait_s=5)).percent is None

    asyncio.run(scenario())
    assert walks == ["begun"]


def test_the_ledger_the_decisions_and_the_views_are_files(
    admin: httpx.Client, curator: Browsing, analyst: Browsing
) -> None:
    dataset = upload(admin, name="=Exported <b>")
    release = settled(admin, ask(admin, dataset["id"], epsilon="0.25")).json()["id"]
    grant = {"epsilon": "1", "reason": "the board's decision"}
    admin.post(f"/v1/datasets/{dataset['id']}/grants", json=grant).raise_for_status()
    page = curator.open(f"/desk/audit?account={dataset['account']}")
    curator.open(f"/desk/releases/{release}")
    links = page.links()
    entries = curator.client.get(links["Ledger as JSON"]).json()
    assert [(each["seq"], each["kind"]) for each in entries] == [
        (3, "grant"), (2, "debit"), (1, "open")
    ]  # fmt: skip
    debit = entries[1]
    assert (debit["amount"], debit["unit"], debit["release"]) == ("0.25", "epsilon", release)
    assert (debit["role"], debit["spent_after"]) == ("admin", "0.25")
    lines = list(csv.DictReader(io.StringIO(curator.client.get(links["Ledger as CSV"]).text)))
    assert [line["kind"] for line in lines] == ["grant", "debit", "open"]
    assert {line["dataset_name"] for line in lines} == {"'=Exported <b>"}
    decisions = curator.client.get(links["Decisions as JSON"]).json()
    assert "the board's decision" in {each["note"] for each in decisions}
    assert not {"debit", "open", "result", "checkpoint", "review_vote"} & {
        each["kind"] for each in decisions
    }
    seen = curator.client.get(links["Views as CSV"]).text
    assert release in {line["release"] for line in csv.DictReader(io.StringIO(seen))}
    assert release in {
        each["release"] for each in curator.client.get(links["Views as JSON"]).json()
    }
    system = curator.client.get("/desk/audit/ledger.json").json()
    assert all(each["seq"] is None and each["hash"] is None for each in system if not each["unit"])
    empty = "/desk/audit/ledger.json?person=a+name+without+entries"
    assert curator.client.get(empty).json() == []
    assert curator.client.get(empty.replace("json", "csv")).text == ""
    for path in ("ledger.csv", "views.json", "report"):
        assert analyst.client.get(f"/desk/audit/{path}").status_code == 403
    assert curator.client.get("/desk/audit/other.csv").status_code == 404


def test_an_export_in_parts_has_each_entry_once(
    admin: httpx.Client, curator: Browsing, monkeypatch: pytest.MonkeyPatch
) -> None:
    account = upload(admin, budget={"epsilon": "50"})
    for _ in range(6):
        ask(admin, account["id"], epsilon="0.25")
    monkeypatch.setattr(audit, "_PART", 3)
    path = f"/desk/audit/ledger.csv?account={account['account']}"
    lines = list(csv.DictReader(io.StringIO(curator.client.get(path).text)))
    assert [int(line["seq"]) for line in lines] == [7, 6, 5, 4, 3, 2, 1]


def test_a_report_says_who_asked_for_what_why_and_what_is_left(
    admin: httpx.Client, curator: Browsing
) -> None:
    dataset = upload(admin, budget={"epsilon": "3"}, description="One street.")
    ask(admin, dataset["id"], epsilon="1", purpose="Table <2>").raise_for_status()
    page = curator.open(f"/desk/audit?account={dataset['account']}")
    report = curator.open(page.links()["Report on this account"])
    assert dataset["name"] in report.heading
    for said in ("One street.", "Table <2>", "is at most 73% sure", "no review required"):
        assert said in report.text, said
    cells = report.tree.xpath("//section[@aria-labelledby='budget']//td/text()")
    assert cells == ["3", "1", "0", "2"]
    assert "Report on this account" not in curator.open("/desk/audit").links()
    curator.open("/desk/audit/report?account=acc_0", status=404)
    curator.open("/desk/audit/report", status=404)
