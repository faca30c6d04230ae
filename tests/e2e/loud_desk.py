"""A desk that lies: what it promises at an epsilon it draws at four times that.

For tests of the privacy audit. Each process of such a desk is made a liar before it serves or
draws; nothing of the product can be made to become one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from mechanisms.catalog import MECHANISMS
from mechanisms.contract import Calibrate, Plan
from mechanisms.domain import Schema
from mechanisms.privacy import Epsilon, EpsilonShare, PrivacyLoss
from mechanisms.single import SINGLE_MECHANISMS, MechanismModule
from tests.e2e.live import LiveServer, serve

LOUDER = 4
LIARS = ("k_norm", "margins")
"""Mechanisms of pure accounts: noise on numbers, and on tables."""


@dataclass(frozen=True)
class Loud:
    """A mechanism whose plans tell the truth but for what they draw."""

    honest: MechanismModule

    @property
    def THEOREM(self) -> str:  # noqa: N802
        """Return what it would prove."""
        return self.honest.THEOREM

    @property
    def calibrate(self) -> Calibrate:
        """Return how it plans."""
        return self._plan

    def _plan(self, statistic: Any, schema: Schema, epsilon: PrivacyLoss, norm: str, /) -> Plan:
        stated = self.honest.calibrate(statistic, schema, epsilon, norm)
        louder = self.honest.calibrate(statistic, schema, _louder(epsilon), norm)
        return replace(stated, parameters=louder.parameters)


def _louder(epsilon: PrivacyLoss) -> PrivacyLoss:
    if isinstance(epsilon, EpsilonShare):
        return EpsilonShare(Epsilon(epsilon.whole.nanos * LOUDER), epsilon.weight)
    return Epsilon(epsilon.nanos * LOUDER)


def lie() -> None:
    """Make a liar of this process."""
    for table in (SINGLE_MECHANISMS, MECHANISMS):
        for name in LIARS:
            table[name] = Loud(table[name])


def work(descriptor: int) -> None:
    """Draw what is asked for, as draw processes do that have loaded this module instead."""
    from app.processes import draws

    lie()
    draws.work(descriptor)


def _serve_loudly(environment: dict[str, str], port: int, log: str) -> None:
    from app.processes.draws import FORKS

    lie()
    FORKS.module = __name__
    serve(environment, port, log)


class LoudDesk(LiveServer):
    """A server that lies."""

    target = staticmethod(_serve_loudly)
