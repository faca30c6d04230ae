"""Every route of the service against every kind of caller.

The matrix is compared with the application's own routes, those that the OpenAPI document leaves
out among them, so a route that is added without a line here fails, and so does a line whose route
is gone. Every other method is refused, whoever sends it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import httpx
import pytest
from starlette.routing import Route

from app.api.application import bare_application
from app.api.openapi.snapshot import snapshot
from tests.contract.service import (
    MEAN,
    ROWS,
    Service,
    ask,
    assert_problem,
    make_key,
    send_upload,
    spec,
    upload,
)

DOCUMENT: dict[str, Any] = json.loads(snapshot())
OPERATIONS = {
    (method.upper(), path): operation
    for path, methods in DOCUMENT["paths"].items()
    for method, operation in methods.items()
}
ROUTES = {
    (method, route.path.replace(":path}", "}"))
    for route in bare_application().routes
    if isinstance(route, Route)
    for method in route.methods or ()
    if method != "HEAD"  # goes with every GET, see below
}
METHODS = ("GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE", "TRACE")
KEYED = ("owner", "other analyst", "curator", "admin")
"""The owner is the analyst who asked for the release that is named; the data set is a curator's."""
KEYLESS = ("nobody", "unknown", "revoked", "expired")

# what anyone may ask for, without a key too
PUBLIC = {
    ("GET", "/docs"),
    ("GET", "/docs/reference"),
    ("GET", "/docs/{name}"),
    ("GET", "/livez"),
    ("GET", "/openapi.json"),
    ("GET", "/problems"),
    ("GET", "/problems/{code}"),
    ("GET", "/readyz"),
    ("GET", "/v1/catalog"),
    ("GET", "/v1/ledger/public-keys"),
}

# what an owner, another analyst, a curator and an admin get
MATRIX: dict[tuple[str, str], tuple[int, int, int, int]] = {
    ("GET", "/docs"): (200, 200, 200, 200),
    ("GET", "/docs/reference"): (200, 200, 200, 200),
    ("GET", "/docs/{name}"): (200, 200, 200, 200),
    ("GET", "/livez"): (200, 200, 200, 200),
    ("GET", "/metrics"): (403, 403, 403, 200),
    ("GET", "/openapi.json"): (200, 200, 200, 200),
    ("GET", "/problems"): (200, 200, 200, 200),
    ("GET", "/problems/{code}"): (200, 200, 200, 200),
    ("GET", "/readyz"): (200, 200, 200, 200),
    ("GET", "/v1/catalog"): (200, 200, 200, 200),
    ("GET", "/v1/datasets"): (200, 200, 200, 200),
    ("POST", "/v1/datasets"): (403, 403, 201, 201),
    ("GET", "/v1/datasets/{dataset}"): (200, 200, 200, 200),
    ("POST", "/v1/datasets/{dataset}/archive"): (403, 403, 200, 200),
    ("GET", "/v1/datasets/{dataset}/budget"): (200, 200, 200, 200),
    ("GET", "/v1/datasets/{dataset}/caps"): (403, 403, 200, 200),
    ("PUT", "/v1/datasets/{dataset}/caps"): (403, 403, 200, 200),
    ("POST", "/v1/datasets/{dataset}/grants"): (403, 403, 201, 201),
    ("GET", "/v1/datasets/{dataset}/ledger"): (403, 403, 200, 200),
    ("POST", "/v1/datasets/{dataset}/previews"): (200, 200, 200, 200),
    ("POST", "/v1/datasets/{dataset}/releases"): (201, 201, 201, 201),
    ("GET", "/v1/keys"): (403, 403, 403, 200),
    ("POST", "/v1/keys"): (403, 403, 403, 201),
    ("DELETE", "/v1/keys/{key}"): (403, 403, 403, 204),
    ("GET", "/v1/ledger/public-keys"): (200, 200, 200, 200),
    ("POST", "/v1/ledger/receipts"): (200, 200, 200, 200),
    ("GET", "/v1/ledger/verification"): (403, 403, 200, 200),
    ("GET", "/v1/releases"): (200, 200, 200, 200),
    ("GET", "/v1/releases/{release}"): (200, 404, 200, 200),
    ("POST", "/v1/releases/{release}/decision"): (403, 403, 202, 202),
    ("POST", "/v1/releases/{release}/derivations"): (200, 404, 200, 200),
    ("POST", "/v1/releases/{release}/withdrawal"): (200, 404, 404, 404),
}


@dataclass(frozen=True)
class World:
    """One client of each kind, and what the owner has asked for."""

    clients: dict[str, httpx.Client]
    dataset: str
    release: str
    key: str
    answer: bytes
    reviewed: str


def _secret(admin: httpx.Client, role: str, **more: object) -> dict[str, Any]:
    body = {"name": f"{role} {uuid4()}", "role": role, **more}
    answer = admin.post("/v1/keys", json=body)
    assert answer.status_code == 201, answer.text
    return dict(answer.json())


@pytest.fixture(scope="module")
def world(service: Service, admin: httpx.Client, curator: httpx.Client) -> Iterator[World]:
    secrets: dict[str, str | None] = {"nobody": None, "unknown": "rd_" + "x" * 43}
    expires = datetime.now(UTC) + timedelta(seconds=1)
    secrets["expired"] = _secret(admin, "admin", expires=expires.isoformat())["secret"]
    revoked = _secret(admin, "admin")
    secrets["revoked"] = revoked["secret"]
    assert admin.delete(f"/v1/keys/{revoked['id']}").status_code == 204
    for name in KEYED:
        made = _secret(admin, "analyst" if name == "owner" else name.split()[-1])
        secrets[name] = made["secret"]
    dataset = str(upload(curator)["id"])
    reviewed = str(upload(curator, policy={"review": "always"})["id"])
    time.sleep(1.1)
    with ExitStack() as held:
        clients = {
            name: held.enter_context(service.client(secret)) for name, secret in secrets.items()
        }
        answer = ask(clients["owner"], dataset)
        release = str(answer.json()["id"])
        yield World(clients, dataset, release, str(made["id"]), answer.content, reviewed)


def send(
    client: httpx.Client, operation: tuple[str, str], ids: dict[str, str], answer: bytes
) -> httpx.Response:
    """Send a sound request of an operation."""
    method, path = operation
    bodies: dict[str, Any] = {
        "/v1/datasets/{dataset}/grants": {"epsilon": "1", "reason": "more"},
        "/v1/datasets/{dataset}/previews": {"statistic": MEAN, "epsilon": "0.1"},
        "/v1/datasets/{dataset}/releases": {"statistic": MEAN, "epsilon": "0.001"},
        "/v1/keys": {"name": f"made by {uuid4()}", "role": "analyst"},
        "/v1/ledger/receipts": json.loads(answer),
        "/v1/releases/{release}/decision": {"decision": "approve", "reason": "fine"},
        "/v1/releases/{release}/derivations": {"statistic": MEAN},
    }
    if operation == ("POST", "/v1/datasets"):
        return send_upload(client, ROWS, spec())
    if operation == ("PUT", "/v1/datasets/{dataset}/caps"):
        bodies[path] = {"person": "bootstrap", "epsilon": "9", "reason": "to be fair"}
    body = bodies.get(path) if method in ("POST", "PUT") else None
    headers = {"Idempotency-Key": str(uuid4())}
    if path.endswith("/decision"):
        headers["If-Match"] = '"reserved"'
    return client.request(method, path.format(**ids), json=body, headers=headers)


def test_the_matrix_names_every_route_and_no_other() -> None:
    assert set(MATRIX) == ROUTES, "say in MATRIX who may do what"
    assert {each for each in ROUTES if each in OPERATIONS} == set(OPERATIONS)
    # nothing but routes of these kinds, whose methods are known: no mount, no socket
    assert all(isinstance(route, Route) for route in bare_application().routes)


def test_the_document_says_what_is_public() -> None:
    described = {each for each, said in OPERATIONS.items() if said.get("security") == []}
    assert described == PUBLIC & set(OPERATIONS)


def _ids(world: World, admin: httpx.Client, operation: tuple[str, str]) -> dict[str, str]:
    """Return ids of things that are there, fresh ones for what the call destroys."""
    ids = {
        "code": "forbidden",
        "dataset": world.dataset,
        "key": world.key,
        "name": "quickstart",
        "release": world.release,
    }
    if operation[0] == "DELETE":
        ids["key"] = str(make_key(admin, "analyst")["id"])
    if operation[1].endswith("/archive"):
        ids["dataset"] = str(upload(admin)["id"])
    if operation[1].endswith(("/decision", "/withdrawal")):
        ids["release"] = str(ask(world.clients["owner"], world.reviewed).json()["id"])
    return ids


@pytest.mark.parametrize("operation", MATRIX, ids=" ".join)
def test_the_matrix(world: World, admin: httpx.Client, operation: tuple[str, str]) -> None:
    for caller, expected in zip(KEYED, MATRIX[operation], strict=True):
        ids = _ids(world, admin, operation)
        answer = send(world.clients[caller], operation, ids, world.answer)
        assert answer.status_code == expected, (caller, answer.text)
        if operation in OPERATIONS:
            assert str(expected) in OPERATIONS[operation]["responses"], "is not documented"
        if expected == 403:
            assert_problem(answer, 403, "forbidden")
    for caller in KEYLESS:
        ids = _ids(world, admin, operation)
        answer = send(world.clients[caller], operation, ids, world.answer)
        if operation in PUBLIC:
            assert answer.status_code == 200
        else:
            problem = assert_problem(answer, 401, "unauthorized")
            assert answer.headers["www-authenticate"] == "Bearer"
            # one wording: a key that once was valid is told nothing more
            assert problem["detail"].startswith("The request carries no key, or one that is")


@pytest.mark.parametrize("path", sorted(path for method, path in ROUTES if method == "GET"))
def test_head_gives_what_get_gives_without_the_body(
    world: World, admin: httpx.Client, path: str
) -> None:
    ids = _ids(world, admin, ("GET", path))
    for caller in (*KEYED, *KEYLESS):
        client = world.clients[caller]
        asked, headed = (
            send(client, (method, path), ids, world.answer) for method in ("GET", "HEAD")
        )
        assert (headed.status_code, headed.content) == (asked.status_code, b""), caller
        assert headed.headers.keys() == asked.headers.keys(), caller
        assert headed.headers.get("content-type") == asked.headers.get("content-type"), caller


@pytest.mark.parametrize("path", sorted({path for _, path in ROUTES}))
def test_every_other_method_is_refused(world: World, admin: httpx.Client, path: str) -> None:
    """Which methods an address takes is in the document, and no secret from anybody."""
    takes = {method for method, known in ROUTES if known == path}
    takes |= {"HEAD"} if "GET" in takes else set()
    ids = _ids(world, admin, ("GET", path))
    for method in set(METHODS) - takes:
        for caller in (*KEYED, *KEYLESS):
            answer = world.clients[caller].request(method, path.format(**ids))
            assert answer.status_code == 405, (method, caller)
            assert set(answer.headers["allow"].split(", ")) == takes, (method, caller)
            if method != "HEAD":
                assert_problem(answer, 405, "method-not-allowed")


NAMED = [operation for operation in MATRIX if "{" in operation[1] and operation not in PUBLIC]


def _facts(answer: httpx.Response) -> tuple[object, ...]:
    """Return all of an answer that is not its own number or time."""
    body = {key: value for key, value in answer.json().items() if key != "request_id"}
    own = {"x-request-id", "date", "retry-after"}
    headers = {key: value for key, value in answer.headers.items() if key not in own}
    return answer.status_code, body, headers


@pytest.mark.parametrize("operation", NAMED, ids=" ".join)
@pytest.mark.parametrize("caller", KEYED)
def test_foreign_and_unknown_ids_are_not_told_apart(
    world: World, operation: tuple[str, str], caller: str
) -> None:
    """Whoever may not see a thing gets, to the byte, what a thing that is not there gives."""
    ids = {"dataset": world.dataset, "release": world.release, "key": world.key}
    unknown = {"dataset": "ds_" + "0" * 32, "release": "rel_" + "0" * 32, "key": "key_" + "0" * 32}
    client = world.clients[caller]
    nowhere = send(client, operation, unknown, world.answer)
    assert nowhere.status_code in (403, 404)
    if nowhere.status_code == 404:
        assert_problem(nowhere, 404, "not-found")
    allowed = dict(zip(KEYED, MATRIX[operation], strict=True))[caller]
    if allowed in (403, 404):
        assert _facts(send(client, operation, ids, world.answer)) == _facts(nowhere)
    odd = send(client, operation, dict.fromkeys(ids, "%00%ff'--"), world.answer)
    assert _facts(odd) == _facts(nowhere)
