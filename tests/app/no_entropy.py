"""Processes in which the operating system has no randomness to give to a mechanism.

Draw processes load this in place of what they usually load. They have read everything, drawn
nothing yet, and are told so the first time they ask.
"""

from __future__ import annotations

import os
from multiprocessing.connection import Connection
from pathlib import Path
from types import SimpleNamespace

from app.processes import small_draw_child
from app.processes.jobs import _serve_draws
from mechanisms import randomness

SAID = "no entropy to be had"


def withhold(*, given: int = 0) -> SimpleNamespace:
    """Return the system that the one place of randomness is to see: it gives so often, then fails.

    ``asked`` says how often it was asked.
    """
    system = SimpleNamespace(getpid=os.getpid, asked=0)

    def urandom(count: int) -> bytes:
        system.asked += 1
        if system.asked <= given:
            return os.urandom(count)
        raise OSError(SAID)

    system.urandom = urandom
    return system


def work(descriptor: int) -> None:
    """Make small draws."""
    randomness.os = withhold()  # type: ignore[assignment]
    small_draw_child.work(descriptor)


def serve_draws(connection: Connection, data_dir: Path, log_level: str) -> None:
    """Draw jobs."""
    randomness.os = withhold()  # type: ignore[assignment]
    _serve_draws(connection, data_dir, log_level)
