"""The interfaces of every statistic, plan and data source.

A *statistic* is a frozen dataclass holding the analyst's question. It knows which questions a
schema allows, never the data. A *mechanism* turns it into a :class:`Plan`, which depends on public
facts alone, and the plan draws one :class:`Outcome` from a :class:`Data`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from fractions import Fraction
from typing import Any, ClassVar, Literal, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from mechanisms.domain import CategoryColumn, NumberColumn, Schema
from mechanisms.exact.fractions import once
from mechanisms.geometry.smooth import Ball
from mechanisms.privacy import Guarantee, PrivacyLoss
from mechanisms.probes import Probe
from mechanisms.randomness import Randomness
from mechanisms.words import listed, no_column

T = TypeVar("T")
Json = Mapping[str, object]
Block = Mapping[str, NDArray[Any]]
"""Arrays of some rows by name: codes (int32), or values, see :func:`mechanisms.domain.exact`."""

ErrorsOn = Callable[["Data", int, bytes, float], Json]
"""See :class:`Plan`."""


class InvalidStatisticError(ValueError):
    """The question does not fit the public schema, or is not offered.

    The message is shown to the analyst; it is built from public facts and the names of fields.
    """

    def __init__(self, detail: str, *, field_name: str = "statistic") -> None:
        super().__init__(detail)
        self.detail = detail
        self.field_name = field_name


class Data(Protocol):
    """Private data as a mechanism reads it: integer sketches, or blocks of codes.

    ``rows`` is the true row count: private under add-remove.
    """

    @property
    def rows(self) -> int: ...

    def gram(self, columns: Sequence[str]) -> list[list[int]]:
        """Return the exact integer Gram matrix of (1, sum codes of the named number columns).

        Row and column 0 belong to the constant 1, so ``g[0][0]`` is the row
        count, ``g[0][1+j]`` the sum of codes, ``g[1+j][1+k]`` of products.
        """

    def ordered(self, column: str) -> tuple[NDArray[np.integer[Any]], NDArray[np.int64]]:
        """Return the occupied cells of a number column's grid, ascending, and their counts."""

    def category_counts(self, column: str) -> NDArray[np.int64]:
        """Return how often each declared value of a category column occurs."""

    def blocks(self, columns: Sequence[str]) -> Iterator[Block]:
        """Yield blocks of rows in stored order: codes, int32; values where names are ``exact``."""

    def map(self, function: Callable[[Block], T], columns: Sequence[str], /) -> Iterator[T]:
        """Yield the function's result for each of :meth:`blocks`, in their order.

        The function may run in another process or on another machine, so it and its results must
        pickle. Results that are integers, or balls added up in this order, have the same bits on
        every machine.
        """

    def remembered(self, key: Hashable, make: Callable[[], T], size: Callable[[T], int], /) -> T:
        """Return the cached object of this key, or make it; a cache may drop it at any time.

        ``size`` returns how many bytes it takes.
        """


@dataclass(frozen=True, slots=True)
class Noise:
    """The law of the added noise, in the units of the answer.

    Both mappings mirror the shape of the answer's ``value``: each number is
    replaced by its standard deviation, or by its 95% interval ``[low, high]``.
    In a release the interval surrounds the released number; in a preview,
    where there is none, it surrounds zero. ``expected_error`` mirrors it too: the noise's
    mean absolute size, None where only a simulation gives it.
    """

    std: Json
    interval_95: Json
    expected_error: Json | None = None

    def mapped(self, change: Callable[[Json], Json]) -> Noise:
        """Return the law of the answer that ``change`` makes of this one's."""
        size = self.expected_error
        return Noise(
            std=change(self.std),
            interval_95=change(self.interval_95),
            expected_error=None if size is None else change(size),
        )


class LateNoise(Noise):
    """A law that takes longer to compute than a draw: it is computed when it is first read.

    It must follow from released numbers alone. Pickling computes it and stores a :class:`Noise`.
    """

    _make: Callable[[], Noise]

    def __init__(self, make: Callable[[], Noise]) -> None:
        object.__setattr__(self, "_make", make)

    @once
    def known(self) -> Noise:
        """Return the law itself."""
        return self._make()

    @property
    def std(self) -> Json:
        """Return the standard deviations."""
        return self.known.std

    @property
    def interval_95(self) -> Json:
        """Return the intervals."""
        return self.known.interval_95

    @property
    def expected_error(self) -> Json | None:
        """Return the mean sizes."""
        return self.known.expected_error

    def __reduce__(self) -> tuple[Callable[..., Noise], tuple[object, ...]]:
        return Noise, (self.std, self.interval_95, self.expected_error)


def joined_noise(parts: Sequence[Noise], join: Callable[[Sequence[Json]], Json]) -> Noise:
    """Return the law of several answers as one."""
    sizes = [part.expected_error for part in parts if part.expected_error is not None]
    return Noise(
        std=join([part.std for part in parts]),
        interval_95=join([part.interval_95 for part in parts]),
        # a result for some parts would look like one for all
        expected_error=join(sizes) if len(sizes) == len(parts) else None,
    )


AT_THE_EDGE = "Cannot be said: with its noise this number is at the edge of what is possible."
"""Why there is no estimate of a number that a clamp has moved to its limit."""
IN_CONFIDENCE = f"{AT_THE_EDGE} The confidence interval shows where it may be."


@dataclass(frozen=True, slots=True, kw_only=True)
class Term:
    """One number of an answer, and the inference about the same number of the population.

    Attributes
    ----------
    estimate
        The released number: a float, an ISO 8601 text for a date or a moment, or None where there
        is no estimate.
    reason
        Why there is no estimate, in a sentence for people.
    std_error
        Half the width of the middle 68.3% of where the population's may be; None: cannot be said.
    confidence_95
        Where the population's number is, sampling error and privacy noise together.
    noise_95
        Where the number would have been without privacy noise; None where that is not known.
    by
        The group it is of; empty for all records.
    place
        The path of the number in the answer's ``value``; empty for a number that is not in it.
    open
        Whether the interval is uninformative: it is all that public bounds allow.
    """

    term: str
    estimate: Any
    std_error: float | None
    confidence_95: tuple[Any, Any]
    noise_95: tuple[Any, Any] | None = None
    reason: str | None = None
    by: Mapping[str, str] = field(default_factory=dict)
    place: tuple[str | int, ...] = ()
    open: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Inference:
    """Standard errors and confidence intervals of an answer's numbers, computed from it alone.

    ``fit`` holds further numbers that are not in the answer: a regression's R squared and
    residual variance. ``method`` states the method and its assumptions; ``cost`` is its part
    of the release's epsilon.
    """

    terms: tuple[Term, ...]
    method: str
    fit: tuple[Term, ...] = ()
    cost: str = "0"


@dataclass(frozen=True, slots=True, kw_only=True)
class Edge:
    """A number at the edge of the possible values: its path, and why it is uninformative."""

    place: tuple[str | int, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """One sanitized answer, ready for JSON.

    ``edges`` are numbers that were clamped, as :func:`mechanisms.presentation.shown` finds them.
    ``shares_off`` has the expected errors of shares that were read off noisy counts, by these.
    ``facts`` are released with it, and go into the plan's details: what a draw chose for itself.
    """

    value: Json
    noise: Noise | None
    inference: Inference | None = None
    edges: tuple[Edge, ...] = ()
    facts: Json = field(default_factory=dict)
    shares_off: Json | None = None

    def settled(self) -> Outcome:
        """Return the same outcome with its noise computed."""
        noise = self.noise
        return replace(self, noise=noise.known) if isinstance(noise, LateNoise) else self


def joined_facts(parts: Sequence[Json]) -> Json:
    """Return what the draws of several parts chose, as details of the parts; often nothing."""
    return {"parts": [{"details": part} for part in parts]} if any(parts) else {}


def with_drawn(details: Json, facts: Json) -> Json:
    """Return a plan's details with what its draw chose, each where its part is.

    >>> with_drawn({"clip": {"share": "0.25"}}, {"clip": {"bounds": {}}})
    {'clip': {'share': '0.25', 'bounds': {}}}
    """
    return {**details, **{name: _merged(details.get(name), each) for name, each in facts.items()}}


def _merged(before: object, after: object) -> object:
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        return with_drawn(before, after)
    if isinstance(before, list) and isinstance(after, list):
        return [_merged(*pair) for pair in zip(before, after, strict=True)]
    return after


@dataclass(frozen=True, slots=True, kw_only=True)
class Disturbance:
    """How a released theta solves a disturbed estimating equation, in scaled units.

        grad(theta) + ridge theta + V = 0,   V ~ exp(-rate ||v||_K),

    grad the gradient of the sum of losses, for a theta inside the bound. Exactly so by objective
    perturbation. By the K-norm gradient mechanism where the curvature hardly changes over the
    spread of a draw: theta's density is then that of V. By the exponential mechanism V is normal:

        V ~ N(0, (H + ridge) / rate),   H the Hessian of the sum of losses.

    Where a factor's values are blocks of their own the ridge is ridge F F' theta, and V = F z with
    a z of that law for each block.

    Attributes
    ----------
    ball
        The name of K; None where V is normal.
    rate
        Given the l1 norm of theta.
    bound
        The limit of that; None for none.
    joined
        F by rows; None for the identity.
    blocks
        The lengths of F's blocks of columns.
    """

    ball: Ball | None
    ridge: Fraction
    rate: Callable[[float], float]
    bound: Fraction | None
    joined: Sequence[Sequence[Fraction]] | None = None
    blocks: Sequence[int] = ()


@dataclass(frozen=True, slots=True)
class Alternative:
    """A mechanism and norm that could have been chosen, and how it compares."""

    mechanism: str
    norm: str | None
    comparison: str
    std: float | None = None


def no_noise(assumed_rows: int | None) -> None:  # noqa: ARG001
    """Return no preview, for a law whose spread depends on the data."""
    return


def no_figure() -> None:
    """Draw nothing, where a figure would show a part."""


Draw = Callable[["Data", "Randomness"], "Outcome"]
"""Draws one release."""


@dataclass(frozen=True, slots=True)
class Drawing:
    """What a plan does, in the process that does it; made of the plan by :class:`Parameters`.

    ``draw`` is the only member that touches data. ``preview`` takes an assumed row count, which
    only ratios under add-remove need, and answers None where the law depends on the data.
    ``figure`` draws SS Figure 1 as SVG text for a statistic of two coordinates, else None:
    a preview shows it, and a release does not wait for it. ``errors_on`` simulates, in floats, a
    number of answers about (synthetic) data from a seed, each row as several records. It returns
    the absolute errors in the shape of the value, with an array for each number. None where only
    draws give them. Standard errors of a regression follow from ``disturbance``, if it is known.
    """

    draw: Draw
    preview: Callable[[int | None], Noise | None] = no_noise
    figure: Callable[[], str | None] = no_figure
    errors_on: ErrorsOn | None = None
    disturbance: Disturbance | None = None


class Parameters(Protocol):
    """The calibrated numbers of a mechanism, or of parts that are drawn together: public data.

    A subclass is a frozen dataclass whose fields are numbers, texts and other parameters, so that
    a plan pickles and prints as JSON; :data:`mechanisms.catalog.PARAMETERS` has each by its name.
    Whatever else a draw needs follows from the question and the public facts it was asked with.
    """

    def drawing(self, statistic: Any, schema: Schema, /) -> Drawing:
        """Return how this is drawn, for the question and the schema it was calibrated for.

        Raises
        ------
        ValueError
            It is not of that question: an earlier version may have calibrated it.
        """


@dataclass(frozen=True)
class Plan:
    """A calibrated release, as a value: all of it is public data, and it pickles.

    ``statistic`` and ``schema`` are what it was made for, and ``parameters`` how it is drawn from
    those. ``grid`` and ``details`` are JSON-ready public facts (steps in the answer's units
    or of what it is read off; ridge and the like). :mod:`mechanisms.catalog` writes and reads it.

    *What a draw costs.* ``expected_ms`` is about how many milliseconds of one ordinary core it
    takes: a function of public facts alone, measured with the rows spread evenly. 95% of draws from
    realistic rows take ``slowness`` times as long at most (``studies.draw_times``), and few as long
    as ``margin`` times, after which a job is shown; both follow from public facts. Whether other
    values in the rows may change it says ``time_depends_on_data``, and ``drawn_on_boxes`` whether
    some make it hundreds of times longer (:mod:`mechanisms.samplers.boxes`).

    *What it does.* ``draw``, ``preview``, ``figure``, ``errors_on`` and ``disturbance`` are those
    of its :class:`Drawing`, which is made when it is first asked for.
    """

    mechanism: str
    norm: str | None
    statistic: Statistic
    schema: Schema
    parameters: Parameters
    guarantee: Guarantee
    grid: Json
    reason: str
    expected_ms: float
    time_depends_on_data: bool
    drawn_on_boxes: bool = False
    slowness: float = 1.0
    margin: float = 8.0
    alternatives: tuple[Alternative, ...] = ()
    details: Json = field(default_factory=dict)

    @once
    def drawing(self) -> Drawing:
        """Return how it is drawn in this process."""
        return self.parameters.drawing(self.statistic, self.schema)

    @property
    def draw(self) -> Draw:
        """Return what draws one release."""
        return self.drawing.draw

    @property
    def preview(self) -> Callable[[int | None], Noise | None]:
        """Return what states the law of the noise without data."""
        return self.drawing.preview

    @property
    def figure(self) -> Callable[[], str | None]:
        """Return what draws the figure."""
        return self.drawing.figure

    @property
    def errors_on(self) -> ErrorsOn | None:
        """Return what simulates errors, if anything does."""
        return self.drawing.errors_on

    @property
    def disturbance(self) -> Disturbance | None:
        """Return the equation that a released theta solves, if one is known."""
        return self.drawing.disturbance

    def __getstate__(self) -> dict[str, object]:
        """Return the fields alone: a drawing is made again where it is needed."""
        return {each.name: getattr(self, each.name) for each in fields(self)}


Place = Sequence[str | int]
"""A path in an answer's ``value``."""

Reading = Callable[[Outcome], Outcome]
"""How an answer follows from another one: a public function."""
ErrorLaw = Literal[
    "linear", "linear where rows are known", "squared loss", "logistic loss", "ranks", "simulated"
]
"""Where expected errors come from: the law of the noise, in which answers are linear (where a
public number of rows divides them); a form for a loss, or for ranks; or a simulation."""

NearZero = Literal["a value", "no effect", "nothing"]
"""What a number near 0 means: a value like any other, that there is no effect, or that nothing was
found, as in a count."""


@dataclass(frozen=True, slots=True)
class FieldHint:
    """What a field is called in a form, its help, whether few need it, and which columns it names.

    ``options`` are what its choices are called, ``members`` the numbers of a value with several.
    """

    label: str
    help: str
    rare: bool = False
    columns: Literal["", "numbers", "amounts", "flags", "groups"] = ""
    options: Mapping[str, str] = field(default_factory=dict)
    members: Mapping[str, str] = field(default_factory=dict)


class Statistic(Protocol):
    """A question. Subclasses are frozen, keyword-only dataclasses, one per file.

    ``kind`` is a ``Literal`` field with a default, so that request models can
    be built from the classes. Every other field says what it means (:func:`meaning`).

    A class owns all facts about its kind; no other module names kinds. Most facts have a default
    (:class:`mechanisms.statistics.facts.defaults.Facts`).

    *On offer.* ``mechanisms`` maps each mechanism offered for this statistic, the default first,
    to the norms it offers. ``example`` is a whole question, ready for JSON. ``limits`` are numbers
    by name; ``advice`` says when a mechanism serves better. ``probes`` are questions about pairs
    of neighbours, for audits of running desks.

    *Of its answers.* ``clamped_to``: values to which numbers are clamped besides intervals' ends;
    None for no clamping. ``column_by_column``: each column's number needs no other column.
    ``has_cells``: its columns make cells, one perhaps of missing values. ``counts_records``: its
    numbers count records, are shares, or ``in_unit_of_column``. ``ratios``: the member of slopes'
    exponentials, if any. Refused where a person may have more rows than ``most_rows_per_person``.

    *Of its errors.* ``error_law`` says where they come from, ``near_zero`` what a number near 0
    means, ``reason_of_bias`` why answers without noise are off. ``lies_among_values``: an answer is
    one of the rows' values, or between two. ``rows_for_each_draw``: each simulated draw needs its
    own rows. ``chosen_by_error``: "auto" is the mechanism of least error, and not the first.
    ``follows_from_moments``: moments of its columns determine it, given the rest. ``by_design``:
    what a weighted one is. ``has_inference``: all have intervals; ``no_inference``: why none has.

    *In words.* ``name``: what people call it, ``named_by`` a field's value, ``name_on_diagonal`` of
    a column with itself. ``precedes_columns``: "mean income by sex". ``stated_fields``: also empty.
    *In forms.* ``hints``: labels, help. ``suggested`` to empty forms, at a ``usual_inference``.
    Its target may be a comparison (``compares_target``), or is one of a category's values
    (``explains_category``). ``usually_conditioned``: conditions are among its first fields.
    """

    @property
    def kind(self) -> str: ...

    mechanisms: ClassVar[Mapping[str, tuple[str, ...]]]
    example: ClassVar[Json]
    limits: ClassVar[Mapping[str, int]]
    advice: ClassVar[Mapping[str, str]]
    probes: ClassVar[tuple[Probe, ...]]
    clamped_to: ClassVar[frozenset[float] | None]
    most_rows_per_person: ClassVar[int]
    column_by_column: ClassVar[bool]
    has_cells: ClassVar[bool]
    ratios: ClassVar[str]
    counts_records: ClassVar[bool]
    in_unit_of_column: ClassVar[bool]
    error_law: ClassVar[ErrorLaw]
    near_zero: ClassVar[NearZero]
    reason_of_bias: ClassVar[str]
    lies_among_values: ClassVar[bool]
    rows_for_each_draw: ClassVar[bool]
    chosen_by_error: ClassVar[bool]
    follows_from_moments: ClassVar[bool]
    has_inference: ClassVar[bool]
    no_inference: ClassVar[str]
    by_design: ClassVar[Literal["mean", "total"] | None]
    name: ClassVar[str]
    named_by: ClassVar[Mapping[str, Mapping[str, str]]]
    name_on_diagonal: ClassVar[str]
    precedes_columns: ClassVar[bool]
    stated_fields: ClassVar[frozenset[str]]
    hints: ClassVar[Mapping[str, FieldHint]]
    suggested: ClassVar[bool]
    compares_target: ClassVar[bool]
    explains_category: ClassVar[bool]
    usually_conditioned: ClassVar[bool]
    usual_inference: ClassVar[str]

    def check(self, schema: Schema) -> None:
        """Raise :class:`InvalidStatisticError` when the question does not fit the schema.

        The question must be about plain columns of a view, as mechanisms receive it.
        """

    def planning_ms(self, schema: Schema, mechanism: str, /) -> float:
        """Return about how many milliseconds of one core it takes to plan or preview this.

        It is called before a plan exists, and arbitrary for a question that does not fit the
        schema, because that is refused at once; ``mechanism`` may be "auto".
        """

    def possible_ranges(self, schema: Schema, rows: float, /) -> Json | None:
        """Return ``[low, high]`` for each number of an answer about at most ``rows`` rows.

        The question is about plain columns, without groups. None where no range is known.
        """

    def answer_numbers(self, schema: Schema, /) -> int:
        """Return about how many numbers an answer about all records has, without their noise."""

    def relation(self) -> tuple[str, tuple[str, ...]] | None:
        """Return a column and those that explain it in simulations; None where none needs to.

        The question is about plain columns.
        """

    @property
    def value_columns(self) -> tuple[str, ...]:
        """Return the columns whose values the answer's numbers are: dates are shown as dates."""

    def column_at(self, place: Place, /) -> str | None:
        """Return the one whose value the number at a place of one group's answer is, if any."""

    def moment_columns(self, schema: Schema, /) -> tuple[str, ...] | None:
        """Return the columns whose moments determine the answer; None where none do."""

    def reading(self, source: Any, schema: Schema, /) -> Reading | None:
        """Return how the answer follows from a released answer to ``source``; None if not at all.

        It is post-processing, so it is free (Awan & Slavkovic, Proposition 2.11).
        """

    def drawn_by(self) -> Statistic | None:
        """Return the question that is drawn in place of this one, which is read off its answer.

        None where mechanisms draw this one.
        """

    def estimand(self) -> Self:
        """Return the question whose answer without noise this one's are compared with."""


def meaning(text: str, *, example: object = None) -> Json:
    """Return the metadata of a statistic's field: what it means, and an example.

    The catalog reads them, and so does the OpenAPI document, by these names. A field that
    the class's own ``example`` sets needs none here.

    >>> dict(meaning("A number column.", example="income"))
    {'description': 'A number column.', 'examples': ['income']}
    """
    shown = {} if example is None else {"examples": [example]}
    return {"description": text, **shown}


class Calibrate(Protocol):
    """Plans a release: statistic, schema, epsilon, and the name of a norm or "auto"."""

    def __call__(
        self, statistic: Any, schema: Schema, epsilon: PrivacyLoss, norm: str, /
    ) -> Plan: ...


def by_statistic(mechanism: str, table: Mapping[type[Statistic], Calibrate]) -> Calibrate:
    """Return the ``calibrate`` of a mechanism that has one for each statistic it draws.

    It raises :class:`InvalidStatisticError` for any other statistic, for a question that does
    not fit the schema, and for a norm that is not offered. So an entry need not check them.
    """

    def calibrate(statistic: Statistic, schema: Schema, epsilon: PrivacyLoss, norm: str, /) -> Plan:
        entry = table.get(type(statistic))
        if entry is None and (drawn := statistic.drawn_by()) is not None:
            require_valid(statistic, schema, mechanism, norm)
            plan = calibrate(drawn, schema, epsilon, norm)
            return replace(plan, statistic=statistic, parameters=ReadOff(plan.parameters))
        if entry is None:
            kinds = ", ".join(cls.__dataclass_fields__["kind"].default for cls in table)  # type: ignore[attr-defined]
            raise InvalidStatisticError(f"{mechanism} draws only {kinds}", field_name="mechanism")
        require_valid(statistic, schema, mechanism, norm)
        return entry(statistic, schema, epsilon, norm)

    return calibrate


@dataclass(frozen=True, slots=True)
class ReadOff:
    """The parameters of a statistic that is read off the answer to another one.

    **Privacy.** A function of a released answer keeps its guarantee, whatever the adjacency (Awan &
    Slavkovic, Proposition 2.11). So the guarantee, its sensitivity and its theorem are the other
    one's. Laws of the noise are not: a release states one where the reading does.
    """

    drawn: Parameters

    def drawing(self, statistic: Statistic, schema: Schema) -> Drawing:
        """Return a drawing that draws the other one, and reads this one off it."""
        other = statistic.drawn_by()
        read = None if other is None else statistic.reading(other, schema)
        if read is None:
            raise ValueError("a statistic is read off what is drawn for it")
        draw = self.drawn.drawing(other, schema).draw
        return Drawing(draw=lambda data, randomness: read(draw(data, randomness)))


def require_valid(statistic: Statistic, schema: Schema, mechanism: str, norm: str) -> None:
    """Refuse a norm that this mechanism does not offer, and a question that does not fit.

    Each mechanism's ``calibrate`` calls this, and nothing else does: questions are checked once.
    It assumes one row per person: :mod:`mechanisms.people` plans for people with several rows.
    """
    if schema.protects.rows != 1:
        raise ValueError("a mechanism is planned for people of one row")
    norms = statistic.mechanisms[mechanism]
    if norm not in ("auto", *norms):
        kind, names = f"{statistic.kind} by {mechanism}", ", ".join(norms)
        said = f"{kind} offers the norms {names}" if norms else f"{kind} has no norm to choose"
        raise InvalidStatisticError(said, field_name="norm")
    statistic.check(schema)


def require_numbers(
    schema: Schema, names: Sequence[str], field_name: str, *, most: int | None = None
) -> list[NumberColumn]:
    """Return the named number (or boolean) columns, each known and named once, ``most`` of them."""
    if not names:
        raise InvalidStatisticError("name at least one column", field_name=field_name)
    if len(set(names)) != len(names):
        raise InvalidStatisticError("a column is named twice", field_name=field_name)
    found = [require_column(schema, name, field_name) for name in names]
    numbers = [column for column in found if isinstance(column, NumberColumn)]
    if len(numbers) != len(found):
        categories = listed([n for n in names if isinstance(schema.columns[n], CategoryColumn)])
        raise InvalidStatisticError(
            f"columns must be numbers or booleans, and these are categories: {categories}. "
            'A "histogram" counts the values of a category; the share of one is the mean of a '
            'derived column, as in "derive": {"women": "sex == \'f\'"}; "logistic_regression" '
            'takes one value against the others as its target: {"column": ..., "op": "==", '
            '"value": ...}',
            field_name=field_name,
        )
    if most is not None and len(numbers) > most:
        raise InvalidStatisticError(f"name at most {most} columns", field_name=field_name)
    return numbers


def require_column(schema: Schema, name: str, field_name: str) -> NumberColumn | CategoryColumn:
    """Return the named column, or say that there is none and which there are."""
    column = schema.columns.get(name)
    if column is None:
        raise InvalidStatisticError(no_column(list(schema.columns), name), field_name=field_name)
    return column
