"""JSON is read as it was written, and strictly."""

from __future__ import annotations

import pytest
from pydantic import BaseModel

from app.api.exact_json import read_json, read_model
from app.domain.problems import Problem


class Part(BaseModel, extra="forbid"):
    level: float
    names: tuple[str, ...] = ()


class Whole(BaseModel, extra="forbid"):
    parts: dict[str, Part]


def test_money_keeps_its_text() -> None:
    assert read_json(b'{"epsilon": 0.10, "max_epsilon_per_release": 1e-9, "level": 0.5}') == {
        "epsilon": "0.10",
        "max_epsilon_per_release": "1e-9",
        "level": 0.5,
    }
    assert read_json(b'{"epsilon": true}') == {"epsilon": True}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b'{"a":1,"a":1}', "the same key twice"), (b'[{"x":{"a":1,"a":2}}]', "the same key twice"),
        (b"[NaN]", "not JSON numbers"), (b"[-Infinity]", "not JSON numbers"),
        (b"[1e999]", "too large"), (b"[-1e999]", "too large"), (b"9" * 500, "too many digits"),
        (b"[1" + b"0" * 309 + b"]", "too large"), (b"[-2" + b"0" * 308 + b"]", "too large"),
        (b'["\\udfff"]', "UTF-8"), (b'{"\\ud800":1}', "UTF-8"), (b"\xff", "UTF-8"),
        (b"[" * 40 + b"]" * 40, "too deeply"), (b"[" * 100_000, "too deeply"),
        (b"", "not a JSON document"), (b"[1,]", "not a JSON document"),
        (b"\xef\xbb\xbf{}", "not a JSON document"),
    ],
)  # fmt: skip
def test_what_is_doubtful_is_refused(text: bytes, message: str) -> None:
    with pytest.raises(Problem) as refused:
        read_json(text)
    assert refused.value.code == "invalid-request"
    assert message in refused.value.detail


@pytest.mark.parametrize(
    ("text", "field"),
    [
        (b'{"parts":{"secret":{"level":"x"}}}', "parts[0].level"),
        (b'{"parts":{"a":{"level":1},"secret":{"level":1,"names":[1]}}}', "parts[1].names[0]"),
        (b'{"parts":{"secret":{"level":1,"hidden":1}}}', "parts[0]"),
        (b'{"parts":{"secret":{}}}', "parts[0].level"),
        (b'{"parts":1}', "parts"),
        (b'{"parts":{"level":{"level":true}}}', "parts.level.level"),
        (b"[]", "body"),
    ],
)
def test_places_are_named_and_keys_of_the_client_are_not(text: bytes, field: str) -> None:
    with pytest.raises(Problem) as refused:
        read_model(Whole, text)
    errors = refused.value.extras["errors"]
    assert isinstance(errors, list)
    assert errors[0]["field"] == field
    for word in ("secret", "hidden", "input"):
        assert word not in str((refused.value.detail, errors))
