"""The first page: what waits, and whose turn it is."""

from __future__ import annotations

from typing import Any

import httpx

from tests.contract.service import Service, ask, make_key, upload
from tests.desk.browsing import Browsing, Page, signed_in


def _waits(page: Page) -> dict[str, str]:
    """Return what each request of the page waits for."""
    rows = page.tree.xpath("//section[@aria-labelledby='waits']//tbody/tr")
    return {
        row.xpath("string(td[1]//a/@href)").rpartition("/")[2]: row.xpath("string(td[2])").strip()
        for row in rows
    }


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
