"""The pictures in the documents: ``python -m tests.browser.screenshots`` takes all of them anew."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from playwright.sync_api import Browser, Page, expect, sync_playwright

from tests.browser.conftest import CHROMIUM, FLAGS
from tests.browser.furnished import ENGEL, Desk, furnish
from tests.browser.visiting import Visits
from tests.contract.service import running

IMAGES = Path(__file__).parents[2] / "docs" / "images"
_CURATOR, _ANALYST = "Grace Hopper", "Ada Lovelace"
SHOWN: Mapping[str, tuple[str, str]] = {
    "home": (_CURATOR, "home"),
    "data-set": (_CURATOR, "data-set"),
    "ask": (_ANALYST, "preview"),
    "release": (_CURATOR, "release"),
    "review": ("Mary Cartwright", "review"),
    "audit": (_CURATOR, "audit"),
    "public": (_ANALYST, "public"),
}
"""Pictures of pages as they are: who looks, and at what."""
DRAFTED = "new-data-set"
_LOOK = {"width": 1200, "height": 500}


def take(browser: Browser, url: str, desk: Desk, folder: Path) -> None:
    """Take every picture into a folder."""
    with Visits.of(browser, url) as visits:
        for name, (person, shown) in SHOWN.items():
            with visits.window(desk.keys[person], viewport=_LOOK, color_scheme="light") as page:
                page.goto(desk.pages[shown])
                _take(page, folder, name)
        with visits.window(desk.keys[_CURATOR], viewport=_LOOK, color_scheme="light") as page:
            page.goto("/desk/datasets/new")
            page.get_by_label("File").set_input_files(ENGEL)
            first = page.get_by_role("textbox", name="income lower")
            expect(first).to_be_visible()
            first.fill("0")
            page.get_by_role("heading", name="Columns").evaluate("it => it.scrollIntoView()")
            _take(page, folder, DRAFTED)


def _take(page: Page, folder: Path, name: str) -> None:
    expect(page.get_by_role("heading", level=1)).to_be_attached()
    expect(page.locator("[data-follow]")).to_have_count(0)
    page.screenshot(path=folder / f"{name}.png")


def main() -> None:
    """Take the pictures of the documents."""
    if CHROMIUM is None:
        sys.exit("Chromium is missing: no picture was taken")
    IMAGES.mkdir(exist_ok=True)
    with (
        tempfile.TemporaryDirectory() as directory,
        running(Path(directory) / "data") as service,
        sync_playwright() as driver,
    ):
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        take(browser, service.url, furnish(service), IMAGES)
        browser.close()


if __name__ == "__main__":
    main()
