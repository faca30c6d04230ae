"""What a client sees besides the declared numbers is the same whatever the rows are.

Data sets with the same public facts and hostile rows are asked the same
things: every statistic by every mechanism that the catalog offers, jobs up to
their outcome. Statuses, headers, the shape of every answer, the words of every
refusal and the lines of the log must be equal.
"""

from __future__ import annotations

import json
import logging
import os
import random
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from scipy.stats import binomtest
from starlette.responses import Response

from app.api.answers.releases import accepted_answer
from app.logs import AllowListFormatter
from app.services.releases.public_moments import PublicMoments
from app.services.releases.releases import ReleaseRecord
from tests.contract.service import COLUMNS, Service, ask, make_key, running, upload
from tests.contract.test_releases import STATISTICS
from tests.speed import PATIENCE_S
from tests.tiers import wide

REVIEW = {"review": "always"}
HEADER = "income,food,region,owner\n"
ROWS = 40
BENIGN = "40,20,south,false\n60,30,north,true\n" * (ROWS // 2)
ADVERSARIAL: dict[str, str] = {
    "neighbour": BENIGN.replace("40,20,south,false", "100,0,north,true", 1),
    "constant": "50,25,north,true\n" * ROWS,
    "at the bounds": "0,50,north,true\n100,0,south,false\n" * (ROWS // 2),
    "far outside": "1e308,-1e308,north,true\n" * ROWS,
    "collinear": "".join(f"{i},{i / 2},north,true\n" for i in range(ROWS)),
    "separable": "0,0,north,false\n" * (ROWS - 1) + "100,50,south,true\n",
    "zeros": "0,0,north,false\n" * ROWS,
    "all missing": ",,,\n" * ROWS,
    "nothing readable": "nan,-inf,west,perhaps\n" * ROWS,
    "half missing": "40,,south,\n,30,,true\n" * (ROWS // 2),
}
ONE_MORE = BENIGN + "1,1,north,true\n"
FEW = {"replace_one": {"all missing"}, "add_remove": {"no rows", "far outside"}}
"""What is asked with every change; of the others, with everything else."""
UNDER_ADD_REMOVE = {"no rows": "", "one row": "50,25,north,true\n", "one row more": ONE_MORE}
ANY: dict[str, Any] = {"budget": {"epsilon": "1000"}, "overlap": {"reason": "test"}}
FILLS: dict[str, Any] = {"income": 70, "food": 0, "region": "south", "owner": True}


def _fills(missing: object) -> dict[str, object]:
    return {"missing": missing, "unreadable": "missing"}


DECLARED: dict[str, dict[str, Any]] = {
    "replace_one": ANY
    | {
        "adjacency": "replace_one",
        "columns": {name: {**each, **_fills(FILLS[name])} for name, each in COLUMNS.items()},
    },
    "add_remove": ANY
    | {
        "adjacency": "add_remove",
        "columns": {name: {**each, **_fills("drop")} for name, each in COLUMNS.items()},
        # a bound so high that what may take long is a job, though the rows are few
        "max_rows": 100_000,
    },
}
JOBS = {
    "replace_one": {
        ("quantile_regression", "kng"),
        ("quantile_regression", "exponential"),
        ("geometric_median", "kng"),
    },
    "add_remove": {
        ("quantile_regression", "objective_perturbation"),
        ("quantile_regression", "kng"),
        ("quantile_regression", "exponential"),
        ("geometric_median", "kng"),
        ("cox_regression", "objective_perturbation"),
        ("multinomial_regression", "objective_perturbation"),
        ("poisson_regression", "objective_perturbation"),
        ("summary", "composition"),
    },
}
REFUSED: list[dict[str, Any]] = [
    {"statistic": {"kind": "mean", "columns": ["absent"]}},
    {"statistic": {"kind": "mean", "columns": ["region"]}},
    {"statistic": {"kind": "mean", "columns": ["income"]}, "epsilon": "9999"},
    {"statistic": {"kind": "mean", "columns": ["income"]}, "mechanism": "kng"},
    {"statistic": {"kind": "quantile", "column": "income", "levels": [0.5]}, "norm": "l2"},
    {"statistic": {"kind": "nonsense"}},
]
QUICK_KINDS = frozenset({"count", "geometric_median", "mean", "quantile"})
"""Kinds of which those that are drawn at once take little, and one by jobs."""
DRAWERS_LOG = "drawers.log"
PAIRS, LEAST_P = 240, 1e-9
"""Who is slower in 70% of so many pairs is found; chance alone finds somebody less often."""
_POLL_S = 0.05
"""Seconds between two looks at a job: what looks takes processor time from what draws."""


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """Serve, with what the draw processes say in a file of its own."""
    place = tmp_path_factory.mktemp("channel") / "data"
    with ExitStack() as stack:
        with errors_to(place.with_name(DRAWERS_LOG)):
            found = stack.enter_context(running(place, response_slot_ms=0, job_processes=1))
            start_drawers(found)
        yield found


@contextmanager
def errors_to(path: Path) -> Iterator[None]:
    """Send the standard error of processes that start now to a file."""
    kept = os.dup(2)
    with path.open("wb") as file:
        os.dup2(file.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def start_drawers(service: Service) -> None:
    """Have something drawn by each process that draws: it is started for that."""
    with service.client() as client:
        dataset = str(upload(client, HEADER + BENIGN)["id"])
        assert ask(client, dataset).status_code == 201
        many = {"kind": "geometric_median", "columns": ["income", "food", "owner"]}
        job = ask(client, dataset, many)
        assert job.status_code == 202
        outcome(client, job)


@pytest.fixture(scope="module")
def admin(service: Service) -> Iterator[httpx.Client]:
    with noting(service.client()) as client:
        yield client


@pytest.fixture(scope="module")
def curator(service: Service, admin: httpx.Client) -> Iterator[httpx.Client]:
    with noting(service.client(make_key(admin, "curator")["secret"])) as client:
        yield client


ANSWERED: set[str] = set()
"""The requests of this file's clients that have been answered, by their ids."""


def noting(client: httpx.Client) -> httpx.Client:
    """Have a client note what has been answered."""
    client.event_hooks = {
        "response": [lambda answer: ANSWERED.add(answer.headers["x-request-id"])],
    }
    return client


@pytest.fixture(scope="module")
def offers(admin: httpx.Client) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = admin.get("/v1/catalog").json()["items"]
    return found


@pytest.fixture(scope="module")
def questions(offers: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Every statistic by every mechanism on offer."""
    by = [
        {"statistic": statistic, "mechanism": offer["mechanism"]}
        for offer in offers
        for statistic in STATISTICS
        if statistic["kind"] == offer["statistic"] and "pure" in offer["accounting"]
    ]
    everything = {
        (offer["statistic"], offer["mechanism"])
        for offer in offers
        if "pure" in offer["accounting"]
    }
    assert set(map(asked, by)) == everything, "a kind on offer has no question"
    return by


def asked(question: dict[str, Any]) -> tuple[str, str]:
    return question["statistic"]["kind"], question["mechanism"]


def shape(value: object) -> object:
    """Return a document with its numbers, ids and times left out."""
    match value:
        case dict():
            return {key: shape(each) for key, each in value.items() if key != "decided_at"}
        case list():
            return [shape(each) for each in value]
        case bool() | None:
            return value
        case int() | float():
            return "number"
    return value


OWN = {"id", "dataset", "request_id", "created_at", "released_at", "citation", "receipt"}
OWN_HEADERS = {"date", "content-length", "etag", "location", "x-request-id"}


def told(answer: httpx.Response) -> tuple[object, ...]:
    """Return everything of an answer but its declared numbers and its own names."""
    body = {key: each for key, each in answer.json().items() if key not in OWN}
    if body.get("status") == "released":
        # Both judge the released numbers and their noise: post-processing of these.
        body.pop("usefulness", None)
        body.pop("at_edge", None)
        if "read_off" in (body.get("grid") or {}):  # simulated from the released numbers too
            body.pop("inference", None)
    own = dict.fromkeys(OWN_HEADERS & set(answer.headers), "")
    headers = sorted({**answer.headers, **own}.items())
    return answer.status_code, headers, shape(body)


def outcome(client: httpx.Client, accepted: httpx.Response) -> httpx.Response:
    """Ask for a job until it is done, more often than it says; until then nothing changes."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        shown = client.get(accepted.headers["location"])
        if shown.json()["status"] != "running":
            return shown
        assert shown.json() == accepted.json()
        assert shown.headers["retry-after"] == accepted.headers["retry-after"]
        time.sleep(_POLL_S)
    raise TimeoutError("a job has no outcome")


def followed(
    client: httpx.Client, dataset: str, questions: list[dict[str, Any]]
) -> list[httpx.Response]:
    """Ask some questions; return the answers, then of each job its outcome and the replay."""
    bodies = [
        {"epsilon": "1", "key": f"{dataset} {place}"} | each for place, each in enumerate(questions)
    ]
    answers = [ask(client, dataset, **each) for each in bodies]
    assert {answer.status_code for answer in answers} == {201, 202}
    for body, accepted in zip(bodies, tuple(answers), strict=True):
        if accepted.status_code == 202:
            shown, replay = outcome(client, accepted), ask(client, dataset, **body)
            assert shown.json()["status"] == "released", body
            assert (replay.status_code, replay.content) == (201, shown.content)
            answers += [shown, replay]
    return answers


class Asker:
    """Asks all there is of one data set after the other, as an admin; a curator reviews."""

    def __init__(self, admin: httpx.Client, curator: httpx.Client, questions: Any) -> None:
        self._admin, self._curator, self._questions = admin, curator, questions

    def everything(self, rows: str, adjacency: str) -> list[tuple[object, ...]]:
        admin = self._admin
        declared = DECLARED[adjacency]
        found = upload(admin, HEADER + rows, **declared)
        dataset = str(found["id"])
        answers = followed(admin, dataset, self._questions)
        jobs = {
            asked(question)
            for question, answer in zip(self._questions, answers, strict=False)
            if answer.status_code == 202
        }
        assert jobs == JOBS[adjacency] & set(map(asked, self._questions))
        for body in REFUSED:
            refused = ask(admin, dataset, **{"epsilon": "0.01", **body})
            assert refused.status_code in (409, 422), refused.text
            answers.append(refused)
        reviewed = upload(admin, HEADER + rows, account=found["account"], policy=REVIEW, **declared)
        answers += self._reviews(str(reviewed["id"]))
        public = [admin.get(f"/v1/datasets/{dataset}{path}") for path in ("", "/budget")]
        preview = {"statistic": STATISTICS[0], "epsilon": "0.1"}
        public.append(admin.post(f"/v1/datasets/{dataset}/previews", json=preview))
        return [
            *map(told, answers),
            *((answer.status_code, _public(answer.json())) for answer in public),
            *((201, _public(facts)) for facts in (found, reviewed)),
        ]

    def _reviews(self, dataset: str) -> list[httpx.Response]:
        """Withdraw one release; have another approved, and follow it."""
        waiting, other = (ask(self._admin, dataset, STATISTICS[0], epsilon="1") for _ in range(2))
        assert waiting.status_code == other.status_code == 202
        place = f"/v1/releases/{waiting.json()['id']}"
        withdrawal = self._admin.post(f"{place}/withdrawal")
        yes = {"decision": "approve", "reason": "sound"}
        refused = self._admin.post(f"{place}/decision", json=yes)
        approved = self._curator.post(
            f"/v1/releases/{other.json()['id']}/decision",
            json=yes,
            headers={"If-Match": other.headers["etag"]},
        )
        assert approved.json()["status"] == "running", approved.text
        shown = outcome(self._admin, approved)
        return [waiting, withdrawal, refused, other, approved, shown]


@pytest.fixture
def asker(admin: httpx.Client, curator: httpx.Client, questions: list[dict[str, Any]]) -> Asker:
    return Asker(admin, curator, questions)


def _public(body: dict[str, Any]) -> dict[str, Any]:
    """Return public facts, whose numbers are equal too, but for names of its own.

    What only the uploader is told of the file is none of them.
    """
    own = OWN | {"name", "account", "report"}
    return {key: value for key, value in body.items() if key not in own}


POLLED = "/v1/releases/{release}"


def _logged(caplog: pytest.LogCaptureFixture) -> set[str]:
    """Return the ids of the requests that have their line in the log."""
    return {vars(each)["request_id"] for each in caplog.records if each.msg == "request"}


def _lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return what the log would hold, sorted, without ids, times and durations.

    How often a job is asked for is its client's doing: those lines count once. That a process
    finds no spare time is the doing of other programs on the machine: that line does not count.
    """
    deadline = time.monotonic() + PATIENCE_S
    while ANSWERED - _logged(caplog):  # a line is written after its answer has left
        assert time.monotonic() < deadline, "a request has no line"
        time.sleep(0.01)
    ANSWERED.clear()
    own = {"at", "request_id", "duration_ms", "dataset", "release", "key"}
    lines = [json.loads(AllowListFormatter().format(each)) for each in caplog.records]
    kept = [
        {key: value for key, value in line.items() if key not in own}
        for line in lines
        if line["logger"].startswith("app") and line["event"] != "no spare time"
    ]
    assert not [line for line in kept if line["level"] in ("warning", "error")]
    polls = {str(line) for line in kept if line.get("route") == POLLED}
    return sorted([*polls, *(str(line) for line in kept if line.get("route") != POLLED)])


@pytest.mark.slow
@pytest.mark.parametrize("few", [True, *wide(False)], ids=["few", "others"])
@pytest.mark.parametrize("adjacency", ["replace_one", "add_remove"])
def test_nothing_but_the_numbers_depends_on_the_rows(
    service: Service, asker: Asker, adjacency: str, few: bool, caplog: pytest.LogCaptureFixture
) -> None:
    ANSWERED.clear()
    caplog.set_level(logging.INFO, logger="app")
    data = ADVERSARIAL | (UNDER_ADD_REMOVE if adjacency == "add_remove" else {})
    expected = asker.everything(BENIGN, adjacency)
    lines = _lines(caplog)
    assert FEW[adjacency] < data.keys()
    for name, rows in data.items():
        if (name in FEW[adjacency]) != few:
            continue
        caplog.clear()
        assert asker.everything(rows, adjacency) == expected, name
        assert _lines(caplog) == lines, name
    assert service.data_dir.with_name(DRAWERS_LOG).read_text("utf-8") == ""


@pytest.mark.parametrize(
    ("adjacency", "rows"),
    [
        pytest.param("add_remove", "all missing", marks=pytest.mark.wide),
        pytest.param("replace_one", "far outside", marks=pytest.mark.long),
        pytest.param("replace_one", "all missing", marks=pytest.mark.long),
        pytest.param("add_remove", "far outside", marks=pytest.mark.long),
    ],
)
def test_nor_does_it_by_any_norm(
    admin: httpx.Client, offers: Any, questions: list[dict[str, Any]], adjacency: str, rows: str
) -> None:
    norms = {(offer["statistic"], offer["mechanism"]): offer["norms"] for offer in offers}
    by_norm = [each | {"norm": norm} for each in questions for norm in norms[asked(each)]]
    heard = []
    for each in (BENIGN, ADVERSARIAL[rows]):
        found = upload(admin, HEADER + each, **DECLARED[adjacency])
        heard.append(list(map(told, followed(admin, str(found["id"]), by_norm))))
    assert heard[1] == heard[0]


@pytest.mark.wide
def test_a_header_of_a_job_that_tells_is_found(
    admin: httpx.Client, questions: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The must-fail twin: only the time to come back in is another where there is no row."""
    declared = DECLARED["add_remove"]
    some, none = (str(upload(admin, HEADER + rows, **declared)["id"]) for rows in (BENIGN, ""))
    job = next(each for each in questions if asked(each) in JOBS["add_remove"])

    def telling(record: ReleaseRecord, moments: PublicMoments) -> Response:
        answer = accepted_answer(record, moments)
        if record.dataset == none:
            answer.headers["Retry-After"] = "2"
        return answer

    def accepted(dataset: str) -> tuple[object, ...]:
        answer = ask(admin, dataset, **job)
        assert answer.status_code == 202
        return told(answer)

    assert accepted(some) == accepted(none)
    monkeypatch.setattr("app.api.answers.releases.accepted_answer", telling)
    assert accepted(some) != accepted(none)


def test_one_row_more_is_not_seen_under_add_remove(
    admin: httpx.Client, curator: httpx.Client, questions: list[dict[str, Any]]
) -> None:
    """The quick sibling of what asks every question of rows of every kind."""
    asked_for = [each for each in questions if asked(each)[0] in QUICK_KINDS]
    assert {asked(each)[0] for each in asked_for} == QUICK_KINDS
    asker = Asker(admin, curator, asked_for)
    assert asker.everything(ONE_MORE, "add_remove") == asker.everything(BENIGN, "add_remove")


def _slower(one: Callable[[], object], other: Callable[[], object], *, pairs: int) -> float:
    """Return how unlikely it is that neither is slower than the other.

    Each pair is timed back to back in random order, so that a busy machine
    slows both alike.
    """
    order = random.Random(20240817)
    first_slower = 0
    for _ in range(pairs):
        times: dict[bool, float] = {}
        start = order.random() < 0.5
        for which in (start, not start):
            began = time.perf_counter()
            (one if which else other)()
            times[which] = time.perf_counter() - began
        first_slower += times[True] > times[False]
    return float(binomtest(first_slower, pairs).pvalue)


@pytest.mark.parametrize("place", [0, *wide(1, 2)])
def test_the_time_of_a_refusal_does_not_depend_on_the_rows(
    service: Service, admin: httpx.Client, place: int
) -> None:
    """Without the public clock, at its barest: refusals read no row at all."""
    names = [BENIGN, ADVERSARIAL["far outside"]]
    datasets = [
        str(upload(admin, HEADER + rows, overlap={"reason": "test"})["id"]) for rows in names
    ]
    with service.client(make_key(admin, "analyst")["secret"]) as analyst:
        body = {"epsilon": "0.01", **REFUSED[place]}
        calls = [lambda dataset=dataset: ask(analyst, dataset, **body) for dataset in datasets]
        for call in calls * 10:
            assert call().status_code in (409, 422)
        assert _slower(*calls, pairs=PAIRS) > LEAST_P


def test_the_stopwatch_sees_a_difference_that_is_there(admin: httpx.Client) -> None:
    """The must-fail twin: two milliseconds among noise are found."""
    quick = lambda: admin.get("/livez")  # noqa: E731 - a pair of calls

    def slow() -> None:
        time.sleep(0.002)
        quick()

    # A busy machine may hide them for a while. It makes up none.
    assert any(_slower(slow, quick, pairs=PAIRS) < LEAST_P for _ in range(3))


def test_an_erased_file_is_no_channel(service: Service, admin: httpx.Client) -> None:
    """Rows that are gone from the disk give the one fixed refusal, and nothing is charged."""
    dataset = str(upload(admin, HEADER + BENIGN, overlap={"reason": "test"})["id"])
    place = Path(service.data_dir) / "datasets" / dataset
    for path in place.glob("*.parquet"):
        path.write_bytes(b"")
    (place / "attached.bin").write_bytes(b"{}")
    statistics = [STATISTICS[0], STATISTICS[11]]
    answers = [ask(admin, dataset, statistic, epsilon="0.01") for statistic in statistics]
    assert {answer.status_code for answer in answers} == {503}
    assert told(answers[0]) == told(answers[1])
    assert answers[0].json()["code"] == "dataset-unreadable"
    budget = admin.get(f"/v1/datasets/{dataset}/budget").json()["epsilon"]
    assert budget["spent"] == "0"
