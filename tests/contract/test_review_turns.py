"""Turns over HTTP, on both databases: changes, answers, versions, two votes, comments, races."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from tests.app.conftest import ON_BOTH
from tests.app.ledgers import place_on
from tests.contract.service import MEAN, Service, ask, assert_problem, running, upload
from tests.contract.test_reviews import People, decide, epsilon, released, wait

SUM = {"kind": "sum", "columns": ["income"]}
SENTINEL = 77.125
ROWS = "income,food,region,owner\n" + f"{SENTINEL},20,south,false\n" * 20


@pytest.fixture(scope="module", params=ON_BOTH)
def service(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Service]:
    directory = tmp_path_factory.mktemp("turns") / "data"
    with (
        place_on(request.param, directory) as place,
        running(directory, database_url=place.url, job_processes=1) as found,
    ):
        yield found


@pytest.fixture(scope="module")
def people(service: Service) -> Iterator[People]:
    with service.client() as admin:
        roles = {"Cleo": "curator", "Cora": "curator", "Ann": "analyst", "Bob": "analyst"}
        keys = {
            name: admin.post("/v1/keys", json={"name": name, "role": role}).json()
            for name, role in roles.items()
        }
        person = {"person": keys["Cora"]["person"], "name": "Cora, again", "role": "curator"}
        second = admin.post("/v1/keys", json=person).json()
        clients = [service.client(keys[name]["secret"]) for name in roles]
        clients.append(service.client(second["secret"]))
        yield People(admin, *clients)
        for client in clients:
            client.close()


@pytest.fixture
def dataset(people: People) -> str:
    return _dataset(people, review="always")


@pytest.fixture
def by_two(people: People) -> str:
    return _dataset(people, review="always", reviewers=2)


def _dataset(people: People, **policy: Any) -> str:
    return str(upload(people.cleo, ROWS, policy=policy, budget={"epsilon": "1"})["id"])


def tag_of(client: httpx.Client, release: str) -> str:
    return client.get(f"/v1/releases/{release}").headers["etag"]


def revise(
    client: httpx.Client, release: str, *, tag: str | None = None, **changes: Any
) -> httpx.Response:
    body = {"statistic": MEAN, "epsilon": "0.1", **changes}
    seen = {"If-Match": tag or tag_of(client, release)}
    return client.post(f"/v1/releases/{release}/revisions", json=body, headers=seen)


def say(client: httpx.Client, release: str, text: str, *, private: bool = False) -> httpx.Response:
    body = {"text": text, "private": private}
    return client.post(f"/v1/releases/{release}/comments", json=body)


def heard(client: httpx.Client, release: str) -> list[str]:
    answer = client.get(f"/v1/releases/{release}/comments")
    assert answer.status_code == 200, answer.text
    return [item["text"] for item in answer.json()["items"]]


def vote(client: httpx.Client, release: str, decision: str, reason: str = "so") -> httpx.Response:
    return decide(client, release, decision, tag=tag_of(client, release), reason=reason)


# Changes requested


def test_who_asked_revises_and_the_reserve_follows(people: People, dataset: str) -> None:
    release = wait(people.ann, dataset, key=dataset, epsilon="0.5", purpose="Table 1")
    wanted = vote(people.cleo, release, "request_changes", "a tenth\nwill do")
    assert wanted.status_code == 200, wanted.text
    body = wanted.json()
    assert (body["status"], body["review"]["reason"]) == ("changes_requested", "a tenth\nwill do")
    assert epsilon(people.ann, dataset) == ("0", "0.5", "0.5")
    shown = people.ann.get(f"/v1/releases/{release}")
    assert shown.content == wanted.content
    assert shown.headers["etag"] == wanted.headers["etag"]
    replayed = ask(people.ann, dataset, key=dataset, epsilon="0.5", purpose="Table 1")
    assert (replayed.status_code, replayed.content) == (202, wanted.content)
    for client in (people.cleo, people.cora):
        assert_problem(vote(client, release, "approve"), 409, "not-awaiting-review")

    revised = revise(people.ann, release, epsilon="0.1", statistic=SUM)
    assert revised.status_code == 202, revised.text
    body = revised.json()
    assert (body["status"], body["epsilon"], body["statistic"]["kind"]) == (
        "awaiting_review", "0.1", "sum",
    )  # fmt: skip
    assert body["review"] == {
        "decided_at": None, "reason": None, "version": 2, "turn": 2, "conflict": False,
    }  # fmt: skip
    assert epsilon(people.ann, dataset) == ("0", "0.1", "0.9")
    items = people.cleo.get(f"/v1/datasets/{dataset}/ledger").json()["items"]
    assert [(each["kind"], each["amount"]) for each in items[1:]] == [
        ("reserve", "0.5"), ("unreserve", "0.5"), ("reserve", "0.1"),
    ]  # fmt: skip
    stale = assert_problem(decide(people.cora, release, "approve"), 412, "precondition")
    assert stale["release_status"] == "awaiting_review"
    assert stale["detail"] == "Who asked has answered: it is now in turn 2, version 2."

    first, second = people.ann.get(f"/v1/releases/{release}/revisions").json()["items"]
    assert (first["version"], first["differences"]) == (1, [])
    assert {each["place"]: (each["before"], each["after"]) for each in second["differences"]} == {
        "epsilon": ("0.5", "0.1"), "statistic.kind": ("mean", "sum"), "purpose": ("Table 1", None),
        "statistic.where": (None, []),
    }  # fmt: skip
    assert second["request"]["epsilon"] == "0.1"

    assert vote(people.cora, release, "approve").status_code == 202
    drawn = released(people.ann, release)
    assert drawn.json()["epsilon"] == "0.1"
    # either version's body is the same request
    for more in ({"epsilon": "0.5", "purpose": "Table 1"}, {"epsilon": "0.1", "statistic": SUM}):
        again = ask(people.ann, dataset, key=dataset, **more)
        assert (again.status_code, again.content) == (201, drawn.content)
    other = ask(people.ann, dataset, key=dataset, epsilon="0.2")
    assert_problem(other, 422, "idempotency-key-reused")
    assert people.cleo.get("/v1/ledger/verification").json()["ok"] is True


def test_a_revision_is_refused_as_a_release_is(people: People, dataset: str) -> None:
    release = wait(people.ann, dataset, epsilon="0.5")
    wait(people.bob, dataset, epsilon="0.2")
    assert_problem(revise(people.ann, release), 409, "not-your-turn")
    vote(people.cleo, release, "request_changes")
    assert_problem(revise(people.ann, release, tag='"reserved"'), 412, "precondition")
    for client in (people.bob, people.cleo):
        assert_problem(revise(client, release, tag="*"), 404, "not-found")
    refused = assert_problem(revise(people.ann, release, epsilon="0.9"), 409, "budget-exceeded")
    assert (refused["requested"], refused["remaining"]) == ("0.9", "0.8")
    nothing = {"kind": "mean", "columns": ["shoe size"]}
    assert_problem(revise(people.ann, release, statistic=nothing), 422, "invalid-request")
    body = {"statistic": MEAN, "epsilon": "0.1"}
    unseen = people.ann.post(f"/v1/releases/{release}/revisions", json=body)
    assert_problem(unseen, 428, "precondition-missing")
    assert epsilon(people.ann, dataset) == ("0", "0.7", "0.3")
    assert revise(people.ann, release, epsilon="0.8").status_code == 202
    assert epsilon(people.ann, dataset) == ("0", "1", "0")


def test_an_answer_gives_the_turn_back_and_a_withdrawal_the_budget(
    people: People, dataset: str
) -> None:
    release = wait(people.ann, dataset, epsilon="0.5")
    vote(people.cleo, release, "request_changes", "what for?")
    listed = people.ann.get("/v1/releases", params={"status": "changes_requested"}).json()
    assert [each["id"] for each in listed["items"]] == [release]
    assert say(people.ann, release, "for the board").status_code == 201
    shown = people.ann.get(f"/v1/releases/{release}").json()
    assert (shown["status"], shown["review"]["turn"], shown["review"]["version"]) == (
        "awaiting_review", 2, 1,
    )  # fmt: skip
    vote(people.cora, release, "request_changes", "which board?")
    gone = people.ann.post(f"/v1/releases/{release}/withdrawal")
    assert (gone.status_code, gone.json()["status"]) == (200, "withdrawn")
    assert epsilon(people.ann, dataset) == ("0", "0", "1")
    assert_problem(say(people.ann, release, "sorry"), 409, "not-awaiting-review")
    assert heard(people.ann, release) == ["what for?", "for the board"]


def test_what_is_left_undone_is_rejected_with_its_data_set(people: People, dataset: str) -> None:
    release = wait(people.ann, dataset)
    vote(people.cleo, release, "request_changes")
    assert people.cleo.post(f"/v1/datasets/{dataset}/archive").status_code == 200
    assert people.ann.get(f"/v1/releases/{release}").json()["status"] == "rejected"


# Races


def test_who_loses_a_race_is_told_what_happened(people: People, dataset: str) -> None:
    release = wait(people.ann, dataset)
    calls = [(people.cleo, "approve"), (people.cora, "reject")]
    with ThreadPoolExecutor(2) as pool:
        answers = list(
            pool.map(lambda call: decide(call[0], release, call[1], reason=call[1]), calls)
        )
    (lost,) = [answer for answer in answers if answer.status_code == 412]
    (won,) = [answer for answer in answers if answer.status_code != 412]
    name, verb = {202: ("Cleo", "approved"), 200: ("Cora", "rejected")}[won.status_code]
    reported = assert_problem(lost, 412, "precondition")
    assert (reported["by"], reported["why"]) == (name, verb[: -1 if verb == "approved" else -2])
    assert reported["detail"].startswith(f"{name} {verb} it at {reported['at']}")
    assert reported["release_status"] == {202: "running", 200: "rejected"}[won.status_code]


# Two reviewers


def test_two_reviewers_agree_without_knowing_it(people: People, by_two: str) -> None:
    release = wait(people.ann, by_two)
    before = people.cora.get(f"/v1/releases/{release}")
    noted = vote(people.cleo, release, "approve", "fine by me")
    assert (noted.status_code, noted.json()["status"]) == (200, "awaiting_review")
    after = people.cora.get(f"/v1/releases/{release}")
    assert (after.content, after.headers["etag"]) == (before.content, before.headers["etag"])
    assert epsilon(people.ann, by_two) == ("0", "0.1", "0.9")
    # sent twice it counts once
    assert vote(people.cleo, release, "approve", "fine by me").status_code == 200
    assert epsilon(people.ann, by_two) == ("0", "0.1", "0.9")
    assert decide(people.cora, release, "approve", tag=before.headers["etag"]).status_code == 202
    released(people.ann, release)
    assert people.cleo.get("/v1/ledger/verification").json()["ok"] is True


def test_unlike_votes_are_a_conflict_that_either_may_end(people: People, by_two: str) -> None:
    release = wait(people.ann, by_two)
    first = tag_of(people.cora, release)
    vote(people.cleo, release, "reject", "too dear")
    clash = decide(people.cora, release, "approve", tag=first, reason="cheap")
    assert (clash.status_code, clash.json()["review"]["conflict"]) == (200, True)
    assert_problem(vote(people.admin, release, "approve"), 409, "votes-complete")
    stale = assert_problem(decide(people.cleo, release, "approve", tag=first), 412, "precondition")
    assert "unlike" in stale["detail"]
    again = vote(people.cora, release, "reject", "you are right")
    assert (again.status_code, again.json()["status"]) == (200, "rejected")
    assert again.json()["review"]["reason"] == "too dear\n\nyou are right"
    assert epsilon(people.ann, by_two) == ("0", "0", "1")


def test_one_person_is_one_reviewer(people: People, by_two: str) -> None:
    release = wait(people.ann, by_two)
    for client in (people.cora, people.cora_again):
        assert vote(client, release, "approve", "yes").json()["status"] == "awaiting_review"
    # and may think again before the other has voted
    assert vote(people.cora_again, release, "reject", "no").json()["status"] == "awaiting_review"
    assert vote(people.cleo, release, "reject", "no").json()["status"] == "rejected"
    own = wait(people.cora, by_two)
    assert_problem(vote(people.cora_again, own, "approve"), 403, "own-request")


def test_two_who_want_changes_get_them(people: People, by_two: str) -> None:
    release = wait(people.ann, by_two, epsilon="0.5")
    vote(people.cleo, release, "request_changes", "less")
    back = vote(people.cora, release, "request_changes", "a mean will do")
    assert back.json()["status"] == "changes_requested"
    assert back.json()["review"]["reason"] == "less\n\na mean will do"
    assert revise(people.ann, release).status_code == 202
    # a new turn begins without votes
    assert vote(people.cora, release, "approve").json()["status"] == "awaiting_review"
    assert vote(people.cleo, release, "approve").status_code == 202


# Comments


def test_comments_are_shared_or_among_reviewers(people: People, dataset: str) -> None:
    release = wait(people.ann, dataset)
    assert say(people.cleo, release, "is it urgent?").status_code == 201
    assert say(people.cora, release, "she always says so", private=True).status_code == 201
    made = say(people.ann, release, "it is")
    assert (made.status_code, made.json()["person"]) == (201, "Ann")
    everything = ["is it urgent?", "she always says so", "it is"]
    assert heard(people.cleo, release) == heard(people.admin, release) == everything
    assert heard(people.ann, release) == ["is it urgent?", "it is"]
    refused = assert_problem(say(people.ann, release, "psst", private=True), 422)
    assert refused["errors"][0]["field"] == "private"
    assert_problem(say(people.bob, release, "me too"), 404, "not-found")
    assert_problem(people.bob.get(f"/v1/releases/{release}/comments"), 404, "not-found")
    assert_problem(people.bob.get(f"/v1/releases/{release}/revisions"), 404, "not-found")


def test_a_curator_who_asks_reads_no_private_comment(people: People, dataset: str) -> None:
    release = wait(people.cora, dataset)
    say(people.cleo, release, "between us", private=True)
    assert heard(people.cora_again, release) == []
    assert heard(people.admin, release) == ["between us"]


def test_two_reviewers_do_not_hear_each_other_before_both_have_voted(
    people: People, by_two: str
) -> None:
    release = wait(people.ann, by_two)
    say(people.cleo, release, "hers", private=True)
    say(people.cora, release, "to all")
    say(people.ann, release, "please")
    assert heard(people.cleo, release) == ["hers", "please"]
    assert heard(people.cora, release) == ["to all", "please"]
    assert heard(people.admin, release) == ["please"]
    assert heard(people.ann, release) == ["to all", "please"]
    vote(people.cleo, release, "reject")
    assert heard(people.cora, release) == ["to all", "please"]
    vote(people.cora, release, "approve")
    for client in (people.cleo, people.cora, people.admin):
        assert heard(client, release) == ["hers", "to all", "please"]
