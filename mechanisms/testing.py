"""Shipped checks of the privacy claims, and the seeded stand-in for randomness.

The service imports nothing from here. The checks answer three questions about a mechanism:

- *Does it draw from the law it states?* :func:`check_draws` measures the
  Kolmogorov distance between draws and an exact law. The Dvoretzky-Kiefer-
  Wolfowitz inequality with Massart's constant (1990),
  ``P(distance > t) <= 2 exp(-2 n t**2)``, holds for every law, discrete ones
  included, and every n, so a false alarm has a probability we choose. The same
  draws must be refused against negative controls: wrong laws, such as one with
  another scale. The check verifies that it has the power to refuse them.
- *Is its loss no larger than epsilon?* :func:`audit_epsilon` bounds epsilon
  from below by counting events under two neighbouring data sets.
- *Is the stated sensitivity right?* :func:`record_replay` replaces (or removes)
  random and extreme records and measures the exact change of the statistic.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike

from mechanisms.auditing import Audit, audit_counts
from mechanisms.domain import CODE_MAX, CategoryColumn, Column, Schema
from mechanisms.exact.floats import Floats
from mechanisms.privacy import Adjacency
from mechanisms.randomness import Randomness
from mechanisms.sketches import ArrayData

FLAKE = 1e-9
"""Largest accepted probability that a correct mechanism fails a check."""

Drawn = TypeVar("Drawn")


class SeededBits:
    """A reproducible bit source for tests; never for a release."""

    __slots__ = ("_generator",)

    def __init__(self, seed: int) -> None:
        self._generator = random.Random(seed)  # noqa: S311

    def bits(self, count: int) -> int:
        """Return an integer uniform on [0, 2**count)."""
        return self._generator.getrandbits(count) if count else 0


def seeded_randomness(seed: int) -> Randomness:
    """Return a reproducible stream for tests."""
    return Randomness(SeededBits(seed))


@dataclass(frozen=True, slots=True)
class Law:
    """A law on the real line, by its distribution function.

    ``at(x)`` is P(X <= x) and ``below(x)`` is P(X < x), both for arrays; they
    differ only where the law has an atom.

    >>> coin = Law.discrete([0, 1], [1, 1])
    >>> float(coin.at(np.array([0.0]))[0]), float(coin.below(np.array([0.0]))[0])
    (0.5, 0.0)
    """

    at: Callable[[Floats], Floats]
    below: Callable[[Floats], Floats]

    @classmethod
    def continuous(cls, at: Callable[[Floats], Floats]) -> Law:
        """Return a law without atoms."""
        return cls(at=at, below=at)

    @classmethod
    def discrete(cls, support: ArrayLike, weights: ArrayLike) -> Law:
        """Return the law on a finite support with probabilities proportional to ``weights``."""
        points = np.asarray(support, dtype=np.float64)
        order = np.argsort(points)
        points = points[order]
        mass = np.asarray(weights, dtype=np.float64)[order]
        total = np.concatenate([[0.0], np.cumsum(mass) / math.fsum(mass)])
        return cls(
            at=lambda x: total[np.searchsorted(points, x, side="right")],
            below=lambda x: total[np.searchsorted(points, x, side="left")],
        )

    def distance(self, draws: ArrayLike) -> float:
        """Return the Kolmogorov distance between this law and the draws' empirical law."""
        points, counts = np.unique(np.asarray(draws, dtype=np.float64), return_counts=True)
        share = np.concatenate([[0.0], np.cumsum(counts) / counts.sum()])
        after = np.abs(share[1:] - self.at(points))
        before = np.abs(share[:-1] - self.below(points))
        return float(max(after.max(), before.max()))

    def gap(self, other: Law, points: ArrayLike) -> float:
        """Return a lower bound of the distance between two laws: its maximum over ``points``."""
        x = np.asarray(points, dtype=np.float64)
        return float(
            max(
                np.abs(self.at(x) - other.at(x)).max(), np.abs(self.below(x) - other.below(x)).max()
            )
        )


def distance_threshold(draws: int, *, flake: float = FLAKE) -> float:
    """Return the t with ``2 exp(-2 n t**2) = flake``: larger distances are refused."""
    return math.sqrt(math.log(2 / flake) / (2 * draws))


def draws_needed(gap: float, *, flake: float = FLAKE) -> int:
    """Return how many draws refuse a law at distance ``gap`` with probability 1 - flake."""
    return math.ceil(2 * math.log(2 / flake) / gap**2)


def draws_to_refuse(
    twins: Sequence[Law], law: Law, points: ArrayLike, *, flake: float = FLAKE
) -> int:
    """Return how many draws refuse every negative control, each with probability 1 - flake.

    The distance is the largest one at ``points``. :func:`check_draws` measures it at the draws and
    may find a slightly smaller one, so this returns 5% more draws.
    """
    gap = min(law.gap(control, points) for control in twins)
    return draws_needed(gap, flake=flake) * 21 // 20 + 1


def check_draws(
    draws: ArrayLike, law: Law, *, twins: Sequence[Law] = (), flake: float = FLAKE
) -> None:
    """Assert that the draws fit ``law`` and that the same draws refuse every negative control.

    ``twins`` are the negative controls. A correct mechanism fails with probability at most
    ``(1 + len(twins)) * flake``.

    Raises
    ------
    AssertionError
        The draws do not fit, or they do not refuse a negative control.
    ValueError
        There are too few draws to distinguish the law from a negative control.
    """
    values = np.asarray(draws, dtype=np.float64)
    threshold = distance_threshold(len(values), flake=flake)
    distance = law.distance(values)
    if distance > threshold:
        raise AssertionError(f"distance {distance:.4f} from the stated law exceeds {threshold:.4f}")
    for index, control in enumerate(twins):
        gap = law.gap(control, np.unique(values))
        # Draws within one threshold of their law are then farther than one from the control.
        if gap < 2 * threshold:
            needed = draws_needed(gap, flake=flake) if gap else math.inf
            raise ValueError(f"control {index} is only {gap:.4f} away: take {needed} draws")
        if control.distance(values) <= threshold:
            raise AssertionError(f"the draws also fit control {index}")


def audit_epsilon(
    first: Sequence[Drawn],
    second: Sequence[Drawn],
    events: Mapping[str, Callable[[Drawn], bool]],
    *,
    confidence: float = 0.999,
    pure: bool = True,
) -> Audit:
    """Bound epsilon from below by draws under two neighbouring data sets.

    For each event E, ``epsilon >= |log(P(E | first) / P(E | second))|``. Each
    probability is replaced by its one-sided Clopper-Pearson bound; the level is
    shared among all events, both directions and both bounds (Bonferroni), so
    all of them hold at once with probability ``confidence``. Choose the events
    before looking at the draws. Unless the mechanism is ``pure``, the bound is
    that of ``sqrt(2 rho)``.
    """
    return audit_counts(
        {name: (sum(map(event, first)), sum(map(event, second))) for name, event in events.items()},
        trials=(len(first), len(second)),
        confidence=confidence,
        pure=pure,
    )


@dataclass(frozen=True, slots=True)
class Replay:
    """The largest exact change seen, and the neighbours that caused it."""

    largest: Fraction
    neighbours: tuple[ArrayData, ArrayData]


def record_replay(
    statistic: Callable[[ArrayData], Sequence[int | Fraction]],
    *,
    schema: Schema,
    norm: Callable[[Sequence[Fraction]], Fraction],
    rows: int = 4,
    trials: int = 400,
    seed: int = 1,
) -> Replay:
    """Return the largest exact ``norm(T(X) - T(X'))`` over random and extreme neighbours.

    The caller compares it with the stated sensitivity: never above it, and, if
    the sensitivity is exact, within 1% of it somewhere.
    """
    best: Replay | None = None
    for pair in neighbours(schema, rows=rows, trials=trials, seed=seed):
        here, there = (statistic(data) for data in pair)
        change = norm([Fraction(a) - Fraction(b) for a, b in zip(here, there, strict=True)])
        if best is None or change > best.largest:
            best = Replay(largest=change, neighbours=pair)
    if best is None:
        raise ValueError("take at least one trial")
    return best


def neighbours(
    schema: Schema, *, rows: int, trials: int, seed: int
) -> Iterator[tuple[ArrayData, ArrayData]]:
    """Yield pairs of data sets that differ in one record, as the schema's adjacency says.

    The changed record is extreme in every column half of the time. Under
    add-remove the larger data set comes first in every other pair.
    """
    generator = random.Random(seed)  # noqa: S311
    for trial in range(trials):
        common = [_record(schema, generator, extreme=0.3) for _ in range(max(rows - 1, 0))]
        changed = [_record(schema, generator, extreme=trial % 2) for _ in range(2)]
        place = generator.randrange(len(common) + 1)
        here = _assemble(schema, [*common[:place], changed[0], *common[place:]])
        if schema.adjacency is Adjacency.REPLACE_ONE:
            yield here, _assemble(schema, [*common[:place], changed[1], *common[place:]])
        else:
            there = _assemble(schema, common)
            yield (here, there) if trial % 4 < 2 else (there, here)


def _record(schema: Schema, generator: random.Random, *, extreme: float) -> dict[str, int]:
    return {
        name: _code(column, generator, extreme=extreme) for name, column in schema.columns.items()
    }


def _code(column: Column, generator: random.Random, *, extreme: float) -> int:
    if isinstance(column, CategoryColumn):
        return generator.randrange(len(column.values))
    ends = (-CODE_MAX, CODE_MAX) if column.boolean else (-CODE_MAX, 0, CODE_MAX)
    if column.boolean or generator.random() < extreme:
        return generator.choice(ends)
    return generator.randint(-CODE_MAX, CODE_MAX)


def _assemble(schema: Schema, records: Sequence[Mapping[str, int]]) -> ArrayData:
    return ArrayData(
        columns=schema.columns,
        codes={
            name: np.array([record[name] for record in records], dtype=np.int32)
            for name in schema.columns
        },
    )
