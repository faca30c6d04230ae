"""Statistics that follow from the released answer to another one.

    answer' = f(answer),   f public

which is post-processing (Awan & Slavkovic, Proposition 2.11). Most readings pick numbers, or
multiply them by a public positive factor: then a number's noise is read as the number itself is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Protocol, cast, runtime_checkable

from mechanisms.contract import Inference, Json, Noise, Outcome, Reading, Statistic
from mechanisms.domain import Schema
from mechanisms.privacy import PrivacyLoss

__all__ = [
    "Atom",
    "LinearInColumns",
    "Reading",
    "Released",
    "Sourced",
    "covers",
    "of_columns",
    "of_diagonal",
    "of_matrix",
]

Atom = tuple[tuple[str, ...], Fraction]
"""A sum or mean by its name, as ``("mean", "age")``, and the factor with which a number is it."""


@runtime_checkable
class LinearInColumns(Protocol):
    """A statistic whose numbers are sums or means of columns, or of their products.

    Its releases are combined with others (:mod:`mechanisms.combined`).
    """

    def column_atoms(self, schema: Schema, /) -> Iterator[Atom]:
        """Yield which sum or mean each number of an answer is, in the answer's order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Released:
    """The visible part of a release: the question, its price, and the answer."""

    statistic: Statistic
    mechanism: str
    norm: str | None
    epsilon: PrivacyLoss
    value: Json
    noise: Noise | None
    details: Json
    inference: Inference | None = None


@runtime_checkable
class Sourced(Protocol):
    """A question whose answer is read off the answer to another whole question.

    That one has the same conditions and groups, and may be a stack. It is planned and drawn in
    place of this one, which costs what it costs. ``noise_in_words`` says what is known of the
    answer's noise.
    """

    noise_in_words: ClassVar[str]

    def source_question(self, schema: Schema, /) -> Statistic:
        """Return the question that is drawn, about the columns of a data set.

        Raises
        ------
        InvalidStatisticError
            The question does not fit the schema.
        """

    def inference_share(self, schema: Schema, /) -> Fraction | None:
        """Return which share of epsilon the source's standard errors cost; None without any."""

    def reading_ms(self, schema: Schema, /) -> float:
        """Return about how many milliseconds of one core it takes to read the answer off."""

    def estimated(self, schema: Schema, /) -> str:
        """Return what its estimate is, in a sentence; empty where its name says it."""

    def read(self, released: Released, schema: Schema, /) -> Outcome:
        """Return the answer, given that to the source question."""

    def read_noise(self, planned: Released, schema: Schema, rows: int | None, /) -> Noise | None:
        """Return what the source's noise in a preview says of this answer's.

        ``planned`` is the source as it would be released, without a value; its noise surrounds
        zero. ``rows`` is the number of rows that ratios assume.
        """

    def derived(self, released: Released, schema: Schema, /) -> Outcome:
        """Return the answer from an earlier release, free.

        Raises
        ------
        InvalidStatisticError
            The release does not determine it.
        """


def covers(source: Statistic, kind: str, names: Sequence[str]) -> bool:
    """Return whether the source is of this kind, and of these columns or more."""
    return source.kind == kind and set(names) <= set(_columns(source))


def of_columns(names: Sequence[str], *, factor: Fraction | None = None) -> Reading:
    """Return how the columns' numbers are picked, and multiplied by a positive factor."""
    if factor is None:
        return _alike(lambda part: {name: part[name] for name in names})
    return _alike(lambda part: {name: _times(part[name], factor) for name in names})


def of_matrix(source: Statistic, names: Sequence[str]) -> Reading:
    """Return how the columns' part of a source's matrix is picked."""
    places = [_columns(source).index(name) for name in names]
    return _alike(lambda part: {"matrix": [[_entry(part, j, k) for k in places] for j in places]})


def of_diagonal(source: Statistic, names: Sequence[str]) -> Reading:
    """Return how the columns' numbers are picked from the diagonal of a source's matrix."""
    places = {name: _columns(source).index(name) for name in names}
    return _alike(lambda part: {name: _entry(part, j, j) for name, j in places.items()})


def _columns(source: Statistic) -> Sequence[str]:
    return cast(Sequence[str], getattr(source, "columns", ()))


def _alike(read: Callable[[Json], Json]) -> Reading:
    """Return a reading of numbers, standard deviations and intervals alike."""

    def reading(answer: Outcome) -> Outcome:
        noise = answer.noise
        if noise is not None:
            noise = noise.mapped(read)
        return Outcome(value=read(answer.value), noise=noise)

    return reading


def _entry(part: Json, j: int, k: int) -> object:
    return cast(Any, part)["matrix"][j][k]


def _times(part: object, factor: Fraction) -> object:
    """Return a number, or both ends of an interval, times a positive factor."""
    if isinstance(part, int | float):
        # Rounded once, at the end.
        return float(Fraction(part) * factor)
    return [_times(end, factor) for end in cast(Sequence[float], part)]
