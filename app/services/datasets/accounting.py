"""What an account counts in: epsilons that add up, or zCDP towards an (epsilon, delta) target.

An account is *pure* unless its first data set's budget names a delta. Then every release costs
what it costs in zCDP (:mod:`mechanisms.accounting`), the account's total is the most that stays
within the target, and the ledger's sums are sums of zCDP. The kind and its delta are fixed when
the account is opened, and so is such a target: :mod:`mechanisms.accounting` says why. Each release
by itself is pure epsilon-DP either way.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import isqrt
from typing import ClassVar, Literal, NoReturn, Protocol

from app.domain.ledger import MAX_TOTAL, Balance
from app.domain.problems import BudgetExceededError, Problem, invalid_request
from mechanisms.accounting import RHO_UNIT, epsilon_of, total_units, units
from mechanisms.exact.decimals import decimal_text
from mechanisms.privacy import MAX_EPSILON_NANOS, NANOS_PER_EPSILON, Epsilon, Guarantee

# epsilon**2 / 2 = rho, in nano-epsilons and units: nanos**2 = amount * this
_SQUARE_NANOS = int(2 * RHO_UNIT * NANOS_PER_EPSILON**2)


class Meter(Protocol):
    """Converts between epsilons and an account's unit. Every amount is an integer."""

    kind: ClassVar[Literal["pure", "zcdp"]]
    unit: ClassVar[Literal["epsilon", "rho"]]

    @property
    def delta(self) -> Fraction | None:
        """Return the target's delta, None for a pure account."""

    def text(self, amount: int) -> str:
        """Return an amount as decimal text, in the account's unit."""

    def opening(self, epsilon: Epsilon) -> int:
        """Return the total of a new account with this target."""

    def granting(self, epsilon: Epsilon) -> int:
        """Return by how much a grant of epsilon raises the total."""

    def cost(self, guarantee: Guarantee) -> int:
        """Return what a release takes from the account."""

    def epsilon(self, amount: int) -> Epsilon:
        """Return what an amount spent comes to, in terms of the target."""

    def affordable(self, amount: int) -> Epsilon:
        """Return the largest epsilon of an epsilon-DP release that costs at most this."""


@dataclass(frozen=True, slots=True)
class PureMeter:
    """Epsilons add up; the unit is 1e-9."""

    kind: ClassVar[Literal["pure", "zcdp"]] = "pure"
    unit: ClassVar[Literal["epsilon", "rho"]] = "epsilon"
    delta: ClassVar[None] = None

    def text(self, amount: int) -> str:
        """Return an amount as decimal text, in epsilon."""
        return str(Epsilon(amount))

    def opening(self, epsilon: Epsilon) -> int:
        """Return the total of a new account with this target."""
        return epsilon.nanos

    def granting(self, epsilon: Epsilon) -> int:
        """Return by how much a grant of epsilon raises the total: by itself."""
        return epsilon.nanos

    def cost(self, guarantee: Guarantee) -> int:
        """Return what a release takes from the account: its whole epsilon."""
        charged = guarantee.epsilon.fraction * NANOS_PER_EPSILON
        return -(-charged.numerator // charged.denominator)

    def epsilon(self, amount: int) -> Epsilon:
        """Return what an amount spent comes to."""
        return Epsilon(amount)

    def affordable(self, amount: int) -> Epsilon:
        """Return the largest epsilon of a release that costs at most this."""
        return Epsilon(amount)


@dataclass(frozen=True, slots=True)
class ZcdpMeter:
    """zCDP adds up; the unit is 1e-12, and costs are rounded up."""

    kind: ClassVar[Literal["pure", "zcdp"]] = "zcdp"
    unit: ClassVar[Literal["epsilon", "rho"]] = "rho"

    delta: Fraction

    def text(self, amount: int) -> str:
        """Return an amount as decimal text, in rho."""
        return decimal_text(amount * RHO_UNIT)

    def opening(self, epsilon: Epsilon) -> int:
        """Return the most zCDP that stays within (epsilon, delta).

        Raises
        ------
        Problem
            ``invalid-request`` for a target above 10,000.
        """
        if epsilon.nanos > MAX_EPSILON_NANOS:
            raise invalid_request(
                "epsilon",
                f"with a delta the target must be at most {Epsilon(MAX_EPSILON_NANOS)}",
            )
        return total_units(epsilon.fraction, self.delta)

    def granting(self, epsilon: Epsilon) -> NoReturn:  # noqa: ARG002
        """Refuse: a target that follows answers is not the one that the proof is about.

        Raises
        ------
        Problem
            ``target-fixed``.
        """
        raise Problem("target-fixed")

    def cost(self, guarantee: Guarantee) -> int:
        """Return what a release takes from the account, at most the largest total and one more."""
        return min(units(guarantee.zcdp), MAX_TOTAL + 1)

    def epsilon(self, amount: int) -> Epsilon:
        """Return the epsilon that an amount spent stays within, at the account's delta."""
        return epsilon_of(amount, self.delta)

    def affordable(self, amount: int) -> Epsilon:
        """Return the largest epsilon of an epsilon-DP release that costs at most this."""
        return Epsilon(isqrt(amount * _SQUARE_NANOS))


def meter_of(delta: Fraction | None) -> Meter:
    """Return the meter of an account with this delta."""
    return PureMeter() if delta is None else ZcdpMeter(delta)


@dataclass(frozen=True, slots=True)
class Epsilons:
    """A balance in epsilons, in terms of the account's target."""

    total: Epsilon
    spent: Epsilon
    reserved: Epsilon
    remaining: Epsilon


def in_epsilons(balance: Balance, meter: Meter) -> Epsilons:
    """Return a balance in epsilons: what is left is the total less what all charges come to."""
    total, spent = meter.epsilon(balance.total), meter.epsilon(balance.spent)
    taken = meter.epsilon(balance.spent + balance.reserved)
    return Epsilons(
        total=total,
        spent=spent,
        reserved=Epsilon(taken.nanos - spent.nanos),
        remaining=Epsilon(max(total.nanos - taken.nanos, 0)),
    )


def charge_json(meter: Meter, guarantee: Guarantee) -> dict[str, str]:
    """Return what a release takes from an account, in the account's unit."""
    return {"amount": meter.text(meter.cost(guarantee)), "unit": meter.unit}


def refusal_of(problem: Problem, meter: Meter, requested: Epsilon) -> Problem:
    """Return a refusal of the ledger, which counts in its own unit, in epsilons.

    ``remaining`` is then the largest epsilon of an epsilon-DP release that would still fit.
    """
    if not isinstance(problem, BudgetExceededError):
        return problem
    asked = meter.epsilon(problem.requested) if meter.unit == "epsilon" else requested
    return Problem(
        "budget-exceeded",
        problem.detail,
        requested=str(asked),
        remaining=str(meter.affordable(problem.remaining)),
    )
