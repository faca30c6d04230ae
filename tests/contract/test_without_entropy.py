"""Where the operating system has no randomness, a draw fails: it is void, charged, and no answer.

Over HTTP, with real mechanisms, in each place where a release may be drawn.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from app.processes import jobs as job_processes
from app.processes import small_draws
from app.store import inspecting
from mechanisms import randomness
from tests.app import no_entropy
from tests.app.forks import OwnForks, forked, wait
from tests.contract.service import ask, assert_problem, running, spent, upload

BOUNDS: dict[str, Any] = {"type": "number", "lower": -1, "upper": 1}
ROWS = "x,y,z\n" + "0,0.5,0.1\n0.3,0.2,-0.9\n-0.4,0.1,0.6\n" * 10
MEAN = {"kind": "mean", "columns": ["x"]}
MANY_NUMBERS = {"kind": "moments", "columns": ["x", "y", "z"]}
"""Nine of them: their noise takes two bytes or more each."""
JOB = {"kind": "quantile_regression", "target": "y", "features": ["x", "z"], "bound": 1}


@contextmanager
def opened(directory: Path, **settings: Any) -> Iterator[tuple[httpx.Client, str]]:
    """Serve one data set; when all is done, the ledger is sound."""
    with running(directory, **settings) as service, service.client() as client:
        yield client, str(upload(client, ROWS, columns=dict.fromkeys("xyz", BOUNDS))["id"])
        assert client.get("/v1/ledger/verification").json()["ok"]


def assert_void(client: httpx.Client, directory: Path, dataset: str, **asked: Any) -> None:
    """Ask, twice: both times there is the one problem, and nothing but it is kept."""
    answers = [ask(client, dataset, key="a", **asked) for _ in range(2)]
    reported = [assert_problem(answer, 500, "release-void") for answer in answers]
    for body in reported:
        del body["request_id"]
        assert no_entropy.SAID not in json.dumps(body)
    assert reported[0] == reported[1]
    [listed] = client.get("/v1/releases", params={"dataset": dataset}).json()["items"]
    assert (listed["status"], listed["value"]) == ("void", None)
    assert client.get(f"/v1/releases/{listed['id']}").json() == listed
    assert spent(client, dataset) == "0.1"
    with inspecting(f"sqlite:///{directory / 'release-desk.db'}") as reader:
        [record] = [each for each in reader.releases.list() if each.dataset == dataset]
    assert (record.state.value, record.result, record.attempts) == ("void", None, 1)


def for_want_of_entropy(logged: Iterable[Mapping[str, Any]]) -> int:
    """Return how many draws have failed because of it, as logs tell; no more is told of it."""
    found = Counter(line["failure"] for line in logged if "failure" in line)
    assert set(found) <= {"OSError", "Problem"}  # the draw's, and what became of it
    assert no_entropy.SAID not in str(logged)
    return found["OSError"]


def printed(capfd: pytest.CaptureFixture[str]) -> list[Mapping[str, Any]]:
    """Return the lines that other processes have logged."""
    lines = capfd.readouterr().err.splitlines()
    return [json.loads(line) for line in lines if line.startswith("{")]


@pytest.mark.parametrize("given", [0, 10])
def test_a_draw_in_the_server(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    given: int,
) -> None:
    """Randomness may end while some of the noise is drawn already."""
    with opened(tmp_path, draw_process=False) as (client, dataset):
        with monkeypatch.context() as patched:
            system = no_entropy.withhold(given=given)
            patched.setattr(randomness, "os", system)
            patched.setattr(randomness, "_BUFFER_BYTES", 1)
            assert_void(client, tmp_path, dataset, statistic=MANY_NUMBERS)
            assert system.asked == given + 1
        # when there is randomness again, the same question stays what it has become
        assert_void(client, tmp_path, dataset, statistic=MANY_NUMBERS)
        assert ask(client, dataset, MANY_NUMBERS).status_code == 201
    assert for_want_of_entropy([vars(record) for record in caplog.records]) == 1


def test_a_release_that_gets_no_id(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nothing has randomness, nothing is charged either: a release's id is random."""

    def urandom(count: int) -> bytes:
        raise OSError(no_entropy.SAID)

    with opened(tmp_path, draw_process=False) as (client, dataset):
        with monkeypatch.context() as patched:
            patched.setattr(os, "urandom", urandom)
            refused = ask(client, dataset, MEAN, key="a")
        problem = assert_problem(refused, 500, "internal")
        assert no_entropy.SAID not in json.dumps(problem)
        assert client.get("/v1/releases").json()["items"] == []
        assert spent(client, dataset) == "0"
        assert ask(client, dataset, MEAN, key="a").status_code == 201
        assert spent(client, dataset) == "0.1"


@pytest.mark.slow
def test_a_draw_in_the_process_of_small_draws(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    forks = OwnForks(no_entropy.__name__, quiet=False)
    monkeypatch.setattr(small_draws, "FORKS", forks)
    try:
        with opened(tmp_path, draw_process=True) as (client, dataset):
            begin_one(client)
            assert_void(client, tmp_path, dataset, statistic=MEAN)
            assert len(forked(small_draws)) == 1
    finally:
        forks.close()
    assert for_want_of_entropy(printed(capfd)) == 2


def begin_one(client: httpx.Client) -> None:
    """Have the process begun, and wait until it draws: until then the server does."""
    other = str(upload(client, ROWS, columns=dict.fromkeys("xyz", BOUNDS))["id"])
    wait(lambda: ask(client, other, MEAN, epsilon="0.001").status_code != 201)


@pytest.mark.wide
def test_a_draw_of_a_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    forks = OwnForks(no_entropy.__name__, quiet=False)
    monkeypatch.setattr(job_processes, "FORKS", forks)
    try:
        with opened(tmp_path, job_processes=1) as (client, dataset):
            asked = {"statistic": JOB, "mechanism": "kng"}
            accepted = ask(client, dataset, key="a", **asked)
            assert accepted.status_code == 202
            wait(lambda: client.get(accepted.headers["location"]).json()["status"] != "running")
            assert_void(client, tmp_path, dataset, **asked)
    finally:
        forks.close()
    assert for_want_of_entropy(printed(capfd)) == 1
