"""No answer before its flush, and none that a full disk could not keep, on the whole service."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Iterator, MutableMapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from app.constants import Constants
from app.domain.reviews import PlanState
from app.processes.program import Forks
from app.settings import Settings
from app.store import inspecting
from app.store.ledger.pauses import Paused
from app.store.unit_of_work import Reader
from tests.app.disk import Event, Tape, image, recorded
from tests.app.flushes import flushes
from tests.contract import service
from tests.contract.service import (
    MEAN,
    Service,
    ask,
    assert_problem,
    running,
    send_raw,
    send_upload,
    spec,
    upload,
)

Message = MutableMapping[str, Any]
Kept = Callable[[Reader], bool]
SNAPSHOT = json.loads(Path(__file__).with_name("openapi.json").read_text())
FIELD: dict[str, Any] = {"type": "number", "lower": -1, "upper": 1}
UNUSED = {
    "file": ("unused.csv", "w\n" + "".join(f"{place / 97}\n" for place in range(30))),
    "spec": (None, json.dumps(spec(name="unused", columns={"w": FIELD}))),
}
POINTS = "x,y,z\n" + "0,0.5,0.1\n0.3,0.2,-0.9\n-0.4,0.1,0.6\n" * 10
JOB = {"kind": "quantile_regression", "target": "y", "features": ["x", "z"], "bound": 1}


@contextmanager
def on_tape(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    rewrite: Callable[[str], str] = str,
    look: Callable[[], object] = lambda: None,
) -> Iterator[tuple[Tape, Service]]:
    """A service whose disk remembers; the moment a 2xx begins to leave is on the tape too.

    Under its request id, and for every request but those that only read. ``look`` is
    called at that moment.
    """
    create = service.create_app

    def noting(settings: Settings, constants: Constants) -> Any:
        app: FastAPI = create(settings, constants)

        async def wrapped(scope: Any, receive: Any, send: Any) -> None:
            async def noted(message: Message) -> None:
                if scope["method"] not in ("GET", "HEAD") and 200 <= message.get("status", 0) < 300:
                    tape.acknowledge(dict(message["headers"])[b"x-request-id"].decode())
                    look()
                await send(message)

            await app(scope, receive, noted if scope["type"] == "http" else send)

        return wrapped

    monkeypatch.setattr(service, "create_app", noting)
    with recorded(rewrite=rewrite) as tape, running(tmp_path / "data") as server:
        yield tape, server


@dataclass
class Answers:
    """Every answer to a request that may write, with what it says is kept."""

    given: dict[str, tuple[httpx.Response, Kept | None]] = field(default_factory=dict)

    def note(self, answer: httpx.Response, status: int, kept: Kept | None = None) -> Any:
        """Return the body of an answer that has this status."""
        assert answer.status_code == status, answer.text
        self.given[answer.headers["x-request-id"]] = answer, kept
        is_json = answer.headers.get("content-type", "").endswith("json")
        return answer.json() if is_json else None

    def kinds(self) -> set[tuple[str, str, int]]:
        """Return which of the contract's answers there were."""
        return {kind_of(answer) for answer, _ in self.given.values()}

    def lost(self, events: Sequence[Event], root: Path) -> set[tuple[str, str, int]]:
        """Cut the power as each answer begins to leave; return those that the disk does not know.

        Whatever wrote nothing is not asked about.
        """
        moments = {e.path: number for number, e in enumerate(events) if e.kind == "ack"}
        assert moments.keys() == self.given.keys()
        lost = set()
        for request, (answer, kept) in self.given.items():
            if kept is not None:
                cut = root / f"cut {request}"
                before = events[: moments[request]]
                image(before, root, cut, fate="dropped", rng=random.Random(1))
                with inspecting(f"sqlite:///{cut}/data/release-desk.db") as reader:
                    if not kept(reader):
                        lost.add(kind_of(answer))
        return lost


def kind_of(answer: httpx.Response) -> tuple[str, str, int]:
    """Return a request's method, its path as the contract writes it, and the status."""
    method, path = answer.request.method, answer.request.url.path
    (template,) = (
        each
        for each, methods in SNAPSHOT["paths"].items()
        if method.lower() in methods and re.fullmatch(re.sub(r"{\w+}", "[^/]+", each), path)
    )
    return method, template, answer.status_code


def documented() -> set[tuple[str, str, int]]:
    """Return every 2xx in the contract, but for those to a GET."""
    return {
        (method.upper(), path, int(status))
        for path, methods in SNAPSHOT["paths"].items()
        for method, operation in methods.items()
        for status in operation["responses"]
        if method != "get" and status.startswith("2")
    }


NOT_HERE = {
    ("POST", "/v1/keys/{key}/sign-in", 204),
    ("POST", "/v1/releases/{release}/derivations", 202),
}
"""What needs a provider of identities (``test_providers``), or writes nothing that must last
(``test_derivations``)."""
READ_ONLY = {
    ("POST", "/v1/datasets", 200),
    ("POST", "/v1/datasets/{dataset}/versions", 200),
    ("POST", "/v1/datasets/{dataset}/dry-runs", 200),
    ("POST", "/v1/datasets/{dataset}/previews", 200),
    ("POST", "/v1/datasets/{dataset}/scripts", 200),
    ("POST", "/v1/datasets/{dataset}/study-plans", 200),
    ("POST", "/v1/ledger/receipts", 200),
    ("POST", "/v1/releases/{release}/derivations", 200),
    ("POST", "/v1/releases/{release}/synthetic", 200),
}


def stored(answer: httpx.Response) -> Kept:
    """The very bytes of an answer are a release's result."""
    name = answer.json()["id"]

    def kept(reader: Reader) -> bool:
        record = reader.releases.get(name)
        return record is not None and record.result == answer.content

    return kept


def in_state(release: str, *states: str) -> Kept:
    def kept(reader: Reader) -> bool:
        record = reader.releases.get(release)
        return record is not None and record.state in states

    return kept


def in_plan_state(plan: str, *states: PlanState) -> Kept:
    def kept(reader: Reader) -> bool:
        record = reader.study_plans.get(plan)
        return record is not None and record.state in states

    return kept


def everything_that_writes(admin: httpx.Client, server: Service) -> Answers:
    """Ask for everything that the contract has, so that each thing asked for changes the ledger."""
    answers = Answers()
    note = answers.note
    ask_about_data(admin, answers)
    key = note(
        made := admin.post("/v1/keys", json={"name": "Cleo", "role": "curator"}), 201,
        lambda r: r.keys.get(made.json()["id"]) is not None,
    )  # fmt: skip
    with server.client(key["secret"]) as cleo:
        ask_for_reviews(admin, cleo, answers)
    pause = {"what": "person", "name": "Cleo", "paused": True, "reason": "on leave"}
    note(
        admin.put("/v1/pauses", json=pause), 200,
        lambda r: r.pauses.get(Paused.PERSON, "Cleo") is not None,
    )  # fmt: skip
    note(
        admin.delete(f"/v1/keys/{key['id']}"), 204,
        lambda r: getattr(r.keys.get(key["id"]), "revoked_at", None) is not None,
    )  # fmt: skip
    return answers


def ask_about_data(admin: httpx.Client, answers: Answers) -> None:
    note = answers.note
    created = send_upload(admin, body=spec(budget={"epsilon": "4"}))
    name, account = created.json()["id"], created.json()["account"]
    note(created, 201, lambda r: r.datasets.get(name) is not None)
    path = f"/v1/datasets/{name}"
    body: dict[str, Any] = {"epsilon": "2", "reason": "more"}
    note(
        admin.post(f"{path}/grants", json=body), 201,
        lambda r: getattr(r.accounts.get(account), "total", 0) == 6 * 10**9,
    )  # fmt: skip
    body = {"person": "bootstrap", "epsilon": "5", "reason": "a share"}
    note(
        admin.put(f"{path}/caps", json=body), 200,
        lambda r: [each.amount for each in r.accounts.caps(account)] == [5 * 10**9],
    )  # fmt: skip
    body = {"access": {"persons": ["bootstrap"], "groups": []}, "reason": "a study"}
    note(
        admin.put(f"{path}/access", json=body), 200,
        lambda r: getattr(r.access.now().lists.get(account), "persons", ()) == ("bootstrap",),
    )  # fmt: skip
    group = {"name": "a study", "persons": ["bootstrap"], "reason": "a study"}
    note(
        admin.put("/v1/groups", json=group), 200,
        lambda r: "a study" in r.access.now().groups,
    )  # fmt: skip
    moments = ask(admin, name, {"kind": "moments", "columns": ["income", "food"]}, key="moments")
    note(moments, 201, stored(moments))
    again = ask(admin, name, {"kind": "moments", "columns": ["income", "food"]}, key="moments")
    note(again, 201, stored(moments))
    public = f"/v1/releases/{moments.json()['id']}/publication"
    for status in (201, 200):
        note(
            admin.post(public, json={"reason": "for all"}, headers={"If-Match": "*"}), status,
            lambda r: r.publications.get(moments.json()["id"]) is not None,
        )  # fmt: skip
    note(
        admin.post(f"{public}/withdrawal", json={"note": "a mistake"}), 200,
        lambda r: getattr(r.publications.get(moments.json()["id"]), "note", None) == "a mistake",
    )  # fmt: skip
    question = {"statistic": MEAN, "epsilon": "1"}
    for free in ("previews", "dry-runs", "scripts?language=notebook"):
        note(admin.post(f"{path}/{free}", json=question), 200)
    note(send_raw(admin, "/v1/ledger/receipts", moments.content), 200)
    note(admin.post(f"{path}/study-plans", json={"questions": [question]}), 200)
    margins = {"kind": "tables", "columns": ["region", "owner"], "margins": "all_two_way"}
    tables = ask(admin, name, margins, key="tables")
    note(tables, 201, stored(tables))
    rows_wanted = {"rows": 5, "seed": 1}
    note(admin.post(f"/v1/releases/{tables.json()['id']}/synthetic", json=rows_wanted), 200)
    derived = {"statistic": {"kind": "mean", "columns": ["income"]}}
    note(admin.post(f"/v1/releases/{moments.json()['id']}/derivations", json=derived), 200)
    rows = {"file": ("more.csv", "income,food,region,owner\n9,9,north,1\n"), "spec": (None, "{}")}
    for checked in (
        admin.post(f"{path}/versions", files=rows, params={"check": "true"}),
        admin.post("/v1/datasets", files=UNUSED, params={"check": "true"}),
    ):
        note(checked, 200)  # it stores nothing
    grown = admin.post(f"{path}/versions", files=rows)
    note(grown, 201, lambda r: getattr(r.datasets.get(grown.json()["id"]), "version", 1) == 2)
    made = admin.post("/v1/datasets", files=UNUSED)
    unused = made.json()["id"]
    note(made, 201, lambda r: r.datasets.get(unused) is not None)
    note(
        admin.delete(f"/v1/datasets/{unused}"), 200,
        lambda r: getattr(r.datasets.get(unused), "status", None) == "deleted",
    )  # fmt: skip
    note(
        admin.post(f"{path}/archive"), 200,
        lambda r: getattr(r.datasets.get(name), "status", None) == "archived",
    )  # fmt: skip


def ask_for_reviews(admin: httpx.Client, cleo: httpx.Client, answers: Answers) -> None:
    note = answers.note
    declared = spec(columns=dict.fromkeys("xyz", FIELD), policy={"review": "above:0.2"})
    created = send_upload(admin, POINTS, declared)
    name = created.json()["id"]
    note(created, 201, lambda r: r.datasets.get(name) is not None)
    job = ask(admin, name, JOB, mechanism="kng", epsilon="0.1")
    note(job, 202, in_state(job.json()["id"], "debited", "released"))

    def wait() -> str:
        waiting = ask(admin, name, {"kind": "mean", "columns": ["x"]}, epsilon="0.5")
        release = str(waiting.json()["id"])
        note(waiting, 202, in_state(release, "reserved"))
        return release

    def decide(release: str, decision: str, status: int, *states: str) -> None:
        body = {"decision": decision, "reason": "because"}
        seen = {"If-Match": '"reserved"'}
        answer = cleo.post(f"/v1/releases/{release}/decision", json=body, headers=seen)
        note(answer, status, in_state(release, *states))

    decide(wait(), "approve", 202, "debited", "released")
    decide(wait(), "reject", 200, "rejected")
    revised = wait()
    decide(revised, "request_changes", 200, "changes_requested")
    question = {"statistic": {"kind": "mean", "columns": ["x"]}, "epsilon": "0.25"}
    seen = {"If-Match": '"changes_requested-1.0"'}
    again = admin.post(f"/v1/releases/{revised}/revisions", json=question, headers=seen)
    note(again, 202, lambda r: getattr(r.releases.get(revised), "version", 1) == 2)
    said = cleo.post(f"/v1/releases/{revised}/comments", json={"text": "thank you"})
    note(said, 201, lambda r: len(r.comments.of(revised)) == 1)
    with_notes = admin.get("/v1/inbox").json()["items"]
    read = admin.post("/v1/inbox/read", json={"ids": [with_notes[0]["id"]]})
    note(read, 200, lambda r: r.connection.exec_driver_sql("SELECT 1 FROM notice_read").first())
    edit = admin.patch(f"/v1/datasets/{name}", json={"reason": "why", "description": "xyz"})
    note(edit, 200, lambda r: "xyz" in str(getattr(r.datasets.get(name), "edits", "")))
    mine = wait()
    note(admin.post(f"/v1/releases/{mine}/withdrawal"), 200, in_state(mine, "withdrawn"))
    ask_for_plans(admin, cleo, name, answers)


def ask_for_plans(admin: httpx.Client, cleo: httpx.Client, dataset: str, answers: Answers) -> None:
    """Save, request, decide on, draw, withdraw and delete study plans."""
    note = answers.note
    mean = {"statistic": {"kind": "mean", "columns": ["x"]}, "epsilon": "0.25"}
    job = {"statistic": JOB, "mechanism": "kng", "epsilon": "0.1"}

    def save() -> str:
        body = {"dataset": dataset, "name": "a study", "questions": [mean]}
        plan = str((saved := admin.post("/v1/study-plans", json=body)).json()["id"])
        note(saved, 201, in_plan_state(plan, PlanState.DRAFT))
        return plan

    plan, deleted, later = save(), save(), save()
    path = f"/v1/study-plans/{plan}"
    note(
        admin.put(path, json={"name": "another", "questions": [mean, job]}), 200,
        lambda r: getattr(r.study_plans.get(plan), "name", None) == "another",
    )  # fmt: skip
    note(
        admin.delete(f"/v1/study-plans/{deleted}"), 204,
        lambda r: r.study_plans.get(later) is not None and r.study_plans.get(deleted) is None,
    )  # fmt: skip
    requested = admin.post(f"{path}/request")
    note(requested, 200, in_plan_state(plan, PlanState.REQUESTED))
    said = cleo.post(f"{path}/comments", json={"text": "why?"})
    note(said, 201, lambda r: len(r.comments.of(study_plan=plan)) == 1)

    def decide(decision: str, tag: str, state: PlanState) -> None:
        body = {"decision": decision, "reason": "because"}
        decided = cleo.post(f"{path}/decision", json=body, headers={"If-Match": tag})
        note(decided, 200, in_plan_state(plan, state))

    decide("request_changes", requested.headers["etag"], PlanState.CHANGES_REQUESTED)
    again = admin.post(f"{path}/request")
    note(again, 200, in_plan_state(plan, PlanState.REQUESTED))
    decide("approve", again.headers["etag"], PlanState.APPROVED)
    drawn = admin.post(f"{path}/releases", json={"question": 0})
    note(drawn, 201, stored(drawn))
    queued = admin.post(f"{path}/releases", json={"question": 1})
    note(queued, 202, in_state(queued.json()["id"], "debited", "released"))
    note(admin.post(f"{path}/withdrawal"), 200, in_plan_state(plan, PlanState.WITHDRAWN))


def test_no_answer_before_its_flush(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of any kind: every 2xx in the contract but those to a GET."""
    with on_tape(tmp_path, monkeypatch) as (tape, server), server.client() as admin:
        answers = everything_that_writes(admin, server)
        events = tuple(tape.events)
    assert answers.kinds() == documented() - NOT_HERE
    assert answers.lost(events, tmp_path) == set()


def test_no_release_before_its_flush_when_many_are_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = Answers()
    with on_tape(tmp_path, monkeypatch) as (tape, server), server.client() as client:
        dataset = answers.note(send_upload(client), 201)["id"]
        with ThreadPoolExecutor(4) as pool:
            for answer in pool.map(lambda _: ask(client, dataset), range(12)):
                answers.note(answer, 201, stored(answer))
        events = tuple(tape.events)
    assert answers.lost(events, tmp_path) == set()


def test_no_upload_is_answered_before_its_files_can_be_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process flushes what is in a data set; tests/app/test_flushes.py sees to that."""
    data = tmp_path / "data"
    found: list[dict[str, bool]] = []

    def look() -> None:
        files = [*(data / "datasets").iterdir(), *(data / "lineage").iterdir()]
        found.append({file.name: disk.is_found(file, within=data) for file in files})

    with flushes() as disk, on_tape(tmp_path, monkeypatch, look=look) as (_, server):
        with server.client() as client:
            names = [upload(client, name=each)["id"] for each in ("one", "two")]
        for number, name in enumerate(names):
            told = found[number]
            assert {name, "key", f"{name}.digests", f"{name}.account"} <= told.keys()
            assert all(told.values()), told
        digests = [file for file in disk.early if file.parent == data / "lineage"]
        assert digests == []


@pytest.mark.slow
def test_answers_before_their_flush_are_found_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every kind of them, on a database that flushes less."""

    def weaker(sql: str) -> str:
        if sql == "PRAGMA synchronous":
            return "SELECT 2"
        return sql.replace("PRAGMA synchronous = FULL", "PRAGMA synchronous = NORMAL")

    with on_tape(tmp_path, monkeypatch, weaker) as (tape, server), server.client() as admin:
        answers = everything_that_writes(admin, server)
        events = tuple(tape.events)
    assert answers.lost(events, tmp_path) == documented() - READ_ONLY - NOT_HERE


@pytest.mark.parametrize("error", ["ENOSPC", "EIO"])
def test_no_answer_from_a_disk_that_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: str
) -> None:
    with on_tape(tmp_path, monkeypatch) as (tape, server), server.client() as client:
        dataset = upload(client)["id"]
        assert ask(client, dataset, key="before").status_code == 201
        tape.operations, tape.fail_at, tape.fail_for, tape.error = 0, 0, float("inf"), error
        for _ in range(2):
            refused = ask(client, dataset, key="meanwhile")
            assert_problem(refused, 503, "not-ready")
            assert refused.headers["retry-after"] == "10"
            upload_refused = send_upload(client)
            assert_problem(upload_refused, 503, "not-ready")
        assert_problem(httpx.get(f"{server.url}/readyz"), 503, "not-ready")
        assert client.get(f"/v1/datasets/{dataset}").status_code == 200, "reads go on"
        assert ask(client, dataset, key="before").status_code == 201, "and what is kept is told"
        tape.fail_at = None
        assert ask(client, dataset, key="meanwhile").status_code == 201
        assert httpx.get(f"{server.url}/readyz").status_code == 200
        assert client.get("/v1/ledger/verification").json()["ok"] is True


def test_a_disk_that_is_filling_up_is_not_ready(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running(tmp_path / "data") as server:
        assert httpx.get(f"{server.url}/readyz").status_code == 200
        for disk, free_mib, is_ready in (
            (1 << 40, 65, True),
            (1 << 40, 63, False),
            (40 << 20, 38, True),  # a small volume that is nearly empty
            (20 << 20, 19, True),
            (20 << 20, 1, False),
        ):
            found = SimpleNamespace(f_frsize=1, f_blocks=disk, f_bavail=free_mib << 20)
            monkeypatch.setattr("app.services.health.os.statvfs", lambda _, found=found: found)
            answer = httpx.get(f"{server.url}/readyz", verify=False)
            assert answer.is_success is is_ready, (disk, free_mib)
            if not is_ready:
                detail = assert_problem(answer, 503, "not-ready")["detail"]
                assert detail.startswith("The disk of the data directory is full: less than ")
                assert str(tmp_path) not in detail


def test_a_server_whose_calculations_would_wait_is_not_ready(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A first preview would wait for the host to load."""
    loading = Forks("tests.app.never_loaded", quiet=False)
    with running(tmp_path / "data") as server:
        assert httpx.get(f"{server.url}/readyz").status_code == 200
        with monkeypatch.context() as patch:
            patch.setattr("app.processes.calculations.FORKS", loading)
            for _ in range(2):
                body = assert_problem(httpx.get(f"{server.url}/readyz"), 503, "not-ready")
                assert "calculating processes" in body["detail"]
            assert httpx.get(f"{server.url}/livez").status_code == 200
            loading.close()
        assert httpx.get(f"{server.url}/readyz").status_code == 200


def test_another_schema_is_not_ready(tmp_path: Path) -> None:
    import sqlite3

    with running(tmp_path / "data") as server:
        with sqlite3.connect(tmp_path / "data" / "release-desk.db") as raw:
            raw.execute("UPDATE alembic_version SET version_num = '0000'")
        raw.close()
        body = assert_problem(httpx.get(f"{server.url}/readyz"), 503, "not-ready")
        assert "schema" in body["detail"]
