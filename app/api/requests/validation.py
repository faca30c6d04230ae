"""From a validator's findings to our words: where it is wrong and why, never what was sent.

The validator's own messages repeat input, and so do its locations when an
object's keys are the client's. A location is therefore rebuilt from names
this service knows; a key it does not know becomes its position.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from app.domain.problems import Problem

_MAX_ERRORS = 20
_TAGGED = frozenset({"union_tag_invalid", "union_tag_not_found"})
_UNKNOWN_FIELD = frozenset({"extra_forbidden", "unexpected_keyword_argument"})

_MESSAGES: Mapping[str, str] = {
    "missing": "is required",
    "extra_forbidden": "holds a field that is not known here",
    "unexpected_keyword_argument": "holds a field that is not known here",
    "union_tag_not_found": "is required",
    "string_type": "must be text",
    "string_too_short": "is too short",
    "string_too_long": "is too long",
    "string_pattern_mismatch": "has the wrong form",
    "int_type": "must be a whole number",
    "int_from_float": "must be a whole number",
    "int_parsing": "must be a whole number",
    "int_parsing_size": "is too large",
    "float_type": "must be a number",
    "float_parsing": "must be a number",
    "finite_number": "must be a finite number",
    "bool_type": "must be true or false",
    "bool_parsing": "must be true or false",
    "list_type": "must be a list",
    "tuple_type": "must be a list",
    "dict_type": "must be an object",
    "mapping_type": "must be an object",
    "model_type": "must be an object",
    "model_attributes_type": "must be an object",
    "dataclass_type": "must be an object",
    "dataclass_exact_type": "must be an object",
    "too_short": "has too few items",
    "too_long": "has too many items",
    "none_required": "must be null",
    "datetime_parsing": "must be a date and time in ISO 8601, with an offset",
    "datetime_from_date_parsing": "must be a date and time in ISO 8601, with an offset",
    "timezone_aware": "must name its offset from UTC",
    "datetime_type": "must be a date and time in ISO 8601, with an offset",
}
_WITH_CONTEXT: Mapping[str, tuple[str, str]] = {
    "literal_error": ("must be one of {}", "expected"),
    "enum": ("must be one of {}", "expected"),
    "union_tag_invalid": ("must be one of {}", "expected_tags"),
    "greater_than": ("must be greater than {}", "gt"),
    "greater_than_equal": ("must be at least {}", "ge"),
    "less_than": ("must be less than {}", "lt"),
    "less_than_equal": ("must be at most {}", "le"),
    "own_words": ("{}", "message"),
}


def validation_problem(
    findings: Sequence[Mapping[str, Any]], value: object, *, known: Collection[str]
) -> Problem:
    """Return the ``invalid-request`` problem for a validator's findings about ``value``.

    Parameters
    ----------
    findings
        The validator's errors, without their inputs.
    value
        The parsed document the locations refer to.
    known
        Every field name this service itself defines for the document.
    """
    places, messages = _Places(value, known), dict[str, list[str]]()
    for finding in findings:
        place = places.of(finding)
        if place not in messages and len(messages) == _MAX_ERRORS:
            continue
        told = messages.setdefault(place, [])
        if (message := _message(finding)) not in told:
            told.append(message)
    errors = [{"field": field, "message": " or ".join(told)} for field, told in messages.items()]
    return Problem(
        "invalid-request", f"{errors[0]['field']}: {errors[0]['message']}.", errors=errors
    )


def _message(finding: Mapping[str, Any]) -> str:
    kind, context = str(finding["type"]), finding.get("ctx", {})
    if kind in _WITH_CONTEXT:
        template, name = _WITH_CONTEXT[kind]
        return template.format(context[name])
    return _MESSAGES.get(kind, "is not valid")


class _Places:
    """Where findings about a document are, in time that grows with the document and no faster."""

    def __init__(self, document: object, known: Collection[str]) -> None:
        self._document = document
        self._known = known
        self._positions: dict[int, Mapping[object, int]] = {}

    def of(self, finding: Mapping[str, Any]) -> str:
        """Return e.g. ``statistic.columns[0]``; a client's own key appears as its position."""
        location: Sequence[str | int] = finding["loc"]
        value, place = self._document, ""
        for depth, step in enumerate(location, start=1):
            if isinstance(value, list) and isinstance(step, int):
                place += f"[{step}]"
                value = value[step] if step < len(value) else None
            elif isinstance(value, dict) and step in value and step not in self._known:
                if finding["type"] in _UNKNOWN_FIELD and depth == len(location):
                    break
                place += f"[{self._position(value, step)}]"
                value = value[step]
            elif step in self._known:
                place += f".{step}" if place else str(step)
                value = value.get(step) if isinstance(value, dict) else None
            # anything else names a branch of a union, not a place
        if finding["type"] in _TAGGED:
            tag = finding["ctx"]["discriminator"].strip("'")
            place += f".{tag}" if place else tag
        return place or "body"

    def _position(self, mapping: Mapping[Any, object], key: object) -> int:
        """Return which of a mapping's keys this is; they are counted once (it lives on here)."""
        found = self._positions.get(id(mapping))
        if found is None:
            found = {each: number for number, each in enumerate(mapping)}
            self._positions[id(mapping)] = found
        return found[key]
