"""The three roles and their order: each may do what the one before it may."""

from __future__ import annotations

from enum import StrEnum


class Role(StrEnum):
    """Who somebody is to the service."""

    ANALYST = "analyst"
    CURATOR = "curator"
    ADMIN = "admin"

    def may_act_as(self, required: Role) -> bool:
        """Return whether this role includes what ``required`` may do.

        >>> Role.ADMIN.may_act_as(Role.CURATOR), Role.ANALYST.may_act_as(Role.CURATOR)
        (True, False)
        """
        return _ORDER.index(self) >= _ORDER.index(required)


_ORDER = (Role.ANALYST, Role.CURATOR, Role.ADMIN)
