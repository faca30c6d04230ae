"""Windows of a browser, each with somebody signed in, and what they may not do: complain."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from axe_playwright_python.base import AXE_SCRIPT
from playwright.sync_api import Browser, ConsoleMessage, FilePayload, Locator, Page, expect

from tests.speed import PATIENCE_S

_PATIENCE_MS = 1000 * PATIENCE_S
expect.set_options(timeout=_PATIENCE_MS)
_LOUD = ("warning", "error")
_FOCUSED = "element => element === document.activeElement"
_MOST_TABS = 200
LOOKS: tuple[dict[str, Any], ...] = (
    {"color_scheme": "dark", "viewport": {"width": 390, "height": 800}},
    {"color_scheme": "light", "viewport": {"width": 1280, "height": 900}},
)
"""A phone and a screen, each width and each theme once; a window goes on with the last one."""
_FAULTS = """
colours => axe.run({
  resultTypes: ['violations'], selectors: false, preload: false,
  rules: { 'color-contrast': { enabled: colours } },
}).then(found => found.violations)
"""
"""What the checker finds wrong, by its HTML. What it finds right is much more, and would be sent as
well; style sheets are loaded again only for rules that are not enabled, and no page has media."""
_SESSIONS: dict[tuple[str, str | None, bool], Any] = {}
"""The cookies that signing in has given: by server, by key, and with script or without."""


@dataclass
class Visits:
    """Opens windows; each has cookies of its own."""

    browser: Browser
    url: str
    complaints: list[str] = field(default_factory=list)
    expected: set[int] = field(default_factory=set)
    """Statuses of refusals that a test provokes: the console names them."""

    @classmethod
    @contextmanager
    def of(cls, browser: Browser, url: str) -> Iterator[Visits]:
        """Open windows for a block; what they complained about fails it at its end."""
        visits = cls(browser, url)
        yield visits
        assert not visits.complaints, visits.complaints

    @contextmanager
    def window(self, key: str | None = None, **options: Any) -> Iterator[Page]:
        """Open a window, signed in with a key if one is given: by hand only the first time."""
        context = self.browser.new_context(base_url=self.url, **options)
        context.set_default_timeout(_PATIENCE_MS)
        page = context.new_page()
        page.on("console", self._heard)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        known = (self.url, key, options.get("java_script_enabled", True))
        if known in _SESSIONS:
            context.add_cookies(_SESSIONS[known])
        elif key is not None:
            sign_in(page, key)
            _SESSIONS[known] = context.cookies()
        try:
            yield page
        finally:
            context.close()

    def _heard(self, message: ConsoleMessage) -> None:
        refused = any(f"status of {status}" in message.text for status in self.expected)
        if message.type in _LOUD and not refused:
            self.complaints.append(message.text)


def sign_in(page: Page, key: str) -> None:
    """Sign in as a person does."""
    page.goto("/desk/sign-in")
    page.get_by_role("textbox", name="API key").fill(key)
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url("**/desk")


def confirm(by: Mouse | Keyboard, button: str, *, heading: str) -> None:
    """Confirm an act that cannot be undone, on the page that comes before it."""
    expect(by.page.get_by_role("heading", level=1)).to_contain_text(heading)
    by.tick(by.page.get_by_role("checkbox", name="I understand that this cannot be undone"))
    by.press(by.page.get_by_role("button", name=button))


@dataclass(frozen=True)
class Mouse:
    """Uses a page by pointing at things."""

    page: Page

    def press(self, wanted: Locator) -> None:
        """Press a button, or follow a link."""
        wanted.click()

    def fill(self, wanted: Locator, text: str) -> None:
        """Write into a field."""
        wanted.fill(text)

    def choose(self, wanted: Locator, option: str) -> None:
        """Choose of a list."""
        wanted.select_option(option)

    def tick(self, wanted: Locator) -> None:
        """Tick a box, or one of several."""
        wanted.check()

    def take(self, wanted: Locator, file: FilePayload) -> None:
        """Choose a file."""
        wanted.set_input_files(file)


class Keyboard(Mouse):
    """Uses a page by keys alone: whatever they do not reach cannot be used."""

    def press(self, wanted: Locator) -> None:
        """Press a button, or follow a link."""
        self.reach(wanted)
        self.page.keyboard.press("Enter")

    def fill(self, wanted: Locator, text: str) -> None:
        """Write into a field."""
        self.reach(wanted)
        self.page.keyboard.press("Control+A")
        self.page.keyboard.type(text)

    def choose(self, wanted: Locator, option: str) -> None:
        """Choose of a list, by the first word of what is wanted."""
        self.reach(wanted)
        if wanted.input_value() != option:
            self.page.keyboard.type(option.partition(" ")[0])
        expect(wanted).to_have_value(option)

    def tick(self, wanted: Locator) -> None:
        """Tick a box with the space bar; of several come to the chosen one, and go on by arrows."""
        if wanted.get_attribute("type") == "checkbox":
            self.reach(wanted)
            self.page.keyboard.press("Space")
        else:
            self.reach(wanted, "element => element.name === document.activeElement.name")
            while not wanted.is_checked():
                self.page.keyboard.press("ArrowDown")

    def take(self, wanted: Locator, file: FilePayload) -> None:
        """Choose a file: the key opens the dialogue, which is the browser's own."""
        with self.page.expect_file_chooser() as opened:
            # Only now: when this is answered, the browser knows whose the dialogue is to show.
            self.reach(wanted)
            self.page.keyboard.press("Enter")
        opened.value.set_files(file)

    def reach(self, wanted: Locator, there: str = _FOCUSED) -> None:
        """Press Tab until something has the focus."""
        expect(wanted).to_be_attached()
        for _ in range(_MOST_TABS):
            if wanted.evaluate(there):
                return
            self.page.keyboard.press("Tab")
        raise AssertionError(f"the focus never comes to {wanted}")


def look_like(page: Page, look: Mapping[str, Any]) -> None:
    """Give a window a size and a theme, as whoever turns their screen or sets it to dark does."""
    page.set_viewport_size(look["viewport"])
    page.emulate_media(color_scheme=look["color_scheme"])


def faults_in_all(page: Page) -> list[str]:
    """Return what is wrong with a page as it is now, at two widths and in two themes.

    Colours take longer than all other rules together. They are checked in the last look: every page
    is in both themes (:mod:`tests.browser.test_every_page`).
    """
    faults: list[str] = []
    for look in LOOKS:
        look_like(page, look)
        faults += faults_of(page, colours=look is LOOKS[-1])
    return faults


def faults_of(page: Page, *, colours: bool = True) -> list[str]:
    """Return what the accessibility checker finds wrong with a page, and how wide it is."""
    if page.evaluate("typeof axe === 'undefined'"):
        page.evaluate(AXE_SCRIPT)
    found = [
        f"{page.url} {fault['id']}: {[node['html'][:120] for node in fault['nodes'][:3]]}"
        for fault in page.evaluate(_FAULTS, colours)
    ]
    wide = page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
    return [*found, *([f"{page.url} is {wide} pixels wider than the window"] if wide > 0 else [])]
