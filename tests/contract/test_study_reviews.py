"""Saved study plans: requested and reviewed as one, and drawn question by question."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from click.testing import CliRunner

from app.cli import main
from app.client import ReleaseDesk
from tests.contract.service import (
    MEAN,
    Service,
    ask,
    assert_problem,
    make_key,
    running,
    settled,
    spent,
    upload,
)

QUESTIONS: list[dict[str, Any]] = [
    {"statistic": MEAN, "epsilon": "0.5"},
    {"statistic": {**MEAN, "by": ["region"]}, "epsilon": "0.125"},
]


@dataclass(frozen=True)
class People:
    """An analyst, and others who may see, decide, or neither."""

    admin: httpx.Client
    ann: httpx.Client
    bob: httpx.Client
    rita: httpx.Client
    rolf: httpx.Client
    audrey: httpx.Client


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with running(tmp_path_factory.mktemp("plans") / "data", job_processes=1) as found:
        yield found


@pytest.fixture(scope="module")
def people(service: Service) -> Iterator[People]:
    roles = {
        "Ann": "analyst", "Bob": "analyst", "Rita": "reviewer", "Rolf": "reviewer",
        "Audrey": "auditor",
    }  # fmt: skip
    with service.client() as admin:
        made = [
            service.client(make_key(admin, role, name)["secret"]) for name, role in roles.items()
        ]
        yield People(admin, *made)
        for client in made:
            client.close()


@pytest.fixture
def dataset(people: People) -> str:
    policy = {"review": "always"}
    return str(upload(people.admin, policy=policy, budget={"epsilon": "3"})["id"])


def save(client: httpx.Client, dataset: str, **changes: Any) -> httpx.Response:
    body = {"dataset": dataset, "name": "a study", "questions": QUESTIONS, **changes}
    return client.post("/v1/study-plans", json=body)


def saved(client: httpx.Client, dataset: str, **changes: Any) -> str:
    answer = save(client, dataset, **changes)
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])


def requested(client: httpx.Client, dataset: str, **changes: Any) -> str:
    plan = saved(client, dataset, **changes)
    answer = client.post(f"/v1/study-plans/{plan}/request")
    assert answer.status_code == 200, answer.text
    return plan


def decide(
    client: httpx.Client, plan: str, decision: str = "approve", *, tag: str | None = None
) -> httpx.Response:
    tag = tag or client.get(f"/v1/study-plans/{plan}").headers["etag"]
    body = {"decision": decision, "reason": "within the protocol"}
    return client.post(f"/v1/study-plans/{plan}/decision", json=body, headers={"If-Match": tag})


def approved(people: People, dataset: str, **changes: Any) -> str:
    plan = requested(people.ann, dataset, **changes)
    answer = decide(people.rita, plan)
    assert answer.json()["status"] == "approved", answer.text
    return plan


def draw(client: httpx.Client, plan: str, question: int = 0) -> httpx.Response:
    return client.post(f"/v1/study-plans/{plan}/releases", json={"question": question})


def test_a_plan_goes_its_whole_way(people: People, dataset: str) -> None:
    answer = save(people.ann, dataset, purpose="the annual report")
    draft = answer.json()
    assert (answer.status_code, draft["status"], draft["requested_at"]) == (201, "draft", None)
    assert answer.headers["location"] == f"/v1/study-plans/{draft['id']}"
    assert draft["charge"] == {"amount": "0.625", "unit": "epsilon"}
    assert draft["fits"] is True
    assert {each["purpose"] for each in draft["questions"]} == {"the annual report"}
    path = f"/v1/study-plans/{draft['id']}"
    waiting = people.ann.post(f"{path}/request").json()
    assert waiting["status"] == "awaiting_review"
    budget = people.ann.get(f"/v1/datasets/{dataset}/budget").json()["epsilon"]
    assert (budget["spent"], budget["reserved"]) == ("0", "0")
    assert_problem(draw(people.ann, draft["id"]), 409, "plan-not-approved")
    done = decide(people.rita, draft["id"]).json()
    assert (done["status"], done["decided_by"]) == ("approved", "Rita")
    first = draw(people.ann, draft["id"])
    assert (first.status_code, first.json()["status"]) == (201, "released"), first.text
    assert first.json()["epsilon"] == "0.5"
    assert spent(people.ann, dataset) == "0.5"
    assert draw(people.ann, draft["id"]).content == first.content
    assert spent(people.ann, dataset) == "0.5"
    progress = people.ann.get(path).json()
    assert [each["release"] for each in progress["questions"]] == [first.json()["id"], None]
    assert progress["paid"]["amount"] == "0.5"
    assert draw(people.ann, draft["id"], 1).status_code == 201
    assert spent(people.ann, dataset) == "0.625"
    assert_problem(draw(people.ann, draft["id"], 2), 422, "invalid-request")
    verified = people.admin.get("/v1/ledger/verification", params={"full": True}).json()
    assert verified["ok"] is True, verified


def test_two_draws_of_one_question_are_charged_once(people: People, dataset: str) -> None:
    plan = approved(people, dataset)
    with ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(lambda _: draw(people.ann, plan), range(8)))
    assert {each.status_code for each in answers} == {201}
    assert len({each.content for each in answers}) == 1
    assert spent(people.ann, dataset) == "0.5"


def test_only_exactly_what_was_approved_has_no_review(people: People, dataset: str) -> None:
    approved(people, dataset)
    alone = ask(people.ann, dataset, MEAN, epsilon="0.5")
    assert (alone.status_code, alone.json()["status"]) == (202, "awaiting_review")


def test_what_is_requested_does_not_change(people: People, dataset: str) -> None:
    plan = saved(people.ann, dataset)
    path, body = f"/v1/study-plans/{plan}", {"name": "another", "questions": QUESTIONS[:1]}
    assert people.ann.put(path, json=body).json()["charge"]["amount"] == "0.5"
    people.ann.post(f"{path}/request")
    for answer in (
        people.ann.put(path, json=body), people.ann.delete(path), people.ann.post(f"{path}/request")
    ):  # fmt: skip
        found = assert_problem(answer, 409, "plan-not-draft")
        assert found["plan_status"] == "awaiting_review"
    other = saved(people.ann, dataset)
    assert people.ann.delete(f"/v1/study-plans/{other}").status_code == 204
    assert_problem(people.ann.get(f"/v1/study-plans/{other}"), 404, "not-found")


def test_a_draft_is_its_owners_and_a_plan_only_its_owner_draws(
    people: People, dataset: str
) -> None:
    draft, plan = saved(people.ann, dataset), approved(people, dataset)
    for client in (people.bob, people.rita, people.admin):
        assert_problem(client.get(f"/v1/study-plans/{draft}"), 404, "not-found")
    assert_problem(people.bob.get(f"/v1/study-plans/{plan}"), 404, "not-found")
    assert_problem(draw(people.bob, plan), 404, "not-found")
    assert_problem(draw(people.admin, plan), 404, "not-found")
    assert_problem(draw(people.rita, plan), 403, "forbidden")
    listed = people.audrey.get("/v1/study-plans", params={"dataset": dataset}).json()["items"]
    assert [each["id"] for each in listed] == [plan]
    own = people.ann.get("/v1/study-plans", params={"dataset": dataset, "status": "draft"}).json()
    assert [each["id"] for each in own["items"]] == [draft]


def test_no_one_decides_on_their_own_plan(people: People, dataset: str) -> None:
    plan = requested(people.admin, dataset)
    assert_problem(decide(people.admin, plan), 403, "own-request")
    assert_problem(decide(people.audrey, plan), 403, "forbidden")


def test_a_decision_is_about_what_was_seen(people: People, dataset: str) -> None:
    plan = requested(people.ann, dataset)
    tag = people.rita.get(f"/v1/study-plans/{plan}").headers["etag"]
    assert_problem(decide(people.rita, plan, tag='"draft"'), 412, "precondition")
    assert decide(people.rita, plan, "reject", tag=tag).json()["status"] == "rejected"
    late = assert_problem(decide(people.rolf, plan, tag=tag), 409, "not-awaiting-review")
    assert (late["plan_status"], late["by"]) == ("rejected", "Rita")
    assert_problem(draw(people.ann, plan), 409, "plan-not-approved")
    assert_problem(people.ann.post(f"/v1/study-plans/{plan}/withdrawal"), 409)


def test_two_reviewers_vote_without_each_others_vote(people: People) -> None:
    policy = {"review": "always", "reviewers": 2}
    dataset = upload(people.admin, policy=policy)["id"]
    plan = requested(people.ann, dataset)
    first = decide(people.rita, plan)
    assert first.json()["status"] == "awaiting_review"
    sheet = people.rolf.get(f"/v1/study-plans/{plan}/review").json()
    assert (sheet["votes"]["needed"], sheet["votes"]["items"]) == (2, [])
    assert decide(people.rolf, plan, "reject").json()["status"] == "awaiting_review"
    assert people.rolf.get(f"/v1/study-plans/{plan}/review").json()["votes"]["conflict"] is True
    assert_problem(decide(people.admin, plan), 409, "votes-complete")
    assert decide(people.rolf, plan).json()["status"] == "approved"


def test_a_withdrawn_plan_is_drawn_no_more(people: People, dataset: str) -> None:
    plan = approved(people, dataset)
    first = draw(people.ann, plan)
    for _ in range(2):
        answer = people.ann.post(f"/v1/study-plans/{plan}/withdrawal")
        assert answer.json()["status"] == "withdrawn", answer.text
    assert draw(people.ann, plan).content == first.content
    found = assert_problem(draw(people.ann, plan, 1), 409, "plan-not-approved")
    assert found["plan_status"] == "withdrawn"
    assert spent(people.ann, dataset) == "0.5"


def test_a_plan_reserves_nothing(people: People, dataset: str) -> None:
    large = [{"statistic": MEAN, "epsilon": "2"}, {"statistic": MEAN, "epsilon": "1.5"}]
    plan = approved(people, dataset, questions=large)
    assert people.ann.get(f"/v1/study-plans/{plan}").json()["fits"] is False
    assert draw(people.ann, plan).status_code == 201
    found = assert_problem(draw(people.ann, plan, 1), 409, "budget-exceeded")
    assert found["remaining"] == "1"
    assert spent(people.ann, dataset) == "2"


def test_where_nothing_is_reviewed_a_plan_is_approved_at_once(people: People) -> None:
    dataset = upload(people.admin)["id"]
    plan = requested(people.ann, dataset)
    found = people.ann.get(f"/v1/study-plans/{plan}").json()
    assert (found["status"], found["decided_by"]) == ("approved", None)
    assert draw(people.ann, plan).status_code == 201
    change = {"policy": {"review": "always"}, "reason": "stricter"}
    answer = people.admin.patch(f"/v1/datasets/{dataset}", json=change)
    assert answer.status_code == 200, answer.text
    assert_problem(draw(people.ann, plan, 1), 409, "plan-not-approved")


def test_the_sheet_says_what_the_plan_means(people: People, dataset: str) -> None:
    plan = requested(people.ann, dataset)
    earlier = approved(people, dataset)
    settled(people.ann, draw(people.ann, earlier))
    sheet = people.rita.get(f"/v1/study-plans/{plan}/review").json()
    assert sheet["epsilon"] == "0.625"
    assert sheet["share"] == pytest.approx(0.625 / 2.5)
    assert [each["requested_by"] for each in sheet["matrix"]["releases"]] == ["Ann"]
    assert sheet["asker"]["spent"] == "0.5"
    assert len(sheet["expected"]) == 2
    assert "65% sure after it" in sheet["for_one_person"][0]
    assert "reserves no budget" in sheet["plan"]["notice"]
    assert_problem(people.ann.get(f"/v1/study-plans/{plan}/review"), 403, "forbidden")


def test_reviewers_and_requester_have_notices(people: People, dataset: str) -> None:
    plan = requested(people.ann, dataset, purpose="the report")
    inbox = people.rita.get("/v1/inbox").json()["items"]
    [notice] = [each for each in inbox if each["study_plan"] == plan]
    assert (notice["event"], notice["release"], notice["why"]) == ("asked", None, "the report")
    assert "a study plan" in notice["what"]
    assert "2 questions" in notice["what"]
    decide(people.rita, plan, "reject")
    own = people.ann.get("/v1/inbox", params={"unread": True}).json()["items"]
    assert [each["event"] for each in own if each["study_plan"] == plan] == ["rejected"]


def test_the_ledger_says_who_asked_and_who_approved(people: People, dataset: str) -> None:
    plan = approved(people, dataset)
    release = draw(people.ann, plan).json()["id"]
    entries = people.admin.get(f"/v1/datasets/{dataset}/ledger").json()["items"]
    [debit] = [each for each in entries if each["release"] == release]
    assert (debit["principal"], debit["kind"], debit["role"]) == ("Ann", "debit", "analyst")


def comment(client: httpx.Client, plan: str, text: str, *, private: bool = False) -> httpx.Response:
    body = {"text": text, "private": private}
    return client.post(f"/v1/study-plans/{plan}/comments", json=body)


def comments(client: httpx.Client, plan: str) -> list[str]:
    found = client.get(f"/v1/study-plans/{plan}/comments").json()["items"]
    return [each["text"] for each in found]


def returned(people: People, dataset: str) -> str:
    plan = requested(people.ann, dataset)
    answer = decide(people.rita, plan, "request_changes")
    assert answer.json()["status"] == "changes_requested", answer.text
    return plan


def test_a_plan_comes_back_is_edited_and_is_drawn_as_it_was_approved(
    people: People, dataset: str
) -> None:
    plan = returned(people, dataset)
    path = f"/v1/study-plans/{plan}"
    mine = people.ann.get(path).json()
    assert (mine["decided_by"], mine["reason"]) == ("Rita", "within the protocol")
    assert_problem(draw(people.ann, plan), 409, "plan-not-approved")
    less = {"name": "a smaller study", "questions": [{"statistic": MEAN, "epsilon": "0.25"}]}
    edited = people.ann.put(path, json=less).json()
    assert (edited["charge"]["amount"], edited["edited"]) == ("0.25", True)
    # No one else sees what has not been sent.
    seen = people.rita.get(path).json()
    assert (seen["name"], seen["edited"]) == ("a study", False)
    assert seen["charge"]["amount"] == "0.625"
    listed = people.rita.get("/v1/study-plans", params={"status": "changes_requested"}).json()
    assert [each["name"] for each in listed["items"] if each["id"] == plan] == ["a study"]
    assert_problem(decide(people.rita, plan), 409, "not-awaiting-review")
    sent = people.ann.post(f"{path}/request").json()
    assert (sent["status"], sent["turn"], sent["edited"]) == ("awaiting_review", 2, False)
    sheet = people.rita.get(f"{path}/review").json()
    assert (sheet["epsilon"], sheet["plan"]["name"]) == ("0.25", "a smaller study")
    assert sheet["votes"]["items"] == []
    changes = sheet["versions"][1]["differences"]
    places = {each["place"]: (each["before"], each["after"]) for each in changes}
    assert places["name"] == ("a study", "a smaller study")
    assert places["questions.0.epsilon"] == ("0.5", "0.25")
    assert places["questions.1"][1] is None
    versions = people.ann.get(f"{path}/revisions").json()["items"]
    assert [each["version"] for each in versions] == [1, 2]
    assert decide(people.rita, plan).json()["status"] == "approved"
    release = draw(people.ann, plan)
    assert release.json()["epsilon"] == "0.25"
    assert_problem(draw(people.ann, plan, 1), 422, "invalid-request")
    assert spent(people.ann, dataset) == "0.25"
    assert_problem(people.ann.put(path, json=less), 409, "plan-not-draft")
    verified = people.admin.get("/v1/ledger/verification", params={"full": True}).json()
    assert verified["ok"] is True, verified


def test_a_decision_on_an_earlier_turn_is_refused(people: People, dataset: str) -> None:
    plan = requested(people.ann, dataset)
    tag = people.rolf.get(f"/v1/study-plans/{plan}").headers["etag"]
    decide(people.rita, plan, "request_changes")
    people.ann.post(f"/v1/study-plans/{plan}/request").raise_for_status()
    assert_problem(decide(people.rolf, plan, tag=tag), 412, "precondition")
    assert decide(people.rolf, plan).json()["status"] == "approved"


def test_a_returned_plan_is_withdrawn_and_not_deleted(people: People, dataset: str) -> None:
    plan = returned(people, dataset)
    assert_problem(people.ann.delete(f"/v1/study-plans/{plan}"), 409, "plan-not-draft")
    assert_problem(people.bob.post(f"/v1/study-plans/{plan}/request"), 404, "not-found")
    answer = people.ann.post(f"/v1/study-plans/{plan}/withdrawal")
    assert answer.json()["status"] == "withdrawn"


def test_two_approved_plans_do_not_overspend_together(people: People, dataset: str) -> None:
    """Two approved plans that do not both fit: the budget holds whichever is drawn first."""
    large = [{"statistic": MEAN, "epsilon": "1.5"}, {"statistic": MEAN, "epsilon": "1.25"}]
    plans = [approved(people, dataset, questions=large) for _ in range(2)]
    wanted = [(plan, place) for plan in plans for place in (0, 1)] * 3
    with ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(lambda each: draw(people.ann, *each), wanted))
    assert {each.status_code for each in answers} == {201, 409}
    refused = [each.json()["code"] for each in answers if each.status_code == 409]
    assert set(refused) == {"budget-exceeded"}
    drawn = {
        each.json()["id"]: float(each.json()["epsilon"]) for each in answers if each.is_success
    }
    assert sum(drawn.values()) == float(spent(people.ann, dataset)) <= 3
    verified = people.admin.get("/v1/ledger/verification", params={"full": True}).json()
    assert verified["ok"] is True, verified


def test_requester_and_reviewers_talk_at_any_time(people: People, dataset: str) -> None:
    plan = saved(people.ann, dataset)
    assert_problem(comment(people.ann, plan, "a draft"), 409, "not-awaiting-review")
    people.ann.post(f"/v1/study-plans/{plan}/request").raise_for_status()
    assert comment(people.rita, plan, "Which table is it for?").status_code == 201
    assert comment(people.rita, plan, "Look at it too", private=True).json()["private"] is True
    assert comment(people.ann, plan, "Table 2.").json()["turn"] == 1
    assert comments(people.ann, plan) == ["Which table is it for?", "Table 2."]
    assert comments(people.audrey, plan) == [
        "Which table is it for?", "Look at it too", "Table 2."
    ]  # fmt: skip
    decide(people.rita, plan, "request_changes")
    assert comment(people.ann, plan, "Half of it?").status_code == 201
    # As on a release, it is the owner's answer.
    shown = people.ann.get(f"/v1/study-plans/{plan}").json()
    assert (shown["status"], shown["turn"]) == ("awaiting_review", 2)
    assert_problem(people.ann.post(f"/v1/study-plans/{plan}/request"), 409, "plan-not-draft")
    decide(people.rolf, plan)
    assert comment(people.rolf, plan, "Good luck.").json()["turn"] == 2
    people.ann.post(f"/v1/study-plans/{plan}/withdrawal").raise_for_status()
    assert_problem(comment(people.ann, plan, "late"), 409, "not-awaiting-review")
    sheet = people.rita.get(f"/v1/study-plans/{plan}/review").json()
    assert [each["text"] for each in sheet["comments"]] == comments(people.rita, plan)
    assert comments(people.ann, plan) == [
        "Which table is it for?", "Table 2.", "within the protocol", "Half of it?", "Good luck.",
    ]  # fmt: skip


def test_an_answer_gives_the_turn_back_with_the_plan_as_it_is(people: People, dataset: str) -> None:
    plan, path = returned(people, dataset), "/v1/study-plans/"
    before = people.rita.get(path + plan).json()
    stale = people.rita.get(path + plan).headers["etag"]
    assert comment(people.rita, plan, "Which table?").status_code == 201
    assert people.ann.get(path + plan).json()["status"] == "changes_requested"
    assert comment(people.ann, plan, "Table 2, and no other").status_code == 201
    after = people.rita.get(path + plan).json()
    assert (after["status"], after["turn"]) == ("awaiting_review", 2)
    assert (after["questions"], after["charge"]) == (before["questions"], before["charge"])
    (notice,) = [
        each
        for each in people.rita.get("/v1/inbox").json()["items"]
        if each["study_plan"] == plan and each["event"] == "answered"
    ]
    assert notice["why"] == "Table 2, and no other"
    kept = people.ann.get(f"{path}{plan}/revisions").json()["items"]
    assert [len(each["differences"]) for each in kept] == [0, 0]
    assert_problem(decide(people.rita, plan, tag=stale), 412, "precondition")
    assert decide(people.rita, plan).json()["status"] == "approved"
    assert people.admin.get("/v1/ledger/verification").json()["ok"] is True


def test_a_comment_sends_no_changes_and_loses_none(people: People, dataset: str) -> None:
    plan, less = returned(people, dataset), {"name": "less", "questions": QUESTIONS[:1]}
    people.ann.put(f"/v1/study-plans/{plan}", json=less).raise_for_status()
    assert comment(people.ann, plan, "I am at it").status_code == 201
    mine = people.ann.get(f"/v1/study-plans/{plan}").json()
    assert (mine["status"], mine["name"], mine["edited"]) == ("changes_requested", "less", True)
    people.ann.post(f"/v1/study-plans/{plan}/request").raise_for_status()
    seen = people.rita.get(f"/v1/study-plans/{plan}").json()
    assert (seen["status"], seen["name"], seen["turn"]) == ("awaiting_review", "less", 2)


def test_who_may_talk_and_who_may_read(people: People, dataset: str) -> None:
    plan = requested(people.ann, dataset)
    for client in (people.bob,):
        assert_problem(comment(client, plan, "hello"), 404, "not-found")
        for what in ("comments", "revisions"):
            assert_problem(client.get(f"/v1/study-plans/{plan}/{what}"), 404, "not-found")
    assert_problem(comment(people.audrey, plan, "hello"), 403, "forbidden")
    assert_problem(comment(people.ann, plan, "psst", private=True), 422, "invalid-request")
    assert_problem(comment(people.ann, plan, ""), 422, "invalid-request")
    assert_problem(comment(people.ann, plan, "x" * 2_001), 422, "invalid-request")


def test_two_reviewers_do_not_read_each_others_comments_before_both_votes(people: People) -> None:
    policy = {"review": "always", "reviewers": 2}
    dataset = str(upload(people.admin, policy=policy)["id"])
    plan = requested(people.ann, dataset)
    comment(people.rita, plan, "I doubt it", private=True)
    comment(people.ann, plan, "It is needed")
    assert comments(people.rolf, plan) == ["It is needed"]
    decide(people.rita, plan, "request_changes")
    assert comments(people.rolf, plan) == ["It is needed"]
    assert decide(people.rolf, plan, "request_changes").json()["status"] == "changes_requested"
    assert comments(people.rolf, plan) == ["I doubt it", "It is needed"]
    people.ann.post(f"/v1/study-plans/{plan}/request").raise_for_status()
    # The second turn begins without votes, and what was said in the first stays known.
    assert decide(people.rita, plan).json()["status"] == "awaiting_review"
    known = ["I doubt it", "It is needed", "within the protocol", "within the protocol"]
    assert comments(people.rolf, plan) == known
    assert comments(people.ann, plan) == known[1:]
    assert decide(people.rolf, plan).json()["status"] == "approved"


def test_no_comment_reaches_the_log(
    people: People, dataset: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    plan = requested(people.ann, dataset)
    assert comment(people.ann, plan, "sentinel 98219471").status_code == 201
    assert decide(people.rita, plan, "request_changes").status_code == 200
    assert_problem(comment(people.ann, plan, "sentinel 98219471" * 200), 422, "invalid-request")
    assert any("comments" in str(vars(each)) for each in caplog.records), "the request is logged"
    assert not any("98219471" in str(vars(each)) for each in caplog.records)


def test_notices_say_what_was_said_of_a_plan(people: People, dataset: str) -> None:
    plan = returned(people, dataset)
    comment(people.rita, plan, "Half of it will do")
    comment(people.rita, plan, "among us", private=True)
    own = people.ann.get("/v1/inbox").json()["items"]
    said = [(each["event"], each["why"]) for each in own if each["study_plan"] == plan]
    assert said == [
        ("commented", "Half of it will do"), ("changes_requested", "within the protocol"),
        ("asked", None),
    ]  # fmt: skip


def test_an_accuracy_is_saved_as_its_epsilon(people: People, dataset: str) -> None:
    plan = saved(people.ann, dataset, questions=[{"statistic": MEAN, "accuracy": 200}])
    [question] = people.ann.get(f"/v1/study-plans/{plan}").json()["questions"]
    assert float(question["epsilon"]) > 0


def test_a_refusal_names_the_question(people: People, dataset: str) -> None:
    wrong = {"statistic": {**MEAN, "columns": ["incom"]}, "epsilon": "1"}
    answer = save(people.ann, dataset, questions=[*QUESTIONS, wrong])
    found = assert_problem(answer, 422, "invalid-request")
    assert found["errors"][0]["field"].startswith("questions.2.statistic.columns")
    assert_problem(save(people.ann, "ds_none"), 404, "not-found")
    assert_problem(save(people.rita, dataset), 403, "forbidden")


def test_the_clients_save_request_decide_and_draw(
    service: Service, people: People, dataset: str, tmp_path: Path
) -> None:
    ann, rita = make_key(people.admin, "analyst")["secret"], make_key(people.admin, "reviewer")
    with ReleaseDesk(service.url, ann) as desk, ReleaseDesk(service.url, rita["secret"]) as other:
        draft = desk.save_plan(dataset, QUESTIONS, name="a study", purpose="the report")
        assert [each.id for each in desk.saved_plans(status="draft")] == [draft.id]
        assert desk.request_plan(draft).status == "awaiting_review"
        sheet = other.review_plan(draft.id)
        assert (sheet.epsilon, sheet.plan["purpose"]) == ("0.625", "the report")
        other.decide_on_plan(draft, "request_changes", reason="less", seen=sheet.plan["etag"])
        assert other.comment(draft, "half?").person == desk.comments(draft)[0].person
        edited = desk.edit_plan(draft, QUESTIONS, name="a study, again", purpose="the report")
        assert (edited.edited, edited.reason) == (True, "less")
        assert desk.request_plan(draft).turn == 2
        assert [each.version for each in desk.versions(draft)] == [1, 2]
        sheet = other.review_plan(draft.id)
        assert sheet.versions[1]["differences"][0]["after"] == "a study, again"
        decided = other.decide_on_plan(draft, "approve", reason="so", seen=sheet.plan["etag"])
        assert decided.status == "approved"
        first = desk.draw(draft, 0)
        assert desk.draw(draft.id, 0).id == first.id
        assert desk.saved_plan(draft).rows()[0]["release"] == first.id
        assert desk.withdraw_plan(draft).status == "withdrawn"
        desk.delete_plan(desk.save_plan(dataset, QUESTIONS, name="another"))
    file = tmp_path / "study.json"
    file.write_text(json.dumps({"questions": QUESTIONS}))

    def run(key: str, *arguments: str) -> str:
        known = {"RELEASE_DESK_URL": service.url, "RELEASE_DESK_KEY": key}
        shown = CliRunner().invoke(main, ["plans", *arguments], env=known)
        assert shown.exit_code == 0, shown.output
        return shown.output.strip()

    plan = run(ann, "save", dataset, str(file), "--name", "by command")
    assert "by command" in run(ann, "list", "--status", "draft")
    assert run(ann, "request", plan) == "awaiting_review"
    assert "epsilon 0.625" in run(rita["secret"], "review", plan)
    returned = run(rita["secret"], "request-changes", plan, "--reason", "a better name")
    assert returned == "changes_requested"
    run(ann, "edit", plan, str(file), "--name", "by another command")
    run(ann, "comment", plan, "such as this one")
    assert "such as this one" in run(rita["secret"], "comments", plan)
    assert run(ann, "request", plan) == "awaiting_review"
    assert "by command -> by another command" in run(ann, "versions", plan)
    assert "comment    " in run(rita["secret"], "review", plan)
    assert run(rita["secret"], "approve", plan, "--reason", "so", "--yes") == "approved"
    assert '"released"' in run(ann, "draw", plan, "1")
    assert "0.125 of 0.625 epsilon paid" in run(ann, "show", plan)
    assert run(ann, "withdraw", plan, "--yes") == "withdrawn"
    rejected = run(ann, "save", dataset, str(file), "--name", "rejected")
    run(ann, "request", rejected)
    assert run(rita["secret"], "reject", rejected, "--reason", "no", "--yes") == "rejected"
    run(ann, "delete", run(ann, "save", dataset, str(file), "--name", "deleted"))
