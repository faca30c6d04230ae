"""Names in the environment that look like settings and are none."""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches

from app.settings import PREFIX, Settings

_OF_CLIENTS = ("URL", "KEY")
"""What the commands that are clients of a service read."""
_OF_OTHERS = re.compile(rf"{PREFIX}(SERVICE_(HOST|PORT(_\w+)?)|PORT(_\d+_\w+)?)")
"""What Kubernetes sets where a service has the name release-desk."""


def unknown_settings(names: Iterable[str]) -> dict[str, str | None]:
    """Return the names that look like settings and are none, each with the closest real one.

    >>> unknown_settings(["RELEASE_DESK_DATA_DIR", "RELEASE_DESK_ANCHR_DIR", "HOME"])
    {'RELEASE_DESK_ANCHR_DIR': 'RELEASE_DESK_ANCHOR_DIR'}
    """
    fields = [name.upper() for name in Settings.model_fields]
    known = [*fields, *(f"{name}_FILE" for name in fields), *_OF_CLIENTS]
    found: dict[str, str | None] = {}
    for name in sorted(names):
        own = name.upper().removeprefix(PREFIX)
        if name.upper().startswith(PREFIX) and not (own in known or _OF_OTHERS.fullmatch(name)):
            close = get_close_matches(own, known, n=1)
            found[name] = f"{PREFIX}{close[0]}" if close else None
    return found
