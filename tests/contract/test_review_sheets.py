"""The review sheet, the inbox, edits of data sets, and notes of who has seen what, over HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.contract.service import (
    MEAN,
    Service,
    ask,
    assert_problem,
    make_key,
    running,
    upload,
)
from tests.contract.test_review_turns import ROWS, SENTINEL, SUM, revise, say, vote
from tests.contract.test_reviews import People, released, wait

CHECKLIST = ["Is the table published?", "Are the groups large?"]


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with running(tmp_path_factory.mktemp("sheets") / "data", job_processes=1) as found:
        yield found


@pytest.fixture(scope="module")
def people(service: Service) -> Iterator[People]:
    with service.client() as admin:
        roles = {"Cleo": "curator", "Cora": "curator", "Ann": "analyst", "Bob": "analyst"}
        clients = [
            service.client(make_key(admin, role, name)["secret"]) for name, role in roles.items()
        ]
        yield People(admin, *clients, clients[1])
        for client in clients:
            client.close()


@pytest.fixture
def dataset(people: People) -> str:
    policy = {"review": "always", "max_epsilon_per_release": "0.5", "allowed": ["mean", "sum"]}
    made = upload(
        people.cleo, ROWS, policy=policy, budget={"epsilon": "1"}, checklist=CHECKLIST,
        notices=["Incomes of one street"], same_people="unknown",
    )  # fmt: skip
    assert made["checklist"] == CHECKLIST
    return str(made["id"])


def sheet(client: httpx.Client, release: str) -> dict[str, Any]:
    answer = client.get(f"/v1/releases/{release}/review")
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def inbox(client: httpx.Client, release: str, **more: Any) -> list[dict[str, Any]]:
    found = client.get("/v1/inbox", params={"limit": 200, **more})
    assert found.status_code == 200, found.text
    return [item for item in found.json()["items"] if item["release"] == release]


# The sheet


def test_a_sheet_holds_all_that_a_reviewer_needs(people: People, dataset: str) -> None:
    cap = {"person": "Ann", "epsilon": "0.9", "reason": "a slice"}
    people.cleo.put(f"/v1/datasets/{dataset}/caps", json=cap).raise_for_status()
    earlier = wait(people.bob, dataset, epsilon="0.2")
    food = wait(people.ann, dataset, statistic={"kind": "mean", "columns": ["food"]})
    vote(people.cleo, food, "reject")
    release = wait(people.ann, dataset, statistic=SUM, epsilon="0.4", purpose="for the board")
    found = sheet(people.cleo, release)
    assert found["dataset"] == dataset
    assert (found["status"], found["etag"]) == ("awaiting_review", '"reserved"')
    assert found["asker"]["person"] == "Ann"
    assert found["asker"]["asked"]["rejected"] >= 1
    assert (found["asker"]["cap"], found["asker"]["used"]) == ("0.9", "0.4")
    assert found["purpose"] == "for the board"
    assert found["words"] == "Sum of income, for an epsilon of 0.4."
    assert found["request"]["statistic"]["kind"] == "sum"
    assert (found["cost"]["epsilon"], found["cost"]["remaining"]) == ("0.4", "0.8")
    assert found["cost"]["share"] == 0.5
    assert found["expected"]["error"]["income"] > 0
    assert found["expected"]["usefulness"]["verdict"] == "noise", "of few rows"
    assert found["bounds"]["income"]["lower"] == 0
    assert found["bounds"]["income"]["upper"] == 100
    assert found["matrix"]["columns"] == ["income"]
    (row,) = found["matrix"]["releases"]
    assert (row["release"], row["requested_by"], row["touches"]) == (earlier, "Bob", [True])
    assert found["policy"]["allowed"] == ["mean", "sum"]
    assert found["policy_says"] == [
        "Every release from this data set is reviewed.",
        "One reviewer decides.",
        "One release may cost at most epsilon 0.5.",
        "Only these statistics are allowed: mean, sum. This one is.",
    ]
    assert found["checklist"] == CHECKLIST
    assert found["same_people"] == "unknown"
    assert [each["version"] for each in found["versions"]] == [1]
    assert (found["votes"], found["comments"]) == (
        {"needed": 1, "complete": False, "conflict": False, "items": []}, [],
    )  # fmt: skip
    assert str(SENTINEL) not in people.cleo.get(f"/v1/releases/{release}/review").text


def test_a_sheet_goes_on_with_its_review(people: People, dataset: str) -> None:
    release = wait(people.ann, dataset, epsilon="0.4")
    vote(people.cleo, release, "request_changes", "less")
    say(people.cora, release, "I agree", private=True)
    revise(people.ann, release, epsilon="0.1")
    found = sheet(people.cora, release)
    assert (found["turn"], found["version"], found["cost"]["share"]) == (2, 2, 0.1)
    assert found["versions"][1]["differences"] == [
        {"place": "epsilon", "before": "0.4", "after": "0.1"}
    ]
    # The reason stays a part of the conversation.
    assert [each["text"] for each in found["comments"]] == ["less", "I agree"]
    vote(people.cora, release, "approve")
    released(people.ann, release)
    assert sheet(people.cora, release)["votes"]["items"][0]["decision"] == "approve"


def test_a_sheet_has_a_tag_that_a_decision_takes(people: People, dataset: str) -> None:
    release = wait(people.ann, dataset)
    path = f"/v1/releases/{release}"
    first = people.cora.get(f"{path}/review")
    tag = first.headers["etag"]
    again = people.cora.get(f"{path}/review", headers={"If-None-Match": tag})
    assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", tag)
    say(people.cora, release, "I wonder", private=True)
    other = people.cora.get(f"{path}/review", headers={"If-None-Match": tag})
    assert (other.status_code, other.json()["etag"]) == (200, first.json()["etag"])
    assert other.headers["etag"] != tag
    wrong = f'"other{tag.partition(";")[2]}'
    body = {"decision": "reject", "reason": "no"}
    for condition, status in ((wrong, 412), (tag.replace("reserved", "debited"), 412), (tag, 200)):
        headers = {"If-Match": condition}
        assert (
            people.cora.post(f"{path}/decision", json=body, headers=headers).status_code == status
        )


def test_a_sheet_keeps_two_reviewers_apart(people: People) -> None:
    policy = {"review": "above:0.05", "reviewers": 2}
    dataset = str(upload(people.cleo, ROWS, policy=policy)["id"])
    release = wait(people.ann, dataset)
    vote(people.cleo, release, "approve", "fine")
    assert sheet(people.cora, release)["votes"]["items"] == []
    assert [each["person"] for each in sheet(people.cleo, release)["votes"]["items"]] == ["Cleo"]
    assert (
        "What costs more than epsilon 0.05 is reviewed."
        in sheet(people.cora, release)["policy_says"]
    )
    vote(people.cora, release, "reject", "no")
    votes = sheet(people.admin, release)["votes"]
    assert (votes["complete"], votes["conflict"], len(votes["items"])) == (True, True, 2)
    own = wait(people.cora, dataset)
    vote(people.cleo, own, "approve")
    vote(people.admin, own, "reject")
    assert sheet(people.cora, own)["votes"]["items"] == []


def test_a_sheet_is_for_reviewers_of_what_is_reviewed(people: People, dataset: str) -> None:
    release = wait(people.ann, dataset)
    assert_problem(people.ann.get(f"/v1/releases/{release}/review"), 403, "forbidden")
    plain = ask(people.ann, str(upload(people.cleo, ROWS)["id"])).json()["id"]
    assert_problem(people.cleo.get(f"/v1/releases/{plain}/review"), 409, "not-awaiting-review")


def test_a_sheet_names_data_sets_about_the_same_people(people: People, dataset: str) -> None:
    account = people.cleo.get(f"/v1/datasets/{dataset}").json()["account"]
    other = upload(people.cleo, ROWS, account=account, budget=None)
    release = wait(people.ann, dataset)
    (overlap,) = sheet(people.cleo, release)["overlaps"]
    assert (overlap["dataset"], overlap["why"]) == (other["id"], "shares the budget account")


def test_a_sheet_has_the_history_of_the_same_people_over_linked_data_sets(people: People) -> None:
    lines = "".join(f"{n % 97}.{n},{n % 47},north,true\n" for n in range(80))
    rows = f"income,food,region,owner\n{lines}"
    first = upload(people.cleo, rows, name="First wave")
    income = ask(people.ann, first["id"], SUM, epsilon="0.3").json()
    assert income["status"] == "released"
    food = ask(people.bob, first["id"], {"kind": "mean", "columns": ["food"]}, epsilon="0.2")
    assert food.json()["status"] == "released"
    reason = {"reason": "the same street"}
    again = upload(
        people.admin, rows, name="Second wave", overlap=reason, policy={"review": "always"}
    )
    release = wait(people.ann, again["id"], epsilon="0.5")
    found = sheet(people.cleo, release)
    (overlap,) = found["overlaps"]
    assert (overlap["dataset"], overlap["name"]) == (first["id"], "First wave"), "never itself"
    assert "the same street" in overlap["why"]
    (row,) = found["matrix"]["releases"]
    assert (row["release"], row["dataset_name"], row["touches"]) == (
        income["id"], "First wave", [True]
    )  # fmt: skip
    own, other = found["uses"]
    assert [each["name"] for each in own["datasets"]] == ["Second wave"]
    assert (own["releases"], own["spent"], own["asked"]) == (0, "0", {})
    assert (other["releases"], other["spent"], other["spent_by_requester"]) == (2, "0.5", "0.3")
    assert other["asked"] == {"released": 1}
    assert found["asker"]["asked"] == {}, "of this account alone, as what is spent of it"
    alone, together = found["for_one_person"]
    assert "at most 62% sure" in alone
    assert "(epsilon 0.5)" in together
    assert together.endswith("73% at most.")


# Edits


def test_a_curator_edits_what_is_said_and_never_bounds(people: People, dataset: str) -> None:
    path = f"/v1/datasets/{dataset}"
    before = people.cleo.get(path).json()
    edit = {
        "reason": "the board's decision",
        "description": "One street, 1857.",
        "policy": {"review": "above:0.3", "reviewers": 2},
        "notices": ["Old figures"],
        "labels": {"income": "Yearly income"},
        "checklist": ["Who reads it?"],
    }
    edited = people.cleo.patch(path, json=edit)
    assert edited.status_code == 200, edited.text
    after = edited.json()
    assert people.ann.get(path).json() == after
    for name in ("description", "notices", "checklist"):
        assert after[name] == edit[name]
    # what the policy's edit does not name stays
    assert after["policy"] == {**before["policy"], "review": "above:0.3", "reviewers": 2}
    assert after["columns"]["income"] == {**before["columns"]["income"], "label": "Yearly income"}
    assert after["columns"]["food"] == before["columns"]["food"]
    assert ask(people.ann, dataset, epsilon="0.3").status_code == 201
    assert ask(people.ann, dataset, epsilon="0.31").status_code == 202
    again = people.cleo.patch(path, json={"reason": "no need", "labels": {"income": None}}).json()
    assert "label" not in again["columns"]["income"]
    assert again["description"] == after["description"]
    assert people.cleo.get("/v1/ledger/verification").json()["ok"] is True


@pytest.mark.parametrize(
    "edit",
    [
        {"columns": {}}, {"budget": {"epsilon": "9"}}, {"labels": {"shoes": "Shoe size"}},
        {"policy": {"review": "maybe"}}, {"policy": {"reviewers": 3}}, {"reason": None},
        {"policy": {"allowed": ["magic"]}}, {"notices": [""]},
    ],
)  # fmt: skip
def test_what_cannot_be_edited_is_refused(
    people: People, dataset: str, edit: dict[str, Any]
) -> None:
    answer = people.cleo.patch(f"/v1/datasets/{dataset}", json={"reason": "why not", **edit})
    assert_problem(answer, 422, "invalid-request")


# The inbox


def test_each_step_is_told_to_who_asked_and_to_reviewers(people: People, dataset: str) -> None:
    release = wait(people.ann, dataset, epsilon="0.4", purpose="for the board")
    vote(people.cleo, release, "request_changes", "a tenth\nwill do")
    say(people.cora, release, "yes, please")
    say(people.cora, release, "poor thing", private=True)
    revise(people.ann, release, epsilon="0.1")
    vote(people.cora, release, "approve", "fine now")
    released(people.ann, release)
    own = inbox(people.ann, release)
    assert [each["event"] for each in own] == [
        "released", "approved", "revised", "commented", "changes_requested", "asked",
    ]  # fmt: skip
    theirs = inbox(people.admin, release)
    assert [each["event"] for each in theirs] == [
        "released", "approved", "revised", "changes_requested", "asked",
    ]  # fmt: skip
    changes = own[4]
    assert (changes["who"], changes["why"]) == ("Cleo", "a tenth\nwill do")
    assert changes["what"].startswith("Cleo wants changes to a release of “data set")
    assert changes["what"].endswith("mean, epsilon 0.1, asked by Ann")
    assert all(each["what"].count("Ann") == 1 for each in (changes, own[2], own[-1]))
    assert own[-1]["why"] is None
    assert [each["read"] for each in own] == [False, False, True, False, False, True]
    assert "poor thing" not in str(own) + str(theirs)
    assert inbox(people.bob, release) == []
    for client in (people.ann, people.admin):
        assert str(SENTINEL) not in client.get("/v1/inbox", params={"limit": 200}).text
    values = people.ann.get(f"/v1/releases/{release}").json()["value"]
    assert str(values["income"]) not in str(own)


def test_what_was_read_is_read_for_oneself_alone(people: People, dataset: str) -> None:
    release = wait(people.ann, dataset)
    vote(people.cleo, release, "reject", "no")
    unread = inbox(people.ann, release, unread=True)
    assert [each["event"] for each in unread] == ["rejected"]
    ids = [unread[0]["id"]]
    assert people.bob.post("/v1/inbox/read", json={"ids": ids}).json() == {"read": 0}
    for _ in range(2):
        assert people.ann.post("/v1/inbox/read", json={"ids": ids}).json() == {"read": 1}
    assert inbox(people.ann, release, unread=True) == []
    assert [each["event"] for each in inbox(people.cora, release, unread=True)] == [
        "rejected", "asked",
    ]  # fmt: skip


def test_a_conflict_is_told_to_reviewers_alone(people: People) -> None:
    policy = {"review": "always", "reviewers": 2}
    release = wait(people.ann, str(upload(people.cleo, ROWS, policy=policy)["id"]))
    vote(people.cleo, release, "approve")
    assert [each["event"] for each in inbox(people.cora, release)] == ["asked"]
    vote(people.cora, release, "reject")
    assert [each["event"] for each in inbox(people.cleo, release)] == ["conflict", "asked"]
    assert [each["event"] for each in inbox(people.ann, release)] == ["asked"]


def test_an_inbox_has_pages(people: People, dataset: str) -> None:
    for _ in range(3):
        wait(people.bob, dataset, epsilon="0.01")
    seen: list[str] = []
    cursor: str | None = None
    while cursor is not None or not seen:
        params = {"limit": "2", **({} if cursor is None else {"cursor": cursor})}
        page = people.bob.get("/v1/inbox", params=params).json()
        seen += [item["id"] for item in page["items"]]
        cursor = page["next"]
    assert len(seen) == len(set(seen)) >= 3
    whole = people.bob.get("/v1/inbox", params={"limit": 200}).json()["items"]
    assert seen == [item["id"] for item in whole]


def test_an_outcome_is_told_when_it_is_public_and_not_before(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """With the clock on, the draw ends long before its public deadline of two seconds."""
    directory = tmp_path_factory.mktemp("slow") / "data"
    with (
        running(directory, job_processes=1, response_slot_ms=100) as service,
        service.client() as admin,
        service.client(make_key(admin, "curator", "Cleo")["secret"]) as cleo,
    ):
        dataset = str(upload(admin, ROWS, policy={"review": "always"})["id"])
        release = wait(admin, dataset)
        assert vote(cleo, release, "approve").status_code == 202
        before = inbox(admin, release)
        running_still = admin.get(f"/v1/releases/{release}").json()["status"] == "running"
        assert not running_still or [each["event"] for each in before] == ["approved", "asked"]
        released(admin, release)
        assert inbox(admin, release)[0]["event"] == "released"


# Who has seen what


def test_who_sees_a_result_is_noted_until_it_is_public(people: People) -> None:
    dataset = str(upload(people.cleo, ROWS)["id"])
    release = str(ask(people.ann, dataset).json()["id"])

    def seen() -> set[tuple[str, str]]:
        answer = people.cleo.get("/v1/audit", params={"release": release})
        assert answer.status_code == 200, answer.text
        found = [(item["person"], item["how"]) for item in answer.json()["items"]]
        assert len(found) == len(set(found))
        return set(found)

    assert seen() == set()
    for _ in range(3):
        people.cora.get(f"/v1/releases/{release}").raise_for_status()
    assert seen() == {("Cora", "read")}
    people.admin.get("/v1/releases").raise_for_status()
    derived = people.ann.post(f"/v1/releases/{release}/derivations", json={"statistic": MEAN})
    assert derived.status_code == 200
    people.bob.get(f"/v1/releases/{release}")
    assert seen() >= {("Cora", "read"), ("bootstrap", "listed"), ("Ann", "derived")}
    assert not any(person == "Bob" for person, _ in seen())
    publication = {"reason": "it is done"}
    tag = people.cleo.get(f"/v1/releases/{release}").headers["etag"]
    people.cleo.post(
        f"/v1/releases/{release}/publication", json=publication, headers={"If-Match": tag}
    ).raise_for_status()
    before = seen()
    people.ann.get(f"/v1/releases/{release}").raise_for_status()
    assert seen() == before
    assert_problem(people.ann.get("/v1/audit"), 403, "forbidden")
    assert len(people.cleo.get("/v1/audit", params={"limit": 1}).json()["items"]) == 1
