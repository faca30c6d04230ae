"""The header `Reading` is taken as the description of the API says, and no otherwise."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from starlette.requests import Request

from app.api.application import snapshot
from app.domain.problems import Problem
from app.web.state import waiting

TEXTS = (
    *("a", "~", "my 1", "a  b", "a ", "!" * 100, "!" * 101),
    *("", "a\tb", "a\x7fb", "\x00", "é"),
)


@pytest.fixture(scope="module")
def described() -> list[dict[str, Any]]:
    paths = json.loads(snapshot())["paths"]
    return [
        parameter["schema"]
        for path in paths.values()
        for operation in path.values()
        for parameter in operation.get("parameters", [])
        if parameter["name"] == "Reading"
    ]


def _is_taken(text: str) -> bool:
    header = (b"reading", text.encode("latin-1"))
    try:
        waiting(Request({"type": "http", "headers": [header]}))
    except Problem:
        return False
    return True


@pytest.mark.parametrize("text", TEXTS)
def test_what_is_described_is_what_is_taken(text: str, described: list[dict[str, Any]]) -> None:
    assert described
    for schema in described:
        fits = schema["minLength"] <= len(text) <= schema["maxLength"]
        assert _is_taken(text) == (fits and re.search(schema["pattern"], text) is not None)
