"""The bodies of answers about budgets and slices of them."""

from __future__ import annotations

from pydantic import Field

from app.api.answers import Answer, DatasetBudgetAnswer, budget_fields
from app.services.accounting import Meter
from app.services.budgets import BudgetView, CapRecord


class YoursAnswer(Answer):
    """The caller's part of a budget, in epsilons as decimal text."""

    spent: str = Field(description="What the caller's own releases have cost.")
    cap: str | None = Field(description="What they may cost in all; null without a cap.")
    remaining: str = Field(
        description="The largest epsilon that a release of the caller's may still have."
    )


class BudgetAnswer(DatasetBudgetAnswer):
    """A budget, and the caller's part of it."""

    yours: YoursAnswer


class CapAnswer(Answer):
    """What one person may use of an account, and has used, in epsilons as decimal text."""

    person: str
    epsilon: str | None = Field(description="The cap; null when it has been lifted.")
    used: str = Field(description="Spent, and reserved for a review.")


def budget_answer(view: BudgetView) -> BudgetAnswer:
    """Return a budget."""
    meter, cap = view.meter, None if view.cap is None else view.cap.amount
    yours = YoursAnswer(
        spent=str(meter.epsilon(view.yours)),
        cap=None if cap is None else str(meter.epsilon(cap)),
        remaining=str(meter.affordable(view.remaining)),
    )
    return BudgetAnswer(**budget_fields(view.balance, meter), yours=yours)


def cap_answer(record: CapRecord, meter: Meter) -> CapAnswer:
    """Return a cap."""
    epsilon = None if record.amount is None else str(meter.epsilon(record.amount))
    return CapAnswer(person=record.person, epsilon=epsilon, used=str(meter.epsilon(record.used)))
