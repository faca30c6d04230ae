"""The client's two desks are one: what they send, under which names, and how they wait."""

from __future__ import annotations

import asyncio
import inspect
import json
import ssl
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import fields
from fractions import Fraction
from pathlib import Path
from typing import Any

import httpx
import pytest

from app.client import (
    AsyncDataset,
    AsyncDesk,
    ClientError,
    Dataset,
    ProblemError,
    ReleaseDesk,
    UnreachableError,
)
from app.client.questions import amount
from mechanisms.catalog import STATISTICS
from tests.tiers import in_one

WAGES = {
    "id": "ds_1", "name": "wages of 2020", "adjacency": "replace_one", "status": "active",
    "columns": {}, "rows": 9,
}  # fmt: skip
OTHER = {**WAGES, "id": "ds_2", "name": "other"}
RELEASE = {"id": "rel_1", "dataset": "ds_1", "status": "released", "epsilon": "1", "value": {}}
RUNNING = {**RELEASE, "status": "running", "value": None}
MEAN = {"kind": "mean", "columns": ["age"]}
Handler = Callable[[httpx.Request], httpx.Response]
Run = Callable[[Handler, Callable[[Any], Any]], Any]


def blocking(handler: Handler, use: Callable[[Any], Any]) -> Any:
    transport = httpx.MockTransport(handler)
    with ReleaseDesk("http://desk", "k" * 40, pause_s=0, transport=transport) as desk:
        found = use(desk)
        return list(found) if isinstance(found, Iterator) else found


def awaiting(handler: Handler, use: Callable[[Any], Any]) -> Any:
    async def main() -> Any:
        transport = httpx.MockTransport(handler)
        async with AsyncDesk("http://desk", "k" * 40, pause_s=0, transport=transport) as desk:
            found = use(desk)
            if isinstance(found, AsyncIterator):
                return [each async for each in found]
            return await found

    return asyncio.run(main())


@pytest.fixture(params=[blocking, awaiting])
def run(request: pytest.FixtureRequest) -> Run:
    """Run a use of a desk, of either kind."""
    chosen: Run = request.param
    return chosen


class Service:
    """What a service answers to releases and to those who look for a data set."""

    def __init__(self) -> None:
        self.keys: list[str] = []
        self.bodies: list[dict[str, Any]] = []
        self.paths: list[str] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        path = request.url.path
        self.paths.append(path)
        if request.method == "POST":
            self.keys.append(request.headers.get("Idempotency-Key"))
            self.bodies.append(json.loads(request.content))
            return httpx.Response(201, json=RELEASE)
        if path == "/v1/datasets":
            first = request.url.params.get("cursor") is None
            items, following = ([OTHER], "1") if first else ([WAGES], None)
            return httpx.Response(200, json={"items": items, "next": following})
        if path == "/v1/datasets/ds_1":
            return httpx.Response(200, json=WAGES)
        body = {"code": "not-found", "title": "There is no such thing"}
        return httpx.Response(404, json=body)


def key_of(run: Run, *arguments: Any, **options: Any) -> str:
    """Return the Idempotency-Key under which a question is sent."""
    service = Service()
    asked = arguments or ("ds_1", MEAN)
    run(service, lambda desk: desk.release(*asked, **{"epsilon": "0.5", **options}))
    return service.keys[0]


def test_the_service_names_a_question_unless_it_is_named(run: Run) -> None:
    """It knows which spellings mean the same: tests/contract/test_one_question.py."""
    assert key_of(run) == "auto"
    assert key_of(run, "ds_2", {"columns": ("age",), "kind": "mean"}, epsilon=0.7) == "auto"


def test_what_is_asked_anew_has_a_new_name_each_time(run: Run) -> None:
    assert key_of(run, fresh=True) != key_of(run, fresh=True)
    assert key_of(run, idempotency_key="mine") == "mine"


@in_one(
    ("given", "sent"),
    [
        ("0.5", "0.5"), (0.5, "0.5"), ("0.50", "0.5"), (1, "1"), ("10", "10"), ("1.0", "1"),
        (1e-7, "0.0000001"), ("0.10", "0.1"),
        (0.1 + 0.1, "0.2"), (0.1 + 0.1 + 0.1, "0.3"), ("5e-1", "0.5"),
        ("much", "much"), ("inf", "inf"),
    ],
)  # fmt: skip
def test_prices_have_one_spelling(given: Any, sent: str) -> None:
    assert amount(given) == sent


def test_a_data_set_is_found_by_its_name_or_id(run: Run) -> None:
    service = Service()
    assert run(service, lambda desk: desk.dataset("wages of 2020")).id == "ds_1"
    assert service.paths == ["/v1/datasets"] * 2, "a name with blanks is no id"
    assert run(Service(), lambda desk: desk.dataset("other")).id == "ds_2"
    by_id = run(Service(), lambda desk: desk.dataset("ds_1"))
    assert (by_id.name, by_id.rows) == ("wages of 2020", 9)
    assert run(Service(), lambda desk: desk.dataset(by_id)) == by_id


@pytest.mark.parametrize("name", ["ds_9", "not there", "../keys"])
def test_a_data_set_that_is_not_there_is_refused_with_those_that_are(run: Run, name: str) -> None:
    service = Service()
    with pytest.raises(ProblemError, match=r"'other', 'wages of 2020'") as caught:
        run(service, lambda desk: desk.dataset(name))
    assert (caught.value.status, caught.value.code) == (404, "not-found")
    assert all(path.startswith("/v1/datasets") for path in service.paths)


def test_a_data_set_is_asked_as_the_desk_is() -> None:
    service = Service()
    with ReleaseDesk("http://desk", transport=httpx.MockTransport(service)) as desk:
        wages = desk.dataset("ds_1")
        wages.mean("age", epsilon="0.5")
        wages.release("mean", columns=["age"], epsilon=0.5)
        wages.release(MEAN, epsilon="0.5")
        desk.release(wages, MEAN, epsilon="0.5")
        desk.release("ds_1", MEAN, epsilon="0.5")
    assert len(set(service.keys)) == 1
    whole = {"statistic": MEAN, "mechanism": "auto", "norm": "auto", "epsilon": "0.5"}
    assert service.bodies == [whole] * 5
    assert set(service.paths[1:]) == {"/v1/datasets/ds_1/releases"}


def test_methods_of_an_asynchronous_data_set_are_awaited() -> None:
    service = Service()

    async def use(desk: AsyncDesk) -> str:
        wages = await desk.dataset("ds_1")
        return (await wages.median("age", epsilon=1, by=["sex"])).id

    assert awaiting(service, use) == "rel_1"
    quantile = {"kind": "quantile", "column": "age", "levels": [0.5], "by": ["sex"]}
    assert service.bodies[0]["statistic"] == quantile


def test_one_of_a_thing_stands_for_a_list_of_it() -> None:
    service = Service()
    where = {"column": "age", "op": ">", "value": 40}
    with ReleaseDesk("http://desk", transport=httpx.MockTransport(service)) as desk:
        wages = desk.dataset("ds_1")
        wages.quantile("age", [0.5], by=["sex"], where=[where], epsilon=1, inference=THIRD)
        wages.quantile("age", 0.5, by="sex", where=where, epsilon=1, inference="1/3")
        wages.release("quantile", column="age", levels=0.5, by="sex", where=where, epsilon=1,
                      inference=Fraction(1, 3))  # fmt: skip
    assert len(set(service.keys)) == 1
    quantile = {"kind": "quantile", "column": "age", "levels": [0.5], "by": ["sex"]}
    assert service.bodies[1]["statistic"] == {**quantile, "where": [where]}
    assert service.bodies[1]["inference"] == THIRD


THIRD = {"share": "1/3"}
ARGUMENTS: dict[str, tuple[Any, ...]] = {
    "formula": ("income ~ age",), "columns": ("age", "income"), "column": ("age",),
    "levels": ([0.5],),
}  # fmt: skip
"""What a method takes by position, by the field that it is."""


@in_one("kind", sorted(set(STATISTICS) - {"stack"}))
def test_every_statistic_is_a_method_of_a_data_set(kind: str) -> None:
    service = Service()
    own = {each.name for each in fields(STATISTICS[kind])}  # type: ignore[arg-type]
    names = ["formula"] if "formula" in own else [name for name in ARGUMENTS if name in own]
    arguments = [each for name in names for each in ARGUMENTS[name]]
    where = [{"column": "age", "op": ">=", "value": 40}]
    with ReleaseDesk("http://desk", transport=httpx.MockTransport(service)) as desk:
        method = getattr(desk.dataset("ds_1"), kind)
        method(*arguments, epsilon="1", where=where, norm="l1", purpose="why")
    (body,) = service.bodies
    assert body["statistic"].items() >= {"kind": kind, "where": where}.items()
    assert {"norm": "l1", "epsilon": "1", "purpose": "why"}.items() <= body.items()
    assert method.__doc__, "help() tells of it"


def test_a_stack_divides_one_price_evenly_or_by_shares() -> None:
    service = Service()
    with ReleaseDesk("http://desk", transport=httpx.MockTransport(service)) as desk:
        wages = desk.dataset("ds_1")
        wages.stack(MEAN, {"kind": "count"}, epsilon="1")
        wages.stack(MEAN, {"kind": "count"}, shares=[3, 1], epsilon="1")
        with pytest.raises(ValueError, match="shorter"):
            wages.stack(MEAN, {"kind": "count"}, shares=[3], epsilon="1")
    parts = [body["statistic"]["parts"] for body in service.bodies]
    assert [[part["share"] for part in each] for each in parts] == [[1, 1], [3, 1]]
    assert [part["statistic"]["kind"] for part in parts[0]] == ["mean", "count"]


def test_fields_that_are_not_given_are_left_to_the_service() -> None:
    service = Service()
    with ReleaseDesk("http://desk", transport=httpx.MockTransport(service)) as desk:
        desk.dataset("ds_1").linear_regression(target="income", features=["age"], epsilon=1)
    assert "formula" not in service.bodies[0]["statistic"]


def test_both_desks_have_the_same_methods() -> None:
    for one, other in ((ReleaseDesk, AsyncDesk), (Dataset, AsyncDataset)):
        ours, theirs = ({n for n in dir(each) if n[0] != "_"} for each in (one, other))
        assert ours == theirs
    signature = inspect.signature(ReleaseDesk("http://desk").release)
    assert list(signature.parameters)[:3] == ["dataset", "statistic", "epsilon"]
    assert "charge its epsilon" in (inspect.getdoc(ReleaseDesk.release) or "")


def test_either_desk_sends_again_and_waits_for_jobs(run: Run) -> None:
    seen: list[str] = []
    waits: list[str] = []

    def handler(request: httpx.Request) -> httpx.Response:
        seen.append(request.method)
        if len(seen) == 1:
            raise httpx.ReadError("gone")
        if len(seen) == 2:
            return httpx.Response(503, json={"code": "busy"})
        looks = {"Location": "/v1/releases/rel_1", "Retry-After": "0"}
        if len(seen) < 5:
            return httpx.Response(202, json=RUNNING, headers=looks)
        return httpx.Response(200, json=RELEASE)

    def use(desk: Any) -> Any:
        note = lambda release, pause_s: waits.append(release.status)  # noqa: E731
        return desk.release("ds_1", MEAN, epsilon="1", on_wait=note)

    release = run(handler, use)
    assert release.status == "released"
    assert seen == ["POST", "POST", "POST", "GET", "GET", "POST"]
    assert waits == ["running", "running"]


def test_either_desk_gives_up_in_the_end(run: Run) -> None:
    def handler(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("gone", request=request)

    with pytest.raises(UnreachableError) as caught:
        run(handler, lambda desk: desk.release("ds_1", MEAN, epsilon="1", idempotency_key="mine"))
    assert caught.value.idempotency_key == "mine"
    assert isinstance(caught.value.__cause__, UnreachableError)


def test_either_desk_reads_lists_to_the_end(run: Run) -> None:
    found = run(Service(), lambda desk: desk.datasets())
    assert [each.name for each in found] == ["other", "wages of 2020"]


def test_either_desk_uploads_a_file(run: Run, tmp_path: Path) -> None:
    rows = tmp_path / "rows.csv"
    rows.write_text("age\n31\n")
    sent = []

    def handler(request: httpx.Request) -> httpx.Response:
        sent.append(request.read())
        return httpx.Response(201, json=WAGES)

    async def arrived(request: httpx.Request) -> httpx.Response:
        sent.append(await request.aread())
        return httpx.Response(201, json=WAGES)

    chosen: Any = handler if run is blocking else arrived
    assert run(chosen, lambda desk: desk.upload(rows, {"name": "x"})).id == "ds_1"
    assert b"age\n31\n" in sent[0]
    assert b'{"name": "x"}' in sent[0]


def test_either_desk_names_what_it_registers(run: Run) -> None:
    sent = []

    def handler(request: httpx.Request) -> httpx.Response:
        sent.append((request.method, request.url.path, json.loads(request.content)))
        return httpx.Response(201, json=WAGES)

    source = "file:///srv/people/*.csv"
    assert run(handler, lambda desk: desk.register(source, {"name": "x"})).id == "ds_1"
    assert sent == [("POST", "/v1/datasets", {"name": "x", "source": source})]


def test_a_page_of_something_else_is_no_answer(run: Run) -> None:
    with pytest.raises(ClientError, match="no JSON object"):
        run(lambda _: httpx.Response(200, text="<html>"), lambda desk: desk.datasets())


def test_certificates_are_read_once_for_all_desks(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[object] = []
    made = ssl.create_default_context

    def noted(*where: Any, **more: Any) -> ssl.SSLContext:
        read.append(more)
        return made(*where, **more)

    monkeypatch.setattr(ssl, "create_default_context", noted)
    for _ in range(3):
        with ReleaseDesk("https://desk.example", "a key"):
            pass
    assert len(read) <= 1
