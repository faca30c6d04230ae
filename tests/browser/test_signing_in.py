"""Signing in at a provider of identities in a real browser, which keeps cookies as browsers do."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Route, expect

from tests.browser.visiting import Visits, faults_of
from tests.contract.service import Service
from tests.contract.test_providers import served

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::DeprecationWarning")]


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with served(tmp_path_factory.mktemp("signing in") / "data") as found:
        yield found


def _page_alone(route: Route) -> None:
    """Let the provider have its pages, and nothing that they would fetch from elsewhere."""
    if route.request.resource_type == "document":
        route.continue_()
    else:
        route.fulfill(status=200, body="")


@pytest.mark.parametrize("script", [True, False], ids=["with script", "without script"])
def test_who_comes_back_from_the_provider_is_at_the_desk(
    browser: Browser, service: Service, script: bool
) -> None:
    """Also at the page that was wanted: the session's cookie goes with no other site's request."""
    with (
        Visits.of(browser, service.url) as visits,
        visits.window(java_script_enabled=script) as page,
    ):
        page.route(lambda url: not url.startswith(service.url), _page_alone)
        page.goto("/desk/audit")
        if script:
            assert faults_of(page) == []
        page.get_by_role("link", name="Sign in with the University").click()
        page.get_by_role("button", name="ada").click()
        page.wait_for_url("**/desk/audit")
        expect(page.get_by_text("ada@example.org").first).to_be_visible()
        page.get_by_role("button", name="Sign out").click()
        page.goto("/desk/audit")
        expect(page.get_by_role("link", name="Sign in with the University")).to_be_visible()
