"""Signing in and out: sessions, cookies, other sites, and what a browser may load."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlencode

import httpx
import pytest

from app.desk.pages import ROUTERS
from app.desk.routes import VisitorWith
from tests.contract.service import ADMIN_KEY, Service, make_key, running, upload
from tests.desk.browsing import Browsing, Page, signed_in, signed_out

OPEN = {
    "/desk/sign-in",
    "/desk/sign-in/{provider}",
    "/desk/sign-in/{provider}/callback",
    "/desk/sign-out",
    "/desk/static/{digest}/{name}",
    "/public",
    "/public/releases/{release}",
    "/public/releases/{release}/certificate",
    "/public/releases/{release}/chart.svg",
    "/public/releases/{release}/pivot.{ending}",
}


def test_the_desk_begins_with_signing_in(service: Service) -> None:
    with signed_out(service) as browsing:
        page = browsing.open("/desk/nowhere")
        assert page.path == "/desk/sign-in"
        assert page.labels() == ["API key"]
        wrong = browsing.send(page, "Sign in", key="rd_wrong", status=401)
        assert wrong.alerts() == ["This key cannot sign in."]
        assert "rd_wrong" not in wrong.answer.text
        shown = browsing.send(wrong, "Sign in", key=ADMIN_KEY, status=404)
        assert shown.path == "/desk/nowhere"  # what was asked for first


def test_signing_in_leads_back_to_what_was_asked_with_all_that_was_filled_in(
    service: Service, admin: httpx.Client
) -> None:
    """A preview has an address that can be sent to somebody."""
    dataset = upload(admin)["id"]
    asked = {
        "statistic": "mean", "columns": "income", "wanted": "epsilon", "epsilon": "0.125",
        "purpose": "a//b & c=d?\ne", "act": "preview",
    }  # fmt: skip
    address = f"/desk/datasets/{dataset}/ask?{urlencode(asked)}"
    with signed_out(service) as browsing:
        shown = browsing.send(browsing.open(address), "Sign in", key=ADMIN_KEY)
        assert str(shown.answer.url).endswith(address)
        assert "epsilon 0.125" in shown.text
    with signed_out(service) as browsing:
        long = browsing.open(f"/desk/releases?status={'x' * 9000}")
        assert browsing.send(long, "Sign in", key=ADMIN_KEY).path == "/desk/releases"


def test_every_page_but_that_one_needs_somebody() -> None:
    for router in ROUTERS:
        for route in router.routes:
            asked = [each.call for each in route.dependant.dependencies]
            known = any(isinstance(call, VisitorWith) for call in asked)
            assert known != (route.path in OPEN), route.path


def test_home_has_the_way_to_every_page(chief: Browsing, analyst: Browsing) -> None:
    page = chief.open("/desk")
    assert page.heading == "Release Desk"
    everyone = {"Data sets", "Releases", "Reviews", "Audit"}
    assert everyone | {"Keys"} <= page.links().keys()
    shown = analyst.open("/desk").links().keys()
    assert everyone <= shown
    assert "Keys" not in shown


def test_a_session_ends_with_signing_out_and_with_its_key(
    service: Service, admin: httpx.Client
) -> None:
    key = make_key(admin, "analyst")
    with signed_in(service, key["secret"]) as browsing:
        cookie = dict(browsing.client.cookies)
        assert browsing.send(browsing.open("/desk"), "Sign out").path == "/desk/sign-in"
        assert not browsing.client.cookies
        browsing.client.cookies.update(cookie)  # somebody who has kept it
        assert browsing.open("/desk").path == "/desk/sign-in"
    with signed_in(service, key["secret"]) as browsing:
        assert admin.delete(f"/v1/keys/{key['id']}").status_code < 300
        assert browsing.open("/desk").path == "/desk/sign-in"


def test_the_cookie_is_for_this_service_alone(service: Service) -> None:
    with httpx.Client(base_url=service.url, verify=False) as client:
        answer = client.post("/desk/sign-in", data={"key": ADMIN_KEY})
        # the language that a person has chosen, and what was opened last, are cookies of their own
        found = [each.lower() for each in answer.headers.get_list("set-cookie")]
        (said,) = (each for each in found if each.startswith("release-desk-session="))
        assert {"httponly", "samesite=strict", "path=/"} <= set(said.split("; "))
        assert ADMIN_KEY not in said


def test_behind_tls_the_cookie_is_sent_by_tls_alone(tmp_path: Path) -> None:
    with running(tmp_path / "data", public_url="https://desk.example") as service:
        answer = httpx.post(f"{service.url}/desk/sign-in", data={"key": ADMIN_KEY})
        said = answer.headers["set-cookie"]
        assert said.startswith("__Host-")
        assert "secure" in said.lower().split("; ")
        assert "domain" not in said.lower()


@pytest.mark.parametrize("site", ["cross-site", "same-site", "none"])
def test_what_another_site_sends_is_refused(service: Service, chief: Browsing, site: str) -> None:
    with httpx.Client(base_url=service.url, cookies=chief.client.cookies, verify=False) as client:
        for headers in ({"Sec-Fetch-Site": site}, {"Origin": "https://elsewhere.example"}):
            sent = client.post("/desk/sign-out", headers=headers)
            assert sent.status_code == 403
            assert Page(sent).alerts() == ["The form was sent from another site."]
    assert chief.open("/desk").path == "/desk"


@pytest.mark.parametrize(
    "wanted",
    ["https://elsewhere.example", "//elsewhere.example", "/desk//x", "/v1/keys", "/desk/a\nb"],
)
def test_signing_in_leads_to_the_desk_and_nowhere_else(service: Service, wanted: str) -> None:
    with httpx.Client(base_url=service.url, verify=False) as client:
        answer = client.post("/desk/sign-in", data={"key": ADMIN_KEY, "next": wanted})
        assert answer.headers["location"] == "/desk"


def test_a_page_loads_our_own_files_and_nothing_else(chief: Browsing) -> None:
    page = chief.open("/desk")
    policy = page.answer.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'")
    assert "unsafe" not in policy
    assert page.answer.headers["cache-control"] == "no-store"
    assert not page.tree.xpath("//*[@style]|//style|//script[not(@src)]|//@onclick")
    for address in page.tree.xpath("//link/@href|//script/@src"):
        sent = chief.client.get(address)
        assert sent.status_code == 200, address
        assert "immutable" in sent.headers["cache-control"]
    assert chief.client.get("/desk/static/000000000000/desk.css").status_code == 404


def test_where_nothing_is_a_page_says_so(chief: Browsing) -> None:
    assert chief.open("/desk/").path == "/desk"
    page = chief.open("/desk/nowhere", status=404)
    assert page.alerts()
    assert page.links()["Back to the desk"] == "/desk"


def test_too_large_a_form_is_refused(service: Service) -> None:
    with httpx.Client(base_url=service.url, verify=False) as client:
        sent = client.post("/desk/sign-in", data={"key": "x" * 2**20})
        assert sent.status_code == 413
        assert client.post("/desk/sign-in", json={"key": ADMIN_KEY}).status_code == 415


def test_signing_in_counts_against_the_keys_rate(tmp_path: Path) -> None:
    with running(tmp_path / "data", rate_limit_per_minute=5) as limited:
        with limited.client() as admin:
            key = make_key(admin, "analyst")["secret"]
        with httpx.Client(base_url=limited.url, verify=False) as client:
            for form in ({"key": key}, {"key": "rd_wrong"}):
                last = [client.post("/desk/sign-in", data=form).status_code for _ in range(6)]
                assert last == ([303] * 5 + [429] if form["key"] == key else [401] * 6)
