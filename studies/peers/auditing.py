"""Certified lower bounds on the privacy loss of each mechanism, from draws under neighbours."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from mechanisms.catalog import calibrate
from mechanisms.domain import Schema
from mechanisms.privacy import Epsilon
from mechanisms.randomness import system_randomness
from mechanisms.sketches import ArrayData
from mechanisms.testing import audit_epsilon
from studies.peers.asking import Peer
from studies.peers.cells import REPLACE
from studies.peers.comparing import count
from studies.peers.pairs import Drawn, Event, Pair

CONFIDENCE = 0.999


@dataclass(frozen=True, slots=True, kw_only=True)
class Audited:
    """What draws from two neighbours certify with 99.9% confidence: a lower bound of epsilon."""

    pair: str
    about: str
    method: str
    stated_epsilon: float
    certified_epsilon: float
    event: str
    draws: int

    @property
    def broken(self) -> bool:
        """Return whether the stated epsilon is refuted."""
        return self.certified_epsilon > self.stated_epsilon


def audits(pair: Pair, peers: Mapping[str, Peer], *, quick: bool) -> Iterator[Audited]:
    """Yield what is certified of us, then of each peer that runs."""
    draws = count(pair.draws, quick=quick)
    yield _audited(pair, "ours", float(pair.epsilon), _ours(pair, draws))
    for call in pair.calls:
        if call.peer in peers:
            first, second = (
                peers[call.peer].ask(pair.statistic, plain, call.settings, draws=draws).values
                for plain in pair.plain
            )
            yield _audited(pair, call.name, call.stated, (first, second))


def _ours(pair: Pair, draws: int) -> tuple[Sequence[Drawn], Sequence[Drawn]]:
    tables = pair.plain if pair.values is None else pair.values
    rows = len(next(iter(tables[0].values())))
    schema = Schema(pair.columns, REPLACE, rows)
    plan = calibrate(pair.question, schema, Epsilon.parse(pair.epsilon))
    first, second = (
        [pair.read(plan.draw(data, system_randomness()).value) for _ in range(draws)]
        for data in (ArrayData.from_values(schema, table) for table in tables)
    )
    return first, second


def _audited(
    pair: Pair, method: str, stated: float, drawn: tuple[Sequence[Drawn], Sequence[Drawn]]
) -> Audited:
    either = {**pair.events, **{f"not {name}": _not(each) for name, each in pair.events.items()}}
    best = audit_epsilon(*drawn, either, confidence=CONFIDENCE)
    return Audited(
        pair=pair.name,
        about=pair.about,
        method=method,
        stated_epsilon=stated,
        certified_epsilon=best.epsilon,
        event=best.event,
        draws=len(drawn[0]),
    )


def _not(event: Event) -> Event:
    return lambda drawn: not event(drawn)
