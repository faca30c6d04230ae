"""The bodies of answers about budgets and slices of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, cast

from app.api.answers.paging import Answer
from app.domain.ledger import Balance
from app.services.datasets.accounting import Meter, in_epsilons
from app.services.datasets.budgets import BudgetView, CapRecord
from app.services.releases.pauses import PauseRecord
from mechanisms.exact.fractions import decimal_text


class BalanceAnswer(Answer):
    """Amounts of an account, each as the shortest decimal text."""

    total: str
    """What the account may spend in all."""
    spent: str
    """What its releases have cost."""
    reserved: str
    """What is set aside for releases that wait for a review."""
    remaining: str
    """What further releases may still cost."""


class DatasetBudgetAnswer(Answer):
    """The budget as part of a data set's public facts.

    An account in zCDP has a ``delta``: ``epsilon`` is then what its ``rho``, the sums that the
    ledger keeps, comes to at that delta.
    """

    epsilon: BalanceAnswer
    """The account's amounts as epsilons."""
    accounting: Literal["pure", "zcdp"]
    """How costs add up: as epsilons, or as zCDP's rho."""
    delta: str | None
    """The delta of the account's target; null where epsilons add up."""
    rho: BalanceAnswer | None
    """The account's amounts as zCDP's rho; null where epsilons add up."""


class BudgetAnswer(DatasetBudgetAnswer):
    """A budget, and the caller's part of it."""

    yours: dict[Literal["spent", "cap", "remaining"], str]
    """What the caller's own releases have cost; under a cap also the cap, and the largest epsilon
    that a release of the caller's may still have."""


class CapAnswer(Answer):
    """What one person may use of an account, and has used, in epsilons as decimal text."""

    person: str
    """Whose releases it limits: the `person` of a key."""
    epsilon: str | None
    """The cap; null when it has been lifted."""
    used: str
    """Spent, and reserved for a review."""


def budget_answer(view: BudgetView) -> BudgetAnswer:
    """Return a budget."""
    meter, cap = view.meter, None if view.cap is None else view.cap.amount
    yours: dict[Literal["spent", "cap", "remaining"], str]
    yours = {"spent": str(meter.epsilon(view.yours))}
    if cap is not None:
        yours["cap"] = str(meter.epsilon(cap))
        yours["remaining"] = str(meter.affordable(view.remaining))
    return BudgetAnswer(**budget_fields(view.balance, meter), yours=yours)


def cap_answer(record: CapRecord, meter: Meter) -> CapAnswer:
    """Return a cap."""
    epsilon = None if record.amount is None else str(meter.epsilon(record.amount))
    return CapAnswer(person=record.person, epsilon=epsilon, used=str(meter.epsilon(record.used)))


def balance_answer(balance: Balance, text: Callable[[int], str]) -> BalanceAnswer:
    """Return a balance as decimal texts."""
    return BalanceAnswer(
        total=text(balance.total),
        spent=text(balance.spent),
        reserved=text(balance.reserved),
        remaining=text(balance.remaining),
    )


def target_answer(balance: Balance, meter: Meter) -> BalanceAnswer:
    """Return a balance in epsilons."""
    amounts = in_epsilons(balance, meter)
    return BalanceAnswer(
        total=str(amounts.total),
        spent=str(amounts.spent),
        reserved=str(amounts.reserved),
        remaining=str(amounts.remaining),
    )


def budget_fields(balance: Balance, meter: Meter) -> dict[str, Any]:
    """Return what everybody may see of a budget."""
    in_rho = meter.delta is not None
    return {
        "epsilon": target_answer(balance, meter),
        "accounting": meter.kind,
        "delta": None if meter.delta is None else decimal_text(meter.delta),
        "rho": balance_answer(balance, meter.text) if in_rho else None,
    }


# The bodies of answers about pauses


class PauseAnswer(Answer):
    """A person or a data set that is paused."""

    what: Literal["person", "dataset"]
    """Which of the two it is."""
    name: str
    """The `person` of keys, or the id of the data set."""
    reason: str
    """Why."""
    paused_by: str
    """The person who paused it."""
    paused_at: str
    """When (UTC)."""


class SetPauseAnswer(Answer):
    """What has been paused or resumed."""

    what: Literal["person", "dataset"]
    """Which of the two it is."""
    name: str
    """The `person` of keys, or the id of the data set."""
    paused: bool
    """Whether it is paused now."""
    cancelled: int
    """How many releases that waited for a review have been rejected."""


def pause_answer(record: PauseRecord) -> PauseAnswer:
    """Return a pause."""
    return PauseAnswer(
        what=_what(record.what),
        name=record.name,
        reason=record.reason,
        paused_by=record.paused_by,
        paused_at=record.paused_at,
    )


def set_pause_answer(record: PauseRecord, cancelled: int) -> SetPauseAnswer:
    """Return a pause just made."""
    what = _what(record.what)
    return SetPauseAnswer(what=what, name=record.name, paused=True, cancelled=cancelled)


def resumed_answer(what: str, name: str) -> SetPauseAnswer:
    """Return what has just been resumed."""
    return SetPauseAnswer(what=_what(what), name=name, paused=False, cancelled=0)


def _what(what: str) -> Literal["person", "dataset"]:
    return cast(Literal["person", "dataset"], what)
