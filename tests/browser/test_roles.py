"""The tasks of four roles in a real browser: neither JSON nor a page of the documentation is used.

What an hour in each role found is in ``docs/research/roles.md``.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Browser, FilePayload, Locator, Page, Route, expect

from app.services.people.sessions import SessionService
from tests.browser import trial
from tests.browser.visiting import (
    LOOKS,
    Keyboard,
    Mouse,
    Visits,
    confirm,
    faults_in_all,
    faults_of,
)
from tests.contract.service import Service, ask, make_key, spent, upload
from tests.contract.test_providers import served
from tests.tiers import wide

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::DeprecationWarning")]

SESSION_S = 60
"""After how many seconds who has signed in at the provider is sent there again."""


def sound(page: Page) -> None:
    """Hold that everybody can use a page as it is now."""
    assert not faults_in_all(page)


def file(name: str, kind: str, content: bytes) -> FilePayload:
    return {"name": name, "mimeType": kind, "buffer": content}


@pytest.fixture(scope="module")
def people(admin: httpx.Client) -> dict[str, str]:
    return {role: str(make_key(admin, role)["secret"]) for role in ("curator", "analyst")}


# Curator


def declare(page: Page) -> None:
    """Take file and dictionary, and fill in what neither of them may say."""
    page.goto("/desk/datasets/new")
    page.get_by_label("File", exact=True).set_input_files(
        file("trial.csv", "text/csv", trial.rows().encode())
    )
    expect(page.get_by_role("combobox", name="arm type")).to_be_visible()
    page.get_by_label("Dictionary", exact=True).set_input_files(
        file("trial.json", "application/json", trial.dictionary())
    )
    expect(page.get_by_role("textbox", name="age lower")).to_have_value("18")
    expect(page.get_by_text("remark: nearly each cell")).to_be_visible()
    expect(page.get_by_text("weight: nearly each cell")).to_have_count(0)
    expect(page.locator("summary", has_text="born more")).to_contain_text("format %Y-%m-%d")
    page.locator("summary", has_text="born more").click()
    expect(page.get_by_role("textbox", name="born format")).to_have_value("%Y-%m-%d\n%d.%m.%Y")
    for name, lower, upper in (("born", "1930-01-01", "2010-12-31"), (trial.INCOME, "0", "12000")):
        page.get_by_role("textbox", name=f"{name} lower").fill(lower)
        page.get_by_role("textbox", name=f"{name} upper").fill(upper)
    assert not faults_of(page)
    page.get_by_role("combobox", name="Same people").select_option("no")
    page.get_by_role("textbox", name="Epsilon budget").fill("9")
    page.get_by_role("combobox", name="Review", exact=True).select_option("never")


def test_a_curator_takes_25_messy_columns_to_a_published_table(
    visits: Visits, people: dict[str, str]
) -> None:
    with visits.window(people["curator"], **LOOKS[1]) as page:
        declare(page)
        page.get_by_role("button", name="Check", exact=True).click()
        expect(page.get_by_text(f"{trial.PEOPLE} rows were read")).to_be_visible()
        page.get_by_role("button", name="Upload").click()
        expect(page.get_by_role("heading", name="How the file was read")).to_be_visible()
        sound(page)
        page.get_by_role("button", name="Create data set").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("trial")
        page.get_by_role("link", name="Ask", exact=True).click()
        chosen(page, "summary")
        tick(page, "Columns", ("age", trial.INCOME, "smoker"))
        asked(page, "Table 1", heading="Summary of trial", epsilon="2")
        page.get_by_role("textbox", name="Reason").fill("For the yearly report")
        page.get_by_role("button", name="Publish").click()
        confirm(Mouse(page), "Publish", heading="Publish this release?")
        expect(page.get_by_text("The release is public now.")).to_be_visible()
        release = page.url.partition("?")[0].rpartition("/")[2]
    with visits.window(**LOOKS[1]) as page:
        page.goto(f"/public/releases/{release}")
        table = page.locator("table.printed")
        for text in ("Age (years), mean (SD)", "Income (EUR a month), mean (SD)", "Smokes: true"):
            expect(table.get_by_role("rowheader", name=text, exact=True)).to_be_visible()
        sound(page)


# Analyst


@pytest.fixture(scope="module")
def dataset(admin: httpx.Client) -> str:
    made = upload(
        admin, trial.rows("second"), name="The trial", budget={"epsilon": "40"}, **trial.SPEC
    )
    return str(made["id"])


def chosen(page: Page, statistic: str) -> None:
    page.get_by_role("combobox", name="Statistic").select_option(statistic)
    page.wait_for_url(f"**statistic={statistic}*")


def tick(page: Page, group: str, names: tuple[str, ...]) -> None:
    boxes = page.get_by_role("group", name=group, exact=True)
    for name in names:
        boxes.get_by_role("checkbox", name=name, exact=True).check()


def priced(page: Page, epsilon: str, purpose: str) -> None:
    """Fill in what a question may cost, and what it is for."""
    page.get_by_role("radio", name="Epsilon").check()
    page.get_by_role("textbox", name="Epsilon", exact=True).fill(epsilon)
    page.get_by_role("textbox", name="Purpose").fill(purpose)


def asked(page: Page, purpose: str, *, heading: str, epsilon: str) -> None:
    """Preview a question that is filled in, and release it."""
    priced(page, epsilon, purpose)
    page.get_by_role("button", name="Preview", exact=True).click()
    preview = page.get_by_role("region", name="Preview")
    expect(preview).to_contain_text("After this release")
    expect(preview).to_be_in_viewport()
    sound(page)
    page.get_by_role("button", name="Release", exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Release this?")
    page.get_by_role("button", name="Release", exact=True).click()
    page.wait_for_url("**/desk/releases/*")
    expect(page.get_by_role("heading", level=1)).to_have_text(heading)
    expect(page.get_by_role("link", name="Download JSON")).to_be_visible()
    sound(page)


def labels_in(picture: Locator) -> list[str]:
    return [text.strip() for text in picture.locator("text").all_text_contents()]


def test_an_analyst_makes_a_table_by_arm(
    visits: Visits, people: dict[str, str], dataset: str
) -> None:
    with visits.window(people["analyst"], **LOOKS[1]) as page:
        page.goto(f"/desk/datasets/{dataset}")
        page.get_by_role("link", name="Ask", exact=True).click()
        chosen(page, "summary")
        tick(page, "Columns", ("age", "sex", trial.INCOME))
        page.get_by_text("More: conditions").click()
        tick(page, "Groups", ("arm",))
        asked(page, "Table 1", heading="Summary of The trial", epsilon="4")
        table = page.locator("table.printed")
        for head in ("usual care", "new care"):
            expect(table.get_by_role("columnheader").filter(has_text=head)).to_have_count(1)
        for row in ("Age", "Income", "Sex"):
            expect(table.get_by_role("rowheader").filter(has_text=row).first).to_be_visible()


def test_an_analyst_compares_means_as_pivot_and_picture(
    visits: Visits, people: dict[str, str], dataset: str
) -> None:
    with visits.window(people["analyst"], **LOOKS[1]) as page:
        page.goto(f"/desk/datasets/{dataset}/ask")
        chosen(page, "mean")
        tick(page, "Columns", (trial.INCOME,))
        page.get_by_text("More: conditions").click()
        tick(page, "Groups", ("sex", "region"))
        asked(page, "Figure 1", heading="Mean of The trial", epsilon="3")
        pivot = page.locator("table.pivot")
        expect(pivot.get_by_role("columnheader", name="north")).to_be_visible()
        expect(pivot.get_by_role("rowheader")).to_have_text(["women", "men"])
        numbers = pivot.locator("td.num")
        expect(numbers).to_have_count(6)
        for text in numbers.all_inner_texts():
            assert re.fullmatch(r"[\d,]+\s+[-\d,]+ to [\d,]+", text), text
        drawn = labels_in(page.locator("figure svg"))
        assert {"women", "men", "north", "south", "west"} <= set(drawn)
        # one axis for all of them: each tick is there once
        ticks = [text for text in drawn if re.fullmatch(r"[\d,.]+", text)]
        assert len(ticks) == len(set(ticks)) >= 2


def test_an_analyst_draws_an_interaction_as_a_forest_plot(
    visits: Visits, people: dict[str, str], dataset: str
) -> None:
    with visits.window(people["analyst"], **LOOKS[1]) as page:
        page.goto(f"/desk/datasets/{dataset}/ask")
        chosen(page, "linear_regression")
        page.get_by_role("textbox", name="Formula").fill("sbp_1 ~ sbp_0 + arm * sex")
        page.get_by_role("textbox", name="Share for standard errors").fill("1/3")
        asked(page, "Figure 2", heading="Linear regression of The trial", epsilon="6")
        drawn = labels_in(page.locator("figure svg"))
        at = drawn.index("armB")
        assert drawn[at : at + 3] == ["armB", "sexm", "armB:sexm"], "one picture, one axis"
        with page.expect_download() as held:
            page.get_by_role("button", name="Download PNG").click()
        assert held.value.path().read_bytes().startswith(b"\x89PNG")


QUESTIONS = (
    "age",
    "sbp_0",
    "sbp_1",
    "dbp_0",
    "dbp_1",
    trial.INCOME,
    "weight",
    "height",
    "ldl",
    "qol",
)


@pytest.mark.parametrize("questions", [3, *wide(len(QUESTIONS))])
def test_an_analyst_plans_several_questions(
    visits: Visits, admin: httpx.Client, people: dict[str, str], dataset: str, questions: int
) -> None:
    before = spent(admin, dataset)
    with visits.window(people["analyst"], **LOOKS[1]) as page:
        page.goto(f"/desk/datasets/{dataset}/ask")
        for at, column in enumerate(QUESTIONS[:questions]):
            chosen(page, "mean" if at % 2 else "variance")
            tick(page, "Columns", (column,))
            priced(page, "0.2", "Table 2")
            page.get_by_role("button", name="Release", exact=True).click()
            if not at:
                name = page.get_by_role("textbox", name="Name of the new plan")
                name.fill(f"{questions} tables of the report")
            page.get_by_role("button", name="Add to study plan").click()
            expect(page.get_by_role("row")).to_have_count(at + 2)
            if at < questions - 1:
                page.get_by_role("link", name="Add question").click()
        sound(page)
        expect(page.locator("dl.facts")).to_contain_text(f"{0.2 * questions:g} epsilon")
        page.get_by_role("button", name="Request approval").click()
        expect(page.get_by_role("button", name="Withdraw")).to_be_visible()
        sound(page)
    assert spent(admin, dataset) == before


def test_a_plan_is_talked_about_changed_and_paid_question_by_question(
    visits: Visits, admin: httpx.Client, service: Service, people: dict[str, str]
) -> None:
    """By keyboard alone, with the questions and answers of both sides."""
    made = upload(admin, trial.rows("fifth"), name="Talked about", policy={"review": "always"},
                  same_people="no", **trial.SPEC)  # fmt: skip
    questions = [
        {"statistic": {"kind": "mean", "columns": [column]}, "epsilon": "0.5"}
        for column in ("age", "weight")
    ]
    with service.client(people["analyst"]) as program:
        body = {"dataset": made["id"], "name": "Table 3", "questions": questions}
        plan = program.post("/v1/study-plans", json=body).raise_for_status().json()["id"]
    address, reviewer = f"/desk/study-plans/{plan}", str(make_key(admin, "reviewer")["secret"])
    with (
        visits.window(people["analyst"], **LOOKS[1]) as mine,
        visits.window(reviewer, **LOOKS[1]) as theirs,
    ):
        ann, rita = Keyboard(mine), Keyboard(theirs)
        mine.goto(address)
        ann.press(mine.get_by_role("button", name="Request approval"))
        expect(mine.get_by_text("The plan is requested.")).to_be_visible()
        theirs.goto(address)
        rita.fill(theirs.get_by_role("textbox", name="Reason"), "A quarter is plenty for the first")
        sound(theirs)
        rita.press(theirs.get_by_role("button", name="Request changes"))
        expect(theirs.get_by_text("changes are wanted")).to_be_visible()
        mine.reload()
        expect(mine.get_by_role("heading", name="Your turn")).to_be_visible()
        expect(mine.locator(".alert")).to_contain_text("A quarter is plenty for the first")
        sound(mine)
        ann.fill(mine.get_by_role("textbox", name="Comment"), "Is the second one all right?")
        ann.press(mine.get_by_role("button", name="Comment"))
        expect(mine.get_by_role("article")).to_have_count(2)
        expect(mine.get_by_role("heading", name="Your turn")).to_have_count(0)
        theirs.reload()
        expect(theirs.get_by_text("Is the second one all right?")).to_be_visible()
        rita.fill(theirs.get_by_role("textbox", name="Reason"), "Yes, keep <b>it</b>")
        rita.press(theirs.get_by_role("button", name="Request changes"))
        expect(theirs.locator(".alert")).to_contain_text("Yes, keep <b>it</b>")
        mine.reload()
        ann.press(mine.get_by_role("link", name="Edit question 1"))
        ann.fill(mine.get_by_role("textbox", name="Epsilon", exact=True), "0.125")
        ann.press(mine.get_by_role("button", name="Release", exact=True))
        expect(mine.get_by_role("heading", name="Or change it in the study plan")).to_be_visible()
        sound(mine)
        ann.press(mine.get_by_role("button", name="Change in study plan"))
        expect(mine.get_by_text("You have changes that are not sent yet.")).to_be_visible()
        sound(mine)
        ann.press(mine.get_by_role("button", name="Send again"))
        expect(mine.get_by_text("The plan is requested.")).to_be_visible()
        theirs.reload()
        expect(theirs.get_by_role("rowheader", name="question 1.epsilon")).to_be_visible()
        rita.fill(theirs.get_by_role("textbox", name="Reason"), "As agreed")
        sound(theirs)
        rita.press(theirs.get_by_role("button", name="Approve"))
        expect(theirs.get_by_text("Your vote is in the ledger: approved.")).to_be_visible()
        mine.reload()
        for at, cost in ((1, "0.125"), (2, "0.625")):
            ann.press(mine.get_by_role("button", name=f"Release question {at}"))
            confirm(ann, "Release", heading="Release this?")
            expect(mine).to_have_url(re.compile("/desk/releases/"))
            assert spent(admin, made["id"]) == cost
            mine.goto(address)
        expect(mine.get_by_role("link", name="Paid")).to_have_count(2)
        sound(mine)
        expect(mine.get_by_role("article")).to_have_count(3)


# Reviewer

REQUESTS = (
    ("First wave", "Approve", ("50% sure before, is at most 73% sure after it.",)),
    ("Another survey", "Reject", ("50% sure before, is at most 62% sure after it.",)),
    (
        "Second wave",
        "Approve",
        (
            "50% sure before, is at most 88% sure after it.",
            "Together with all other releases of this account (epsilon 1): 95% at most.",
        ),
    ),
)
"""On which data set, what is decided, and what the sheet says of one person.

The odds are exp(epsilon) to 1: of 1, 0.5, 2 and of 1 and 2 together.
"""


def test_a_reviewer_decides_on_three_requests_and_sees_what_each_means(
    visits: Visits, admin: httpx.Client, service: Service, people: dict[str, str]
) -> None:
    policy, columns = {"review": "always"}, trial.SPEC
    first = upload(admin, trial.rows("third"), name="First wave", policy=policy, **columns)
    other = upload(admin, name="Another survey", policy=policy)
    wave = upload(
        admin, trial.rows("fourth"), name="Second wave", policy=policy, account=first["account"],
        budget=None, **columns,
    )  # fmt: skip
    question = {"kind": "mean", "columns": ["age"]}
    with service.client(people["analyst"]) as program:
        ask(program, first["id"], question, epsilon="1", purpose="Table 1 of the first wave")
        ask(program, other["id"], epsilon="0.5", purpose="Table 2 of the survey")
        ask(program, wave["id"], question, epsilon="2", purpose="Table 3 of the second wave")
    reviewer = str(make_key(admin, "reviewer")["secret"])
    with visits.window(reviewer, **LOOKS[1]) as page:
        for name, button, means in REQUESTS:
            page.goto("/desk/reviews")
            row = page.get_by_role("row").filter(has_text=name)
            row.get_by_role("link").first.click()
            expect(page.get_by_role("heading", level=1)).to_contain_text(name)
            for sentence in means:
                expect(page.locator("dl.facts").first).to_contain_text(sentence)
            sound(page)
            page.get_by_role("textbox", name="Reason").fill("As the protocol says")
            page.get_by_role("button", name=button, exact=True).click()
            if button == "Approve":
                confirm(Mouse(page), button, heading="Approve this release?")
            expect(page.get_by_text("Your vote is in the ledger")).to_be_visible()


# Operator


@pytest.fixture
def ahead(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Return by how many seconds the clock of sessions is ahead: only their first item is."""
    found = [0.0]
    usual = SessionService.__init__.__kwdefaults__ or {}
    monkeypatch.setitem(usual, "clock", lambda: time.time() + found[0])
    return found


@pytest.fixture
def institution(ahead: list[float], tmp_path: Path) -> Iterator[Service]:
    """Return a desk where people sign in at a provider."""
    with served(tmp_path / "data", oidc_session_s=SESSION_S) as found:
        yield found


def provider_alone(page: Page, service: Service) -> None:
    """Let the provider have its pages, and nothing that they would fetch from elsewhere."""

    def pass_on(route: Route) -> None:
        if route.request.resource_type == "document":
            route.continue_()
        else:
            route.fulfill(status=200, body="")

    page.route(lambda url: not url.startswith(service.url), pass_on)


def test_who_leaves_the_group_is_out_within_the_bound_of_a_session(
    browser: Browser, institution: Service, ahead: list[float]
) -> None:
    with (
        Visits.of(browser, institution.url) as visits,
        visits.window(**LOOKS[1]) as page,
        httpx.Client() as provider,
    ):
        visits.expected.add(403)
        provider_alone(page, institution)
        page.goto("/desk/audit")
        sound(page)
        page.get_by_role("link", name="Sign in with the University").click()
        issuer = page.url.partition("/oauth2")[0]
        page.get_by_role("button", name="ada").click()
        page.wait_for_url("**/desk/audit")
        sound(page)
        left = {"email": "ada@example.org", "groups": []}
        assert provider.put(f"{issuer}/users/ada", json=left).status_code == 204
        ahead[0] = SESSION_S - 10
        page.goto("/desk")
        expect(page.get_by_role("button", name="Sign out")).to_be_visible()
        ahead[0] = SESSION_S + 1
        page.goto("/desk")
        page.get_by_role("link", name="Sign in with the University").click()
        page.get_by_role("button", name="ada").click()
        expect(page.get_by_text("No group of yours at the University has a role")).to_be_visible()
        sound(page)
        page.goto("/desk")
        expect(page.get_by_role("link", name="Sign in with the University")).to_be_visible()
