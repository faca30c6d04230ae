"""A header of the client's own words is taken as the description of the API says, and no other."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
from starlette.requests import Request

from app.api.dependencies import idempotency_key_of
from app.api.openapi.snapshot import snapshot
from app.domain.problems import Problem
from app.web.requests.leaving import waiting

READERS: dict[str, Callable[[Request], object]] = {
    "Idempotency-Key": idempotency_key_of,
    "Reading": waiting,
}
TEXTS = (
    *("a", "~", "my 1", "a  b", "a ", "!" * 100, "!" * 101, "!" * 200, "!" * 201),
    *("", "a\tb", "a\x7fb", "\x00", "é"),
)


@cache
def _described(name: str) -> list[dict[str, Any]]:
    paths = json.loads(snapshot())["paths"]
    return [
        parameter["schema"]
        for path in paths.values()
        for operation in path.values()
        for parameter in operation.get("parameters", [])
        if parameter["name"] == name
    ]


def _is_taken(name: str, text: str) -> bool:
    header = (name.lower().encode(), text.encode("latin-1"))
    try:
        READERS[name](Request({"type": "http", "headers": [header]}))
    except Problem:
        return False
    return True


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("name", READERS)
def test_what_is_described_is_what_is_taken(name: str, text: str) -> None:
    found = _described(name)
    assert found
    for schema in found:
        fits = schema["minLength"] <= len(text) <= schema["maxLength"]
        assert _is_taken(name, text) == (fits and re.search(schema["pattern"], text) is not None)
