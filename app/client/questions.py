"""Questions as the contract has them, and the names under which they are charged once."""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from numbers import Rational

Question = Mapping[str, object]
Amount = str | int | float | Decimal
"""A price. Text and Decimal are exact; a float is taken as the shortest decimal that it is."""

_BESIDE = frozenset({"assume", "accuracy", "assume_rows", "inference", "purpose"})
"""Members that stand beside a statistic in a request, not in it."""
_LISTS = frozenset({"by", "columns", "features", "levels", "where"})


def question(
    statistic: Question, epsilon: Amount | None, mechanism: str = "auto", norm: str = "auto"
) -> dict[str, object]:
    """Return the body of a release or preview request; a preview may leave the price open."""
    asked: dict[str, object] = {"statistic": dict(statistic), "mechanism": mechanism, "norm": norm}
    return asked if epsilon is None else {**asked, "epsilon": amount(epsilon)}


def amount(value: Amount) -> str:
    """Return a price in one spelling: 0.5, "0.50" and "5e-1" are one price, "0.5".

    What is no number is returned as it is, for the service to say so.
    """
    try:
        number = Decimal(str(value))
    except InvalidOperation:
        return str(value)
    if not number.is_finite():
        return str(value)
    text = f"{number:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def idempotency_key(dataset: str, body: Mapping[str, object], *, fresh: bool = False) -> str:
    """Return the name of a question to a data set: the same one for the same question.

    The service keeps such names for each person. So they need not say who asks: two people who
    ask the same have a release each, and one person who asks twice has one. ``fresh`` makes
    a name that nobody has used.
    """
    if fresh:
        return str(uuid.uuid4())
    # whatever the order of its members, and tuples as lists, it is one question
    asked = json.dumps([dataset, body], sort_keys=True, separators=(",", ":"))
    return f"question-{hashlib.sha256(asked.encode()).hexdigest()}"


def parted(
    statistic: Question | str, fields: Mapping[str, object]
) -> tuple[dict[str, object], dict[str, object]]:
    """Return a statistic with the fields that belong in it, and the members beside it.

    A field that is None is left out: the service has its default. One column, condition or level
    may stand for a list of it, and a share of epsilon for an ``inference``:

    >>> parted("quantile", {"column": "income", "levels": 0.5, "by": "sex", "inference": "1/3"})[1]
    {'inference': {'share': '1/3'}}
    """
    asked = {"kind": statistic} if isinstance(statistic, str) else dict(statistic)
    given = {name: _in_full(name, value) for name, value in fields.items() if value is not None}
    beside = {name: value for name, value in given.items() if name in _BESIDE}
    return {**asked, **{name: given[name] for name in given.keys() - beside.keys()}}, beside


def _in_full(name: str, value: object) -> object:
    """Return a field as the contract has it."""
    if name in _LISTS and isinstance(value, str | int | float | Mapping):
        return [value]
    if name == "inference" and isinstance(value, str | int | float | Rational | Decimal):
        return {"share": str(value)}
    return value
