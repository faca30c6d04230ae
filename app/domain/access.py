"""Who may see which data sets: the lists of restricted accounts, and groups of persons.

A list is of a *budget account*. Data sets that share one, as versions do, share its ledger and what
is left of it, so a person who may see one of them may see all. Without a list everyone whose role
allows it sees them; with one, the persons and the members of the groups that it names, and those
with :attr:`~app.domain.policies.Right.SEE_ALL`.

Nothing is stored but the ledger's entries. What they say together is an :class:`Access`, which
:meth:`Access.after` follows entry by entry: so an edited list is an edited ledger, and
verification finds it.

A group is made by an admin, or comes from a provider of identities when somebody signs in there.
A provider's groups begin with its id and a colon, which no other group's name has.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

ACCESS_SET = "access_set"
"""The kind of the entry about an account's list: its note is JSON."""
GROUP_SET = "group_set"
"""The kind of the entry about a group's members."""
GROUPS_GIVEN = "groups_given"
"""The kind of the entry about the groups of a person at their provider."""
KINDS = (ACCESS_SET, GROUP_SET, GROUPS_GIVEN)
OF_PROVIDER = ":"
"""What parts the id of a provider from the name of a group there."""


@dataclass(frozen=True, slots=True)
class AccessList:
    """Who may see the data sets of an account: persons, and members of groups."""

    persons: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Group:
    """Persons under one name; ``number`` says in which order groups were first made."""

    number: int
    name: str
    persons: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Access:
    """What the ledger's entries of :data:`KINDS` say together, up to the entry ``seq``."""

    seq: int = 0
    lists: Mapping[str, AccessList] = field(default_factory=dict)
    """By account; those that are open to everyone have none."""
    groups: Mapping[str, Group] = field(default_factory=dict)
    given: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Groups of persons at their providers, by person."""

    def after(self, seq: int, kind: str, note: str) -> Access:
        """Return what is said together with one more entry.

        >>> open_to_all = Access()
        >>> listed = note_of(ACCESS_SET, account="acc_1", access={"persons": ["ada"], "groups": []})
        >>> restricted = open_to_all.after(7, ACCESS_SET, listed)
        >>> restricted.hidden_from("ada"), restricted.hidden_from("bob")
        (frozenset(), frozenset({'acc_1'}))
        """
        said = json.loads(note)
        match kind:
            case "access_set":
                lists = {**self.lists}
                lists.pop(said["account"], None)
                if said["access"] is not None:
                    lists[said["account"]] = read_list(said["access"])
                return replace(self, seq=seq, lists=lists)
            case "group_set":
                known = self.groups.get(said["name"])
                number = len(self.groups) + 1 if known is None else known.number
                group = Group(number, said["name"], tuple(said["persons"]))
                return replace(self, seq=seq, groups={**self.groups, group.name: group})
        given = {**self.given, said["person"]: tuple(said["groups"])}
        return replace(self, seq=seq, given=given)

    def groups_of(self, person: str) -> frozenset[str]:
        """Return the groups that a person is in."""
        own = {name for name, group in self.groups.items() if person in group.persons}
        return frozenset(own.union(self.given.get(person, ())))

    def hidden_from(self, person: str) -> frozenset[str]:
        """Return the accounts whose data sets a person may not see: the one place that decides."""
        groups = self.groups_of(person)
        return frozenset(
            account
            for account, listed in self.lists.items()
            if person not in listed.persons and groups.isdisjoint(listed.groups)
        )


def read_list(said: Mapping[str, Any]) -> AccessList:
    """Return the list that JSON fields say."""
    return AccessList(tuple(said["persons"]), tuple(said["groups"]))


def list_json(listed: AccessList | None) -> Mapping[str, Any] | None:
    """Return a list as JSON-ready fields; None where there is none."""
    if listed is None:
        return None
    return {"persons": [*listed.persons], "groups": [*listed.groups]}


def note_of(kind: str, **said: object) -> str:
    """Return the note of an entry of a kind, which says all that it changes."""
    assert kind in KINDS
    return json.dumps(said)
