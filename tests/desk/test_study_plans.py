"""Study plans without script: made of questions, requested, reviewed as one, and drawn."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode

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
    cells = asker.open("/desk/study-plans").tree.xpath(f"//tr[.//a[@href='{waiting.path}']]/td")
    assert [each.text_content() for each in cells[2:5]] == ["2", "0.5", "0.75 epsilon"]
    ended = confirmed(asker, progress, "Withdraw")
    assert "Release question 2" not in ended.text


def test_plans_are_listed_by_data_set_and_person(
    asker: Browsing, reviewer: Browsing, dataset: str, admin: httpx.Client
) -> None:
    asker.send(planned(asker, dataset, plan_name="of this data set"), "Request approval")
    other = admin.get(f"/v1/datasets/{dataset}").json()["name"]
    person = asker.open("/desk").tree.xpath("string(//span[@class='person'])")
    for query, count in (
        ({"dataset": dataset}, 1), ({"dataset": other, "person": person}, 1),
        ({"dataset": other, "person": "somebody else"}, 0), ({"dataset": "no such name"}, 0),
    ):  # fmt: skip
        page = reviewer.open(f"/desk/study-plans?{urlencode(query)}")
        assert len(page.tree.xpath("//tbody/tr")) == count
    assert "No data set is called “no such name”." in page.text


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


def test_reviewers_want_changes_and_get_them(
    asker: Browsing, reviewer: Browsing, dataset: str, admin: httpx.Client
) -> None:
    both = planned(asker, dataset, plan_name="Table 7")
    both = planned(asker, dataset, epsilon="0.25")
    sheet = reviewer.open(asker.send(both, "Request approval").path)
    empty = reviewer.send(sheet, "Request changes", status=422)
    assert empty.alerts()
    returned = reviewer.send(sheet, "Request changes", reason="a quarter is plenty for the first")
    assert "changes are wanted" in returned.text
    talked = reviewer.send(returned, "Comment", comment="Is the second one needed?", private=[])
    assert "Is the second one needed?" in talked.text
    mine = asker.open(sheet.path)
    assert "a quarter is plenty for the first" in mine.text
    assert "Your turn" in mine.text
    assert "Table 7" in asker.open("/desk").text
    # The form of a question is filled in as the plan has it.
    form = asker.open(mine.links()["Edit question 1"])
    assert form.form("Release").fields["epsilon"] == "0.5"
    query = dict(form.form("Release").form_values()) | {"epsilon": "0.125", "act": "release"}
    last = asker.open(f"/desk/datasets/{dataset}/ask?{urlencode(query)}")
    edited = asker.send(last, "Change in study plan")
    assert "The question is changed in the plan." in edited.text
    assert "0.375 epsilon" in edited.text
    assert "You have changes that are not sent yet." in edited.text
    assert "0.75 epsilon" in reviewer.open(sheet.path).text
    left = asker.send(edited, "Remove question 2")
    assert "Your changes are not sent with it." in left.text
    asker.send(left, "Comment", comment="No, it is not <b>needed</b>.")
    assert "Your turn" in asker.open(sheet.path).text
    again = asker.send(asker.open(sheet.path), "Send again")
    assert "Your turn" not in again.text
    seen = reviewer.open(sheet.path)
    assert "question 1.epsilon" in seen.text
    assert "a quarter is plenty for the first" in seen.text
    assert "No, it is not <b>needed</b>." in seen.text
    assert "0.125 epsilon" in seen.text
    reviewer.send(seen, "Approve", reason="within the protocol")
    last = asker.send(asker.open(sheet.path), "Release question 1")
    asker.send(last, "Release", confirmed="yes")
    assert spent(admin, dataset) == "0.125"


def test_an_owners_comment_gives_the_turn_back_with_the_plan_as_it_is(
    asker: Browsing, reviewer: Browsing, dataset: str
) -> None:
    sent = asker.send(planned(asker, dataset, plan_name="answered"), "Request approval")
    reviewer.send(reviewer.open(sent.path), "Request changes", reason="why so much?")
    mine = asker.open(sent.path)
    assert "It gives the turn back to the reviewers, with the request as it is." in mine.text
    answered = asker.send(mine, "Comment", comment="The group is small.")
    assert "Your turn" not in answered.text
    assert "It gives the turn back" not in answered.text
    seen = reviewer.open(sent.path)
    assert "The group is small." in seen.text
    assert "has answered the reviewers" in reviewer.open("/desk/reviews").text
    asker.send(answered, "Comment", comment="And it is of one town.")
    reviewer.send(reviewer.open(sent.path), "Approve", reason="so be it")
    assert "Release question 1" in asker.open(sent.path).text


def test_a_question_that_is_gone_is_not_changed(asker: Browsing, dataset: str) -> None:
    planned(asker, dataset, plan_name="in two windows")
    both = planned(asker, dataset, epsilon="0.25")
    form = asker.open(both.links()["Edit question 1"])
    asker.send(both, "Remove question 1")
    query = dict(form.form("Release").form_values()) | {"epsilon": "0.125", "act": "release"}
    last = asker.open(f"/desk/datasets/{dataset}/ask?{urlencode(query)}")
    asker.send(last, "Change in study plan", status=412)
    assert "0.25 epsilon" in asker.open(both.path).text


PLANTED = "<script>alert('98219471')</script>&amp;\"'"
"""What somebody writes who tries to write more than text."""


def test_what_people_write_is_plain_text_wherever_it_is_shown(
    asker: Browsing, reviewer: Browsing, dataset: str
) -> None:
    draft = planned(asker, dataset, plan_name=PLANTED)
    waiting = asker.send(draft, "Request approval")
    asker.send(waiting, "Comment", comment=PLANTED)
    sheet = reviewer.open(waiting.path)
    talked = reviewer.send(sheet, "Comment", comment=PLANTED, private="yes")
    reviewer.send(talked, "Request changes", reason=PLANTED)
    for browsing in (asker, reviewer):
        for path in (waiting.path, "/desk", "/desk/study-plans", "/desk/reviews", "/desk/audit"):
            page = browsing.open(path)
            assert "alert('98219471')" not in "".join(page.tree.xpath("//script//text()"))
            assert PLANTED not in page.answer.text
    assert PLANTED in reviewer.open(waiting.path).tree.text_content()
    assert len(asker.open(waiting.path).tree.xpath("//article[@class='comment']")) == 1


def test_the_audit_says_who_commented_and_not_what(
    asker: Browsing, reviewer: Browsing, admin: httpx.Client, service: Service, dataset: str
) -> None:
    waiting = asker.send(planned(asker, dataset, plan_name="audited"), "Request approval")
    asker.send(waiting, "Comment", comment="sentinel 98219472")
    plan = waiting.path.rpartition("/")[2]
    with person(service, admin, "auditor") as auditor:
        page = auditor.open("/desk/audit")
        assert page.links()[plan] == waiting.path
        rows = auditor.client.get("/desk/audit/comments.json").json()
        assert [each["private"] for each in rows if each["study_plan"] == plan] == [False]
        table = auditor.client.get("/desk/audit/comments.csv").text
        assert table.splitlines()[0] == "at,person,release,study_plan,turn,private"
        for text in (page.answer.text, table, str(rows)):
            assert "98219472" not in text
        said = auditor.open(waiting.path)
        assert "98219472" in said.text
        assert "Comment" not in [each.text_content() for each in said.tree.xpath("//button")]
    assert asker.client.get("/desk/audit/comments.json").status_code == 403
