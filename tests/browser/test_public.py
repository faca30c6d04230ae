"""The public pages in a real browser: two widths and themes, without script, and on paper."""

from __future__ import annotations

import httpx
import pytest
from playwright.sync_api import expect

from tests.browser.visiting import Visits, faults_in_all
from tests.contract.service import ask, upload

pytestmark = pytest.mark.slow

LONG = "A survey with a very long name of households, their rooms and what they eat, " + "2025" * 5


@pytest.fixture(scope="module")
def public(admin: httpx.Client) -> tuple[str, str]:
    """Return the address of a public release, and of one that was withdrawn."""
    dataset = upload(admin, name=LONG)["id"]
    addresses = []
    for question in (
        {"kind": "linear_regression", "target": "food", "features": ["income"]},
        {"kind": "histogram", "columns": ["region", "owner"]},
    ):
        release = ask(admin, dataset, question).json()["id"]
        path, seen = f"/v1/releases/{release}/publication", {"If-Match": "*"}
        assert admin.post(path, json={"reason": "to look at"}, headers=seen).status_code == 201
        addresses.append(f"/public/releases/{release}")
    note = {"note": "to look at this too"}
    assert admin.post(f"{path}/withdrawal", json=note).status_code == 200
    return addresses[0], addresses[1]


def test_every_page_can_be_read_by_everybody(visits: Visits, public: tuple[str, str]) -> None:
    """Nothing that axe finds, an empty console, and no page wider than the window."""
    visits.expected.add(410)
    with visits.window() as page:
        for address in ("/public", public[0], f"{public[0]}/certificate", public[1]):
            page.goto(address)
            expect(page.get_by_role("heading", level=1)).to_be_visible()
            assert faults_in_all(page) == []


def test_a_release_is_found_and_read_without_script(
    visits: Visits, public: tuple[str, str]
) -> None:
    with visits.window(java_script_enabled=False) as page:
        page.goto("/public")
        page.get_by_role("searchbox", name="Words").fill("households regression")
        page.get_by_role("combobox", name="Statistic").select_option("linear_regression")
        page.get_by_role("button", name="Search").click()
        page.get_by_role("link", name="Linear regression of").click()
        assert page.url.endswith(public[0])
        table = page.get_by_role("table").first
        expect(table.get_by_role("rowheader", name="income")).to_be_visible()
        expect(page.get_by_role("img", name="Numbers of")).to_be_visible()
        page.get_by_role("link", name="Certificate").click()
        expect(page.get_by_role("heading", name="Certificate")).to_be_visible()


def test_the_data_block_is_no_script_that_the_policy_stops(
    visits: Visits, public: tuple[str, str]
) -> None:
    """A browser leaves it be, and says nothing; a search engine reads it."""
    with visits.window() as page:
        page.goto(public[0])
        reported = page.evaluate(
            "JSON.parse(document.querySelector('script[type=\"application/ld+json\"]').textContent)"
        )
        assert reported["@type"] == "Dataset"
        assert LONG in reported["name"]
        badge = page.get_by_role("img", name="Epsilon")
        assert badge.evaluate("image => image.complete && image.naturalWidth > 0")


def test_on_paper_there_is_the_certificate_and_nothing_to_press(
    visits: Visits, public: tuple[str, str]
) -> None:
    with visits.window() as page:
        page.goto(f"{public[0]}/certificate")
        page.emulate_media(media="print")
        expect(page.get_by_role("heading", name="Certificate")).to_be_visible()
        expect(page.get_by_role("link", name="Documentation")).to_be_hidden()


def test_what_is_published_or_withdrawn_is_so_at_once_for_who_has_looked_before(
    visits: Visits, admin: httpx.Client
) -> None:
    """A browser keeps public pages, and asks each time whether they are the newest."""
    visits.expected.add(410)
    dataset = upload(admin, name="Looked at twice")["id"]
    release = ask(admin, dataset).json()["id"]
    path = f"/v1/releases/{release}/publication"
    with visits.window() as page:
        found = page.get_by_role("link", name="Looked at twice")
        page.goto("/public")
        expect(found).to_have_count(0)
        made = admin.post(path, json={"reason": "to look at"}, headers={"If-Match": "*"})
        assert made.status_code == 201
        page.goto("/public")
        found.click()
        expect(page.get_by_role("heading", level=1)).to_contain_text("Mean of income")
        page.go_back()
        withdrawn = admin.post(f"{path}/withdrawal", json={"note": "enough"})
        assert withdrawn.status_code == 200
        page.goto(f"/public/releases/{release}")
        expect(page.get_by_text("This release was withdrawn")).to_be_visible()
