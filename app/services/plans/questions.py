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

from mechanisms.catalog import STATISTICS
from mechanisms.contract import Statistic
from mechanisms.domain import Schema
from mechanisms.inference import bought
from mechanisms.privacy import Epsilon, PrivacyLoss, split
from mechanisms.statistics.questions import Derived, deriving, planning_ms
from mechanisms.statistics.stack import Stack

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
_USUAL = {"base_measure": "auto"}
"""Fields that nearly all questions leave at this."""
_FILTERED = frozenset({"count", "histogram", "sum"})
"""Kinds whose questions have always said by which conditions."""

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
    """One text for all spellings of this question."""

    def __post_init__(self) -> None:
        # What is fingerprinted and stored: two spellings of one question must have one text.
        text = json.dumps(self.to_json(), sort_keys=True, allow_nan=False, separators=(",", ":"))
        object.__setattr__(self, "canonical", text)

    @property
    def kinds(self) -> tuple[str, ...]:
        """Return the kinds of all statistics asked for: one, or those of a stack's parts."""
        if isinstance(self.statistic, Stack):
            return tuple(part.statistic.kind for part in self.statistic.parts)
        return (self.statistic.kind,)

    @property
    def spent_on_numbers(self) -> PrivacyLoss:
        """Return what of epsilon the numbers are drawn with: all but what standard errors cost.

        By the functional mechanism those cost nothing.
        """
        if self.inference is None or self.mechanism == "functional":
            return self.epsilon
        return split(self.epsilon, [1 - self.inference, self.inference])[0]

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
    rare = _RARE - {"where"} if fields["kind"] in _FILTERED else _RARE
    told = {
        name: value
        for name, value in fields.items()
        if (value or name not in rare) and _USUAL.get(name) != value
    }
    if "parts" in told:
        told["parts"] = [
            {**part, "statistic": _told(part["statistic"])} for part in fields["parts"]
        ]
    return told


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
