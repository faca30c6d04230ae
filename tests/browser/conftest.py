"""Debian's Chromium, and a server whose desk it visits.

Where there is no Chromium every test is skipped aloud.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import httpx
import pytest
from playwright.sync_api import Browser, sync_playwright

from tests.browser.visiting import Visits
from tests.contract.service import Service, running

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
FLAGS = ["--no-sandbox", "--disable-gpu"]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Return the browser; of a module, since its driver has an event loop of its own."""
    if CHROMIUM is None:
        pytest.skip("CHROMIUM IS MISSING: THE DESK WAS NOT TRIED IN A BROWSER")
    with sync_playwright() as driver:
        found = driver.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield found
        found.close()


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with running(tmp_path_factory.mktemp("browser") / "data", development=True) as found:
        yield found


@pytest.fixture(scope="module")
def admin(service: Service) -> Iterator[httpx.Client]:
    with service.client() as client:
        yield client


@pytest.fixture
def visits(browser: Browser, service: Service) -> Iterator[Visits]:
    """Return what opens windows of the browser; at the end none may have complained."""
    with Visits.of(browser, service.url) as found:
        yield found
