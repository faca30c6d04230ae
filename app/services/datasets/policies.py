"""Policies as JSON: in a data set's spec, in edits of it, and in answers."""

from __future__ import annotations

from collections.abc import Mapping

from app.domain.policies import Policy, Review
from mechanisms.privacy import Epsilon


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
