"""What every statistic, plan and data source looks like.

A *statistic* is a frozen dataclass holding the analyst's question. It knows
what may be asked of a schema, never the data. A *mechanism* turns it into a
:class:`Plan`, which depends on public facts alone, and the plan draws one
:class:`Outcome` from a :class:`Data`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, ClassVar, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from mechanisms.domain import CategoryColumn, NumberColumn, Schema
from mechanisms.exact.once import once
from mechanisms.geometry.balls import Ball
from mechanisms.privacy import Guarantee, PrivacyLoss
from mechanisms.randomness import Randomness
from mechanisms.words import closest_first, listed

T = TypeVar("T")
Json = Mapping[str, object]
Block = Mapping[str, NDArray[np.int32]]


class InvalidStatisticError(ValueError):
    """The question does not fit the public schema, or is not offered.

    The message is shown to the analyst; it is built from public facts and
    from the names of fields, never from values.
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
        """Return the exact integer Gram matrix of (1, codes of the named number columns).

        Row and column 0 belong to the constant 1, so ``g[0][0]`` is the row
        count, ``g[0][1+j]`` the sum of codes, ``g[1+j][1+k]`` of products.
        """

    def ordered(self, column: str) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """Return a number column's distinct codes, ascending, and how often each occurs."""

    def category_counts(self, column: str) -> NDArray[np.int64]:
        """Return how often each declared value of a category column occurs."""

    def blocks(self, columns: Sequence[str]) -> Iterator[Block]:
        """Yield blocks of rows (codes or category indices, int32) in stored order."""

    def map(self, function: Callable[[Block], T], columns: Sequence[str], /) -> Iterator[T]:
        """Yield the function's result for each of :meth:`blocks`, in their order.

        It may be called in another process or on another machine: the function and its results
        travel (pickle). Results that are integers, or balls added up in this order, are the same
        bits wherever they were made.
        """

    def remembered(self, key: Hashable, make: Callable[[], T], size: Callable[[T], int], /) -> T:
        """Return what was made of these data under this key, or make it; it may be forgotten.

        ``size`` says how many bytes it takes.
        """


@dataclass(frozen=True, slots=True)
class Noise:
    """The law of the added noise, in the units of the answer.

    Both mappings mirror the shape of the answer's ``value``: each number is
    replaced by its standard deviation, or by its 95% interval ``[low, high]``.
    In a release the interval surrounds the released number; in a preview,
    where there is none, it surrounds zero. ``expected_error`` mirrors it too: the noise's
    mean absolute size, None where only a simulation tells it.
    """

    std: Json
    interval_95: Json
    expected_error: Json | None = None

    def mapped(self, change: Callable[[Json], Json]) -> Noise:
        """Return the law of an answer that is this one's changed, or cut, in such a way."""
        size = self.expected_error
        return Noise(
            std=change(self.std),
            interval_95=change(self.interval_95),
            expected_error=None if size is None else change(size),
        )


class LateNoise(Noise):
    """A law that takes longer to tell than a draw: it is worked out when it is first read.

    What is read must follow from released numbers alone. It travels (pickle) as what was read.
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
        # that of some parts would be taken for the whole's
        expected_error=join(sizes) if len(sizes) == len(parts) else None,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Term:
    """One number of an answer, and what is known of the same number of the population.

    Attributes
    ----------
    std_error
        Half the width of the middle 68.3% of where the population's number may be: a standard
        deviation where that is normal.
    confidence_95
        Where the population's number is, sampling error and privacy noise together.
    noise_95
        Where the number would have been without privacy noise; None where that is not known.
    by
        The group it is of; empty for all records.
    open
        Whether the noise says nothing: the interval is all that public bounds allow.
    """

    term: str
    estimate: float
    std_error: float
    confidence_95: tuple[float, float]
    noise_95: tuple[float, float] | None = None
    by: Mapping[str, str] = field(default_factory=dict)
    open: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Inference:
    """Standard errors and confidence intervals of an answer's numbers, made of it alone.

    ``fit`` holds further numbers that are not in the answer: a regression's R squared and
    residual variance. ``method`` says how, and on which assumptions; ``cost`` which epsilon of the
    release was spent on it.
    """

    terms: tuple[Term, ...]
    method: str
    fit: tuple[Term, ...] = ()
    cost: str = "0"


@dataclass(frozen=True, slots=True)
class Outcome:
    """One sanitized answer, ready for JSON."""

    value: Json
    noise: Noise | None
    inference: Inference | None = None

    def settled(self) -> Outcome:
        """Return the same with nothing left to work out."""
        noise = self.noise
        return replace(self, noise=noise.known) if isinstance(noise, LateNoise) else self


@dataclass(frozen=True, slots=True, kw_only=True)
class Disturbance:
    """How a released theta solves a disturbed estimating equation, in scaled units.

        grad(theta) + ridge theta + V = 0,   V ~ exp(-rate ||v||_K),

    grad the gradient of the sum of losses, for a theta inside the bound. Exactly so by objective
    perturbation. By the K-norm gradient mechanism where the curvature hardly changes over the
    spread of a draw: theta's density is then that of V. By the exponential mechanism V is normal:

        V ~ N(0, (H + ridge) / rate),   H the Hessian of the sum of losses.

    Attributes
    ----------
    ball
        The name of K; None where V is normal.
    rate
        Given the l1 norm of theta.
    bound
        The limit of that; None for none.
    """

    ball: Ball | None
    ridge: Fraction
    rate: Callable[[float], float]
    bound: Fraction | None


@dataclass(frozen=True, slots=True)
class Alternative:
    """A mechanism and norm that could have been chosen, and how it compares."""

    mechanism: str
    norm: str | None
    comparison: str
    std: float | None = None


def _no_figure() -> None:
    """Draw nothing."""


@dataclass(frozen=True, slots=True)
class Plan:
    """A calibrated release: everything about it that is public, and how to draw it.

    ``grid`` and ``details`` are JSON-ready public facts (steps in the answer's
    units; ridge, q, gamma and the like). ``draw`` is the only member that
    touches data. ``preview`` takes an assumed row count, which only ratios
    under add-remove need, and answers None where the law depends on the data.
    ``figure`` draws SS Figure 1 as SVG text for a statistic of two coordinates, else None:
    a preview shows it, and a release need not wait for it. ``disturbance`` is what standard
    errors of a regression follow from, None where no such equation is known.

    *What a draw costs.* ``expected_ms`` is about how many milliseconds of one ordinary
    core it takes: a function of public facts alone, measured with the rows spread
    evenly. ``time_depends_on_data`` says whether other values in the rows may make it
    shorter or longer. ``drawn_on_boxes`` says that some may make it hundreds of times
    longer, however few the rows are (:mod:`mechanisms.samplers.boxes`).
    """

    mechanism: str
    norm: str | None
    guarantee: Guarantee
    grid: Json
    reason: str
    draw: Callable[[Data, Randomness], Outcome]
    preview: Callable[[int | None], Noise | None]
    expected_ms: float
    time_depends_on_data: bool
    drawn_on_boxes: bool = False
    alternatives: tuple[Alternative, ...] = ()
    figure: Callable[[], str | None] = _no_figure
    details: Json = field(default_factory=dict)
    disturbance: Disturbance | None = None


class Statistic(Protocol):
    """A question. Subclasses are frozen, keyword-only dataclasses, one per file.

    ``kind`` is a ``Literal`` field with a default, so that request models can
    be built from the classes. ``mechanisms`` maps each mechanism offered for
    this statistic, the default first, to the norms it offers. Every other field says
    what it means (:func:`meaning`); ``example`` is a whole question, ready for JSON.
    """

    @property
    def kind(self) -> str: ...

    mechanisms: ClassVar[Mapping[str, tuple[str, ...]]]
    example: ClassVar[Json]

    def check(self, schema: Schema) -> None:
        """Raise :class:`InvalidStatisticError` when the question does not fit the schema.

        It is asked of a question as mechanisms know it: about plain columns of a view.
        """

    def planning_ms(self, schema: Schema, mechanism: str, /) -> float:
        """Return about how many milliseconds of one core it takes to plan or preview this.

        It is asked before a plan exists. It may be anything for a question that does
        not fit the schema, which is refused at once; ``mechanism`` may be "auto".
        """


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
        if entry is None:
            kinds = ", ".join(cls.__dataclass_fields__["kind"].default for cls in table)  # type: ignore[attr-defined]
            raise InvalidStatisticError(f"{mechanism} releases {kinds}", field_name="mechanism")
        require_valid(statistic, schema, mechanism, norm)
        return entry(statistic, schema, epsilon, norm)

    return calibrate


def require_valid(statistic: Statistic, schema: Schema, mechanism: str, norm: str) -> None:
    """Refuse a norm that this mechanism does not offer, and a question that does not fit.

    Each mechanism's ``calibrate`` calls this, and nothing else does: questions are checked once.
    It takes a row for a person: :mod:`mechanisms.people` plans for those who have several.
    """
    if schema.protects.rows != 1:
        raise ValueError("a mechanism is planned for people of one row")
    norms = statistic.mechanisms[mechanism]
    if norm not in ("auto", *norms):
        listed = f"offers the norms {', '.join(norms)}" if norms else "has no norm to choose"
        raise InvalidStatisticError(f"{statistic.kind} by {mechanism} {listed}", field_name="norm")
    statistic.check(schema)


def no_noise(assumed_rows: int | None) -> None:  # noqa: ARG001
    """Preview nothing: for a law whose spread depends on the data."""
    return


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
        categories = [name for name in names if not isinstance(schema.columns[name], NumberColumn)]
        raise InvalidStatisticError(
            f"columns must be numbers or booleans, and these are categories: {listed(categories)}. "
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
        there = listed(closest_first(list(schema.columns), name))
        raise InvalidStatisticError(
            f"the data set has no such column; its columns are {there}", field_name=field_name
        )
    return column
