"""Signing in by a proxy's headers: only with its secret, and every way around it is refused."""

from __future__ import annotations

import json
import logging
import socket
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from pydantic import ValidationError

from app.settings import Settings, SettingsError
from tests.contract.service import ADMIN_KEY, Service, running, upload
from tests.speed import PATIENCE_S
from tests.tiers import in_one

SECRET = "planted-9f31c7-secret-of-the-gateway-0123456789"
ABOUT: dict[str, Any] = {
    "id": "gateway", "name": "the Gateway", "secret": SECRET,
    "roles": {"data": "curator", "staff": "analyst"},
}  # fmt: skip
ADDRESS = "/desk/sign-in/gateway"


def named(who: str = "ada", groups: str = "data", secret: str = SECRET) -> dict[str, str]:
    return {
        "X-Sign-In-Secret": secret, "X-Forwarded-User": f"id-{who}",
        "X-Forwarded-Email": f"{who}@example.org", "X-Forwarded-Groups": groups,
    }  # fmt: skip


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    home = tmp_path_factory.mktemp("proxy")
    with running(home / "data", proxy_sign_in=json.dumps(ABOUT), oidc_session_s=60) as found:
        yield found


@pytest.fixture
def browser(service: Service) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=service.url, timeout=PATIENCE_S, verify=False) as client:
        yield client


def out(browser: httpx.Client) -> bool:
    return browser.get("/desk").status_code == 303


def test_somebody_signs_in_by_the_groups_that_the_proxy_names(
    service: Service, browser: httpx.Client
) -> None:
    page = browser.get("/desk/sign-in")
    assert "Sign in with the Gateway" in page.text
    signed = browser.get(f"{ADDRESS}?next=/desk/audit", headers=named(groups="none, data ,staff"))
    assert signed.status_code == 200
    assert 'content="0;url=/desk/audit"' in signed.text
    cookie = signed.headers["set-cookie"].lower()
    assert "samesite=strict" in cookie
    assert "httponly" in cookie
    assert "ada@example.org" in browser.get("/desk").text
    assert browser.get("/desk/datasets/new").status_code == 200
    with service.client() as admin:
        (key,) = [each for each in admin.get("/v1/keys").json()["items"] if "ada" in each["person"]]
    assert (key["name"], key["role"]) == ("Sign-in: the Gateway", "curator")
    # who has left the group has another role at the next sign-in, and none without any
    browser.get(ADDRESS, headers=named(groups="staff"))
    assert browser.get("/desk/datasets/new").status_code == 403
    refused = browser.get(ADDRESS, headers=named(groups="staffs,Data,"))
    assert refused.status_code == 403
    assert "No group of yours at the Gateway has a role here" in refused.text
    assert out(browser)


WRONG: dict[str, Any] = {
    "no headers": {},
    "no secret": {**named(), "X-Sign-In-Secret": ""},
    "a wrong secret": named(secret=SECRET[:-1] + "x"),
    "the secret's beginning": named(secret=SECRET[:-1]),
    "the secret and more": named(secret=SECRET + "x"),
    "the secret in another case": named(secret=SECRET.upper()),
    "the secret as a bearer": {**named(secret=""), "Authorization": f"Bearer {SECRET}"},
    "an admin's key": named(secret=ADMIN_KEY),
    "no subject": {**named(), "X-Forwarded-User": ""},
    "no name": {**named(), "X-Forwarded-Email": ""},
    "two secrets": [*named().items(), ("X-Sign-In-Secret", SECRET)],
    "two subjects": [*named().items(), ("X-Forwarded-User", "id-eve")],
    "two subjects in other letters": [*named().items(), ("x-forwarded-USER", "id-eve")],
    "two names": [*named().items(), ("X-Forwarded-Email", "eve@example.org")],
    "a name that is no text": {**named(), "X-Forwarded-Email": b"\xff\xfe"},
    "a name that is not seen": {**named(), "X-Forwarded-Email": "ada\u200b@example.org".encode()},
    "a subject too long": {**named(), "X-Forwarded-User": "x" * 8_001},
    "underscores": {key.replace("-", "_"): value for key, value in named().items()},
}


@pytest.mark.parametrize("headers", WRONG.values(), ids=WRONG)
def test_anything_else_is_refused_in_the_same_words(
    browser: httpx.Client, headers: Any, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG):
        refused = browser.get(ADDRESS, headers=headers)
    assert refused.status_code == 403
    assert "the Gateway did not confirm who you are." in refused.text
    assert "set-cookie" not in refused.headers
    assert SECRET not in refused.text + caplog.text
    assert out(browser)


def test_two_lists_of_groups_give_no_role(browser: httpx.Client) -> None:
    twice = [*named().items(), ("X-Forwarded-Groups", "data")]
    refused = browser.get(ADDRESS, headers=twice)
    assert refused.status_code == 403
    assert "set-cookie" not in refused.headers


def test_the_headers_do_nothing_elsewhere(browser: httpx.Client) -> None:
    assert browser.get("/desk", headers=named()).status_code == 303
    assert browser.get("/v1/datasets", headers=named()).status_code == 401
    assert browser.get(f"{ADDRESS}/callback", headers=named()).status_code == 404
    assert browser.post(ADDRESS, headers=named()).status_code in (404, 405)


def test_a_name_of_somebody_else_is_refused(service: Service, browser: httpx.Client) -> None:
    """The proxy cannot give its users the releases of others."""
    browser.get(ADDRESS, headers=named("grace"))
    other = named("grace") | {"X-Forwarded-User": "id-of-another-grace"}
    with httpx.Client(base_url=service.url, timeout=PATIENCE_S, verify=False) as another:
        refused = another.get(ADDRESS, headers=other)
        assert refused.status_code == 409
        assert out(another)


def test_without_the_setting_nobody_is_believed(tmp_path: Any) -> None:
    with (
        running(tmp_path / "data") as plain,
        httpx.Client(base_url=plain.url, timeout=PATIENCE_S, verify=False) as client,
    ):
        assert client.get(ADDRESS, headers=named()).status_code == 404
        assert out(client)


def test_a_proxy_that_passes_a_clients_headers_on_as_well_signs_no_one_in(service: Service) -> None:
    """As bytes: a client's header in front of the proxy's own is one too many."""
    host, port = service.url.removeprefix("http://").split(":")
    lines = [f"{key}: {value}" for key, value in named().items()]
    for place in (0, len(lines)):
        sent = [*lines[:place], "x-forwarded-user: id-root", *lines[place:]]
        request = "\r\n".join([f"GET {ADDRESS} HTTP/1.1", "host: desk", "connection: close", *sent])
        with socket.create_connection((host, int(port)), PATIENCE_S) as connection:
            connection.sendall(f"{request}\r\n\r\n".encode())
            answer = b"".join(iter(lambda: connection.recv(65_536), b""))
        assert answer.startswith(b"HTTP/1.1 403")
        assert b"set-cookie" not in answer.lower()


@in_one(
    "change",
    [
        {"secret": "short"},
        {"roles": {}},
        {"roles": {"data": "metrics"}},
        {"id": "a/b"},
        {"secret_header": "X Secret"},
        {"secret_header": "X-Forwarded-User"},
        {"groups_header": "x-forwarded-user"},
        {"subject_header": "Authorization"},
        {"name_header": "Cookie"},
        {"more": 1},
    ],
)
def test_settings_that_would_believe_too_much_are_refused(change: dict[str, Any]) -> None:
    with pytest.raises((ValidationError, SettingsError)) as refused:
        Settings(proxy_sign_in=json.dumps(ABOUT | change))
    assert SECRET not in str(refused.value)


def test_the_proxy_has_an_id_of_its_own() -> None:
    provider = {
        "id": "gateway", "name": "Uni", "issuer": "https://id.example.org", "client_id": "desk",
        "roles": {"data": "curator"},
    }  # fmt: skip
    with pytest.raises((ValidationError, SettingsError), match="id of a provider"):
        Settings(proxy_sign_in=json.dumps(ABOUT), oidc_providers=json.dumps([provider]))


def test_a_group_of_the_proxy_opens_what_names_it(service: Service, browser: httpx.Client) -> None:
    with service.client() as admin:
        dataset = upload(admin)["id"]
        access = {"persons": [], "groups": ["gateway:study"]}
        body = {"access": access, "reason": "a test"}
        admin.put(f"/v1/datasets/{dataset}/access", json=body).raise_for_status()
    for groups, status in (("staff", 404), ("staff,study", 200), ("staff,stud", 404)):
        browser.get(ADDRESS, headers=named("zoe", groups=groups)).raise_for_status()
        assert browser.get(f"/desk/datasets/{dataset}").status_code == status, groups
