"""What keeps an endpoint to one module and one line, read from the sources."""

from __future__ import annotations

import ast
import asyncio
from pathlib import Path
from typing import Any

import pytest

from app.api import endpoints
from app.api.application import ROUTERS
from app.api.dependencies import DirectEndpoint, DirectRoutes
from tests.tiers import in_one

FOLDER = Path(endpoints.__file__).parent
MODULES = sorted(path for path in FOLDER.glob("*.py") if path.stem != "__init__")
_OWN_WORK = ("Response", "JSONResponse", "model_validate")


def answers_made(source: str) -> list[str]:
    """Return the calls that make an answer otherwise than by a function of ``app.api.answers``."""
    called = (node.func for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call))
    names = [ast.unparse(function).rpartition(".")[2] for function in called]
    return [name for name in names if name in _OWN_WORK or name.endswith("Answer")]


@in_one("module", MODULES)
def test_endpoints_make_no_answer_themselves(module: Path) -> None:
    assert answers_made(module.read_text("utf-8")) == []


@pytest.mark.parametrize("made", _OWN_WORK)
def test_an_answer_that_is_made_by_an_endpoint_is_found(made: str) -> None:
    assert answers_made(f"def call():\n    return answers.{made}(1)\n") == [made]


@in_one("module", MODULES)
def test_every_module_has_its_line_in_the_routes(module: Path) -> None:
    listed = {route.endpoint.__module__ for router in ROUTERS for route in router.routes}
    assert f"{endpoints.__name__}.{module.stem}" in listed


@pytest.mark.parametrize(
    ("method", "path", "direct"),
    [
        ("POST", "/v1/datasets/ds_1/releases", True),
        ("GET", "/v1/datasets/ds_1/releases", False),
        ("POST", "/v1/datasets/ds_1/releases/", False),
        ("POST", "/v1/datasets", False),
    ],
)
def test_only_what_a_direct_endpoint_takes_passes_the_framework_by(
    monkeypatch: pytest.MonkeyPatch, method: str, path: str, direct: bool
) -> None:
    reached: list[tuple[str, Any]] = []

    async def handle(self: DirectEndpoint, scope: Any, _receive: Any, _send: Any) -> None:
        reached.append((self.path, scope["path_params"]))

    async def framework(scope: Any, _receive: Any, _send: Any) -> None:
        reached.append((scope["path"], scope.get("path_params")))

    monkeypatch.setattr(DirectEndpoint, "handle", handle)
    routes = DirectRoutes(framework, [route for router in ROUTERS for route in router.routes])
    nothing: Any = None
    asyncio.run(routes({"type": "http", "method": method, "path": path}, nothing, nothing))
    own = ("/v1/datasets/{dataset}/releases", {"dataset": "ds_1"})
    assert reached == [own if direct else (path, None)]
