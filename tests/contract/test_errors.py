"""One error shape over every route, and the pages that explain each code."""

from __future__ import annotations

from html import unescape

import httpx
import pytest

from app.domain.problems import PROBLEMS
from tests.contract.routes import ENDPOINTS, send
from tests.contract.service import assert_problem
from tests.tiers import in_one

IDS = {"dataset": "ds_0", "release": "rel_0", "plan": "plan_0", "key": "key_0"}
OPERATIONS = [(method, path.format(**IDS)) for method, path in ENDPOINTS]
OPEN = {(m, path.format(**IDS)) for (m, path), stated in ENDPOINTS.items() if stated.right is None}
SENTINEL = "sentinel5550192837"


@in_one(("method", "path"), [each for each in OPERATIONS if each not in OPEN])
@in_one(
    "authorization",
    [
        None, "", "Bearer", "Bearer ", f"Bearer {SENTINEL}", f"Basic {SENTINEL}",
        "Bearer " + "x" * 5000,
    ],
)  # fmt: skip
def test_without_a_valid_key_every_route_answers_401(
    anonymous: httpx.Client, method: str, path: str, authorization: str | None
) -> None:
    headers = {} if authorization is None else {"Authorization": authorization.strip()}
    answer = anonymous.request(method, path, headers=headers)
    assert_problem(answer, 401, "unauthorized")
    assert answer.headers["www-authenticate"] == "Bearer"
    assert SENTINEL not in answer.text


def test_two_keys_are_none(anonymous: httpx.Client, service: object) -> None:
    headers = [("Authorization", "Bearer a"), ("Authorization", "Bearer b")]
    assert_problem(anonymous.get("/v1/datasets", headers=headers), 401)


@in_one(("method", "path"), sorted(OPEN))
def test_open_routes_need_no_key(anonymous: httpx.Client, method: str, path: str) -> None:
    answer = send(anonymous, (method, path), {}, rows="", answer=b"")
    # no authority is set, so nothing is stamped
    assert answer.status_code == (404 if path == "/v1/log/stamp" else 200)


@in_one("path", sorted({path for _, path in OPERATIONS}))
def test_a_wrong_method_answers_405(admin: httpx.Client, path: str) -> None:
    document = {method for method, known in OPERATIONS if known == path}
    for method in {"PUT", "PATCH"} - document:
        answer = admin.request(method, path)
        assert_problem(answer, 405, "method-not-allowed")
        assert document <= set(answer.headers["allow"].split(", ")) <= document | {"HEAD"}


@pytest.mark.parametrize(
    "path",
    [
        "/v1", "/v2/datasets", "/v1/datasets/", f"/{SENTINEL}", f"/v1/datasets/{SENTINEL}",
        f"/v1/datasets/{SENTINEL}/budget", f"/v1/datasets/{SENTINEL}/ledger",
        f"/v1/releases/{SENTINEL}", f"/problems/{SENTINEL}", "/v1/datasets/%00", "/v1/datasets/%ff",
        "/v1/datasets/..%2f..%2fetc%2fpasswd", "/v1/releases/" + "x" * 5000,
        "/desktop", "/public/releases/x.json",
    ],
)  # fmt: skip
def test_what_is_not_there_answers_404(admin: httpx.Client, path: str) -> None:
    answer = admin.get(path)
    assert_problem(answer, 404, "not-found")
    assert SENTINEL not in answer.text


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/v1/datasets/ds_0/archive"), ("DELETE", "/v1/keys/key_0"),
        ("DELETE", "/v1/datasets/ds_0"),
        ("GET", "/v1/datasets/ds_0/budget"), ("GET", "/v1/datasets/ds_0/ledger"),
        ("GET", "/v1/datasets/ds_0/versions"),
    ],
)  # fmt: skip
def test_unknown_ids_answer_404(admin: httpx.Client, method: str, path: str) -> None:
    assert_problem(admin.request(method, path), 404, "not-found")


@pytest.mark.parametrize("call", ["releases", "previews", "grants"])
def test_unknown_data_sets_answer_404(admin: httpx.Client, call: str) -> None:
    body = {"statistic": {"kind": "mean", "columns": ["a"]}, "epsilon": "1"}
    if call == "grants":
        body = {"epsilon": "1", "reason": "more"}
    answer = admin.post(f"/v1/datasets/ds_0/{call}", json=body, headers={"Idempotency-Key": "u"})
    assert_problem(answer, 404, "not-found")


@in_one("path", ["/v1/datasets", "/v1/releases", "/v1/keys"])
@in_one(
    "query",
    [
        {"limit": "0"}, {"limit": "-1"}, {"limit": "201"}, {"limit": SENTINEL}, {"limit": "1e3"},
        {"cursor": SENTINEL}, {"cursor": ""}, {"cursor": "x" * 65}, {"cursor": "dj I6MQ"},
        {"cursor": "djE6LTE"}, {"cursor": "djE6OTk5OTk5OTk5OTk5OTk5OTk5OTk"}, {"cursor": "ä"},
    ],
)  # fmt: skip
def test_bad_paging_is_refused(admin: httpx.Client, path: str, query: dict[str, str]) -> None:
    answer = admin.get(path, params=query)
    problem = assert_problem(answer, 422, "invalid-request")
    assert problem["errors"][0]["field"] in ("limit", "cursor")
    assert SENTINEL not in answer.text


@pytest.mark.parametrize("path", ["/v1/datasets", "/v1/keys", "/metrics", "/v1/releases/rel_0"])
def test_unknown_parameters_are_refused(admin: httpx.Client, path: str) -> None:
    answer = admin.get(path, params={SENTINEL: SENTINEL})
    problem = assert_problem(answer, 422, "invalid-request")
    assert problem["errors"][0]["field"] == "query"
    assert SENTINEL not in answer.text


@in_one("code", PROBLEMS)
def test_each_problem_has_a_page(anonymous: httpx.Client, code: str) -> None:
    page = anonymous.get(f"/problems/{code}", headers={"Accept": "text/html"})
    assert page.headers["content-type"].startswith("text/html")
    assert PROBLEMS[code].title in unescape(page.text)
    found = anonymous.get(f"/problems/{code}", headers={"Accept": "application/json"}).json()
    assert (found["type"], found["status"]) == (f"/problems/{code}", PROBLEMS[code].status)
    assert set(found["extras"]) == set(PROBLEMS[code].extras)


def test_an_unexpected_failure_says_nothing(
    admin: httpx.Client,
    dataset: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    from app.services.datasets.budgets import BudgetService

    def broken(*_: object, **__: object) -> None:
        raise RuntimeError(SENTINEL)

    monkeypatch.setattr(BudgetService, "view", broken)
    answer = admin.get(f"/v1/datasets/{dataset}/budget")
    assert_problem(answer, 500, "internal")
    assert SENTINEL not in answer.text
    failed = [each for each in caplog.records if each.getMessage() == "request failed"]
    assert [each.failure for each in failed] == ["RuntimeError"]  # type: ignore[attr-defined]
    assert SENTINEL not in str([vars(each) for each in caplog.records])


def test_every_answer_has_safe_headers(admin: httpx.Client) -> None:
    for path in ("/livez", "/v1/datasets", "/nothing", "/docs"):
        headers = admin.get(path).headers
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["content-security-policy"].startswith("default-src 'none'")
        assert headers["x-request-id"].startswith("req_")
