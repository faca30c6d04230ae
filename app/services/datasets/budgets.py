"""Budgets: what is left of an account, raising its total, and slices of it."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import anyio
import anyio.to_thread

from app.domain.access import Span
from app.domain.ledger import Balance, Entry
from app.domain.problems import Problem, invalid_request
from app.logs import describe
from app.services.datasets.accounting import Meter
from app.services.datasets.datasets import DatasetFacts, DatasetService, DatasetView
from app.services.people.keys import Caller, known_person
from app.store import CapRecord, DatasetStatus, Store, UnitOfWork
from app.store.ledger.records import text_of
from mechanisms.privacy import Epsilon
from mechanisms.words import worded

__all__ = ["BudgetService", "BudgetView", "CapRecord"]

_LOG = logging.getLogger(__name__)
LOOK_EVERY_S = 15.0  # charges see what is due by themselves, so no request waits for this


@dataclass(frozen=True, slots=True)
class BudgetView:
    """An account's balance, what the caller's own releases have cost it, and their slice of it.

    All in the account's unit; ``cap`` is None for a caller without one.
    """

    balance: Balance
    yours: int
    cap: CapRecord | None
    meter: Meter

    @property
    def remaining(self) -> int:
        """Return what a release of the caller's may still cost."""
        return _remaining(self.balance, self.cap)


def _remaining(balance: Balance, cap: CapRecord | None) -> int:
    if cap is None or cap.amount is None:
        return balance.remaining
    return min(balance.remaining, max(0, cap.amount - cap.used))


class BudgetService:
    """Reads balances, grants more, and cuts slices."""

    def __init__(self, store: Store, datasets: DatasetService, *, most: Epsilon) -> None:
        """``most`` is what one grant may add."""
        self._store = store
        self._datasets = datasets
        self._most = most

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
            balance = reader.accounts.balance(account)
            yours = reader.accounts.spent_by(account, caller.person)
            cap = reader.accounts.cap(account, caller.person)
        return BudgetView(balance, yours, cap, facts.meter)

    def spendable(self, views: Sequence[DatasetView], *, caller: Caller) -> Mapping[str, int]:
        """Return what the caller's next release may cost of each account, in its own unit."""
        balances = {each.facts.record.account: each.balance for each in views}
        with self._store.reading() as reader:
            caps = reader.accounts.caps_of(caller.person, balances)
        return {
            account: _remaining(balance, caps.get(account)) for account, balance in balances.items()
        }

    async def granting(self, dataset: str, epsilon: Epsilon) -> tuple[DatasetFacts, int]:
        """Return a data set, and what a grant would add to its account; nothing is changed.

        Raises
        ------
        Problem
            ``not-found``; ``target-fixed`` for an account in zCDP; ``grant-too-large``.
        """
        facts = await self._datasets.present(dataset)
        amount = facts.meter.granting(epsilon)
        if epsilon.nanos > self._most.nanos:
            raise Problem(
                "grant-too-large",
                worded(
                    "One grant may add at most epsilon %(most)s here, and this is %(epsilon)s. "
                    "Nothing was granted.",
                    most=self._most,
                    epsilon=epsilon,
                ),
                requested=str(epsilon),
                maximum=str(self._most),
            )
        return facts, amount

    async def grant(
        self,
        dataset: str,
        epsilon: Epsilon,
        reason: str,
        *,
        caller: Caller,
        expires: datetime | None = None,
        total: int | None = None,
    ) -> Entry:
        """Raise the total of a data set's account; the reason stays in the ledger.

        A grant that ``expires`` lowers the total again then, as far as nothing
        has been spent of it. With ``total`` it is made only while the account still has that one.

        Raises
        ------
        Problem
            As :meth:`granting`; ``dataset-archived`` for a deleted one; ``invalid-request`` above
            the largest total; ``precondition``: the account has another total than ``total``.
        """
        facts, amount = await self.granting(dataset, epsilon)
        account = facts.record.account
        expires_at = None if expires is None else text_of(expires)

        def write(work: UnitOfWork) -> Entry:
            found = work.datasets.get(dataset)
            if found is not None and found.status is DatasetStatus.DELETED:
                raise Problem("dataset-archived")
            if total is not None and work.accounts.balance(account).total != total:
                raise Problem("precondition", "The total has changed. Nothing was granted.")
            return work.by(caller.acting).accounts.grant(
                account, amount, principal=caller.person, reason=reason, expires_at=expires_at
            )

        return await self._store.awrite(write)

    async def set_cap(
        self, dataset: str, person: str, epsilon: Epsilon | None, reason: str, *, caller: Caller
    ) -> CapRecord:
        """Cap what a person may use of a data set's account, or lift the cap (None).

        Raises
        ------
        Problem
            ``not-found``; ``invalid-request`` for a person who has no key.
        """
        facts = await self._datasets.present(dataset)
        account, amount = facts.record.account, None
        if epsilon is not None:
            amount = facts.meter.opening(epsilon) if epsilon.nanos else 0

        def write(work: UnitOfWork) -> CapRecord:
            capped = known_person(work.keys.is_person, person)
            if capped is None:
                raise invalid_request("person", "has no key")
            return work.by(caller.acting).accounts.set_cap(
                account, capped, amount, principal=caller.person, reason=reason
            )

        return await self._store.awrite(write)

    def caps(self, dataset: str, span: Span) -> Sequence[CapRecord]:
        """Return the caps of a span on a data set's account, numbered as they were first set.

        Raises
        ------
        Problem
            ``not-found``.
        """
        account = self._datasets.facts(dataset).record.account
        with self._store.reading() as reader:
            return reader.accounts.caps(account, span)

    async def keep_expiring(self) -> None:
        """Enter the ends of grants as they come, and those that came while no server was running.

        Nothing waits for this: a charge of an account first enters what is due there, and
        balances are shown without it.
        """
        while True:
            try:
                if await anyio.to_thread.run_sync(self._due):
                    await self._store.awrite(lambda work: work.accounts.expire_due())
            except Problem as problem:  # busy, or frozen
                _LOG.info("grants not ended yet", extra={"code": problem.code})
            except Exception as error:
                _LOG.error("grants not ended yet", extra=describe(error))
            await anyio.sleep(LOOK_EVERY_S)

    def _due(self) -> bool:
        with self._store.reading() as reader:
            return bool(reader.accounts.due())
