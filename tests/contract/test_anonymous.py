"""Requests without a key: their rates, and answers from memory until something public changes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Hashable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.types import Message, Receive, Scope, Send

from app.api.application import bare_application
from app.api.dependencies import Endpoint
from app.desk.pages import add_desk
from app.desk.routes import Page
from app.domain.problems import Problem
from app.web.anonymous import Anonymous, OpenRoute, Rates, public_answer
from tests.contract.service import (
    ADMIN_KEY,
    ask,
    assert_problem,
    running,
    upload,
)


class Clock:
    """A clock that stands still until it is moved."""

    now = 1_000.0

    def __call__(self) -> float:
        return self.now


def test_every_route_without_a_key_has_bounds() -> None:
    app = bare_application()
    add_desk(app)
    routes = list(app.routes)
    assert len(routes) > 100
    for route in routes:
        assert isinstance(route, Endpoint | Page | OpenRoute), route


def test_an_address_has_a_burst_and_then_its_rate() -> None:
    clock = Clock()
    rates = Rates(60, clock=clock)
    waits = []
    for _ in range(20):
        waits.append(rates.wait_s("a"))
        rates.take("a")
    assert waits == [0.0] * 15 + [1.0, 2.0, 3.0, 4.0, 5.0]
    assert rates.wait_s("b") == 0
    clock.now += 5
    assert rates.wait_s("a") == 1
    assert Rates(0).wait_s("a") == 0


class Desk:
    """An application that counts what it renders, and what is public in it."""

    def __init__(self, **options: Any) -> None:
        self.rendered: list[str] = []
        self.here, self.elsewhere = 0, 0
        self.fails = False
        self.takes_s = 0.0
        self.leaves = False
        self.answer = public_answer
        self.clock = Clock()
        self.gate = Anonymous(
            each_per_minute=0, all_per_minute=0, changes=lambda: self.here, marks=self._marks,
            clock=self.clock, **options,
        )  # fmt: skip

    def _marks(self) -> Hashable:
        if self.fails:
            raise OSError
        return self.elsewhere

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope)
        self.rendered.append(request.url.path)
        said = f"{request.url.path} {self.here} {self.elsewhere}".encode()
        if self.takes_s:
            await asyncio.sleep(self.takes_s)
        await self.answer(said, "text/plain")(scope, receive, send)

    async def get(self, path: str, **headers: str) -> tuple[int, dict[str, str], bytes]:
        sent: list[Message] = []

        async def send(message: Message) -> None:
            sent.append(message)

        async def receive() -> Message:
            return {"type": "http.disconnect" if self.leaves else "http.request"}

        named = [(name.replace("_", "-").encode(), text.encode()) for name, text in headers.items()]
        scope = {
            "type": "http", "method": "GET", "path": path, "query_string": b"", "scheme": "http",
            "headers": [(b"host", b"desk"), *named], "client": ("192.0.2.1", 1),
        }  # fmt: skip
        await self.gate.serve(self, scope, receive, send)
        found = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
        return sent[0]["status"], found, b"".join(each.get("body", b"") for each in sent)


def test_a_page_is_rendered_once_until_something_public_changes() -> None:
    async def scenario() -> None:
        desk = Desk()
        status, headers, first = await desk.get("/a")
        assert status == 200
        assert await desk.get("/a") == (status, headers, first)
        assert (await desk.get("/a", if_none_match=headers["etag"]))[0] == 304
        assert (await desk.get("/b"))[2] != first
        assert desk.rendered == ["/a", "/b"]
        desk.here += 1  # by this process: at once
        assert (await desk.get("/a", if_none_match=headers["etag"]))[2] == b"/a 1 0"
        desk.elsewhere += 1  # by another one: within a second
        assert (await desk.get("/a"))[2] == b"/a 1 0"
        desk.clock.now += 1
        assert (await desk.get("/a"))[2] == b"/a 1 1"
        assert desk.rendered == ["/a", "/b", "/a", "/a"]

    asyncio.run(scenario())


def test_a_file_is_kept_whole_though_who_asked_first_has_left(tmp_path: Path) -> None:
    async def scenario() -> None:
        desk = Desk()
        file = tmp_path / "style.css"
        file.write_bytes(b"a" * 200_000)

        def answer(said: bytes, kind: str) -> Response:
            return FileResponse(file, headers={"Cache-Control": "public"})

        desk.answer = answer  # type: ignore[assignment]
        desk.leaves = True
        await desk.get("/style.css")
        desk.leaves = False
        status, headers, body = await desk.get("/style.css")
        assert (status, len(body), headers["content-length"]) == (200, 200_000, "200000")
        assert len(desk.rendered) == 1

    asyncio.run(scenario())


def test_those_who_ask_for_one_page_together_have_it_rendered_once() -> None:
    async def scenario() -> None:
        desk = Desk()
        found = await asyncio.gather(*(desk.get("/a") for _ in range(50)))
        assert {status for status, _, _ in found} == {200}
        assert desk.rendered == ["/a"]

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("status", "control", "rendered"),
    [(200, "public", 1), (410, "public", 1), (404, "public", 2), (200, "no-store", 2)],
)
def test_what_is_kept(status: int, control: str, rendered: int) -> None:
    async def scenario() -> None:
        desk = Desk()
        headers = {"Cache-Control": control}

        def answer(said: bytes, kind: str) -> Response:
            return Response(said, status, headers, kind)

        desk.answer = answer  # type: ignore[assignment]
        for _ in range(2):
            assert (await desk.get("/a"))[0] == status
        assert len(desk.rendered) == rendered

    asyncio.run(scenario())


def test_nothing_is_sent_from_memory_while_the_database_is_away() -> None:
    async def scenario() -> None:
        desk = Desk()
        await desk.get("/a")
        desk.fails = True
        desk.clock.now += 1
        desk.elsewhere += 1
        assert (await desk.get("/a"))[2] == b"/a 0 1"
        assert len(desk.rendered) == 2

    asyncio.run(scenario())


def test_rendering_leaves_most_of_the_time_to_people_with_keys() -> None:
    async def scenario(*, somebody: bool) -> float:
        desk = Desk()
        desk.gate = Anonymous(
            each_per_minute=0, all_per_minute=0, changes=lambda: 0, marks=lambda: 0
        )  # fmt: skip
        took_s = 0.02

        def slow(said: bytes, kind: str) -> Response:
            time.sleep(took_s)
            return public_answer(said, kind)

        desk.answer = slow  # type: ignore[assignment]
        if somebody:
            desk.gate.note_person()
        begun = time.monotonic()
        await asyncio.gather(*(desk.get(f"/{number}") for number in range(4)))
        return (time.monotonic() - begun) / took_s

    assert asyncio.run(scenario(somebody=True)) >= 4 + 3 * 3
    assert asyncio.run(scenario(somebody=False)) >= 4


def test_too_many_that_wait_are_refused() -> None:
    async def scenario() -> None:
        desk = Desk()
        desk.takes_s = 0.01
        found = await asyncio.gather(
            *(desk.get(f"/{number}") for number in range(80)), return_exceptions=True
        )
        refused = [each for each in found if isinstance(each, Problem)]
        assert len(refused) == 80 - 64
        assert {each.code for each in refused} == {"busy"}

    asyncio.run(scenario())


def statuses(client: httpx.Client, *paths: str, **options: Any) -> list[int]:
    """Ask for some addresses at the same time."""
    with ThreadPoolExecutor(len(paths)) as pool:
        asked = [pool.submit(client.get, path, **options) for path in paths]
        return [each.result().status_code for each in asked]


@pytest.mark.slow
def test_an_address_that_asks_too_much_is_refused_and_nobody_else(tmp_path: Path) -> None:
    with (
        running(tmp_path / "data", anonymous_rate_limit_per_minute=60) as service,
        service.client() as admin,
        service.client(None) as anybody,
        service.client("x" * 40) as guessing,
    ):
        assert statuses(anybody, *["/v1/catalog"] * 15) == [200] * 15
        open_ones = ["/v1/catalog", "/public/releases.json", "/none", "/desk/sign-in", "/desk"]
        for client, path in ((anybody, each) for each in open_ones):
            assert 429 in statuses(client, *[path] * 10), path
        assert 429 in statuses(guessing, *["/v1/datasets"] * 10)
        # who has a key, and who asks whether the service is well, waits for none of it
        assert statuses(admin, *["/v1/keys"] * 10) == [200] * 10
        assert statuses(anybody, "/livez", "/readyz") == [200, 200]
        # behind a proxy that is trusted, an address is the client's
        others = {"X-Forwarded-For": "198.51.100.7"}
        assert statuses(anybody, *["/v1/catalog"] * 10, headers=others) == [200] * 10


def test_what_is_above_the_rate_is_a_problem_like_any_other(tmp_path: Path) -> None:
    with (
        running(
            tmp_path / "data", anonymous_rate_limit_per_minute=4, anonymous_addresses=1
        ) as service,
        service.client(None) as anybody,
    ):
        from_others = [{"X-Forwarded-For": f"198.51.100.{number}"} for number in range(2)]
        assert anybody.get("/v1/catalog", headers=from_others[0]).status_code == 200
        refused = anybody.get("/v1/catalog", headers=from_others[1])
        body = assert_problem(refused, 429, "rate-limited")
        assert int(refused.headers["retry-after"]) == body["retry_after"] <= 15
        page = anybody.get("/desk/sign-in")
        assert (page.status_code, page.headers["content-type"]) == (429, "text/html; charset=utf-8")
        with service.client(ADMIN_KEY) as admin:
            assert admin.get("/v1/keys").status_code == 200


def test_a_withdrawn_release_is_gone_at_once_in_every_form(admin: httpx.Client) -> None:
    made = upload(admin)
    release = str(ask(admin, made["id"]).json()["id"])
    publication = f"/v1/releases/{release}/publication"
    headers = {"If-Match": "*"}
    assert admin.post(publication, json={"reason": "r"}, headers=headers).status_code == 201
    page = f"/public/releases/{release}"
    forms = [page, f"{page}.json", f"{page}.csv", f"{page}/certificate"]
    lists = ["/public", "/public/releases.json", "/public/feed.atom"]
    export = f"/public/datasets/{made['id']}/croissant.json"
    tags = {}
    for path in (*forms, *lists, export):
        for _ in range(2):
            found = admin.get(path)
            assert found.status_code == 200, path
            assert release in found.text or path.endswith(".csv"), path
        tags[path] = found.headers["etag"]
        again = admin.get(path, headers={"If-None-Match": tags[path]})
        assert (again.status_code, again.content) == (304, b""), path
        assert "content-type" not in again.headers
    edit = {"reason": "clearer", "labels": {"income": "Yearly earnings"}}
    assert admin.patch(f"/v1/datasets/{made['id']}", json=edit).status_code == 200
    assert "Yearly earnings" in admin.get(page).text
    assert admin.post(f"{publication}/withdrawal", json={"note": "n"}).status_code == 200
    for path in forms:
        assert admin.get(path, headers={"If-None-Match": tags[path]}).status_code == 410, path
    for path in lists:
        assert release not in admin.get(path, headers={"If-None-Match": tags[path]}).text, path
    assert admin.get(export).status_code == 404


@pytest.mark.parametrize("path", ["/v1/catalog", "/openapi.json", "/docs", "/problems/busy"])
def test_what_never_changes_has_a_tag(admin: httpx.Client, path: str) -> None:
    found = admin.get(path)
    assert found.headers["cache-control"].startswith("public")
    again = admin.get(path, headers={"If-None-Match": found.headers["etag"]})
    assert (found.status_code, again.status_code) == (200, 304)
