"""Data sets that are restricted to named people: for all others they are not there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import chain
from typing import Any
from uuid import uuid4

import httpx
import pytest
from click.testing import CliRunner
from fastapi.routing import APIRoute

from app.cli import main
from app.client import Access, ReleaseDesk
from app.desk.pages import ROUTERS
from app.desk.routes import VisitorWith
from tests.contract.routes import DOCUMENT, ROUTES, Call, example, send
from tests.contract.service import (
    ADMIN_KEY,
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
from tests.desk.browsing import signed_in
from tests.tiers import in_one

ROLES = {
    "asker": "analyst", "analyst": "analyst", "reviewer": "reviewer", "curator": "curator",
    "member": "analyst", "named": "reviewer", "auditor": "auditor",
}  # fmt: skip
OUTSIDE = ("asker", "analyst", "reviewer", "curator")
"""The asker had access when they asked for the releases, and has none any more."""
NOWHERE = {
    "dataset": "ds_" + "0" * 32, "release": "rel_" + "0" * 32, "plan": "plan_" + "0" * 32,
    "key": "key_0",
}  # fmt: skip
NAMED = [
    call
    for call, stated in ROUTES.items()
    if stated.right is not None
    and any(f"{{{name}}}" in call[1] for name in ("dataset", "release", "plan"))
]
LISTS = sorted(
    path
    for (method, path), stated in ROUTES.items()
    if method == "GET" and stated.right is not None and "{" not in path
)


@dataclass(frozen=True)
class World:
    """A restricted data set with releases, and people inside and outside of its list."""

    service: Service
    admin: httpx.Client
    clients: Mapping[str, httpx.Client]
    secrets: Mapping[str, str]
    persons: Mapping[str, str]
    group: str
    facts: Mapping[str, Any]
    release: str
    waiting: str
    plan: str
    answer: bytes

    @property
    def dataset(self) -> str:
        return str(self.facts["id"])

    @property
    def marks(self) -> set[str]:
        """What no one outside may be sent."""
        return {
            self.dataset,
            self.facts["account"],
            self.facts["name"],
            self.release,
            self.waiting,
            self.plan,
        }

    def send(self, caller: str, call: Call, ids: Mapping[str, str]) -> httpx.Response:
        return send(self.clients[caller], call, ids, rows=ROWS, answer=self.answer)


def restrict(
    client: httpx.Client, dataset: str, *, persons: Any = (), groups: Any = (), **more: Any
) -> httpx.Response:
    """Restrict a data set to a list."""
    access = {"persons": [*persons], "groups": [*groups]}
    body = {"access": access, "reason": "a test", **more}
    return client.put(f"/v1/datasets/{dataset}/access", json=body)


@pytest.fixture(scope="module")
def world(service: Service, admin: httpx.Client) -> Iterator[World]:
    made = {name: make_key(admin, role) for name, role in ROLES.items()}
    persons = {name: each["person"] for name, each in made.items()}
    secrets = {name: each["secret"] for name, each in made.items()}
    group = f"a study {uuid4()}"
    body = {"name": group, "persons": [persons["member"]], "reason": "a test"}
    assert admin.put("/v1/groups", json=body).json()["persons"] == [persons["member"]]
    columns = example(DOCUMENT["components"]["schemas"]["DatasetSpec"])["columns"]
    question = example(DOCUMENT["components"]["schemas"]["ReleaseRequest"])["statistic"]
    rows = "income,foodexp\n" + "400,200\n600,300\n" * 20
    about = {"columns": columns, "policy": {"review": "above:1"}}
    with ExitStack() as held:
        clients = {n: held.enter_context(service.client(s)) for n, s in secrets.items()}
        facts = upload(admin, rows, **about)
        answer = ask(clients["asker"], facts["id"], question)
        waiting = ask(clients["asker"], facts["id"], question, epsilon="2").json()["id"]
        body = {"dataset": facts["id"], "name": f"a study {uuid4()}"}
        body |= {"questions": [{"statistic": question, "epsilon": "2"}]}
        plan = clients["asker"].post("/v1/study-plans", json=body).json()["id"]
        clients["asker"].post(f"/v1/study-plans/{plan}/request").raise_for_status()
        inside = [persons["named"]]
        assert restrict(admin, facts["id"], persons=inside, groups=[group]).status_code == 200
        yield World(
            service, admin, clients, secrets, persons, group, facts,
            answer.json()["id"], waiting, plan, answer.content,
        )  # fmt: skip


def without_own(answer: httpx.Response) -> tuple[object, ...]:
    """Return all of an answer that is not its own number or time."""
    body = {key: value for key, value in answer.json().items() if key != "request_id"}
    own = {"x-request-id", "date", "retry-after"}
    headers = {key: value for key, value in answer.headers.items() if key not in own}
    return answer.status_code, body, headers


@in_one("call", NAMED)
@in_one("caller", OUTSIDE)
def test_what_is_restricted_and_what_is_not_there_are_one(
    world: World, call: Call, caller: str
) -> None:
    for release in (world.release, world.waiting):
        ids = {"dataset": world.dataset, "release": release, "plan": world.plan}
        found = world.send(caller, call, ids)
        assert found.status_code in (403, 404), found.text
        assert without_own(found) == without_own(world.send(caller, call, NOWHERE))
    method, path = call
    unsound = [
        without_own(world.clients[caller].request(method, path.format(**each), content=b"{"))
        for each in (ids, NOWHERE)
    ]
    assert unsound[0] == unsound[1]


@pytest.mark.parametrize("caller", OUTSIDE)
def test_no_plan_is_saved_on_what_is_restricted(world: World, caller: str) -> None:
    """Its data set is in the body."""
    body = example(DOCUMENT["components"]["schemas"]["SavedPlanRequest"])
    client = world.clients[caller]
    found, there = (
        client.post("/v1/study-plans", json={**body, "dataset": dataset})
        for dataset in (world.dataset, NOWHERE["dataset"])
    )
    assert found.status_code in (403, 404), found.text
    assert without_own(found) == without_own(there)


@in_one("path", LISTS)
@in_one("caller", OUTSIDE)
def test_no_list_names_it(world: World, path: str, caller: str) -> None:
    client = world.clients[caller]
    asked = [{}, {"limit": 200}]
    if path == "/v1/releases":
        asked += [{"dataset": world.dataset}, {"status": "awaiting_review"}]
    if path == "/v1/study-plans":
        asked += [{"dataset": world.dataset}, {"status": "awaiting_review"}]
    if path == "/v1/audit":
        asked += [{"release": world.release}]
    for each in asked:
        answer = client.get(path, params=each)
        assert not [mark for mark in world.marks if mark in answer.text], each
    if path == "/v1/releases":
        found = client.get(path, params={"dataset": world.dataset})
        assert found.json() == client.get(path, params={"dataset": NOWHERE["dataset"]}).json()


def desk_calls(world: World) -> list[tuple[str, str]]:
    """Return what signed-in people send, each with its method, at what is restricted."""
    ids = {
        "dataset": world.dataset, "release": world.release, "which": "ledger", "ending": "csv",
        "upload": world.dataset, "plan": world.plan,
    }  # fmt: skip
    found: list[tuple[str, str]] = []
    for route in chain.from_iterable(router.routes for router in ROUTERS):
        assert isinstance(route, APIRoute)
        asked = [each.call for each in route.dependant.dependencies]
        names = route.param_convertors
        if any(isinstance(call, VisitorWith) for call in asked) and names.keys() <= ids.keys():
            found += [(method, route.path.format(**ids)) for method in route.methods or ()]
    return sorted(found)


@pytest.mark.parametrize("caller", OUTSIDE)
def test_no_page_of_the_desk_names_it(world: World, caller: str) -> None:
    more = [
        f"/desk/audit?account={world.facts['account']}", "/desk/audit?kind=decisions",
        f"/desk/audit/report?account={world.facts['account']}",
        f"/desk/releases?dataset={world.dataset}", "/desk/search?q=income", "/desk/search?q=mean",
        f"/desk/search?q={world.dataset}", f"/desk/search?q={world.release}",
        f"/desk/search?q={world.plan}", "/desk/search?q=study",
        *(f"/desk/audit/{each}.json" for each in ("ledger", "decisions", "views")),
    ]  # fmt: skip
    with signed_in(world.service, world.secrets[caller]) as browser:
        for method, path in (*desk_calls(world), *(("GET", each) for each in more)):
            answer = browser.client.request(method, path)
            sent = world.marks - {mark for mark in world.marks if mark in path}
            assert not [mark for mark in sent if mark in answer.text], path
            if world.dataset in path and not path.endswith(("/create",)):
                there = path.replace(world.dataset, NOWHERE["dataset"])
                nowhere = browser.client.request(method, there)
                assert answer.status_code == nowhere.status_code, path


@pytest.mark.parametrize("caller", ["member", "named", "auditor", "admin"])
def test_who_is_named_a_member_an_auditor_or_an_admin_sees_it(world: World, caller: str) -> None:
    client = world.admin if caller == "admin" else world.clients[caller]
    assert client.get(f"/v1/datasets/{world.dataset}").status_code == 200
    assert world.dataset in client.get("/v1/datasets", params={"limit": 200}).text
    if caller != "member":
        assert client.get(f"/v1/releases/{world.release}").status_code == 200
        assert world.release in client.get("/v1/releases", params={"limit": 200}).text
        assert client.get(f"/v1/study-plans/{world.plan}").status_code == 200
        found = client.get(f"/v1/datasets/{world.dataset}/access").json()["access"]
        assert found == {"persons": [world.persons["named"]], "groups": [world.group]}


def test_access_begins_and_ends_at_once(admin: httpx.Client, world: World) -> None:
    dataset, client = upload(admin)["id"], world.clients["analyst"]
    path = f"/v1/datasets/{dataset}"
    assert client.get(path).status_code == 200
    restrict(admin, dataset, persons=[world.persons["analyst"]]).raise_for_status()
    assert ask(client, dataset, key="kept").status_code == 201
    restrict(admin, dataset).raise_for_status()
    assert_problem(client.get(path), 404, "not-found")
    assert_problem(ask(client, dataset, key="kept"), 404, "not-found")
    opened = admin.put(f"{path}/access", json={"access": None, "reason": "over"})
    assert opened.json() == {"access": None}
    assert ask(client, dataset, key="kept").status_code == 201


def test_leaving_a_group_ends_access(admin: httpx.Client, world: World) -> None:
    dataset, client = upload(admin)["id"], world.clients["curator"]
    group = {"name": f"team {uuid4()}", "persons": [world.persons["curator"]], "reason": "in"}
    admin.put("/v1/groups", json=group).raise_for_status()
    restrict(client, dataset, groups=[group["name"]]).raise_for_status()
    assert client.get(f"/v1/datasets/{dataset}").status_code == 200
    assert group["name"] in client.get("/v1/groups", params={"limit": 200}).text
    admin.put("/v1/groups", json={**group, "persons": [], "reason": "out"}).raise_for_status()
    assert_problem(client.get(f"/v1/datasets/{dataset}"), 404, "not-found")


def test_what_a_list_may_not_say(admin: httpx.Client, world: World) -> None:
    dataset, client = upload(admin)["id"], world.clients["curator"]
    for wanted, place in (
        ({"persons": ["no one"]}, "access.persons"),
        ({"groups": ["no group"], "persons": [world.persons["curator"]]}, "access.groups"),
        ({"groups": ["uni:staff"], "persons": [world.persons["curator"]]}, "access.groups"),
        ({"persons": [world.persons["analyst"]]}, "access"),
    ):
        refused = assert_problem(restrict(client, dataset, **wanted), 422, "invalid-request")
        assert place in str(refused["errors"]), refused
    assert client.get(f"/v1/datasets/{dataset}/access").json() == {"access": None}
    for body in ({"name": "uni:staff", "persons": []}, {"name": "x", "persons": ["no one"]}):
        answer = admin.put("/v1/groups", json={**body, "reason": "a test"})
        assert_problem(answer, 422, "invalid-request")


def test_versions_and_what_shares_the_account_are_one(admin: httpx.Client, world: World) -> None:
    first, client = upload(admin), world.clients["curator"]
    restrict(admin, first["id"]).raise_for_status()
    rows = ROWS.replace("north", "south")
    more = {"file": ("more.csv", rows), "spec": (None, '{"overlap": {"reason": "a test"}}')}
    second = admin.post(f"/v1/datasets/{first['id']}/versions", files=more)
    assert second.status_code == 201, second.text
    assert_problem(client.get(f"/v1/datasets/{second.json()['id']}"), 404, "not-found")
    there, nowhere = (
        without_own(send_upload(client, body=spec(account=account, budget=None)))
        for account in (first["account"], "acc_0")
    )
    assert there == nowhere
    there, nowhere = (
        without_own(send_upload(client, body=spec(replaces=replaced)))
        for replaced in (first["id"], "ds_0")
    )
    assert there == nowhere


def test_what_replaces_a_restricted_data_set_is_restricted(
    admin: httpx.Client, world: World
) -> None:
    first = upload(admin)
    restrict(admin, first["id"]).raise_for_status()
    second = upload(admin, replaces=first["id"])
    assert second["account"] != first["account"]
    path = f"/v1/datasets/{second['id']}"
    assert_problem(world.clients["analyst"].get(path), 404, "not-found")


def test_a_refused_overlap_names_nothing_hidden(admin: httpx.Client, world: World) -> None:
    rows = (
        ROWS.splitlines()[0]
        + "\n"
        + "\n".join(f"{each},{each % 7},north,true" for each in range(1_000))
    )
    first = upload(admin, rows)
    client = world.clients["curator"]
    seen = assert_problem(send_upload(client, rows), 409, "overlapping-dataset")
    assert seen["dataset"] == first["id"]
    restrict(admin, first["id"]).raise_for_status()
    hidden = assert_problem(send_upload(client, rows), 409, "overlapping-dataset")
    assert not {first["id"], first["account"]} & set(map(str, hidden.values()))


def test_the_ledger_says_who_changed_access_and_verifies(admin: httpx.Client, world: World) -> None:
    with signed_in(world.service, world.secrets["auditor"]) as browser:
        kinds = [each["kind"] for each in browser.client.get("/desk/audit/ledger.json").json()]
        made = browser.client.get("/desk/audit/decisions.json?person=bootstrap").json()
    assert {"access_set", "group_set"} <= set(kinds)
    (note,) = [
        each["note"]
        for each in made
        if each["kind"] == "access_set" and world.facts["account"] in each["note"]
    ]
    assert world.group in note
    assert "a test" in note
    assert admin.get("/v1/ledger/verification").json()["ok"]


def test_an_earlier_answer_is_not_replayed_and_nothing_is_charged(world: World) -> None:
    before = world.admin.get(f"/v1/datasets/{world.dataset}/budget").json()
    assert_problem(ask(world.clients["asker"], world.dataset, MEAN), 404, "not-found")
    assert world.admin.get(f"/v1/datasets/{world.dataset}/budget").json() == before


def test_what_is_public_stays_so(admin: httpx.Client, anonymous: httpx.Client) -> None:
    facts = upload(admin)
    release = ask(admin, facts["id"]).json()["id"]
    path = f"/v1/releases/{release}/publication"
    admin.post(path, json={"reason": "out"}, headers={"If-Match": "*"}).raise_for_status()
    restrict(admin, facts["id"]).raise_for_status()
    assert anonymous.get(f"/public/releases/{release}.json").status_code == 200


def test_the_client_restricts_and_makes_groups(service: Service, admin: httpx.Client) -> None:
    dataset, person = upload(admin), make_key(admin, "analyst")["person"]
    with ReleaseDesk(service.url, ADMIN_KEY) as desk:
        assert desk.access(dataset["id"]) is None
        group = desk.set_group(f"study {uuid4()}", persons=[person], reason="a test")
        assert group in list(desk.groups())
        groups = [group.name]
        found = desk.restrict(dataset["id"], persons=[person], groups=groups, reason="a test")
        assert found == Access(persons=[person], groups=groups)
        assert desk.access(dataset["id"]) == found
        desk.unrestrict(dataset["id"], reason="over")
        assert desk.access(dataset["id"]) is None


def test_commands_restrict_and_make_groups(service: Service, admin: httpx.Client) -> None:
    dataset, person = upload(admin), make_key(admin, "analyst")["person"]
    connected = ("--url", service.url, "--key", ADMIN_KEY)

    def done(*words: str) -> str:
        result = CliRunner().invoke(main, [*words, *connected])
        assert result.exit_code == 0, result.output
        return result.output

    group, why = f"study {uuid4()}", ("--reason", "a test")
    assert "1 persons" in done("groups", "set", group, "--person", person, *why)
    assert group in done("groups", "list")
    here = str(dataset["name"])
    shown = done("datasets", "restrict", here, "--person", person, "--group", group, *why)
    assert shown == f"person  {person}\ngroup  {group}\n"
    assert done("datasets", "access", here) == shown
    assert done("datasets", "unrestrict", here, *why) == "everyone\n"
    wrong = CliRunner().invoke(main, ["keys", "allow-sign-in", "key_0", *connected])
    assert wrong.exit_code == 1
