"""What an audit has found: of each offer the promise, the certified bound, and a verdict."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from app.audit.bounds import Bound
from app.audit.offers import Offer


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
    wishes
        Which offers, as :meth:`Offer.is_meant_by` reads them; none for all.
    """

    epsilon: str = "1"
    draws: int = 1000
    confidence: float = 0.999
    seconds: float = 240.0
    alone: bool = False
    wishes: Sequence[str] = ()


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
