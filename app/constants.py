"""Limits and times that no operator needs to choose, each with the reason for its value.

They are in one place, and not settings, since another value would serve no installation better.
Tests construct them with small values, and pass them to what they build.
"""

from __future__ import annotations

import os
import resource
from contextlib import suppress
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Constants:
    """What is the same for every service; a problem that names a limit uses the name here."""

    # Connections: what one slow client can hold, and for how long.
    max_head_bytes: int = 2**16
    """Of a request line and headers: common proxies pass 32 KiB at most."""
    head_timeout_s: float = 10.0
    """For a request line and headers, which fit a few packets."""
    body_timeout_s: float = 30.0
    """For a request body, and one second more for each ``min_body_bytes_per_s`` received."""
    min_body_bytes_per_s: int = 2**14
    """The slowest sustained upload: a poor mobile connection is faster."""
    write_timeout_s: float = 30.0
    """For an answer that a client leaves unread: a link may be down for a moment."""

    # Requests.
    max_request_bytes: int = 2**20
    """Of a JSON body or a spec: a spec of ``max_columns`` columns has a kilobyte for each."""
    max_columns: int = 1_000
    """That a spec declares. A file may have others, which are not read."""
    max_question_bytes: int = 2**16
    """Of a question with all defaults: a filter with thousands of values. It is stored for good."""
    max_answer_bytes: int = 2**30
    """Of an answer whose receipt is checked: no database stores a larger one in a cell."""
    anonymous_addresses: int = 10
    """As many requests without a key as this many addresses may send are served in all."""

    # Fairness: what may wait. More would wait longer than its client does.
    max_waiting_uploads: int = 16
    """Uploads that arrive or wait, each with a file on disk."""
    max_waiting_draws: int = 512
    """Releases under way: seconds of work for the one writer of a ledger."""
    max_waiting_plans: int = 16
    """A person's costly plans, and long bodies of requests: one of them is made at a time."""
    max_unfinished_jobs: int = 100
    """A person's jobs, which are drawn in turn with those of others."""
    max_overlaps_per_day: int = 10
    """A person's uploads that may be refused for an overlap in 24 hours: each reveals a little."""
    max_source_files: int = 10_000
    """Of one source: each is opened, and digested twice."""
    max_source_bytes: int = 2**40
    """Of one source: the default number of rows at ten kilobytes each."""

    # Processes and times.
    draw_threads: int = 4
    """For draws that take longer, or whose time may depend on data: they leave the interpreter."""
    draw_process: bool | None = None
    """Whether small draws have a process; None: where another processor is there to run it."""
    worker_lease_s: float = 15.0
    """Without a sign of life until others take over: longer than a busy machine stands still."""
    stop_notice_s: float = 5.0
    """Served on after SIGTERM with ``/readyz`` at 503: a load balancer looks every few seconds."""
    checkpoint_s: float = 60.0
    """Between two checkpoints of the public log: a signature and a few writes each."""

    @property
    def resolved_draw_process(self) -> bool:
        """Return whether small draws are made in a separate process."""
        return (os.cpu_count() or 1) > 1 if self.draw_process is None else self.draw_process


CONSTANTS = Constants()
"""Those of every service that is not under test."""


# How many files and connections this process may have open, and how they are shared out. A server
# that runs out of descriptors can open no data set, no connection of its database and no process.
# So connections get what is left when the files have theirs.

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
