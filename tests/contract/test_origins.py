"""Pages of other sites: they read answers where the setting names their origin, and only there."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import httpx
import pytest
from pydantic import ValidationError

from app.api.application import bare_application
from app.settings import PREFIX, Settings
from tests.contract.service import Service, ask, assert_problem, running, upload

OURS, LOCAL, OTHER = "https://notes.example.org", "http://[::1]:8888", "https://elsewhere.example"
SHARED = "access-control-allow-origin"


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    place = tmp_path_factory.mktemp("origins") / "data"
    with running(place, cors_origins=f"{OURS} , {LOCAL}") as found:
        yield found


@pytest.fixture(scope="module")
def everywhere(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with running(tmp_path_factory.mktemp("everywhere") / "data", cors_origins="*") as found:
        yield found


def preflight(
    client: httpx.Client, origin: str, path: str, *, private: bool = False
) -> httpx.Response:
    headers = {
        **({"Access-Control-Request-Private-Network": "true"} if private else {}),
        "Origin": origin,
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "authorization,content-type,idempotency-key",
    }
    return client.options(path, headers=headers)


@pytest.mark.parametrize("origin", [OURS, LOCAL])
def test_a_named_origin_may_ask_and_read(shared: Service, origin: str) -> None:
    with shared.client() as client:
        dataset = upload(client)["id"]
        first = preflight(client, origin, f"/v1/datasets/{dataset}/releases")
        assert first.status_code == 200
        assert first.headers[SHARED] == origin
        assert "POST" in first.headers["access-control-allow-methods"]
        assert "idempotency-key" in first.headers["access-control-allow-headers"]
        assert first.headers["x-request-id"]
        client.headers["Origin"] = origin
        made = ask(client, dataset)
    assert made.status_code == 201
    assert made.headers[SHARED] == origin
    assert "Origin" in made.headers["vary"]
    exposed = made.headers["access-control-expose-headers"].split(", ")
    assert {"ETag", "Link", "Location", "Retry-After"} <= set(exposed)
    assert "access-control-allow-credentials" not in {*made.headers, *first.headers}


def test_a_refusal_is_readable_too(shared: Service) -> None:
    with shared.client(None) as client:
        refused = client.get("/v1/datasets", headers={"Origin": OURS})
        assert_problem(refused, 401)
        assert refused.headers[SHARED] == OURS


def test_a_failure_is_readable_too() -> None:
    app = bare_application(origins=(OURS,))

    async def fail() -> None:
        raise RuntimeError

    app.add_api_route("/v1/fails", fail)
    transport = httpx.ASGITransport(app)

    async def sent() -> httpx.Response:
        async with httpx.AsyncClient(transport=transport, base_url="http://desk") as client:
            return await client.get("/v1/fails", headers={"Origin": OURS})

    failed = asyncio.run(sent())
    assert_problem(failed, 500, "internal")
    assert failed.headers[SHARED] == OURS


def test_another_origin_is_answered_as_if_there_were_none(shared: Service) -> None:
    with shared.client() as client:
        assert_problem(preflight(client, OTHER, "/v1/datasets"), 405)
        read = client.get("/v1/datasets", headers={"Origin": OTHER})
    assert read.status_code == 200
    assert SHARED not in read.headers


@pytest.mark.parametrize(
    "path", ["/desk", "/desk/sign-in", "/public", "/docs", "/metrics", "/livez"]
)
def test_pages_and_operation_are_not_shared(everywhere: Service, path: str) -> None:
    with everywhere.client(None) as client:
        read = client.get(path, headers={"Origin": OTHER})
        first = preflight(client, OTHER, path)
    found = {name for answer in (read, first) for name in answer.headers}
    assert not {name for name in found if name.startswith("access-control")}


@pytest.mark.parametrize(
    ("path", "status"), [("/v1/catalog", 200), ("/openapi.json", 200), ("/public/feed.atom", 200)]
)
def test_every_site_reads_the_api_by_wildcard(everywhere: Service, path: str, status: int) -> None:
    with everywhere.client(None) as client:
        read = client.get(path, headers={"Origin": OTHER})
    assert (read.status_code, read.headers[SHARED]) == (status, "*")


def test_a_private_network_is_reached_by_name_alone(everywhere: Service, shared: Service) -> None:
    private = "access-control-allow-private-network"
    with everywhere.client(None) as client:
        assert preflight(client, OTHER, "/v1/catalog").headers[SHARED] == "*"
        refused = preflight(client, OTHER, "/v1/catalog", private=True)
    assert_problem(refused, 405)
    assert private not in refused.headers
    with shared.client(None) as client:
        allowed = preflight(client, OURS, "/v1/catalog", private=True)
    assert (allowed.status_code, allowed.headers[private]) == (200, "true")


def test_what_a_cache_keeps_for_one_origin_is_not_for_another(shared: Service) -> None:
    with shared.client() as client:
        assert "Origin" in client.get("/v1/catalog").headers["vary"]


def test_by_default_nobody_may(service: Service) -> None:
    with service.client() as client:
        assert_problem(preflight(client, OURS, "/v1/datasets"), 405)
        read = client.get("/v1/datasets", headers={"Origin": OURS})
    assert not [name for name in read.headers if name.startswith("access-control")]


@pytest.mark.parametrize(
    ("text", "origins"),
    [("", ()), ("*", ("*",)), (f"{OURS},{LOCAL}", (OURS, LOCAL))],
)
def test_origins_are_a_list_with_commas(text: str, origins: tuple[str, ...]) -> None:
    assert Settings(cors_origins=text).resolved_cors_origins == origins


@pytest.mark.parametrize(
    "text", ["notes.example.org", "https://a.example/", "https://A.example", "*,https://a.example"]
)
def test_what_no_browser_sends_is_refused(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(f"{PREFIX}CORS_ORIGINS", text)
    with pytest.raises(ValidationError, match="cors_origins"):
        Settings()
