"""Searching what a caller may see: data sets by their public facts, releases by their requests.

Study plans are found by their names, purposes and questions.

A list and a search show the same: a restricted data set is hidden from those it is not for, and so
are its releases; the releases of others are shown to who oversees them. No result is read.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from app.domain.access import Span
from app.domain.policies import Right
from app.services.people.keys import Caller
from app.services.plans.answers import Heading, heading_of
from app.services.plans.wording import asked
from app.services.releases.public_moments import PublicMoments
from app.store import DatasetRecord, Reader, ReleaseRecord, Store
from app.store.ledger.reviewing.study_plans import PlanRecord

__all__ = ["MOST_CHARACTERS", "NEWEST", "Found", "SearchService", "words_of"]

MOST_CHARACTERS = 200
"""What is longer is cut."""
NEWEST = 10_000
"""Of data sets and of releases, the newest are searched: what a search costs has a bound."""
_MOST_WORDS = 8
_MOST_READ = 500
"""What has the words anywhere in its JSON text, the newest; of these the facts are read."""
_PART = 50
"""At most this many releases are read at once."""
_FILLERS = frozenset({"and", "by", "in", "of", "on", "the", "with"})
"""Words of titles, which requests do not have: a title that is pasted is found."""


@dataclass(frozen=True, slots=True)
class Found:
    """What has every word of a query, the newest first; ``names`` are those of data sets, by id."""

    datasets: Sequence[DatasetRecord] = ()
    releases: Sequence[Heading] = ()
    names: Mapping[str, str] | None = None
    plans: Sequence[PlanRecord] = ()


class SearchService:
    """Searches data sets and releases."""

    def __init__(self, store: Store, moments: PublicMoments) -> None:
        self._store = store
        self._moments = moments

    def find(self, query: str, *, caller: Caller, limit: int) -> Found:
        """Return at most ``limit`` data sets and as many releases of what a caller may see."""
        words = words_of(query)
        if not words:
            return Found()
        own = None if caller.role.may(Right.OVERSEE) else caller.person
        with self._store.reading() as reader:
            datasets = reader.datasets.named(
                words, newest=NEWEST, limit=_MOST_READ, hidden=caller.hidden
            )
            like = (each for each in datasets if _has(each.id, _of_dataset(each), words))
            found = list(islice(like, limit))
            records = reader.releases.named(
                words, newest=NEWEST, limit=_MOST_READ, principal=own, hidden=caller.hidden,
                shown=self._moments.publicly,
            )  # fmt: skip
            releases, names = _releases(reader, records, words, limit)
            plans = reader.study_plans.page(
                person=caller.person,
                overseer=caller.role.may(Right.OVERSEE),
                span=Span(limit=limit),
                words=words,
                hidden=caller.hidden,
            )
            names |= reader.datasets.names({each.dataset for each in plans})
        return Found(found, releases, names, plans)


def _releases(
    reader: Reader, records: Iterator[ReleaseRecord], words: Sequence[str], limit: int
) -> tuple[Sequence[Heading], dict[str, str]]:
    """Return the first releases that have the words, and the names of data sets.

    They are read a part at a time: of what has the words in its text, most have them in what
    people read of it.
    """
    found, names = list[Heading](), dict[str, str]()
    while len(found) < limit and (part := list(map(heading_of, islice(records, _PART)))):
        names |= reader.datasets.names({each.dataset for each in part} - names.keys())
        found += [each for each in part if _has(each.id, _of_release(each, names), words)]
    return found[:limit], names


def words_of(query: str) -> list[str]:
    """Return the words of a query in small letters, each once.

    >>> words_of("  Mean of Income, in GBP "), words_of("of")
    (['mean', 'income', 'gbp'], ['of'])
    """
    words = list(dict.fromkeys(re.findall(r"[\w.-]+", query[:MOST_CHARACTERS].lower())))
    return ([each for each in words if each not in _FILLERS] or words)[:_MOST_WORDS]


def _has(id: str, texts: Iterator[str], words: Sequence[str]) -> bool:
    """Return whether each word is in what people read of something, or is its whole id."""
    text = "\n".join(texts).lower()
    return all(word in text or word == id for word in words)


def _of_dataset(record: DatasetRecord) -> Iterator[str]:
    spec, edits = json.loads(record.spec), json.loads(record.edits or "{}")
    yield record.name
    yield edits.get("description", spec.get("description")) or ""
    labels = edits.get("labels", {})
    for name, column in spec["columns"].items():
        yield name
        yield labels.get(name, column.get("label")) or ""


def _of_release(heading: Heading, names: Mapping[str, str]) -> Iterator[str]:
    yield from (heading.requested_by, names[heading.dataset])
    yield from (asked(heading.statistic), heading.kind, heading.purpose or "")
