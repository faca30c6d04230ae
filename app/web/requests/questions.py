"""The bodies of what is asked of a data set: releases, previews, dry runs and derivations.

What the bodies of requests are made into: short ones here, longer ones in another process.

A hostile body of a MiB takes seconds of one core and, in between, hundreds of MB, and a sound
one half a second. On the event loop, or in a thread that holds the interpreter's lock, that
would keep everyone else waiting; so it happens in a calculating process, and only what
comes of it comes back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from typing import Annotated, Literal, Self, TypeVar

from pydantic import ConfigDict, Discriminator, Field, JsonValue, Tag

from app.domain.problems import Problem, invalid_request
from app.services.datasets.admitting import NewDataset
from app.services.plans.lanes import ProcessLane
from app.services.plans.previews import MOST_PLANNED, PlannedQuestion, PreviewOptions
from app.services.plans.questions import AnyStatistic, Question, with_derived
from app.services.releases.receipts import SentAnswer, sent_answer
from app.services.releases.synthetic import MOST_SEED, Format, Wanted
from app.web.requests.exact_json import SHORT_BYTES, read_json, read_model
from app.web.requests.schemas import DatasetSpec, with_contradictions
from app.web.requests.uploads import SourcedDatasetSpec
from app.web.requests.values import Name, Reason, ReleaseEpsilon, RequestBody, Share
from mechanisms.contract import InvalidStatisticError
from mechanisms.estimates.assumptions import DEFAULT_R_SQUARED, Assumptions, Spread
from mechanisms.expressions.parsing import LONGEST
from mechanisms.privacy import Epsilon
from mechanisms.statistics.cells.spelling import Derived
from mechanisms.statistics.stack import MechanismName, NormName
from mechanisms.tables.model import MOST_ROWS

# The assumptions of a preview about rows, which it may not read

_MAX_NUMBER = 1e300  # sums and differences of such numbers are still floats


class SpreadSpec(RequestBody):
    """Where the values of a number column are: normally distributed, clamped to the bounds."""

    mean: float = Field(ge=-_MAX_NUMBER, le=_MAX_NUMBER, examples=[980])
    """Their mean, in the column's units. Of a boolean column: which share is true."""
    std: float = Field(gt=0, le=_MAX_NUMBER, examples=[520])
    """Their standard deviation, in the column's units."""


class SharesSpec(RequestBody):
    """How often the values of a category column occur."""

    shares: dict[Name, Annotated[float, Field(ge=0, le=1)]] = Field(
        min_length=1, examples=[{"f": 0.1, "m": 0.9}]
    )
    """A share for each value, which add up to 1. Values that are not named share what is left."""


def _form_of(value: object) -> str:
    shares = isinstance(value, SharesSpec) or (isinstance(value, Mapping) and "shares" in value)
    return "Shares" if shares else "Spread"


ColumnAssumption = Annotated[
    Annotated[SpreadSpec, Tag("Spread")] | Annotated[SharesSpec, Tag("Shares")],
    Discriminator(_form_of),
]
"""What is assumed of one column. Whichever form it has, it is refused for what that form lacks."""


class AssumeSpec(RequestBody):
    """The people that a preview imagines, since it may not look at the real ones."""

    rows: int | None = Field(default=None, ge=1, le=10**12, examples=[1000])
    """How many rows the data set has, under add_remove: half of `max_rows` by default. Under
    replace_one the public row count is taken."""
    population: Literal["typical", "uniform"] | dict[Name, ColumnAssumption] = Field(
        default="typical",
        examples=[{"income": {"mean": 980, "std": 520}, "sex": {"shares": {"f": 0.1, "m": 0.9}}}],
    )
    """How values are distributed: a number column by its mean and standard deviation, a category
    by the shares of its values. Columns that are not named, and all by `typical`, are as their
    curator states in the data set's spec. Where nothing is stated, and by `uniform`, they are
    spread evenly: numbers over their bounds, categories over their values."""
    r_squared: float = Field(default=DEFAULT_R_SQUARED, gt=0, lt=1, examples=[0.3])
    """Which share of the target's variance a regression's features explain."""
    coefficients: dict[Name, Annotated[float, Field(ge=-_MAX_NUMBER, le=_MAX_NUMBER)]] = Field(
        default={}, examples=[{"income": 0.5}]
    )
    """How much a regression's target changes with one unit of a number column, or with what an
    answer calls its coefficient, such as `sexmale` or `educ:sexmale`; without them all features
    weigh equally."""

    missing: dict[Name, Annotated[float, Field(ge=0, lt=1)]] = Field(
        default={}, examples=[{"income": 0.2}]
    )
    """Which share of a column's cells is missing, of columns that keep theirs
    (`"missing": "keep"`); without it none is."""

    @property
    def assumptions(self) -> Assumptions:
        """Return them as the mechanisms know them."""
        named = self.population if isinstance(self.population, dict) else {}
        return Assumptions(
            rows=self.rows,
            population=tuple(
                (name, Spread(mean=spec.mean, std=spec.std))
                for name, spec in named.items()
                if isinstance(spec, SpreadSpec)
            ),
            shares=tuple(
                (name, tuple(spec.shares.items()))
                for name, spec in named.items()
                if isinstance(spec, SharesSpec)
            ),
            r_squared=self.r_squared,
            coefficients=tuple(self.coefficients.items()),
            missing=tuple(self.missing.items()),
            even=self.population == "uniform",
        )


# The bodies of what is asked of a data set: releases, previews, dry runs and derivations

MOST_RELEASES = 50
_PRICE_OR_ACCURACY: dict[str, JsonValue] = {
    "anyOf": [
        {"required": ["epsilon"]},
        {"required": ["accuracy"], "patternProperties": {"^accuracy$": {"type": "number"}}},
    ]
}


class InferenceRequest(RequestBody):
    """Standard errors and confidence intervals, within the release's epsilon."""

    share: Share
    """What part of the release's epsilon is spent on them. The numbers are drawn with the
    rest. By `functional` nothing is, as its noisy moments give them."""


class ReleaseRequest(RequestBody):
    """A question and its price."""

    statistic: AnyStatistic
    mechanism: Literal[MechanismName, "composition"] = Field(default="auto", examples=["k_norm"])
    """`auto` takes the statistic's first in the catalog, and for a linear regression the one that
    errs least in a public simulation, or hardly more and states its noise. A stack's parts name
    their own."""
    norm: NormName = Field(default="auto", examples=["l1"])
    """Norm of the noise; `auto` takes the best one for the question."""
    epsilon: ReleaseEpsilon
    derive: dict[Name, Annotated[str, Field(max_length=LONGEST)] | Derived] = Field(
        default={}, examples=[{"log_income": "log(income + 1)"}]
    )
    """Columns derived for this question, by name. It is the same as the statistic's own `derive`,
    and is that of each part of a stack."""
    inference: InferenceRequest | None = Field(default=None, examples=[{"share": "1/3"}])
    """Standard errors, for linear and logistic regressions and quantiles, and such parts of a
    stack, each at this share of its own epsilon; null for none."""

    purpose: Reason | None = Field(default=None, examples=["Table 2 of the annual report"])
    """What the numbers are for, in words for reviewers. It is kept with the release; who may see
    the release reads it."""

    @cached_property
    def question(self) -> Question:
        """Return what is asked, as the services know it.

        Raises
        ------
        Problem
            ``invalid-request`` when a derived column cannot be read.
        """
        try:
            statistic = with_derived(self.statistic, self.derive)
        except InvalidStatisticError as error:
            raise invalid_request(error.field_name, error.detail) from None
        return Question(
            statistic=statistic,
            mechanism=self.mechanism,
            norm=self.norm,
            epsilon=self.epsilon,
            purpose=self.purpose,
            inference=None if self.inference is None else self.inference.share,
        )

    def prepared(self) -> Self:
        """Return this body with its question."""
        _ = self.question
        return self


class DerivationRequest(RequestBody):
    """What to compute from a released result."""

    statistic: AnyStatistic
    together_with: list[Name] = Field(default=[], max_length=MOST_RELEASES, examples=[[]])
    """Further releases of the same data set, by their ids. All of them are combined by least
    squares of their noise: of counts, histograms, sums, means and moments."""


class SyntheticRequest(RequestBody):
    """Which synthetic rows to make of a release of tables."""

    rows: int = Field(ge=1, le=MOST_ROWS, examples=[10_000])
    """How many; at most 2,000,000 values over all columns."""
    seed: int = Field(ge=0, le=MOST_SEED, examples=[7])
    """The same number makes the same file, byte for byte."""
    format: Format = Field(default="csv", examples=["csv"])
    """CSV, or Parquet with typed columns."""

    @property
    def wanted(self) -> Wanted:
        """Return it as the service knows it."""
        return Wanted(rows=self.rows, seed=self.seed, format=self.format)


class DryRunRequest(ReleaseRequest):
    """A question to answer on synthetic rows."""

    assume: AssumeSpec = Field(default=AssumeSpec(), examples=[{"rows": 1000}])
    """The population that the rows are made of; its defaults are public, and shown."""


class PreviewRequest(ReleaseRequest):
    """A question to weigh before it is paid for, at a price or within an accuracy."""

    model_config = ConfigDict(json_schema_extra=_PRICE_OR_ACCURACY)

    epsilon: ReleaseEpsilon = Field(default_factory=partial(Epsilon.parse, "1"), examples=["0.5"])
    """The price to weigh it at; without one, the smallest that reaches `accuracy`."""
    accuracy: float | None = Field(default=None, gt=0, le=_MAX_NUMBER, examples=[25])
    """Wanted half-width of the widest 95% noise interval, in the answer's units; the preview then
    shows the epsilon this takes by its mechanism, by a public simulation where no law says."""
    assume_rows: int | None = Field(default=None, ge=1, le=10**12, examples=[1000])
    """Row count to assume where the noise of a ratio depends on it (add_remove)."""
    assume: AssumeSpec = Field(default=AssumeSpec(), examples=[{"rows": 1000}])
    """The population in which errors are expected; its defaults are public, and shown."""

    @property
    def priced(self) -> bool:
        """Return whether a price was said."""
        return "epsilon" in self.model_fields_set

    def prepared(self) -> Self:
        """Return this body with its question; it must say a price or an accuracy."""
        if not self.priced and self.accuracy is None:
            raise invalid_request("epsilon", "is required, or the accuracy that is wanted")
        return super().prepared()

    @property
    def options(self) -> PreviewOptions:
        """Return what was said beyond a release, as the services know it."""
        return PreviewOptions(
            accuracy=self.accuracy, assume_rows=self.assume_rows, assume=self.assume.assumptions
        )

    @property
    def assumed(self) -> dict[str, object]:
        """Return what was said beyond a release, as JSON has it."""
        beyond = PreviewRequest.model_fields.keys() - ReleaseRequest.model_fields.keys()
        return self.model_dump(mode="json", include=beyond, exclude_unset=True)


class StudyPlanRequest(RequestBody):
    """Questions whose price is wanted together, before the first of them is paid for."""

    questions: list[PreviewRequest] = Field(
        min_length=1,
        max_length=MOST_PLANNED,
        examples=[
            [
                {"statistic": {"kind": "mean", "columns": ["income"]}, "accuracy": 25},
                {"statistic": {"kind": "sum", "columns": ["income"]}, "epsilon": "0.1"},
            ]
        ],
    )
    """The questions, each as for a preview: with an `epsilon`, or with the `accuracy` wanted."""

    def prepared(self) -> Self:
        """Return this body with its questions; each must say a price or an accuracy."""
        for place, each in enumerate(self.questions):
            try:
                each.prepared()
            except Problem as problem:
                raise problem.inside(f"questions.{place}") from None
        return self

    @property
    def planned(self) -> Sequence[PlannedQuestion]:
        """Return the questions as the services know them."""
        return [
            PlannedQuestion(each.question, each.options, each.priced) for each in self.questions
        ]


class SavedPlanFields(StudyPlanRequest):
    """The name of a study plan, what it is for, and its questions."""

    name: Name = Field(examples=["Household survey, tables 1 to 3"])
    """What the plan is called in lists."""
    purpose: Reason | None = Field(default=None, examples=["The annual report"])
    """What the numbers are for, in words for reviewers. It is kept with each release whose
    question has no purpose of its own."""


class SavedPlanRequest(SavedPlanFields):
    """A study plan to save."""

    dataset: Name = Field(examples=["ds_8f2c41"])
    """The id of the data set that the questions are about."""


class PlannedReleaseRequest(RequestBody):
    """Which question of a study plan to draw."""

    question: int = Field(ge=0, lt=MOST_PLANNED, examples=[0])
    """Its place in the plan, counted from 0."""


# What the bodies of requests are made into: short ones here, longer ones in another process


Body = TypeVar("Body", bound=RequestBody)
Spec = TypeVar("Spec", bound=DatasetSpec)
T = TypeVar("T")


async def made_of(
    content: bytes,
    person: str,
    lane: ProcessLane,
    function: Callable[..., T],
    *arguments: object,
) -> T:
    """Return what a function of a module makes of a person's body.

    Raises
    ------
    Problem
        What the function raises; ``busy`` when too many long bodies of the person's are waiting.
    """
    if len(content) <= SHORT_BYTES:
        return function(content, *arguments)
    return await lane.run(person, function, content, *arguments)


def request_in(content: bytes, model: type[Body]) -> Body:
    """Return a body as its model, with what follows from it alone."""
    return read_model(model, content).prepared()


def spec_in(content: bytes, max_columns: int) -> NewDataset:
    """Return what the spec of an upload declares."""
    try:
        return _spec_in(content, DatasetSpec, max_columns).declared()
    except Problem as problem:
        raise problem.inside("spec") from None


def sourced_spec_in(content: bytes, max_columns: int) -> tuple[NewDataset, str]:
    """Return what a spec declares that names a source, and the source's URL."""
    spec = _spec_in(content, SourcedDatasetSpec, max_columns)
    return spec.declared(), spec.source


def _spec_in(content: bytes, model: type[Spec], max_columns: int) -> Spec:
    try:
        spec = read_model(model, content)
    except Problem as problem:
        check = partial(_check, model)
        raise with_contradictions(problem, content, check, known=model.model_fields) from None
    if len(spec.columns) + len(spec.derive) > max_columns:
        raise invalid_request("columns", f"must be at most {max_columns}")
    return spec


def _check(model: type[Spec], content: bytes) -> None:
    read_model(model, content).declared()


def answer_in(content: bytes) -> SentAnswer:
    """Return a released answer that somebody has sent back, or its receipt alone."""
    members = read_json(content)
    if not isinstance(members, dict):
        raise invalid_request("body", "must be an object")
    return sent_answer(members, content)
