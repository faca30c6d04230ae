"""A question and its price, as every use case passes it on, and its canonical text.

The union of statistics is built from the catalog, so a statistic registered
there is a request model, a stored request and a documented schema at once.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Annotated, Any, Union

from pydantic import Field, TypeAdapter

from app.domain.ledger import sha256_hex
from mechanisms.catalog import STATISTICS, settled
from mechanisms.contract import Statistic
from mechanisms.domain import Schema
from mechanisms.inference import bought
from mechanisms.privacy import Epsilon, PrivacyLoss
from mechanisms.statistics.cells.spelling import Derived, canonical
from mechanisms.statistics.questions import (
    canonical_ms,
    deriving,
    planning_ms,
    weighed,
)
from mechanisms.statistics.stack import Stack
from mechanisms.statistics.weights import UNWEIGHTED

KINDS: Sequence[str] = tuple(STATISTICS)
"""The kind of every statistic on offer."""

POLICY_KINDS: Sequence[str] = tuple(
    kind for kind, statistic in STATISTICS.items() if statistic is not Stack
)
"""The kinds a policy speaks of: a stack is judged by the kinds of its parts."""

if TYPE_CHECKING:
    AnyStatistic = Statistic
else:
    AnyStatistic = Annotated[
        Union[tuple(STATISTICS.values())],  # noqa: UP007 - its members are not known here
        Field(discriminator="kind", description="What to release."),
    ]

_RARE = frozenset({"derive", "formula", "where", "by", "weights"})
_USUAL = {
    "base_measure": "auto",
    "clip": "none",
    "loss": "auto",
    "missing": "complete",
    "outside": "cells",
    "threshold": "auto",
}
"""Fields that nearly all questions leave at this."""

_STATISTIC: TypeAdapter[Any] = TypeAdapter(AnyStatistic)


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A statistic, how to draw it, what it may cost, and what it is for, in words for reviewers.

    ``inference`` is the share of epsilon that standard errors may cost, None where none are wanted.
    """

    statistic: Statistic
    mechanism: str
    norm: str
    epsilon: Epsilon
    purpose: str | None = None
    inference: Fraction | None = None
    canonical: str = field(init=False, repr=False, compare=False)
    """Its text. Of a question that is :func:`spelled` for a data set it is one text for all
    spellings: what is compared and cached by. Stored is the text of the question as it was asked.
    """

    def __post_init__(self) -> None:
        object.__setattr__(self, "canonical", _text(self.to_json()))

    @property
    def kinds(self) -> tuple[str, ...]:
        """Return the kinds of all statistics asked for: one, or those of a stack's parts."""
        if isinstance(self.statistic, Stack):
            return tuple(part.statistic.kind for part in self.statistic.parts)
        return (self.statistic.kind,)

    @property
    def spent_on_numbers(self) -> PrivacyLoss:
        """Return what of epsilon the numbers are drawn with: all but what standard errors cost.

        Of a stack it is all: each part with standard errors pays for its own.
        """
        return bought.spent_on_numbers(self.statistic, self.mechanism, self.epsilon, self.inference)

    def planning_ms(self, schema: Schema) -> float:
        """Return about how many milliseconds of one core it takes to plan or preview it."""
        plan_ms = planning_ms(self.statistic, schema, self.mechanism)
        if self.inference is None:
            return plan_ms
        return plan_ms + bought.planning_ms(self.statistic, schema)

    def to_json(self) -> dict[str, object]:
        """Return the question as JSON-ready fields, defaults filled in.

        What few questions have is left out of the others, which have the text they always had.
        """
        asked: dict[str, object] = {
            "statistic": statistic_json(self.statistic),
            "mechanism": self.mechanism,
            "norm": self.norm,
            "epsilon": str(self.epsilon),
        }
        if self.purpose is not None:
            asked["purpose"] = self.purpose
        if self.inference is not None:
            asked["inference"] = {"share": str(self.inference)}
        return asked


def kinds_of(statistic: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the kinds of all statistics asked for, as :attr:`Question.kinds` does, of its JSON.

    >>> kinds_of({"kind": "stack", "parts": [{"statistic": {"kind": "mean"}}]})
    ('mean',)
    """
    alone = [part["statistic"] for part in statistic.get("parts", ())] or [statistic]
    return tuple(str(each["kind"]) for each in alone)


def spelled(question: Question, schema: Schema) -> Question:
    """Return the one spelling of all questions that mean the same of a data set.

    It names the mechanism that ``auto`` stands for, but where errors decide it: for linear
    regressions, and for noisy sums in accounts with a delta. There ``auto`` and its choice are two
    questions.

    What is planned, cached, named and compared is in this spelling; answers say what was asked.
    """
    asked = canonical(question.statistic, schema)
    statistic, mechanism = settled(asked, question.mechanism, zcdp=schema.zcdp)
    return replace(question, statistic=statistic, mechanism=mechanism)


def weighed_for(question: Question, schema: Schema) -> Question:
    """Return a question with the weights that it is meant with, said: as it is stored and shown."""
    asked = question.statistic
    says = isinstance(asked, Stack) or getattr(asked, "weights", None) is not None
    if schema.design is None and not says:
        return question
    return replace(question, statistic=weighed(asked, schema))


def spelling_ms(question: Question) -> float:
    """Return about how many milliseconds of one core :func:`spelled` takes."""
    asked = question.statistic
    alone = [part.statistic for part in asked.parts] if isinstance(asked, Stack) else [asked]
    return sum(map(canonical_ms, alone))


def question_key(dataset: str, question: Question) -> str:
    """Return the Idempotency-Key that a question in its one spelling has by itself.

    Keys belong to a person, so that the person is in no key.
    """
    return f"question-{sha256_hex(json.dumps([dataset, question.canonical]).encode())}"


def _text(fields: Mapping[str, object]) -> str:
    return json.dumps(fields, sort_keys=True, allow_nan=False, separators=(",", ":"))


def asked_json(question: Question) -> dict[str, object]:
    """Return the member of an answer that says what was asked, as it was asked."""
    return {"statistic": statistic_json(question.statistic)}


def with_derived(statistic: Statistic, derive: Mapping[str, str | Derived]) -> Statistic:
    """Return a statistic that may use these derived columns too; a stack in each part.

    Raises
    ------
    InvalidStatisticError
        One cannot be read, or another has its name.
    """
    if not (derive and isinstance(statistic, Stack)):
        return deriving(statistic, derive)
    parts = [replace(part, statistic=deriving(part.statistic, derive)) for part in statistic.parts]
    return replace(statistic, parts=tuple(parts))


def statistic_json(statistic: Statistic) -> Mapping[str, object]:
    """Return a statistic's fields, ready for JSON.

    What only some questions have is left out of the others, so that a question has the text that
    it had before there was such a field.
    """
    return _told(asdict(statistic))  # type: ignore[call-overload]


def _told(fields: Mapping[str, Any]) -> dict[str, object]:
    rare = _RARE - STATISTICS[fields["kind"]].stated_fields
    stated = {
        name: value
        for name, value in fields.items()
        if (value or name not in rare) and _USUAL.get(name) != value
    }
    if fields.get("weights") == UNWEIGHTED:
        stated["weights"] = None
    for name in ("where", "target"):
        stated |= {name: _conditions(stated[name])} if name in stated else {}
    if "by" in stated:
        stated["by"] = [
            each if isinstance(each, str) else _without_usual(each) for each in stated["by"]
        ]
    if "parts" in stated:
        stated["parts"] = [
            {**part, "statistic": _told(part["statistic"])} for part in fields["parts"]
        ]
    return stated


def _without_usual(fields: Mapping[str, Any]) -> dict[str, object]:
    return {name: value for name, value in fields.items() if _USUAL.get(name) != value}


def _conditions(conditions: Any) -> Any:
    """Return conditions without the value that ``present`` and ``missing`` do not have."""
    if isinstance(conditions, list | tuple):
        return [_conditions(each) for each in conditions]
    if isinstance(conditions, Mapping):
        return {name: value for name, value in conditions.items() if value is not None}
    return conditions


def read_question(canonical: str) -> Question:
    """Return the question whose :attr:`Question.canonical` this is."""
    fields = json.loads(canonical)
    return Question(
        statistic=_STATISTIC.validate_json(json.dumps(fields["statistic"]), strict=True),
        mechanism=fields["mechanism"],
        norm=fields["norm"],
        epsilon=Epsilon.parse(fields["epsilon"]),
        purpose=fields.get("purpose"),
        inference=Fraction(fields["inference"]["share"]) if "inference" in fields else None,
    )
