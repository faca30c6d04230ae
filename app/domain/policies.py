"""A data set's policy: an ordered list of small named rules, judged before any charge.

Every rule looks at the request and the public policy alone, so a refusal and
its wording reveal nothing about the rows.

*The roles: a curator may do what an analyst may, and an admin what any other role may.* The role
``metrics`` reads the counts of requests and nothing else. It is for programs that watch the
service.

An entry of the ledger says by which key and in which role it was made, so that a
role that was edited for a moment is found for ever after.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from app.domain.problems import Problem
from mechanisms.privacy import Epsilon

# The roles: a curator may do what an analyst may, and an admin what any other role may


class Role(StrEnum):
    """Who somebody is to the service."""

    ANALYST = "analyst"
    CURATOR = "curator"
    ADMIN = "admin"
    METRICS = "metrics"

    def may_act_as(self, required: Role) -> bool:
        """Return whether this role includes what ``required`` may do.

        >>> Role.ADMIN.may_act_as(Role.CURATOR), Role.ANALYST.may_act_as(Role.CURATOR)
        (True, False)
        >>> Role.METRICS.may_act_as(Role.ANALYST), Role.ADMIN.may_act_as(Role.METRICS)
        (False, True)
        """
        return required in _INCLUDED[self]


_INCLUDED = {
    Role.METRICS: {Role.METRICS},
    Role.ANALYST: {Role.ANALYST},
    Role.CURATOR: {Role.ANALYST, Role.CURATOR},
    Role.ADMIN: {*Role},
}
_BY_ANALYSTS = frozenset({"debit", "reserve", "unreserve", "release_withdrawn", "release_returned"})
_BY_ADMINS = frozenset({"key_created", "key_revoked", "overlap_override"})


class Acting(NamedTuple):
    """By what an entry is made: the id of a key, and the role that it was used in."""

    key: str | None
    role: str

    def may_make(self, kind: str) -> bool:
        """Return whether an entry of this kind is one that its maker's role allows.

        >>> Acting("key_1", "analyst").may_make("grant"), SERVICE.may_make("burn")
        (False, True)
        """
        if self.role == SERVICE.role:
            return self.key is None
        if self.key is None or self.role not in _INCLUDED:
            return False
        needed = Role.ADMIN if kind in _BY_ADMINS else Role.CURATOR
        return Role(self.role).may_act_as(Role.ANALYST if kind in _BY_ANALYSTS else needed)


SERVICE = Acting(None, "system")
"""The service itself, on its own or at its operator's request."""


# A data set's policy: an ordered list of small named rules, judged before any charge

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
