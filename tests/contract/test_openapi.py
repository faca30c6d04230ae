"""The OpenAPI document is a snapshot; the reference page is complete and stands alone.

Refresh with ``python -m app.api.application tests/contract/openapi.json``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.testclient import TestClient

from app.api.application import bare_application, snapshot
from app.api.pages.layout import inline
from app.domain.problems import PROBLEMS
from mechanisms.catalog import STATISTICS
from tests.tiers import in_one

SNAPSHOT = Path(__file__).parent / "openapi.json"
DOCUMENT: dict[str, Any] = json.loads(snapshot())


def test_the_snapshot_is_up_to_date() -> None:
    assert SNAPSHOT.read_text("utf-8") == snapshot(), (
        "run: python -m app.api.application tests/contract/openapi.json"
    )


def test_the_service_serves_it(anonymous: httpx.Client) -> None:
    assert anonymous.get("/openapi.json").json() == DOCUMENT


def test_it_is_encoded_once() -> None:
    """Anyone may ask for it, and it is long."""
    app = bare_application()
    with TestClient(app) as client:
        first = client.get("/openapi.json")
        app.openapi = lambda: pytest.fail("encoded again")  # type: ignore[method-assign]
        assert client.get("/openapi.json").content == first.content
    assert first.headers["content-type"] == "application/json"


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


def _described(part: Any, place: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield every member of a body and every parameter of a request, with its place."""
    if isinstance(part, dict):
        for name, schema in part.get("properties", {}).items():
            if isinstance(schema, dict):
                yield f"{place}.{name}", schema
        # of a link they are values by name
        parameters = part.get("parameters", ())
        for parameter in parameters if isinstance(parameters, list) else ():
            yield f"{place}.{parameter['name']}", parameter
        for name, inner in part.items():
            yield from _described(inner, f"{place}.{name}")
    elif isinstance(part, list):
        for at, inner in enumerate(part):
            yield from _described(inner, f"{place}[{at}]")


def test_every_member_and_every_parameter_says_what_it_means() -> None:
    found = dict(_described(DOCUMENT))
    assert len(found) > 200
    assert [place for place, each in found.items() if not each.get("description")] == []
    for place, each in found.items():
        assert re.search(r"[.:]$", each["description"]), f"{place} does not end its sentence"


def _shows_itself(schema: dict[str, Any]) -> bool:
    return bool(schema.get("examples")) or "const" in schema or "discriminator" in schema


def test_everything_that_is_sent_has_an_example() -> None:
    schemas = DOCUMENT["components"]["schemas"]
    # what is sent is closed to unknown members; `ReceiptRequest` is an answer that is sent back
    sent = [name for name, each in schemas.items() if each.get("additionalProperties") is False]
    assert {"Mean", "Condition", "Part", "DatasetSpec", "CapRequest"} <= set(sent)
    for name in [*sent, "ReceiptRequest"]:
        for member, schema in schemas[name]["properties"].items():
            assert _shows_itself(schema), f"{name}.{member}"
    parameters = (each for _, each in _described(DOCUMENT["paths"]) if "in" in each)
    assert all(each["schema"].get("examples") or each.get("examples") for each in parameters)


def test_a_member_without_a_description_would_be_found() -> None:
    bare = {"properties": {"kind": {"type": "string"}}, "parameters": [{"name": "limit"}]}
    found = dict(_described(bare))
    assert [place for place, each in found.items() if "description" not in each] == [
        ".kind",
        ".limit",
    ]
    assert not _shows_itself({"type": "string", "description": "A text."})


@in_one("path", sorted(DOCUMENT["paths"]))
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
        r"default-src 'none'; img-src 'self'; style-src 'sha256-[\w+/=]+'; frame-ancestors 'none'",
        policy,
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
    for _, described in _described(DOCUMENT):
        assert inline(described["description"]) in page.text
    for statistic in STATISTICS.values():
        assert escape(json.dumps(statistic.example), quote=False) in page.text
    for target in re.findall(r'href="#([^"]+)"', page.text):
        assert f'id="{target}"' in page.text


def test_the_problem_index_lists_every_code(anonymous: httpx.Client) -> None:
    page = anonymous.get("/problems").text
    for code in PROBLEMS:
        assert f'href="/problems/{code}"' in page
