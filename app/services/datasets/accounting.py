"""What an account counts in: epsilons that add up, or zCDP towards an (epsilon, delta) target.

An account is *pure* unless its first data set's budget names a delta. Then every release costs
what it costs in zCDP (:mod:`mechanisms.accounting`), the account's total is the most that stays
within the target, and the ledger's sums are sums of zCDP. The kind and its delta are fixed when
the account is opened; each release by itself is pure epsilon-DP either way.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import isqrt
from typing import ClassVar, Literal, Protocol

from app.domain.ledger import MAX_TOTAL
from app.domain.problems import BudgetExceededError, Problem, invalid_request
from mechanisms.accounting import RHO_UNIT, epsilon_of, increment_units, total_units, units
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

    def raising(self, lasting: int, epsilon: Epsilon, *, ends: bool) -> int:
        """Return by how much the total grows when the target grows by epsilon.

        ``lasting`` is the total without anything granted for a while; ``ends`` says
        whether this is.
        """

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

    def raising(self, lasting: int, epsilon: Epsilon, *, ends: bool) -> int:  # noqa: ARG002
        """Return by how much the total grows: by epsilon, on top of whatever there is."""
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

    def raising(self, lasting: int, epsilon: Epsilon, *, ends: bool) -> int:
        """Return by how much the total grows when the target grows by epsilon.

        The most zCDP within a target is a convex function f of it, so what a grant
        adds depends on where it begins: always at the lasting target, whatever else
        is granted for a while.

        A lasting grant of g takes the lasting total from f(e) to f(e + g). So it is
        what lasting grants alone would have made it, and once all others have ended
        nothing else is left.

        A grant of t that ends adds at most f(e + t) - f(e) to the lasting target e of
        its time. The lasting target never falls, so by convexity all that are in force
        add up, with the lasting total, to no more than f of the sum of their targets,
        in whatever order they were made and end (:mod:`mechanisms.accounting`, which
        says by how many units the first is kept below the second). Several at once
        come to a little less than that.

        What has been spent of a grant that has ended stays spent, as if that part had
        been granted for good; then its target counts as in force.

        Raises
        ------
        Problem
            ``invalid-request`` for a target above 10,000, or one that does not grow.
        """
        before = self.epsilon(lasting)
        total = self.opening(Epsilon(before.nanos + epsilon.nanos))
        amount = increment_units(before, epsilon, self.delta) if ends else total - lasting
        if amount < 1:
            raise invalid_request("epsilon", "is too little to add anything to this account")
        return amount

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
