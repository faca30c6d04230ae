"""The roles: a curator may do what an analyst may, and an admin what any other role may.

The role ``metrics`` reads the counts of requests and nothing else. It is for programs that watch
the service.

An entry of the ledger says by which key and in which role it was made, so that a
role that was edited for a moment is found for ever after.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


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
