"""The one place where a plan meets data."""

from __future__ import annotations

import logging

from app.domain.problems import Problem
from mechanisms.contract import Data, Outcome, Plan
from mechanisms.randomness import system_randomness

_log = logging.getLogger(__name__)


def run(plan: Plan, data: Data) -> Outcome:
    """Draw one release with the operating system's randomness.

    Raises
    ------
    Problem
        ``release-void``, the same whatever went wrong. The log gets the name
        of the exception's class: its message, its frames and its chain may
        hold values, so they end here.

    **Privacy.** By the plan's theorem; that a draw failed says no more than
    one fixed problem.
    """
    try:
        return plan.draw(data, system_randomness())
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # a panic of the Parquet reader is no Exception
        failure = type(error).__name__
    _log.error("draw failed", extra={"failure": failure})
    raise Problem("release-void")
