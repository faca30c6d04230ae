"""Privacy parameters: an exact epsilon, the two adjacencies, and what a release guarantees.

Epsilon is charged like money, so it is exact. It is parsed from decimal text into an integer
number of nano-epsilon (1e-9), stored as that integer, and passed to the samplers as the
same exact ``Fraction``, never as a float. An :class:`EpsilonShare` is the privacy loss of
one part of a release: an exact share of such an epsilon. It is
never charged by itself, so it need not be a whole number of nanos.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from fractions import Fraction

NANOS_PER_EPSILON = 10**9
MAX_EPSILON_NANOS = 10_000 * NANOS_PER_EPSILON
MOST_ROWS_OF_ONE = 1000
"""Rows of one person, at most: the smallest epsilon, divided by it, can still be drawn with."""
_MAX_TEXT_LENGTH = 40  # longer texts are no amounts, only work for the parser
_DECIMAL = re.compile(
    r"(?P<whole>\d+)(?:\.(?P<part>\d+))?(?:[eE](?P<power>[+-]?\d{1,2}))?", re.ASCII
)


class InvalidEpsilonError(ValueError):
    """The text is not a decimal epsilon in range; the message never repeats it."""


class Adjacency(StrEnum):
    """Which pairs of data sets count as neighbours.

    ``REPLACE_ONE``: equal row counts, one row differs; the row count is public.
    ``ADD_REMOVE``: one row is added or removed; the row count is private
    (Awan & Slavkovic, Remark 2.5).
    """

    REPLACE_ONE = "replace_one"
    ADD_REMOVE = "add_remove"


@dataclass(frozen=True, slots=True)
class Protected:
    """The protected unit of a release: a person with at most this many rows, with a description.

    Adding or removing one person adds or removes up to ``rows`` rows. Where each row is planned for
    by itself (:mod:`mechanisms.people`), ``alike`` is how many of them one person may have: privacy
    is accounted for by then, and sampling error is not.
    """

    rows: int = 1
    words: str = "one row is one person"
    alike: int = 1

    def __post_init__(self) -> None:
        if self.rows < 1:
            raise ValueError("a person has at least one row")


ONE_ROW = Protected()


@dataclass(frozen=True, slots=True, order=True)
class Epsilon:
    """A non-negative privacy loss, held as an integer count of 1e-9.

    >>> Epsilon.parse("0.5").nanos
    500000000
    >>> str(Epsilon.parse("50.000"))
    '50'
    """

    nanos: int = field(metadata={"description": "How many billionths.", "examples": [500_000_000]})

    def __post_init__(self) -> None:
        if self.nanos < 0:
            raise InvalidEpsilonError("must not be negative")

    @classmethod
    def parse(cls, text: str, *, maximum_nanos: int = MAX_EPSILON_NANOS) -> Epsilon:
        """Read a positive decimal with at most 9 decimals, e.g. ``"0.5"`` or ``"1e-9"``.

        Raises
        ------
        InvalidEpsilonError
            Not a plain decimal number, zero, negative, finer than 1e-9, or above the maximum
            (10,000 by default).
        """
        match = _DECIMAL.fullmatch(text) if len(text) <= _MAX_TEXT_LENGTH else None
        if match is None:
            raise InvalidEpsilonError("must be a positive decimal number")
        part = match["part"] or ""
        shift = 9 - len(part) + int(match["power"] or 0)
        digits = int(match["whole"] + part)
        # In integers alone: the charge is exactly the written number, without floats.
        nanos, finer = (digits * 10**shift, 0) if shift >= 0 else divmod(digits, 10**-shift)
        if finer:
            raise InvalidEpsilonError("must have at most 9 decimals")
        if nanos == 0:
            raise InvalidEpsilonError("must be greater than zero")
        if nanos > maximum_nanos:
            raise InvalidEpsilonError(f"must be at most {cls(maximum_nanos)}")
        return cls(nanos)

    @property
    def fraction(self) -> Fraction:
        """The exact value the samplers use."""
        return Fraction(self.nanos, NANOS_PER_EPSILON)

    def __str__(self) -> str:
        """Shortest decimal text."""
        whole, part = divmod(self.nanos, NANOS_PER_EPSILON)
        return f"{whole}.{part:09d}".rstrip("0").rstrip(".")


@dataclass(frozen=True, slots=True)
class EpsilonShare:
    """The part of an epsilon that one of several draws may lose; money only as a whole.

    >>> str(EpsilonShare(Epsilon.parse("0.5"), Fraction(1, 3)))
    '1/6'
    """

    whole: Epsilon
    weight: Fraction

    def __post_init__(self) -> None:
        if not 0 < self.weight <= 1:
            raise InvalidEpsilonError("a share lies above 0 and is at most the whole")

    @property
    def fraction(self) -> Fraction:
        """The exact value the samplers use."""
        return self.whole.fraction * self.weight

    def __str__(self) -> str:
        """Shortest exact text: a decimal where nano-epsilons say it, else ``p/q``."""
        nanos = self.fraction * NANOS_PER_EPSILON
        return str(Epsilon(nanos.numerator)) if nanos.denominator == 1 else str(self.fraction)


PrivacyLoss = Epsilon | EpsilonShare
"""The calibration target of a mechanism: a charged epsilon, or an exact share of one."""


def split(epsilon: PrivacyLoss, shares: Sequence[Fraction]) -> tuple[EpsilonShare, ...]:
    """Return shares of epsilon in proportion to ``shares``, their sum exactly epsilon.

    >>> [str(part) for part in split(Epsilon.parse("1"), [Fraction(1), Fraction(3)])]
    ['0.25', '0.75']

    Raises
    ------
    InvalidEpsilonError
        There is no share, or one is not positive.
    """
    if not shares or min(shares) <= 0:
        raise InvalidEpsilonError("shares must be positive")
    if isinstance(epsilon, Epsilon):
        epsilon = EpsilonShare(epsilon, Fraction(1))
    # fractions: the parts add up to the whole, with nothing left over
    unit = epsilon.weight / sum(shares)
    return tuple(EpsilonShare(epsilon.whole, share * unit) for share in shares)


def part_of(epsilon: PrivacyLoss, parts: int) -> EpsilonShare:
    """Return one of ``parts`` equal parts of epsilon, exactly.

    >>> str(part_of(Epsilon.parse("1"), 3))
    '1/3'
    """
    if isinstance(epsilon, Epsilon):
        epsilon = EpsilonShare(epsilon, Fraction(1))
    return EpsilonShare(epsilon.whole, epsilon.weight / parts)


PURE = "pure epsilon-DP"
"""The definition of a release that is epsilon-DP, with nothing in addition."""
ZCDP = "rho-zCDP"
"""The definition of a release that is rho-zCDP, and epsilon-DP for no epsilon."""


@dataclass(frozen=True, slots=True)
class Guarantee:
    """The guarantee of a released value, in the words that its readers see.

    ``sensitivity`` is the exact (or certified upper) bound as text, in the
    mechanism's own units, which ``sensitivity_unit`` names. ``rho`` is what the
    release costs an account kept in zCDP (:mod:`mechanisms.accounting`), None
    standing for the cost of any epsilon-DP draw. ``reduction`` says how a filter, groups or
    a person's several rows were treated, where there are any. ``protects`` says in words
    whose presence it hides.

    ``definition`` is :data:`PURE` or :data:`ZCDP`. Under the second, epsilon states the size of the
    noise: what an epsilon-DP draw at it costs an account in zCDP, this release costs at most.

    Raises
    ------
    ValueError
        A release that is not pure states no rho.
    """

    epsilon: PrivacyLoss
    adjacency: Adjacency
    sensitivity: str
    sensitivity_unit: str
    theorem: str
    definition: str = PURE
    exact: bool = True
    rho: Fraction | None = None
    reduction: str | None = None
    protects: str = ONE_ROW.words

    def __post_init__(self) -> None:
        if not self.is_pure and self.rho is None:
            raise ValueError("a release in zCDP states its rho")

    @property
    def is_pure(self) -> bool:
        """Return whether the release is epsilon-DP."""
        return self.definition == PURE

    @property
    def zcdp(self) -> Fraction:
        """Return the zCDP cost: ``epsilon**2 / 2`` unless a smaller one is known."""
        return pure_rho(self.epsilon) if self.rho is None else self.rho


def definition_of(parts: Iterable[Guarantee]) -> str:
    """Return the definition that releases meet together: pure if each of them is."""
    return PURE if all(part.is_pure for part in parts) else ZCDP


def pure_rho(epsilon: PrivacyLoss) -> Fraction:
    """Return the zCDP cost of an epsilon-DP draw (Bun & Steinke 2016, Proposition 1.4)."""
    return epsilon.fraction**2 / 2


def bounded_range_rho(epsilon: PrivacyLoss) -> Fraction:
    """Return the zCDP cost of a draw of bounded range epsilon (Cesar & Rogers 2021, Theorem 2)."""
    return epsilon.fraction**2 / 8


KNG_THEOREM = "Reimherr & Awan 2019 (KNG), Theorem 3.1"
"""The theorem behind the K-norm gradient mechanism."""

EXPONENTIAL_THEOREM = (
    "McSherry & Talwar 2007 (exponential mechanism); McKenna & Sheldon 2020, Theorem 1"
)
"""The theorem behind the exponential mechanism."""
