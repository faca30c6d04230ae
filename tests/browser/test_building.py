"""A question without JSON in a real browser: groups, edges, several questions, and the preview."""

from __future__ import annotations

import re
from typing import Any

import httpx
import pytest
from playwright.sync_api import Route, expect

from tests.browser.visiting import LOOKS, Keyboard, Mouse, Visits, faults_in_all, look_like
from tests.contract.service import make_key, spent, upload

pytestmark = pytest.mark.slow

MOST_BYTES = 60_000
MOST_PIXELS = 5_000
"""How high the form of a question about 25 columns may be on a phone."""


@pytest.fixture(scope="module")
def analyst(admin: httpx.Client) -> str:
    return str(make_key(admin, "analyst")["secret"])


@pytest.fixture(scope="module")
def dataset(admin: httpx.Client) -> str:
    """Return a data set of 25 columns."""
    columns: dict[str, Any] = {
        "income": {"type": "number", "lower": 0, "upper": 100},
        "age": {"type": "integer", "lower": 0, "upper": 99},
        "region": {"type": "category", "values": ["north", "south"]},
        "born": {"type": "date", "lower": "1990-01-01", "upper": "1992-12-31"},
    }
    columns |= {f"item_{at}": {"type": "integer", "lower": 0, "upper": 9} for at in range(21)}
    names = list(columns)
    cells = ["50", "40", "north", "1991-06-01", *(str(at % 10) for at in range(21))]
    rows = "\n".join([",".join(names), *([",".join(cells)] * 60)])
    made = upload(admin, rows=f"{rows}\n", columns=columns, budget={"epsilon": "20"})
    return str(made["id"])


@pytest.mark.parametrize("hand", [Mouse, *[pytest.param(Keyboard, marks=pytest.mark.wide)]])
def test_groups_of_a_number_are_asked_for(
    visits: Visits, analyst: str, dataset: str, admin: httpx.Client, hand: type[Mouse]
) -> None:
    with visits.window(analyst) as page:
        by = hand(page)
        page.goto(f"/desk/datasets/{dataset}/ask?statistic=mean&wanted=epsilon")
        by.tick(page.get_by_role("group", name="Columns").get_by_role("checkbox", name="income"))
        by.press(page.get_by_text("More: conditions"))
        groups = page.get_by_role("group", name="Groups")
        edges = page.get_by_role("textbox", name="age group edges")
        expect(edges).to_be_hidden()
        by.tick(groups.get_by_role("checkbox", name="age"))
        by.fill(edges, "18, 40, 65")
        by.choose(page.get_by_role("combobox", name="age outside its groups"), "drop")
        by.fill(page.get_by_role("textbox", name="Epsilon", exact=True), "0.5")
        by.press(page.get_by_role("button", name="Preview", exact=True))
        preview = page.get_by_role("region", name="Preview")
        expect(preview).to_contain_text("age=[18,40)")
        expect(preview).to_be_focused()
        before = spent(admin, dataset)
        by.press(page.get_by_role("button", name="Release"))
        expect(page.get_by_role("heading", level=1)).to_contain_text("Release this?")
        assert spent(admin, dataset) == before


@pytest.mark.parametrize("script", [True, False])
def test_several_questions_are_asked_as_one(
    visits: Visits, analyst: str, dataset: str, script: bool
) -> None:
    with visits.window(analyst, java_script_enabled=script) as page:
        page.goto(f"/desk/datasets/{dataset}/ask?statistic=mean&wanted=epsilon&epsilon=1")
        page.get_by_role("checkbox", name="income").first.check()

        def choose(at: int, kind: str) -> None:
            page.get_by_role("combobox", name="Statistic").nth(at).select_option(kind)
            if not script:
                page.get_by_role("button", name="Choose").nth(at).click()

        choose(0, "stack")
        expect(page.get_by_role("checkbox", name="income").first).to_be_checked()
        page.get_by_role("button", name="Add question").click()
        expect(page.get_by_text("Question 1: mean of income")).to_be_visible()
        choose(1, "histogram")
        page.get_by_role("checkbox", name="born").first.check()
        page.get_by_role("textbox", name="born edges").fill("years")
        page.get_by_role("textbox", name="Share", exact=True).fill("2")
        page.get_by_role("button", name="Edit question 1").click()
        expect(page.get_by_text("Question 2: histogram of born")).to_be_visible()
        page.get_by_role("button", name="Preview", exact=True).click()
        preview = page.get_by_role("region", name="Preview")
        expect(preview).to_contain_text("1991-01-01")
        expect(preview).to_be_in_viewport()
        page.get_by_role("button", name="Release").click()
        expect(page.get_by_role("heading", level=1)).to_contain_text("Release this?")
        page.get_by_role("button", name="Release").click()
        expect(page.get_by_role("heading", level=1)).to_contain_text("Stack of")


def test_conditions_come_and_go(visits: Visits, analyst: str, dataset: str) -> None:
    with visits.window(analyst) as page:
        page.goto(f"/desk/datasets/{dataset}/ask?statistic=count")
        for at, value in enumerate(("10", "20", "30")):
            name = f"Condition {at + 1}"
            page.get_by_role("combobox", name=f"{name} column").select_option("age")
            page.get_by_role("combobox", name=f"{name} comparison").select_option("!=")
            page.get_by_role("textbox", name=f"{name} value").fill(value)
        page.get_by_role("button", name="Add condition").click()
        expect(page.get_by_role("combobox", name="Condition 4 column")).to_be_focused()
        page.get_by_role("button", name="Remove condition 2").click()
        expect(page.get_by_role("textbox", name="Condition 2 value")).to_have_value("30")
        expect(page.get_by_role("textbox", name="Condition 1 value")).to_have_value("10")


def test_a_preview_that_takes_long_shows_so_and_can_be_cancelled(
    visits: Visits, analyst: str, dataset: str
) -> None:
    """Its progress appears after half a second; a cancelled one is no answer."""
    held: list[Route] = []

    def hold(route: Route) -> None:
        held.append(route)

    with visits.window(analyst) as page:
        page.goto(f"/desk/datasets/{dataset}/ask?statistic=mean&wanted=epsilon")
        page.route("**/ask?*part=preview*", hold)
        page.get_by_role("checkbox", name="income").first.check()
        page.get_by_role("textbox", name="Epsilon", exact=True).fill("1")
        page.get_by_role("button", name="Preview", exact=True).click()
        expect(page.get_by_text("Computing the preview")).to_be_visible()
        expect(page.get_by_role("progressbar", name="Preview progress")).to_be_visible()
        assert not faults_in_all(page)
        page.get_by_role("button", name="Cancel preview").click()
        expect(page.get_by_text("Computing the preview")).to_be_hidden()
        expect(page.get_by_role("status").last).to_contain_text("The preview is cancelled.")
        page.unroute("**/ask?*part=preview*")
        page.get_by_role("button", name="Preview", exact=True).click()
        expect(page.get_by_role("status").last).to_contain_text("expected error")


def test_the_edges_of_the_chosen_time_alone_are_shown(
    visits: Visits, analyst: str, dataset: str
) -> None:
    with visits.window(analyst) as page:
        page.goto(f"/desk/datasets/{dataset}/ask?statistic=kaplan_meier")
        edges = page.get_by_role("textbox", name=re.compile("^[^ ]+ edges$"))
        expect(edges).to_have_count(0)
        time = page.get_by_role("combobox", name="Time", exact=True)
        time.select_option("age")
        expect(edges).to_have_count(1)
        expect(edges).to_have_accessible_name("age edges")
        expect(time).to_be_focused()


@pytest.mark.wide
def test_its_pages_can_be_used_by_everybody(visits: Visits, analyst: str, dataset: str) -> None:
    faults: list[str] = []
    with visits.window(analyst) as page:
        for kind in ("mean", "histogram", "stack", "kaplan_meier", "test"):
            page.goto(f"/desk/datasets/{dataset}/ask?statistic={kind}")
            assert len(page.content().encode()) < MOST_BYTES, kind
            for look in LOOKS:
                look_like(page, look)
                high = page.evaluate("document.documentElement.scrollHeight")
                assert high < MOST_PIXELS, (kind, look, high)
            page.get_by_text("More", exact=False).first.click()
            faults += faults_in_all(page)
    assert not faults


def test_a_new_data_set_is_declared_in_steps_on_a_phone(
    visits: Visits, admin: httpx.Client
) -> None:
    """One step at a time; what is wrong leads to its step; a check reads the file."""
    curator = str(make_key(admin, "curator")["secret"])
    visits.expected.add(422)
    names = [f"item_{at}" for at in range(25)]
    rows = "\n".join([",".join(names), *(",".join(str(at % 7) for at in range(25)),) * 40])
    with visits.window(curator) as page:
        look_like(page, LOOKS[0])
        page.goto("/desk/datasets/new")
        expect(page.get_by_role("textbox", name="Epsilon budget")).to_be_hidden()
        page.get_by_label("File", exact=True).set_input_files(
            {"name": "items.csv", "mimeType": "text/csv", "buffer": f"{rows}\n".encode()}
        )
        expect(page.get_by_role("combobox", name="item_0 type")).to_be_visible()
        assert page.evaluate("document.documentElement.scrollHeight") < 8_000
        for field, value in (("lower", "0"), ("upper", "9")):
            page.get_by_role("combobox", name="Field", exact=True).select_option(field)
            page.get_by_role("textbox", name="Value", exact=True).fill(value)
            page.get_by_role("button", name="Set in all chosen").click()
            expect(page.get_by_role("textbox", name=f"item_24 {field}")).to_have_value(value)
        page.get_by_role("link", name="Continue: People and bounds").click()
        page.get_by_role("combobox", name="Same people").select_option("no")
        page.get_by_role("link", name="Check", exact=True).click()
        page.get_by_role("button", name="Check", exact=True).click()
        alert = page.get_by_role("alert")
        expect(alert).to_contain_text("Epsilon budget")
        alert.get_by_role("link", name="Epsilon budget").click()
        page.get_by_role("textbox", name="Epsilon budget").fill("1")
        assert not faults_in_all(page)
        look_like(page, LOOKS[0])
        page.get_by_role("link", name="Check", exact=True).click()
        page.get_by_role("button", name="Check", exact=True).click()
        expect(page.get_by_text("Nothing is stored.", exact=False).first).to_be_visible()
        expect(page.get_by_text("40 rows were read")).to_be_visible()
        assert not faults_in_all(page)
