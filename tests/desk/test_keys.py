"""Keys at the desk: made with a secret that is shown once, listed, revoked."""

from __future__ import annotations

from pathlib import Path
from uuid import uuid4

import httpx
import pytest

from tests.contract.service import ADMIN_KEY, Service, make_key, running
from tests.desk.browsing import Browsing, Page, signed_in


def _secrets(page: Page) -> list[str]:
    return [each.text for each in page.tree.xpath("//code[@id='secret']")]


def _keys(admin: httpx.Client, name: str) -> int:
    return sum(each["name"] == name for each in admin.get("/v1/keys?limit=200").json()["items"])


def test_the_secret_of_a_new_key_is_shown_once(
    service: Service, admin: httpx.Client, chief: Browsing
) -> None:
    name = f"ada {uuid4()}"
    page = chief.open("/desk/keys")
    assert page.heading == "Keys"
    assert page.labels() == ["Name", "Role", "Expires", "Person"]
    filled = {"role": "analyst", "expires": "2999-01-01"}
    made = chief.send(page, "Make key", name=name, **filled)
    (secret,) = _secrets(made)
    with signed_in(service, secret) as browsing:
        assert browsing.open("/desk").path == "/desk"
    assert secret not in chief.open("/desk/keys").answer.text
    assert name in chief.open("/desk/keys").text
    assert made.answer.headers["cache-control"] == "no-store"
    # a double click makes no second key, and shows the same secret
    assert _secrets(chief.send(page, "Make key", name=name, **filled)) == [secret]
    assert _keys(admin, name) == 1
    # whoever goes back and writes another name wants another key
    (other,) = _secrets(chief.send(page, "Make key", name=f"{name}, again", **filled))
    assert other != secret
    assert _keys(admin, f"{name}, again") == 1


def test_a_key_is_refused_at_its_fields(admin: httpx.Client, chief: Browsing) -> None:
    page = chief.open("/desk/keys")
    wrong = chief.send(page, "Make key", name="", expires="2001-01-01", status=422)
    faults = {each.get("id") for each in wrong.tree.xpath("//p[@class='fault']")}
    assert faults == {"name-fault", "expires-fault"}
    name = f"Ivan {uuid4()}"
    make_key(admin, "analyst", name)
    twin = chief.send(wrong, "Make key", name=name.replace("I", "l"), expires="", status=409)
    assert "looks like" in twin.alerts()[0]
    assert not _secrets(twin)


def _ways_to_revoke(page: Page) -> dict[str, str]:
    found = page.tree.xpath("//a[normalize-space()='Revoke']")
    return {each.get("href"): each.get("aria-label") for each in found}


def test_a_key_is_revoked_at_once_and_on_a_page_that_says_what_happens(
    service: Service, admin: httpx.Client, chief: Browsing
) -> None:
    key = make_key(admin, "curator", f"<b>Ada</b> {uuid4()}")
    address = f"/desk/keys/{key['id']}/revocation"
    with signed_in(service, key["secret"]) as browsing:
        listed = chief.open("/desk/keys")
        assert _ways_to_revoke(listed)[address] == f"Revoke {key['name']}, curator"
        page = chief.open(address)
        assert page.heading == f"Revoke the key {key['name']}?"
        assert "refused from now on, for good" in page.text
        assert "yourself" not in page.text
        assert page.links()["Cancel"] == "/desk/keys"
        chief.send(page, "Revoke", status=422)
        assert browsing.open("/desk").path == "/desk", "to look is not to act"
        for _ in range(2):
            assert "The key is revoked." in chief.send(page, "Revoke", confirmed="yes").text
        assert browsing.open("/desk").path == "/desk/sign-in"
    assert address not in _ways_to_revoke(chief.open("/desk/keys"))
    again = chief.open(address)
    assert "It was revoked on" in again.text
    assert not again.tree.xpath("//main//form")
    chief.open("/desk/keys/key_none/revocation", status=404)


def test_no_key_is_revoked_from_the_list(chief: Browsing) -> None:
    """What cannot be undone takes a page of its own before it, whatever key it is."""
    page = chief.open("/desk/keys")
    forms = [each.action for each in page.tree.forms if each.method == "POST"]
    assert [each for each in forms if "revocation" in each] == []
    assert _ways_to_revoke(page)


def test_the_last_admin_key_stays(tmp_path: Path) -> None:
    with running(tmp_path / "data") as alone, signed_in(alone, ADMIN_KEY) as chief:
        (address,) = _ways_to_revoke(chief.open("/desk/keys"))
        page = chief.open(address)
        assert "You are signed in with it yourself." in page.text
        sent = chief.send(page, "Revoke", status=409, confirmed="yes")
        assert "last admin key" in sent.alerts()[0]
        assert sent.path == address
        assert chief.open("/desk/keys").path == "/desk/keys"


@pytest.mark.parametrize("who", ["curator", "analyst"])
def test_keys_are_for_admins(request: pytest.FixtureRequest, who: str) -> None:
    browsing: Browsing = request.getfixturevalue(who)
    for path in ("/desk/keys", "/desk/keys/key_x/revocation"):
        browsing.open(path, status=403)
        sent = browsing.client.post(path, data={"form_key": "x", "name": "a", "role": "admin"})
        assert sent.status_code == 403
