"""The bodies of answers about releases, previews and derivations.

The services write these bodies; the models say what is in them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

from pydantic import Field
from starlette.responses import Response

from app.api.answers.paging import Answer, json_page_of
from app.domain.problems import Problem
from app.domain.releases import GIVEN_BACK, UNDECIDED, ReleaseState
from app.services.plans.answers import answer_of, etag_of
from app.services.publishing.publications import PublicationRecord
from app.services.publishing.published import path_of
from app.services.releases.cells import MEDIA_TYPES as LINES
from app.services.releases.cells import CellPage, Cut
from app.services.releases.derivations import AGAIN_S
from app.services.releases.public_moments import PublicMoments
from app.services.releases.releases import ReleasePage, ReleaseRecord
from app.services.releases.synthetic import MEDIA_TYPES, Wanted
from app.services.scripts import Script

# The body of answers that are programs


def script_answer(script: Script) -> Response:
    """Return a program as a file to be saved."""
    return Response(
        script.text,
        media_type=f"{script.media_type}; charset=utf-8",
        headers={"Content-Disposition": f'attachment; filename="{script.name}"'},
    )


# The bodies of answers about publications


class PublicationAnswer(Answer):
    """A release that is public, or was."""

    release: str
    """The release's id."""
    dataset: str
    """The id of its data set."""
    status: Literal["published", "withdrawn"]
    """Withdrawn: the address says who did it, when and why, and shows no numbers."""
    address: str
    """The path of the public page; with `.json` or `.csv` at its end, that form."""
    reason: str
    """Why it was made public."""
    published_by: str
    """The person who did."""
    published_at: str
    """When (UTC)."""
    seq: int
    """The number of the entry about it in the system's account, `0`."""
    withdrawn_by: str | None
    """The person who withdrew it; null while it is public."""
    withdrawn_at: str | None
    """When (UTC); null while it is public."""
    note: str | None
    """Why; null while it is public."""


def publication_answer(record: PublicationRecord) -> PublicationAnswer:
    """Return a publication."""
    return PublicationAnswer(
        release=record.release,
        dataset=record.dataset,
        status="published" if record.withdrawn_at is None else "withdrawn",
        address=path_of(record.release),
        reason=record.reason,
        published_by=record.published_by,
        published_at=record.published_at,
        seq=record.seq,
        withdrawn_by=record.withdrawn_by,
        withdrawn_at=record.withdrawn_at,
        note=record.note,
    )


# The bodies of answers about releases, previews and derivations

UNFINISHED = (*UNDECIDED, ReleaseState.DEBITED)
"""The states of a release that waits for a review or for its draw."""

_JSON = (b"content-type", b"application/json")


class GuaranteeAnswer(Answer):
    """The privacy guarantee of a release, and its theorem."""

    definition: str
    """The kind of differential privacy: `pure epsilon-DP`, or `rho-zCDP` in accounts with a
    delta."""
    epsilon: str
    """The privacy loss that the release is limited to. Under `rho-zCDP` it states the size of the
    noise: what a pure draw at this epsilon costs the account is what this release costs at most."""
    rho: str | None = Field(default=None, exclude_if=lambda said: said is None, examples=["0.005"])
    """What limits the release under `rho-zCDP`; absent under pure epsilon-DP."""
    adjacency: Literal["replace_one", "add_remove"]
    """Which data sets count as neighbours."""
    protects: str = Field(default="one row is one person", examples=["one person, up to 5 rows"])
    """Who is protected, in words: whose rows are added or removed together."""
    sensitivity: str
    """How much neighbouring data sets may differ, exactly or at most, in `sensitivity_unit`."""
    sensitivity_unit: str
    """What the sensitivity is counted in."""
    theorem: str
    """Where it is proved."""
    exact: bool
    """Whether the draw follows the theorem's law exactly, with no rounding that affects privacy."""
    reduction: str | None = Field(default=None, exclude_if=lambda said: said is None)
    """How conditions or groups were treated; absent where the answer is about all records."""


class NoiseAnswer(Answer):
    """The law of the noise; both members mirror the shape of the value.

    A table has one number, `count`, in place of `cells` where that is the same for all its cells.
    """

    std: dict[str, Any]
    """The standard deviation of the noise of each number."""
    interval_95: dict[str, Any]
    """Low and high around each number (around 0 in a preview): 95% of the noise is within. How
    the rows were sampled is not in it."""


class EdgeAnswer(Answer):
    """A number at the edge of what is possible, or of what was simulated: it is no estimate."""

    place: list[str | int]
    """The path of the number in `value`."""
    reason: str
    """Why it is none, in a sentence to be shown in its place, or next to an upper bound."""


class UsefulnessAnswer(Answer):
    """The quality of an answer: its errors compared with public knowledge."""

    verdict: Literal["good", "weak", "noise", "depends"]
    """`good`: every expected error is at most 2% of the range in which values typically are, or
    95% of errors are within the wanted accuracy. `weak`: at most 10%, or within twice the accuracy.
    `noise`: more, or no released number can be distinguished from zero. `depends`: on how large a
    difference matters, where nothing is stated of it, or on private facts, as how many records meet
    the conditions; the sentence says on which. A release without such a scale is compared with its
    own numbers: up to 8% of the number is good, up to 40% weak."""
    sentence: str
    """Which number decides, in words."""
    estimate: Literal["closed form", "approximated", "simulated", "coarse"] = "closed form"
    """How the expected error was found: read off the known law of the noise, by a formula that
    holds to first order in the assumed population, by a simulation, or by one of few draws, which
    may be off by a half. A release never waits for a simulation, so it reports a coarse one where
    no preview has made a better one."""


class ErrorRangeAnswer(Answer):
    """Expected errors in several populations: in the shape of the value."""

    low: dict[str, Any]
    """The least of each number."""
    high: dict[str, Any]
    """The largest of each number."""


class TermAnswer(Answer):
    """One number, and what is known of the same number of the population."""

    term: str
    """Which number: a coefficient, column, or pair of columns."""
    by: dict[str, str] | None = Field(default=None, exclude_if=lambda labels: labels is None)
    """The group it is of; absent where the answer is about all records."""
    place: list[str | int] | None = Field(default=None, exclude_if=lambda path: path is None)
    """The path of the number in `value`, by which the two are joined; absent in `fit`."""
    estimate: float | str | None
    """The number as it was answered: an ISO 8601 text where it is a date or a moment, null where
    nothing can be said of it."""
    reason: str | None = Field(default=None, exclude_if=lambda said: said is None)
    """Why `estimate` is null, in a sentence; absent where it is not."""
    std_error: float | None
    """Its standard error: half the width of the middle 68.3% of where the population's may be; in
    days or seconds where the number is a date or a moment. null where it cannot be said."""
    confidence_95: list[float | str]
    """Low and high: where the population's number is, sampling and privacy noise together."""
    noise_95: list[float | str] | None
    """Low and high: where the number would have been without the noise; null where not known."""


class InferenceAnswer(Answer):
    """Standard errors and confidence intervals."""

    terms: list[TermAnswer]
    """The numbers of the answer."""
    fit: list[TermAnswer]
    """Of a regression: `r_squared` and `residual_variance`. Otherwise empty."""
    method: str
    """How the intervals were made, what they assume, and which of them say nothing."""
    cost: str
    """The epsilon that was spent on them."""


class ReviewAnswer(Answer):
    """What became of the review of a release; nulls while it waits for one."""

    decided_at: str | None
    """When it was decided on (UTC)."""
    reason: str | None
    """Why it was not approved, or what its reviewers want changed. The reason of an approval is in
    the ledger."""
    version: int | None = Field(default=None, exclude_if=lambda said: said is None)
    """Which version of the request it is; absent in the first turn."""
    turn: int | None = Field(default=None, exclude_if=lambda said: said is None)
    """How often it has come before its reviewers; absent in the first turn."""
    conflict: bool | None = Field(default=None, exclude_if=lambda said: said is None)
    """Whether both reviewers have voted, and unlike; absent in the first turn until they have."""


class JobAnswer(Answer):
    """A release that is drawn in the background."""

    deadline_s: int
    """Its outcome is shown this many seconds after the charge, or at the next doubling of that
    time."""
    expected_s: int | None = None
    """About how many seconds its draw takes, once its turn has come: estimated from the question
    and public facts, never from the data. Null of one that an earlier version planned."""


class AssumeAnswer(Answer):
    """The assumptions about the rows; no rows were read."""

    rows: int
    """How many rows the data set has."""
    population: Literal["uniform"] | dict[str, Any]
    """How values are distributed: evenly, or by column with a mean and a standard deviation, or
    with the shares of a category's values."""
    r_squared: float
    """Which share of a target's variance the features explain."""
    coefficients: dict[str, float]
    """How much a target changes with one unit of a column; empty: all features weigh equally."""


class WordsAnswer(Answer):
    """What has to be shown with numbers: how cells and records count, what categories mean."""

    excludes_missing: list[str] = Field(default=[], exclude_if=lambda names: not names)
    """Columns whose missing cells leave records out: the answer is about those that have a value.
    Left out where there is none."""
    fills: dict[str, Any] = Field(default={}, exclude_if=lambda fills: not fills)
    """By column that it uses, what missing cells were filled in with when the file was read. Left
    out where there is none."""
    about_missing: list[str] = Field(default=[], exclude_if=lambda said: not said)
    """Both in words, to be shown with the numbers: "income: missing values count as 0." Left out
    where there is nothing to say."""
    about_weights: list[str] = Field(default=[], exclude_if=lambda said: not said)
    """To be shown with the numbers where the data set's design declares a weight that they do not
    use, since the statistic takes none or the question says null: records count once then."""
    labels: dict[str, dict[str, str]] = Field(default={}, exclude_if=lambda labels: not labels)
    """What values of categories mean, by column and value, where the data set's spec says it. Left
    out where there is none."""


class ReleaseAnswer(WordsAnswer):
    """A release. `value` is null while it has no result."""

    id: str
    """Names the release in addresses."""
    dataset: str
    """The id of the data set."""
    status: str
    """`awaiting_review`, `changes_requested`, `running`, `released`, or how it ended without a
    result: `rejected`, `withdrawn`, `expired`, `void`."""
    statistic: dict[str, Any]
    """What was asked, defaults filled in."""
    mechanism: str
    """The mechanism that draws it."""
    norm: str | None
    """The norm of the noise; null where the mechanism has none to choose."""
    epsilon: str
    """The privacy loss of this release."""
    purpose: str | None = None
    """What the asker said it is for; absent where nothing was said."""
    value: dict[str, Any] | None
    """The private numbers; the shape is the statistic's. Null while there is no result."""
    noise: NoiseAnswer | None
    """The law of the noise; null where it depends on the data, or there is no result."""
    at_edge: list[EdgeAnswer] = Field(default=[], exclude_if=lambda edges: not edges)
    """Numbers of `value` that were clamped to what is possible, as a variance of 0: a reader shows
    the interval, or that they cannot be said. Left out where there is none."""
    at_most: list[EdgeAnswer] = Field(default=[], exclude_if=lambda bounds: not bounds)
    """Upper bounds in `value`, as the smallest p-values: `≤ 0.003`. Left out if there is none."""
    usefulness: UsefulnessAnswer | None = None
    """The quality of the numbers, from public facts and, once released, from themselves. Null
    where it is not known."""
    assume: AssumeAnswer | None = Field(default=None, exclude_if=lambda assumed: assumed is None)
    """The population that its usefulness was judged by: the default of a preview. Absent where it
    is not known."""
    inference: InferenceAnswer | None = Field(default=None, exclude_if=lambda made: made is None)
    """Standard errors and confidence intervals; absent where none were asked for, or there is no
    result."""
    guarantee: GuaranteeAnswer
    """The privacy guarantee of the release."""
    grid: dict[str, Any]
    """The public steps that the numbers are multiples of; `read_off` has those of the noisy numbers
    that they follow from, where they are no multiples themselves."""
    details: dict[str, Any]
    """Further public facts of the draw."""
    reason: str
    """Why this mechanism and norm."""
    job: JobAnswer | None = Field(default=None, exclude_if=lambda job: job is None)
    """How long a job takes; absent where it is none, or has ended."""
    requested_by: str
    """The requester."""
    created_at: str
    """When it was asked for (UTC, whole seconds)."""
    released_at: str | None
    """When it was charged, one second added (UTC): the duration of the draw is not shown."""
    citation: str | None
    """A sentence to publish with the numbers."""
    review: ReviewAnswer | None = None
    """Null where there is none to wait for; absent once it has a result."""
    receipt: str | None
    """A signature (compact JWS, EdDSA) that everyone can check offline; last member."""


class DerivationAnswer(WordsAnswer):
    """A statistic computed from a released result: post-processing, free."""

    derived_from: str
    """The release whose numbers it was computed from."""
    together_with: list[str]
    """The releases whose numbers were combined with these; empty where none were."""
    dataset: str
    """The id of the data set."""
    statistic: dict[str, Any]
    """What was computed, defaults filled in."""
    value: dict[str, Any]
    """The numbers, in the shape that a release of this statistic has."""
    noise: NoiseAnswer | None
    """The law of the noise that the numbers inherit; null where it depends on the data."""
    at_edge: list[EdgeAnswer] = Field(default=[], exclude_if=lambda edges: not edges)
    """Numbers of `value` that were clamped to what is possible, as a variance of 0: a reader shows
    the interval, or that they cannot be said. Left out where there is none."""
    at_most: list[EdgeAnswer] = Field(default=[], exclude_if=lambda bounds: not bounds)
    """Upper bounds in `value`, as the smallest p-values: `≤ 0.003`. Left out if there is none."""
    inference: InferenceAnswer | None
    """Standard errors and confidence intervals of regressions, means and correlations that were
    derived from `moments`; null for others."""
    guarantee: GuaranteeAnswer
    """That of the release it was derived from; of several, that of all together."""
    cost: str
    """Always 0."""
    reason: str
    """Why it costs nothing."""


class CalculatingAnswer(Answer):
    """A free calculation that takes more than two seconds, and goes on."""

    status: Literal["calculating"]
    """Send the same request again for what it comes to."""
    progress: float = Field(ge=0, le=1)
    """About which share is done, from 0 to 1; 0 while it waits for its turn."""


class AlternativeAnswer(Answer):
    """A choice that was compared."""

    mechanism: str
    """The other mechanism."""
    norm: str | None
    """Its norm; null where it has none to choose."""
    comparison: str
    """How it compares with the chosen mechanism."""
    std: float | None
    """Its standard deviation, to compare with the others'; null where none is known."""


class AccuracyAnswer(Answer):
    """The epsilon a wanted accuracy takes by the mechanism of the preview; null where none is
    enough."""

    wanted: float
    """The half-width that was wanted."""
    estimate: Literal["closed form", "simulated", "coarse"]
    """How epsilon was found: by the known law of the noise, by a simulation, or, where that takes
    more than 2 s of processor time, in proportion to the error at the epsilon of the preview."""
    epsilon: str | None
    """The least epsilon that reaches it: to 4 digits where the law of the noise is known. Where it
    is not, 95% of the errors in a public simulation are within it, and epsilon is right to about
    a fifth."""


class FigureAnswer(Answer):
    """What one person can change, and the norm balls around it, as a picture."""

    svg: str
    """The picture."""


class ChargeAnswer(Answer):
    """What a release takes from its account, in the account's unit."""

    amount: str
    """How much."""
    unit: Literal["epsilon", "rho"]
    """What it is counted in."""


class PreviewAnswer(WordsAnswer):
    """What a release would be like."""

    dataset: str
    """The id of the data set."""
    statistic: dict[str, Any]
    """What would be released, defaults filled in."""
    cost: str
    """The release's epsilon."""
    charge: ChargeAnswer
    """What it would take from the account."""
    mechanism: str
    """The mechanism that would draw it."""
    norm: str | None
    """The norm of the noise; null where the mechanism has none to choose."""
    epsilon: str
    """The privacy loss of the release."""
    reason: str
    """Why this mechanism and norm."""
    guarantee: GuaranteeAnswer
    """The privacy guarantee that the release would have."""
    grid: dict[str, Any]
    """The public steps that the numbers would be multiples of; `read_off` has those of the noisy
    numbers that they follow from, where they are no multiples themselves."""
    details: dict[str, Any]
    """Further public facts of the draw."""
    review: bool
    """Whether it would wait for a curator's approval. Nothing is charged before; then it is a
    job."""
    job: JobAnswer | None
    """Null where the release would be answered while its client waits."""
    noise: NoiseAnswer | None
    """The law of the noise, its intervals around 0; null where it depends on the data, or on a row
    count that was not assumed."""
    expected_error: dict[str, Any] | None
    """The expected absolute error of each number, in the shape of the value, of a table with one
    number, `count`, for all its cells: against the same answer without noise. From the law of the
    noise, or by a simulation on assumed rows. Bias, as by a ridge, is part of it."""
    error_range: ErrorRangeAnswer | None
    """The same over several populations, where the error depends on what is unknown of the records.
    The verdict is that of the largest."""
    possible_range: dict[str, Any] | None
    """Low and high of each number, in the same shape: what is taken as possible, of dates as texts.
    Null for a number without one."""
    usefulness: UsefulnessAnswer
    """Whether the release would be worth its price."""
    assume: AssumeAnswer
    """The population that was assumed."""
    alternatives: list[AlternativeAnswer]
    """Other mechanisms and norms, and how they compare."""
    adjacent_output_space: FigureAnswer | None
    """For statistics of two coordinates by k_norm; null otherwise."""
    accuracy: AccuracyAnswer | None
    """The epsilon that the wanted accuracy takes; null where none was wanted."""
    notice: str
    """What to know before asking twice."""


def preview_answer(preview: Mapping[str, object]) -> PreviewAnswer:
    """Return what a release would be like."""
    return PreviewAnswer.model_validate(preview)


def derivation_answer(derived: bytes) -> Response:
    """Return what was computed from a release, a :class:`DerivationAnswer`."""
    return Response(derived, media_type="application/json")


def calculating_answer(share: float) -> Response:
    """Return how far a calculation is."""
    answer = CalculatingAnswer(status="calculating", progress=round(share, 3))
    return Response(
        answer.model_dump_json(),
        status_code=202,
        headers={"Retry-After": str(AGAIN_S)},
        media_type="application/json",
    )


def outcome_answer(
    record: ReleaseRecord, moments: PublicMoments, hold: Callable[[int], None]
) -> Response:
    """Return what a question has come to; ``hold`` keeps it until that is public.

    Raises
    ------
    Problem
        ``release-closed``, ``release-void``.
    """
    if record.state in UNFINISHED:
        return accepted_answer(record, moments)
    if record.state in GIVEN_BACK:
        raise Problem("release-closed", outcome=record.state.value, release=record.id)
    hold(moments.public_from_ms(record))
    if record.state is ReleaseState.VOID:
        raise Problem("release-void")
    return _stored(record, 201, {"Location": _location(record)})


def accepted_answer(record: ReleaseRecord, moments: PublicMoments) -> Response:
    """Return a release that is under way, or waits for a review."""
    again = {"Location": _location(record), "Retry-After": str(moments.retry_after_s(record))}
    return _stored(record, 202, again)


def ended_answer(record: ReleaseRecord) -> Response:
    """Return a release that was given up before its draw."""
    return _stored(record, 200, {})


def shown_answer(
    record: ReleaseRecord, moments: PublicMoments, *, known: Callable[[str], bool]
) -> Response:
    """Return a release to whom asks for it again; ``known`` says whether they have this state."""
    headers = {"Cache-Control": "private, no-cache"}
    if record.state in UNFINISHED:
        headers["Retry-After"] = str(moments.retry_after_s(record))
    if known(etag_of(record)):
        return Response(status_code=304, headers={**headers, "ETag": etag_of(record)})
    return _stored(record, 200, headers)


def releases_answer(page: ReleasePage) -> Response:
    """Return a page of releases, each as it was answered."""
    return json_page_of(
        [(record.number, answer_of(record)) for record in page.records], more=page.more
    )


class _Shown(Response):
    """JSON whose headers are all given or known, which are written without a look at each."""

    def init_headers(self, headers: Mapping[str, str] | None = None) -> None:
        """Write the headers."""
        given = [(name.lower().encode(), text.encode()) for name, text in (headers or {}).items()]
        length = b"%d" % len(self.body)
        self.raw_headers = [*given, (b"content-length", length), _JSON]


def _stored(record: ReleaseRecord, status: int, headers: Mapping[str, str]) -> Response:
    """Return the bytes that show a release: they are signed, and are never serialised again."""
    return _Shown(answer_of(record), status, {**headers, "ETag": etag_of(record)})


def _location(record: ReleaseRecord) -> str:
    return f"/v1/releases/{record.id}"


class SyntheticColumnAnswer(Answer):
    """A column of synthetic rows."""

    name: str
    """Its name in the data set, or of a derived column."""
    type: Literal["boolean", "category", "date", "datetime", "integer", "number"]
    """As a data set's spec has it."""
    values: list[str] = Field(default=[], exclude_if=lambda values: not values)
    """A category's values, in their order; left out of others."""


class LinkAnswer(Answer):
    """A column of the model."""

    column: str
    """Its name."""
    given: list[str]
    """The earlier columns that it depends on; empty where it depends on none."""


class TableFitAnswer(Answer):
    """How near a table of the synthetic rows is to the released one."""

    columns: list[str]
    """The table's columns."""
    in_model: bool
    """Whether the model that rows begin with has this table as released. Then rows are moved to all
    tables."""
    total_variation: float
    """Half the sum of the absolute differences of all cells' shares: 0 for equal, 1 for disjoint
    ones."""


class SyntheticAnswer(Answer):
    """What a file of synthetic rows was made of, what it guarantees, and how near it is."""

    release: str
    """The release whose tables the model was fitted to."""
    dataset: str
    """The id of the data set."""
    synthetic: Literal[True]
    """No row is of a real person."""
    statement: str
    """What synthetic rows are, in words."""
    rows: int
    """How many."""
    seed: int
    """What they were drawn with."""
    format: Literal["csv", "parquet"]
    """Of the file."""
    sha256: str
    """Of the file's bytes."""
    columns: list[SyntheticColumnAnswer]
    """Its columns, in their order."""
    left_out: list[str]
    """Columns of the question that are in no table, and so not in the file."""
    guarantee: dict[str, Any]
    """The release's guarantee: the rows are computed from its numbers alone."""
    cost: str
    """`0`."""
    model: list[LinkAnswer]
    """The graphical model, in the order in which columns are drawn."""
    tables: list[TableFitAnswer]
    """Every released table, next to that of the rows."""
    unmeasured: list[list[str]]
    """Pairs of columns that no released table has: independent given the model."""


def cells_answer(page: CellPage, cut: Cut, release: str) -> Response:
    """Return a page of cells, with a link to the next one."""
    headers = {} if page.next is None else {"Link": f'<{page.next.address(release)}>; rel="next"'}
    return Response(page.content, media_type=LINES[cut.format], headers=headers)


def synthetic_answer(sidecar: Mapping[str, Any]) -> SyntheticAnswer:
    """Return what describes a file of synthetic rows."""
    return SyntheticAnswer.model_validate(sidecar)


def synthetic_file_answer(content: bytes, wanted: Wanted, release: str) -> Response:
    """Return synthetic rows as a file, with a link to what describes it."""
    headers = {
        "Content-Disposition": f'attachment; filename="{wanted.name(release)}"',
        "Link": f'<{wanted.address(release)}>; rel="describedby"',
    }
    return Response(content, media_type=MEDIA_TYPES[wanted.format], headers=headers)
