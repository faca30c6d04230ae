"""The bodies of answers about budgets and slices of them."""

from __future__ import annotations

from typing import Literal

from app.api.answers import Answer, DatasetBudgetAnswer, budget_fields
from app.services.datasets.accounting import Meter
from app.services.datasets.budgets import BudgetView, CapRecord


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
