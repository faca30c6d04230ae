"""Names of persons: one spelling of each, and no two that look alike.

Caps, reviews and releases identify persons by their names, letter by letter. So a
new name is spelled in one way (:func:`spelled`), and may not be taken for the name of
somebody who is there (:func:`twins_of`). The likeness is Unicode's, UTS #39: two names
are confusable when their skeletons are equal, as they are written or in small letters.
"""

from __future__ import annotations

import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Protocol

from confusable_homoglyphs.confusables import confusables_data

from app.domain.problems import Problem, invalid_request
from app.store.ledger.entries import SYSTEM

MAX_LENGTH = 100
_MARKS = ("\u200e", "\u200f")
"""Marks of direction that the table puts around letters written from the right."""
_RANGES = (
    (0x034F, 0x034F),  # combining grapheme joiner
    (0x115F, 0x1160),  # fillers of Hangul
    (0x17B4, 0x17B5),  # inherent vowels of Khmer
    (0x180B, 0x180F),  # selectors of Mongolian
    (0x2800, 0x2800),  # the empty pattern of Braille
    (0x2D7F, 0x2D7F),  # joiners and fillers, which draw nothing themselves
    (0x3164, 0x3164),
    (0xFE00, 0xFE0F),  # selectors of variants
    (0xFFA0, 0xFFA0),
    (0xFFFC, 0xFFFC),  # stands for a picture that is not there
    (0x1107F, 0x1107F),
    (0x11A47, 0x11A47),
    (0x11A99, 0x11A99),
    (0x16FE4, 0x16FE4),
    (0x1BC9D, 0x1BC9D),
    (0x1D159, 0x1D159),  # the head of a note that has none
    (0xE0100, 0xE01EF),
)
_INVISIBLE = frozenset(chr(code) for first, last in _RANGES for code in range(first, last + 1))
"""Letters that Python counts as printable but that are invisible."""


class Persons(Protocol):
    """Who has had a key."""

    def is_person(self, person: str, /) -> bool: ...


def spelled(name: str) -> str:
    """Return the one spelling of a name: NFKC, single spaces, none around it; case is kept.

    >>> spelled(" Ada   Lovelace ")
    'Ada Lovelace'

    Raises
    ------
    Problem
        ``invalid-request``: nothing is left of it, or not all of it can be seen.
    """
    # a line's end in the middle is no space that somebody meant
    controls = any(unicodedata.category(letter) == "Cc" for letter in name.strip())
    name = _spelled(name)
    if not name:
        raise invalid_request("name", "must hold more than spaces")
    if len(name) > MAX_LENGTH:
        raise invalid_request("name", f"must have at most {MAX_LENGTH} letters, spelled out")
    if controls or not name.isprintable() or not _INVISIBLE.isdisjoint(name):
        raise invalid_request("name", "must not hold invisible letters")
    return name


def _spelled(name: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", name).split())


def known_person(persons: Persons, named: str) -> str | None:
    """Return who is meant: the person of exactly this name, or of its one spelling; None if there
    is none.

    The exact name goes first, since persons of earlier versions may be spelled in any way.
    """
    return next((each for each in (named, _spelled(named)) if persons.is_person(each)), None)


def require_no_twin(name: str, persons: Iterable[str]) -> None:
    """Pass for a new person whose name resembles no other.

    Raises
    ------
    Problem
        ``name-confusable``; ``invalid-request`` where it looks like the service's own.
    """
    looks = _looks(name)
    if not looks.isdisjoint(_looks(SYSTEM)):
        raise invalid_request("name", "is the service's own; choose another one")
    for person in persons:
        if not looks.isdisjoint(_looks(person)):
            raise Problem("name-confusable", person=person)


def twins_of(persons: Iterable[str]) -> Mapping[str, Sequence[str]]:
    """Return which other persons may be taken for each, of those whose names have lookalikes.

    >>> twins_of(["Ada", "Bob", "Ada "])
    {'Ada': ['Ada '], 'Ada ': ['Ada']}
    """
    alike: dict[str, set[str]] = defaultdict(set)
    for person in persons:
        for look in _looks(person):
            alike[look].add(person)
    lookalikes: dict[str, set[str]] = defaultdict(set)
    for group in alike.values():
        for person in group if len(group) > 1 else ():
            lookalikes[person] |= group - {person}
    return {person: sorted(others) for person, others in sorted(lookalikes.items())}


@lru_cache(maxsize=4_096)
def _looks(name: str) -> frozenset[str]:
    """Return what a name looks like, as it is written and in small letters.

    They are two and not one: a capital I is taken for a small l, a small i is not.
    """
    name = _spelled(name)
    return frozenset(
        (f"as written: {_skeleton(name)}", f"small: {_skeleton(name.casefold()).casefold()}")
    )


def _skeleton(name: str) -> str:
    letters = unicodedata.normalize("NFD", name)
    seen = "".join(_prototype(letter) for letter in letters if letter not in _INVISIBLE)
    return unicodedata.normalize("NFD", seen)


def _prototype(letter: str) -> str:
    """Return what a letter is confused with.

    The table lists both ways: a prototype names all that look like it, and each of
    those names only the prototype. Where two name each other the lesser one stands.
    """
    found = _homoglyphs(letter)
    if len(found) != 1:
        return letter
    other = found[0]
    return min(letter, other) if _homoglyphs(other) == [letter] else other


def _homoglyphs(letter: str) -> list[str]:
    found = [each["c"] for each in confusables_data.get(letter, ())]
    for mark in _MARKS:
        found = [each.replace(mark, "") for each in found]
    return found
