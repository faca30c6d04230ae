"""Long lists are limited in every way that their forms offer, and show what is so."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from urllib.parse import urlencode
from uuid import uuid4

import httpx
import pytest

from tests.contract.service import upload
from tests.desk.browsing import Browsing

LISTS = ("datasets", "releases", "reviews", "study-plans", "audit")


@pytest.mark.parametrize("name", LISTS)
def test_every_choice_of_a_list_leads_to_a_page(
    admin: httpx.Client, curator: Browsing, name: str
) -> None:
    dataset = str(upload(admin)["id"])
    page = curator.open(f"/desk/{name}")
    offered = [
        (str(each.get("name")), str(option.get("value")))
        for each in page.tree.xpath("//main//form[not(@method='post')]//select")
        for option in each.xpath("./option[@value!='']")
    ]
    assert offered
    for field, value in [*offered, ("dataset", dataset), ("person", "bootstrap")]:
        shown = curator.open(f"/desk/{name}?{urlencode({field: value})}")
        assert shown.heading == page.heading
        oldest = curator.open(
            f"/desk/{name}?{urlencode({field: value, 'sort': 'date', 'after': 0})}"
        )
        assert oldest.heading == page.heading


def test_data_sets_are_found_by_words_and_status(admin: httpx.Client, curator: Browsing) -> None:
    word = f"Uncommon{uuid4().hex}"
    dataset = upload(admin, name=f"{word} wages")
    for asked, there in (
        ({"q": f"wages {word}", "status": "open"}, True),
        ({"q": f"{word} rents"}, False),
    ):
        links = curator.open(f"/desk/datasets?{urlencode(asked)}").links()
        assert (dataset["name"] in links) == there


def test_a_grant_that_has_ended_is_not_in_the_list(admin: httpx.Client, curator: Browsing) -> None:
    name = f"Ends {uuid4().hex}"
    dataset = upload(admin, name=name, budget={"epsilon": "3"})["id"]
    end = datetime.now(UTC) + timedelta(seconds=3)
    granted = {"epsilon": "2.5", "reason": "a workshop", "expires": end.isoformat()}
    assert admin.post(f"/v1/datasets/{dataset}/grants", json=granted).status_code == 201
    here = f"/desk/datasets?{urlencode({'q': name})}"
    assert "5.5" in curator.open(here).text
    time.sleep(max(0.0, (end - datetime.now(UTC)).total_seconds() + 0.05))
    assert "5.5" not in curator.open(here).text
