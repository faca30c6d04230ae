"""Every route of the service against every kind of caller.

Who may call a route is read from the route itself, and so is a sound request of it, so a new
endpoint is tried without a line here. What the routes state is compared with the contract, which
is written down once more below. Every other method is refused, whoever sends it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any
from uuid import uuid4
from zlib import crc32

import httpx
import pytest

from app.api.dependencies import ANYONE, router_of
from app.domain.policies import Right, Role
from app.services.scripts import client_packages
from tests.contract.routes import DOCUMENT, ENDPOINTS, ROUTES, Call, Stated, example
from tests.contract.routes import send as send_call
from tests.contract.service import (
    Service,
    ask,
    assert_problem,
    in_time,
    make_key,
    sleep_until,
    upload,
)
from tests.tiers import in_groups, in_one

METHODS = ("GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE", "TRACE")
KEYED: Mapping[str, Role] = {
    "owner": Role.ANALYST,
    "other analyst": Role.ANALYST,
    "auditor": Role.AUDITOR,
    "reviewer": Role.REVIEWER,
    "curator": Role.CURATOR,
    "admin": Role.ADMIN,
    "metrics": Role.METRICS,
}
"""The owner is the analyst who asked for the release that is named; the data set is a curator's."""
KEYLESS = ("nobody", "unknown", "revoked", "expired")

CONTRACT: Mapping[Call, Right | None] = {
    ("POST", "/v1/datasets"): Right.CURATE,
    ("GET", "/v1/datasets"): Right.READ,
    ("GET", "/v1/datasets/{dataset}"): Right.READ,
    ("POST", "/v1/datasets/{dataset}/archive"): Right.CURATE,
    ("DELETE", "/v1/datasets/{dataset}"): Right.CURATE,
    ("GET", "/v1/datasets/{dataset}/budget"): Right.READ,
    ("POST", "/v1/datasets/{dataset}/grants"): Right.CURATE,
    ("GET", "/v1/datasets/{dataset}/ledger"): Right.OVERSEE,
    ("GET", "/v1/ledger/verification"): Right.OVERSEE,
    ("POST", "/v1/datasets/{dataset}/releases"): Right.ASK,
    ("POST", "/v1/datasets/{dataset}/previews"): Right.ASK,
    ("GET", "/v1/releases"): Right.READ,
    ("GET", "/v1/releases/{release}"): Right.READ,
    ("POST", "/v1/releases/{release}/derivations"): Right.ASK,
    ("POST", "/v1/releases/{release}/decision"): Right.DECIDE,
    ("POST", "/v1/keys"): Right.ADMINISTER,
    ("GET", "/v1/keys"): Right.ADMINISTER,
    ("DELETE", "/v1/keys/{key}"): Right.ADMINISTER,
    ("GET", "/v1/datasets/{dataset}/access"): Right.OVERSEE,
    ("PUT", "/v1/datasets/{dataset}/access"): Right.CURATE,
    ("GET", "/v1/groups"): Right.CURATE,
    ("PUT", "/v1/groups"): Right.ADMINISTER,
    ("POST", "/v1/keys/{key}/sign-in"): Right.ADMINISTER,
    ("GET", "/metrics"): Right.WATCH,
    ("GET", "/v1/catalog"): None,
    ("GET", "/v1/ledger/public-keys"): None,
    ("GET", "/v1/log/checkpoint"): None,
    ("GET", "/v1/log/stamp"): None,
    ("GET", "/v1/log/proof/inclusion"): None,
    ("GET", "/v1/log/proof/consistency"): None,
    ("GET", "/v1/log/key"): None,
    ("GET", "/livez"): None,
    ("GET", "/readyz"): None,
}
"""Who may call what, as the contract fixes it; None: anyone, without a key."""

OWN = {
    ("POST", "/v1/releases/{release}/withdrawal"),
    ("POST", "/v1/releases/{release}/revisions"),
    ("PUT", "/v1/study-plans/{plan}"),
    ("DELETE", "/v1/study-plans/{plan}"),
    ("POST", "/v1/study-plans/{plan}/request"),
    ("POST", "/v1/study-plans/{plan}/withdrawal"),
    ("POST", "/v1/study-plans/{plan}/releases"),
}
"""What only the owner of the release or plan may do. What else names one, curators may too."""
SAID = {
    ("POST", "/v1/releases/{release}/comments"),
    ("POST", "/v1/study-plans/{plan}/comments"),
}
"""What is for who asked and for those who decide."""
ANSWERED = {
    ("GET", "/"): 307,
    # no authority is set
    ("GET", "/v1/log/stamp"): 404,
    # no one has signed in at a provider
    ("POST", "/v1/keys/{key}/sign-in"): 404,
    # uploads that are only checked get 200
    ("POST", "/v1/datasets"): 201,
    ("POST", "/v1/datasets/{dataset}/versions"): 201,
    ("POST", "/v1/datasets/{dataset}/releases"): 201,
    ("POST", "/v1/releases/{release}/decision"): 202,
    # one that takes long gets 202
    ("POST", "/v1/releases/{release}/derivations"): 200,
    ("POST", "/v1/releases/{release}/publication"): 201,
    # the example's data set is not there
    ("POST", "/v1/study-plans"): 404,
    ("POST", "/v1/study-plans/{plan}/releases"): 201,
    # no one has asked for changes
    ("POST", "/v1/releases/{release}/revisions"): 409,
}
"""What the request below gets, where a call has answers of several kinds."""
EXAMPLES = {
    name: example(DOCUMENT["components"]["schemas"][name])
    for name in ("CapRequest", "DatasetSpec", "ReleaseRequest")
}
QUESTION = EXAMPLES["ReleaseRequest"]["statistic"]
TABLES = {"kind": "tables", "columns": ["income"], "edges": {"income": [0, 500, 1000]}}
ROWS = "income,foodexp\n" + "400,200\n600,300\n" * 20
"""Rows of the data set that the examples are about."""


def differences(stated: Mapping[Call, Stated], contract: Mapping[Call, Right | None]) -> set[Call]:
    """Return the calls whose right is not the contract's, and those open to anyone next to it."""
    wrong = {call for call, right in contract.items() if stated[call].right is not right}
    opened = {call for call, each in stated.items() if each.right is None and each.operation}
    return wrong | {call for call in opened if call not in contract}


def test_the_routes_state_the_contract_s_rights() -> None:
    assert differences(ROUTES, CONTRACT) == set()


@in_one("call", CONTRACT)
def test_a_right_that_is_not_the_contract_s_is_found(call: Call) -> None:
    for right in {None, *Right} - {CONTRACT[call]}:
        changed = {**ROUTES, call: replace(ROUTES[call], right=right)}
        assert differences(changed, CONTRACT) == {call}


def test_a_new_endpoint_is_not_open_to_anyone_unnoticed() -> None:
    known = ROUTES["GET", "/v1/catalog"]
    assert differences({**ROUTES, ("GET", "/v1/new"): known}, CONTRACT) == {("GET", "/v1/new")}


def test_an_endpoint_must_say_who_may_call_it() -> None:
    router = router_of("", "test")

    async def answer() -> None:
        """Answer."""

    with pytest.raises(TypeError, match="who may call it"):
        router.get("/silent")(answer)
    router.get("/open", openapi_extra=ANYONE)(answer)


@dataclass(frozen=True)
class World:
    """One client of each kind, and what the owner has asked for."""

    clients: dict[str, httpx.Client]
    dataset: str
    release: str
    key: str
    answer: bytes
    reviewed: str
    plan: str


def _secret(admin: httpx.Client, role: str, **more: object) -> dict[str, Any]:
    body = {"name": f"{role} {uuid4()}", "role": role, **more}
    answer = admin.post("/v1/keys", json=body)
    assert answer.status_code == 201, answer.text
    return dict(answer.json())


@pytest.fixture(scope="module")
def world(service: Service, admin: httpx.Client, curator: httpx.Client) -> Iterator[World]:
    secrets: dict[str, str | None] = {"nobody": None, "unknown": "rd_" + "x" * 43}
    brief, end = in_time(lambda soon: _secret(admin, "admin", expires=soon.isoformat()))
    secrets["expired"] = brief["secret"]
    revoked = _secret(admin, "admin")
    secrets["revoked"] = revoked["secret"]
    assert admin.delete(f"/v1/keys/{revoked['id']}").status_code == 204
    for name in KEYED:
        made = _secret(admin, "analyst" if name == "owner" else name.split()[-1])
        secrets[name] = made["secret"]
    _secret(admin, "analyst", name=EXAMPLES["CapRequest"]["person"])
    about = {"columns": EXAMPLES["DatasetSpec"]["columns"], "budget": {"epsilon": "1000"}}
    dataset = str(upload(curator, ROWS, **about)["id"])
    reviewed = str(upload(curator, ROWS, **about, policy={"review": "always"})["id"])
    sleep_until(end)
    with ExitStack() as held:
        clients = {
            name: held.enter_context(service.client(secret)) for name, secret in secrets.items()
        }
        answer = ask(clients["owner"], dataset, QUESTION)
        release = str(answer.json()["id"])
        publish(curator, release)
        plan = requested(clients["owner"], reviewed)
        yield World(clients, dataset, release, str(made["id"]), answer.content, reviewed, plan)


def saved(owner: httpx.Client, dataset: str) -> str:
    """Save a study plan, and return its id."""
    body = {"dataset": dataset, "name": "a study", "questions": [EXAMPLES["ReleaseRequest"]]}
    answer = owner.post("/v1/study-plans", json=body)
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])


def requested(owner: httpx.Client, dataset: str) -> str:
    """Ask for the approval of a study plan, and return its id."""
    plan = saved(owner, dataset)
    assert owner.post(f"/v1/study-plans/{plan}/request").status_code == 200
    return plan


def publish(curator: httpx.Client, release: str) -> None:
    """Make a release public."""
    made = curator.post(
        f"/v1/releases/{release}/publication", json={"reason": "a test"}, headers={"If-Match": "*"}
    )
    assert made.status_code == 201, made.text


def send(world: World, caller: str, call: Call, ids: Mapping[str, str]) -> httpx.Response:
    """Send a sound request of a call."""
    return send_call(world.clients[caller], call, ids, rows=ROWS, answer=world.answer)


def expected(call: Call, caller: str) -> int:
    """Return the status that a caller of this kind gets, by what the route states."""
    stated, role = ROUTES[call], KEYED[caller]
    if stated.right is not None and not role.may(stated.right):
        return 403
    foreign = caller != "owner" and (call in OWN or not role.may(Right.OVERSEE))
    named = "{release}" in call[1] or "{plan}" in call[1]
    if named and foreign and not call[1].startswith("/public/"):
        return 404
    if call in SAID and caller != "owner" and not role.may(Right.DECIDE):
        return 403
    return success(call)


def success(call: Call) -> int:
    """Return the status of a call that is allowed."""
    if call in ANSWERED:
        return ANSWERED[call]
    (only,) = ROUTES[call].successes
    return only


def test_the_document_says_what_is_public() -> None:
    for each in ENDPOINTS.values():
        assert each.operation is not None
        assert (each.operation.get("security") == []) == (each.right is None)


def _ids(world: World, admin: httpx.Client, operation: Call) -> dict[str, str]:
    """Return ids of things that are there, fresh ones for what the call destroys."""
    ids = {
        "code": "forbidden",
        "dataset": world.dataset,
        "digest": client_packages()["r"].digest,
        "ending": "json",
        "form": "registry",
        "key": world.key,
        "name": "quickstart",
        "package": client_packages()["r"].name,
        "picture": "ask.png",
        "table": "kng-1",
        "release": world.release,
        "plan": _plan(world, operation) if "{plan}" in operation[1] else "",
    }
    if operation == ("DELETE", "/v1/keys/{key}"):
        ids["key"] = str(make_key(admin, "analyst")["id"])
    if operation[1].endswith("/archive") or operation == ("DELETE", "/v1/datasets/{dataset}"):
        ids["dataset"] = str(upload(admin)["id"])
    if operation == ("POST", "/v1/datasets/{dataset}/versions"):
        columns = EXAMPLES["DatasetSpec"]["columns"]
        ids["dataset"] = str(upload(admin, ROWS, columns=columns)["id"])
    said = operation[0] == "POST" and operation[1].endswith(("/comments", "/revisions"))
    said = said or operation[1].endswith("/review")
    if operation[0] == "POST" and "/publication" in operation[1]:
        ids["release"] = str(ask(world.clients["owner"], world.dataset, QUESTION).json()["id"])
        if operation[1].endswith("/withdrawal"):
            publish(admin, ids["release"])
    elif operation[1].endswith(("/cells", "/synthetic")):
        ids["release"] = str(ask(world.clients["owner"], world.dataset, TABLES).json()["id"])
    elif said or operation[1].endswith(("/decision", "/withdrawal")):
        ids["release"] = str(ask(world.clients["owner"], world.reviewed, QUESTION).json()["id"])
    return ids


def _plan(world: World, operation: Call) -> str:
    """Return a plan of the owner's, as far as the call needs it."""
    owner, drawn = world.clients["owner"], operation[1].endswith("/releases")
    dataset = world.dataset if drawn else world.reviewed
    draft = operation[0] not in ("GET", "POST") or operation[1].endswith("/request")
    return saved(owner, dataset) if draft else requested(owner, dataset)


def _group(operation: Call) -> str:
    _, first, *rest = operation[1].split("/")
    return "-".join([first, *rest[:1]]) if first == "v1" else first or "start"


@in_groups("operation", _group, ROUTES)
def test_the_matrix(world: World, admin: httpx.Client, operation: Call) -> None:
    stated = ROUTES[operation]
    for caller in KEYED:
        answer = send(world, caller, operation, _ids(world, admin, operation))
        status = expected(operation, caller)
        assert answer.status_code == status, (caller, answer.text)
        if stated.operation is not None:
            assert str(status) in stated.operation["responses"], "is not documented"
        if status == 403:
            assert_problem(answer, 403, "forbidden")
    for caller in KEYLESS:
        answer = send(world, caller, operation, _ids(world, admin, operation))
        if stated.right is None:
            assert answer.status_code == success(operation)
        else:
            problem = assert_problem(answer, 401, "unauthorized")
            assert answer.headers["www-authenticate"] == "Bearer"
            # one wording: a key that once was valid is told nothing more
            assert problem["detail"].startswith("The request carries no key, or one that is")


@pytest.mark.wide
@pytest.mark.parametrize("path", sorted(path for method, path in ROUTES if method == "GET"))
def test_head_gives_what_get_gives_without_the_body(
    world: World, admin: httpx.Client, path: str
) -> None:
    ids = _ids(world, admin, ("GET", path))
    for caller in (*KEYED, *KEYLESS):
        asked, headed = (send(world, caller, (method, path), ids) for method in ("GET", "HEAD"))
        assert (headed.status_code, headed.content) == (asked.status_code, b""), caller
        assert headed.headers.keys() == asked.headers.keys(), caller
        assert headed.headers.get("content-type") == asked.headers.get("content-type"), caller


@in_one("path", sorted({path for _, path in ROUTES}))
def test_every_other_method_is_refused(world: World, admin: httpx.Client, path: str) -> None:
    """Which methods an address takes is in the document, and no secret from anyone.

    Who asks is not looked at before it is refused. Every address is asked by an admin, by nobody
    and by one more kind of caller; every kind is one more at several addresses.
    """
    takes = {method for method, known in ROUTES if known == path}
    takes |= {"HEAD"} if "GET" in takes else set()
    ids = _ids(world, admin, ("GET", path))
    everyone = [*KEYED, *KEYLESS]
    one = everyone[crc32(path.encode()) % len(everyone)]
    for method in set(METHODS) - takes:
        for caller in ("nobody", "admin", one):
            answer = world.clients[caller].request(method, path.format(**ids))
            assert answer.status_code == 405, (method, caller)
            assert set(answer.headers["allow"].split(", ")) == takes, (method, caller)
            if method != "HEAD":
                assert_problem(answer, 405, "method-not-allowed")


NAMED = [call for call, stated in ROUTES.items() if "{" in call[1] and stated.right is not None]


def _facts(answer: httpx.Response) -> tuple[object, ...]:
    """Return all of an answer that is not its own number or time."""
    body = {key: value for key, value in answer.json().items() if key != "request_id"}
    own = {"x-request-id", "date", "retry-after"}
    headers = {key: value for key, value in answer.headers.items() if key not in own}
    return answer.status_code, body, headers


@in_one("operation", NAMED)
@in_one("caller", KEYED)
def test_foreign_and_unknown_ids_are_not_told_apart(
    world: World, operation: Call, caller: str
) -> None:
    """Whoever may not see a thing gets, to the byte, what a thing that is not there gives."""
    ids = {
        "dataset": world.dataset, "release": world.release, "plan": world.plan, "key": world.key,
    }  # fmt: skip
    begins = {"dataset": "ds", "release": "rel", "plan": "plan", "key": "key"}
    unknown = {name: f"{begin}_{'0' * 32}" for name, begin in begins.items()}
    nowhere = send(world, caller, operation, unknown)
    assert nowhere.status_code in (403, 404)
    if nowhere.status_code == 404:
        assert_problem(nowhere, 404, "not-found")
    # Of what is said, those who may see the release, and may not speak, are refused for that.
    if expected(operation, caller) in (403, 404) and operation not in SAID:
        assert _facts(send(world, caller, operation, ids)) == _facts(nowhere)
    odd = send(world, caller, operation, dict.fromkeys(ids, "%00%ff'--"))
    assert _facts(odd) == _facts(nowhere)
