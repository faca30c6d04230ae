"""Reviewing without script: votes, turns, comments, versions, and two who decide at once."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from tests.contract.service import MEAN, Service, ask, make_key, spent, upload
from tests.desk.browsing import Browsing, Page, confirmed, person, signed_in


class Asker:
    """Somebody who asks by a program and by the desk."""

    def __init__(self, program: httpx.Client, browsing: Browsing) -> None:
        self.program, self.browsing = program, browsing

    def asks(self, dataset: str) -> str:
        answer = ask(self.program, dataset, MEAN, epsilon="0.5", purpose="Table <2>")
        assert answer.status_code == 202, answer.text
        return str(answer.json()["id"])


@pytest.fixture(scope="module")
def asker(service: Service, admin: httpx.Client) -> Iterator[Asker]:
    secret = make_key(admin, "analyst")["secret"]
    with service.client(secret) as program, signed_in(service, secret) as browsing:
        yield Asker(program, browsing)


@pytest.fixture(scope="module")
def second(service: Service, admin: httpx.Client) -> Iterator[Browsing]:
    with person(service, admin, "curator") as browsing:
        yield browsing


@pytest.fixture(scope="module")
def reviewed(admin: httpx.Client) -> str:
    return str(upload(admin, policy={"review": "always"})["id"])


def sheet_of(browsing: Browsing, release: str) -> Page:
    return browsing.open(f"/desk/reviews/{release}")


def revision_of(browsing: Browsing, release: str) -> Page:
    page = sheet_of(browsing, release)
    return browsing.open(page.links()["Change the request"])


@pytest.mark.parametrize("path", ["/desk/releases", "/desk/reviews"])
def test_a_list_is_limited_to_a_data_set_and_a_person(
    service: Service, curator: Browsing, asker: Asker, admin: httpx.Client, path: str
) -> None:
    other = make_key(admin, "analyst")
    one, two = (upload(admin, policy={"review": "always"}) for _ in range(2))
    with service.client(other["secret"]) as program:
        theirs = str(ask(program, one["id"], MEAN, epsilon="0.5").json()["id"])
    first, second = asker.asks(one["id"]), asker.asks(two["id"])
    page = curator.open(path)
    for filled, expected in (
        ({"dataset": one["name"]}, [first, theirs]),
        ({"dataset": two["id"]}, [second]),
        ({"dataset": one["name"], "person": other["person"]}, [theirs]),
        ({"dataset": two["name"], "person": other["person"]}, []),
        ({"dataset": "a name that no data set has"}, []),
    ):
        found = curator.send(page, "Show", **filled)
        shown = [each for each in found.tree.xpath("//small/text()") if each.startswith("rel_")]
        assert shown == expected
    assert "No data set is called “a name that no data set has”." in found.text
    assert found.links()["data sets with these words"].endswith("q=a+name+that+no+data+set+has")
    with pytest.raises(AssertionError, match="person"):
        asker.browsing.send(asker.browsing.open(path), "Show", person="anybody")


def test_a_sheet_names_columns_of_every_type(
    curator: Browsing, asker: Asker, reviewed: str
) -> None:
    statistic = {"kind": "mean", "columns": ["income"], "by": ["region", "owner"]}
    asked = ask(asker.program, reviewed, statistic, epsilon="0.5")
    table = sheet_of(curator, str(asked.json()["id"])).tree.xpath("//table[contains(., 'Bounds')]")
    rows = [" ".join(each.text_content().split()) for each in table[0].xpath("tbody/tr")]
    assert rows == ["income0 to 100", "regionnorth, south", "ownertrue, false"]


def test_what_waits_is_listed_and_approved(
    curator: Browsing, asker: Asker, reviewed: str, admin: httpx.Client
) -> None:
    release = asker.asks(reviewed)
    before = spent(admin, reviewed)
    listed = curator.open("/desk/reviews")
    (row,) = listed.tree.xpath(f"//tr[.//small='{release}']")
    assert row.xpath("td/a/@href")[0] == f"/desk/reviews/{release}"
    assert row.xpath("td/a/text()")[0] == "mean of income"
    assert "Table <2>" in listed.text
    page = sheet_of(curator, release)
    assert "that is left" in page.text
    asked = curator.send(page, "Approve", reason="within the protocol")
    assert asked.heading == "Approve this release?"
    assert "Epsilon 0.5 is charged, and the numbers are drawn." in asked.text
    assert "within the protocol" in asked.text
    assert spent(admin, reviewed) == before
    untouched = curator.send(asked, "Approve", status=422)
    assert "nothing has been done yet" in untouched.alerts()[0]
    assert spent(admin, reviewed) == before
    for _ in range(2):
        done = curator.send(untouched, "Approve", confirmed="yes")
    assert "approved" in done.text
    assert "Cost epsilon 0.5 Expected quality" in done.text, (
        "what is left does not have its price any more"
    )
    assert release not in curator.open("/desk/reviews").tree.xpath("string(//table[1])")
    assert float(spent(admin, reviewed)) == float(before) + 0.5


def test_a_ledger_line_has_requester_key_role_and_approver_apart(
    service: Service, curator: Browsing, second: Browsing, admin: httpx.Client
) -> None:
    made = make_key(admin, "analyst")
    both = str(upload(admin, policy={"review": "always", "reviewers": 2})["id"])
    with service.client(made["secret"]) as program:
        release = str(ask(program, both, MEAN, epsilon="0.5").json()["id"])
    for reviewer in (curator, second):
        confirmed(reviewer, sheet_of(reviewer, release), "Approve", reason="yes")
    entries = admin.get(f"/v1/datasets/{both}/ledger").json()["items"]
    reserve, debit = entries[1:]
    asked = (made["person"], made["id"], "analyst")
    for entry in (reserve, debit):
        assert (entry["principal"], entry["key"], entry["role"]) == asked
    assert (reserve["kind"], reserve["approved_by"]) == ("reserve", [])
    assert debit["kind"] == "debit"
    assert len(set(debit["approved_by"])) == 2
    assert made["person"] not in debit["approved_by"]
    for path in (f"/desk/datasets/{both}", f"/desk/audit?account={debit['account']}"):
        page = curator.open(path)
        (row,) = page.tree.xpath("//tr[td[contains(normalize-space(), 'debit')]]")
        reported = {cell.get("data-of"): cell.text_content().strip() for cell in row.xpath("td")}
        assert (reported["By"], reported["Key"], reported["Role"]) == asked
        assert reported["Approved by"] == ", ".join(debit["approved_by"])
    assert admin.get("/v1/ledger/verification").json()["ok"] is True


def test_who_asked_does_not_decide(curator: Browsing, asker: Asker, reviewed: str) -> None:
    release = asker.asks(reviewed)
    page = sheet_of(asker.browsing, release)
    assert not page.tree.xpath("//button[normalize-space()='Approve']")
    refused = asker.browsing.client.post(f"/desk/reviews/{release}/decision", data={"x": "y"})
    assert refused.status_code == 403
    curator.send(sheet_of(curator, release), "Reject", reason="not <now>")
    assert "not <now>" in asker.browsing.open(f"/desk/releases/{release}").text


def test_a_vote_needs_a_reason(curator: Browsing, asker: Asker, reviewed: str) -> None:
    release = asker.asks(reviewed)
    for wrong, reported in ((" ", "is required"), ("r" * 2_001, "at most"), ("a\0b", "printable")):
        page = curator.send(sheet_of(curator, release), "Approve", status=422, reason=wrong)
        assert reported in page.tree.get_element_by_id("reason-fault").text
        again = curator.send(sheet_of(curator, release), "Comment", status=422, comment=wrong)
        assert reported in again.tree.get_element_by_id("comment-fault").text


def test_changes_are_requested_and_sent_again(
    curator: Browsing, asker: Asker, reviewed: str, admin: httpx.Client
) -> None:
    release = asker.asks(reviewed)
    curator.send(sheet_of(curator, release), "Request changes", reason="Less, please")
    waiting = asker.browsing.open("/desk/reviews")
    assert waiting.tree.xpath(f"//tr[.//small='{release}']"), "it waits for who asked"
    page = revision_of(asker.browsing, release)
    filled = dict(page.form("Preview").form_values())
    assert (filled["columns"], filled["epsilon"]) == ("income", "0.5"), "as it was asked"
    assert (filled["wanted"], filled["purpose"]) == ("epsilon", "Table <2>")
    wrong = asker.browsing.send(page, "Send again", status=422, epsilon="much", columns=[])
    faults = {each.get("id") for each in wrong.tree.xpath("//p[@class='fault']")}
    assert faults == {"epsilon-fault", "columns-fault"}
    left = float(admin.get(f"/v1/datasets/{reviewed}").json()["budget"]["epsilon"]["remaining"])
    seen = asker.browsing.send(page, "Preview", epsilon="0.25")
    assert "After a curator has approved it." in seen.text
    last = asker.browsing.send(page, "Send again", epsilon="0.25")
    assert last.heading == "Send this again?"
    assert f"After this release {left + 0.25:g}" in last.text, "what was set aside is free again"
    for _ in range(2):  # a double click
        again = asker.browsing.send(last, "Send again")
        assert again.path == f"/desk/reviews/{release}"
        assert "waits for its reviewers" in again.text
    page = sheet_of(curator, release)
    assert "Version 2" in page.text
    (row,) = page.tree.xpath("//section[@aria-labelledby='versions']//tbody/tr")
    assert [each.text_content() for each in row] == ["epsilon", '"0.5"', '"0.25"']
    curator.send(page, "Reject", reason="enough")


def test_another_statistic_is_asked_for_and_keeps_its_price_and_purpose(
    curator: Browsing, asker: Asker, reviewed: str
) -> None:
    release = asker.asks(reviewed)
    curator.send(sheet_of(curator, release), "Request changes", reason="Rather the median")
    page = revision_of(asker.browsing, release)
    chosen = asker.browsing.send(page, "Choose", statistic="quantile")
    filled = dict(chosen.form("Preview").form_values())
    assert (filled["epsilon"], filled["purpose"]) == ("0.5", "Table <2>")
    wrong = asker.browsing.send(chosen, "Send again", status=422, levels="half")
    assert wrong.tree.get_element_by_id("levels-fault").text == "must be a number"
    last = asker.browsing.send(chosen, "Send again", levels="0.5")
    assert "quantile of income" in last.text
    assert "Version 2" in asker.browsing.send(last, "Send again").text
    curator.send(sheet_of(curator, release), "Reject", reason="enough")


def test_what_is_too_dear_in_a_new_version_is_said_at_the_epsilon(
    curator: Browsing, asker: Asker, admin: httpx.Client
) -> None:
    small = str(upload(admin, policy={"review": "always"}, budget={"epsilon": "1"})["id"])
    release = asker.asks(small)
    curator.send(sheet_of(curator, release), "Request changes", reason="Other columns, please")
    last = asker.browsing.send(revision_of(asker.browsing, release), "Send again", epsilon="1.25")
    assert "it will be refused" in last.text
    refused = asker.browsing.send(last, "Send again", status=409)
    assert "Epsilon: " in refused.alerts()[0]
    assert refused.tree.get_element_by_id("epsilon").get("aria-invalid") == "true"
    again = asker.browsing.send(refused, "Send again", epsilon="1")
    assert "After this release 0 " in again.text, "all of it, with what is set aside"
    assert "Version 2" in asker.browsing.send(again, "Send again").text


def test_of_two_tabs_that_send_a_request_again_the_second_is_told(
    curator: Browsing, asker: Asker, reviewed: str
) -> None:
    release = asker.asks(reviewed)
    curator.send(sheet_of(curator, release), "Request changes", reason="Less")
    tabs = [revision_of(asker.browsing, release) for _ in range(2)]
    first, second = (asker.browsing.send(tab, "Send again", epsilon="0.25") for tab in tabs)
    assert "Version 2" in asker.browsing.send(first, "Send again").text
    reported = asker.browsing.send(second, "Send again", status=412)
    assert reported.alerts()
    assert "Version 3" not in reported.text
    assert "awaiting review" in reported.text


def test_a_request_is_sent_again_by_who_asked_and_in_their_turn(
    curator: Browsing, asker: Asker, reviewed: str, service: Service, admin: httpx.Client
) -> None:
    release = asker.asks(reviewed)
    revision = f"/desk/reviews/{release}/revision"
    early = asker.browsing.open(revision, status=409)
    assert early.alerts()
    curator.send(sheet_of(curator, release), "Request changes", reason="Less")
    page = asker.browsing.open(revision)
    filled = {**dict(page.form("Preview").form_values()), "form_key": "mine"}
    with person(service, admin, "analyst") as other:
        for browsing in (curator, other):
            browsing.open(revision, status=404)
            assert browsing.client.post(revision, data=filled).status_code == 404
    curious = asker.browsing.client.post(
        revision, data=filled, headers={"Sec-Fetch-Site": "cross-site"}
    )
    assert curious.status_code == 403


def test_a_request_that_the_form_cannot_hold_is_said_to_be_one(
    curator: Browsing, asker: Asker, admin: httpx.Client
) -> None:
    columns = {"region": {"type": "category", "values": ["north", "south "], "trim": False}}
    odd = str(
        upload(admin, "region\n" + "north\n" * 9, columns=columns, policy={"review": "always"})[
            "id"
        ]
    )
    for value, reported in (("north", False), ("south ", True)):
        where = [{"column": "region", "op": "==", "value": value}]
        answer = ask(asker.program, odd, {"kind": "count", "where": where}, epsilon="0.5")
        release = str(answer.json()["id"])
        curator.send(sheet_of(curator, release), "Request changes", reason="Less")
        assert ("cannot hold this request" in revision_of(asker.browsing, release).text) == reported


REASON = "Less, please: <0.2> is plenty.\n" + "So says the protocol. " * 20


def test_who_asked_reads_why_changes_are_wanted_and_may_withdraw(
    curator: Browsing, asker: Asker, reviewed: str, admin: httpx.Client
) -> None:
    release = asker.asks(reviewed)
    before = spent(admin, reviewed)
    curator.send(sheet_of(curator, release), "Request changes", reason=REASON)
    said = " ".join(REASON.split())
    assert said in sheet_of(asker.browsing, release).text
    inbox = asker.browsing.open("/desk/reviews")
    reported = inbox.tree.xpath(f"//section//tr[.//a[@href='/desk/reviews/{release}']]")
    assert any(said in " ".join(each.text_content().split()) for each in reported), "word for word"
    page = asker.browsing.open(f"/desk/releases/{release}")
    assert said in page.text
    assert "withdrawn" in asker.browsing.send(page, "Withdraw").text
    assert spent(admin, reviewed) == before


def test_comments_are_for_all_or_among_reviewers(
    curator: Browsing, second: Browsing, asker: Asker, reviewed: str
) -> None:
    release = asker.asks(reviewed)
    curator.send(sheet_of(curator, release), "Comment", comment="for <all>")
    curator.send(sheet_of(curator, release), "Comment", comment="for us", private="yes")
    assert "for us" in sheet_of(second, release).text
    page = sheet_of(asker.browsing, release)
    assert "for <all>" in page.text
    assert "for us" not in page.answer.text
    asker.browsing.send(page, "Comment", comment="thank you")
    assert "thank you" in sheet_of(curator, release).text


def test_what_is_ticked_stays_so_where_a_text_is_refused(
    curator: Browsing, asker: Asker, admin: httpx.Client
) -> None:
    """A comment among reviewers that was too long must not go to everyone, once it is shorter."""
    lines = ["Is it public?", "Is it small?"]
    own = str(upload(admin, policy={"review": "always"}, checklist=lines)["id"])
    release, long = asker.asks(own), "x" * 3000
    page = sheet_of(curator, release)
    refused = curator.send(page, "Comment", status=422, comment=long, private="yes")
    curator.send(refused, "Comment", comment="for us")
    assert "for us" not in sheet_of(asker.browsing, release).answer.text
    refused = curator.send(page, "Comment", status=422, comment=long)
    assert not refused.tree.xpath("//input[@name='private' and @checked]")
    refused = curator.send(page, "Reject", status=422, reason=long, checked=["2"])
    assert refused.tree.xpath("//input[@name='checked' and @checked]/@value") == ["2"]


def test_of_two_who_decide_at_once_one_is_told(
    curator: Browsing, second: Browsing, asker: Asker, reviewed: str
) -> None:
    release = asker.asks(reviewed)
    first, other = sheet_of(curator, release), sheet_of(second, release)
    curator.send(first, "Reject", reason="too dear")
    reported = second.send(other, "Approve", status=412, reason="fine")
    assert "too dear" in reported.alerts()[0]
    assert "rejected" in reported.text


def test_two_votes_are_blind_until_both_are_in(
    curator: Browsing, second: Browsing, asker: Asker, admin: httpx.Client
) -> None:
    both = str(upload(admin, policy={"review": "always", "reviewers": 2})["id"])
    release = asker.asks(both)
    own = confirmed(curator, sheet_of(curator, release), "Approve", reason="my own view")
    assert "Your vote is in." in own.text
    page = sheet_of(second, release)
    assert "my own view" not in page.answer.text
    assert "awaiting review" in page.text
    done = confirmed(second, page, "Approve", reason="mine too")
    assert not done.tree.xpath("//main/p/span[normalize-space()='awaiting review']")
    assert "my own view" in done.text


def test_a_third_reviewer_is_not_asked_for_a_vote(
    curator: Browsing, second: Browsing, chief: Browsing, asker: Asker, admin: httpx.Client
) -> None:
    both = str(upload(admin, policy={"review": "always", "reviewers": 2})["id"])
    release = asker.asks(both)
    assert sheet_of(chief, release).tree.xpath("//button[normalize-space()='Approve']")
    confirmed(curator, sheet_of(curator, release), "Approve", reason="fine")
    second.send(sheet_of(second, release), "Reject", reason="too dear")
    for browsing, asked in ((curator, True), (second, True), (chief, False)):
        page = sheet_of(browsing, release)
        assert "The votes are unlike" in page.text
        assert bool(page.tree.xpath("//button[normalize-space()='Approve']")) == asked
    confirmed(second, sheet_of(second, release), "Approve", reason="well then")


def test_the_sheet_has_what_a_reviewer_needs(
    curator: Browsing, asker: Asker, admin: httpx.Client
) -> None:
    own = str(upload(admin, policy={"review": "above:0.1"}, checklist=["Is it published?"])["id"])
    assert ask(asker.program, own, MEAN, epsilon="0.1").status_code == 201
    release = asker.asks(own)
    page = sheet_of(curator, release)
    for words in (
        "Table <2>",
        "1 released",
        "epsilon 0.5",
        "income",
        "0 to 100",
        "costs more than",
        "The curator has not stated whether its people are in an earlier data set.",
    ):
        assert words in page.text, words
    assert "Is it published?" in page.labels()
    (matrix,) = page.tree.xpath("//table[contains(caption, 'Earlier releases')]")
    assert "yes" in matrix.text_content()
    curator.send(page, "Reject", reason="enough")


def test_what_happens_is_in_the_inbox(curator: Browsing, asker: Asker, reviewed: str) -> None:
    release = asker.asks(reviewed)
    listed = curator.open("/desk/reviews")
    assert "asks for a release" in listed.text
    curator.send(sheet_of(curator, release), "Reject", reason="because of <this>")
    mine = asker.browsing.open("/desk/reviews")
    assert "because of <this>" in mine.text
    assert "New" in mine.text
    read = asker.browsing.send(mine, "Mark all as read")
    assert "New " not in read.text


def test_who_sees_a_result_is_noted(curator: Browsing, asker: Asker, admin: httpx.Client) -> None:
    own = str(upload(admin)["id"])
    release = ask(asker.program, own, MEAN, epsilon="0.1").json()["id"]
    curator.open(f"/desk/releases/{release}")
    assert curator.client.get(f"/desk/releases/{release}/release.csv").status_code == 200
    seen = admin.get("/v1/audit", params={"release": release})
    assert seen.status_code == 200, seen.text
    assert {"read", "downloaded"} <= {each["how"] for each in seen.json()["items"]}
