"""Reviews over HTTP, on both databases: set aside, decided on, then drawn or given back."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import httpx
import pytest

from tests.app.conftest import ON_BOTH
from tests.app.ledgers import place_on
from tests.contract.service import MEAN, Service, ask, assert_problem, running, upload

ALWAYS = {"review": "always"}
REASON = "it fits the protocol"


@dataclass(frozen=True)
class People:
    """Clients of one service: an admin, two curators, two analysts, and a curator's second key."""

    admin: httpx.Client
    cleo: httpx.Client
    cora: httpx.Client
    ann: httpx.Client
    bob: httpx.Client
    cora_again: httpx.Client


@pytest.fixture(scope="module", params=ON_BOTH)
def service(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Service]:
    directory = tmp_path_factory.mktemp("reviews") / "data"
    with (
        place_on(request.param, directory) as place,
        running(directory, database_url=place.url, job_processes=1) as found,
    ):
        yield found


@pytest.fixture(scope="module")
def people(service: Service) -> Iterator[People]:
    with service.client() as admin:
        roles = {"Cleo": "curator", "Cora": "curator", "Ann": "analyst", "Bob": "analyst"}
        keys = {}
        for name, role in roles.items():
            keys[name] = admin.post("/v1/keys", json={"name": name, "role": role}).json()
        person = {"person": keys["Cora"]["person"], "name": "Cora, again", "role": "curator"}
        second = admin.post("/v1/keys", json=person).json()
        clients = [service.client(keys[name]["secret"]) for name in roles]
        clients.append(service.client(second["secret"]))
        yield People(admin, *clients)
        for client in clients:
            client.close()


@pytest.fixture
def dataset(people: People) -> str:
    return str(upload(people.cleo, policy=ALWAYS, budget={"epsilon": "1"})["id"])


def wait(client: httpx.Client, dataset: str, **more: Any) -> str:
    """Ask for a release that waits for a review; return its id."""
    answer = ask(client, dataset, **more)
    assert answer.status_code == 202, answer.text
    assert answer.json()["status"] == "awaiting_review"
    return str(answer.json()["id"])


def decide(
    client: httpx.Client,
    release: str,
    decision: str,
    *,
    tag: str | None = '"reserved"',
    reason: str = REASON,
) -> httpx.Response:
    headers = {} if tag is None else {"If-Match": tag}
    body = {"decision": decision, "reason": reason}
    return client.post(f"/v1/releases/{release}/decision", json=body, headers=headers)


def released(client: httpx.Client, release: str) -> httpx.Response:
    """Return a release once it has been drawn."""
    deadline = time.monotonic() + 60
    while (shown := client.get(f"/v1/releases/{release}")).json()["status"] == "running":
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert shown.json()["status"] == "released", shown.text
    return shown


def epsilon(client: httpx.Client, dataset: str) -> tuple[str, str, str]:
    """Return what is spent, reserved and left."""
    found = client.get(f"/v1/datasets/{dataset}/budget").json()["epsilon"]
    return found["spent"], found["reserved"], found["remaining"]


def entries(client: httpx.Client, dataset: str) -> list[tuple[str, str, str]]:
    items = client.get(f"/v1/datasets/{dataset}/ledger").json()["items"]
    return [(entry["kind"], entry["principal"], entry["amount"]) for entry in items]


def ids(client: httpx.Client, **filters: str) -> list[str]:
    found = client.get("/v1/releases", params=filters)
    assert found.status_code == 200, found.text
    return [item["id"] for item in found.json()["items"]]


# Policies


@pytest.mark.parametrize(
    ("review", "shown"),
    [("never", "never"), ("always", "always"), ("above:0.50", "above:0.5"),
     ("above:1e-9", "above:0.000000001")],
)  # fmt: skip
def test_a_policy_is_accepted_and_shown(people: People, review: str, shown: str) -> None:
    made = upload(people.cleo, policy={"review": review})
    assert made["policy"]["review"] == shown
    assert people.ann.get(f"/v1/datasets/{made['id']}").json()["policy"]["review"] == shown


def test_only_what_costs_strictly_more_is_reviewed(people: People) -> None:
    dataset = str(upload(people.cleo, policy={"review": "above:0.1"})["id"])

    def preview(price: str) -> dict[str, Any]:
        body = {"statistic": MEAN, "epsilon": price}
        return dict(people.ann.post(f"/v1/datasets/{dataset}/previews", json=body).json())

    within, above = preview("0.1"), preview("0.100000001")
    assert (within["review"], within["job"]) == (False, None)
    assert (above["review"], above["job"]) == (True, {"deadline_s": 2, "expected_s": 1})
    assert ask(people.ann, dataset, epsilon="0.1").status_code == 201
    wait(people.ann, dataset, epsilon="0.100000001")


# Approval


def test_an_approved_release_is_charged_then_drawn_and_replayed(
    people: People, dataset: str
) -> None:
    accepted = ask(people.ann, dataset, key=dataset, epsilon="0.4")
    release = str(accepted.json()["id"])
    assert accepted.status_code == 202
    assert accepted.headers["location"] == f"/v1/releases/{release}"
    assert int(accepted.headers["retry-after"]) > 0
    assert accepted.json()["value"] is None
    assert accepted.json()["review"] == {"decided_at": None, "reason": None}
    assert ask(people.ann, dataset, key=dataset, epsilon="0.4").content == accepted.content
    assert_problem(
        ask(people.ann, dataset, key=dataset, epsilon="0.3"), 422, "idempotency-key-reused"
    )
    assert epsilon(people.ann, dataset) == ("0", "0.4", "0.6")
    assert entries(people.cleo, dataset)[1:] == [("reserve", "Ann", "0.4")]
    shown = people.cleo.get(f"/v1/releases/{release}")
    assert shown.content == accepted.content
    assert shown.headers["etag"] == accepted.headers["etag"]

    approved = decide(people.cleo, release, "approve", tag=shown.headers["etag"])
    assert approved.status_code == 202, approved.text
    assert approved.headers["location"] == f"/v1/releases/{release}"
    assert int(approved.headers["retry-after"]) > 0
    body = approved.json()
    assert (body["status"], body["value"]) == ("running", None)
    assert body["review"]["decided_at"] is not None
    assert epsilon(people.ann, dataset) == ("0.4", "0", "0.6")
    assert_problem(decide(people.cora, release, "reject"), 412, "precondition")

    drawn = released(people.ann, release)
    replayed = ask(people.ann, dataset, key=dataset, epsilon="0.4")
    assert replayed.status_code == 201
    assert replayed.content == drawn.content
    assert set(replayed.json()["value"]) == {"income"}
    assert entries(people.cleo, dataset)[1:] == [
        ("reserve", "Ann", "0.4"),
        ("debit", "Ann", "0.4"),
    ]
    assert people.admin.post("/v1/ledger/receipts", json=replayed.json()).json()["entry"] is True
    again = decide(people.cleo, release, "approve", tag=drawn.headers["etag"])
    assert_problem(again, 409, "not-awaiting-review")
    assert_problem(people.ann.post(f"/v1/releases/{release}/withdrawal"), 409)
    assert people.cleo.get("/v1/ledger/verification").json()["ok"] is True


def test_nothing_is_drawn_while_it_waits(people: People, service: Service, dataset: str) -> None:
    """Rows that are gone are noticed by an approval alone, which then charges nothing."""
    release = wait(people.ann, dataset, key=dataset)
    rows = service.data_dir / "datasets" / dataset
    rows.rename(aside := service.data_dir / "staging" / dataset)
    time.sleep(0.3)
    assert people.ann.get(f"/v1/releases/{release}").json()["status"] == "awaiting_review"
    assert_problem(decide(people.cleo, release, "approve"), 503, "dataset-unreadable")
    assert people.ann.get(f"/v1/releases/{release}").json()["status"] == "awaiting_review"
    assert epsilon(people.ann, dataset) == ("0", "0.1", "0.9")
    aside.rename(rows)
    deadline = time.monotonic() + 60
    while decide(people.cleo, release, "approve").status_code != 202:
        assert time.monotonic() < deadline
        time.sleep(0.2)
    while people.ann.get(f"/v1/releases/{release}").json()["status"] == "running":
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert ask(people.ann, dataset, key=dataset).json()["status"] == "released"
    assert epsilon(people.ann, dataset) == ("0.1", "0", "0.9")


# No one decides on what they ask for


def test_nobody_reviews_their_own_request(people: People, dataset: str) -> None:
    release = wait(people.cora, dataset)
    for own in (people.cora, people.cora_again):
        for decision in ("approve", "reject"):
            assert_problem(decide(own, release, decision), 403, "own-request")
    assert epsilon(people.cora, dataset) == ("0", "0.1", "0.9")
    by_admin = wait(people.admin, dataset)
    assert_problem(decide(people.admin, by_admin, "approve"), 403, "own-request")
    assert decide(people.cleo, release, "approve").status_code == 202
    assert decide(people.cora, by_admin, "reject").status_code == 200


def test_a_decision_is_about_what_was_seen(people: People, dataset: str) -> None:
    release = wait(people.ann, dataset)
    assert_problem(decide(people.cleo, release, "approve", tag=None), 428, "precondition-missing")
    for tag in ('"debited"', 'W/"reserved"', "reserved", ""):
        reported = assert_problem(
            decide(people.cleo, release, "approve", tag=tag), 412, "precondition"
        )
        assert reported["detail"] == "Read it again: it is now in turn 1, version 1."
    assert epsilon(people.ann, dataset) == ("0", "0.1", "0.9")
    assert decide(people.cleo, release, "reject", tag='"x", "reserved"').status_code == 200
    other = wait(people.ann, dataset)
    assert decide(people.cleo, other, "reject", tag="*").status_code == 200
    assert_problem(decide(people.cleo, other, "approve", tag="*"), 409, "not-awaiting-review")
    plain = str(upload(people.cleo)["id"])
    answered = ask(people.ann, plain)
    late = decide(people.cleo, answered.json()["id"], "approve", tag=answered.headers["etag"])
    assert_problem(late, 409, "not-awaiting-review")
    assert_problem(decide(people.cleo, "rel_absent", "approve"), 404, "not-found")


@pytest.mark.parametrize(
    "body",
    [
        {"decision": "approve"},
        {"decision": "approve", "reason": ""},
        {"decision": "maybe", "reason": "r"},
        {"decision": "approve", "reason": "r", "epsilon": "9"},
        {"decision": "approve", "reason": "r" * 2001},
        {"decision": "approve", "reason": "\0"},
    ],
)
def test_a_decision_that_is_none_is_refused(
    people: People, dataset: str, body: dict[str, str]
) -> None:
    release = wait(people.ann, dataset)
    headers = {"If-Match": '"reserved"'}
    answer = people.cleo.post(f"/v1/releases/{release}/decision", json=body, headers=headers)
    assert_problem(answer, 422, "invalid-request")
    assert people.ann.get(f"/v1/releases/{release}").json()["status"] == "awaiting_review"


# What is not approved is given back


def test_a_rejection_gives_the_budget_back_and_says_why(people: People, dataset: str) -> None:
    release = wait(people.ann, dataset, key=dataset, epsilon="1")
    refused = assert_problem(ask(people.ann, dataset), 409, "budget-exceeded")
    assert (refused["requested"], refused["remaining"]) == ("0.1", "0")
    rejected = decide(people.cleo, release, "reject", reason="too dear\nfor one mean")
    assert rejected.status_code == 200
    body = rejected.json()
    assert (body["status"], body["value"]) == ("rejected", None)
    assert body["review"]["reason"] == "too dear\nfor one mean"
    assert body["review"]["decided_at"] is not None
    for client in (people.ann, people.cora):
        shown = client.get(f"/v1/releases/{release}")
        assert shown.content == rejected.content
        assert shown.headers["etag"] == rejected.headers["etag"] == '"rejected"'
        assert "retry-after" not in shown.headers
    assert_problem(people.bob.get(f"/v1/releases/{release}"), 404, "not-found")
    assert_problem(decide(people.cora, release, "approve"), 412, "precondition")
    late = decide(people.cora, release, "approve", tag='"rejected"')
    assert_problem(late, 409, "not-awaiting-review")
    closed = assert_problem(
        ask(people.ann, dataset, key=dataset, epsilon="1"), 409, "release-closed"
    )
    assert (closed["outcome"], closed["release"]) == ("rejected", release)
    assert epsilon(people.ann, dataset) == ("0", "0", "1")
    assert entries(people.cleo, dataset)[1:] == [
        ("reserve", "Ann", "1"),
        ("unreserve", "Cleo", "1"),
    ]
    wait(people.ann, dataset, key=f"{dataset} again", epsilon="1")
    derived = people.ann.post(f"/v1/releases/{release}/derivations", json={"statistic": MEAN})
    assert_problem(derived, 422)


def test_who_asked_may_withdraw(people: People, dataset: str) -> None:
    release = wait(people.ann, dataset, key=dataset)
    path = f"/v1/releases/{release}/withdrawal"
    for client in (people.bob, people.cleo, people.admin):
        assert_problem(client.post(path), 404, "not-found")
    withdrawn = people.ann.post(path)
    assert (withdrawn.status_code, withdrawn.json()["status"]) == (200, "withdrawn")
    assert people.ann.post(path).content == withdrawn.content
    assert epsilon(people.ann, dataset) == ("0", "0", "1")
    assert entries(people.cleo, dataset)[-1] == ("unreserve", "Ann", "0.1")
    closed = assert_problem(ask(people.ann, dataset, key=dataset), 409, "release-closed")
    assert closed["outcome"] == "withdrawn"
    assert_problem(decide(people.cleo, release, "approve"), 412, "precondition")


def test_an_archive_gives_back_what_waits(people: People, dataset: str) -> None:
    account = people.cleo.get(f"/v1/datasets/{dataset}").json()["account"]
    other = str(upload(people.cleo, account=account, budget=None, policy=ALWAYS)["id"])
    release, elsewhere = wait(people.ann, dataset, key=dataset), wait(people.ann, other)
    assert people.cleo.post(f"/v1/datasets/{dataset}/archive").status_code == 200
    shown = people.ann.get(f"/v1/releases/{release}").json()
    assert (shown["status"], shown["review"]["reason"]) == (
        "rejected",
        "the data set has been archived",
    )
    assert people.ann.get(f"/v1/releases/{elsewhere}").json()["status"] == "awaiting_review"
    assert epsilon(people.ann, dataset) == ("0", "0.1", "0.9")
    assert_problem(ask(people.ann, dataset, key=dataset), 409, "release-closed")
    assert_problem(ask(people.ann, dataset), 409, "dataset-archived")
    assert decide(people.cleo, elsewhere, "approve").status_code == 202
    released(people.ann, elsewhere)


# Budgets and lists


def test_a_cap_counts_what_waits(people: People, dataset: str) -> None:
    cap = {"person": "Ann", "epsilon": "0.3", "reason": "a slice"}
    assert people.cleo.put(f"/v1/datasets/{dataset}/caps", json=cap).status_code == 200
    release = wait(people.ann, dataset, epsilon="0.3")
    refused = assert_problem(ask(people.ann, dataset), 409, "budget-exceeded")
    assert refused["remaining"] == "0"
    assert people.ann.get(f"/v1/datasets/{dataset}/budget").json()["yours"]["remaining"] == "0"
    wait(people.bob, dataset, epsilon="0.7")
    people.ann.post(f"/v1/releases/{release}/withdrawal")
    wait(people.ann, dataset, epsilon="0.3")


def test_an_account_in_zcdp_is_reviewed_too(people: People) -> None:
    budget = {"epsilon": "1", "delta": "0.000001"}
    dataset = str(upload(people.cleo, policy=ALWAYS, budget=budget)["id"])
    release = wait(people.ann, dataset, epsilon="0.1")
    spent, reserved, _ = epsilon(people.ann, dataset)
    assert spent == "0" < reserved
    assert decide(people.cleo, release, "approve").status_code == 202
    released(people.ann, release)
    assert epsilon(people.ann, dataset)[:2] == (reserved, "0")


def test_a_curator_finds_what_waits(people: People, dataset: str) -> None:
    first, second = wait(people.ann, dataset), wait(people.bob, dataset)
    third = wait(people.ann, dataset)
    decide(people.cleo, third, "reject")

    def listed(client: httpx.Client, status: str) -> list[str]:
        return ids(client, status=status, dataset=dataset)

    assert listed(people.cleo, "awaiting_review") == [second, first]
    assert listed(people.ann, "awaiting_review") == [first]
    assert listed(people.ann, "rejected") == [third]
    assert listed(people.ann, "withdrawn") == listed(people.ann, "expired") == []
    assert ids(people.cleo, status="awaiting_review")[:2] == [second, first]
    assert ids(people.ann, dataset=dataset) == [third, first]
    pages = []
    cursor: str | None = None
    while cursor is not None or not pages:
        params = {"status": "awaiting_review", "dataset": dataset, "limit": "1"}
        params |= {} if cursor is None else {"cursor": cursor}
        page = people.cleo.get("/v1/releases", params=params).json()
        pages += [item["id"] for item in page["items"]]
        cursor = page["next"]
    assert pages == [second, first]


def test_a_reviewer_reads_what_it_is_for(people: People, dataset: str) -> None:
    purpose = "Table 2 of the annual report\nfor the board"
    release = wait(people.ann, dataset, purpose=purpose)
    for client in (people.ann, people.cleo):
        assert client.get(f"/v1/releases/{release}").json()["purpose"] == purpose
    decide(people.cleo, release, "approve")
    assert released(people.ann, release).json()["purpose"] == purpose
    other = wait(people.ann, dataset)
    assert "purpose" not in people.ann.get(f"/v1/releases/{other}").json()


@pytest.mark.parametrize("purpose", ["", "x" * 2_001, "a\x00b", 7, ["why"]])
def test_a_purpose_is_text_of_some_length(people: People, dataset: str, purpose: Any) -> None:
    asked = ask(people.ann, dataset, purpose=purpose)
    (error,) = assert_problem(asked, 422)["errors"]
    assert error["field"] == "purpose"
    assert purpose or error["message"] == "must not be empty"


@pytest.mark.parametrize("status", ["running", "released", "void", "reserved", ""])
def test_there_is_no_list_by_what_a_draw_decides(people: People, status: str) -> None:
    answer = people.cleo.get("/v1/releases", params={"status": status})
    assert_problem(answer, 422, "invalid-request")


def test_two_reviewers_at_once_decide_once(people: People, dataset: str) -> None:
    from concurrent.futures import ThreadPoolExecutor

    for number in range(5):
        release = wait(people.ann, dataset, key=f"race {number} {uuid4()}")
        calls = [(people.cleo, "approve"), (people.cora, "reject"), (people.admin, "approve")]
        with ThreadPoolExecutor(len(calls)) as pool:
            answers = list(pool.map(lambda call, r=release: decide(call[0], r, call[1]), calls))
        statuses = sorted(answer.status_code for answer in answers)
        assert statuses[0] in (200, 202)
        assert statuses[1:] == [412, 412], [answer.text for answer in answers]
    assert people.cleo.get("/v1/ledger/verification").json()["ok"] is True


def test_a_reviewed_answer_says_when_it_was_charged(people: People, dataset: str) -> None:
    release = wait(people.ann, dataset)
    time.sleep(1.1)
    assert decide(people.cleo, release, "approve").status_code == 202
    answer = json.loads(released(people.ann, release).content)
    assert answer["released_at"] > answer["created_at"]
    items = people.cleo.get(f"/v1/datasets/{dataset}/ledger").json()["items"]
    charged = next(each for each in items if each["kind"] == "debit")
    assert answer["released_at"][:-1] > charged["at"][:19] > answer["created_at"][:-1]
