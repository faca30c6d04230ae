"""Budgets: what is left of an account, and raising its total."""

from __future__ import annotations

from dataclasses import dataclass

from app.domain.ledger import Balance, Entry
from app.domain.problems import Problem
from app.services.accounting import Meter
from app.services.datasets import DatasetService
from app.services.keys import Caller
from app.store import Store, UnitOfWork
from mechanisms.privacy import Epsilon


@dataclass(frozen=True, slots=True)
class BudgetView:
    """An account's balance, and what the caller's own releases have cost it, in its unit."""

    balance: Balance
    yours: int
    meter: Meter


class BudgetService:
    """Reads balances and grants more."""

    def __init__(self, store: Store, datasets: DatasetService) -> None:
        self._store = store
        self._datasets = datasets

    def view(self, dataset: str, *, caller: Caller) -> BudgetView:
        """Return the budget of a data set's account.

        Raises
        ------
        Problem
            ``not-found``.
        """
        facts = self._datasets.facts(dataset)
        account = facts.record.account
        with self._store.reading() as reader:
            record = reader.accounts.get(account)
            yours = reader.accounts.spent_by(account, caller.person)
        if record is None:
            raise Problem("not-found", "There is no such data set.")
        return BudgetView(record.balance, yours, facts.meter)

    async def grant(self, dataset: str, epsilon: Epsilon, reason: str, *, caller: Caller) -> Entry:
        """Raise the total of a data set's account; the reason stays in the ledger.

        Raises
        ------
        Problem
            ``not-found``; ``invalid-request`` above the largest total.
        """
        facts = self._datasets.facts(dataset)

        def raise_total(work: UnitOfWork) -> Entry:
            record = work.accounts.get(facts.record.account)
            if record is None:
                raise Problem("not-found", "There is no such data set.")
            amount = facts.meter.raising(record.total, epsilon)
            return work.accounts.grant(record.id, amount, principal=caller.person, reason=reason)

        return await self._store.awrite(raise_total)
