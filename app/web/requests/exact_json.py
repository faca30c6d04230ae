"""JSON as it was written: decimal text kept, nothing doubtful let through.

The standard parser would round ``0.1000000001`` before it could be refused,
take the last of two equal keys, and read ``NaN``. This one keeps the text of
every number that is money, and refuses duplicate keys, numbers that are not
finite, lone surrogates (they cannot be stored) and extreme nesting.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from decimal import Decimal
from functools import cache, lru_cache
from typing import Any, Final, NoReturn, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import SchemaValidator

from app.domain.problems import Problem, invalid_request
from app.web.requests.validation import Fields, validation_problem

Model = TypeVar("Model", bound=BaseModel)

_MONEY: Final = frozenset({"epsilon", "max_epsilon_per_release"})
_WITHIN: Final = (("inference", "share"), ("budget", "delta"))
"""Money that has its name for itself within another object only: a stack's share is a weight."""
_OBJECTS: Final = ("dataclass", "definition-ref", "model")
_LARGEST_EXACT = 2**53
"""From here on a whole number may be no float: 9007199254740993.0 is read as an integer."""
_MAX_DEPTH = 32  # deeper than any question of ours, and far from the parser's own end
_MAX_DIGITS = 400  # the largest float has 309 before its point

SHORT_BYTES = 4096
"""Up to here a document may be read where others wait, on the event loop: the worst takes 30 ms
of one core, and one of 16 KiB already 100 to 200."""
_ORDINARY_BYTES = 2**16
_ORDINARY_FAULTS = 1000
"""In documents of more bytes, or with more faults, only the first fault of each list or mapping
is reported: a MiB can have a million, and reporting them would take GiB and many seconds."""
_MOST_PARTS = 1000
"""More conditions, or parts of a stack, than any question has; in such documents only."""


class _RefusedError(ValueError):
    """What is wrong with the text, in our own words."""


class _Written(float):
    """A float that remembers the text it was read from."""

    __slots__ = ("text",)
    text: str


def _read_float(text: str) -> _Written | int:
    number = _Written(text)
    if _LARGEST_EXACT <= abs(number) <= sys.float_info.max and (whole := _whole(text)) is not None:
        return whole
    number.text = text
    return number


def _whole(text: str) -> int | None:
    """Return the integer that a number with a point or an exponent is, None where it is none."""
    exact = Decimal(text)
    return int(exact) if exact == exact.to_integral_value() else None


def _read_int(text: str) -> int:
    if len(text) > _MAX_DIGITS:
        raise _RefusedError("a number has too many digits")
    return int(text)


def _refuse_constant(_: str) -> NoReturn:
    raise _RefusedError("NaN and Infinity are not JSON numbers")


def _read_object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    # The last of two equal keys would win here, and the first elsewhere: neither is guessed.
    members = dict(pairs)
    if len(members) != len(pairs):
        raise _RefusedError("an object has the same key twice")
    for name in members.keys() & _MONEY:
        members[name] = _as_text(members[name])
    for outer, name in _WITHIN:
        inner = members.get(outer)
        if isinstance(inner, dict) and name in inner:
            inner[name] = _as_text(inner[name])
    return members


def _as_text(value: object) -> object:
    if isinstance(value, _Written):
        return value.text
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return value


def _check(value: object, depth: int = 0) -> None:
    if depth > _MAX_DEPTH:
        raise _RefusedError("the document is nested too deeply")
    if isinstance(value, (int, float)) and abs(value) > sys.float_info.max:
        raise _RefusedError("a number is too large")  # written as an integer or not
    if isinstance(value, str):
        # Raises for a lone surrogate, which JSON can write and no database store.
        value.encode("utf-8")
    children: Iterable[object] = ()
    if isinstance(value, dict):
        children = (*value.keys(), *value.values())
    elif isinstance(value, list):
        children = value
    for child in children:
        _check(child, depth + 1)


def read_json(body: bytes) -> object:
    """Parse a JSON document exactly; money members become decimal text.

    Raises
    ------
    Problem
        ``invalid-request``; says what is wrong, never what was sent.
    """
    try:
        value: object = json.loads(
            body.decode("utf-8"),
            parse_float=_read_float,
            parse_int=_read_int,
            parse_constant=_refuse_constant,
            object_pairs_hook=_read_object,
        )
        _check(value)
    except _RefusedError as refusal:
        raise _invalid(str(refusal)) from None
    except UnicodeError:
        raise _invalid("is not valid UTF-8 text") from None
    except RecursionError:
        raise _invalid("the document is nested too deeply") from None
    except json.JSONDecodeError as error:
        raise _invalid(
            f"is not a JSON document: see line {error.lineno}, column {error.colno}"
        ) from None
    except ValueError:
        raise _invalid("is not a JSON document") from None
    return value


def read_model(model: type[Model], body: bytes) -> Model:
    """Parse and validate a JSON document strictly: no coercion, no unknown members.

    Short documents that were valid are remembered, for the same question is
    asked again and again; models are immutable.

    Raises
    ------
    Problem
        ``invalid-request`` with one entry per place that is wrong.
    """
    if len(body) > SHORT_BYTES:
        return _read_model(model, body)
    found = _remembered(model, body)
    if not isinstance(found, model):
        raise AssertionError("a model is read as itself")
    return found


@lru_cache(maxsize=512)
def _remembered(model: type[BaseModel], body: bytes) -> BaseModel:
    return _read_model(model, body)


def _read_model(model: type[Model], body: bytes) -> Model:
    value = read_json(body)
    # pydantic is strict in the sense of JSON (lists are tuples, text is not a number)
    # only when it reads JSON itself; floats survive the round trip by their shortest text
    text = json.dumps(value)
    try:
        if len(body) > _ORDINARY_BYTES:
            return _read_hastily(model, text)
        try:
            return model.model_validate_json(text, strict=True)
        except ValidationError as error:
            if error.error_count() <= _ORDINARY_FAULTS:
                raise
        return _read_hastily(model, text)
    except ValidationError as error:
        findings = error.errors(include_url=False, include_input=False)
        raise validation_problem(findings, value, fields=_fields(model)) from None


def _read_hastily(model: type[Model], text: str) -> Model:
    """Read a document, but no list or mapping any further than to its first fault."""
    read = _hasty(model).validate_json(text, strict=True)
    if not isinstance(read, model):
        raise AssertionError("a model is read as itself")
    return read


@cache
def _hasty(model: type[BaseModel]) -> SchemaValidator:
    # the model's own validator, which would be taken for its schema, does not hurry
    schema = _hastened(model.__pydantic_core_schema__)
    return SchemaValidator(schema, _use_prebuilt=False)


def _hastened(part: Any) -> Any:
    """Return a validator's schema with every list and mapping in it failing fast."""
    if isinstance(part, list | tuple):
        return type(part)(map(_hastened, part))
    if not isinstance(part, dict):
        return part
    hastened = {name: _hastened(inner) for name, inner in part.items()}
    if part.get("type") in ("dict", "list", "tuple"):
        hastened["fail_fast"] = True
    if part.get("type") == "tuple" and part["items_schema"][0]["type"] in _OBJECTS:
        hastened["max_length"] = _MOST_PARTS
    return hastened


@cache
def _fields(model: type[BaseModel]) -> Fields:
    return Fields(model.model_json_schema())


def _invalid(message: str) -> Problem:
    return invalid_request("body", message)
