"""Reviews at the command line and in the Python client: the sheet, turns, comments, the inbox."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator

import pytest

from app.cli.refusals import REFUSED
from app.client import AsyncDesk, ReleaseDesk
from tests.contract.service import ADMIN_KEY, Service, make_key, running, upload
from tests.e2e.test_cli import done, invoke

SPEC = {
    "columns": {
        "age": {"type": "number", "lower": 0, "upper": 100},
        "ward": {"type": "category", "values": ["a", "b"]},
    },
    "checklist": ["Is it published?"],
}
ROWS = "age,ward\n" + "30,a\n50,b\n" * 20
MEAN = json.dumps({"kind": "mean", "columns": ["age"]})
COUNT = json.dumps({"kind": "histogram", "columns": ["ward"]})


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with running(tmp_path_factory.mktemp("cli") / "data", job_processes=1) as found:
        yield found


def test_a_review_goes_its_whole_way(service: Service) -> None:
    url = service.url
    with service.client() as admin:
        ada = make_key(admin, "analyst", "Ada")["secret"]
        cleo = make_key(admin, "curator", "Cleo")["secret"]
        cora = make_key(admin, "curator", "Cora")["secret"]
        dataset = upload(admin, ROWS, policy={"review": "always"}, **SPEC)["id"]

    asked = ("releases", "ask", dataset, "--purpose", "Table 2", "--epsilon", "0.5")
    first = json.loads(done(*asked, COUNT, "--yes", url=url, key=ada))["id"]
    release = json.loads(done(*asked, MEAN, "--yes", url=url, key=ada))["id"]
    edit = json.dumps({"policy": {"reviewers": 2}})
    edited = done("datasets", "edit", dataset, edit, "--reason", "two", url=url, key=cleo)
    assert edited == dataset

    sheet = done("releases", "review", release, url=url, key=cleo)
    for said in (
        f"{release}  awaiting_review  version 1  turn 1",
        'seen       "reserved"',
        "asked      Mean of age, for an epsilon of 0.5.",
        "by         Ada; before: 1 awaiting_review; spent 0",
        "purpose    Table 2",
        "cost       epsilon 0.5, 5.26% of what is left",
        "bounds     age: 0 to 100",
        "policy     Two reviewers decide.",
        "check      [ ] Is it published?",
        "votes      2 needed, open",
    ):
        assert said in sheet.splitlines()
    assert first not in sheet, "it is about another column"
    whole = json.loads(done("releases", "review", release, "--json", url=url, key=cleo))
    assert whole["request"]["statistic"]["kind"] == "mean"

    less = ("--reason", "a tenth will do")
    ask_less = ("releases", "request-changes", release)
    assert done(*ask_less, *less, "--seen", '"reserved"', url=url, key=cleo) == "awaiting_review"
    done("releases", "comment", release, "too dear", "--private", url=url, key=cora)
    assert done(*ask_less, "--reason", "yes", url=url, key=cora) == "changes_requested"
    assert "a tenth will do" in done("releases", "show", release, url=url, key=ada)
    revise = ("releases", "revise", release, COUNT, "--epsilon", "0.1")
    assert done(*revise, url=url, key=ada) == "awaiting_review"
    versions = done("releases", "versions", release, url=url, key=ada).splitlines()
    assert versions[0].endswith("as it was asked")
    assert "epsilon: 0.5 -> 0.1" in versions[1]
    stale = ("releases", "approve", release, "--reason", "ok", "--seen", '"reserved"', "--yes")
    refused = invoke(*stale, url=url, key=cleo)
    assert refused.exit_code == REFUSED
    assert "412 precondition" in refused.stderr

    sheet = done("releases", "review", release, url=url, key=cora)
    assert f"earlier    x  {first}  histogram  epsilon 0.5  awaiting_review  Ada" in sheet
    assert "comment    Cora (private): too dear" in sheet
    assert "bounds     ward: a, b" in sheet
    assert done("releases", "approve", release, "--reason", "ok", "--yes", url=url, key=cleo) == (
        "awaiting_review"
    )
    assert done("releases", "reject", release, "--reason", "no", "--yes", url=url, key=cora) == (
        "awaiting_review"
    )
    sheet = done("releases", "review", release, url=url, key=cleo)
    assert "votes      2 needed, a conflict" in sheet
    assert "vote       Cora: reject: no" in sheet
    assert (
        done("releases", "reject", release, "--reason", "no", "--yes", url=url, key=cleo)
        == "rejected"
    )

    comments = done("releases", "comments", release, url=url, key=cleo)
    said = [line.split()[-2:] for line in comments.splitlines()]
    assert ["will", "do"] in said, "what was said when changes were requested"
    assert ["too", "dear"] in said
    reported = done("inbox", "--unread", "--read", url=url, key=ada)
    assert [line.split()[1] for line in reported.splitlines()] == [
        "event", "rejected", "changes_requested",
    ]  # fmt: skip
    assert done("inbox", "--unread", "--json", url=url, key=ada) == ""
    done("releases", "list", url=url, key=cleo)
    assert "person" in done("audit", "access-log", url=url, key=cleo)


def test_the_client_has_the_calls_for_both_worlds(service: Service) -> None:
    with service.client() as admin:
        ada = make_key(admin, "analyst")["secret"]
        cleo = make_key(admin, "curator")["secret"]
        dataset = upload(admin, ROWS, policy={"review": "always"}, **SPEC)["id"]
    with ReleaseDesk(service.url, ada) as desk, ReleaseDesk(service.url, cleo) as reviewer:
        asked = desk.release(dataset, json.loads(MEAN), epsilon="0.5", wait=False)
        sheet = reviewer.review(asked)
        assert (sheet.words, sheet.etag) == ("Mean of age, for an epsilon of 0.5.", '"reserved"')
        changed = reviewer.request_changes(asked, reason="less", seen=sheet.etag)
        assert changed.status == "changes_requested"
        (waiting,) = desk.releases(status="changes_requested")
        revised = desk.revise(waiting, json.loads(MEAN), epsilon="0.1", purpose="a check")
        assert (revised.status, len(desk.versions(revised))) == ("awaiting_review", 2)
        assert reviewer.comment(asked, "thank you").private is False
        assert [each.text for each in desk.comments(asked)] == ["less", "thank you"]
        notices = list(desk.inbox(unread=True))
        assert [each.event for each in notices] == ["commented", "changes_requested"]
        assert desk.mark_read(notices) == 2
        edited = reviewer.edit(dataset, reason="old", notices=["Old figures"])
        assert edited.notices == ["Old figures"]

    async def decide() -> str:
        async with AsyncDesk(service.url, ADMIN_KEY) as other:
            await other.reject(asked, reason="no", seen=(await other.review(asked)).etag)
            seen = [each async for each in other.audit(release=asked)]
            assert seen == []
            return (await other.released(asked.id)).status

    assert asyncio.run(decide()) == "rejected"
