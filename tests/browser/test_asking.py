"""Asking in a real browser: with script, without, by keyboard, twice at once, and too late."""

from __future__ import annotations

import httpx
import pytest
from playwright.sync_api import Page, expect

from app.services.releases import derivations
from tests.browser.visiting import Keyboard, Visits, faults_in_all, faults_of
from tests.contract.service import ADMIN_KEY, ask, make_key, settled, spent, upload

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def analyst(admin: httpx.Client) -> str:
    return str(make_key(admin, "analyst")["secret"])


@pytest.fixture
def dataset(admin: httpx.Client) -> str:
    return str(upload(admin, budget={"epsilon": "10"})["id"])


def fill_mean(page: Page, dataset: str) -> None:
    page.goto(f"/desk/datasets/{dataset}/ask?statistic=mean")
    page.get_by_role("checkbox", name="income").check()
    page.get_by_role("radio", name="Epsilon").check()
    page.get_by_role("textbox", name="Epsilon").fill("0.5")


def test_the_preview_follows_the_form(visits: Visits, analyst: str, dataset: str) -> None:
    with visits.window(analyst) as page:
        page.goto(f"/desk/datasets/{dataset}/ask")
        page.get_by_role("combobox", name="Statistic").select_option("quantile")
        page.wait_for_url("**statistic=quantile")
        page.get_by_role("combobox", name="Column", exact=True).select_option("income")
        page.get_by_role("textbox", name="Levels").fill("0.5")
        page.get_by_role("textbox", name="Epsilon").fill("0.5")
        preview = page.get_by_role("region", name="Preview")
        expect(preview).to_contain_text("After this release")
        expect(preview).to_contain_text("9.5")


def test_a_double_click_and_a_reload_ask_once(
    visits: Visits, analyst: str, dataset: str, admin: httpx.Client
) -> None:
    with visits.window(analyst) as page:
        fill_mean(page, dataset)
        page.get_by_role("button", name="Release").click()
        expect(page.get_by_role("heading", name="Release this?")).to_be_visible()
        page.get_by_role("button", name="Release").dblclick()
        page.wait_for_url("**/desk/releases/*")
        page.go_back()
        page.get_by_role("button", name="Release").click()
        page.wait_for_url("**/desk/releases/*")
        assert spent(admin, dataset) == "0.5"


def test_it_is_asked_without_script(visits: Visits, analyst: str, dataset: str) -> None:
    with visits.window(analyst, java_script_enabled=False) as page:
        page.goto(f"/desk/datasets/{dataset}/ask")
        page.get_by_role("combobox", name="Statistic").select_option("count")
        page.get_by_role("button", name="Choose").click()
        page.get_by_role("combobox", name="Condition 1 column").select_option("region")
        page.get_by_role("combobox", name="Condition 1 comparison").select_option("==")
        page.get_by_role("textbox", name="Condition 1 value").fill("north")
        page.get_by_role("radio", name="Epsilon").check()
        page.get_by_role("textbox", name="Epsilon").fill("0.5")
        page.get_by_role("button", name="Preview").click()
        expect(page.get_by_role("region", name="Preview")).to_contain_text("Expected error")
        page.get_by_role("button", name="Release").click()
        page.get_by_role("button", name="Release").click()
        expect(page.get_by_role("heading", level=1)).to_contain_text("Count of")


@pytest.mark.wide
def test_it_is_asked_by_keyboard_alone(visits: Visits, analyst: str, dataset: str) -> None:
    with visits.window(analyst) as page:
        page.goto(f"/desk/datasets/{dataset}/ask?statistic=mean")
        by = Keyboard(page)
        page.keyboard.press("Tab")
        expect(page.get_by_role("link", name="Skip to content")).to_be_focused()
        page.keyboard.press("Enter")
        by.tick(page.get_by_role("checkbox", name="income"))
        by.fill(page.get_by_role("textbox", name="Margin of error (±)"), "5")
        by.press(page.get_by_role("button", name="Preview"))
        expect(page.get_by_role("region", name="Preview")).to_contain_text("Accuracy wanted")
        for heading in ("Release this?", "Mean of"):
            by.press(page.get_by_role("button", name="Release"))
            expect(page.get_by_role("heading", level=1)).to_contain_text(heading)
        page.wait_for_url("**/desk/releases/*")


def test_a_session_that_is_over_leads_back_to_the_page(
    visits: Visits, dataset: str, admin: httpx.Client
) -> None:
    key, other = make_key(admin, "analyst"), make_key(admin, "analyst")
    with visits.window(key["secret"]) as page:
        fill_mean(page, dataset)
        assert admin.delete(f"/v1/keys/{key['id']}").status_code < 300
        page.goto(f"/desk/datasets/{dataset}/ask")
        page.get_by_role("textbox", name="API key").fill(other["secret"])
        page.get_by_role("button", name="Sign in").click()
        expect(page.get_by_role("combobox", name="Statistic")).to_be_visible()


@pytest.mark.wide
def test_two_tabs_ask_two_questions(
    visits: Visits, analyst: str, dataset: str, admin: httpx.Client
) -> None:
    with visits.window(analyst) as page:
        other = page.context.new_page()
        fill_mean(page, dataset)
        fill_mean(other, dataset)
        other.get_by_role("textbox", name="Epsilon").fill("0.25")
        for tab in (page, other):
            tab.get_by_role("button", name="Release").click()
            tab.get_by_role("button", name="Release").click()
            tab.wait_for_url("**/desk/releases/*")
        assert spent(admin, dataset) == "0.75"


@pytest.mark.wide
def test_everybody_can_use_its_pages(visits: Visits, analyst: str, dataset: str) -> None:
    faults: list[str] = []
    with visits.window() as page:
        page.goto("/desk/sign-in")
        faults += faults_in_all(page)
    with visits.window(analyst) as page:
        page.goto("/desk")
        faults += faults_in_all(page)
        for kind in ("linear_regression", "histogram", "logistic_regression", "stack"):
            page.goto(f"/desk/datasets/{dataset}/ask?statistic={kind}")
            page.get_by_text("More: conditions").click()
            faults += faults_in_all(page)
        fill_mean(page, dataset)
        page.get_by_role("checkbox", name="food").check()
        page.get_by_role("button", name="Preview").click()
        expect(page.get_by_role("region", name="Preview")).to_contain_text("Alternatives")
        faults += faults_in_all(page)
        page.get_by_role("button", name="Try on synthetic rows").click()
        expect(page.get_by_role("region", name="Dry run")).to_be_visible()
        faults += faults_in_all(page)
        for heading in ("Release this?", "Mean of"):
            page.get_by_role("button", name="Release").click()
            expect(page.get_by_role("heading", level=1)).to_contain_text(heading)
            faults += faults_in_all(page)
        page.goto("/desk/releases")
        faults += faults_in_all(page)
        visits.expected.add(404)
        page.goto("/desk/nowhere")
        faults += faults_in_all(page)
    assert not faults


@pytest.mark.wide
def test_the_arrow_keys_go_on_choosing_a_statistic(
    visits: Visits, analyst: str, dataset: str
) -> None:
    """Each choice loads the form again; a person who chooses by keyboard keeps the focus."""
    with visits.window(analyst) as page:
        page.goto(f"/desk/datasets/{dataset}/ask?statistic=count")
        chosen = page.get_by_role("combobox", name="Statistic")
        chosen.focus()
        for kind in ("histogram", "tables"):
            expect(chosen).to_be_focused()
            page.keyboard.press("ArrowDown")
            page.wait_for_url(f"**statistic={kind}")


def test_a_fault_is_in_sight_and_one_click_away(visits: Visits, analyst: str, dataset: str) -> None:
    visits.expected.add(422)
    with visits.window(analyst) as page:
        page.goto(f"/desk/datasets/{dataset}/ask?statistic=mean&inference=x&act=preview")
        reported = page.get_by_role("alert")
        for name in ("Columns", "Epsilon", "Share for standard errors"):
            expect(reported.get_by_role("link", name=name)).to_be_visible()
        reported.get_by_role("link", name="Share for standard errors").click()
        expect(page.get_by_role("textbox", name="Share for standard errors")).to_be_in_viewport()
        assert faults_of(page) == []


def test_what_takes_long_is_looked_at_again_until_it_is_there(
    visits: Visits, admin: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With script the numbers appear by themselves, and the page says how far they are."""
    monkeypatch.setattr(derivations, "AT_ONCE_MS", 0.0)
    monkeypatch.setattr(derivations, "AGAIN_S", 0.0)
    dataset = str(upload(admin, budget={"epsilon": "20"})["id"])
    asked = {"kind": "mean", "columns": ["income", "food"]}
    release = settled(admin, ask(admin, dataset, asked, epsilon="4")).json()["id"]
    with visits.window(ADMIN_KEY) as page:
        page.goto(f"/desk/releases/{release}/derive")
        page.get_by_role("checkbox", name="food").first.uncheck()
        page.get_by_role("button", name="Derive", exact=True).click()
        shown = page.get_by_role("region", name="Derived numbers")
        expect(shown.get_by_role("progressbar", name="Calculation progress")).to_be_visible()
        expect(shown.get_by_role("link", name="Download CSV")).to_be_visible()
        expect(shown.get_by_role("progressbar")).to_have_count(0)
