"""Every page in a real browser: nothing that axe finds, an empty console, no wider than a phone."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from random import Random
from threading import Event
from typing import Any
from unittest.mock import patch
from uuid import uuid4

import httpx
import pytest
from playwright.sync_api import Browser, Route, expect

from app.desk.rendering import STATIC
from app.store import Store, Verification
from tests.browser.furnished import ENGEL, Desk, furnish
from tests.browser.screenshots import DRAFTED, IMAGES, SHOWN, take
from tests.browser.visiting import Keyboard, Visits, confirm, faults_of, look_like
from tests.contract.service import Service, make_key
from tests.speed import PATIENCE_S

pytestmark = pytest.mark.slow

# The narrower one is a phone's, and what a desk's window is at four times the size of letters.
LOOKS: tuple[dict[str, Any], ...] = (
    {"color_scheme": "light", "viewport": {"width": 320, "height": 800}},
    {"color_scheme": "dark", "viewport": {"width": 1200, "height": 900}},
)
EVERYWHERE = (
    "/desk", "/desk/datasets", "/desk/releases", "/desk/reviews", "/desk/audit",
    "/desk/search?q=income", "/desk/study-plans",
)  # fmt: skip
OF_CURATORS = (
    "data-set", "edit", "archived", "ask", "preview", "grant", "caps", "access", "archive",
    "release", "waiting", "changes", "rejected", "review", "plan", "plan-changes", "versions",
    "add-rows",
)  # fmt: skip
OF_ANALYSTS = (
    "data-set", "versions", "release", "waiting", "changes", "revision", "rejected", "review",
    "plan", "plan-changes",
)  # fmt: skip
DOCUMENTS = ("/docs", "/docs/http", "/problems", "/problems/budget-exceeded")
OF_ALL = ("public", "certificate", "tombstone")
MOST_BYTES = 120_000


@pytest.fixture(scope="module")
def desk(service: Service) -> Desk:
    return furnish(service)


def visited(visits: Visits, key: str | None, addresses: list[str]) -> None:
    """Go to pages, and look at each in light and narrow and in dark and wide."""
    with visits.window(key) as page:
        for address in addresses:
            page.goto(address)
            expect(page.get_by_role("heading", level=1)).to_be_visible()
            page.locator("details").evaluate_all("all => all.forEach(one => { one.open = true })")
            for look in LOOKS:
                look_like(page, look)
                assert faults_of(page) == []


@pytest.mark.parametrize("person", ["Ada Lovelace", "Grace Hopper", "admin", None])
def test_everybody_can_use_every_page(visits: Visits, desk: Desk, person: str | None) -> None:
    shown = {
        "Ada Lovelace": [*EVERYWHERE, *(desk.pages[name] for name in OF_ANALYSTS)],
        "Grace Hopper": [
            *EVERYWHERE, "/desk/datasets/new", *(desk.pages[name] for name in OF_CURATORS),
        ],
        "admin": ["/desk", "/desk/keys", desk.pages["revocation"], "/desk/audit"],
        None: [
            "/public", "/public?q=nothing+like+this", *DOCUMENTS,
            *(desk.pages[name] for name in OF_ALL),
        ],
    }[person]  # fmt: skip
    visits.expected |= {404, 410}
    visited(visits, desk.keys[person] if person else None, shown)


def test_twin_a_page_that_not_everybody_can_use_is_found_out(visits: Visits) -> None:
    dim = "@media (prefers-color-scheme: dark) { b { color: #333; background: #444; } }"
    with visits.window() as page:
        page.set_content(
            f"<html lang=en><title>A page</title><style>{dim}</style><main><h1>A page</h1>"
            "<b>dim in the dark</b><p style='width: 800px'>wide</p><img></main></html>"
        )
        found = {}
        for look in LOOKS:
            look_like(page, look)
            found[look["color_scheme"]] = " ".join(faults_of(page))
    words = ("image-alt", "color-contrast", "pixels wider")
    assert [word in found["light"] for word in words] == [True, False, True]
    assert [word in found["dark"] for word in words] == [True, True, False]


def test_keys_lead_to_the_search_and_to_pages(visits: Visits, desk: Desk) -> None:
    with visits.window(desk.keys["Ada Lovelace"]) as page:
        page.goto("/desk")
        page.keyboard.press("/")
        field = page.get_by_role("searchbox", name="Search")
        expect(field).to_be_focused()
        page.keyboard.type("g d/")
        expect(field).to_have_value("g d/")
        assert page.url.endswith("/desk"), "keys do nothing while somebody types"
        field.fill("belgian")
        page.keyboard.press("Enter")
        page.wait_for_url("**/desk/search?q=belgian")
        expect(page.get_by_role("link", name="Belgian households, 1857")).to_be_visible()
        for keys, path in (("gr", "/desk/releases"), ("gd", "/desk/datasets"), ("gh", "/desk")):
            page.keyboard.type(keys)
            page.wait_for_url(f"**{path}")
        page.keyboard.type("gk")  # a page that is not theirs
        page.goto("/desk/search")
        page.get_by_role("checkbox", name="Use keyboard shortcuts").uncheck()
        page.get_by_role("heading", level=1).click()
        page.keyboard.press("/")
        expect(page.get_by_role("searchbox")).not_to_be_focused()
        page.get_by_role("checkbox", name="Use keyboard shortcuts").check()
        page.keyboard.press("/")
        expect(page.get_by_role("searchbox")).to_be_focused()


PAPER: dict[str, Any] = {"color_scheme": "dark", "viewport": {"width": 718, "height": 1000}}
"""Of a sheet, between its margins."""


@pytest.mark.wide
def test_a_verification_that_goes_on_is_followed_to_its_end(visits: Visits, desk: Desk) -> None:
    """The page is there at once; script fills in what is found, and a link does without it."""
    gate = Event()

    def verify(_: Store, *, progress: Callable[[float], None], **__: object) -> Verification:
        progress(0.25)
        assert gate.wait(PATIENCE_S)
        return Verification(entries=1_234, head="")

    key = desk.keys["Grace Hopper"]
    with (
        patch.object(Store, "verify", verify),
        visits.window(key) as page,
        visits.window(key, java_script_enabled=False) as plain,
    ):
        page.goto("/desk/audit")
        page.get_by_role("button", name="Verify now").click()
        for shown in (page, plain):
            shown.goto("/desk/audit?kind=grant")
            going = shown.get_by_role("progressbar", name="Verification progress")
            expect(going).to_have_attribute("value", "20")
            expect(shown.get_by_text("The ledger is being verified.")).to_be_visible()
        assert faults_of(page) == []
        page.get_by_label("Person").fill("half a name")
        gate.set()
        expect(page.get_by_text("1,234")).to_be_visible()
        expect(page.get_by_role("progressbar")).to_have_count(0)
        expect(page.locator("[data-follow]")).to_have_count(0)
        expect(page.get_by_label("Person")).to_have_value("half a name")
        plain.get_by_role("link", name="Look again").click()
        expect(plain.get_by_text("1,234")).to_be_visible()
        assert plain.url.endswith("/desk/audit?kind=grant")


def test_on_paper_every_page_is_black_on_white_and_whole(visits: Visits, desk: Desk) -> None:
    visits.expected |= {404, 410}
    with visits.window(desk.keys["Grace Hopper"], **PAPER) as page:
        page.emulate_media(media="print")
        for name in (*OF_CURATORS, *OF_ALL):
            page.goto(desk.pages[name])
            colours = page.evaluate(
                "() => { const it = getComputedStyle(document.body); "
                "return [it.color, it.backgroundColor, "
                "getComputedStyle(document.documentElement).getPropertyValue('--soft')]; }"
            )
            assert colours == ["rgb(0, 0, 0)", "rgb(255, 255, 255)", "#566069"], name
            assert page.evaluate("document.documentElement.scrollWidth") <= 718, name
            assert page.get_by_role("button").count() == 0, name
        page.goto(desk.pages["release"])
        assert page.get_by_role("textbox").count() == 0, "a field whose button is left out"


NAMES: Mapping[tuple[str, str], tuple[tuple[str, str], ...]] = {
    ("admin", "home"): (
        ("heading", "Release Desk"), ("link", "Data sets"), ("link", "Releases"),
        ("link", "Reviews"), ("link", "Keys"), ("link", "Audit"), ("button", "Sign out"),
    ),
    ("Grace Hopper", "data sets"): (("link", "New data set"),),
    ("Grace Hopper", "new"): (
        ("textbox", "Name"), ("combobox", "Review"), ("textbox", "Epsilon budget"),
        ("button", "Draft"), ("button", "Check"), ("button", "Upload"),
    ),
    ("Grace Hopper", "versions"): (
        ("link", "Ask"), ("link", "Grant"), ("link", "Caps"), ("link", "Archive"),
    ),
    ("Ada Lovelace", "preview"): (
        ("combobox", "Statistic"), ("checkbox", "income"), ("radio", "Accuracy wanted"),
        ("radio", "Epsilon"), ("textbox", "Epsilon"), ("button", "Preview"),
        ("button", "Release"), ("region", "Preview"),
    ),
    ("Grace Hopper", "release"): (
        ("link", "Download JSON"), ("link", "Download CSV"), ("button", "Withdraw publication"),
    ),
    ("Ada Lovelace", "waiting"): (("button", "Withdraw"),),
    ("Ada Lovelace", "revision"): (
        ("combobox", "Statistic"), ("textbox", "Epsilon"), ("button", "Preview"),
        ("button", "Send again"), ("region", "Preview"),
    ),
    ("Mary Cartwright", "review"): (
        ("textbox", "Reason"), ("button", "Approve"), ("button", "Request changes"),
        ("button", "Reject"),
    ),
}  # fmt: skip
"""What a page holds by role and name: who looks, and at what."""


@pytest.mark.parametrize("script", [True, False], ids=["script", "no script"])
def test_part_of_a_name_is_enough_to_find_what_a_page_is_for(
    visits: Visits, desk: Desk, script: bool
) -> None:
    """A second control whose name has the first one's in it is taken for the first."""
    pages = {**desk.pages, "data sets": "/desk/datasets", "new": "/desk/datasets/new"}
    for person in {person for person, _ in NAMES}:
        with visits.window(desk.keys[person], java_script_enabled=script) as page:
            for shown, wanted in ((at[1], names) for at, names in NAMES.items() if at[0] == person):
                page.goto(pages[shown])
                found = {each: page.get_by_role(each[0], name=each[1]).count() for each in wanted}
                assert found == dict.fromkeys(wanted, 1), shown


def test_a_phone_shows_numbers_and_pictures_whole_and_large_enough(
    visits: Visits, desk: Desk
) -> None:
    shown = {
        "Grace Hopper": ("data-set", "release", "preview", "public"), "Mary Cartwright": ("review",)
    }  # fmt: skip
    wide = "all => all.filter(it => it.scrollWidth > it.clientWidth).length"
    small = "all => all.map(it => it.getBoundingClientRect().height).filter(h => h < 11)"
    outside = "all => all.filter(it => { const at = it.getBoundingClientRect();"
    outside += " return at.left < 0 || at.right > innerWidth; }).length"
    for person, names in shown.items():
        with visits.window(desk.keys[person], **LOOKS[0]) as page:
            for name in names:
                page.goto(desk.pages[name])
                assert page.locator(".scroll").evaluate_all(wide) == 0, name
                assert page.locator(".chart text").evaluate_all(small) == [], name
                assert page.locator(".chart text").evaluate_all(outside) == 0, name


PHONE: dict[str, Any] = {"color_scheme": "light", "viewport": {"width": 390, "height": 800}}


@pytest.mark.parametrize("script", [True, False], ids=["script", "no script"])
def test_on_a_phone_the_result_of_an_act_is_in_view(
    visits: Visits, desk: Desk, script: bool
) -> None:
    """Of a preview, a dry run, a check that finds something, and a comment."""
    visits.expected.add(422)
    with visits.window(desk.keys["Ada Lovelace"], java_script_enabled=script, **PHONE) as page:
        page.goto(desk.pages["preview"])
        for button, region in (("Preview", "Preview"), ("Try on synthetic rows", "Dry run")):
            page.get_by_role("button", name=button, exact=True).click()
            expect(page.get_by_role("region", name=region)).to_be_in_viewport()
        page.get_by_role("textbox", name="Epsilon", exact=True).fill("many")
        page.get_by_role("button", name="Release", exact=True).click()
        expect(page.get_by_role("alert").get_by_role("link").first).to_be_in_viewport()
        page.goto(desk.pages["changes"])
        page.get_by_role("textbox", name="Comment").fill("A third of it would do, too.")
        page.get_by_role("button", name="Comment").click()
        expect(page.get_by_role("status").first).to_be_in_viewport()
    with visits.window(desk.keys["Grace Hopper"], java_script_enabled=script, **PHONE) as page:
        page.goto("/desk/datasets/new")
        if script:
            page.get_by_role("navigation", name="Steps").get_by_role("link", name="Check").click()
        page.get_by_role("button", name="Check", exact=True).click()
        expect(page.get_by_role("alert")).to_be_in_viewport()
        assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_what_script_says_is_in_the_readers_language(visits: Visits, desk: Desk) -> None:
    with visits.window(desk.keys["Ada Lovelace"]) as page:
        page.goto(f"{desk.pages['release']}?lang=de")
        with page.expect_download() as held:
            page.get_by_role("button", name="PNG herunterladen").click()
        assert held.value.suggested_filename == "chart.png"
        page.goto(f"{desk.pages['preview']}&lang=en")  # the choice is the person's
    script = (STATIC / "desk.js").read_text("utf-8")
    assert not re.findall(r"[\"`][A-Z][a-z]+ [^\"`]*[\"`]", script), "templates have its texts"


@pytest.mark.parametrize("script", [True, False], ids=["script", "no script"])
def test_a_key_is_revoked_by_keyboard(
    visits: Visits, desk: Desk, admin: httpx.Client, script: bool
) -> None:
    key = make_key(admin, "analyst", f"Ada {uuid4()}")
    with visits.window(desk.keys["admin"], java_script_enabled=script) as page:
        page.goto("/desk/keys")
        by = Keyboard(page)
        by.press(page.get_by_role("link", name=f"Revoke {key['name']}"))
        expect(page.get_by_role("heading", level=1)).to_contain_text(key["name"])
        confirm(by, "Revoke", heading=key["name"])
        expect(page.get_by_text("The key is revoked.")).to_be_visible()
        expect(page.get_by_role("link", name=f"Revoke {key['name']}")).to_have_count(0)


def test_what_is_hidden_is_not_shown(visits: Visits, desk: Desk) -> None:
    with visits.window(desk.keys["Grace Hopper"]) as page:
        page.goto("/desk/datasets/new")
        expect(page.get_by_role("button", name="Cancel")).to_have_count(0)


@pytest.mark.parametrize("look", LOOKS, ids=["light and narrow", "dark and wide"])
def test_everybody_can_declare_columns(visits: Visits, desk: Desk, look: dict[str, Any]) -> None:
    visits.expected.add(422)
    with visits.window(desk.keys["Grace Hopper"], **look) as page:
        page.goto("/desk/datasets/new")
        page.get_by_label("File").set_input_files(ENGEL)
        expect(page.get_by_role("textbox", name="income lower")).to_be_visible()
        expect(page.get_by_label("income na")).to_have_count(0)
        page.get_by_role("textbox", name="income missing").focus()
        by = Keyboard(page)
        by.press(page.locator("summary", has_text="income more"))
        by.fill(page.get_by_role("textbox", name="income na"), "-99")
        page.get_by_role("textbox", name="income missing").focus()
        expect(page.locator("summary", has_text="income more")).to_contain_text("na -99")
        assert faults_of(page) == []
        steps = page.get_by_role("navigation", name="Steps")
        steps.get_by_role("link", name="People and bounds").click()
        page.get_by_text("More: how the rows of a survey were sampled").click()
        page.get_by_role("combobox", name="Weight").fill("income")
        page.get_by_role("textbox", name="Replicate weights").fill("food*")
        assert faults_of(page) == []
        steps.get_by_role("link", name="Check").click()
        page.get_by_role("button", name="Check").click()
        expect(page.get_by_role("alert")).to_contain_text("income lower")
        assert faults_of(page) == []


def test_an_upload_shows_how_far_it_is_and_can_be_cancelled(visits: Visits, desk: Desk) -> None:
    held: list[Route] = []

    def hold(route: Route) -> None:
        """Do as a slow network does."""
        held.append(route)

    with visits.window(desk.keys["Grace Hopper"]) as page:
        page.goto("/desk/datasets/new")
        page.get_by_label("File").set_input_files(ENGEL)
        expect(page.get_by_role("textbox", name="income lower")).to_be_visible()
        page.get_by_role("textbox", name="Name", exact=True).fill("never there")
        page.get_by_role("textbox", name="Epsilon budget").fill("1")
        page.route("**/desk/datasets/**", hold)
        page.get_by_role("button", name="Upload").click()
        progress = page.get_by_role("progressbar", name="Upload progress")
        expect(progress).to_be_visible()
        expect(page.get_by_text("The file is sent.")).to_be_visible()
        page.get_by_role("button", name="Cancel").click()
        expect(page.get_by_text("Cancelled. Nothing of the file is kept.")).to_be_visible()
        expect(progress).to_be_hidden()
        assert len(held) == 1


@pytest.mark.parametrize("look", LOOKS, ids=["light and narrow", "dark and wide"])
def test_everybody_can_add_rows(
    visits: Visits, desk: Desk, look: dict[str, Any], tmp_path: Path
) -> None:
    """A file is sent when the button is pressed, not when it is chosen."""
    visits.expected.add(422)
    chance = Random(uuid4().int)
    wrong, right = tmp_path / "wrong.csv", tmp_path / "right.csv"
    wrong.write_text("wage\n" + "many\n" * 40)
    right.write_text("wage\n" + "\n".join(map(str, chance.sample(range(10_000), 100))))
    with visits.window(desk.keys["Grace Hopper"], **look) as page:
        page.goto(desk.pages["versions"])
        page.get_by_role("link", name="Add rows").click()
        page.get_by_label("File").set_input_files(wrong)
        expect(page.get_by_role("heading", level=1)).to_have_text("Add rows")
        expect(page.get_by_role("alert")).to_have_count(0)
        page.get_by_role("textbox", name="Name").fill("Wages of the next year")
        page.get_by_role("button", name="Add rows").click()
        expect(page.get_by_role("alert")).to_contain_text("Row")
        assert faults_of(page) == []
        page.get_by_label("File").set_input_files(right)
        page.get_by_role("textbox", name="Name").fill(f"Wages of the year {uuid4()}")
        page.get_by_role("button", name="Add rows").click()
        expect(page.get_by_role("heading", name="How the file was read")).to_be_visible()
        assert faults_of(page) == []
        page.get_by_role("button", name="Create data set").click()
        expect(page.get_by_role("table").filter(has_text="(this one)")).to_be_visible()
        assert faults_of(page) == []


@pytest.mark.wide
def test_every_picture_of_the_documents_is_taken_by_the_script(
    browser: Browser, service: Service, desk: Desk, tmp_path: Path
) -> None:
    take(browser, service.url, desk, tmp_path)
    taken = {path.name: path.stat().st_size for path in tmp_path.iterdir()}
    assert {f"{name}.png" for name in (*SHOWN, DRAFTED)} == set(taken)
    assert set(taken) == {path.name for path in IMAGES.iterdir() if path.is_file()}
    assert not {name: size for name, size in taken.items() if size > MOST_BYTES}


def test_every_picture_is_named_and_there() -> None:
    docs = IMAGES.parent
    named = {
        (path.parent / name).resolve()
        for path in docs.rglob("*.md")
        for name in re.findall(r"!\[[^\]]+\]\(([^)]+)\)", path.read_text("utf-8"))
    }
    assert named == {path for path in docs.rglob("*") if path.suffix in {".png", ".svg"}}
