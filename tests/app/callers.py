"""Callers of the use cases, with keys that the ledger knows."""

from __future__ import annotations

from unittest.mock import patch

from app.services.people.keys import Caller, secret_hash
from app.store import Store, UnitOfWork


def register(store: Store, *callers: Caller) -> None:
    """Make the keys that callers come with, those that are not there yet."""

    def make(work: UnitOfWork) -> None:
        for caller in callers:
            if work.keys.get(caller.key) is None:
                with patch("app.store.ledger.keys.new_id", return_value=caller.key):
                    work.keys.insert(
                        name=caller.person,
                        role=caller.role,
                        person=caller.person,
                        secret_hash=secret_hash(caller.key.encode()),
                        expires_at=None,
                        principal="bootstrap",
                    )

    if store.frozen is None:
        store.write(make)
