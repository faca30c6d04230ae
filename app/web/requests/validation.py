"""From a validator's findings to our words: where it is wrong and why, never what was sent.

The validator's own messages repeat input, and so do its locations when an
object's keys are the client's. A location is therefore rebuilt from names
this service knows; a key it does not know becomes its position. The one
exception is a column that a spec declares: its name is public, and is shown.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from app.domain.datasets import column_named
from app.domain.problems import Problem
from mechanisms.contract import InvalidStatisticError
from mechanisms.words import closest, listed, meant, unknown, worded

Schema = Mapping[str, Any]


class Fields:
    """The fields of a document, by its JSON schema.

    Parameters
    ----------
    schema
        The schema; what it refers to is in its ``$defs``.
    """

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self._parts: Schema = schema.get("$defs", {})

    @cached_property
    def names(self) -> frozenset[str]:
        """Return the name of every field of the document and of all inside it."""
        parts = (self._schema, *self._parts.values())
        return frozenset(name for part in parts for name in part.get("properties", {}))

    def at(self, location: Sequence[str | int]) -> list[str]:
        """Return the fields of the object at a location as a validator gives it, sorted.

        Between fields and positions a location names branches of unions: by the value that
        distinguishes them, by the model's name, or by words that are the validator's own.
        """
        parts = [self._schema]
        for step in location:
            parts = [inner for part in parts for inner in self._within(part, step)] or parts
        return sorted({name for part in self._forms(parts) for name in part.get("properties", {})})

    def _within(self, part: Schema, step: str | int) -> Iterator[Schema]:
        """Yield what a step leads to from a schema.

        Of a union it names a branch first, which may have a field of that name too.
        """
        forms = list(self._forms([part]))
        branches = [each for each in forms if step in {each.get("title"), *self._tags(each)}]
        if len(forms) > 1 and branches:
            yield from branches
            return
        for form in forms:
            if isinstance(step, int):
                if isinstance(form.get("items"), Mapping):
                    yield form["items"]
            elif step in form.get("properties", {}):
                yield form["properties"][step]
            elif isinstance(form.get("additionalProperties"), Mapping):
                yield form["additionalProperties"]

    def _forms(self, parts: Sequence[Schema]) -> Iterator[Schema]:
        """Yield what schemas are once references and unions in them are followed."""
        for part in parts:
            if "$ref" in part:
                yield from self._forms([self._parts[part["$ref"].rsplit("/", 1)[-1]]])
            elif "anyOf" in part or "oneOf" in part:
                if "properties" in part:  # an object that says which of its fields it needs
                    yield part
                yield from self._forms(part.get("anyOf", part.get("oneOf", ())))
            else:
                yield part

    @staticmethod
    def _tags(form: Schema) -> Iterator[str]:
        """Yield the values that distinguish an object from others in a union."""
        yield from (
            each["const"] for each in form.get("properties", {}).values() if "const" in each
        )


_MAX_ERRORS = 100  # more are reported once these are corrected
_TAGGED = frozenset({"union_tag_invalid", "union_tag_not_found"})
_UNKNOWN_FIELD = frozenset({"extra_forbidden", "unexpected_keyword_argument"})

_NO_WEIGHTS = ". " + worded("The documentation page Weights says why, and what to ask in its place")
_MUST_BE, _ANY_NUMBER, _WHOLE_NUMBER = "must be ", "a number", "a whole number"
_AN_OBJECT = worded("must be an object")
_FORMS = (
    worded("a number"), worded("a whole number"), worded("a finite number"), worded("text"),
    worded("true or false"), worded("a list"), worded("an object"), worded("null"),
    worded("a date and time in ISO 8601, with an offset"),
    worded('an object with names for keys, as in {"income": ...}'),
    worded("an object; known fields: %(names)s"), worded("greater than %(limit)s"),
)  # fmt: skip
"""What a value must be, without the words before it: parts of the list of several forms."""
_CHOICES: Mapping[str, str] = {
    "literal_error": "expected", "enum": "expected", "union_tag_invalid": "expected_tags",
}  # fmt: skip
"""Which part of a finding lists what is allowed."""

_MESSAGES: Mapping[str, str] = {
    "missing": worded("is required"),
    "union_tag_not_found": worded("is required"),
    "string_type": worded("must be text"),
    "string_pattern_mismatch": worded("has the wrong form"),
    "int_type": worded("must be a whole number"),
    "int_from_float": worded("must be a whole number"),
    "int_parsing": worded("must be a whole number"),
    "int_parsing_size": worded("is too large"),
    "float_type": worded("must be a number"),
    "float_parsing": worded("must be a number"),
    "finite_number": worded("must be a finite number"),
    "bool_type": worded("must be true or false"),
    "bool_parsing": worded("must be true or false"),
    "list_type": worded("must be a list"),
    "tuple_type": worded("must be a list"),
    "dict_type": worded('must be an object with names for keys, as in {"income": ...}'),
    "mapping_type": _AN_OBJECT,
    "model_type": _AN_OBJECT,
    "model_attributes_type": _AN_OBJECT,
    "dataclass_type": _AN_OBJECT,
    "dataclass_exact_type": _AN_OBJECT,
    "none_required": worded("must be null"),
    "datetime_parsing": worded("must be a date and time in ISO 8601, with an offset"),
    "datetime_from_date_parsing": worded("must be a date and time in ISO 8601, with an offset"),
    "timezone_aware": worded("must name its offset from UTC"),
    "datetime_type": worded("must be a date and time in ISO 8601, with an offset"),
}
_WITH_CONTEXT: Mapping[str, tuple[str, str]] = {
    "greater_than": (worded("must be greater than %(limit)s"), "gt"),
    "greater_than_equal": (worded("must be at least %(limit)s"), "ge"),
    "less_than": (worded("must be less than %(limit)s"), "lt"),
    "less_than_equal": (worded("must be at most %(limit)s"), "le"),
    "string_too_short": (worded("must have at least %(limit)s characters"), "min_length"),
    "string_too_long": (worded("must have at most %(limit)s characters"), "max_length"),
    "too_short": (worded("must have at least %(limit)s items"), "min_length"),
    "too_long": (worded("must have at most %(limit)s items"), "max_length"),
    "own_words": ("%(limit)s", "message"),
}


def validation_problem(
    findings: Sequence[Mapping[str, Any]], value: object, *, fields: Fields
) -> Problem:
    """Return the ``invalid-request`` problem for a validator's findings about ``value``.

    One fault is one entry, though a validator finds it once for each form that a value may have.

    Parameters
    ----------
    findings
        The validator's errors, without their inputs.
    value
        The parsed document the locations refer to.
    fields
        The fields this service itself defines for the document.
    """
    places, messages = _Places(value, fields), dict[str, list[str]]()
    hints = dict[str, str]()
    placed = [(places.of(finding), finding) for finding in findings]
    misspelt = set(_misspelt(placed, fields))
    within = _containing(place for place, _ in placed)
    not_known = set[str]()
    for place, finding in placed:
        if place not in messages and len(messages) == _MAX_ERRORS:
            continue
        if finding["type"] == "missing" and place in misspelt:
            continue  # it is there, under another name, and that is reported
        if finding["type"] in _UNKNOWN_FIELD:
            if place in not_known:
                continue  # that one is reported, with the fields that exist
            not_known.add(place)
        message = _message(finding, fields)
        if place in within and message.startswith(_MUST_BE):
            continue  # it has another of the forms it may have, and something in that is wrong
        if hint := meant(_choices(finding), places.written(finding)):
            hints.setdefault(place, hint)
        texts = messages.setdefault(place, [])
        if message not in texts:
            texts.append(message)
    errors = [
        {"field": place, "message": _joined(texts) + hints.get(place, "") + places.note(place)}
        for place, texts in messages.items()
    ]
    return Problem(
        "invalid-request", f"{errors[0]['field']}: {errors[0]['message']}.", errors=errors
    )


def _misspelt(placed: Sequence[tuple[str, Mapping[str, Any]]], fields: Fields) -> Iterator[str]:
    """Yield the places of fields that a field which is not known was probably meant to be."""
    for place, finding in placed[:_MAX_ERRORS]:
        if finding["type"] in _UNKNOWN_FIELD:
            *around, written = finding["loc"]
            if close := closest(fields.at(around), str(written)):
                yield close if place == "body" else f"{place}.{close}"


def unknown_parameter(known: Sequence[str], written: str) -> str:
    """Return what is said of a query parameter that a route does not have."""
    return unknown(worded("parameter"), known, written)


def unknown_choice(choices: Sequence[str], written: object) -> str:
    """Return what is said of a value that is none of some choices."""
    quoted = listed([f"'{choice}'" for choice in choices], last="or")
    return worded("must be one of %(names)s", names=quoted) + meant(choices, written)


def _message(finding: Mapping[str, Any], fields: Fields) -> str:
    kind, context = str(finding["type"]), finding.get("ctx", {})
    if kind in _UNKNOWN_FIELD or kind in _CHOICES:
        return _not_known(finding, fields)
    if (own := _own(finding)) is not None:
        return own.detail
    if context.get("min_length") == 1:
        return worded("must not be empty")
    if kind in _WITH_CONTEXT:
        template, name = _WITH_CONTEXT[kind]
        return template % {"limit": context[name]}
    message = _MESSAGES.get(kind, worded("is not valid"))
    if message == _AN_OBJECT and (inside := fields.at(finding["loc"])):
        return worded("must be an object; known fields: %(names)s", names=listed(inside))
    return message


def _not_known(finding: Mapping[str, Any], fields: Fields) -> str:
    *place, written = finding["loc"] or ("",)
    if finding["type"] in _UNKNOWN_FIELD:
        message = unknown(worded("field"), fields.at(place), str(written))
        refused = written == "weights" and "statistic" in place
        return message + (_NO_WEIGHTS if refused else "")
    return unknown_choice(_choices(finding), None)  # which was meant is said once, at the end


def _choices(finding: Mapping[str, Any]) -> list[str]:
    """Return what is allowed at a place that allows a few texts."""
    kind, context = str(finding["type"]), finding.get("ctx", {})
    if kind == "own_words":  # an object of one of several forms, each with a field of its own
        return re.findall(r'"(\w+)"', str(context["message"]))
    return re.findall(r"'([^']*)'", str(context[_CHOICES[kind]])) if kind in _CHOICES else []


def _own(finding: Mapping[str, Any]) -> InvalidStatisticError | None:
    """Return what a statistic says is wrong with a question that is just being made."""
    error = finding.get("ctx", {}).get("error")
    return error if isinstance(error, InvalidStatisticError) else None


def _containing(places: Iterable[str]) -> set[str]:
    """Return every place that holds one of these."""
    return {place[: match.start()] for place in places for match in re.finditer(r"[.\[]", place)}


def _joined(messages: Sequence[str]) -> str:
    """Return what is said of one place: the forms it may have in one list."""
    forms = [each.removeprefix(_MUST_BE) for each in messages if each.startswith(_MUST_BE)]
    others = [each for each in messages if not each.startswith(_MUST_BE)]
    if _ANY_NUMBER in forms:
        forms = [form for form in forms if form != _WHOLE_NUMBER]
    if len(forms) > 1:
        forms = [form.removeprefix("one of ") for form in forms]
    must = [worded("must be %(forms)s", forms=listed(forms, last="or"))] if forms else []
    said, *more = [*must, *others]
    for each in more:
        said = worded("%(sentence)s; otherwise it %(why)s", sentence=said, why=each)
    return said


class _Places:
    """Where findings about a document are, in time that grows with the document and no faster."""

    def __init__(self, document: object, fields: Fields) -> None:
        self._document = document
        self._known = fields.names
        self._positions: dict[int, Mapping[object, int]] = {}
        self._notes: dict[str, str] = {}

    def of(self, finding: Mapping[str, Any]) -> str:
        """Return e.g. ``statistic.columns[0]``; a client's own key appears as its position."""
        location: Sequence[str | int] = finding["loc"]
        value, place = self._document, ""
        branched: object = None
        for depth, step in enumerate(location, start=1):
            if value is not branched and _is_branch(value, step):
                branched = value  # a further step of this name is a field of it
            elif isinstance(value, list) and isinstance(step, int):
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
        if (own := _own(finding)) is not None:
            place = f"{place}.{own.field_name}" if place else own.field_name
        if location[:1] in (("columns",), ("derive",)) and isinstance(self._document, dict):
            self._notes[place] = _note(location[1:2])
        return place or "body"

    def written(self, finding: Mapping[str, Any]) -> object:
        """Return what stands at the place of a finding."""
        if finding["type"] in _TAGGED:
            return finding["ctx"].get("tag")
        value = self._document
        for step in finding["loc"]:
            if isinstance(value, list) and isinstance(step, int):
                value = value[step] if step < len(value) else None
            elif isinstance(value, dict) and step in value:
                value = value[step]
        return next(iter(value), None) if isinstance(value, dict) else value

    def note(self, place: str) -> str:
        """Return which column of a spec a place is about, if it is about one."""
        return self._notes.get(place, "")

    def _position(self, mapping: Mapping[Any, object], key: object) -> int:
        """Return which of a mapping's keys this is; they are counted once (it lives on here)."""
        found = self._positions.get(id(mapping))
        if found is None:
            found = {each: number for number, each in enumerate(mapping)}
            self._positions[id(mapping)] = found
        return found[key]


def _is_branch(value: object, step: str | int) -> bool:
    """Say whether a step names the branch of a union that an object says it is of."""
    return isinstance(value, dict) and step in (value.get("kind"), value.get("type"))


def _note(names: Sequence[object]) -> str:
    return column_named(names[0]) if names and isinstance(names[0], str) else ""
