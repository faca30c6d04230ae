"""One column of a spec, from JSON and back."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields, replace
from fractions import Fraction
from functools import partial
from typing import Any

from app.domain.columns import (
    NO_ZONE,
    About,
    BooleanSpec,
    CategorySpec,
    ColumnSpec,
    Fill,
    InvalidSpecError,
    Missing,
    NumberSpec,
    Reading,
    TypicalNumber,
    TypicalShares,
    Within,
    json_number,
    number_at,
    refuse,
)
from mechanisms.domain import NumberKind, TimeKind, number_of, text_of, time_kind, zone_named
from mechanisms.words import trimmed, value_text

_Members = dict[str, object]
_KINDS: Mapping[object, NumberKind] = {
    "number": "number",
    "integer": "integer",
    "date": "date",
    "datetime": "datetime",
}

_OF_CATEGORIES = frozenset({"values", "other", "trim", "labels", "within"})
_OF_TIMES = ("format", "timezone")


def parse_column(column: Mapping[str, object]) -> ColumnSpec:
    """Read one column of a spec, as it stands in JSON.

    Raises
    ------
    InvalidSpecError
        Anything that is not a sound declaration.
    """
    members = dict(column)
    kind, missing = members.pop("type", None), members.pop("missing", "reject")
    reading, about = _reading(kind, members), _about(members)
    typical = members.pop("typical", None)
    if kind in _KINDS and members.keys() == {"lower", "upper"}:
        number = _number(_KINDS[kind], members, missing, reading, about)
        return number if typical is None else replace(number, typical=_spread(number, typical))
    if kind == "category" and {"values"} <= members.keys() <= _OF_CATEGORIES:
        return _category(members, missing, typical, reading, about)
    if kind == "boolean" and not members:
        return BooleanSpec(
            missing=_missing(missing, _choice),
            reading=reading,
            about=about,
            typical=None if typical is None else number_at("typical", typical),
        )
    raise InvalidSpecError(
        "",
        "must be a number, an integer, a date or a datetime with lower and upper, a category with "
        "values, or a boolean",
    )


def _category(
    members: _Members, missing: object, typical: object, reading: Reading, about: About
) -> CategorySpec:
    trim = members.get("trim", True)
    if not isinstance(trim, bool):
        raise InvalidSpecError("trim", "must be true or false")
    values, other = _levels(members["values"], members.get("other"), trim=trim)
    plain = _values_reader(values, trim=trim)
    fill = _missing(missing, _choice)
    if isinstance(fill, Fill) and isinstance(fill.value, str):
        fill = Fill(plain(fill.value))
    return CategorySpec(
        values=values,
        missing=fill,
        other=other,
        trim=trim,
        labels=_labels(members.get("labels", {}), plain),
        reading=reading,
        about=about,
        typical=None if typical is None else _shares(typical, plain),
        within=_within(members.get("within"), plain, trim=trim),
    )


def _within(within: object, plain: Callable[[str], str], *, trim: bool) -> Within | None:
    if within is None:
        return None
    if not isinstance(within, Mapping) or within.keys() != {"column", "of"}:
        raise InvalidSpecError(
            "within", 'must be a column and what each value belongs to in it: {"column": "region", '
            '"of": {"m1": "north", "m2": "south"}}'
        )  # fmt: skip
    column, of = _text("within.column", within["column"]), within["of"]
    if not isinstance(of, Mapping):
        raise InvalidSpecError("within.of", 'must be values by value, such as {"m1": "north"}')
    above = trimmed if trim else str
    pairs = ((plain(str(value)), above(_text("within.of", each))) for value, each in of.items())
    return Within(column=column, of=tuple(pairs))


def _labels(labels: object, plain: Callable[[str], str]) -> tuple[tuple[str, str], ...]:
    if not isinstance(labels, Mapping):
        raise InvalidSpecError("labels", 'must be labels by value, such as {"1": "north"}')
    return tuple((plain(str(value)), _text("labels", label)) for value, label in labels.items())


def _number(
    kind: NumberKind, members: _Members, missing: object, reading: Reading, about: About
) -> NumberSpec:
    read = _reader(kind, reading.timezone)
    lower, upper = _each(
        lambda: read("lower", members["lower"]), lambda: read("upper", members["upper"])
    )
    fill = _missing(missing, partial(read, "missing"))
    return NumberSpec(
        lower=lower, upper=upper, missing=fill, kind=kind, reading=reading, about=about
    )


def _spread(column: NumberSpec, typical: object) -> TypicalNumber:
    if time_kind(column.kind) is not None:
        raise InvalidSpecError("typical", "is for numbers, categories and booleans")
    if not isinstance(typical, Mapping) or typical.keys() != {"mean", "std"}:
        raise InvalidSpecError("typical", "must be a mean and a std")
    mean, std = _each(
        lambda: number_at("typical.mean", typical["mean"]),
        lambda: number_at("typical.std", typical["std"]),
    )
    return TypicalNumber(mean, std)


def _shares(typical: object, plain: Callable[[str], str]) -> TypicalShares:
    if not isinstance(typical, Mapping):
        raise InvalidSpecError("typical", "must be shares by value")
    found = ((plain(str(name)), number_at("typical", share)) for name, share in typical.items())
    return TypicalShares(tuple(found))


def _values_reader(values: Iterable[str], *, trim: bool) -> Callable[[str], str]:
    """Return what reads the texts that name a category's values, as its cells are read.

    A text that names none is returned as it is declared, to be refused.
    """
    known = {value_text(value, trim=trim): value for value in values}
    return lambda text: known.get(value_text(text, trim=trim), trimmed(text) if trim else text)


def _levels(values: object, other: object, *, trim: bool) -> tuple[tuple[str, ...], str | None]:
    """Return a category's values with the one for all others, which may be listed or not."""
    plain = trimmed if trim else str
    if not isinstance(values, list | tuple):
        raise InvalidSpecError("values", "must be a list of texts")
    texts = tuple(plain(_text("values", value)) for value in values)
    if other is None:
        return texts, None
    name = _values_reader(texts, trim=trim)(_text("other", other))
    return texts if name in texts else (*texts, name), name


def column_json(column: ColumnSpec) -> dict[str, object]:
    """Return the inverse of :func:`parse_column`, ready for JSON."""
    body: dict[str, object]
    match column:
        case NumberSpec():
            body = {
                "type": column.kind,
                "lower": _written(column.kind, column.lower),
                "upper": _written(column.kind, column.upper),
            }
        case CategorySpec():
            body = {"type": "category", "values": list(column.values)}
        case BooleanSpec():
            body = {"type": "boolean"}
    fill = column.missing.value if isinstance(column.missing, Fill) else column.missing
    if isinstance(column, NumberSpec) and isinstance(fill, Fraction):
        body["missing"] = _written(column.kind, fill)
    else:
        body["missing"] = fill
    return body | dict(_more(column))


def _more(column: ColumnSpec) -> Iterator[tuple[str, object]]:
    """Yield what is not by default."""
    if isinstance(column, CategorySpec):
        if column.other is not None:
            yield "other", column.other
        if not column.trim:
            yield "trim", False
        if column.labels:
            yield "labels", dict(column.labels)
        if column.within is not None:
            yield "within", {"column": column.within.column, "of": dict(column.within.of)}
    usual = Reading()
    for each in fields(Reading):
        value = getattr(column.reading, each.name)
        if value != getattr(usual, each.name):
            several = isinstance(value, tuple) and not (each.name == "format" and len(value) == 1)
            yield (
                each.name,
                list(value) if several else value[0] if each.name == "format" else value,
            )
    for name in ("label", "unit_of_measure"):
        if (text := getattr(column.about, name)) is not None:
            yield name, text
    if column.typical is not None:
        yield "typical", _typical_json(column.typical)


def _typical_json(typical: TypicalNumber | TypicalShares | Fraction) -> object:
    match typical:
        case TypicalNumber():
            return {"mean": json_number(typical.mean), "std": json_number(typical.std)}
        case TypicalShares():
            return {name: json_number(share) for name, share in typical.shares}
    return json_number(typical)


def _reader(kind: NumberKind, zone: str | None) -> Callable[[str, object], Fraction]:
    """Return what reads a bound of such a column."""
    timed = time_kind(kind)
    return number_at if timed is None else partial(_time_at, timed, zone)


def _time_at(timed: TimeKind, zone: str | None, place: str, value: object) -> Fraction:
    try:
        if isinstance(value, str):
            return number_of(timed, value, zone)
    except ValueError:
        pass
    such = "2025-12-31" if timed == "date" else "2025-12-31T23:59:00Z"
    raise InvalidSpecError(place, f"must be a {timed} in ISO 8601, as text such as {such}")


def _written(kind: NumberKind, number: Fraction) -> object:
    timed = time_kind(kind)
    return json_number(number) if timed is None else text_of(timed, number)


def _each(*readers: Callable[[], Fraction]) -> tuple[Fraction, ...]:
    """Return what each reads, or raise all that is wrong."""
    # All at once: who corrects one should not meet the next at the next try.
    found, faults = [], list[InvalidSpecError]()
    for read in readers:
        try:
            found.append(read())
        except InvalidSpecError as error:
            faults.append(error)
    refuse(faults)
    return tuple(found)


def _reading(kind: object, members: _Members) -> Reading:
    na, unreadable = members.pop("na", ()), members.pop("unreadable", "reject")
    if not isinstance(na, list | tuple):
        raise InvalidSpecError("na", "must be a list of texts")
    if unreadable not in ("reject", "missing"):
        raise InvalidSpecError("unreadable", 'must be "reject" or "missing"')
    thousands, source = members.pop("thousands", None), members.pop("source", None)
    bare = members.pop("bare_number", True) if kind in ("number", "integer") else True
    if not isinstance(bare, bool):
        raise InvalidSpecError("bare_number", "must be true or false")
    return Reading(
        na=tuple(map(_marker, na)),
        unreadable="missing" if unreadable == "missing" else "reject",
        decimal=_text("decimal", members.pop("decimal", ".")),
        thousands=None if thousands is None else _text("thousands", thousands),
        bare_number=bare,
        source=None if source is None else _text("source", source),
        **_spellings(kind, members),
    )


def _spellings(kind: object, members: _Members) -> dict[str, Any]:
    """Return how cells of booleans, dates and moments are spelt, where that is declared."""
    found: dict[str, Any] = {}
    names = {"boolean": ("true", "false"), "date": _OF_TIMES, "datetime": _OF_TIMES}
    for name in names.get(str(kind), ()):
        value = members.pop(name, None)
        if value is None:
            continue
        if name == "timezone":
            found[name] = _text(name, value)
            if zone_named(found[name]) is None:  # bounds cannot be read without it
                raise InvalidSpecError(name, NO_ZONE)
        else:
            several = value if isinstance(value, list | tuple) else (value,)
            found[name] = tuple(_text(name, each) for each in several)
    return found


def _about(members: _Members) -> About:
    texts = {
        name: _text(name, value)
        for name in ("label", "unit_of_measure")
        if (value := members.pop(name, None)) is not None
    }
    return About(**texts)


def _marker(value: object) -> str:
    return value if isinstance(value, str) else str(json_number(number_at("na", value)))


def _text(place: str, value: object) -> str:
    if not isinstance(value, str):
        raise InvalidSpecError(place, "must be text")
    return value


def _choice(value: object) -> bool | str:
    if isinstance(value, str | bool):
        return value
    raise InvalidSpecError("missing", "must be a policy or a value of the column")


def _missing(value: object, read: Callable[[object], Fraction | bool | str]) -> Missing:
    if value == "reject":
        return "reject"
    if value == "keep":
        return "keep"
    if value == "drop":
        return "drop"
    return Fill(read(value))
