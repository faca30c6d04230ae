"""JSON is read as it was written, and strictly."""

from __future__ import annotations

import json

import pytest
from pydantic import BaseModel

from app.domain.problems import Problem
from app.web.requests.exact_json import read_json, read_model
from tests.tiers import in_one


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


@in_one(
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


@in_one(
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


def faults(text: bytes) -> list[str]:
    with pytest.raises(Problem) as refused:
        read_model(Whole, text)
    errors = refused.value.extras["errors"]
    assert isinstance(errors, list)
    return [str(each["field"]) for each in errors]


def names(*found: object, padding: int = 0) -> bytes:
    part = {"level": 1, "names": [*found, *["x"] * padding]}
    return json.dumps({"parts": {"a": part, "b": part}}).encode()


def test_an_ordinary_document_tells_a_hundred_faults() -> None:
    listed = [f"parts[0].names[{place}]" for place in range(60)]
    assert faults(names(*[1] * 60)) == listed + [f"parts[1].names[{place}]" for place in range(40)]


@pytest.mark.parametrize("content", [names(1, 1, padding=8_000), names(*[1] * 501)])
def test_a_long_document_and_one_of_many_faults_tell_the_first_of_a_list(content: bytes) -> None:
    assert faults(content) == ["parts[0].names[0]"]


def test_a_long_document_is_read_as_a_short_one() -> None:
    long = read_model(Whole, names("a", "b", padding=8_000))
    short = read_model(Whole, names("a", "b"))
    assert long.parts["a"].names == short.parts["a"].names + ("x",) * 8_000
    assert type(long.parts["b"]) is Part


def test_a_hundred_faults_of_very_many_are_found_in_time() -> None:
    keys = ",".join(f'"{number}":1' for number in range(900))
    found = faults(f'{{"parts":{{{keys}}}}}'.encode())
    assert found == [f"parts[{place}]" for place in range(100)]


@in_one(
    ("text", "number"),
    [
        (b"9007199254740993.0", 2**53 + 1),
        (b"9.007199254740993e15", 2**53 + 1),
        (b"-9007199254740993.00", -(2**53) - 1),
        (b"9007199254740993", 2**53 + 1),
        (b"9007199254740993.5", 9007199254740994.0),
        (b"40.0", 40.0),
    ],
)
def test_a_whole_number_goes_through_no_float(text: bytes, number: float) -> None:
    assert read_json(text) == number
