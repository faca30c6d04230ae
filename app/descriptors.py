"""How many files and connections this process may have open, and how they are shared out.

A server that runs out of descriptors can open no data set, no connection of its database
and no process. So connections get what is left when the files have theirs.
"""

from __future__ import annotations

import resource
from contextlib import suppress

HEAD_ROOM = 32
"""Connections beyond the most that are served: for probes, and for who holds an admin key."""

_OF_FILES = 320
"""What databases (up to 64 readers of three files), processes, uploads and libraries open."""

_MOST_ACCEPTED = 1_024
_MOST = 10_000
"""A connection takes some 30 kB as well."""


def raise_descriptor_limit() -> None:
    """Raise what this process and its children may open to what the system allows them."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(OSError, ValueError):  # a system may not keep the word that it gave
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def most_accepted() -> int:
    """Return how many connections may be taken in at once, before any of them is looked at."""
    return min(_MOST_ACCEPTED, max(_limit() // 4, 1))


def most_connections() -> int:
    """Return how many connections may be served, so that there are descriptors for all else."""
    limit = _limit()
    files = min(_OF_FILES, limit // 3)
    return max(min(_MOST, limit - files - HEAD_ROOM - most_accepted()), 1)


def _limit() -> int:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 2 * _MOST if soft == resource.RLIM_INFINITY else soft
