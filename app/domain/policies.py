"""A data set's policy: an ordered list of small named rules, judged before any charge.

Every rule looks at the request and the public policy alone, so a refusal and
its wording tell nothing about the rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from app.domain.problems import Problem
from mechanisms.privacy import Epsilon


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """What one release from a data set may ask for; None leaves a thing free."""

    allowed: tuple[str, ...] | None = None
    max_epsilon_per_release: Epsilon | None = None


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
