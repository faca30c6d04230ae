"""Search: what is found, and that what is hidden from a person is not."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from uuid import uuid4

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.policies import Role
from app.services.people.keys import Caller
from app.services.releases.public_moments import PublicMoments
from app.services.searching import MOST_CHARACTERS, Found, SearchService, words_of
from app.store import UnitOfWork
from tests.app.ledgers import ANALYST, BACKENDS, opened, place_on
from tests.contract.service import Service, ask, make_key, upload
from tests.contract.test_access import restrict
from tests.desk.browsing import Browsing, Page, person, signed_in

MOST_BYTES = 60_000
LONGEST_S = 0.5
CURATOR = Caller(key="key_cleo", person="cleo", role=Role.CURATOR)


def search(browsing: Browsing, query: str) -> Page:
    answer = browsing.client.get("/desk/search", params={"q": query})
    assert answer.status_code == 200, answer.text
    assert len(answer.content) < MOST_BYTES
    return Page(answer)


def found(page: Page, section: str = "") -> set[str]:
    """Return the ends of the addresses that a search shows, of all its sections unless one."""
    inside = f"[@aria-labelledby='{section}']" if section else ""
    links = page.tree.xpath(f"//main/section{inside}//li/a/@href")
    return {str(each).rpartition("/")[2] for each in links}


@pytest.fixture(scope="module")
def words() -> tuple[str, str]:
    """Return words that no other test has written: of a name, and of a description."""
    return f"Orchard{uuid4().hex}", f"hänge{uuid4().hex}"


@pytest.fixture(scope="module")
def dataset(admin: httpx.Client, words: tuple[str, str]) -> str:
    name, text = words
    return str(upload(admin, name=f"{name} 1957", description=f"In der {text.upper()}")["id"])


def test_a_data_set_is_found_by_its_facts(
    analyst: Browsing, dataset: str, words: tuple[str, str]
) -> None:
    name, text = words
    for query in (name, name.lower(), name[3:20], f"1957 {name}", text, f"{name} income", dataset):
        assert found(search(analyst, query), "sets") == {dataset}, query
    for query in (f"{name} x{uuid4().hex}", f"{name[:8]}_{name[9:]}", "max_rows"):
        assert dataset not in found(search(analyst, query)), query


def test_an_edited_description_is_found_and_the_old_one_is_not(
    admin: httpx.Client, analyst: Browsing
) -> None:
    old, new = f"old{uuid4().hex}", f"new{uuid4().hex}"
    made = upload(admin, description=old)["id"]
    assert found(search(analyst, old), "sets") == {made}
    edit = {"description": new, "reason": "a test"}
    admin.patch(f"/v1/datasets/{made}", json=edit).raise_for_status()
    assert found(search(analyst, new), "sets") == {made}
    assert found(search(analyst, old), "sets") == set()


def test_a_release_is_found_by_who_may_see_it(
    service: Service, admin: httpx.Client, dataset: str, words: tuple[str, str]
) -> None:
    key, purpose = make_key(admin, "analyst"), f"thesis{uuid4().hex}"
    with service.client(key["secret"]) as program, signed_in(service, key["secret"]) as own:
        answer = ask(program, dataset, epsilon="0.01", purpose=purpose)
        release = answer.json()["id"]
        for query in (purpose, purpose.upper(), f"mean of income {words[0]}", release):
            assert release in found(search(own, query), "releases"), query
    for role, sees in {
        "analyst": False, "reviewer": True, "auditor": True, "curator": True, "admin": True,
    }.items():  # fmt: skip
        with person(service, admin, role) as browsing:
            for query in (purpose, release, words[0]):
                page = search(browsing, query)
                assert (release in found(page)) is sees, (role, query)
                assert sees or query == release or release not in page.answer.text


def test_what_is_restricted_is_not_found(
    service: Service, admin: httpx.Client, curator: Browsing
) -> None:
    name, inside = f"Secret{uuid4().hex}", make_key(admin, "analyst")
    made = upload(admin, name=name)["id"]
    release = ask(admin, made, epsilon="0.01").json()["id"]
    assert found(search(curator, name)) == {made, release}
    assert restrict(admin, made, persons=[inside["person"]]).status_code == 200
    assert found(search(curator, name)) == set()
    assert "Nothing contains all of these words." in search(curator, name).text
    with signed_in(service, inside["secret"]) as named:
        assert found(search(named, name)) == {made}
    with person(service, admin, "auditor") as auditor:
        assert found(search(auditor, name)) == {made, release}


def test_documents_are_found(analyst: Browsing) -> None:
    page = search(analyst, "quickstart")
    links = page.tree.xpath("//section[@aria-labelledby='documents']//a/@href")
    assert links
    assert all(each.startswith("/docs") for each in links)
    for each in links[:3]:
        assert analyst.client.get(each).status_code == 200


def test_every_page_has_the_field(analyst: Browsing, dataset: str, words: tuple[str, str]) -> None:
    for path in ("/desk", f"/desk/datasets/{dataset}"):
        (form,) = analyst.open(path).tree.xpath("//header//form[@role='search']")
        assert (form.action, form.method, list(form.fields)) == ("/desk/search", "GET", ["q"])
    page = analyst.open("/desk/search")
    assert len(page.tree.xpath("//*[@role='search']")) == 1
    assert found(page) == set()
    assert found(analyst.send(page, "Search", q=words[0]), "sets") == {dataset}


def test_shortcuts_are_listed_and_lead_to_pages(analyst: Browsing, chief: Browsing) -> None:
    for browsing, letters in ((analyst, "hdrva"), (chief, "hdrvka")):
        page = browsing.open("/desk/search")
        goes = {each.get("data-go"): each.get("href") for each in page.tree.xpath("//*[@data-go]")}
        listed = page.tree.xpath("//section[@aria-labelledby='shortcuts']//dt/kbd[last()]/text()")
        assert [*goes] == list(letters)
        assert listed == ["/", *letters]
        assert goes["d"] == "/desk/datasets"
        for address in goes.values():
            browsing.open(address)
        assert browsing.open("/desk").links()["Keyboard shortcuts"] == "/desk/search#shortcuts"


ODD = (
    "<script>alert(1)</script>", "\"'><b>", "%", "_", "\\", "/", "' OR 1=1 --", "\x00", "a\x00b",
    "{{ 7 * 7 }}", "é" * 500, "a " * 5_000, "\ud7ff\U0010ffff", "İ", "ß", ".", "-", "\r\n", " ",
)  # fmt: skip


@pytest.mark.parametrize("query", ODD)
def test_odd_words_are_shown_as_text(analyst: Browsing, query: str) -> None:
    page = search(analyst, query)
    (field,) = page.tree.xpath("//input[@name='q']")
    assert "<script>a" not in page.answer.text
    assert "<b>" not in page.answer.text
    assert len(field.get("value")) <= MOST_CHARACTERS


@pytest.mark.parametrize(
    "sent", ["", "?q", "?q=%", "?q=%FF%FE", "?q=%ED%A0%80", "?q=a&q=b", "?q[]=a", "?done=x"]
)
def test_odd_addresses_have_an_answer(analyst: Browsing, sent: str) -> None:
    assert analyst.client.get(f"/desk/search{sent}").status_code == 200


@given(st.text(max_size=300))
def test_words_are_few_small_and_plain(query: str) -> None:
    words = words_of(query)
    assert len(words) <= 8
    assert all(each and not set(each) & set("%\\\x00\"'") for each in words)


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_thousand_data_sets_are_searched_in_little_time(backend: str, tmp_path: Path) -> None:
    columns = {f"column_{at}": {"label": f"Question {at}"} for at in range(50)}
    spec = json.dumps({"description": "Größe", "columns": columns})
    with place_on(backend, tmp_path / "many") as place, opened(place, total=10_000) as ledger:
        account = ledger.account
        made = [f"set {at} of a thousand" for at in range(1_000)]

        def fill(u: UnitOfWork) -> None:
            for name in made:
                u.datasets.insert(name=name, account=account, spec=spec, rows=3, principal="cleo")

        ledger.store.write(fill)
        asked = {"statistic": {"kind": "mean", "columns": ["income"]}, "epsilon": "1"}
        for at in range(3):
            ledger.debit(str(at), request=json.dumps({**asked, "purpose": f"purpose {at}"}))
        service = SearchService(ledger.store, PublicMoments(0))
        expected = {
            "set 7 thousand größe GRÖSSE": [], "set 712 thousand größe question": [made[712]],
            "GRÖßE column_49 set": made[:-21:-1], "nothing like this": [],
        }  # fmt: skip
        began = time.process_time()
        for query, names in expected.items():
            found = service.find(query, caller=CURATOR, limit=20)
            assert [each.name for each in found.datasets] == names, query
        assert (time.process_time() - began) / len(expected) < LONGEST_S
        assert (
            len(service.find("mean income purpose people", caller=CURATOR, limit=2).releases) == 2
        )
        hidden = replace(CURATOR, hidden=frozenset({account}))
        assert service.find("thousand", caller=hidden, limit=20) == Found([], [], {})
        assert service.find("purpose", caller=hidden, limit=20) == Found([], [], {})
        ann, bob = (
            Caller(key="key", person=each, role=Role.ANALYST) for each in (ANALYST, "person_bob")
        )
        assert len(service.find("purpose", caller=ann, limit=20).releases) == 3
        assert service.find("purpose", caller=bob, limit=20).releases == []


def test_only_the_newest_are_searched(tmp_path: Path) -> None:
    with opened(tmp_path / "newest") as ledger:
        for name in ("first", "second"):
            ledger.store.write(partial(_insert, ledger.account, name))
        with ledger.store.reading() as reader:
            for newest, names in ((2, ["second", "first"]), (1, ["second"])):
                found = reader.datasets.named(["s"], newest=newest, limit=5)
                assert [each.name for each in found] == names


def _insert(account: str, name: str, u: UnitOfWork) -> None:
    u.datasets.insert(name=name, account=account, spec="{}", rows=3, principal="cleo")
