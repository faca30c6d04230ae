"""The OpenAPI document is a snapshot; the reference page is complete and stands alone.

Refresh with ``python -m app.api.openapi tests/contract/openapi.json``.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import httpx
import pytest

from app.api.openapi import snapshot
from app.domain.problems import PROBLEMS
from mechanisms.catalog import STATISTICS

SNAPSHOT = Path(__file__).parent / "openapi.json"
DOCUMENT: dict[str, Any] = json.loads(snapshot())


def test_the_snapshot_is_up_to_date() -> None:
    assert SNAPSHOT.read_text("utf-8") == snapshot(), (
        "run: python -m app.api.openapi tests/contract/openapi.json"
    )


def test_the_service_serves_it(anonymous: httpx.Client) -> None:
    assert anonymous.get("/openapi.json").json() == DOCUMENT


def _references(part: Any) -> set[str]:
    if isinstance(part, dict):
        own = {part["$ref"]} if isinstance(part.get("$ref"), str) else set()
        return own.union(*map(_references, part.values()))
    return set().union(*map(_references, part)) if isinstance(part, list) else set()


def test_every_reference_resolves() -> None:
    names = {f"#/components/schemas/{name}" for name in DOCUMENT["components"]["schemas"]}
    assert _references(DOCUMENT) <= names


def test_requests_show_every_statistic() -> None:
    schemas = DOCUMENT["components"]["schemas"]
    mapping = schemas["ReleaseRequest"]["properties"]["statistic"]["discriminator"]["mapping"]
    assert set(mapping) == set(STATISTICS)
    for reference in mapping.values():
        schema = schemas[reference.rsplit("/", 1)[-1]]
        assert schema["additionalProperties"] is False
        assert "kind" in schema["required"]


@pytest.mark.parametrize("path", sorted(DOCUMENT["paths"]))
def test_every_operation_is_described(path: str) -> None:
    for method, operation in DOCUMENT["paths"][path].items():
        assert re.fullmatch(r"[a-z]+[A-Z]\w+", operation["operationId"]), operation["operationId"]
        assert operation["description"]
        if operation.get("security") != []:
            assert "401" in operation["responses"]
        for status, answer in operation["responses"].items():
            if status >= "400":
                assert list(answer["content"]) == ["application/problem+json"], (method, path)
                for code in re.findall(r"`([a-z-]+)`", answer["description"]):
                    assert PROBLEMS[code].status == int(status)


def test_the_reference_page_is_complete_and_stands_alone(anonymous: httpx.Client) -> None:
    page = anonymous.get("/docs/reference")
    assert page.headers["content-type"].startswith("text/html")
    policy = page.headers["content-security-policy"]
    assert re.fullmatch(
        r"default-src 'none'; style-src 'sha256-[\w+/=]+'; frame-ancestors 'none'", policy
    )
    assert "<script" not in page.text
    assert not re.search(r"""(?:src|href)=["'](?!/|#)""", page.text)
    for path, operations in DOCUMENT["paths"].items():
        for method in operations:
            assert f"{method.upper()} {path}" in page.text
            for answer in operations[method]["responses"].values():
                for header in answer.get("headers", ()):
                    assert f"<code>{header}</code>" in page.text
    for name in DOCUMENT["components"]["schemas"]:
        assert f'id="schema-{name}"' in page.text
    for target in re.findall(r'href="#([^"]+)"', page.text):
        assert f'id="{target}"' in page.text


def test_the_problem_index_lists_every_code(anonymous: httpx.Client) -> None:
    page = anonymous.get("/problems").text
    for code in PROBLEMS:
        assert f'href="/problems/{code}"' in page
