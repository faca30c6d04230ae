"""The bodies of requests. Strict: unknown fields, coercions and doubtful numbers are refused.

These models hold the form of a request. What a sound declaration or question
is, the domain and the mechanisms decide.
"""

from __future__ import annotations

from datetime import datetime
from fractions import Fraction
from functools import cached_property, partial
from typing import Annotated, Literal, Self

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    ConfigDict,
    Field,
    PlainValidator,
    WithJsonSchema,
    model_validator,
)
from pydantic_core import PydanticCustomError

from app.domain.datasets import InvalidSpecError, parse_columns
from app.domain.ledger import MAX_TOTAL_NANOS
from app.domain.policies import Policy, Review
from app.domain.problems import invalid_request
from app.domain.roles import Role
from app.services.datasets.datasets import NewDataset
from app.services.plans.questions import POLICY_KINDS, AnyStatistic, Question
from app.services.releases.reviews import Decision
from mechanisms.accounting import parse_delta
from mechanisms.privacy import MAX_EPSILON_NANOS, Adjacency, Epsilon, InvalidEpsilonError
from mechanisms.statistics.stack import MechanismName, NormName

MAX_NAME_LENGTH = 100
MAX_TEXT_LENGTH = 2_000
_MAX_NUMBER = 1e300


def refusal(message: str) -> PydanticCustomError:
    """Return a validation error in our own words."""
    return PydanticCustomError("own_words", "{message}", {"message": message})


def _read_epsilon(value: object, *, maximum_nanos: int) -> Epsilon:
    # numbers arrive here as the text they were written in, see exact_json
    if not isinstance(value, str):
        raise refusal("must be a decimal number, as text or number")
    try:
        return Epsilon.parse(value, maximum_nanos=maximum_nanos)
    except InvalidEpsilonError as error:
        raise refusal(str(error).removeprefix("epsilon ")) from None


def _epsilon_schema(maximum_nanos: int) -> WithJsonSchema:
    return WithJsonSchema(
        {
            "title": "Epsilon",
            "description": "A positive decimal with at most 9 decimals, as text or as a number, "
            f"at most {Epsilon(maximum_nanos)}.",
            "anyOf": [
                {"type": "string", "pattern": r"^\d+(\.\d+)?([eE][+-]?\d{1,2})?$", "maxLength": 40},
                {
                    "type": "number",
                    "exclusiveMinimum": 0,
                    "maximum": maximum_nanos // 10**9,
                },
            ],
            "examples": ["0.5"],
        }
    )


ReleaseEpsilon = Annotated[
    Epsilon,
    PlainValidator(partial(_read_epsilon, maximum_nanos=MAX_EPSILON_NANOS)),
    _epsilon_schema(MAX_EPSILON_NANOS),
]
BudgetEpsilon = Annotated[
    Epsilon,
    PlainValidator(partial(_read_epsilon, maximum_nanos=MAX_TOTAL_NANOS)),
    _epsilon_schema(MAX_TOTAL_NANOS),
]


def _read_cap(value: object) -> Epsilon:
    if value in ("0", "0.0"):
        return Epsilon(0)
    return _read_epsilon(value, maximum_nanos=MAX_TOTAL_NANOS)


CapEpsilon = Annotated[
    Epsilon,
    PlainValidator(_read_cap),
    WithJsonSchema(
        {
            "title": "Epsilon",
            "description": "A decimal with at most 9 decimals, 0 or more.",
            "anyOf": [
                {"type": "string", "pattern": r"^\d+(\.\d+)?([eE][+-]?\d{1,2})?$", "maxLength": 40},
                {"type": "number", "minimum": 0, "maximum": MAX_TOTAL_NANOS // 10**9},
            ],
            "examples": ["0.5"],
        }
    ),
]


def _printable(text: str) -> str:
    if not text.isprintable():
        raise refusal("must be printable text")
    return text


def _storable(text: str) -> str:
    if any(not (letter.isprintable() or letter in "\n\t") for letter in text):
        raise refusal("must be printable text")
    return text


Printable = Annotated[str, AfterValidator(_printable)]
Name = Annotated[str, Field(min_length=1, max_length=MAX_NAME_LENGTH), AfterValidator(_printable)]
Person = Annotated[
    str, Field(min_length=1, max_length=MAX_NAME_LENGTH + 20), AfterValidator(_printable)
]
Text = Annotated[str, Field(max_length=MAX_TEXT_LENGTH), AfterValidator(_storable)]
Reason = Annotated[Text, Field(min_length=1)]


class Request(BaseModel):
    """A body: immutable, closed to unknown fields."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", hide_input_in_errors=True, arbitrary_types_allowed=True
    )

    def prepared(self) -> Self:
        """Return this body with everything worked out that a long one takes long for."""
        return self


class ReleaseRequest(Request):
    """A question and its price."""

    statistic: AnyStatistic
    mechanism: Literal[MechanismName, "composition"] = Field(
        default="auto",
        description="`auto` lets the service choose. A stack's parts name their own.",
    )
    norm: NormName = Field(
        default="auto", description="Norm of the noise; `auto` takes the best one for the question."
    )
    epsilon: ReleaseEpsilon

    @cached_property
    def question(self) -> Question:
        """Return what is asked, as the services know it."""
        return Question(
            statistic=self.statistic,
            mechanism=self.mechanism,
            norm=self.norm,
            epsilon=self.epsilon,
        )

    def prepared(self) -> Self:
        """Return this body with its question."""
        _ = self.question
        return self


class DerivationRequest(Request):
    """What to compute from a release that is out."""

    statistic: AnyStatistic


class PreviewRequest(ReleaseRequest):
    """A question to weigh before it is paid for."""

    accuracy: float | None = Field(
        default=None,
        gt=0,
        le=_MAX_NUMBER,
        description="Wanted half-width of the widest 95% noise interval, in the answer's units; "
        "the preview then tells the epsilon this takes.",
    )
    assume_rows: int | None = Field(
        default=None,
        ge=1,
        le=10**12,
        description="Row count to assume where the noise of a ratio depends on it (add_remove).",
    )


class NumberSpec(Request):
    """A number with declared bounds; values outside are clamped."""

    type: Literal["number"]
    lower: float
    upper: float
    missing: Literal["reject", "drop"] | float = Field(
        default="reject", description="`reject`, `drop` (add_remove only), or a fill value."
    )


class CategorySpec(Request):
    """A closed list of texts."""

    type: Literal["category"]
    values: tuple[str, ...]
    missing: str = Field(
        default="reject", description="`reject`, `drop` (add_remove only), or one of the values."
    )


class BooleanSpec(Request):
    """True or false; reads true, false, 1 and 0."""

    type: Literal["boolean"]
    missing: Literal["reject", "drop"] | bool = Field(
        default="reject", description="`reject`, `drop` (add_remove only), or a fill value."
    )


ColumnSpec = Annotated[NumberSpec | CategorySpec | BooleanSpec, Field(discriminator="type")]


def _read_delta(value: object) -> Fraction:
    if not isinstance(value, str):
        raise refusal("must be a decimal number, as text or number")
    try:
        return parse_delta(value)
    except ValueError as error:
        raise refusal(str(error).removeprefix("delta ")) from None


Delta = Annotated[
    Fraction,
    PlainValidator(_read_delta),
    WithJsonSchema(
        {
            "title": "Delta",
            "description": "A decimal between 1e-30 and 0.001, as text or as a number; choose it "
            "far below one over the number of people.",
            "anyOf": [
                {"type": "string", "pattern": r"^\d+(\.\d+)?([eE][+-]?\d{1,2})?$", "maxLength": 40},
                {"type": "number", "exclusiveMinimum": 0, "maximum": 0.001},
            ],
            "examples": ["0.000001"],
        }
    ),
]


class BudgetSpec(Request):
    """What a new account starts with, and how it counts."""

    epsilon: BudgetEpsilon
    delta: Delta | None = Field(
        default=None,
        description="Without it the account is pure: epsilons add up. With it the account keeps "
        "zCDP, and all releases together stay within (epsilon, delta). Fixed for good.",
    )

    @model_validator(mode="after")
    def _convertible(self) -> BudgetSpec:
        if self.delta is not None and self.epsilon.nanos > MAX_EPSILON_NANOS:
            raise refusal(f"epsilon must be at most {Epsilon(MAX_EPSILON_NANOS)} with a delta")
        return self


class OverlapSpec(Request):
    """An admin's statement why an overlap with earlier data is harmless."""

    reason: Reason


def _known_review(text: str) -> str:
    try:
        return str(Review.parse(text))
    except ValueError as error:
        raise refusal(str(error)) from None


class PolicySpec(Request):
    """What one release may ask for."""

    review: Annotated[str, Field(max_length=50), AfterValidator(_known_review)] = Field(
        default="never",
        description="Which releases wait for a curator's approval: `never`, `always`, or "
        "`above:0.5` for those that cost strictly more than that.",
    )
    max_epsilon_per_release: ReleaseEpsilon | None = None
    allowed: tuple[str, ...] | None = Field(
        default=None,
        description="Kinds of statistics that may be released, alone or in a stack; "
        "null: every kind.",
    )

    @model_validator(mode="after")
    def _known(self) -> PolicySpec:
        if self.allowed is not None and not set(self.allowed) <= set(POLICY_KINDS):
            raise refusal(f"allowed may name {', '.join(POLICY_KINDS)}")
        return self


class DatasetSpec(Request):
    """The public description of a data set, declared before anything is read."""

    name: Name
    description: Text = ""
    adjacency: Adjacency
    max_rows: int | None = Field(
        default=None, ge=1, le=10**12, description="Public bound, required under add_remove."
    )
    columns: dict[Name, ColumnSpec] = Field(min_length=1)
    budget: BudgetSpec | None = Field(
        default=None, description="Required unless `account` names an existing budget."
    )
    account: Printable | None = Field(
        default=None,
        max_length=100,
        description="Share an earlier data set's account, whose people these are too; `budget` "
        "then opens nothing. The adjacency must be that of the account's other data sets.",
    )
    overlap: OverlapSpec | None = None
    policy: PolicySpec = PolicySpec()

    @model_validator(mode="after")
    def _consistent(self) -> DatasetSpec:
        if self.account is None and self.budget is None:
            raise refusal("budget is required")
        return self

    def declared(self) -> NewDataset:
        """Return the declaration, as the services know it.

        Raises
        ------
        Problem
            ``invalid-request`` when it contradicts itself.
        """
        columns = {name: column.model_dump() for name, column in self.columns.items()}
        try:
            parsed = parse_columns(columns, adjacency=self.adjacency, max_rows=self.max_rows)
        except InvalidSpecError as error:
            raise invalid_request(self._place(error.field_name), error.detail) from None
        return NewDataset(
            name=self.name,
            description=self.description,
            columns=parsed,
            budget=None if self.budget is None else self.budget.epsilon,
            delta=None if self.budget is None else self.budget.delta,
            account=self.account,
            overlap_reason=None if self.overlap is None else self.overlap.reason,
            policy=Policy(
                review=Review.parse(self.policy.review),
                allowed=self.policy.allowed,
                max_epsilon_per_release=self.policy.max_epsilon_per_release,
            ),
        )

    def _place(self, place: str) -> str:
        """Return a place in the spec, a column's own name replaced by its position."""
        fits = [
            (len(name), position, f"columns.{name}")
            for position, name in enumerate(self.columns)
            if f"{place}.".startswith(f"columns.{name}.")
        ]
        if fits:
            _, position, prefix = max(fits)
            place = f"columns[{position}]{place.removeprefix(prefix)}"
        return f"spec.{place}"


class ReceiptRequest(BaseModel):
    """A released answer, byte for byte as it was received, or its receipt alone."""

    model_config = ConfigDict(extra="allow")

    receipt: str


def _ahead(moment: datetime) -> datetime:
    if moment <= datetime.now(moment.tzinfo):
        raise refusal("must lie in the future")
    return moment


Ahead = Annotated[AwareDatetime, AfterValidator(_ahead)]


class DecisionRequest(Request):
    """What a reviewer says about a release that waits for a review, and why."""

    decision: Decision
    reason: Reason = Field(
        description="Kept in the ledger; who asked reads why a release was rejected."
    )


class GrantRequest(Request):
    """More epsilon for an account, and why."""

    epsilon: BudgetEpsilon
    reason: Reason
    expires: Ahead | None = Field(
        default=None,
        description="When the grant ends: the total then falls by what it added, but not below "
        "what is spent and reserved.",
    )


class CapRequest(Request):
    """What one person may use of an account at most."""

    person: Person = Field(description="The `person` of a key.")
    epsilon: CapEpsilon | None = Field(description="0 bars the person; null lifts the cap.")
    reason: Reason


class KeyRequest(Request):
    """A key for a person.

    Keys of one name that one admin makes belong to one person; the same name by
    another admin is another person.
    """

    name: Name
    role: Role
    expires: Ahead | None = None
    person: Person | None = Field(
        default=None, description="The `person` of an earlier key, to whom this one is given."
    )
