"""Standard deviations of number columns, with divisor n.

    sd = sqrt(Var),   Var the noisy variance (see :mod:`variance`), clamped to [0, H**2],

by the same vector, noise and sensitivities as a release of ``variance``: post-processing (Awan &
Slavkovic, Proposition 2.11). By weights it is the root of the weighted variance.

*Noise.* The root of a noisy number has no simple law. But the root is increasing, so the variance's
interval, both of its ends rooted, holds the standard deviation exactly as often as the variance's
holds the variance. The noise's standard deviation is to first order, or its bound near zero
(:func:`~mechanisms.statistics.additive.root_std`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from math import sqrt
from typing import Any, ClassVar, Literal, Self, cast

from mechanisms.contract import FieldHint, Json, Noise, Outcome, Statistic, meaning, require_numbers
from mechanisms.domain import NumberColumn, Schema
from mechanisms.probes import ENDS, Probe
from mechanisms.statistics.additive import AdditiveForm, Coordinates, Leaf, Tree, root_std
from mechanisms.statistics.facts.clipping import CLIP, CLIP_HINT, Clip, unclipped
from mechanisms.statistics.facts.defaults import width_of
from mechanisms.statistics.facts.readings import Reading, covers, of_columns
from mechanisms.statistics.questions import Question
from mechanisms.statistics.second_order import MomentReader
from mechanisms.statistics.variance import MAX_COLUMNS, Variance
from mechanisms.statistics.weights import WEIGHTS, Weighing


@dataclass(frozen=True, slots=True, kw_only=True)
class Std(Question):
    """Standard deviations (divisor n) of number or boolean columns."""

    __pydantic_config__: ClassVar[dict[str, object]] = {"extra": "forbid"}
    column_by_column: ClassVar[bool] = True
    mechanisms: ClassVar[Mapping[str, tuple[str, ...]]] = Variance.mechanisms
    advice: ClassVar[Mapping[str, str]] = Variance.advice
    limits: ClassVar[Mapping[str, int]] = Variance.limits
    clamped_to: ClassVar[frozenset[float] | None] = Variance.clamped_to
    in_unit_of_column: ClassVar[bool] = True
    example: ClassVar[Json] = {"kind": "std", "columns": ["income", "foodexp"]}
    probes: ClassVar[tuple[Probe, ...]] = (Probe({"kind": "std", "columns": ["x"]}, ENDS),)
    name: ClassVar[str] = "standard deviation"

    hints: ClassVar[Mapping[str, FieldHint]] = {"clip": CLIP_HINT}

    kind: Literal["std"] = "std"
    columns: tuple[str, ...] = field(
        metadata=meaning(
            f"Number or boolean columns, each named once; at most {MAX_COLUMNS}.",
        )
    )
    weights: Weighing = field(default=None, metadata=WEIGHTS)
    clip: Clip = field(default="none", metadata=CLIP)

    @property
    def divided_by(self) -> tuple[tuple[str, ...], ...]:
        """Return each column: the error of a root is that of the variance over twice the root."""
        return tuple((name,) for name in self.columns)

    def check(self, schema: Schema) -> None:
        """Raise :class:`InvalidStatisticError` when the question does not fit the schema."""
        self._variance.check(schema)

    def answer_numbers(self, _schema: Schema, /) -> int:
        """Return about how many numbers an answer has: one for each column."""
        return len(self.columns) + 1

    def possible_ranges(self, schema: Schema, _rows: float, /) -> Json:
        """Return none to that of half the records at either bound."""
        return {name: [0.0, width_of(schema, name) / 2] for name in self.columns}

    def planning_ms(self, schema: Schema, mechanism: str, /) -> float:
        """Return about how many milliseconds of one core a plan takes."""
        return self._variance.planning_ms(schema, mechanism)

    def moment_columns(self, _schema: Schema, /) -> tuple[str, ...] | None:
        """Return the columns whose moments determine the answer: all of them."""
        return self.columns

    def from_moments(
        self, reader: MomentReader, numbers: Sequence[NumberColumn], coordinates: Coordinates, /
    ) -> Tree:
        """Return the answer made of noisy moments."""
        return _rooted(self._variance.from_moments(reader, numbers, coordinates))

    def reading(self, source: Statistic, schema: Schema, /) -> Reading | None:
        """Return how the answer is read off standard deviations, variances or covariances."""
        if covers(source, "std", self.columns):
            return of_columns(self.columns)
        variances = self._variance.reading(source, schema)
        if variances is None:
            return None
        numbers = require_numbers(schema, self.columns, "columns")
        most = {name: column.half_width for name, column in zip(self.columns, numbers, strict=True)}
        return lambda answer: _rooted_answer(variances(answer), most)

    def estimand(self) -> Self:
        """Return the question of the values themselves, which clamped ones miss."""
        return unclipped(self)

    def additive(self, schema: Schema) -> AdditiveForm:
        """Return the form of the variances, and the roots of its numbers as the answer."""
        form = self._variance.additive(schema)
        return replace(
            form,
            answer=lambda coordinates: _rooted(form.answer(coordinates)),
            details={
                **form.details,
                "noise": (
                    "the interval is that of the variance, both of its ends rooted, and holds as "
                    "often: the variance's is to first order, and wider than 95% where the noise "
                    "is as large as the variance itself; the standard deviation is to first order, "
                    "and no more than the root of the variance's; sampling error is not in it; in "
                    "a preview, as wide as it can get, which is for columns that hardly vary"
                ),
            },
        )

    @property
    def _variance(self) -> Variance:
        return Variance(columns=self.columns, weights=self.weights, clip=self.clip)


def _rooted(variances: Tree) -> Tree:
    leaves = cast(Mapping[str, Leaf], variances)
    return {name: replace(leaf, root=True) for name, leaf in leaves.items()}


def _rooted_answer(variances: Outcome, most: Mapping[str, Fraction]) -> Outcome:
    """Return the roots of released variances, and what their noise says of the roots."""
    value, noise = cast(Mapping[str, float], variances.value), variances.noise
    roots = {name: sqrt(number) for name, number in value.items()}
    if noise is None:
        return Outcome(value=roots, noise=None)
    stds, ends = cast(Any, noise.std), cast(Any, noise.interval_95)
    return Outcome(
        value=roots,
        noise=Noise(
            std={
                name: root_std(value[name], stds[name], most=float(widest))
                for name, widest in most.items()
            },
            interval_95={name: [sqrt(end) for end in ends[name]] for name in most},
        ),
    )
