"""Budgets: what is left of an account, and raising its total."""

from __future__ import annotations

from dataclasses import dataclass

from app.domain.ledger import Balance, Entry
from app.domain.problems import Problem
from app.services.datasets import DatasetService
from app.services.keys import Caller
from app.store import Store
from mechanisms.privacy import Epsilon


@dataclass(frozen=True, slots=True)
class BudgetView:
    """An account's balance, and what the caller's own releases have cost it (nano-epsilon)."""

    balance: Balance
    yours: int


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
        account = self._datasets.facts(dataset).record.account
        with self._store.reading() as reader:
            record = reader.accounts.get(account)
            yours = reader.accounts.spent_by(account, caller.person)
        if record is None:
            raise Problem("not-found", "There is no such data set.")
        return BudgetView(record.balance, yours)

    async def grant(self, dataset: str, epsilon: Epsilon, reason: str, *, caller: Caller) -> Entry:
        """Raise the total of a data set's account; the reason stays in the ledger.

        Raises
        ------
        Problem
            ``not-found``; ``invalid-request`` above the largest total.
        """
        account = self._datasets.facts(dataset).record.account
        return await self._store.awrite(
            lambda work: work.accounts.grant(
                account, epsilon.nanos, principal=caller.person, reason=reason
            )
        )
