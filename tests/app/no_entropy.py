"""Processes in which the operating system has no randomness to give to a mechanism.

Draw processes load this in place of what they usually load. They have read everything, drawn
nothing yet, and are answered so the first time they ask.
"""

from __future__ import annotations

import os
from types import SimpleNamespace

from app.processes import draws
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
    """Draw what is asked for."""
    randomness.os = withhold()  # type: ignore[assignment]
    draws.work(descriptor)
