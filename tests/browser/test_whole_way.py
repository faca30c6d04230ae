"""From a file to a public page, by three people in a real browser; and what must not happen."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from random import Random
from typing import Any

import httpx
import pytest
from playwright.sync_api import FilePayload, Page, expect

from tests.browser.elsewhere import elsewhere
from tests.browser.visiting import Keyboard, Mouse, Visits, confirm, sign_in
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
    # nearly each of its cells has a text of its own, so the draft leaves it out
    expect(page.get_by_role("combobox", name="remark type")).to_have_value("left out")


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
    by.choose(page.get_by_role("combobox", name="Same people"), "no")
    if not script:
        by.take(page.get_by_label("File"), unsound)
    by.press(page.get_by_role("button", name="Upload"))
    expect(page.get_by_role("alert")).to_contain_text(str(ROWS + 1))
    looked_at(page)
    by.take(page.get_by_label("File"), sound)
    if script:  # a file that is chosen fills the table again, and keeps what was filled in
        expect(page.get_by_role("status").first).to_contain_text("columns of the file")
    by.press(page.get_by_role("button", name="Upload"))
    expect(page.get_by_role("heading", name="How the file was read")).to_be_visible()
    looked_at(page)
    by.press(page.get_by_role("button", name="Create data set"))
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
    looked_at(page, "Approve this release?")
    confirm(by, "Approve", heading="Approve this release?")
    expect(page.get_by_text("Your vote is in the ledger")).to_be_visible()
    looked_at(page)
    page.goto(f"/desk/releases/{release}")
    publish = page.get_by_role("button", name="Publish")
    expect(publish).to_be_visible()
    looked_at(page)
    by.fill(page.get_by_role("textbox", name="Reason"), "For the yearly report")
    by.press(publish)
    looked_at(page, "Publish this release?")
    confirm(by, "Publish", heading="Publish this release?")
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
        one.get_by_role("button", name="Approve").click()
        one.get_by_role("checkbox", name="I understand that this cannot be undone").check()
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


@pytest.mark.parametrize("script", [True, False], ids=["script", "no script"])
def test_a_double_click_confirms_nothing(
    visits: Visits, admin: httpx.Client, people: dict[str, str], script: bool
) -> None:
    """Neither the box is ticked by it, nor is the button there for its second click."""
    dataset = upload(admin, budget={"epsilon": "10"})["id"]
    budget = f"/v1/datasets/{dataset}/budget"
    with visits.window(people["uploader"], java_script_enabled=script) as page:
        page.goto(f"/desk/datasets/{dataset}/grants")
        page.get_by_role("textbox", name="Epsilon").fill("1e3")
        page.get_by_role("textbox", name="Reason").fill("The board decided on 3 May.")
        page.get_by_role("button", name="Grant").dblclick(no_wait_after=True)
        expect(page.get_by_role("heading", level=1)).to_have_text("Grant epsilon 1,000?")
        resting = page.get_by_role("button", name="Grant").evaluate(
            "button => { const [rest] = button.getAnimations(); rest.pause(); rest.currentTime = 1;"
            " const before = getComputedStyle(button).pointerEvents; rest.finish();"
            " return [before, getComputedStyle(button).pointerEvents]; }"
        )
        assert resting == ["none", "auto"]
        assert admin.get(budget).json()["epsilon"]["total"] == "10"
        page.get_by_role("textbox", name="Epsilon again").fill("1000")
        page.get_by_role("checkbox", name="I understand that this cannot be undone").check()
        page.get_by_role("button", name="Grant").dblclick(no_wait_after=True)
        expect(page.get_by_text("The grant is in the ledger.")).to_be_visible()
        assert admin.get(budget).json()["epsilon"]["total"] == "1010"


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
        confirm(Mouse(page), "Archive", heading="Archive")
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


SURVEY = (
    "Survey of the wards\n\n"
    '"Q1. Who\nare you?";"Q2. Your town, please";born;seen;own;"pay (EUR)";remark\n'
    + "".join(
        f"{7 + n:03d};{('1', ' 2 ')[n % 2]};{1 + n % 28}.03.19{50 + n};"
        f"09/03/2024 {n % 24:02d}:30;{('ja', 'nein')[n % 2]};{n + 1}.234,5;"
        f"{('gut', 'schön')[n % 2]}\n"
        for n in range(40)
    )
)
WRITTEN = {
    "Q2. Your town, please type": "category", "born type": "date",
    "seen type": "datetime", "own type": "boolean", "pay (EUR) type": "number",
    "remark type": "category",
}  # fmt: skip
FIELDS = {
    "Q2. Your town, please values": "1\n2",
    "Q2. Your town, please labels": "1 = Köln\n2 = Århus",
    "Q2. Your town, please source": "Q2. Your town, please",
    "Q2. Your town, please missing": "keep",
    "born lower": "1900-01-01", "born upper": "2020-12-31", "born format": "%d.%m.%Y",
    "seen lower": "2024-01-01", "seen upper": "2024-12-31", "seen format": "%d/%m/%Y %H:%M",
    "seen timezone": "Europe/Berlin", "own true": "ja", "own false": "nein",
    "pay (EUR) lower": "0", "pay (EUR) upper": "100000", "pay (EUR) na": "-99",
    "remark values": "gut\nschön",
}  # fmt: skip
"""What a file of other habits needs, by the fields' names on the page."""


def test_every_field_of_how_a_file_is_written_is_filled_in_by_hand(
    visits: Visits, admin: httpx.Client, people: dict[str, str]
) -> None:
    file: FilePayload = {
        "name": "survey.csv", "mimeType": "text/csv", "buffer": SURVEY.encode("cp1252"),
    }  # fmt: skip
    with visits.window(people["uploader"]) as page:
        by = Mouse(page)
        page.goto("/desk/datasets/new")
        by.take(page.get_by_label("File"), file)
        expect(page.get_by_role("combobox", name="born type")).to_be_visible()
        page.get_by_text("More: how the file is written").click()
        for name, value in (("Encoding", "windows-1252"), ("Skip rows", "2")):
            expect(page.get_by_label(name, exact=True)).to_have_value(value)
        for name, value in WRITTEN.items():
            if page.get_by_role("combobox", name=name, exact=True).count():
                by.choose(page.get_by_role("combobox", name=name, exact=True), value)
        for each in page.locator("table.declare summary").all():
            each.click()
        for name, value in FIELDS.items():
            by.fill(page.get_by_role("textbox", name=name, exact=True), value)
        by.choose(page.get_by_label("Q2. Your town, please trim", exact=True), "yes")
        by.fill(page.get_by_role("textbox", name="Name", exact=True), "A survey by hand")
        by.choose(page.get_by_label("Adjacency", exact=True), "add_remove")
        by.fill(page.get_by_label("Max rows", exact=True), "100")
        by.fill(page.get_by_label("Epsilon budget", exact=True), "3")
        by.choose(page.get_by_role("combobox", name="Same people"), "no")
        by.choose(page.get_by_label("Decimal mark", exact=True), ",")
        by.choose(page.get_by_label("Thousands separator", exact=True), ".")
        by.fill(page.get_by_label("Person identifier", exact=True), "Q1. Who\nare you?")
        by.fill(page.get_by_label("Maximum rows per person", exact=True), "1")
        by.choose(page.get_by_label("Person ids", exact=True), "text")
        reduced = page.get_by_label("One row per person", exact=True)
        by.fill(reduced, "pay (EUR) = mean\nborn: first")
        by.press(page.get_by_role("button", name="Upload"))
        expect(page.get_by_role("heading", name="How the file was read")).to_be_visible()
        by.press(page.get_by_role("button", name="Create data set"))
        looked_at(page, "A survey by hand")
        made = admin.get(f"/v1/datasets/{page.url.partition('?')[0].rpartition('/')[2]}").json()
    columns = made["columns"]
    assert made["unit"]["id"] == "text"
    assert made["unit"]["reduce"] == {"pay (EUR)": "mean", "born": "first"}
    assert made["unit"]["column"] == "Q1. Who\nare you?"
    town = columns["Q2. Your town, please"]
    assert town["labels"] == {"1": "Köln", "2": "Århus"}
    assert columns["seen"]["timezone"] == "Europe/Berlin"
    assert columns["pay (EUR)"] | {"decimal": ",", "thousands": "."} == columns["pay (EUR)"]
    assert columns["own"] | {"true": ["ja"], "false": ["nein"]} == columns["own"]
