"""Runs the cells: our draws in this process, the peers' in theirs, errors and times of both."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from mechanisms.catalog import calibrate
from mechanisms.contract import Plan
from mechanisms.privacy import Epsilon
from mechanisms.randomness import system_randomness
from mechanisms.sketches import ArrayData
from studies.peers.asking import Peer
from studies.peers.cells import Call, Cell, Way
from studies.peers.measures import Summary, distance, summary

QUICK, LEAST = 4, 25
"""A quick run makes 1/``QUICK`` of the draws, but at least ``LEAST``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """How one way to answer did in one cell.

    ``true_epsilon`` is what holds of it, None where nothing can be named. ``ms_from_rows`` is the
    time of a draw that begins at plain numbers; a peer's always does.
    """

    cell: str
    statistic: str
    adjacency: str
    rows: int
    epsilon: str
    method: str
    version: str
    stated_epsilon: float
    true_epsilon: float | None
    replicate_count: int
    error_mean: float
    error_median: float
    error_se: float
    ms: float
    ms_from_rows: float
    promise: str
    remark: str


def rows_of(cell: Cell, peers: Mapping[str, Peer], *, quick: bool) -> Iterator[Row]:
    """Yield our rows, then those of the peers that run."""
    for way in cell.ours:
        yield ours(cell, way, quick=quick)
    for call in cell.peers:
        if call.peer in peers:
            yield theirs(cell, call, peers[call.peer], quick=quick)


def ours(cell: Cell, way: Way, *, quick: bool) -> Row:
    """Draw with a mechanism of ours; the first draw begins at plain numbers."""
    schema, stated = cell.schema, Epsilon.parse(cell.epsilon)
    plan = calibrate(cell.question, schema, stated, mechanism=way.mechanism, norm=way.norm)
    fresh = [_from_rows(cell, plan) for _ in range(3)]
    data = ArrayData.from_values(schema, cell.values)
    errors, spent_ms = [], []
    for _ in range(count(way.draws, quick=quick)):
        begin_s = time.process_time()
        outcome = plan.draw(data, system_randomness())
        spent_ms.append(1000 * (time.process_time() - begin_s))
        errors.append(distance(cell.read(outcome.value), cell.truth))
    row = _row(cell, way.name, summary(errors, spent_ms))
    return replace(
        row,
        version=f"{plan.mechanism} {plan.norm}".strip() if plan.norm else plan.mechanism,
        true_epsilon=float(cell.epsilon),
        ms_from_rows=sorted(fresh)[1],
        promise="holds",
    )


def _from_rows(cell: Cell, plan: Plan) -> float:
    begin_s = time.process_time()
    plan.draw(ArrayData.from_values(cell.schema, cell.values), system_randomness())
    return 1000 * (time.process_time() - begin_s)


def theirs(cell: Cell, call: Call, peer: Peer, *, quick: bool) -> Row:
    """Draw with a peer.

    Raises
    ------
    RuntimeError
        It refused a draw.
    """
    answer = peer.ask(
        cell.statistic, cell.plain, call.settings, draws=count(call.draws, quick=quick)
    )
    if any(each is None for each in answer.values):
        raise RuntimeError(f"{call.name} refused to answer {cell.name}")
    errors = [distance(each, cell.truth) for each in answer.values if each is not None]
    row = _row(cell, call.name, summary(errors, answer.ms))
    return replace(
        row,
        version=peer.version,
        stated_epsilon=call.stated,
        true_epsilon=call.true,
        promise=call.promise,
        remark=call.remark,
    )


def count(draws: int, *, quick: bool) -> int:
    """Return how many draws a run makes."""
    return max(LEAST, draws // QUICK) if quick else draws


def _row(cell: Cell, method: str, found: Summary) -> Row:
    return Row(
        cell=cell.name,
        statistic=cell.statistic,
        adjacency=cell.adjacency.value,
        rows=cell.rows,
        epsilon=cell.epsilon,
        method=method,
        version="",
        stated_epsilon=float(cell.epsilon),
        true_epsilon=None,
        replicate_count=found.replicate_count,
        error_mean=found.error_mean,
        error_median=found.error_median,
        error_se=found.error_se,
        ms=found.ms,
        ms_from_rows=found.ms,
        promise="",
        remark="",
    )
