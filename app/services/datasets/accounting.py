"""What an account counts in: epsilons that add up, or zCDP towards an (epsilon, delta) target.

An account is *pure* unless its first data set's budget names a delta. Then every release costs
what it costs in zCDP (:mod:`mechanisms.accounting`), the account's total is the most that stays
within the target, and the ledger's sums are sums of zCDP. The kind and its delta are fixed when
the account is opened, and so is such a target: :mod:`mechanisms.accounting` says why. In a pure
account each release by itself is epsilon-DP. In one with a delta it is that too, or rho-zCDP
(:mod:`mechanisms.gaussian`), and states which.

*Which account an upload belongs to, and what that account has fixed.* An account's charges add up
to one epsilon for one person's rows in all its data sets together. That needs one meaning of
neighbours: a row replaced is a row removed and one added, so under both at once the sum would
promise half of what it says. An account that a reconciliation has opened again has no data set;
what it has fixed is known from the digests of those it had, or else from the first upload that is
attached to it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from fractions import Fraction
from math import isqrt
from typing import ClassVar, Literal, NoReturn, Protocol

from app.domain.ledger import MAX_TOTAL, Balance
from app.domain.problems import BudgetExceededError, Problem, invalid_request
from app.store import Findings, Reader, UnitOfWork, new_id, read_digest_history
from app.vault.lineage import Origin
from mechanisms.accounting import RHO_UNIT, epsilon_of, parse_delta, total_units, units
from mechanisms.exact.fractions import decimal_text
from mechanisms.privacy import MAX_EPSILON_NANOS, NANOS_PER_EPSILON, Adjacency, Epsilon, Guarantee

# Which account an upload belongs to, and what that account has fixed


def origin_of(
    reader: Reader | UnitOfWork,
    *,
    account: str | None,
    adjacency: Adjacency,
    delta: Fraction | None,
) -> Origin:
    """Return what an upload's account fixes: the one it names, or a new one.

    Raises
    ------
    Problem
        ``invalid-request``: there is no such account, or it has fixed something else.
    """
    asked = Origin(
        account=account or new_id("acc"),
        adjacency=str(adjacency),
        delta=None if delta is None else decimal_text(delta),
    )
    if account is None:
        return asked
    if reader.datasets.is_closed(account):
        raise invalid_request("spec.account", "is closed, since its data sets are deleted")
    fixed = _fixed(reader, account, asked)
    if fixed.adjacency != asked.adjacency:
        raise invalid_request(
            "spec.adjacency", f"must be {fixed.adjacency}, as in the account's other data sets"
        )
    if delta is not None and delta != delta_of(fixed.delta):
        raise invalid_request("spec.budget.delta", "is fixed when an account is opened")
    return fixed


def delta_of(text: object) -> Fraction | None:
    """Return the delta that an account's facts name."""
    return parse_delta(text) if isinstance(text, str) else None


def meter_of_lost(reader: Reader, found: Findings, account: str) -> Meter | None:
    """Return what an account counts in that is about to be charged for what was forgotten.

    Known from its data sets, or from the digests of those that are forgotten too;
    None where nothing shows it.
    """
    digests = (each.origin for each in found.forgotten if each.origin is not None)
    origin = (
        _first_origin(reader, account)
        or read_digest_history(reader).origin_of(account)
        or next((each for each in digests if each.account == account), None)
    )
    return None if origin is None else meter_of(delta_of(origin.delta))


def _first_origin(reader: Reader | UnitOfWork, account: str) -> Origin | None:
    """Return what the data set that an account was opened for has fixed, if there is one."""
    first = reader.datasets.first_of(account)
    if first is None:
        return None
    spec = json.loads(first.spec)
    return Origin(account=account, adjacency=spec["adjacency"], delta=spec.get("delta"))


def _fixed(reader: Reader | UnitOfWork, account: str, asked: Origin) -> Origin:
    first = _first_origin(reader, account)
    if first is not None:
        return first
    past = read_digest_history(reader)
    if account not in past.reopened:
        raise invalid_request("spec.account", "is not the account of a data set")
    return past.origin_of(account) or asked


# What an account counts in: epsilons that add up, or zCDP towards an (epsilon, delta) target

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
        """Return what a release takes from the account: its whole epsilon.

        Raises
        ------
        ValueError
            It is not epsilon-DP, so that no epsilon is a price for it.
        """
        if not guarantee.is_pure:
            raise ValueError("a release that is not pure has no price in epsilon")
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
        """Return the largest epsilon of a release that costs at most this.

        Of one that is epsilon-DP, or that costs as much (:mod:`mechanisms.gaussian`).
        """
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
