"""The client: what it sends again, what it does not, and how it reads refusals."""

from __future__ import annotations

import json
from collections.abc import Callable

import httpx
import pytest

from app.client import ProblemError, ReleaseDesk, UnreachableError

RELEASE = {"id": "rel_1", "dataset": "ds_1", "status": "released", "epsilon": "1", "value": {}}
MEAN = {"kind": "mean", "columns": ["age"]}
Handler = Callable[[httpx.Request], httpx.Response]


def connect(handler: Handler) -> ReleaseDesk:
    transport = httpx.MockTransport(handler)
    return ReleaseDesk("http://desk", "k" * 40, pause_s=0, transport=transport)


def problem(code: str, status: int, **extras: object) -> httpx.Response:
    body = {"type": f"/problems/{code}", "code": code, "status": status, "detail": "no", **extras}
    return httpx.Response(status, json=body)


def test_a_release_is_sent_again_under_the_same_key() -> None:
    seen: list[tuple[str, bytes]] = []

    def handler(request: httpx.Request) -> httpx.Response:
        seen.append((request.headers["Idempotency-Key"], request.content))
        if len(seen) == 1:
            raise httpx.ReadError("gone")
        return problem("busy", 503) if len(seen) == 2 else httpx.Response(201, json=RELEASE)

    with connect(handler) as client:
        release = client.release("ds_1", MEAN, epsilon="1", fresh=True)
        client.release("ds_1", MEAN, epsilon="1", fresh=True)
    assert json.loads(release.body) == RELEASE
    assert len(seen) == 4
    assert len(set(seen[:3])) == 1, "one key, one body, three attempts"
    assert seen[3][0] != seen[0][0], "what is asked anew has a new key"


def test_a_release_that_never_arrives_says_its_key() -> None:
    def handler(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("gone", request=request)

    with connect(handler) as client, pytest.raises(UnreachableError) as caught:
        client.release("ds_1", MEAN, epsilon="1", idempotency_key="mine")
    assert caught.value.idempotency_key == "mine"


def test_a_refusal_is_not_sent_again() -> None:
    seen = []

    def handler(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        return problem("budget-exceeded", 409, requested="2", remaining="0.5")

    with connect(handler) as client, pytest.raises(ProblemError) as caught:
        client.release("ds_1", MEAN, epsilon="2")
    assert len(seen) == 1
    assert (caught.value.status, caught.value.code) == (409, "budget-exceeded")
    assert caught.value.extras == {"requested": "2", "remaining": "0.5"}


def test_busy_ends_after_the_last_attempt() -> None:
    seen = []

    def handler(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        return problem("busy", 503)

    with connect(handler) as client, pytest.raises(ProblemError):
        client.budget("ds_1")
    assert len(seen) == 5


def test_grants_are_sent_once() -> None:
    seen = []

    def handler(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        raise httpx.ReadTimeout("slow", request=request)

    with connect(handler) as client, pytest.raises(UnreachableError) as caught:
        client.grant("ds_1", epsilon="1", reason="more")
    assert len(seen) == 1
    assert caught.value.idempotency_key is None


def test_lists_follow_the_cursor() -> None:
    def handler(request: httpx.Request) -> httpx.Response:
        cursor = request.url.params.get("cursor")
        ids = {None: ["a", "b"], "2": ["c"]}[cursor]
        items = [{"id": i, "name": i, "role": "analyst", "expires": None, "new": 1} for i in ids]
        return httpx.Response(200, json={"items": items, "next": None if cursor else "2"})

    with connect(handler) as client:
        keys = client.keys()
        assert [key.id for key in keys] == ["a", "b", "c"]


def test_an_answer_that_is_no_problem_keeps_its_status() -> None:
    with (
        connect(lambda _: httpx.Response(502, text="<html>bad gateway</html>")) as client,
        pytest.raises(ProblemError) as caught,
    ):
        list(client.catalog())
    assert (caught.value.status, caught.value.code) == (502, "unknown")
    assert "html" not in str(caught.value)


def test_the_key_is_sent_as_a_bearer() -> None:
    def handler(request: httpx.Request) -> httpx.Response:
        assert request.headers["Authorization"] == "Bearer " + "k" * 40
        return httpx.Response(200, json={"items": [{"statistic": "mean"}], "next": None})

    with connect(handler) as client:
        assert list(client.catalog()) == [{"statistic": "mean"}]


RUNNING = {**RELEASE, "status": "running", "value": None}
LOCATION = {"Location": "/v1/releases/rel_1", "Retry-After": "0"}


def job(looks: int, outcome: httpx.Response, seen: list[str]) -> Handler:
    """Answer as a service does for a job that runs for so many looks."""

    def handler(request: httpx.Request) -> httpx.Response:
        seen.append(request.method)
        done = seen.count("GET") >= looks
        if request.method == "GET":
            assert request.url.path == LOCATION["Location"]
            body = {**RELEASE, "status": "void"} if outcome.is_error else RELEASE
            return httpx.Response(200, json=body if done else RUNNING, headers=LOCATION)
        assert request.headers["Idempotency-Key"] == "mine"
        return outcome if done else httpx.Response(202, json=RUNNING, headers=LOCATION)

    return handler


def test_a_job_is_waited_for() -> None:
    seen: list[str] = []
    waits: list[tuple[str, float]] = []
    with connect(job(3, httpx.Response(201, json=RELEASE), seen)) as client:
        release = client.release(
            "ds_1",
            MEAN,
            epsilon="1",
            idempotency_key="mine",
            on_wait=lambda running, pause_s: waits.append((running.status, pause_s)),
        )
    assert (release.status, json.loads(release.body)) == ("released", RELEASE)
    assert seen == ["POST", "GET", "GET", "GET", "POST"]
    assert waits == [("running", 0.0)] * 3


def test_a_job_need_not_be_waited_for() -> None:
    seen: list[str] = []
    with connect(job(3, httpx.Response(201, json=RELEASE), seen)) as client:
        release = client.release("ds_1", MEAN, epsilon="1", idempotency_key="mine", wait=False)
    assert (release.status, release.id, seen) == ("running", "rel_1", ["POST"])


def test_a_job_that_fails_is_a_refusal() -> None:
    with (
        connect(job(1, problem("release-void", 500), [])) as client,
        pytest.raises(ProblemError) as caught,
    ):
        client.release("ds_1", MEAN, epsilon="1", idempotency_key="mine")
    assert caught.value.code == "release-void"


AWAITING = {**RELEASE, "status": "awaiting_review", "value": None}


def test_a_review_is_not_waited_for() -> None:
    seen: list[str] = []

    def handler(request: httpx.Request) -> httpx.Response:
        seen.append(request.method)
        return httpx.Response(202, json=AWAITING, headers={**LOCATION, "Retry-After": "60"})

    with connect(handler) as client:
        release = client.release("ds_1", MEAN, epsilon="1")
    assert (release.status, seen) == ("awaiting_review", ["POST"])


def test_a_decision_is_sent_once_about_what_was_read() -> None:
    seen: list[tuple[str, str, str | None]] = []

    def handler(request: httpx.Request) -> httpx.Response:
        seen.append((request.method, request.url.path, request.headers.get("If-Match")))
        if request.method == "GET":
            return httpx.Response(200, json=AWAITING, headers={"ETag": '"seen"'})
        assert json.loads(request.content) == {"decision": "reject", "reason": "no"}
        raise httpx.ReadTimeout("slow", request=request)

    with connect(handler) as client, pytest.raises(UnreachableError):
        client.reject("rel_1", reason="no")
    path = "/v1/releases/rel_1"
    assert seen == [("GET", path, None), ("POST", f"{path}/decision", '"seen"')]


def test_a_list_is_filtered_on_every_page() -> None:
    seen: list[dict[str, str]] = []

    def handler(request: httpx.Request) -> httpx.Response:
        seen.append(dict(request.url.params))
        next_ = None if len(seen) > 1 else "2"
        return httpx.Response(200, json={"items": [AWAITING], "next": next_})

    with connect(handler) as client:
        assert len(list(client.releases(status="awaiting_review"))) == 2
    status = {"status": "awaiting_review"}
    assert seen == [status, {**status, "cursor": "2"}]


def test_a_service_lost_while_waiting_leaves_the_key() -> None:
    def handler(request: httpx.Request) -> httpx.Response:
        if request.method == "POST":
            return httpx.Response(202, json=RUNNING, headers=LOCATION)
        raise httpx.ConnectError("gone", request=request)

    with connect(handler) as client, pytest.raises(UnreachableError) as caught:
        client.release("ds_1", MEAN, epsilon="1", idempotency_key="mine")
    assert caught.value.idempotency_key == "mine"
