"""From a file to a public page, by three people in a real browser; and what must not happen."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from playwright.sync_api import FilePayload, Page, expect

from tests.browser.elsewhere import elsewhere
from tests.browser.visiting import Visits, sign_in
from tests.contract.service import Service, ask, make_key, upload

pytestmark = pytest.mark.slow

CELL, WORD = "424242.4242", "zanzibarquorum"
"""What some rows hold and no page may show."""
ROWS = 60


def rows(*, script: bool) -> str:
    """Return the rows of a file; the two files are about different people."""
    step, turn = (1, 3) if script else (1.5, 4)
    wages = [(at + 0.25) * step for at in range(ROWS)]
    wards = ["south" if at % turn else "north" for at in range(ROWS)]
    lines = [f"{wage},{ward},{WORD}{wage}" for wage, ward in zip(wages, wards, strict=True)]
    return "\n".join(["wage,ward,remark", *lines, ""])


def chosen(content: str) -> FilePayload:
    return {"name": "wages.csv", "mimeType": "text/csv", "buffer": content.encode()}


def looked_at(page: Page, heading: str | None = None) -> None:
    """Wait for a page, and hold that no private cell is on it."""
    expect(page.get_by_role("heading", level=1)).to_contain_text(heading or "")
    content = page.content()
    assert CELL not in content
    assert WORD not in content


def fill_columns(page: Page) -> None:
    page.get_by_role("combobox", name="wage type").select_option("number")
    page.get_by_role("textbox", name="wage lower").fill("0")
    page.get_by_role("textbox", name="wage upper").fill("100")
    page.get_by_role("combobox", name="ward type").select_option("category")
    page.get_by_role("textbox", name="ward values").fill("north\nsouth")
    page.get_by_role("combobox", name="remark type").select_option("left out")


def upload_by_hand(page: Page, name: str, *, script: bool) -> None:
    """Draft, check, be refused for a cell, and upload."""
    unsound = chosen(rows(script=script) + f"{CELL},{WORD},\n")
    sound = chosen(rows(script=script) + f"{CELL},north,{WORD}\n")
    page.get_by_role("link", name="Data sets").click()
    page.get_by_role("link", name="New data set").click()
    page.get_by_label("File").set_input_files(unsound)
    if not script:
        page.get_by_role("button", name="Draft").click()
    expect(page.get_by_role("textbox", name="wage lower")).to_be_visible()
    page.get_by_role("textbox", name="Name", exact=True).fill(name)
    page.get_by_role("combobox", name="Review", exact=True).select_option("always")
    page.get_by_role("button", name="Check").click()
    expect(page.get_by_role("alert")).to_contain_text("wage lower")
    expect(page.get_by_role("alert")).to_contain_text("Epsilon budget")
    fill_columns(page)
    page.get_by_role("textbox", name="Epsilon budget").fill("4")
    if not script:
        page.get_by_label("File").set_input_files(unsound)
    page.get_by_role("button", name="Upload").click()
    expect(page.get_by_role("alert")).to_contain_text(str(ROWS + 1))
    looked_at(page)
    page.get_by_label("File").set_input_files(sound)
    if script:  # a file that is chosen fills the table anew, and keeps what was filled in
        expect(page.get_by_role("status").first).to_contain_text("columns of the header")
    page.get_by_role("button", name="Upload").click()
    looked_at(page, name)


def ask_by_hand(page: Page, name: str, *, script: bool) -> None:
    """Find the data set, preview a mean, and ask for it."""
    page.get_by_role("link", name="Data sets").click()
    page.get_by_role("link", name=name).click()
    looked_at(page, name)
    page.get_by_role("link", name="Ask", exact=True).click()
    page.get_by_role("combobox", name="Statistic").select_option("mean")
    if script:
        page.wait_for_url("**statistic=mean")
    else:
        page.get_by_role("button", name="Choose").click()
    page.get_by_role("checkbox", name="wage").check()
    page.get_by_role("radio", name="Epsilon").check()
    page.get_by_role("textbox", name="Epsilon").fill("0.5")
    page.get_by_role("textbox", name="Purpose").fill("The yearly table")
    page.get_by_role("button", name="Preview").click()
    expect(page.get_by_role("region", name="Preview")).to_contain_text("Expected error")
    looked_at(page)
    page.get_by_role("button", name="Release").click()
    looked_at(page, "Release this?")
    page.get_by_role("button", name="Release").click()
    looked_at(page, f"Mean of {name}")


def review_by_hand(page: Page, name: str) -> None:
    """Find the request, approve it, and make its release public."""
    looked_at(page, "Release Desk")
    row = page.get_by_role("row").filter(has_text=name)
    row.get_by_role("link").first.click()
    looked_at(page, name)
    expect(page.get_by_text("The yearly table").first).to_be_visible()
    release = page.url.rpartition("/")[2]
    page.get_by_role("textbox", name="Reason").fill("It is within the protocol")
    page.get_by_role("button", name="Approve").click()
    expect(page.get_by_text("Your vote is in the ledger")).to_be_visible()
    looked_at(page)
    page.goto(f"/desk/releases/{release}")
    publish = page.get_by_role("button", name="Publish")
    expect(publish).to_be_visible()
    looked_at(page)
    page.get_by_role("textbox", name="Reason").fill("For the yearly report")
    publish.click()
    expect(page.get_by_text("The release is public now.")).to_be_visible()
    looked_at(page)


@pytest.fixture(scope="module")
def people(admin: httpx.Client) -> dict[str, str]:
    roles = {"uploader": "curator", "analyst": "analyst", "reviewer": "curator"}
    return {name: str(make_key(admin, role)["secret"]) for name, role in roles.items()}


@pytest.mark.parametrize("script", [True, False], ids=["with script", "without script"])
def test_a_file_becomes_a_public_page(
    visits: Visits, service: Service, people: dict[str, str], script: bool
) -> None:
    options: dict[str, Any] = {"java_script_enabled": script}
    name = f"Wages of the wards, {'with' if script else 'without'} script"
    visits.expected.add(422)
    with visits.window(people["uploader"], **options) as page:
        upload_by_hand(page, name, script=script)
    with visits.window(people["analyst"], **options) as page:
        ask_by_hand(page, name, script=script)
        looked_at(page)
        with visits.window(people["reviewer"], **options) as other:
            review_by_hand(other, name)
        page.reload()
        expect(page.get_by_role("link", name="Download JSON")).to_be_visible()
        looked_at(page)
    with visits.window(**options) as page:
        page.goto("/public")
        page.get_by_role("link", name=name).first.click()
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
    with visits.window(people["uploader"]) as page:
        page.goto("/desk/datasets")
        page.get_by_role("button", name="Sign out").click()
        expect(page.get_by_role("textbox", name="API key")).to_be_visible()
        page.go_back()
        expect(page.get_by_role("textbox", name="API key")).to_be_visible()
        sign_in(page, people["uploader"])
