"""From a file to a public page, by three people in a real browser; and what must not happen."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from random import Random
from typing import Any

import httpx
import pytest
from playwright.sync_api import FilePayload, Page, expect

from tests.browser.elsewhere import elsewhere
from tests.browser.visiting import Keyboard, Mouse, Visits, sign_in
from tests.contract.service import Service, ask, make_key, upload

pytestmark = pytest.mark.slow

CELL, WORD = "424242.4242", "zanzibarquorum"
"""What some rows hold and no page may show."""
ROWS = 60


def rows(name: str) -> str:
    """Return the rows of a file; each file is about different people."""
    chance = Random(name)
    wages = chance.sample(range(100, 9_900), ROWS)
    lines = [f"{wage / 100},{chance.choice(('north', 'south'))},{WORD}{wage}" for wage in wages]
    return "\n".join(["wage,ward,remark", *lines, ""])


def chosen(content: str) -> FilePayload:
    return {"name": "wages.csv", "mimeType": "text/csv", "buffer": content.encode()}


def looked_at(page: Page, heading: str | None = None) -> None:
    """Wait for a page, and hold that no private cell is on it."""
    expect(page.get_by_role("heading", level=1)).to_contain_text(heading or "")
    content = page.content()
    assert CELL not in content
    assert WORD not in content


def fill_columns(by: Mouse) -> None:
    page = by.page
    by.choose(page.get_by_role("combobox", name="wage type"), "number")
    by.fill(page.get_by_role("textbox", name="wage lower"), "0")
    by.fill(page.get_by_role("textbox", name="wage upper"), "100")
    by.choose(page.get_by_role("combobox", name="ward type"), "category")
    by.fill(page.get_by_role("textbox", name="ward values"), "north\nsouth")
    by.choose(page.get_by_role("combobox", name="remark type"), "left out")


def upload_by_hand(by: Mouse, name: str, *, script: bool) -> None:
    """Draft, check, be refused for a cell, and upload."""
    page = by.page
    page.goto("/desk")
    unsound = chosen(rows(name) + f"{CELL},{WORD},\n")
    sound = chosen(rows(name) + f"{CELL},north,{WORD}\n")
    by.press(page.get_by_role("link", name="Data sets"))
    by.press(page.get_by_role("link", name="New data set"))
    by.take(page.get_by_label("File"), unsound)
    if not script:
        by.press(page.get_by_role("button", name="Draft"))
    expect(page.get_by_role("textbox", name="wage lower")).to_be_visible()
    by.fill(page.get_by_role("textbox", name="Name", exact=True), name)
    by.choose(page.get_by_role("combobox", name="Review", exact=True), "always")
    by.press(page.get_by_role("button", name="Check"))
    expect(page.get_by_role("alert")).to_contain_text("wage lower")
    expect(page.get_by_role("alert")).to_contain_text("Epsilon budget")
    fill_columns(by)
    by.fill(page.get_by_role("textbox", name="Epsilon budget"), "4")
    if not script:
        by.take(page.get_by_label("File"), unsound)
    by.press(page.get_by_role("button", name="Upload"))
    expect(page.get_by_role("alert")).to_contain_text(str(ROWS + 1))
    looked_at(page)
    by.take(page.get_by_label("File"), sound)
    if script:  # a file that is chosen fills the table anew, and keeps what was filled in
        expect(page.get_by_role("status").first).to_contain_text("columns of the header")
    by.press(page.get_by_role("button", name="Upload"))
    looked_at(page, name)


def ask_by_hand(by: Mouse, name: str, *, script: bool) -> None:
    """Find the data set, preview a mean, and ask for it."""
    page = by.page
    page.goto("/desk")
    by.press(page.get_by_role("link", name="Data sets"))
    by.press(page.get_by_role("link", name=name))
    looked_at(page, name)
    by.press(page.get_by_role("link", name="Ask", exact=True))
    by.choose(page.get_by_role("combobox", name="Statistic"), "mean")
    if not script:
        by.press(page.get_by_role("button", name="Choose"))
    expect(page.get_by_role("checkbox", name="wage")).to_be_visible()
    by.tick(page.get_by_role("checkbox", name="wage"))
    by.tick(page.get_by_role("radio", name="Epsilon"))
    by.fill(page.get_by_role("textbox", name="Epsilon"), "0.5")
    by.fill(page.get_by_role("textbox", name="Purpose"), "The yearly table,\nand its notes")
    by.press(page.get_by_role("button", name="Preview"))
    expect(page.get_by_role("region", name="Preview")).to_contain_text("Expected error")
    looked_at(page)
    by.press(page.get_by_role("button", name="Release"))
    looked_at(page, "Release this?")
    by.press(page.get_by_role("button", name="Release"))
    looked_at(page, f"Mean of {name}")


def review_by_hand(by: Mouse, name: str) -> None:
    """Find the request, approve it, and make its release public."""
    page = by.page
    page.goto("/desk")
    looked_at(page, "Release Desk")
    row = page.get_by_role("row").filter(has_text=name)
    by.press(row.get_by_role("link").first)
    looked_at(page, name)
    expect(page.get_by_text("The yearly table").first).to_be_visible()
    release = page.url.rpartition("/")[2]
    by.fill(page.get_by_role("textbox", name="Reason"), "It is within the protocol")
    by.press(page.get_by_role("button", name="Approve"))
    expect(page.get_by_text("Your vote is in the ledger")).to_be_visible()
    looked_at(page)
    page.goto(f"/desk/releases/{release}")
    publish = page.get_by_role("button", name="Publish")
    expect(publish).to_be_visible()
    looked_at(page)
    by.fill(page.get_by_role("textbox", name="Reason"), "For the yearly report")
    by.press(publish)
    expect(page.get_by_text("The release is public now.")).to_be_visible()
    looked_at(page)


@pytest.fixture(scope="module")
def people(admin: httpx.Client) -> dict[str, str]:
    roles = {"uploader": "curator", "analyst": "analyst", "reviewer": "curator"}
    return {name: str(make_key(admin, role)["secret"]) for name, role in roles.items()}


WAYS: Mapping[str, tuple[type[Mouse], bool]] = {
    "with script": (Mouse, True), "without script": (Mouse, False), "by keyboard": (Keyboard, True),
}  # fmt: skip
"""By which hand, and with script or without."""


@pytest.mark.parametrize("way", WAYS)
def test_a_file_becomes_a_public_page(
    visits: Visits, service: Service, people: dict[str, str], way: str
) -> None:
    hand, script = WAYS[way]
    options: dict[str, Any] = {"java_script_enabled": script}
    name = f"Wages of the wards, {way}"
    visits.expected.add(422)
    with visits.window(people["uploader"], **options) as page:
        upload_by_hand(hand(page), name, script=script)
    with visits.window(people["analyst"], **options) as page:
        ask_by_hand(hand(page), name, script=script)
        looked_at(page)
        with visits.window(people["reviewer"], **options) as other:
            review_by_hand(hand(other), name)
        page.reload()
        expect(page.get_by_role("link", name="Download JSON")).to_be_visible()
        looked_at(page)
    with visits.window(**options) as page:
        page.goto("/public")
        hand(page).press(page.get_by_role("link", name=name).first)
        looked_at(page)
        expect(page.get_by_role("table").first).to_contain_text("wage")
        with service.client(None) as program:
            for kind in ("json", "csv"):
                answer = program.get(f"{page.url}.{kind}")
                assert answer.status_code == 200
                assert CELL not in answer.text
                assert WORD not in answer.text


def test_the_private_cells_would_be_seen(visits: Visits) -> None:
    """The twin: a page that shows one is found out."""
    with visits.window() as page:
        page.set_content(f"<h1>A page</h1><p>{WORD}</p>")
        with pytest.raises(AssertionError):
            looked_at(page, "A page")


@pytest.fixture
def waiting(admin: httpx.Client, service: Service, people: dict[str, str]) -> str:
    """Return a release that waits for a review."""
    dataset = upload(admin, policy={"review": "always"})["id"]
    with service.client(people["analyst"]) as program:
        return str(ask(program, dataset).json()["id"])


def test_of_two_reviewers_at_once_one_wins_and_the_other_is_told(
    visits: Visits, people: dict[str, str], waiting: str
) -> None:
    visits.expected |= {409, 412}
    with visits.window(people["reviewer"]) as one, visits.window(people["uploader"]) as two:
        for page in (one, two):
            page.goto(f"/desk/reviews/{waiting}")
            page.get_by_role("textbox", name="Reason").fill("My reason")
        for page, button in ((one, "Approve"), (two, "Reject")):
            found = page.get_by_role("button", name=button)
            found.evaluate("button => void setTimeout(() => button.click())")
        won = 0
        for page in (one, two):
            done, told = page.get_by_text("Your vote is in the ledger"), page.get_by_role("alert")
            expect(done.or_(told).first).to_be_visible()
            won += done.count()
            if not done.count():
                expect(told.first).to_contain_text("My reason")
        assert won == 1


@pytest.fixture(params=["127.0.0.1", "localhost"], ids=["another port", "another site"])
def other_site(request: pytest.FixtureRequest) -> Iterator[str]:
    with elsewhere() as port:
        yield f"http://{request.param}:{port}"


def test_a_form_of_another_site_does_nothing(
    visits: Visits, admin: httpx.Client, people: dict[str, str], other_site: str
) -> None:
    """With another port the browser sends the cookie along; the post is refused all the same."""
    visits.expected |= {401, 403}
    dataset = upload(admin)["id"]
    archive = f"/desk/datasets/{dataset}/archive"
    with visits.window(people["uploader"]) as page:
        page.goto(f"{other_site}/?{visits.url}{archive}")
        page.get_by_role("button", name="Win").click()
        page.wait_for_url(f"{visits.url}/**")
        expect(page.get_by_role("heading", level=1)).to_be_visible()
        assert admin.get(f"/v1/datasets/{dataset}").json()["status"] == "active"
        page.goto(archive)
        page.get_by_role("button", name="Archive").click()
        expect(page.get_by_text("The data set is archived.")).to_be_visible()


def test_the_back_button_after_signing_out_shows_nothing_of_the_desk(
    visits: Visits, people: dict[str, str]
) -> None:
    with visits.window() as page:
        sign_in(page, people["uploader"])
        page.goto("/desk/datasets")
        page.get_by_role("button", name="Sign out").click()
        expect(page.get_by_role("textbox", name="API key")).to_be_visible()
        page.go_back()
        expect(page.get_by_role("textbox", name="API key")).to_be_visible()
        sign_in(page, people["uploader"])
