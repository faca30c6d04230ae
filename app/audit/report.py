"""What an audit found, as text for a terminal, as JSON, and as a page that needs nothing else.

*What draws from two neighbours certify of epsilon, from any sampler.*

    epsilon >= log(P(E | D) / P(E | D'))   for every event E

The first third of each data set's draws chooses one event, which of the two is the more probable,
and how it is counted; it is the one that would certify most if other draws repeated it. Those after
it alone are counted. So all of that is fixed before what is counted of it is drawn, and
the bounds hold at their level, whatever the desk does. The level is shared among all offers of an
audit (Bonferroni): all bounds hold at once with the stated confidence. Why a third: a cut in the
middle of a law is found by few draws, and each bound grows with the draws that are counted.

*Two ways to count*, for m draws of each. **As a ratio**: a Clopper-Pearson bound of each of the two
probabilities, log(lowest / highest). **As guesses**: from a draw one guesses whose it is, by
whether E happened. With a = P(E | D) and b = P(not E | D'), epsilon-DP says a <= e^epsilon (1 - b)
and b <= e^epsilon (1 - a). Their sum gives

    (a + b) / 2 <= q(epsilon) = e^epsilon / (1 + e^epsilon).

The number of right guesses is a sum of 2m independent trials of mean (a + b) / 2. Its upper tail is
at most that of as many trials of one probability (Hoeffding 1956). So the Clopper-Pearson bound q
of 2m trials holds, and epsilon >= log(q / (1 - q)). That is one bound in place of two, on twice the
draws: it needs about half as many draws of a frequent event, and says less of a rare one.

*In accounts with a delta* an offer may promise rho-zCDP. Its bound is that of ``sqrt(2 rho)``, the
epsilon of the same charge (:mod:`mechanisms.auditing`). Of guesses: the order-alpha divergence of
two laws, to the power of e, is convex in both. So that of an event of probability q and one of
1 - q is at most the larger one of the event under D and D', and of its complement under D' and D.

*Scores.* An event is that a score lies above a cut, or does not. The scores are each number of the
answer and, for p = 1, 2, infinity,

    ||(v - m') / w||_p - ||(v - m) / w||_p,

how much nearer an answer is to one data set than to the other. Here m and m' are medians and w the
quartiles' distances, of the first third. By the K-norm this is the log ratio of the densities.

*Who draws.* The bounds take the draws of a data set for independent. A desk that makes them
depend on each other, to look better, is not found out by this.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from jinja2 import Environment, StrictUndefined, Template
from numpy.typing import NDArray
from scipy.special import betaincinv

from mechanisms.auditing import audit_counts, certified_epsilon
from mechanisms.catalog import STATISTICS
from mechanisms.probes import COLUMNS, Pair, Probe

# What is on offer: each statistic by each mechanism and norm, under each adjacency

_NO_NORM = "auto"
PURE = "pure"
"""How accounts without a delta are kept."""


@dataclass(frozen=True, slots=True)
class Offer:
    """One line of the catalog under one adjacency; the norm is ``auto`` where there is none.

    ``accounting`` is that of the account it is asked for in: ``pure``, or else ``zcdp``.
    ``variant`` names a field with which the statistic is drawn in another way.
    """

    statistic: str
    mechanism: str
    norm: str
    adjacency: str
    accounting: str = PURE
    variant: str = ""

    def __str__(self) -> str:
        parts = (self.statistic, self.mechanism, self.norm, self.adjacency, self.variant)
        return "/".join(part for part in parts if part)

    def matches(self, pattern: str) -> bool:
        """Return whether each part of a pattern such as ``mean/l1`` names a part of this offer."""
        return set(pattern.split("/")) <= set(str(self).split("/"))


def offers_in(catalog: Iterable[Mapping[str, Any]], patterns: Sequence[str]) -> list[Offer]:
    """Return the catalog's offers that a pattern matches; without one all of them."""
    every = [
        Offer(line["statistic"], line["mechanism"], norm, adjacency, line["accounting"][0], variant)
        for line in catalog
        for norm in line["norms"] or [_NO_NORM]
        for adjacency in line["adjacencies"]
        for variant in _variants(line["statistic"], line["mechanism"], norm)
    ]
    return [
        offer
        for offer in every
        if not patterns or any(offer.matches(pattern) for pattern in patterns)
    ]


def _variants(statistic: str, mechanism: str, norm: str) -> list[str]:
    """Return in which ways an offer is drawn, the usual one first: it has no name."""
    known = STATISTICS.get(statistic)
    named = (
        probe.variant
        for probe in (() if known is None else known.probes)
        if probe.mechanism in (None, mechanism) and probe.norm in (None, norm)
    )
    return [*dict.fromkeys(["", *named])]


# Which neighbours each offer is tried with: those that its statistic names

__all__ = ["ADD_REMOVE", "COLUMNS", "MAX_ROWS", "Pair", "Probe", "probe_of"]

ADD_REMOVE = "add_remove"
MAX_ROWS = 100  # any public bound above the pairs' own few rows


def probe_of(offer: Offer) -> Probe | None:
    """Return what an offer is tried with; None of one that is not known here.

    The narrowest is taken: one for its mechanism before one for its adjacency.
    """
    statistic = STATISTICS.get(offer.statistic)
    meant = [
        probe
        for probe in (() if statistic is None else statistic.probes)
        if probe.variant == offer.variant
        and probe.mechanism in (None, offer.mechanism)
        and probe.norm in (None, offer.norm)
        and probe.adjacency in (None, offer.adjacency)
    ]
    narrow = [(probe.mechanism is not None, probe.adjacency is not None) for probe in meant]
    return meant[narrow.index(max(narrow))] if meant else None


# What an audit has found: of each offer the promise, the certified bound, and a verdict


class Verdict(StrEnum):
    """What is said of an offer."""

    FLAGGED = "FLAGGED"
    KEPT = "not above its promise"
    FEW = "too few draws"
    UNKNOWN = "not audited"


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """How an audit is made.

    Attributes
    ----------
    epsilon
        What each draw is asked at, a decimal.
    draws
        How many of each data set, at most.
    confidence
        Of all bounds together.
    seconds
        For how long draws are asked for.
    alone
        Whether each draw is a release of its own, and not one of up to 20 parts of a stack.
    patterns
        Which offers, as :meth:`Offer.matches` reads them; none for all.
    """

    epsilon: str = "1"
    draws: int = 1000
    confidence: float = 0.999
    seconds: float = 240.0
    alone: bool = False
    patterns: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Finding:
    """What was found of one offer; ``note`` says why there is no bound."""

    offer: Offer
    promised: str
    draws: int = 0
    bound: Bound | None = None
    note: str = ""

    @property
    def verdict(self) -> Verdict:
        """Say what the bound means."""
        if self.bound is None:
            return Verdict.UNKNOWN
        if self.bound.epsilon > float(self.promised):
            return Verdict.FLAGGED
        return Verdict.KEPT if self.bound.reachable > float(self.promised) else Verdict.FEW


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """What was found of all of them."""

    url: str
    began_at: str
    took_s: float
    terms: Terms
    offers: Sequence[Finding]

    @property
    def flagged(self) -> Sequence[Finding]:
        """Return the offers that lose more than they promise."""
        return [each for each in self.offers if each.verdict is Verdict.FLAGGED]

    def count(self, verdict: Verdict) -> int:
        """Return how many offers have a verdict."""
        return sum(each.verdict is verdict for each in self.offers)


# What draws from two neighbours certify of epsilon, from any sampler

Floats = NDArray[np.float64]
_NORMS = (1.0, 2.0, np.inf)
_CHOOSE = 3
"""One in this many draws chooses the event."""


@dataclass(frozen=True, slots=True)
class Bound:
    """What is certified.

    Attributes
    ----------
    epsilon
        What the mechanism loses at least.
    reachable
        What these many draws would certify, had the event always happened to one data set and
        never to the other.
    counted
        How many draws of each data set are counted: those after the first third.
    hits
        How many of them the event happened to, for the first and the second data set.
    event
        In words.
    """

    epsilon: float
    reachable: float
    counted: int
    hits: tuple[int, int]
    event: str


def certified(
    first: Floats, second: Floats, *, confidence: float, offers: int, pure: bool = True
) -> Bound:
    """Return a lower bound on epsilon from draws (rows) of numbers (columns) of two data sets.

    Parameters
    ----------
    first, second
        The draws in the order in which they were asked for.
    confidence
        Of all bounds of the audit together.
    offers
        How many those are.
    pure
        Whether epsilon-DP is promised, and not rho-zCDP.
    """
    draws = min(len(first), len(second))
    choosing = draws // _CHOOSE
    counted = draws - choosing
    each = 1 - (1 - confidence) / offers
    if choosing == 0:
        return Bound(epsilon=0.0, reachable=0.0, counted=0, hits=(0, 0), event="")
    event = _chosen(first[:choosing], second[:choosing], level=(1 - each) / 4)
    hits = (event.hits(first[choosing:draws]), event.hits(second[choosing:draws]))
    apart = (0, counted) if event.towards else (counted, 0)
    return Bound(
        epsilon=event.certifies(hits, counted, confidence=each, pure=pure),
        reachable=event.certifies(apart, counted, confidence=each, pure=pure),
        counted=counted,
        hits=hits,
        event=str(event),
    )


@dataclass(frozen=True, slots=True)
class _Score:
    """A number of an answer, or its distances from both medians in a norm."""

    number: int | None
    norm: float
    medians: tuple[Floats, Floats]
    widths: Floats

    def __str__(self) -> str:
        if self.number is not None:
            return f"number {self.number + 1}"
        return f"l{'inf' if np.isinf(self.norm) else int(self.norm)} distance"

    def of(self, draws: Floats) -> Floats:
        """Return the score of each draw."""
        if self.number is not None:
            return draws[:, self.number]
        near, far = (
            np.linalg.norm((draws - median) / self.widths, self.norm, axis=1)
            for median in self.medians
        )
        return np.asarray(far - near, dtype=np.float64)


@dataclass(frozen=True, slots=True)
class _Event:
    """That a score lies above a cut, or does not, and how it is counted.

    ``towards`` is the data set, 0 or 1, for which it speaks; ``guessed`` says that draws are
    guessed by it.
    """

    score: _Score
    above: bool
    cut: float
    guessed: bool
    towards: int

    def __str__(self) -> str:
        return f"{self.score} {'>' if self.above else '<='} {self.cut:.6g}"

    def hits(self, draws: Floats) -> int:
        """Return how many of the draws it happens to."""
        above = int(np.count_nonzero(self.score.of(draws) > self.cut))
        return above if self.above else len(draws) - above

    def certifies(
        self, hits: tuple[int, int], draws: int, *, confidence: float, pure: bool
    ) -> float:
        """Return the lower bound on epsilon that the hits among each data set's draws certify."""
        if not self.guessed:
            trials = (draws, draws)
            found = audit_counts({"chosen": hits}, trials=trials, confidence=confidence, pure=pure)
            return found.epsilon
        # Right are the hits where it speaks for, and the misses among the others.
        right = draws + hits[self.towards] - hits[1 - self.towards]
        share = float(_lowest(np.array([right]), 2 * draws, 1 - confidence)[0])
        return certified_epsilon(share, 1 - share, pure=pure)


def _chosen(first: Floats, second: Floats, *, level: float) -> _Event:
    """Return the event that certifies most by these draws."""
    best: tuple[float, _Event] | None = None
    for score in _scores(first, second):
        here, there = score.of(first), score.of(second)
        cuts = np.unique(np.concatenate([here, there]))
        above = [
            len(found) - np.searchsorted(np.sort(found), cuts, "right") for found in (here, there)
        ]
        for upper in (True, False):
            counts = [found if upper else len(first) - found for found in above]
            for guessed, towards in itertools.product((True, False), range(2)):
                likely, unlikely = counts[towards], counts[1 - towards]
                if guessed:
                    right = len(first) + likely - unlikely
                    worth = _odds(right, 2 * len(first), 4 * level)
                else:
                    worth = _ratios(likely, unlikely, len(first), level)
                place = int(np.argmax(worth))
                if best is None or worth[place] > best[0]:
                    event = _Event(score, upper, float(cuts[place]), guessed, towards)
                    best = float(worth[place]), event
    if best is None:
        raise ValueError("the answers hold no number")
    return best[1]


def _scores(first: Floats, second: Floats) -> Iterator[_Score]:
    medians = np.median(first, axis=0), np.median(second, axis=0)
    both = np.concatenate([first, second])
    low, high = np.quantile(both, (0.25, 0.75), axis=0)
    # A number that hardly varies has no quartiles to be measured by.
    widths = np.where(high > low, high - low, 1.0)
    numbers = range(both.shape[1])
    yield from (_Score(number, 0.0, medians, widths) for number in numbers)
    if len(numbers) > 1:
        yield from (_Score(None, norm, medians, widths) for norm in _NORMS)


def _ratios(
    likely: NDArray[np.int64], unlikely: NDArray[np.int64], draws: int, level: float
) -> Floats:
    """Return the least probability ratio that each pair of counts certifies."""
    highest = 1 - _lowest(draws - unlikely, draws, level)
    return np.asarray(_lowest(likely, draws, level) / highest, dtype=np.float64)


def _odds(right: NDArray[np.int64], guesses: int, level: float) -> Floats:
    """Return the least odds of a right guess that each count certifies."""
    lowest = _lowest(right, guesses, level)
    return np.asarray(lowest / (1 - lowest), dtype=np.float64)


def _lowest(counts: NDArray[np.int64], draws: int, level: float) -> Floats:
    """Return the Clopper-Pearson lower bounds of probabilities."""
    # Of no hits the function has no value; the bound is 0.
    bounds = betaincinv(np.maximum(counts, 1), draws - counts + 1, level)
    return np.where(counts > 0, bounds, 0.0)


# What an audit found, as text for a terminal, as JSON, and as a page that needs nothing else

CORRECTION = (
    "Bonferroni: the level is shared evenly among all offers that were asked, and within each "
    "among its Clopper-Pearson bounds: one of right guesses, or two of probabilities in two "
    "directions. The event of each offer and how it is counted were chosen on the first third of "
    "its draws, and counted on the others."
)
_COLUMNS = ("offer", "promised", "at least", "could be", "draws", "verdict")


def as_json(findings: Findings) -> str:
    """Return the report as JSON."""
    terms = asdict(findings.terms)
    facts = {
        "url": findings.url,
        "began_at": findings.began_at,
        "took_s": findings.took_s,
        "ok": not findings.flagged,
        "verdict": sentence(findings),
        "correction": CORRECTION,
        **{name: terms[name] for name in ("confidence", "epsilon", "seconds", "alone")},
        "offers": [_facts(each) for each in findings.offers],
    }
    return json.dumps(facts, indent=1) + "\n"


def _facts(found: Finding) -> dict[str, object]:
    bound = found.bound
    return {
        **asdict(found.offer),
        "promised_epsilon": found.promised,
        "epsilon_at_least": None if bound is None else bound.epsilon,
        "reachable": None if bound is None else bound.reachable,
        "draws": found.draws,
        "counted": 0 if bound is None else bound.counted,
        "hits": None if bound is None else list(bound.hits),
        "event": None if bound is None else bound.event,
        "verdict": found.verdict,
        "note": found.note or None,
    }


def as_text(findings: Findings) -> Iterator[str]:
    """Yield the report line by line."""
    rows = [_COLUMNS, *map(_cells, findings.offers)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
    yield ""
    yield sentence(findings)


def sentence(findings: Findings) -> str:
    """Return the whole audit in a sentence or two."""
    kept, few = findings.count(Verdict.KEPT), findings.count(Verdict.FEW)
    confidence = f"{findings.terms.confidence:.12g}"
    if findings.flagged:
        text = f"{len(findings.flagged)} of {len(findings.offers)} offers lose more than promised"
        text += f", with confidence {confidence} for all together."
    else:
        text = f"No offer is above its promise; {kept} of {len(findings.offers)} could have been"
        text += f" flagged by these draws. Confidence {confidence} for all together."
    unknown = findings.count(Verdict.UNKNOWN)
    text += f" Too few draws: {few}." if few else ""
    return text + (f" Not audited: {unknown}." if unknown else "")


def _cells(found: Finding) -> tuple[str, ...]:
    bound = found.bound
    bounds = ("", "") if bound is None else (f"{bound.epsilon:.3f}", f"{bound.reachable:.3f}")
    said = found.verdict + (f" ({found.note})" if found.note else "")
    return (str(found.offer), found.promised, *bounds, str(found.draws), said)


def as_html(findings: Findings) -> str:
    """Return the report as a page: no script, nothing loaded from elsewhere."""
    return _page().render(
        findings=findings,
        sentence=sentence(findings),
        correction=CORRECTION,
        flagged=Verdict.FLAGGED,
    )


@cache
def _page() -> Template:
    text = Path(__file__).with_name("report.html").read_text("utf-8")
    return Environment(autoescape=True, undefined=StrictUndefined).from_string(text)
