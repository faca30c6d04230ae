"""What a client sees besides the declared numbers is the same whatever the rows are.

Data sets with the same public facts and hostile rows are asked the same
things. Statuses, headers, the shape of every answer, the words of every
refusal and the lines of the log must be equal.
"""

from __future__ import annotations

import json
import logging
import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from scipy.stats import binomtest

from app.logs import AllowListFormatter
from tests.contract.service import Service, ask, make_key, running, upload
from tests.contract.test_releases import STATISTICS

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
}
UNDER_ADD_REMOVE = {"no rows": "", "one row": "50,25,north,true\n"}
REFUSED: list[dict[str, Any]] = [
    {"statistic": {"kind": "mean", "columns": ["absent"]}},
    {"statistic": {"kind": "mean", "columns": ["region"]}},
    {"statistic": {"kind": "mean", "columns": ["income"]}, "epsilon": "9999"},
    {"statistic": {"kind": "mean", "columns": ["income"]}, "mechanism": "kng"},
    {"statistic": {"kind": "quantile", "column": "income", "levels": [0.5]}, "norm": "l2"},
    {"statistic": {"kind": "nonsense"}},
]


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with running(tmp_path_factory.mktemp("channel") / "data", response_slot_ms=0) as found:
        yield found


@pytest.fixture(scope="module")
def admin(service: Service) -> Iterator[httpx.Client]:
    with service.client() as client:
        yield client


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


def told(answer: httpx.Response) -> tuple[object, ...]:
    """Return everything of an answer but its declared numbers and its own names."""
    body = {key: each for key, each in answer.json().items() if key not in OWN}
    names = sorted(set(answer.headers) - {"date"})
    return answer.status_code, names, shape(body)


def everything(admin: httpx.Client, rows: str, adjacency: str) -> list[tuple[object, ...]]:
    """Ask all there is of one data set."""
    bound = {"max_rows": 1000} if adjacency == "add_remove" else {}
    found = upload(admin, HEADER + rows, adjacency=adjacency, overlap={"reason": "test"}, **bound)
    dataset = str(found["id"])
    answers = [ask(admin, dataset, statistic, epsilon="0.01") for statistic in STATISTICS]
    assert {answer.status_code for answer in answers} == {201}
    for body in REFUSED:
        refused = ask(admin, dataset, **{"epsilon": "0.01", **body})
        assert refused.status_code in (409, 422), refused.text
        answers.append(refused)
    reviewed = upload(
        admin,
        HEADER + rows,
        adjacency=adjacency,
        account=found["account"],
        overlap={"reason": "test"},
        policy=REVIEW,
        **bound,
    )
    waiting = ask(admin, str(reviewed["id"]), STATISTICS[0], epsilon="0.01")
    assert waiting.status_code == 202
    withdrawal = admin.post(f"/v1/releases/{waiting.json()['id']}/withdrawal")
    own = {"decision": "approve", "reason": "mine"}
    refused = admin.post(f"/v1/releases/{waiting.json()['id']}/decision", json=own)
    answers += [waiting, withdrawal, refused]
    for path in ("", "/budget"):
        answers.append(admin.get(f"/v1/datasets/{dataset}{path}"))
    preview = {"statistic": STATISTICS[0], "epsilon": "0.1"}
    answers.append(admin.post(f"/v1/datasets/{dataset}/previews", json=preview))
    return [told(answer) for answer in answers[:-3]] + [
        (answer.status_code, _public(answer.json())) for answer in answers[-3:]
    ]


def _public(body: dict[str, Any]) -> dict[str, Any]:
    """Return public facts, whose numbers are equal too, but for names of its own."""
    own = OWN | {"name", "account"}
    return {key: value for key, value in body.items() if key not in own}


def _lines(caplog: pytest.LogCaptureFixture) -> list[dict[str, Any]]:
    """Return what the log would hold, without ids, times and durations."""
    own = {"at", "request_id", "duration_ms", "dataset", "release", "key"}
    lines = [json.loads(AllowListFormatter().format(each)) for each in caplog.records]
    return [
        {key: value for key, value in line.items() if key not in own}
        for line in lines
        if line["logger"].startswith("app")
    ]


@pytest.mark.slow
@pytest.mark.parametrize("adjacency", ["replace_one", "add_remove"])
def test_nothing_but_the_numbers_depends_on_the_rows(
    admin: httpx.Client, adjacency: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="app")
    data = ADVERSARIAL | (UNDER_ADD_REMOVE if adjacency == "add_remove" else {})
    expected = everything(admin, BENIGN, adjacency)
    time.sleep(0.2)  # a line is written after its answer has left
    lines = _lines(caplog)
    for name, rows in data.items():
        caplog.clear()
        assert everything(admin, rows, adjacency) == expected, name
        time.sleep(0.2)
        found = _lines(caplog)
        assert sorted(map(str, found)) == sorted(map(str, lines)), name
        assert not [line for line in found if line["level"] in ("warning", "error")]


def test_one_row_more_is_not_seen_under_add_remove(admin: httpx.Client) -> None:
    some = everything(admin, BENIGN, "add_remove")
    assert everything(admin, BENIGN + "1,1,north,true\n", "add_remove") == some


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


def test_the_time_of_a_refusal_does_not_depend_on_the_rows(
    service: Service, admin: httpx.Client
) -> None:
    """Without the public clock, at its barest: refusals read no row at all."""
    names = [BENIGN, ADVERSARIAL["far outside"]]
    datasets = [
        str(upload(admin, HEADER + rows, overlap={"reason": "test"})["id"]) for rows in names
    ]
    with service.client(make_key(admin, "analyst")["secret"]) as analyst:
        for body in REFUSED[:3]:
            calls = [
                lambda dataset=dataset, body=body: ask(
                    analyst, dataset, **{"epsilon": "0.01", **body}
                )
                for dataset in datasets
            ]
            for call in calls * 10:
                assert call().status_code in (409, 422)
            assert _slower(*calls, pairs=150) > 1e-6


def test_the_stopwatch_sees_a_difference_that_is_there(admin: httpx.Client) -> None:
    """The must-fail twin: two milliseconds among noise are found."""
    quick = lambda: admin.get("/livez")  # noqa: E731 - a pair of calls

    def slow() -> None:
        time.sleep(0.002)
        quick()

    assert _slower(slow, quick, pairs=150) < 1e-6


def test_an_erased_file_is_no_channel(service: Service, admin: httpx.Client) -> None:
    """Even rows that are gone from the disk give the one fixed failure, and its charge stays."""
    dataset = str(upload(admin, HEADER + BENIGN, overlap={"reason": "test"})["id"])
    place = Path(service.data_dir) / "datasets" / dataset
    for path in place.glob("*.parquet"):
        path.write_bytes(b"")
    (place / "attached.bin").write_bytes(b"{}")
    statistics = [STATISTICS[0], STATISTICS[11]]
    answers = [ask(admin, dataset, statistic, epsilon="0.01") for statistic in statistics]
    assert {answer.status_code for answer in answers} == {500}
    assert told(answers[0]) == told(answers[1])
    assert answers[0].json()["code"] == "release-void"
    budget = admin.get(f"/v1/datasets/{dataset}/budget").json()["epsilon"]
    assert budget["spent"] == "0.02"
