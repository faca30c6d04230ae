r"""Principal components and factor scores, read off released second moments.

With S the correlation matrix of p columns, or their covariance matrix,

    S v_k = l_k v_k,   l_1 >= ... >= l_p,   ||v_k|| = 1,

v_k has the *loadings* of the k-th component and l_k is its variance, a share l_k / sum_j l_j of
all. Its *score* is a weighted sum of centred columns, sum_j w_kj (x_j - mean x_j), with w_kj = v_kj
for a covariance matrix and v_kj / sd(x_j) for a correlation matrix; a factor score is divided by
the root of l_k too, so that its variance is 1 (Jolliffe 2002, sections 2.3 and 7.3).

Noise may make S indefinite: a negative l_k counts as 0, and a correlation with a column whose
variance is not positive as 0. The sign of v_k is no fact of the data. Here the first loading that
is at least half of the largest is positive.

*Noise.* Components are drawn as moments, S* = S + V, V of a known law, and everything else is
post-processing (Awan & Slavkovic, Proposition 2.11). Of a number f(S*) the law of
f(S* + V') - f(S*) is simulated, V' of the law of V, with the signs of v_k turned to the released
ones; half of the interval is the 95% quantile of its size, or the farther of its 2.5% and 97.5%
quantiles. Noise moves variances apart, and those that are close have loadings that are hardly
determined. So the variances are also tried where each is closer to the next one, by one and by two
standard deviations of the noise of their distance, and the widest interval counts, as by Berger and
Boos (1994).
Numbers that follow from a released covariance or correlation have no stated noise: its law depends
on means and variances, which those do not contain.

Means and covariances of released moments lie in what bounds allow, as a release of covariances has
them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from fractions import Fraction
from math import inf
from typing import Any, ClassVar, Literal, Self, TypeVar, cast

import numpy as np

from mechanisms.contract import (
    FieldHint,
    InvalidStatisticError,
    Json,
    LateNoise,
    NearZero,
    Noise,
    Outcome,
    meaning,
    require_numbers,
)
from mechanisms.derivations import parts_of
from mechanisms.domain import NumberColumn, Schema
from mechanisms.exact.floats import Floats
from mechanisms.functional.linear import coordinate_noise
from mechanisms.functional.sanitized import REPLICATES, CoordinateNoise
from mechanisms.gaussian import additive_noise
from mechanisms.geometry.smooth import TAIL
from mechanisms.grouped import Groups, group_epsilon, group_facts
from mechanisms.privacy import ONE_ROW, part_of
from mechanisms.probes import TURNED, Probe
from mechanisms.statistics.cells.parting import about_groups
from mechanisms.statistics.cells.spelling import canonical
from mechanisms.statistics.correlation import Correlation
from mechanisms.statistics.covariance import Covariance
from mechanisms.statistics.facts.defaults import width_of
from mechanisms.statistics.facts.readings import Released
from mechanisms.statistics.moments import Moments
from mechanisms.statistics.questions import Question, plain, planning_ms, viewed
from mechanisms.statistics.second_order import Jet, MomentSource, Selection
from mechanisms.words import worded

Second = TypeVar("Second", Moments, Covariance, Correlation)
Limits = tuple[float, float]
_FREE: Limits = (-inf, inf)
MOST_COLUMNS = 32
_READING_MS, _MS_PER_ENTRY = 20.0, 0.004  # measured; of a group, and of an entry of each matrix
_MANY_COLUMNS, _FEWER = 10, 250
"""Of more columns fewer matrices are simulated."""
_CLOSER = (1.0, 2.0)
"""By how many standard deviations of the noise variances are tried to be closer to each other."""
_ALIKE = 0.5
"""Of the largest loading: the first one of that size is positive."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PrincipalComponents(Question):
    """Principal components of number columns: explained shares, loadings and scores."""

    __pydantic_config__: ClassVar[dict[str, object]] = {"extra": "forbid"}
    mechanisms: ClassVar[Mapping[str, tuple[str, ...]]] = Moments.mechanisms
    advice: ClassVar[Mapping[str, str]] = Moments.advice
    limits: ClassVar[Mapping[str, int]] = {"columns": MOST_COLUMNS}
    clamped_to: ClassVar[frozenset[float] | None] = frozenset({0.0, 1.0})
    near_zero: ClassVar[NearZero] = "no effect"
    example: ClassVar[Json] = {
        "kind": "pca",
        "columns": ["median_income", "households", "population"],
    }
    name: ClassVar[str] = "principal components"
    probes: ClassVar[tuple[Probe, ...]] = (Probe({"kind": "pca", "columns": ["x", "y"]}, TURNED),)
    no_inference: ClassVar[str] = worded(
        "the sampling error of components takes fourth moments, which are not released; the noise "
        "interval says what privacy adds"
    )
    hints: ClassVar[Mapping[str, FieldHint]] = {
        "scaled": FieldHint(
            "Scaled columns", "Each divided by its standard deviation: use the correlation matrix."
        ),
        "components": FieldHint("Components", "How many. Empty: all of them.", True),
        "scores": FieldHint(
            "Scores",
            "What their variance is.",
            True,
            options={"components": "that of the component", "factors": "1 (factor scores)"},
        ),
    }
    noise_in_words: ClassVar[str] = (
        "simulated from the law of the noise of the moments; sampling error is not in it; in a "
        "preview, for uncorrelated columns spread evenly over their bounds, whose loadings are not "
        "determined"
    )
    least_columns: ClassVar[int] = 2

    kind: Literal["pca"] = "pca"
    columns: tuple[str, ...] = field(
        metadata=meaning("Number or boolean columns, each named once; 2 to 32.")
    )
    scaled: bool = field(
        default=True,
        metadata=meaning(
            "Whether each column is divided by its standard deviation: components of the "
            "correlation matrix. Else of the covariance matrix, in the columns' units.",
            example=False,
        ),
    )
    components: int | None = field(
        default=None,
        metadata=meaning(
            "How many components are shown, from the first on. Null shows as many as there are "
            "columns.",
            example=2,
        ),
    )
    scores: Literal["components", "factors"] = field(
        default="components",
        metadata=meaning(
            "What the variance of a score is: that of its component, or 1 (`factors`).",
            example="factors",
        ),
    )

    def check(self, schema: Schema) -> None:
        """Raise :class:`InvalidStatisticError` when the question does not fit the schema."""
        require_numbers(schema, self.columns, "columns", most=MOST_COLUMNS)
        Moments(columns=self.columns).check(schema)
        if len(self.columns) < self.least_columns:
            raise InvalidStatisticError("name at least two columns", field_name="columns")
        for name in self.columns:
            if cast(NumberColumn, schema.columns[name]).timed is not None:
                raise InvalidStatisticError(
                    f"{name} holds dates: derive a number, such as a duration",
                    field_name="columns",
                )
        if self.components is not None and not 1 <= self.components <= len(self.columns):
            raise InvalidStatisticError(
                f"between 1 and {len(self.columns)}, the number of columns",
                field_name="components",
            )

    @property
    def shown(self) -> int:
        """Return how many components the answer has."""
        return len(self.columns) if self.components is None else self.components

    def answer_numbers(self, _schema: Schema, /) -> int:
        """Return about how many numbers an answer has."""
        return len(self.columns) + self.shown * (3 + 2 * len(self.columns))

    def relation(self) -> tuple[str, tuple[str, ...]] | None:
        """Return the last column as explained by the others."""
        *others, last = self.columns
        return last, tuple(others)

    def possible_ranges(self, schema: Schema, _rows: float, /) -> Json:
        """Return none to all of the variance; loadings and scores have no range of their own."""
        squares = [(width_of(schema, name) / 2) ** 2 for name in self.columns]
        most = float(len(self.columns)) if self.scaled else sum(squares)
        one = {"variance": [0.0, most], "share": [0.0, 1.0], "cumulative": [0.0, 1.0]}
        return {"components": [one] * self.shown}

    def planning_ms(self, schema: Schema, mechanism: str, /) -> float:
        """Return about how many milliseconds of one core the plan of the moments takes."""
        return planning_ms(self.source_question(schema), schema, mechanism)

    # What it is read off

    def source_question(self, _schema: Schema, /) -> Moments:
        """Return the moments that are drawn."""
        return self._asked(Moments)

    def _asked(self, kind: type[Second]) -> Second:
        """Return a question of this kind about the same columns, records and groups."""
        return kind(
            columns=self.columns,
            derive=self.derive,
            where=self.where,
            by=self.by,
            missing=self.missing,
        )

    def inference_share(self, _schema: Schema, /) -> Fraction | None:
        """Return None: there are no standard errors."""
        return None

    def reading_ms(self, schema: Schema, /) -> float:
        """Return about how many milliseconds of one core it takes to simulate the noise."""
        groups = max(about_groups(self.by, schema), 1)
        return groups * (_READING_MS + _MS_PER_ENTRY * self.replicates * len(self.columns) ** 2)

    @property
    def replicates(self) -> int:
        """Return how many matrices are simulated of each centre."""
        return REPLICATES if len(self.columns) <= _MANY_COLUMNS else _FEWER

    def estimated(self, _schema: Schema, /) -> str:
        """Return nothing: its numbers say what they are."""
        return ""

    def read(self, released: Released, schema: Schema, /) -> Outcome:
        """Return the components, from released moments, covariances or correlations."""
        source = _Source.of(released, schema)
        found = [self._outcome(source, value) for value in source.values(released.value)]
        return source.together(found)

    def _outcome(self, source: _Source, value: Json) -> Outcome:
        statistic = source.statistic
        if isinstance(statistic, MomentSource):
            sums = source.sums(self.columns, statistic.read_back(value, source.facts))
            return _Sums(self, source, sums).outcome(str(value).encode())
        places = [statistic.columns.index(name) for name in self.columns]
        matrix = np.array(value["matrix"], dtype=np.float64)[np.ix_(places, places)]
        found = _Components.of(self, matrix[None], known_spreads=isinstance(statistic, Covariance))
        return Outcome(value=found.tree(self, _first), noise=None)

    def read_noise(self, planned: Released, schema: Schema, rows: int | None, /) -> Noise | None:
        """Return the simulated noise for uncorrelated columns spread evenly over their bounds."""
        source = _Source.of(planned, schema)
        layout = cast(MomentSource, source.statistic).layout(source.facts)
        known = rows if layout.rows is None else layout.rows
        if known is None:
            return None
        sums = source.sums(self.columns, layout.spread_evenly(known))
        noise = _Sums(self, source, sums).noise(b"preview", centred=False)
        return source.together([Outcome(value={}, noise=noise) for _ in source.groups]).noise

    def derived(self, released: Released, schema: Schema, /) -> Outcome:
        """Return the components from an earlier release of second moments, free.

        Raises
        ------
        InvalidStatisticError
            The release does not determine them.
        """
        for part in parts_of(released):
            source = part.statistic
            # columns that the release derived are known by their names
            asked = replace(self, derive={**getattr(source, "derive", {}), **self.derive})
            if any(_covers(source, each, schema) for each in asked._sources()):
                return asked.read(part, schema)
        raise InvalidStatisticError(
            "principal components follow from a release of moments, or of a correlation or a "
            "covariance, of these columns or more, with the same conditions and groups"
            if self.scaled
            else "principal components follow from a release of moments, or of a covariance, of "
            "these columns or more, with the same conditions and groups"
        )

    def _sources(self) -> Iterator[Moments | Covariance | Correlation]:
        yield self._asked(Moments)
        yield self._asked(Covariance)
        if self.scaled:
            yield self._asked(Correlation)


def _covers(source: object, wanted: Moments | Covariance | Correlation, schema: Schema) -> bool:
    """Return whether a question is the wanted one, of the same columns or more."""
    if not isinstance(source, type(wanted)):
        return False
    own, asked = canonical(source, schema), canonical(wanted, schema)
    return set(asked.columns) <= set(own.columns) and asked == replace(own, columns=asked.columns)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Source:
    """What is released, about plain columns and in each group; and the law of its noise."""

    statistic: Any
    facts: Schema
    groups: Sequence[Mapping[str, str]]
    grouped: bool
    epsilon: Fraction
    mechanism: str
    norm: str | None

    @classmethod
    def of(cls, released: Released, schema: Schema) -> Self:
        """Return the source of a release."""
        epsilon, several = released.epsilon, schema.protects.rows
        if several > 1:  # each row was planned for at its part of epsilon (mechanisms.people)
            epsilon, schema = part_of(epsilon, several), replace(schema, protects=ONE_ROW)
        asked = viewed(released.statistic, schema)
        statistic, facts = cast(Any, asked.statistic), asked.view.schema
        groups: Sequence[Mapping[str, str]] = [{}]
        if statistic.by:
            groups = statistic.parting(facts).labels
            epsilon, facts = group_epsilon(facts, epsilon), group_facts(facts)
        elif statistic.where:
            facts = replace(facts, selected=True)
        return cls(
            statistic=plain(statistic),
            facts=facts,
            groups=groups,
            grouped=bool(statistic.by),
            epsilon=epsilon.fraction,
            mechanism=released.mechanism,
            norm=released.norm,
        )

    def values(self, value: Json) -> Sequence[Json]:
        """Return the answer of each group, or of all records."""
        if not self.grouped:
            return [value]
        return [each for each, _ in Groups(self.groups).parts(value, None)]

    def together(self, outcomes: Sequence[Outcome]) -> Outcome:
        """Return the answers of all groups as one."""
        return Groups(self.groups).together(outcomes) if self.grouped else outcomes[0]

    def sums(
        self, columns: Sequence[str], coordinates: Sequence[Fraction]
    ) -> Mapping[tuple[int, int], Jet]:
        """Return the sums of products of (1, codes / F) of the columns; see ``Layout.sums``."""
        layout = cast(MomentSource, self.statistic).layout(self.facts)
        chosen = Selection(layout, tuple(layout.names.index(name) for name in columns))
        return chosen.sums(coordinates)

    def law(self) -> CoordinateNoise:
        """Return the law of the noise of moments."""
        space = cast(MomentSource, self.statistic).layout(self.facts).space()
        return coordinate_noise(additive_noise(space, self.mechanism, self.norm, self.epsilon))


@dataclass(frozen=True, slots=True)
class _Sums:
    """Released sums of one group, as principal components are made of them."""

    asked: PrincipalComponents
    source: _Source
    sums: Mapping[tuple[int, int], Jet]

    def outcome(self, seed: bytes) -> Outcome:
        """Return the answer; the same released numbers have the same noise."""
        found = self._components(self._moments(self._released()))
        return Outcome(
            value=found.tree(self.asked, _first), noise=LateNoise(lambda: self.noise(seed))
        )

    def noise(self, seed: bytes, *, centred: bool = True) -> Noise:
        """Return the simulated law of the noise, around the answer or around zero."""
        noise = self.source.law().simulate(
            [*self.sums.values()], seed=seed, replicates=self.asked.replicates
        )
        released = self._moments(self._released())
        answer = self._components(released)
        moved = [self._moved(released, noise, np.zeros(len(self.asked.columns) - 1))]
        gaps = moved[0].variances[:, :-1] - moved[0].variances[:, 1:]
        moved += [
            self._moved(released, noise, closer * np.sqrt(np.mean(gaps**2, axis=0)))
            for closer in _CLOSER
        ]
        found = _Components.together([answer, *moved])

        def std(numbers: Floats, _limits: Limits) -> float:
            return float(np.sqrt(np.mean(numbers[1 : 1 + len(noise)] ** 2)))

        def interval(numbers: Floats, limits: Limits) -> list[float]:
            half = max(map(_half, np.split(numbers[1:], len(moved))))
            if not centred:
                return [-half, half]
            return [float(end) for end in np.clip(numbers[0] + np.array([-half, half]), *limits)]

        return Noise(std=found.tree(self.asked, std), interval_95=found.tree(self.asked, interval))

    def _released(self) -> Floats:
        return np.array([[float(jet.value) for jet in self.sums.values()]])

    def _moved(self, released: _Moments, noise: Floats, closer: Floats) -> _Components:
        """Return by how much noise moves the components of what was released.

        Of that, negative variances count as 0, and each is ``closer`` to the next one.
        """
        centre = self._sums_of(released.closer(closer, scaled=self.asked.scaled))
        found = self._components(self._moments(np.concatenate([centre, centre + noise])))
        return found.alike().less_first()

    def _moments(self, rows: Floats) -> _Moments:
        """Return the moments of rows of sums, as far as bounds allow them."""
        sums = dict(zip(self.sums, rows.T, strict=True))
        count, size = np.maximum(sums[0, 0], 1.0), len(self.asked.columns)
        means = np.array([np.clip(sums[0, 1 + j] / count, -1, 1) for j in range(size)]).T
        matrix = np.empty((len(rows), size, size))
        for j in range(size):
            for k in range(j, size):
                own = sums[1 + j, 1 + k] / count - means[:, j] * means[:, k]
                matrix[:, j, k] = matrix[:, k, j] = np.clip(own, 0.0 if j == k else -1.0, 1.0)
        halves = np.array([float(each.sum_half_width) for each in self._numbers()])
        return _Moments(count, means, matrix * halves[:, None] * halves, halves)

    def _sums_of(self, moments: _Moments) -> Floats:
        """Return rows of sums that have these moments."""
        matrix = moments.matrix / (moments.halves[:, None] * moments.halves)
        means = np.concatenate([np.ones((len(matrix), 1)), moments.means], axis=1)
        whole = np.pad(matrix, ((0, 0), (1, 0), (1, 0))) + means[:, :, None] * means[:, None, :]
        return np.array([moments.count * whole[:, i, j] for i, j in self.sums]).T

    def _components(self, moments: _Moments) -> _Components:
        middles = np.array([float(each.midpoint) for each in self._numbers()])
        return _Components.of(
            self.asked,
            moments.matrix,
            known_spreads=True,
            means=middles + moments.halves * moments.means,
        )

    def _numbers(self) -> Sequence[NumberColumn]:
        columns = self.source.facts.columns
        return [cast(NumberColumn, columns[name]) for name in self.asked.columns]


@dataclass(frozen=True, slots=True)
class _Moments:
    """Numbers of rows, means in half-widths, and covariances: the first axis of each array.

    ``halves`` are the half-widths.
    """

    count: Floats
    means: Floats
    matrix: Floats
    halves: Floats

    def closer(self, gaps: Floats, *, scaled: bool) -> _Moments:
        """Return the first ones, with variances of components whose distances are less by these.

        No distance is less than 0, nor is a variance; their sum stays.
        """
        matrix = self.matrix[0]
        spreads = np.sqrt(np.diagonal(matrix)) if scaled else np.ones(len(matrix))
        values, vectors = np.linalg.eigh(_scaled(self.matrix[:1])[0] if scaled else matrix)
        values = np.maximum(values, 0.0)
        # from the least to the largest: the distances are in the other order
        steps = np.maximum(np.diff(values) - gaps[::-1], 0.0)
        moved = np.concatenate([[0.0], np.cumsum(steps)])
        moved += values.mean() - moved.mean()
        turned = (vectors * np.maximum(moved, 0.0)) @ vectors.T
        one = turned * spreads[:, None] * spreads
        return replace(self, count=self.count[:1], means=self.means[:1], matrix=one[None])


@dataclass(frozen=True, slots=True, kw_only=True)
class _Components:
    """Components of several matrices: the first axis of each array."""

    variances: Floats
    shares: Floats
    cumulative: Floats
    loadings: Floats
    scores: Floats | None
    means: Floats | None

    @classmethod
    def of(
        cls,
        asked: PrincipalComponents,
        matrices: Floats,
        *,
        known_spreads: bool,
        means: Floats | None = None,
    ) -> Self:
        """Return the components of covariance matrices (k, p, p), or of correlation matrices.

        ``known_spreads``: they are covariances.
        """
        each = _over(1.0, _spreads(matrices))[:, None, :]
        values, vectors = np.linalg.eigh(_scaled(matrices) if asked.scaled else matrices)
        variances = np.maximum(values[:, ::-1], 0.0)
        loadings = _turned(np.swapaxes(vectors[:, :, ::-1], 1, 2))
        scores = None
        if known_spreads or not asked.scaled:
            scores = loadings * each if asked.scaled else loadings
            if asked.scores == "factors":
                scores = scores * _over(1.0, np.sqrt(variances))[:, :, None]
        running = np.cumsum(variances, axis=1)
        return cls(
            variances=variances,
            shares=_over(variances, running[:, -1:]),
            cumulative=_over(running, running[:, -1:]),  # that of all components is 1, not nearly
            loadings=loadings,
            scores=scores,
            means=means,
        )

    @classmethod
    def together(cls, parts: Sequence[Self]) -> Self:
        """Return the arrays of several one after the other."""
        return parts[0]._mapped(lambda name: np.concatenate([getattr(p, name) for p in parts]))

    def alike(self) -> Self:
        """Return them with signs as those of the first matrix."""
        along = np.einsum("kcj,cj->kc", self.loadings, self.loadings[0])
        signs = np.where(along < 0, -1.0, 1.0)[:, :, None]
        scores = None if self.scores is None else self.scores * signs
        return replace(self, loadings=self.loadings * signs, scores=scores)

    def less_first(self) -> Self:
        """Return the differences of all but the first from the first."""
        return self._mapped(lambda name: getattr(self, name)[1:] - getattr(self, name)[0])

    def _mapped(self, change: Callable[[str], Floats]) -> Self:
        names = [each.name for each in fields(self) if getattr(self, each.name) is not None]
        return replace(self, **{name: change(name) for name in names})

    def tree(self, asked: PrincipalComponents, number: Callable[[Floats, Limits], object]) -> Json:
        """Return the answer; ``number`` makes an entry of the numbers of all matrices.

        It is given what limits the number whatever the noise is.
        """

        def named(numbers: Floats, limits: Limits = _FREE) -> dict[str, object]:
            return {name: number(numbers[:, j], limits) for j, name in enumerate(asked.columns)}

        found: dict[str, object] = {} if self.means is None else {"means": named(self.means)}
        found["components"] = [
            {
                "variance": number(self.variances[:, at], (0.0, inf)),
                "share": number(self.shares[:, at], (0.0, 1.0)),
                "cumulative": number(self.cumulative[:, at], (0.0, 1.0)),
                "loadings": named(self.loadings[:, at], (-1.0, 1.0)),
                **({} if self.scores is None else {"scores": named(self.scores[:, at])}),
            }
            for at in range(asked.shown)
        ]
        return found


def _first(numbers: Floats, _limits: Limits) -> float:
    return float(numbers[0])


def _half(moved: Floats) -> float:
    """Return half of the interval in which these are."""
    ends = np.quantile(moved, (TAIL / 2, 1 - TAIL / 2))
    return max(float(np.quantile(np.abs(moved), 1 - TAIL)), float(np.abs(ends).max()))


def _spreads(matrices: Floats) -> Floats:
    """Return the roots of diagonals (k, p)."""
    return np.asarray(np.sqrt(np.maximum(np.einsum("kjj->kj", matrices), 0.0)))


def _scaled(matrices: Floats) -> Floats:
    """Return the correlations of covariances (k, p, p); 0 with a column that has no variance."""
    each = _over(1.0, _spreads(matrices))
    found = np.clip(matrices * each[:, :, None] * each[:, None, :], -1.0, 1.0)
    place = np.arange(matrices.shape[1])
    found[:, place, place] = 1.0
    return found


def _over(numbers: float | Floats, divisors: Floats) -> Floats:
    """Return numbers divided by others; 0 where these are not positive."""
    positive = divisors > 0
    return np.asarray(np.where(positive, numbers / np.where(positive, divisors, 1.0), 0.0))


def _turned(loadings: Floats) -> Floats:
    """Return loadings (k, c, p) whose first large one is positive in every component."""
    sizes = np.abs(loadings)
    first = np.argmax(sizes >= _ALIKE * sizes.max(axis=2, keepdims=True), axis=2)
    leading = np.take_along_axis(loadings, first[:, :, None], axis=2)
    return np.asarray(loadings * np.where(leading < 0, -1.0, 1.0))
