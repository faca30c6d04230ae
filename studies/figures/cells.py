"""Cells and results: one point of a figure, how it is measured, and its result.

*Seeds.* A cell is seeded by its name, so any cell can be run again alone and gives the same
numbers. The data of replicate r are seeded by ``cell.data`` and r: methods that share the name of
their data see the same data sets, as in the papers. A mechanism's draws are seeded by the cell's
whole name and r. Data come from numpy's generator. Draws take the library's own primitives over a
seeded stream of bits in place of the operating system's, and are otherwise the shipped ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256

import numpy as np

from mechanisms.privacy import Epsilon
from mechanisms.randomness import Randomness
from mechanisms.testing import seeded_randomness


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One row of a figure's CSV.

    ``coverage`` is None, and no column of the CSV, in figures that measure none.
    """

    figure: str
    panel: str
    method: str
    norm: str
    n: int
    epsilon: str
    replicate_count: int
    error_mean: float
    error_median: float
    error_se: float
    coverage: float | None = None

    @property
    def name(self) -> str:
        """Return the name of the cell that this is the result of."""
        return _name(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """The result of a cell's replicates: an error each, and perhaps the share that covered."""

    errors: Sequence[float]
    coverage: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Dice:
    """The sources of randomness of one replicate."""

    replicate: int
    data: np.random.Generator
    draws: Randomness


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One point of a figure: what is measured, how often, and by which function.

    Attributes
    ----------
    panel, method, norm, n, epsilon
        Where the point lies. ``norm`` is empty for a method without one; ``epsilon`` is a decimal,
        and empty where nothing is private.
    measure
        A function of a module (it is sent to other processes), which takes the cell.
    data_name
        Names the data, together with the figure and n; the panel unless given.
    cost_s
        About how many seconds it takes, for the time that is left.
    """

    figure: str
    panel: str
    method: str
    norm: str = ""
    n: int
    epsilon: str = ""
    replicate_count: int
    measure: Callable[[Cell], Measured]
    data_name: str | None = None
    cost_s: float = 1.0

    @property
    def name(self) -> str:
        """Return the name that determines the seed."""
        return _name(self)

    @property
    def data(self) -> str:
        """Return the name of the data, which other cells may share."""
        return f"{self.figure}/{self.data_name or self.panel}/{self.n}"

    @property
    def seed(self) -> int:
        """Return the seed of the whole cell."""
        return seed_of(f"{self.name} {self.data}")

    @property
    def loss(self) -> Epsilon:
        """Return epsilon as the library takes it."""
        return Epsilon.parse(self.epsilon)

    def dice(self) -> Iterator[Dice]:
        """Yield the sources of randomness of each replicate."""
        for replicate in range(self.replicate_count):
            yield Dice(
                replicate=replicate,
                data=np.random.default_rng(seed_of(f"{self.data}#{replicate}")),
                draws=seeded_randomness(seed_of(f"{self.name}#{replicate}")),
            )

    def run(self) -> Result:
        """Measure the cell."""
        measured = self.measure(self)
        errors = np.asarray(measured.errors, dtype=np.float64)
        spread = float(errors.std(ddof=1)) if len(errors) > 1 else 0.0
        return Result(
            figure=self.figure,
            panel=self.panel,
            method=self.method,
            norm=self.norm,
            n=self.n,
            epsilon=self.epsilon,
            replicate_count=self.replicate_count,
            error_mean=float(errors.mean()),
            error_median=float(np.median(errors)),
            error_se=spread / float(np.sqrt(len(errors))),
            coverage=measured.coverage,
        )


def seed_of(name: str) -> int:
    """Return 64 bits of a name's SHA-256."""
    return int.from_bytes(sha256(name.encode()).digest()[:8], "big")


def _name(point: Cell | Result) -> str:
    place = (point.figure, point.panel, point.method, point.norm, str(point.n), point.epsilon)
    return "/".join(place)
