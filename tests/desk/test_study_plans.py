"""Study plans without script: made of questions, requested, reviewed as one, and drawn."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.contract.service import Service, spent, upload
from tests.desk.browsing import Browsing, Page, confirmed, person

MEAN = "statistic=mean&columns=income&wanted=epsilon&purpose=the+report"


@pytest.fixture(scope="module")
def asker(service: Service, admin: httpx.Client) -> Iterator[Browsing]:
    with person(service, admin, "analyst") as browsing:
        yield browsing


@pytest.fixture(scope="module")
def reviewer(service: Service, admin: httpx.Client) -> Iterator[Browsing]:
    with person(service, admin, "reviewer") as browsing:
        yield browsing


@pytest.fixture
def dataset(admin: httpx.Client) -> str:
    return str(upload(admin, policy={"review": "always"})["id"])


def planned(browsing: Browsing, dataset: str, *, epsilon: str = "0.5", **filled: Any) -> Page:
    """Add a question to a plan at the last step of asking it."""
    last = browsing.open(f"/desk/datasets/{dataset}/ask?{MEAN}&epsilon={epsilon}&act=release")
    return browsing.send(last, "Add to study plan", **filled)


def test_a_plan_goes_its_whole_way(
    asker: Browsing, reviewer: Browsing, dataset: str, admin: httpx.Client
) -> None:
    draft = planned(asker, dataset, plan_name="Tables 1 and 2")
    assert draft.heading == "Study plan: Tables 1 and 2"
    both = planned(asker, dataset, epsilon="0.25")
    assert "0.75 epsilon" in both.text
    assert "reserves no budget" in both.text
    assert reviewer.client.get(both.path).status_code == 404
    waiting = asker.send(both, "Request approval")
    assert "Nothing is reserved or charged" in waiting.text
    sheet = reviewer.open(waiting.path)
    assert "sure after it" in sheet.text
    assert "Released about these people before" in sheet.text
    assert "Tables 1 and 2" in reviewer.open("/desk").text
    approved = reviewer.send(sheet, "Approve", reason="within the protocol")
    assert "Your vote is in the ledger: approved." in approved.text
    assert spent(admin, dataset) == "0"
    mine = asker.open(waiting.path)
    assert "within the protocol" in mine.text
    last = asker.send(mine, "Release question 1")
    assert "A charge is never given back" in last.text
    assert spent(admin, dataset) == "0"
    release = asker.send(last, "Release", confirmed="yes")
    assert release.path.startswith("/desk/releases/")
    assert spent(admin, dataset) == "0.5"
    progress = asker.open(waiting.path)
    assert progress.links()["Paid"] == release.path
    assert "Release question 2" in progress.text
    ended = confirmed(asker, progress, "Withdraw")
    assert "Release question 2" not in ended.text


def test_a_draft_loses_questions_and_is_deleted(asker: Browsing, dataset: str) -> None:
    planned(asker, dataset, plan_name="a short one")
    both = planned(asker, dataset, epsilon="0.25")
    left = asker.send(both, "Remove question 1")
    assert "0.25 epsilon" in left.text
    assert "Remove question" not in left.text
    listed = asker.send(left, "Delete draft")
    assert "The draft is deleted." in listed.text
    assert "a short one" not in listed.text


def test_plans_are_listed_and_found(asker: Browsing, reviewer: Browsing, dataset: str) -> None:
    draft = planned(asker, dataset, plan_name="Unusual wombats")
    assert "Unusual wombats" in asker.open("/desk/study-plans?status=draft").text
    assert asker.open("/desk/search?q=wombats").links()["Unusual wombats"] == draft.path
    assert "Unusual wombats" not in reviewer.open("/desk/search?q=wombats").text
    asker.send(draft, "Request approval")
    assert "Unusual wombats" in reviewer.open(f"/desk/study-plans?dataset={dataset}").text
    notice = reviewer.open("/desk/reviews").tree.xpath(f"//a[@href='{draft.path}']")
    assert "asks for a study plan" in notice[0].text_content()


def test_a_refusal_is_shown_at_the_plan(asker: Browsing, reviewer: Browsing, dataset: str) -> None:
    waiting = asker.send(planned(asker, dataset, plan_name="rejected"), "Request approval")
    sheet = reviewer.open(waiting.path)
    empty = reviewer.send(sheet, "Reject", status=422)
    assert empty.alerts()
    reviewer.send(sheet, "Reject", reason="not now")
    late = reviewer.send(sheet, "Approve", reason="so", status=409)
    assert "does not wait for a review" in late.alerts()[0]
    assert "not now" in asker.open(waiting.path).text
