"""Access to data sets: who may see which, and groups of persons.

What a caller may not see is refused by :class:`app.services.people.keys.KnownAccess`, which every
route whose path names a data set or a release asks. Lists leave out what belongs to the accounts in
``caller.hidden``.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import anyio.to_thread

from app.domain.access import OF_PROVIDER, AccessList, Group, Span
from app.domain.policies import Right
from app.domain.problems import Problem, invalid_request
from app.services.people.keys import Caller, KeyService, known_person, spelled
from app.store import Store, UnitOfWork

__all__ = ["AccessList", "AccessService", "Group"]


class AccessService:
    """Restricts data sets to persons and groups.

    Parameters
    ----------
    providers
        The ids of the providers of identities, whose groups may be named.
    """

    def __init__(self, store: Store, keys: KeyService, *, providers: Collection[str] = ()) -> None:
        self._store = store
        self._keys = keys
        self._providers = providers

    def list_of(self, dataset: str) -> AccessList | None:
        """Return who may see a data set, and those that share its account; None: everyone.

        Raises
        ------
        Problem
            ``not-found``.
        """
        return self._keys.access.now().lists.get(self._account_of(dataset))

    def _account_of(self, dataset: str) -> str:
        account = self._keys.access.account("dataset", dataset)
        if account is None:
            raise Problem("not-found", "There is no such data set.")
        return account

    async def restrict(
        self, dataset: str, access: AccessList | None, reason: str, *, caller: Caller
    ) -> AccessList | None:
        """Restrict a data set, and those that share its account, to a list; None opens them.

        Raises
        ------
        Problem
            ``not-found``; ``invalid-request`` for a person without a key, for a group that is
            none, and for a list that leaves out the caller.
        """
        account = await anyio.to_thread.run_sync(self._account_of, dataset)

        def write(work: UnitOfWork) -> AccessList | None:
            now = work.access.now()
            listed = None if access is None else self._listed(work, access, now.groups.keys())
            if listed is not None and not caller.role.may(Right.SEE_ALL):
                _require_named(listed, caller.person, now.groups_of(caller.person))
            if now.lists.get(account) != listed:
                work.by(caller.acting).access.restrict(
                    account, listed, principal=caller.person, reason=reason
                )
            return listed

        listed = await self._store.awrite(write)
        await anyio.to_thread.run_sync(self._keys.access.refresh)
        return listed

    def _listed(self, work: UnitOfWork, access: AccessList, groups: Collection[str]) -> AccessList:
        """Return a list whose persons and groups are known, each once and in order."""
        persons = _known_persons(work, access.persons, "access.persons")
        for name in access.groups:
            provider, parted, _ = name.partition(OF_PROVIDER)
            if name not in groups and not (parted and provider in self._providers):
                raise invalid_request("access.groups", "names a group that is not there")
        return AccessList(persons, tuple(sorted(set(access.groups))))

    def groups(self, span: Span) -> Sequence[Group]:
        """Return the groups of a span that admins have made, numbered as they were first made."""
        made = self._keys.access.now().groups.values()
        return span.of(made, lambda group: group.number)

    async def set_group(
        self, name: str, persons: Sequence[str], reason: str, *, caller: Caller
    ) -> Group:
        """Say who is in a group; without persons it is empty.

        Raises
        ------
        Problem
            ``invalid-request`` for a name like those of providers' groups, and for a person
            without a key.
        """
        name = spelled(name)
        if OF_PROVIDER in name:
            raise invalid_request(
                "name", f"may have no {OF_PROVIDER!r}: names of providers' groups have one"
            )

        def write(work: UnitOfWork) -> Group:
            members = _known_persons(work, persons, "persons")
            known = work.access.now().groups.get(name)
            if known is None or known.persons != members:
                work.by(caller.acting).access.set_group(
                    name, [*members], principal=caller.person, reason=reason
                )
            return work.access.now().groups[name]

        group = await self._store.awrite(write)
        await anyio.to_thread.run_sync(self._keys.access.refresh)
        return group


def _require_named(listed: AccessList, person: str, groups: Collection[str]) -> None:
    """Pass for a list that does not leave out who makes it."""
    if person not in listed.persons and not set(groups) & set(listed.groups):
        raise invalid_request("access", "leaves you out; name yourself or a group that you are in")


def _known_persons(work: UnitOfWork, persons: Sequence[str], where: str) -> tuple[str, ...]:
    """Return persons as they are spelled, each once and in order."""
    found = set()
    for each in persons:
        person = known_person(work.keys.is_person, each)
        if person is None:
            raise invalid_request(where, "names a person who has no key")
        found.add(person)
    return tuple(sorted(found))
