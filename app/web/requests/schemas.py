"""The bodies of requests, but those of questions. Strict: unknown fields and coercions are refused.

These models hold the form of a request. What a sound declaration or question
is, the domain and the mechanisms decide.

*All that is wrong with a data set's spec at once: its form, and what contradicts itself in it.* A
model is made only of a document whose form is right throughout. So where a part of it is wrong, a
sound one is put in its place, and the faults of the rest are reported too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, JsonValue, model_validator

from app.domain.access import AccessList
from app.domain.columns import InvalidSpecError
from app.domain.datasets import (
    MOST_REPLICATES,
    Encoding,
    SamePeople,
    TextFile,
    column_named,
)
from app.domain.policies import Policy, Review, Role
from app.domain.problems import Problem, invalid_request, invalid_requests
from app.domain.reviews import Decision
from app.domain.units import IdKind, Reducer
from app.services.datasets.admitting import NewDataset, declared_columns
from app.services.datasets.erasing import Edit
from app.services.plans.questions import POLICY_KINDS
from app.services.releases.jobs import Paused
from app.web.requests.exact_json import read_json
from app.web.requests.values import (
    MAX_NAME_LENGTH,
    Ahead,
    BudgetEpsilon,
    CapEpsilon,
    ColumnSpec,
    Decimal,
    Delimiter,
    Delta,
    Line,
    Markers,
    Name,
    Person,
    Printable,
    Reason,
    ReleaseEpsilon,
    RequestBody,
    SkippedRows,
    Text,
    Thousands,
    column_fields,
    refusal,
)
from mechanisms.expressions.parsing import LONGEST
from mechanisms.privacy import MAX_EPSILON_NANOS, MOST_ROWS_OF_ONE, Adjacency, Epsilon

# All that is wrong with a data set's spec at once: its form, and what contradicts itself in it

_MOST_FAULTS = 100  # more are reported once these are corrected
_LONGEST_BYTES = 2**16
"""In longer documents only the first fault of each list or mapping is reported anyway."""
_ROUNDS = 3
"""Form, what is missing, rules: each is looked at where nothing is wrong with the one before."""
_SOUND: Mapping[str, Any] = {
    "name": "name",
    "adjacency": "add_remove",
    "columns": {"column": {"type": "boolean"}},
    "budget": {"epsilon": "1"},
    "max_rows": 1,
    "source": "file:///folder/file",
}
"""What stands for a part that is wrong; others are left out."""
_NO_BUDGET = "budget is required"
_AT = re.compile(r"columns\[(\d+)\]", re.ASCII)
_TOP = re.compile(r"[^.\[]*")

Faults = Sequence[tuple[str, str]]


def with_contradictions(
    problem: Problem, content: bytes, check: Callable[[bytes], object], *, known: Collection[str]
) -> Problem:
    """Return what is wrong with a spec's form, and what else is wrong with it.

    ``check`` raises what is wrong with a spec as it stands, and ``known`` are its fields.
    """
    faults = _faults(problem)
    if not faults or len(content) > _LONGEST_BYTES:
        return problem
    try:
        spec = read_json(content)
    except Problem:
        return problem
    if not isinstance(spec, dict):
        return problem
    spec = {name: value for name, value in spec.items() if name in known}
    if spec.get("budget") is None and spec.get("account") is None:
        # of a whole form that is reported for the form, and not for its field
        faults = [*(each for each in faults if each[1] != _NO_BUDGET), ("budget", "is required")]
    for _ in range(_ROUNDS):
        places = {place for place, _ in faults}
        try:
            check(json.dumps(_mended(spec, places)).encode())
        except Problem as more:
            new = [(place, words) for place, words in _faults(more) if place not in places]
            faults = [*faults, *new]
        else:
            break
    return invalid_requests(faults[:_MOST_FAULTS])


def _faults(problem: Problem) -> Faults:
    errors = problem.extras.get("errors")
    found = errors if isinstance(errors, list) else []
    return [(str(error["field"]), str(error["message"])) for error in found]


def _mended(spec: Mapping[str, Any], places: set[str]) -> dict[str, Any]:
    """Return a spec with something sound where something is wrong."""
    wrong = {_TOP.match(place)[0] for place in places}  # type: ignore[index]
    mended = {name: value for name, value in spec.items() if name not in wrong}
    mended |= {name: _SOUND[name] for name in wrong if name in _SOUND}
    if "columns" in wrong:
        # what they derive from, or identify people by, may be one that is wrong
        mended = {name: mended[name] for name in mended if name not in ("derive", "unit")}
        columns = spec.get("columns")
        if isinstance(columns, dict) and columns and "columns" not in places:
            mended["columns"] = dict(_mended_columns(columns, places))
    if "adjacency" in wrong:
        mended.setdefault("max_rows", 1)
    return mended


def _mended_columns(columns: Mapping[str, Any], places: set[str]) -> Mapping[str, Any]:
    positions = {int(match[1]) for place in places if (match := _AT.match(place))}
    return {
        # a column that has the name of a field is reported by it
        name: {"type": "boolean"}
        if position in positions
        or any(f"{place}.".startswith(f"columns.{name}.") for place in places)
        else column
        for position, (name, column) in enumerate(columns.items())
    }


# The bodies of requests, but those of questions. Strict: unknown fields and coercions are refused

EXAMPLE: dict[str, JsonValue] = {
    "name": "engel",
    "adjacency": "replace_one",
    "columns": {
        "income": {"type": "number", "lower": 0, "upper": 5000},
        "foodexp": {"type": "number", "lower": 0, "upper": 2500},
    },
    "budget": {"epsilon": "3"},
    "same_people": "no",
}


_SECOND_BUDGET = (
    "is yes, and these people must not get a second budget: name the earlier data set's account in "
    "account, so that both share one budget; without it an admin gives a reason in overlap"
)


class DeriveSpec(RequestBody):
    """A column computed from others of its row, with narrower bounds than follow from them."""

    expr: str = Field(max_length=LONGEST, examples=["log(max(income, 1))"])
    """The expression: columns, numbers, + - * / ^, functions, comparisons, in, and, or, not."""
    lower: float | None = Field(default=None, examples=[5])
    """The least value, if it is to be more than what follows from the columns' bounds."""
    upper: float | None = Field(default=None, examples=[8])
    """The largest value, if it is to be less than what follows from the columns' bounds."""


class UnitSpec(RequestBody):
    """Who a person is, where one may have several rows (add_remove only)."""

    column: str = Field(min_length=1, examples=["person_id"])
    """The text of the header, of any length and with any characters, of the file's column that
    holds the ids of persons. Only keyed digests of ids are stored, so it is none of `columns`. A
    row without an id is a person of its own."""
    max_rows: int | None = Field(default=None, ge=1, le=MOST_ROWS_OF_ONE, examples=[5])
    """How many rows of one person are stored at most; the rest are left out. Required, unless rows
    are reduced."""
    reduce: dict[Name, Reducer] | None = Field(
        default=None, min_length=1, examples=[{"spend": "sum", "visits": "count"}]
    )
    """Make one row of each person's rows: what becomes of each column. A column that is not named
    keeps the last row's. A `count` is of rows, and the file need not have such a column."""
    id: IdKind | None = Field(default=None, examples=["number"])
    """How ids are compared. Without it an id is a number where it reads as one without leading
    zeros: `7`, `+7`, `7.0` and `7e0` are one person, and `007` another. With `"number"` all ids
    must be numbers, and `007` is `7`. With `"text"` no id is read as a number."""


class DesignSpec(RequestBody):
    """How the rows were sampled, from public documents of the survey."""

    weight: Name = Field(examples=["weight"])
    """The column by which each row counts. Statistics that take `weights` use it, unless a question
    names another or says null."""
    strata: Name | None = Field(default=None, examples=["region"])
    """A category: rows were drawn within each of its values, independently."""
    replicates: list[Name] = Field(
        default=[], max_length=MOST_REPLICATES, examples=[["rep_1", "rep_2"]]
    )
    """Columns of replicate weights. With them standard errors are by replicates, not by strata."""
    scale: float | None = Field(default=None, examples=[0.5])
    """What the squared differences of the replicates from their mean are multiplied by. Without
    it one by their number, as of balanced repeated replication, or 1 with `rscales`."""
    rscales: list[float] = Field(default=[], max_length=MOST_REPLICATES, examples=[[0.5, 0.5]])
    """What each replicate's squared difference is multiplied by as well: of a jackknife with
    strata (JKn) the share of units of its stratum that are left, such as 2/3. Without it 1."""


class BudgetSpec(RequestBody):
    """What a new account starts with, and how it counts."""

    epsilon: BudgetEpsilon
    delta: Delta | None = Field(default=None, examples=["0.000001"])
    """Without it the account is pure: epsilons add up. With it the account keeps zCDP, and all
    releases together stay within (epsilon, delta). Fixed for good."""

    @model_validator(mode="after")
    def _convertible(self) -> BudgetSpec:
        if self.delta is not None and self.epsilon.nanos > MAX_EPSILON_NANOS:
            raise refusal(f"epsilon must be at most {Epsilon(MAX_EPSILON_NANOS)} with a delta")
        return self


class OverlapSpec(RequestBody):
    """An admin's statement why an overlap with earlier data is harmless."""

    reason: Reason = Field(examples=["a register of other people, drawn by the same agency"])
    """Kept in the ledger."""


def _known_review(text: str) -> str:
    try:
        return str(Review.parse(text))
    except ValueError as error:
        raise refusal(str(error)) from None


def _known_kinds(kinds: tuple[str, ...]) -> tuple[str, ...]:
    if not set(kinds) <= set(POLICY_KINDS):
        names = ", ".join(POLICY_KINDS)
        raise refusal(f"allowed may name {names}")
    return kinds


ReviewText = Annotated[str, Field(max_length=50), AfterValidator(_known_review)]
Kinds = Annotated[tuple[str, ...], AfterValidator(_known_kinds)]


class PolicySpec(RequestBody):
    """What one release may ask for."""

    review: ReviewText = Field(default="never", examples=["above:0.5"])
    """Which releases wait for a curator's approval: `never`, `always`, or `above:0.5` for those
    that cost strictly more than that."""
    reviewers: int = Field(default=1, ge=1, le=2, examples=[2])
    """How many curators decide on a release that waits. Two decide without seeing each other's
    vote or comments until both votes are in."""
    max_epsilon_per_release: ReleaseEpsilon | None = Field(default=None, examples=["1"])
    """The most that one release may cost; null for no limit."""
    allowed: Kinds | None = Field(default=None, examples=[["count", "histogram"]])
    """Kinds of statistics that may be released, alone or in a stack; null: every kind."""

    @property
    def policy(self) -> Policy:
        """Return the policy, as the services know it."""
        return Policy(
            review=Review.parse(self.review),
            reviewers=self.reviewers,
            allowed=self.allowed,
            max_epsilon_per_release=self.max_epsilon_per_release,
        )


class DatasetSpec(RequestBody):
    """The public description of a data set, declared before anything is read."""

    model_config = ConfigDict(json_schema_extra={"examples": [EXAMPLE]})

    name: Name = Field(examples=["engel"])
    """Its name; no two data sets have the same name."""
    description: Text = Field(default="", examples=["235 Belgian households, 1857."])
    """Where the data come from and what a row is."""
    adjacency: Adjacency = Field(examples=["replace_one"])
    """Which data sets count as neighbours: one row differs (`replace_one`, the row count is
    public), or the rows of one person are added or removed (`add_remove`, the row count is
    private)."""
    max_rows: int | None = Field(default=None, ge=1, le=10**12, examples=[100_000])
    """Public bound on the row count, required under add_remove."""
    columns: dict[Name, ColumnSpec] = Field(min_length=1, examples=[EXAMPLE["columns"]])
    """The file's columns that may be asked about, by name; others are not stored."""
    na: Markers = Field(default=(), examples=[["NA", ".", "-99"]])
    """Texts that stand for a missing cell, in every column that has no `na` of its own."""
    delimiter: Delimiter = Field(default=",", examples=[";"])
    """The delimiter of a CSV file."""
    encoding: Encoding = Field(default="utf-8", examples=["windows-1252"])
    """How the text of a CSV file is encoded."""
    skip_rows: SkippedRows = Field(default=0, examples=[3])
    """How many lines above the header of a CSV file are titles, which are not read."""
    decimal: Decimal = Field(default=".", examples=[","])
    """The decimal mark of numbers."""
    thousands: Thousands | None = Field(default=None, examples=["."])
    """The thousands separator, if there is one. A space stands for every kind of
    space, and an apostrophe for both."""
    derive: dict[Name, Annotated[str, Field(max_length=LONGEST)] | DeriveSpec] = Field(
        default={}, examples=[{"log_income": "log(income + 1)"}]
    )
    """Columns computed from those, each from one row alone, by name: an expression, or one with
    narrower `lower` and `upper`. They are stored and may be asked about like any other."""
    unit: UnitSpec | None = Field(default=None, examples=[{"column": "person_id", "max_rows": 5}])
    """Who a person is, where one may have several rows. Without it one row is one person."""
    design: DesignSpec | None = Field(default=None, examples=[{"weight": "weight"}])
    """How the rows were sampled: by it answers are weighted, and have standard errors."""
    budget: BudgetSpec | None = Field(default=None, examples=[EXAMPLE["budget"]])
    """What its account may spend. Required unless `account` names an existing budget."""
    account: Printable | None = Field(default=None, max_length=100, examples=["acc_2f7c"])
    """Share an earlier data set's account, whose people these are too; `budget` then opens nothing.
    The adjacency must be that of the account's other data sets."""
    overlap: OverlapSpec | None = Field(default=None, examples=[{"reason": "other people"}])
    """An admin's statement that rows which look like earlier data are about other people."""
    same_people: SamePeople | None = Field(default=None, examples=["no"])
    """Whether people in this file may be in an earlier data set of this service: `no`, as far as
    you know; `yes`, some or all of them; or `unknown`. With `yes` they get no second budget:
    `account` names the earlier data set's account, or an admin gives `overlap`. It stays in the
    ledger, and reviewers see it. Left out, it is recorded as not stated."""
    replaces: Printable | None = Field(default=None, max_length=100, examples=["ds_2f7c"])
    """The id of a data set without releases, which this one takes the place of: it is deleted in
    the same step, and its account closed. Refused from its first release on."""
    policy: PolicySpec = Field(default=PolicySpec(), examples=[{"review": "above:0.5"}])
    """Limits of single releases, and which wait for a review."""
    notices: tuple[Line, ...] = Field(default=(), max_length=20, examples=[["Figures of 1857"]])
    """What analysts of this data set should know, a sentence each."""
    checklist: tuple[Line, ...] = Field(default=(), max_length=50, examples=[["Is it published?"]])
    """What reviewers look at, a question each."""

    @model_validator(mode="after")
    def _consistent(self) -> DatasetSpec:
        if self.account is None and self.budget is None:
            raise refusal("budget is required")
        return self

    def text_file(self) -> TextFile:
        """Return how a CSV file is written."""
        return TextFile(delimiter=self.delimiter, encoding=self.encoding, skip_rows=self.skip_rows)

    def declared(self) -> NewDataset:
        """Return the declaration, as the services know it.

        Raises
        ------
        Problem
            ``invalid-request`` when it contradicts itself.
        """
        usual = {"na": self.na, "decimal": self.decimal, "thousands": self.thousands}
        columns = {name: column_fields(column, usual) for name, column in self.columns.items()}
        derive = {
            name: {"expr": wanted} if isinstance(wanted, str) else wanted.model_dump()
            for name, wanted in self.derive.items()
        }
        try:
            parsed = declared_columns(
                columns,
                derive,
                adjacency=self.adjacency,
                max_rows=self.max_rows,
                unit=self._unit(),
                design=None if self.design is None else self.design.model_dump(),
            )
        except InvalidSpecError as error:
            raise self._refusal(error) from None
        if self.same_people == "yes" and self.account is None and self.overlap is None:
            raise invalid_request("same_people", _SECOND_BUDGET)
        return NewDataset(
            name=self.name,
            description=self.description,
            columns=replace(parsed, text=self.text_file()),
            budget=None if self.budget is None else self.budget.epsilon,
            delta=None if self.budget is None else self.budget.delta,
            account=self.account,
            overlap_reason=None if self.overlap is None else self.overlap.reason,
            policy=self.policy.policy,
            notices=self.notices,
            checklist=self.checklist,
            replaces=self.replaces,
            same_people=self.same_people or "not_stated",
        )

    def _unit(self) -> dict[str, object] | None:
        """Return the unit, with what the spec says of all columns."""
        if self.unit is None:
            return None
        return {**self.unit.model_dump(), "na": self.na, "decimal": self.decimal}

    def _refusal(self, error: InvalidSpecError) -> Problem:
        """Return all that contradicts itself."""
        return invalid_requests([self._told(each) for each in error.faults])

    def _told(self, error: InvalidSpecError) -> tuple[str, str]:
        """Return a place and what is wrong: a column by its position, and named in the message."""
        place, note = error.field_name, ""
        fits = [
            (len(name), position, name, field)
            for field, names in (("columns", self.columns), ("derive", self.derive))
            for position, name in enumerate(names)
            if f"{place}.".startswith(f"{field}.{name}.")
        ]
        if fits:
            _, position, name, field = max(fits)
            within = place.removeprefix(f"{field}.{name}").rstrip(".")
            if field == "derive" and isinstance(self.derive[name], str):
                within = ""
            place, note = f"{field}[{position}]{within}", column_named(name)
        return place, error.detail + note


class ReceiptRequest(BaseModel):
    """A released answer, byte for byte as it was received, or its receipt alone."""

    model_config = ConfigDict(extra="allow", use_attribute_docstrings=True)

    receipt: str = Field(examples=["eyJhbGciOiJFZERTQSJ9.eyJsZWRnZXIiOiJ..."])
    """The answer's last member."""


class DecisionRequest(RequestBody):
    """What a reviewer says about a release or a study plan that waits for a review, and why."""

    decision: Decision = Field(examples=["approve"])
    """Whether it may be drawn: of a plan all questions. `request_changes` gives the turn to the
    requester; the budget of a release stays reserved until then."""
    reason: Reason = Field(examples=["within the protocol of the study"])
    """Kept in the ledger. The requester will see it, unless it approves a release."""


class GrantRequest(RequestBody):
    """More epsilon for an account, and why."""

    epsilon: BudgetEpsilon
    reason: Reason = Field(examples=["the board's decision of May"])
    """Kept in the ledger."""
    expires: Ahead | None = Field(default=None, examples=["2030-01-01T00:00:00Z"])
    """When the grant ends: the total then falls by what it added, but not below what is spent and
    reserved."""


class CapRequest(RequestBody):
    """What one person may use of an account at most."""

    person: Person = Field(examples=["an analyst"])
    """The `person` of a key."""
    epsilon: CapEpsilon | None = Field(examples=["0.5"])
    """0 = no access; null removes the limit."""
    reason: Reason = Field(examples=["the first study only"])
    """Kept in the ledger."""


class AccessFields(RequestBody):
    """Who may see a data set; everyone else may not, except admins and auditors."""

    persons: list[Person] = Field(max_length=1_000, examples=[["an analyst"]])
    """The `person` of keys."""
    groups: list[Person] = Field(max_length=1_000, examples=[[]])
    """Names of groups. A provider's groups have its id and a colon before their name."""


class AccessRequest(RequestBody):
    """Who may see the data sets of an account."""

    access: AccessFields | None = Field(examples=[None])
    """null opens them to everyone whose role allows it."""
    reason: Reason = Field(examples=["the study is over"])
    """Kept in the ledger."""


def access_in(body: AccessRequest) -> AccessList | None:
    """Return the list that a request names."""
    if body.access is None:
        return None
    return AccessList(tuple(body.access.persons), tuple(body.access.groups))


class GroupRequest(RequestBody):
    """Persons under one name."""

    name: Name = Field(examples=["a study"])
    """What it is called; no colon is in it."""
    persons: list[Person] = Field(max_length=10_000, examples=[["an analyst"]])
    """All who are in it: the `person` of keys."""
    reason: Reason = Field(examples=["the study begins"])
    """Kept in the ledger."""


class PauseRequest(RequestBody):
    """A person or a data set to pause, or to resume."""

    what: Paused = Field(examples=["person"])
    """Which of the two it is."""
    name: Person = Field(examples=["an analyst"])
    """The `person` of a key, or the id of a data set."""
    paused: bool = Field(examples=[False])
    """False resumes."""
    reason: Reason = Field(examples=["the queue is empty again"])
    """Kept in the ledger."""
    cancel_waiting: bool = Field(default=False, examples=[False])
    """Whether to reject, with the same reason, all of theirs that waits for a review. What is
    charged is not cancelled: it waits."""


class KeyRequest(RequestBody):
    """A key for a person.

    Keys of one name that one admin makes belong to one person; the same name by
    another admin is another person.
    """

    name: str = Field(min_length=1, max_length=MAX_NAME_LENGTH, examples=["an analyst"])
    """What to call the key, and its person unless `person` says who that is. Spaces around it
    go, and one letter stands for all that are written alike (NFKC)."""
    role: Role = Field(examples=["analyst"])
    """What the key may do. Each role may also do what a lesser one may."""
    expires: Ahead | None = Field(default=None, examples=["2030-01-01T00:00:00Z"])
    """When the key expires; null for never."""
    person: Person | None = Field(default=None, examples=["an analyst"])
    """The `person` of an earlier key, to whom this one is given."""


class CommentRequest(RequestBody):
    """Something to say about a release or a study plan that waits."""

    text: Reason = Field(examples=["Is the second table needed?"])
    """What to say."""
    private: bool = Field(default=False, examples=[True])
    """Whether only reviewers see it. Otherwise the requester sees it too."""


class ReadRequest(RequestBody):
    """Notices that have been read."""

    ids: tuple[Printable, ...] = Field(min_length=1, max_length=200, examples=[["ntf_2f7c"]])
    """Their ids; those that are not yours are passed over."""


class PolicyEdit(RequestBody):
    """What of a policy changes; what is left out stays as it is."""

    review: ReviewText = Field(default="never", examples=["above:0.5"])
    """Which releases wait for a curator's approval, as in the spec."""
    reviewers: int = Field(default=1, ge=1, le=2, examples=[2])
    """How many curators decide on a release that waits."""
    max_epsilon_per_release: ReleaseEpsilon | None = Field(default=None, examples=["1"])
    """The most that one release may cost; null for no limit."""
    allowed: Kinds | None = Field(default=None, examples=[["count", "histogram"]])
    """Kinds of statistics that may be released; null: every kind."""


class DatasetEdit(RequestBody):
    """What to change about a data set; what is left out stays as it is."""

    reason: Reason = Field(examples=["the board's decision of May"])
    """Kept in the ledger."""
    description: Text | None = Field(default=None, examples=["235 Belgian households, 1857."])
    """Where the data come from and what a row is."""
    policy: PolicyEdit | None = Field(default=None, examples=[{"reviewers": 2}])
    """Limits of single releases, and which wait for a review."""
    notices: tuple[Line, ...] | None = Field(default=None, max_length=20, examples=[["Old"]])
    """What analysts of this data set should know, a sentence each."""
    labels: dict[Name, Line | None] | None = Field(default=None, examples=[{"income": "Income"}])
    """What columns are called in words, by name; null takes a label away."""
    checklist: tuple[Line, ...] | None = Field(
        default=None, max_length=50, examples=[["Is it published?"]]
    )
    """What reviewers look at, a question each."""

    @property
    def edit(self) -> Edit:
        """Return the edit, as the services know it."""
        policy = None
        if self.policy is not None:
            every = {
                "review": self.policy.review,
                "reviewers": self.policy.reviewers,
                "max_epsilon_per_release": _text(self.policy.max_epsilon_per_release),
                "allowed": None if self.policy.allowed is None else list(self.policy.allowed),
            }
            policy = {name: every[name] for name in every if name in self.policy.model_fields_set}
        return Edit(
            description=self.description,
            policy=policy,
            notices=self.notices,
            labels=self.labels,
            checklist=self.checklist,
        )


def _text(epsilon: Epsilon | None) -> str | None:
    return None if epsilon is None else str(epsilon)


# What requests about publications must look like


class PublicationRequest(RequestBody):
    """Why a release is made public."""

    reason: Reason = Field(examples=["Table 2 of the annual report"])
    """Kept in the ledger, and shown to the public."""


class PublicationWithdrawalRequest(RequestBody):
    """Why a release is no longer public."""

    note: Reason = Field(examples=["the wrong year was asked for"])
    """Kept in the ledger, and shown to the public at the release's address."""
