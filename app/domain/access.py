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

*A part of a long list: in which order its rows are, and from which row on.*

    shown, newest first:    [9 8 7] [6 5 4] [3 2 1]
    next page after 7:      rows before 7, read downwards:  6 5 4
    previous page of 3:     rows after 3, read upwards:     4 5 6, and then turned round

Lists of numbered rows are cut so. The position is the number of a row, and no count of rows: rows
that are added while somebody turns pages move nothing.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

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


# A part of a long list: in which order its rows are, and from which row on

_NUMBER = re.compile("0*([0-9]+)")
_LETTERS = str.maketrans({"æ": "ae", "œ": "oe", "ø": "o", "ł": "l", "đ": "d"})
_MOST_SORTED = 200


def sorts_as(name: str) -> str:
    """Return the text by which a name is sorted in lists, code point by code point.

    Capitals and accents make no difference, and numbers count as such. A text is longer than its
    name by the accents that are taken off, so it is cut for an index.

    >>> sorted(["Zebra", "Ärzte", "apfel", "Wave 10", "wave 2"], key=sorts_as)
    ['apfel', 'Ärzte', 'wave 2', 'Wave 10', 'Zebra']
    """
    apart = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", name).casefold())
    plain = "".join(each for each in apart if not unicodedata.combining(each))
    words = " ".join(plain.translate(_LETTERS).split())
    return _NUMBER.sub(lambda found: f"{len(found[1]):03}{found[1]}", words)[:_MOST_SORTED]


T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """At most ``limit`` rows of a list, those nearest to a row first.

    Attributes
    ----------
    limit
        How many rows are read.
    before, after
        The number of a row: those that come before it in ascending order, or after it. Without
        either the list is read from its beginning.
    by
        The column that rows are sorted by; an empty text: by their numbers, as they were made.
    ascending
        The order in which the list is shown.
    """

    limit: int
    before: int | None = None
    after: int | None = None
    by: str = ""
    ascending: bool = False

    @property
    def start(self) -> int | None:
        """Return the number of the row that the span is next to; None at the beginning."""
        return self.after if self.before is None else self.before

    @property
    def upwards(self) -> bool:
        """Return whether rows are read in ascending order."""
        return self.ascending if self.start is None else self.before is None

    @property
    def back(self) -> bool:
        """Return whether rows are read against the order in which they are shown."""
        return self.upwards != self.ascending

    def beyond(self, number: int) -> Span:
        """Return the span that goes on beyond a row, in the same direction."""
        if self.upwards:
            return replace(self, before=None, after=number)
        return replace(self, before=number, after=None)

    def of(self, rows: Iterable[T], number: Callable[[T], int]) -> Sequence[T]:
        """Return the span of rows that are not in a database, by their numbers."""
        start, way = self.start, 1 if self.upwards else -1
        ordered = sorted(rows, key=number, reverse=way < 0)
        if start is not None:
            ordered = [each for each in ordered if way * (number(each) - start) > 0]
        return ordered[: self.limit]


FIRST, OLDEST = Span(limit=100), Span(limit=100, ascending=True)
"""The beginning of a list, with the newest or the oldest row first."""
