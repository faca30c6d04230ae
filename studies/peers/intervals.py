"""Awan and Wang's logistic regression: coverage and width of our 95% intervals and of theirs.

The design and our numbers are those of :mod:`studies.coverage`, at 1,000 rows and epsilon 1.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from studies.coverage import SETTINGS, Logistic, measured
from studies.peers.simple import SEED


@dataclass(frozen=True, slots=True, kw_only=True)
class Intervals:
    """How often intervals of the slope hold it, and how wide they are on average."""

    method: str
    source: str
    replicate_count: int | None
    coverage: float
    width: float
    seconds: float | None


PUBLISHED = (
    Intervals(
        method="repro samples",
        source="published",
        replicate_count=None,
        coverage=0.994,
        width=0.969,
        seconds=5139.0,
    ),
    Intervals(
        method="DP-CI-ERM",
        source="published",
        replicate_count=None,
        coverage=0.824,
        width=0.770,
        seconds=None,
    ),
)


def intervals(*, quick: bool) -> Iterator[Intervals]:
    """Yield the published rows, then ours."""
    yield from PUBLISHED
    draws = 50 if quick else 400
    for place, setting in enumerate(SETTINGS):
        if not isinstance(setting.design, Logistic) or setting.design.rows != 1_000:
            continue
        row = measured(setting, replicates=draws, seed=SEED + place)
        yield Intervals(
            method=setting.released_by,
            source="measured here",
            replicate_count=draws,
            coverage=row.coverage,
            width=row.width,
            seconds=row.seconds,
        )


def lines(found: Sequence[Intervals]) -> Iterator[str]:
    """Yield the table of the page."""
    yield "| by | | coverage | mean width | seconds for one interval | data sets |"
    yield "| --- | --- | --- | --- | --- | --- |"
    for each in found:
        seconds = "" if each.seconds is None else f"{each.seconds:,.2f}"
        count = "" if each.replicate_count is None else f"{each.replicate_count:,}"
        yield (
            f"| {each.method} | {each.source} | {each.coverage:.3f} | {each.width:.3f} "
            f"| {seconds} | {count} |"
        )
