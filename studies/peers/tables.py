"""Rows on disk and on the page: CSV files, and the Markdown tables made from them."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any, TypeVar

from app.tidy.pivots import csv_text
from studies.peers import deltas, intervals, synthetic, urban
from studies.peers.auditing import Audited
from studies.peers.comparing import Row
from studies.peers.deltas import WithDelta
from studies.peers.intervals import Intervals
from studies.peers.measures import MOST_ERROR, MOST_TIME, REGRESSION_GAIN, Ratio, ratio
from studies.peers.synthetic import Synthesized
from studies.peers.urban import Finding

BEGIN, END = "<!-- peers -->", "<!-- /peers -->"
REGRESSIONS = frozenset({"linear", "logistic", "quantile_regression"})
TITLES = {
    "Means, sums and histograms": frozenset({"mean", "sum", "histogram"}),
    "Quantiles": frozenset({"quantile"}),
    "Regressions": REGRESSIONS,
}

Written = Row | Audited | Finding | Intervals | WithDelta | Synthesized
R = TypeVar("R", Row, Audited, Finding, Intervals, WithDelta, Synthesized)


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    """All results of one run."""

    rows: Sequence[Row]
    audits: Sequence[Audited]
    findings: Sequence[Finding]
    intervals: Sequence[Intervals]
    deltas: Sequence[WithDelta]
    synthetic: Sequence[Synthesized]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pairing:
    """Our answer and a peer's at the same true epsilon.

    ``best`` is the smallest ratio of a mechanism of ours that a request may name.
    """

    row: Row
    own: Row
    error: Ratio
    best: Ratio
    best_method: str
    time: float

    @property
    def behind(self) -> bool:
        """Return whether our time misses its target, or our error by two standard errors."""
        return self.errs_more or self.time > MOST_TIME

    @property
    def errs_more(self) -> bool:
        """Return whether our error exceeds the target by more than two standard errors."""
        return self.error.value - 2 * self.error.se > MOST_ERROR

    @property
    def short_of_gain(self) -> bool:
        """Return whether this is a regression whose error is above a third of the peer's."""
        return self.row.statistic in REGRESSIONS and self.error.value * REGRESSION_GAIN > 1


def pairings(rows: Sequence[Row]) -> Iterator[Pairing]:
    """Yield one for each peer whose true epsilon is the cell's."""
    for row in rows:
        if row.method.startswith("ours") or row.true_epsilon != float(row.epsilon):
            continue
        own = [each for each in rows if each.cell == row.cell and each.method.startswith("ours")]
        best = min(own, key=lambda each: each.error_mean)
        auto = next(each for each in own if each.method == "ours")
        yield Pairing(
            row=row,
            own=auto,
            error=ratio(auto, row),
            best=ratio(best, row),
            best_method=best.version,
            time=auto.ms / row.ms,
        )


def written(rows: Sequence[Written]) -> str:
    """Return rows as the text of a CSV file."""
    names = [field.name for field in fields(rows[0])]
    cells = ([_cell(getattr(row, name)) for name in names] for row in rows)
    return csv_text(names, cells, line_end="\n")


def read(text: str, kind: type[R]) -> list[R]:
    """Return the rows of a CSV file.

    Raises
    ------
    ValueError
        The columns are others.
    """
    lines = list(csv.DictReader(io.StringIO(text)))
    readers = {field.name: _READERS[str(field.type)] for field in fields(kind)}
    if any(set(line) != set(readers) for line in lines):
        raise ValueError(f"the columns are {', '.join(readers)}")
    return [kind(**{name: readers[name](line[name]) for name in readers}) for line in lines]


_READERS: dict[str, Callable[[str], Any]] = {
    "str": str,
    "int": int,
    "float": float,
    "int | None": lambda text: int(text) if text else None,
    "float | None": lambda text: float(text) if text else None,
}


def _cell(value: object) -> object:
    if value is None:
        return ""
    return f"{value:.6g}" if isinstance(value, float) else value


def rewritten(page: str, found: Results) -> str:
    """Return the page with these results between its markers.

    Raises
    ------
    ValueError
        The page has no markers.
    """
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"the page has no {BEGIN} and {END}")
    return f"{before}{begin}\n" + "\n".join(lines(found)) + f"\n{end}{after}"


def lines(results: Results) -> Iterator[str]:
    """Yield the lines between the markers."""
    found = list(pairings(results.rows))
    yield from _score(found)
    for title, statistics in TITLES.items():
        yield f"\n## {title}\n"
        yield from _table([each for each in found if each.row.statistic in statistics])
    yield "\n## Where a peer is ahead, or less than three times behind\n"
    for each in found:
        if each.behind or each.short_of_gain:
            yield from _reason(each)
    yield "\n## Promises\n"
    yield from _promises(results.rows)
    yield "\n## Audits\n"
    yield from _audit_table(results.audits)
    yield "\n## The Urban Institute's measures\n"
    yield from urban.lines(results.findings)
    yield "\n## Awan and Wang's intervals\n"
    yield from intervals.lines(results.intervals)
    yield "\n## Regressions with a delta\n"
    yield from deltas.lines(results.deltas)
    yield "\n## Tables and synthetic rows\n"
    yield from synthetic.lines(results.synthetic)


def _score(found: Sequence[Pairing]) -> Iterator[str]:
    regressions = [each for each in found if each.row.statistic in REGRESSIONS]
    error = sum(not each.errs_more for each in found)
    gain = sum(not each.short_of_gain for each in regressions)
    fast = sum(each.time <= MOST_TIME for each in found)
    yield f"Of {len(found)} comparisons:\n"
    yield f"- error at most {MOST_ERROR} times the peer's, within two standard errors: {error}"
    less = f"error at least {REGRESSION_GAIN:.0f} times less"
    yield f"- of {len(regressions)} regressions, {less}: {gain}"
    yield f"- time at most {MOST_TIME} times the peer's: {fast}"


def _table(found: Sequence[Pairing]) -> Iterator[str]:
    yield (
        "| question | peer | its error | ours / its | best of ours / its | our time / its "
        "| its ms | draws |"
    )
    yield "| --- | --- | --- | --- | --- | --- | --- | --- |"
    for each in found:
        row = each.row
        yield (
            f"| {row.cell} | {row.method} | {row.error_mean:.3g} | {_ratio(each.error)} "
            f"| {_ratio(each.best)} ({each.best_method}) | {each.time:.2f} | {row.ms:.2f} "
            f"| {each.own.replicate_count:,} / {row.replicate_count:,} |"
        )


def _ratio(found: Ratio) -> str:
    return f"{found.value:.2f} ± {found.se:.2f}"


def _reason(found: Pairing) -> Iterator[str]:
    row = found.row
    yield (
        f"- **{row.cell}, {row.method}**: error {_ratio(found.error)}, time {found.time:.2f}. "
        f"{row.remark[:1].upper()}{row.remark[1:]}."
    )


def _promises(rows: Sequence[Row]) -> Iterator[str]:
    yield "| peer | question | stated | holds at | why |"
    yield "| --- | --- | --- | --- | --- |"
    asked: dict[tuple[str, float, float | None, str], list[str]] = {}
    for row in rows:
        if row.promise != "holds":
            same = row.method, row.stated_epsilon, row.true_epsilon, row.promise
            asked.setdefault(same, []).append(row.cell)
    for (method, stated, at, promise), cells in asked.items():
        true = "none" if at is None else f"{at:.3g}"
        yield f"| {method} | {'; '.join(cells)} | {stated:.3g} | {true} | {promise} |"


def _audit_table(audited: Sequence[Audited]) -> Iterator[str]:
    yield "| neighbours | who | stated | at least | by the event | draws each | |"
    yield "| --- | --- | --- | --- | --- | --- | --- |"
    for each in audited:
        verdict = "**refuted**" if each.broken else ""
        yield (
            f"| {each.pair}: {each.about} | {each.method} | {each.stated_epsilon:g} "
            f"| {each.certified_epsilon:.2f} | {each.event} | {each.draws:,} | {verdict} |"
        )
