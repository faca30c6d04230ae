"""Signing in at a provider of identities, from the button to the desk, by real HTTP."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.contract.service import ADMIN_KEY, Service, assert_problem, running
from tests.desk.browsing import signed_in
from tests.speed import PATIENCE_S

with warnings.catch_warnings():  # it uses names that its own library no longer recommends
    warnings.simplefilter("ignore")
    from oidc_provider_mock import User, run_server_in_thread

# In the provider's own code, which is a library's and runs in a thread of this process.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")
GROUPS = {"ada": ["data"], "bob": ["staff"], "eve": []}
USERS = [
    User(sub=name, claims={"email": f"{name}@example.org", "groups": groups})
    for name, groups in GROUPS.items()
]


@contextmanager
def served(data_dir: Path, **settings: Any) -> Iterator[Service]:
    """Serve a desk, and a provider that its users sign in at."""
    with run_server_in_thread(user_claims=USERS) as provider:
        issuer = f"http://localhost:{provider.server_port}"
        about: dict[str, Any] = {
            "id": "uni", "name": "the University", "issuer": issuer, "client_id": "desk",
            "client_secret": "secret", "roles": {"data": "curator", "staff": "analyst"},
        }  # fmt: skip
        with running(data_dir, oidc_providers=json.dumps([about]), **settings) as found:
            yield found


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with served(tmp_path_factory.mktemp("providers") / "data") as found:
        yield found


class Browser:
    """Follows links, and keeps each site's cookies, as a browser does."""

    def __init__(self, client: httpx.Client) -> None:
        self.client = client

    def at_provider(self, wanted: str = "") -> httpx.Response:
        page = self.client.get("/desk/sign-in")
        assert "Sign in with the University" in page.text
        address = f"/desk/sign-in/uni{f'?next={wanted}' if wanted else ''}"
        assert "/desk/sign-in/uni" in page.text
        return self.client.get(address)

    def back(self, name: str, wanted: str = "") -> str:
        """Sign in at the provider; return the address that it sends the browser back to."""
        away = self.at_provider(wanted)
        assert away.status_code == 303
        answer = self.client.post(away.headers["location"], data={"sub": name})
        assert answer.status_code == 302, answer.text
        return answer.headers["location"]


@pytest.fixture
def browsers(service: Service) -> Iterator[Callable[[], Browser]]:
    with ExitStack() as open_ones:
        yield lambda: Browser(
            open_ones.enter_context(
                httpx.Client(base_url=service.url, timeout=PATIENCE_S, verify=False)
            )
        )


def test_somebody_signs_in_by_the_groups_they_are_in(
    service: Service, browsers: Callable[[], Browser]
) -> None:
    browser = browsers()
    back = browser.back("ada", "/desk/audit")
    page = browser.client.get(back)
    assert page.status_code == 200
    assert 'http-equiv="refresh" content="0;url=/desk/audit"' in page.text
    assert "samesite=strict" in page.headers["set-cookie"].lower()
    desk = browser.client.get("/desk")
    assert "ada@example.org" in desk.text
    assert browser.client.get("/desk/datasets/new").status_code == 200
    again = browser.client.get(back)  # the code is used, and the cookie forgotten
    assert again.status_code == 403
    with service.client() as admin:
        (key,) = [each for each in admin.get("/v1/keys").json()["items"] if "ada" in each["person"]]
    assert (key["name"], key["role"]) == ("Sign-in: the University", "curator")


def test_an_analyst_is_one_and_who_is_in_no_group_stays_out(
    browsers: Callable[[], Browser],
) -> None:
    browser = browsers()
    browser.client.get(browser.back("bob"))
    assert browser.client.get("/desk/datasets/new").status_code == 403
    outsider = browsers()
    refused = outsider.client.get(outsider.back("eve"))
    assert refused.status_code == 403
    assert "No group of yours at the University has a role here" in refused.text
    assert "set-cookie" not in refused.headers
    assert outsider.client.get("/desk").status_code == 303


def test_an_admin_lets_somebody_sign_in_again(tmp_path: Path) -> None:
    with served(tmp_path / "data") as service, service.client() as admin, ExitStack() as held:

        def sign_in() -> int:
            client = httpx.Client(base_url=service.url, timeout=PATIENCE_S, verify=False)
            browser = Browser(held.enter_context(client))
            return browser.client.get(browser.back("ada")).status_code

        def known() -> list[str]:
            listed = admin.get("/v1/keys").json()["items"]
            return [each["id"] for each in listed if each["person"] == "ada@example.org"]

        assert sign_in() == 200
        (key,) = known()
        assert_problem(admin.post(f"/v1/keys/{key}/sign-in"), 404, "not-found")
        admin.delete(f"/v1/keys/{key}").raise_for_status()
        assert sign_in() == 403
        assert admin.post(f"/v1/keys/{key}/sign-in").status_code == 204
        assert sign_in() == 200
        again = known()[0]
        admin.delete(f"/v1/keys/{again}").raise_for_status()
        assert sign_in() == 403
        with signed_in(service, ADMIN_KEY) as chief:
            done = chief.send(chief.open("/desk/keys"), "Allow sign-in")
            assert "They may sign in again" in done.text
        assert sign_in() == 200
        assert len(known()) == 3
        assert admin.get("/v1/ledger/verification").json()["ok"]


def test_an_address_of_another_browser_signs_nobody_in(browsers: Callable[[], Browser]) -> None:
    """A person who follows a link of another person would act as that person."""
    back = browsers().back("bob")
    victim = browsers()
    for begun in (False, True):
        if begun:
            victim.at_provider()
        assert victim.client.get(back).status_code == 403
        assert victim.client.get("/desk").status_code == 303


def test_there_is_no_other_provider(browsers: Callable[[], Browser]) -> None:
    browser = browsers()
    assert browser.client.get("/desk/sign-in/other").status_code == 404
    assert browser.client.get("/desk/sign-in/other/callback?code=1&state=2").status_code == 404


def test_the_setting_says_where_it_is_wrong_and_nothing_that_it_holds(tmp_path: Path) -> None:
    wrong = '[{"id": "uni", "client_secret": "never shown"}]'
    with (
        pytest.raises(Exception, match=r"0\.name") as refusal,
        running(tmp_path / "data", oidc_providers=wrong, bootstrap_key=ADMIN_KEY),
    ):
        pass
    assert "never shown" not in str(refusal.value)


def test_without_providers_there_are_keys_alone(tmp_path: Path) -> None:
    with running(tmp_path / "data") as alone, alone.client(None) as client:
        assert "Sign in with" not in client.get("/desk/sign-in").text
        assert client.get("/desk/sign-in/uni").status_code == 404
