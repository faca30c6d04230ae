"""A data set's policy: an ordered list of small named rules, judged before any charge.

Every rule looks at the request and the public policy alone, so a refusal and
its wording reveal nothing about the rows.

*The roles, and what each may.* An *analyst* asks for releases and sees their own. An *auditor* sees
everything that is no row, and changes nothing; a *reviewer* sees as much and decides on requests. A
*curator* has data sets and may do what these may, and an *admin* what any other role may. Data sets
that are restricted to named people (:mod:`app.domain.access`) are hidden from all others, except
from admins and auditors: no one may hide a data set from the audit. The role
``metrics`` reads the counts of requests and nothing else: it is for programs that watch the
service.

An entry of the ledger says by which key and in which role it was made, so that a
role that was edited for a moment is found for ever after.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from app.domain.problems import Problem
from mechanisms.privacy import Epsilon
from mechanisms.words import worded

# The roles, and what each may


class Right(StrEnum):
    """What an act or a page takes."""

    READ = "read"
    """Data sets, budgets, their own releases and what is said of them."""
    ASK = "ask"
    """Previews and releases."""
    OVERSEE = "oversee"
    """Everyone's releases, requests that wait, the ledger, and who has seen what."""
    DECIDE = "decide"
    """Reviews of requests of others."""
    CURATE = "curate"
    """Data sets, their budgets, and publication."""
    SEE_ALL = "see_all"
    """Data sets that are restricted to others."""
    ADMINISTER = "administer"
    """Keys, groups and pauses."""
    WATCH = "watch"
    """Metrics."""

    @property
    def needed(self) -> str:
        """Return what is said to who has not got it.

        >>> Right.CURATE.needed, Right.ADMINISTER.needed
        ('This needs the role curator or admin.', 'This needs the role admin.')
        """
        *others, last = (role.value for role in Role if role.may(self))
        return f"This needs the role {', '.join(others)}{' or ' if others else ''}{last}."


class Role(StrEnum):
    """The role of a person, from the fewest rights to the most."""

    METRICS = "metrics"
    AUDITOR = "auditor"
    ANALYST = "analyst"
    REVIEWER = "reviewer"
    CURATOR = "curator"
    ADMIN = "admin"

    def may(self, right: Right) -> bool:
        """Return whether this role has a right.

        >>> Role.ADMIN.may(Right.CURATE), Role.ANALYST.may(Right.OVERSEE)
        (True, False)
        >>> Role.REVIEWER.may(Right.DECIDE), Role.REVIEWER.may(Right.ASK)
        (True, False)
        """
        return right in _RIGHTS[self]


_RIGHTS: Mapping[Role, frozenset[Right]] = {
    Role.METRICS: frozenset({Right.WATCH}),
    Role.AUDITOR: frozenset({Right.READ, Right.OVERSEE, Right.SEE_ALL}),
    Role.ANALYST: frozenset({Right.READ, Right.ASK}),
    Role.REVIEWER: frozenset({Right.READ, Right.OVERSEE, Right.DECIDE}),
    Role.CURATOR: frozenset(Right) - {Right.SEE_ALL, Right.ADMINISTER, Right.WATCH},
    Role.ADMIN: frozenset(Right),
}
ENTRIES_BY: Mapping[Right, Sequence[str]] = {
    Right.ASK: (
        "debit", "reserve", "release_withdrawn", "release_returned", "study_plan_requested",
        "study_plan_withdrawn",
    ),
    Right.DECIDE: (
        "review_vote", "release_approved", "release_rejected", "release_changes_requested",
        "study_plan_vote", "study_plan_approved", "study_plan_rejected",
        "study_plan_changes_requested",
    ),
    Right.ADMINISTER: (
        "key_created", "key_revoked", "overlap_override", "group_set", "groups_given",
        "sign_in_allowed",
    ),
}  # fmt: skip
"""The kinds of entries that take another right than :attr:`Right.CURATE`."""
BY_EITHER: Mapping[str, tuple[Right, ...]] = {"unreserve": (Right.ASK, Right.DECIDE)}
"""Kinds that several may make: a requester withdraws, and a reviewer rejects."""


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
        if self.key is None or self.role not in set(Role):
            return False
        return any(map(Role(self.role).may, rights_for(kind)))


def rights_for(kind: str) -> Sequence[Right]:
    """Return the rights of which one allows an entry of a kind."""
    if kind in BY_EITHER:
        return BY_EITHER[kind]
    return [right for right, kinds in ENTRIES_BY.items() if kind in kinds] or [Right.CURATE]


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
            raise ValueError(worded("must be never, always or above: and an epsilon"))
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
    kinds = ", ".join(policy.allowed) or "none"
    return worded("This data set allows only these statistics: %(kinds)s.", kinds=kinds)


def _max_epsilon(policy: Policy, ask: Ask) -> str | None:
    cap = policy.max_epsilon_per_release
    if cap is None or ask.epsilon <= cap:
        return None
    return worded(
        "One release from this data set may cost at most epsilon %(epsilon)s.", epsilon=cap
    )


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


def policy_json(policy: Policy) -> dict[str, object]:
    """Return a policy as JSON-ready fields."""
    cap = policy.max_epsilon_per_release
    return {
        "review": str(policy.review),
        "reviewers": policy.reviewers,
        "max_epsilon_per_release": None if cap is None else str(cap),
        "allowed": None if policy.allowed is None else list(policy.allowed),
    }


def read_policy(fields: Mapping[str, object]) -> Policy:
    """Return the policy that such fields say; one reviewer where they do not say how many."""
    cap, allowed = fields["max_epsilon_per_release"], fields["allowed"]
    return Policy(
        review=Review.parse(str(fields["review"])),
        reviewers=2 if fields.get("reviewers") == 2 else 1,
        max_epsilon_per_release=Epsilon.parse(cap) if isinstance(cap, str) else None,
        allowed=tuple(allowed) if isinstance(allowed, list) else None,
    )
