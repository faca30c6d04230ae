"""The first page: what waits, and whose turn it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx

from tests.contract.service import (
    ADMIN_KEY,
    Service,
    ask,
    make_key,
    running,
    settled,
    upload,
)
from tests.desk.browsing import Browsing, Page, signed_in


def _waits(page: Page) -> dict[str, str]:
    """Return what each request of the page waits for."""
    rows = page.tree.xpath("//section[@aria-labelledby='waits']//tbody/tr")
    return {
        row.xpath("string(td[1]//a/@href)").rpartition("/")[2]: row.xpath("string(td[2])").strip()
        for row in rows
    }


def _cards(page: Page, section: str) -> list[str]:
    return [link.text for link in page.tree.xpath(f"//section[@aria-labelledby='{section}']//li/a")]


def test_what_was_opened_last_comes_first_and_goes_with_the_session(
    service: Service, admin: httpx.Client
) -> None:
    key = make_key(admin, "analyst")["secret"]
    sets = [upload(admin) for _ in range(3)]
    hidden = upload(admin)
    with signed_in(service, key) as browsing:
        assert _cards(browsing.open("/desk"), "recent") == []
        for each in (*sets, hidden, sets[0]):
            page = browsing.open(f"/desk/datasets/{each['id']}")
            assert (
                page.tree.xpath("//nav[@aria-label='Breadcrumb']//li[last()]")[0].text
                == (each["name"])
            )
        persons = [make_key(admin, "analyst")["person"]]
        access = {"access": {"persons": persons, "groups": []}, "reason": "It is restricted."}
        path = f"/v1/datasets/{hidden['id']}/access"
        admin.put(path, json=access).raise_for_status()
        home = browsing.open("/desk")
        names = [sets[at]["name"] for at in (0, 2, 1)]
        assert _cards(home, "recent") == names
        assert not {*names} & {*_cards(home, "sets")}
        browsing.send(home, "Sign out")
        assert "release-desk-recent" not in browsing.client.cookies


def test_a_latest_release_is_a_link(admin: httpx.Client, curator: Browsing) -> None:
    dataset = upload(admin)["id"]
    release = settled(admin, ask(admin, dataset)).json()
    home = curator.open("/desk")
    assert "mean of income" in _cards(home, "latest")
    shown = curator.open(f"/desk/releases/{release['id']}")
    steps = shown.tree.xpath("//nav[@aria-label='Breadcrumb']//a/@href")
    assert steps == ["/desk/datasets", f"/desk/datasets/{dataset}"]


def test_what_waits_is_shown_to_whose_turn_it_is(
    service: Service, admin: httpx.Client, curator: Browsing, analyst: Browsing
) -> None:
    key = make_key(admin, "analyst")
    dataset = upload(admin, policy={"review": "always"})
    with service.client(key["secret"]) as program, signed_in(service, key["secret"]) as own:
        asked: dict[str, Any] = ask(program, dataset["id"]).json()
        release = asked["id"]
        assert _waits(curator.open("/desk"))[release] == "your review"
        assert _waits(own.open("/desk"))[release] == "a review"
        assert release not in _waits(analyst.open("/desk"))
        found = admin.get(f"/v1/releases/{release}")
        admin.post(
            f"/v1/releases/{release}/decision",
            json={"decision": "request_changes", "reason": "a lower price will do"},
            headers={"If-Match": found.headers["ETag"]},
        ).raise_for_status()
        assert _waits(own.open("/desk"))[release] == "your answer"
        assert _waits(curator.open("/desk"))[release] == key["person"]
        assert dataset["name"] in own.open("/desk").text


def test_the_parts_of_pages_are_shown_in_development_alone(tmp_path: Path, chief: Browsing) -> None:
    chief.open("/desk/components", status=404)
    with (
        running(tmp_path / "data", development=True) as service,
        signed_in(service, ADMIN_KEY) as somebody,
    ):
        page = somebody.open("/desk/components")
        assert page.heading == "Components"
        assert "must be a number" in page.alerts()[0]
        assert len(page.tree.xpath("//svg[@role='img']")) == 1
        ids = [each.get("id") for each in page.tree.iter() if each.get("id")]
        assert len(ids) == len(set(ids))
        for each in ("pivot", "list"):
            assert page.tree.xpath(f"//table[@class='{each}']")
