"""A data set's policy: an ordered list of small named rules, judged before any charge.

Every rule looks at the request and the public policy alone, so a refusal and
its wording reveal nothing about the rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from app.domain.problems import Problem
from mechanisms.privacy import Epsilon

_ABOVE = "above:"


@dataclass(frozen=True, slots=True)
class Review:
    """Which releases wait for a curator: those that cost strictly more than ``above``.

    None is none of them, and 0 is all of them.

    >>> str(Review.parse("above:0.50")), Review.parse("above:0.5").covers(Epsilon.parse("0.5"))
    ('above:0.5', False)
    """

    above: Epsilon | None = None

    @classmethod
    def parse(cls, text: str) -> Review:
        """Read ``never``, ``always`` or ``above:`` and an epsilon.

        Raises
        ------
        ValueError
            It is none of these.
        """
        match text:
            case "never":
                return cls()
            case "always":
                return cls(Epsilon(0))
        if not text.startswith(_ABOVE):
            raise ValueError("must be never, always or above: and an epsilon")
        return cls(Epsilon.parse(text.removeprefix(_ABOVE)))

    def __str__(self) -> str:
        if self.above is None:
            return "never"
        return f"{_ABOVE}{self.above}" if self.above.nanos else "always"

    def covers(self, epsilon: Epsilon) -> bool:
        """Return whether a release of this price waits for a review."""
        return self.above is not None and epsilon > self.above


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """What one release from a data set may ask for; None leaves a thing free."""

    allowed: tuple[str, ...] | None = None
    max_epsilon_per_release: Epsilon | None = None
    review: Review = Review()
    reviewers: int = 1
    """How many curators decide on a release that waits; two do so without each other's vote."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """The part of a request that policies look at.

    ``kinds`` are the kinds of all statistics in the request: one, or those of
    a stack's parts.
    """

    kinds: tuple[str, ...]
    epsilon: Epsilon


class Rule(NamedTuple):
    """A name, which refusals carry, and the objection it raises (None: no objection)."""

    name: str
    objection: Callable[[Policy, Ask], str | None]


def _allowed_statistics(policy: Policy, ask: Ask) -> str | None:
    if policy.allowed is None or set(ask.kinds) <= set(policy.allowed):
        return None
    return f"This data set allows only these statistics: {', '.join(policy.allowed) or 'none'}."


def _max_epsilon(policy: Policy, ask: Ask) -> str | None:
    cap = policy.max_epsilon_per_release
    if cap is None or ask.epsilon <= cap:
        return None
    return f"One release from this data set may cost at most epsilon {cap}."


RULES: tuple[Rule, ...] = (
    Rule("allowed", _allowed_statistics),
    Rule("max_epsilon_per_release", _max_epsilon),
)
"""All rules, in the order in which they are judged."""


def enforce(policy: Policy, ask: Ask) -> None:
    """Pass, or refuse with the first rule that objects.

    Raises
    ------
    Problem
        ``policy-refused``, naming the rule.
    """
    for rule in RULES:
        objection = rule.objection(policy, ask)
        if objection is not None:
            raise Problem("policy-refused", objection, rule=rule.name)
