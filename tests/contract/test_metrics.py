"""Metrics and request lines: counts by route and code, and nothing of any data."""

from __future__ import annotations

import json
import logging
import re
import time
from pathlib import Path
from typing import Any

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from app.api.application import bare_application
from app.api.middleware import Counts
from app.logs import ALLOWED, AllowListFormatter
from tests.contract.service import (
    ROWS,
    Service,
    ask,
    assert_problem,
    make_key,
    running,
    send_upload,
    upload,
)
from tests.speed import PATIENCE_S

NAMES = {
    "release_desk_info",
    "release_desk_start_time_seconds",
    "release_desk_requests",
    "release_desk_problems",
    "release_desk_requests_open",
    "release_desk_request_duration_seconds",
    "release_desk_disk_free_ratio",
}
SENTINEL = "sentinel4466882200"


def scraped(admin: httpx.Client) -> dict[tuple[str, ...], float]:
    """Return every sample by name and labels but the process, once all before is counted."""
    alone = re.compile(r'release_desk_requests_open{process="[0-9a-f]{16}"} 1.0')
    deadline = time.monotonic() + PATIENCE_S
    while not alone.search((answer := admin.get("/metrics")).text):
        assert time.monotonic() < deadline
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    families = list(text_string_to_metric_families(answer.text))
    assert {family.name for family in families} == NAMES
    samples = [sample for family in families for sample in family.samples]
    assert len({sample.labels.pop("process") for sample in samples}) == 1
    return {
        (sample.name, *(f"{key}={value}" for key, value in sorted(sample.labels.items()))): (
            sample.value
        )
        for sample in samples
    }


def _work(admin: httpx.Client, rows: str) -> None:
    """Ask for the same things, whatever the rows are."""
    dataset = str(upload(admin, rows, adjacency="add_remove", max_rows=1000)["id"])
    statistics = [
        {"kind": "mean", "columns": ["income"]},
        {"kind": "quantile", "column": "income", "levels": [0.5]},
        {"kind": "linear_regression", "target": "food", "features": ["income"]},
        {"kind": "logistic_regression", "target": "owner", "features": ["income"]},
    ]
    for statistic in statistics:
        assert ask(admin, dataset, statistic).status_code == 201
    assert_problem(ask(admin, dataset, epsilon="9.9"), 409, "budget-exceeded")
    assert_problem(ask(admin, dataset, {"kind": "mean", "columns": [SENTINEL]}), 422)
    assert admin.get(f"/v1/datasets/{dataset}/budget").status_code == 200
    assert_problem(admin.request("PROPFIND", f"/{SENTINEL}"), 404)
    assert_problem(admin.request("PROPFIND", "/v1/keys"), 405)


@pytest.mark.wide
def test_metrics_are_the_same_for_neighbours(tmp_path: Path) -> None:
    """What is counted is what was asked: no count depends on a row."""
    header, one, *rest = ROWS.splitlines()
    other = "\n".join([header, "100,0,north,true", *rest]) + "\n"
    fewer = "\n".join([header, *rest]) + "\n"
    scrapes = ("release_desk_requests_total", "method=GET", "route=/metrics", "status=200")
    seen = []
    for number, rows in enumerate((ROWS, other, fewer, header + "\n")):
        with running(tmp_path / str(number)) as service, service.client() as admin:
            _work(admin, rows)
            samples = scraped(admin)
        samples.pop(scrapes, None)
        own = ("release_desk_start_time_seconds", "release_desk_disk_free_ratio")
        timed = {f"release_desk_request_duration_seconds_{each}" for each in ("bucket", "sum")}
        timed |= set(own)
        seen.append({key: value for key, value in samples.items() if key[0] not in timed})
    assert all(each == seen[0] for each in seen)
    requests = "release_desk_requests_total"
    releases = "route=/v1/datasets/{dataset}/releases"
    assert seen[0][requests, "method=POST", releases, "status=201"] == 4
    assert seen[0][requests, "method=none", "route=none", "status=404"] == 1
    assert seen[0]["release_desk_problems_total", "code=budget-exceeded"] == 1
    assert seen[0]["release_desk_requests_open",] == 1
    assert one


def test_processes_at_one_address_count_apart_and_together() -> None:
    """What Prometheus makes of scrapes that reach one process and then the other."""
    counted = [Counts("1"), Counts("1")]
    series: dict[str, float] = {}
    for asked in range(1, 5):
        metrics = counted[asked % 2]
        metrics.begin()
        metrics.end(method="GET", route="/v1/keys", status=503, problem="busy")
        families = list(metrics.families(Path()))
        for sample in (sample for family in families for sample in family.samples):
            assert re.fullmatch("[0-9a-f]{16}", sample.labels["process"])
            labels = json.dumps(sample.labels, sort_keys=True)
            if sample.name.endswith("_total"):
                assert sample.value >= series.get(f"{sample.name} {labels}", 0), "no reset"
            series[f"{sample.name} {labels}"] = sample.value
    for name in ("release_desk_requests_total", "release_desk_problems_total"):
        found = [value for key, value in series.items() if key.startswith(name)]
        assert found == [2, 2]


def test_metrics_name_nobody_and_nothing(admin: httpx.Client) -> None:
    name = f"data set {SENTINEL}"
    assert send_upload(admin, ROWS, _spec(name)).status_code == 201
    dataset = str(upload(admin)["id"])
    key = make_key(admin, "analyst", f"person {SENTINEL}")
    ask(admin, dataset)
    admin.get(f"/{SENTINEL}?{SENTINEL}=1", headers={"X-Request-Id": SENTINEL})
    text = admin.get("/metrics").text
    assert SENTINEL not in text.lower()
    assert dataset not in text
    assert key["id"] not in text
    # nothing that hides a duration, and none of a draw: how long that takes is no public fact
    assert not re.search(r"(?i)latency|cpu|memory|running", text)
    timed = {
        sample.labels["route"]
        for family in text_string_to_metric_families(text)
        if family.name == "release_desk_request_duration_seconds"
        for sample in family.samples
    }
    reported = {route.path for route in routes() if not getattr(route, "untimed", False)}
    assert "/v1/keys" in timed
    assert timed <= reported
    assert "/v1/datasets/{dataset}/releases" not in timed


def routes() -> list[Any]:
    return list(bare_application().routes)


def test_a_key_for_metrics_reads_them_and_nothing_else(
    service: Service, admin: httpx.Client
) -> None:
    secret = make_key(admin, "metrics")["secret"]
    with service.client(secret) as watcher:
        assert watcher.get("/metrics").status_code == 200
        for path in ("/v1/datasets", "/v1/releases", "/v1/keys", "/v1/ledger/verification"):
            assert_problem(watcher.get(path), 403, "forbidden")
        page = watcher.post("/desk/sign-in", data={"key": secret})
        assert page.status_code == 403
        assert "set-cookie" not in page.headers
    with service.client(make_key(admin, "curator")["secret"]) as curator:
        assert_problem(curator.get("/metrics"), 403, "forbidden")


def _spec(name: str) -> dict[str, object]:
    from tests.contract.service import spec

    return spec(name=name)


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO, logger="app")
    return caplog


def test_request_lines_hold_what_is_allowed(
    admin: httpx.Client, dataset: str, lines: pytest.LogCaptureFixture
) -> None:
    answers = [
        ask(admin, dataset),
        admin.get(f"/v1/datasets/{dataset}/budget"),
        admin.get(f"/{SENTINEL}", params={SENTINEL: SENTINEL}),
        admin.get("/v1/datasets", params={"cursor": SENTINEL}),
        admin.request("PROPFIND", "/v1/keys", headers={"X-Request-Id": SENTINEL}),
        admin.get("/v1/keys", headers={"Authorization": f"Bearer {SENTINEL}"}),
    ]
    deadline = time.monotonic() + PATIENCE_S  # a line is written once its answer has left
    while len([each for each in lines.records if each.name == "app.requests"]) < len(answers):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    written = [
        json.loads(AllowListFormatter().format(each))
        for each in lines.records
        if each.name == "app.requests"
    ]
    assert SENTINEL not in json.dumps(written).lower()
    by_id = {line["request_id"]: line for line in written}
    for answer in answers:
        line = by_id[answer.headers["x-request-id"]]
        assert set(line) <= ALLOWED | {"at", "level", "logger", "event"}
        assert line["status"] == answer.status_code
        if answer.status_code >= 400:
            assert line["code"] == answer.json()["code"]
    released, budget, nowhere, *_ = (by_id[each.headers["x-request-id"]] for each in answers)
    assert released["duration_ms"] is None
    assert budget["duration_ms"] >= 0
    assert budget["route"] == "/v1/datasets/{dataset}/budget"
    assert (nowhere["route"], nowhere["method"]) == (None, None)
    assert budget["key"].startswith("key_")
