r"""Standard errors by the design of a sample: replicate weights, or strata.

A curator declares how the records were sampled (:class:`mechanisms.domain.Design`). A weighted
mean, sum or count is drawn with (1 - s) epsilon, and the share s buys noisy sums from which the
variance of sampling is estimated (:mod:`mechanisms.inference.bought` composes both).

*Conventions.* sigma in [0, 1] is a record's weight by the largest that its column's bounds allow,
rounded to a multiple of ``1 / N``. a in [-1, 1] is a value's code: ``x = M + H a``. An *aim* is the
answer's number as kappa times a sum of ``z = sigma (alpha a + beta)``:

    sum      alpha = 1, beta = M / H,          kappa = H U
    count    alpha = 0, beta = 1,              kappa = U
    mean     alpha = 1, beta = (M - theta) / H, kappa = H, divided by W, the sum of sigma

U is the largest weight. A mean is taken to first order in the sampling error, around its released
value theta: ``sum w (x - theta) / W``.

*Replicates* r_1, ..., r_R (Wolter 2007, chapters 3 and 4; Lumley's ``survey``, which centres at the
mean of the replicates as well). With Z_q the aim by the weights r_q, c the declared scale and c_q
that of a replicate,

    V = c sum_q c_q (Z_q - Z.)^2,   Z. their mean;

c = 1 / R and c_q = 1 unless the design says others. Of a jackknife with strata c_q is ``(n_h - 1) /
n_h`` and c = 1, n_h being the units of the stratum of which q leaves one out.

Released is ``D_kq = sum_i (R sigma_iq - sum_p sigma_ip) a_ik``, with a_i0 = 1: what differs between
the replicates, which one record moves by less than the sums themselves. For p = R sigma - sum sigma
and sigma in [0, 1]^R the norms are convex, so largest where j entries are 1 and the rest 0:

    sum |p_q| = 2 j (R - j),   sum p_q^2 = R j (R - j),   max |p_q| <= R - 1,   j (R - j) <= g,

g = floor(R^2 / 4). With m columns and a 1 that is at most 2 g (m + 1), R g (m + 1) and R - 1 for
one record, of whatever values. A mean has one entry more, u = R - 1 times the sum of the weights.

- add_remove: those are the sensitivities (of l2 the square), and u or u^2 in addition.
- replace_one, and records that may come, go or be replaced (filters and groups): the difference of
  two records' parts has at most twice their norms, and the entry of the weights moves by u at most,
  since both weights are in [0, 1]. So 4 g (m + 1) + u, 4 R g (m + 1) + u^2, and 2 (R - 1).

*Strata* h, of n_h records each, drawn independently and with replacement within it:

    V = sum_h n_h / (n_h - 1) (Q_h - S_h^2 / n_h),   S_h, Q_h the sums of z and z^2 in h.

Released are, by stratum, the sums of 1, sigma, sigma^2 and for each column sigma a, sigma^2 a and
(sigma a)^2, all of them in [-1, 1], and 1, sigma and the squares in [0, 1]. Of records that are
selected n_h is not known, and V is ``sum_h Q_h``, which is no less.

- add_remove: one stratum changes: 3 + 3 m, 3 + 3 m, and 1.
- replace_one, filters and groups: two strata change, by as much each: 6 + 6 m, 6 + 6 m and 1; or
  one does, its count not at all, sigma and the squares by 1, sigma a and sigma^2 a by 2:
  2 + 5 m, 2 + 9 m, and 2. The larger ones hold.

*Noise.* E (Z* - Z.*)^2 of noisy sums is larger by the variance of their noise, which is known
exactly, and is subtracted: with v_q that of Z_q it is ``c_q (v_q (1 - 2 / R) + sum v / R^2)`` for
each q, and of strata ``Var(S_h) / n_h``. So V has
no bias, but for the rounding of weights and, of strata, for that of 1 / n_h. Where it is not
positive, or W is not, nothing can be said of the standard error. Else the interval is by Student's
t, with the degrees of freedom of Satterthwaite (1946):

    se^2 = V + v,   nu = 2 se^4 / (2 V^2 / d + Var(noise of V)),

v the variance of the answer's own noise. d is R - 1, and no more than there are strata where the
design names them as well: each has two primary units at least. By strata it is the records less the
strata. The variance of
the noise of V is simulated, from a hash of the released sums.

**Privacy.** Integer sums, one contribution for each record, plus noise by the sensitivities above:
K-norm noise, or discrete Gaussian where the answer is drawn by it. Post-processing is all else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from math import sqrt
from typing import Any, ClassVar, Protocol, cast

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from mechanisms.contract import (
    Block,
    Data,
    Draw,
    Drawing,
    Inference,
    Outcome,
    Parameters,
    Statistic,
    Term,
)
from mechanisms.domain import CODE_BITS, CODE_MAX, CategoryColumn, NumberColumn, Schema, exact
from mechanisms.exact.floats import Floats, Integers
from mechanisms.gaussian.noise import THEOREM as GAUSSIAN
from mechanisms.gaussian.noise import AddedGaussian, GaussianNoise
from mechanisms.geometry.advisor import advise
from mechanisms.geometry.smooth import Ball
from mechanisms.geometry.spaces import AdjacentOutputSpace
from mechanisms.inference.evidence import noise_of
from mechanisms.knorm import THEOREM, AddedNoise, AdditiveNoise, integer_noise
from mechanisms.privacy import Adjacency, PrivacyLoss
from mechanisms.randomness import Randomness
from mechanisms.statistics.weights import HELD_PARTS

_STRATA_BITS = 16  # N of strata: the largest product is 2**32, and a block's sum below 2**53
_RUN = 1 << 14  # rows whose weights are floats at once
MOST_SUMS = 10_000
"""The most sums of one answer: columns and one, by replicates, or thrice by strata."""
_SIMULATED = 1_000
_SURE = 0.975

_ROWS = (
    "rows are drawn independently and with replacement within each stratum, by their weights; no "
    "finite population correction"
)
_NOISE = (
    "the known variance of the privacy noise is subtracted from that of the sums it is made of; "
    "Student's t with Satterthwaite's degrees of freedom; sampling and privacy noise together"
)
BY_REPLICATES = (
    "design-based, by replicate weights: scale times the squares of the replicates' differences "
    f"from their mean, a mean to first order; {_NOISE}"
)
BY_STRATA = f"design-based, by strata, a mean to first order: {_ROWS}; {_NOISE}"
BY_STRATA_OF_SOME = (
    f"{BY_STRATA}; of the chosen rows alone, whose share of a stratum is not known: an upper bound"
)


def is_designed(statistic: Statistic, schema: Schema) -> bool:
    """Return whether an answer of this kind has standard errors by the data set's design."""
    design = schema.design
    if design is None or statistic.by_design is None:
        return False
    explained = bool(design.replicates) or design.strata is not None
    return explained and cast(Any, statistic).weights == design.weight


def lacking_of(schema: Schema) -> list[str]:
    """Return the design's strata and replicates that keep missing cells: a spec has none."""
    design = schema.design
    named = () if design is None else (design.strata, *design.replicates)
    return [name for name in named if name is not None and name in schema.optional]


@dataclass(frozen=True, slots=True, kw_only=True)
class Aim:
    """A number of the answer: kappa times the sum of ``sigma (alpha a + beta)``, by W if a mean.

    ``column`` is the place of a, None of a count. ``limits`` are those of the number, and
    ``divided`` says that it is a mean.
    """

    name: str
    column: int | None
    alpha: float
    beta: float
    kappa: float
    limits: tuple[float, float]
    divided: bool = False


class DesignSums(Protocol):
    """Sums of records that determine the variance of sampling."""

    @property
    def space(self) -> AdjacentOutputSpace:
        """Return how far one person moves them."""

    @property
    def read(self) -> tuple[str, ...]:
        """Return what a block of rows must hold."""

    @property
    def method(self) -> str:
        """Return the formula and its assumptions, in words."""

    def facts(self) -> dict[str, object]:
        """Return the public facts about the formula, ready for JSON."""

    def total(self, data: Data) -> list[int]:
        """Return T(X), exactly; private."""

    def weight(self, sums: Floats) -> float:
        """Return W in units of the largest weight."""

    def variances(self, aim: Aim, sums: Floats, noise: Floats) -> Floats:
        """Return V in units of kappa of vectors, shape (vectors, m), given the noise's variances.

        Sums and variances are in scaled units.
        """

    def degrees(self, sums: Floats) -> float:
        """Return d."""


def sums_of(statistic: Any, schema: Schema) -> DesignSums:
    """Return the sums of a question that is designed, of records that may be a part of all."""
    design = schema.design
    assert design is not None
    shared: dict[str, Any] = {
        "columns": tuple(getattr(statistic, "columns", ())),
        "weight_column": _Shares.of(design.weight, schema),
        "replaced": schema.adjacency is Adjacency.REPLACE_ONE,
    }
    strata = None if design.strata is None else schema.columns[design.strata]
    assert strata is None or isinstance(strata, CategoryColumn)
    if design.replicates:
        columns = [_number(schema, name) for name in design.replicates]
        largest = max(column.upper for column in columns)
        return Replicates(
            **shared,
            replicates=tuple(
                _Shares(name, column, largest)
                for name, column in zip(design.replicates, columns, strict=True)
            ),
            scale=design.factor,
            rscales=design.rscales,
            weighs=statistic.by_design == "mean",
            strata=None if strata is None else len(strata.values),
        )
    assert design.strata is not None
    assert strata is not None
    return Strata(
        **shared, strata=design.strata, cells=len(strata.values), selected=schema.selected
    )


@dataclass(frozen=True, slots=True)
class _Shares:
    """A column of weights by their largest, of which each has ``parts``."""

    name: str
    column: NumberColumn
    largest: Fraction

    @classmethod
    def of(cls, name: str, schema: Schema) -> _Shares:
        column = _number(schema, name)
        return cls(name, column, column.upper)

    def __call__(self, block: Block, parts: int) -> Integers:
        """Return sigma of some records, in parts: of each alone, by its code."""
        slope = parts * self.column.step / self.largest
        middle = parts * self.column.midpoint / self.largest
        found = np.rint(block[self.name] * float(slope) + float(middle))
        return np.clip(found, 0, parts).astype(np.int64)


def _number(schema: Schema, name: str) -> NumberColumn:
    column = schema.columns[name]
    assert isinstance(column, NumberColumn)
    return column


@dataclass(frozen=True, slots=True, kw_only=True)
class Replicates:
    """What differs between replicates: D of 1 and of each column, and a mean's W behind them."""

    columns: tuple[str, ...]
    weight_column: _Shares
    replaced: bool
    replicates: tuple[_Shares, ...]
    scale: Fraction
    rscales: tuple[Fraction, ...]
    weighs: bool
    strata: int | None = None
    method: ClassVar[str] = BY_REPLICATES

    @property
    def space(self) -> AdjacentOutputSpace:
        """Return the space of the docstring."""
        count, blocks = len(self.replicates), 1 + len(self.columns)
        most, own = count**2 // 4, (count - 1) * self.weighs
        times = 2 if self.replaced else 1
        return AdjacentOutputSpace(
            dimension=count * blocks + self.weighs,
            l1=Fraction(2 * times * most * blocks + own),
            linf=Fraction(times * (count - 1)),
            l2_squared=Fraction(times**2 * count * most * blocks + own**2),
            bounds_only=frozenset({"l1", "l2", "linf"}),
            hull="other",
            description="what one record adds to the differences between replicates",
            negligible_structure=False,
            unit=HELD_PARTS * CODE_MAX,
            unit_name="largest weights, times replicates and half-widths",
        )

    @property
    def read(self) -> tuple[str, ...]:
        """Return the columns, the weights and their replicates."""
        names = (*self.columns, self.weight_column.name, *(each.name for each in self.replicates))
        return tuple(dict.fromkeys(names))

    def facts(self) -> dict[str, object]:
        """Return the number of replicates, and their scale."""
        count = len(self.replicates)
        own = {"rscales": list(map(float, self.rscales))} if self.rscales else {}
        return {"variance": "replicates", "replicates": count, "scale": str(self.scale), **own}

    def total(self, data: Data) -> list[int]:
        """Return D, and u W: whole numbers."""
        count, weights = len(self.replicates), 0
        summed = np.zeros((1 + len(self.columns), count), dtype=object)
        for some, own in data.map(partial(_replicated, self), self.read):
            summed, weights = summed + some, weights + own
        centred = count * summed - summed.sum(axis=1, keepdims=True)
        found = [int(each) for each in centred.ravel()]
        return [*found, (count - 1) * CODE_MAX * weights] if self.weighs else found

    def weight(self, sums: Floats) -> float:
        """Return W in units of the largest weight."""
        return float(sums[-1]) / (len(self.replicates) - 1)

    def _combined(self, aim: Aim, of_column: float, of_ones: float, sums: Floats) -> Floats:
        """Return ``of_column D_k + of_ones D_0``, shape (vectors, replicates)."""
        count = len(self.replicates)
        found = of_ones * sums[..., :count]
        if aim.column is not None:
            start = count * (1 + aim.column)
            found = found + of_column * sums[..., start : start + count]
        return np.asarray(found)

    def variances(self, aim: Aim, sums: Floats, noise: Floats) -> Floats:
        """Return V by the replicates, in units of kappa by the weights' own largest."""
        count = len(self.replicates)
        differences = self._combined(aim, aim.alpha, aim.beta, sums)
        differences = differences - differences.mean(axis=-1, keepdims=True)
        own = self._combined(aim, aim.alpha**2, aim.beta**2, noise)
        each = np.array([float(scale) for scale in self.rscales] or [1.0] * count)
        squares = ((differences**2 - own * (1 - 2 / count) - own.sum() / count**2) * each).sum(-1)
        unit = float(self.replicates[0].largest / self.weight_column.largest) / count
        return np.asarray(float(self.scale) * unit**2 * squares)

    def degrees(self, _sums: Floats) -> float:
        """Return R - 1; or how many strata there are, where they are declared and are fewer."""
        most = len(self.replicates) - 1
        return float(most if self.strata is None else min(most, self.strata))


def _replicated(sums: Replicates, block: Block) -> tuple[NDArray[np.object_], int]:
    """Return ``sum sigma_q (1, a)`` of some rows, and the sum of their weights.

    Products are below 2**32 and a run has 2**14 rows: floats hold their sums exactly.
    """
    rows = len(block[sums.weight_column.name])
    total = np.zeros((1 + len(sums.columns), len(sums.replicates)), dtype=object)
    for start in range(0, rows, _RUN):
        part = {name: each[start : start + _RUN] for name, each in block.items()}
        shares = np.stack([each(part, HELD_PARTS) for each in sums.replicates])
        ones = np.full(shares.shape[1], CODE_MAX, dtype=np.float64)
        values = np.stack([ones, *(part[name].astype(np.float64) for name in sums.columns)])
        total = total + (values @ shares.T.astype(np.float64)).astype(np.int64).astype(object)
    return total, int(sums.weight_column(block, HELD_PARTS).sum())


@dataclass(frozen=True, slots=True, kw_only=True)
class Strata:
    """Second moments by stratum: 1, sigma, sigma^2; of each column three; stratum by stratum."""

    columns: tuple[str, ...]
    weight_column: _Shares
    replaced: bool
    strata: str
    cells: int
    selected: bool

    @property
    def method(self) -> str:
        """Return the formula and its assumptions, in words."""
        return BY_STRATA_OF_SOME if self.selected else BY_STRATA

    @property
    def _size(self) -> int:
        return 3 * (1 + len(self.columns))

    @property
    def space(self) -> AdjacentOutputSpace:
        """Return the space of the docstring."""
        size, columns = self._size, len(self.columns)
        return AdjacentOutputSpace(
            dimension=size * self.cells,
            l1=Fraction(2 * size if self.replaced else size),
            linf=Fraction(2 if self.replaced and columns else 1),
            l2_squared=Fraction(max(2 * size, 2 + 9 * columns) if self.replaced else size),
            bounds_only=frozenset({"l1", "l2", "linf"}),
            hull="other",
            description="what one record adds to the moments of its stratum",
            negligible_structure=False,
            unit=1 << (2 * _STRATA_BITS),
            unit_name="records, by largest weights and half-widths",
        )

    @property
    def read(self) -> tuple[str, ...]:
        """Return the columns, the weights and the strata."""
        names = (*self.columns, self.weight_column.name, exact(self.strata))
        return tuple(dict.fromkeys(names))

    def facts(self) -> dict[str, object]:
        """Return the number of strata."""
        return {"variance": "strata", "strata": self.cells}

    def total(self, data: Data) -> list[int]:
        """Return the moments: whole numbers."""
        found = np.zeros((self.cells, self._size), dtype=object)
        for some in data.map(partial(_by_stratum, self), self.read):
            found = found + some
        return [int(each) for each in found.ravel()]

    def _moments(self, sums: Floats) -> Floats:
        return sums.reshape(*sums.shape[:-1], self.cells, self._size)

    def weight(self, sums: Floats) -> float:
        """Return W in units of the largest weight."""
        return float(self._moments(sums)[:, 1].sum())

    def variances(self, aim: Aim, sums: Floats, noise: Floats) -> Floats:
        """Return V by the strata, in units of kappa."""
        moments, noises = self._moments(sums), self._moments(noise)
        alpha, beta = aim.alpha, aim.beta
        total, unsure = beta * moments[..., 1], beta**2 * noises[:, 1]
        square = beta**2 * moments[..., 2]
        if aim.column is not None:
            at = 3 * (1 + aim.column)
            total = total + alpha * moments[..., at]
            unsure = unsure + alpha**2 * noises[:, at]
            square = square + 2 * alpha * beta * moments[..., at + 1]
            square = square + alpha**2 * moments[..., at + 2]
        if self.selected:
            return np.asarray(square.sum(axis=-1))
        # A stratum has two records at least; a noisy count may have fewer.
        records = np.maximum(moments[..., 0], 2.0)
        within = square - (total**2 - unsure) / records
        return np.asarray((records / (records - 1) * within).sum(axis=-1))

    def degrees(self, sums: Floats) -> float:
        """Return how many more records than strata there are; 1 at least."""
        return max(float(self._moments(sums)[:, 0].sum()) - self.cells, 1.0)


def _by_stratum(sums: Strata, block: Block) -> NDArray[np.object_]:
    """Return the moments of some rows: floats hold sums of whole numbers of 2**32 exactly."""
    places, one = block[exact(sums.strata)], 1 << _STRATA_BITS
    weights = sums.weight_column(block, one)
    entries = [np.full(len(weights), one * one), weights * one, weights * weights]
    for name in sums.columns:
        weighted = np.rint(weights * (block[name] / float(1 << CODE_BITS))).astype(np.int64)
        entries += [weighted * one, weights * weighted, weighted * weighted]
    found = [np.bincount(places, weights=each, minlength=sums.cells) for each in entries]
    return np.stack(found, axis=1).astype(np.int64).astype(object)


def noise_for(
    space: AdjacentOutputSpace, epsilon: PrivacyLoss, *, gaussian: bool
) -> tuple[AddedNoise | AddedGaussian, tuple[str, str], str]:
    """Return the noise of the sums, of the kind of the answer's; its sensitivity and theorem."""
    norm = "l2" if gaussian else advise(space).norm
    stated = space.text(cast(Ball, norm)), f"{space.unit_name}, in the {norm} norm"
    if gaussian:
        law = GaussianNoise.calibrated(space, epsilon.fraction)
        return AddedGaussian(variance=law.variance), stated, GAUSSIAN
    drawn = integer_noise(space, norm, epsilon.fraction)
    return AddedNoise.of(norm, drawn), stated, THEOREM


@dataclass(frozen=True, slots=True)
class WithDesign:
    """The parameters of the numbers, and the noise of the sums for their variance."""

    numbers: Parameters
    noise: AddedNoise | AddedGaussian
    cost: str

    def drawing(self, statistic: Statistic, schema: Schema) -> Drawing:
        """Return a drawing of the numbers, and then of what their standard errors need."""
        drawn = self.numbers.drawing(statistic, schema)
        sums = sums_of(statistic, schema)
        draw = DesignedDraw(
            drawn.draw, statistic, schema, sums, self.noise.on(sums.space), self.cost
        )
        return replace(drawn, draw=draw)


@dataclass(frozen=True, slots=True)
class DesignedDraw:
    """Draws the numbers, then the sums that say how sampling moves them."""

    draw: Draw
    statistic: Any
    schema: Schema
    sums: DesignSums
    noise: AdditiveNoise
    cost: str

    def __call__(self, data: Data, randomness: Randomness) -> Outcome:
        """Return one release."""
        outcome = self.draw(data, randomness)
        added, steps = self.noise.draw(randomness), self.noise.refinement
        unit = self.sums.space.unit * steps
        vector = np.array(
            [
                float(Fraction(whole * steps + error, unit))
                for whole, error in zip(self.sums.total(data), added, strict=True)
            ]
        )
        return replace(outcome, inference=self._inferred(outcome, vector))

    def _inferred(self, outcome: Outcome, vector: Floats) -> Inference:
        laws, step = self.noise.describe()
        unit = self.sums.space.unit
        spreads = np.array([(law.std * float(step) / unit) ** 2 for law in laws])
        # Of what is released alone: the same answer then has the same standard errors.
        seed = repr((outcome.value, vector.tolist())).encode()
        count = max(min(_SIMULATED, 4_000_000 // len(vector)), 100)
        simulated = self.noise.simulate(count, seed=seed) / float(self.noise.unit_rate * unit)
        seen = _Seen(self.sums, vector, spreads, simulated)
        terms = tuple(
            seen.term(aim, outcome) for aim in aims_of(self.statistic, self.schema, outcome.value)
        )
        return Inference(terms=terms, method=self.sums.method, cost=self.cost)


def aims_of(statistic: Any, schema: Schema, value: Mapping[str, Any]) -> Sequence[Aim]:
    """Return what each number of an answer is a sum of."""
    design = schema.design
    assert design is not None
    most = float(_number(schema, design.weight).upper)
    if not getattr(statistic, "columns", ()):
        limits = (0.0, most * schema.row_bound)
        return [Aim(name="count", column=None, alpha=0.0, beta=1.0, kappa=most, limits=limits)]
    found = []
    for at, name in enumerate(statistic.columns):
        column = _number(schema, name)
        ends, half = (float(column.lower), float(column.upper)), float(column.half_width)
        centre = float(column.midpoint)
        divided = statistic.by_design == "mean"
        if divided:
            centre -= min(max(float(value[name]), ends[0]), ends[1])
        else:
            rows = most * schema.row_bound
            ends = (min(0.0, rows * ends[0]), max(0.0, rows * ends[1]))
        found.append(
            Aim(
                name=name,
                column=at,
                alpha=1.0,
                beta=centre / half,
                kappa=half if divided else half * most,
                limits=ends,
                divided=divided,
            )
        )
    return found


@dataclass(frozen=True, slots=True)
class _Seen:
    """Noisy sums in scaled units, the variances of their noise, and simulated noise."""

    sums: DesignSums
    vector: Floats
    noise: Floats
    simulated: Floats

    def term(self, aim: Aim, outcome: Outcome) -> Term:
        """Return the inference about a number; without a standard error where none can be said."""
        weight = self.sums.weight(self.vector) if aim.divided else 1.0
        variance = float(self.sums.variances(aim, self.vector, self.noise))
        said = Term(
            term=aim.name,
            estimate=float(cast(Any, outcome.value)[aim.name]),
            std_error=None,
            confidence_95=aim.limits,
            noise_95=noise_of(outcome.noise, aim.name),
            place=(aim.name,),
            open=True,
        )
        if weight <= 0 or variance <= 0:
            return said
        unit = (aim.kappa / weight) ** 2
        square = unit * variance + float(cast(Any, outcome.noise).std[aim.name]) ** 2
        possible = self.sums.variances(aim, self.vector - self.simulated, self.noise)
        spread = 2 * variance**2 / self.sums.degrees(self.vector) + float(np.var(possible))
        degrees = max(2 * square**2 / (unit**2 * spread), 1.0)
        half = float(stdtrit(degrees, _SURE)) * sqrt(square)
        low, high = said.estimate - half, said.estimate + half
        least, most = aim.limits
        # An interval without its own estimate would be read as a mistake.
        ends = min(max(low, least), said.estimate), max(min(high, most), said.estimate)
        wide = low <= least and high >= most
        return replace(said, std_error=sqrt(square), confidence_95=ends, open=wide)
