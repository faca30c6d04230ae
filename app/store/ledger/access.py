"""Who may see which data sets, as the system account's entries say; there is no other table."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from sqlalchemy import Column, ColumnElement, Connection, bindparam, case, select, text, true

from app.domain.access import (
    ACCESS_SET,
    GROUP_SET,
    GROUPS_GIVEN,
    KINDS,
    Access,
    AccessList,
    list_json,
    note_of,
)
from app.domain.ledger import SYSTEM_ACCOUNT
from app.store.database import tables
from app.store.ledger.accounts import AccountsWriter

_entry, _release, _dataset = tables.entry.c, tables.release.c, tables.dataset.c
_plan = tables.study_plan.c
_SINCE = (
    select(_entry.seq, _entry.kind, _entry.note)
    .where(
        _entry.account == SYSTEM_ACCOUNT,
        _entry.kind.in_(KINDS),
        _entry.seq > bindparam("after"),
        text(tables.ACTS),
    )
    .order_by(_entry.seq)
)
_DATASET = select(_dataset.account).where(_dataset.id == bindparam("wanted"))
_RELEASE = select(_release.account).where(_release.id == bindparam("wanted"))
_OF_PERSON = _RELEASE.where(_release.principal == bindparam("by"))


def is_seen(account: Column[Any], hidden: Collection[str]) -> ColumnElement[bool]:
    """Return the condition on rows of an account that it is none of those hidden from a caller."""
    return account.not_in(sorted(hidden))


def requests_seen(
    release: Column[Any], plan: Column[Any], hidden: Collection[str]
) -> ColumnElement[bool]:
    """Return the condition on rows of a release or a study plan, the other being NULL."""
    if not hidden:
        return true()
    return case(
        (release.is_not(None), releases_seen(release, hidden)), else_=plans_seen(plan, hidden)
    )


def releases_seen(release: Column[Any], hidden: Collection[str]) -> ColumnElement[bool]:
    """Return the condition on rows of a release that its account is none of the hidden ones."""
    unseen = select(_release.id).where(_release.account.in_(sorted(hidden)))
    return release.not_in(unseen)


def plans_seen(plan: Column[Any], hidden: Collection[str]) -> ColumnElement[bool]:
    """Return the condition on rows of a study plan that its account is none of the hidden ones."""
    unseen = select(_plan.id).where(_plan.account.in_(sorted(hidden)))
    return plan.not_in(unseen)


class AccessEntries:
    """The entries about access, put together; and whose a data set or a release is."""

    __slots__ = ("_connection",)

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def now(self, known: Access | None = None) -> Access:
        """Return what all entries say together; ``known`` is what earlier ones say."""
        found = known or Access()
        for row in self._connection.execute(_SINCE, {"after": found.seq}):
            found = found.after(row.seq, row.kind, row.note)
        return found

    def account_of_dataset(self, dataset: str) -> str | None:
        """Return the account of a data set, or None."""
        return self._connection.execute(_DATASET, {"wanted": dataset}).scalar_one_or_none()

    def account_of_release(self, release: str, *, person: str | None = None) -> str | None:
        """Return the account of a release, or None; of a person's releases alone."""
        if person is None:
            return self._connection.execute(_RELEASE, {"wanted": release}).scalar_one_or_none()
        asked = {"wanted": release, "by": person}
        return self._connection.execute(_OF_PERSON, asked).scalar_one_or_none()


class AccessWriter(AccessEntries):
    """Writing entries about access; the state they lead to is read from them."""

    __slots__ = ("_accounts",)

    def __init__(self, connection: Connection, accounts: AccountsWriter) -> None:
        super().__init__(connection)
        self._accounts = accounts

    def restrict(
        self, account: str, access: AccessList | None, *, principal: str, reason: str
    ) -> None:
        """Restrict an account's data sets to a list, or open them to everyone (None)."""
        note = note_of(ACCESS_SET, account=account, access=list_json(access), reason=reason)
        self._accounts.system_entry(ACCESS_SET, principal=principal, note=note)

    def set_group(self, name: str, persons: list[str], *, principal: str, reason: str) -> None:
        """Say who is in a group."""
        note = note_of(GROUP_SET, name=name, persons=persons, reason=reason)
        self._accounts.system_entry(GROUP_SET, principal=principal, note=note)

    def give_groups(self, person: str, groups: list[str], *, principal: str) -> None:
        """Say which groups a person is in at their provider."""
        note = note_of(GROUPS_GIVEN, person=person, groups=groups)
        self._accounts.system_entry(GROUPS_GIVEN, principal=principal, note=note)
