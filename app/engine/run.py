"""The one place where a plan meets data."""

from __future__ import annotations

import logging

from app.domain.problems import DataUnreadableError, Problem, is_of_storage
from mechanisms.contract import Data, Outcome, Plan
from mechanisms.randomness import system_randomness

_log = logging.getLogger(__name__)


def run(plan: Plan, data: Data) -> Outcome:
    """Draw one release with the operating system's randomness.

    Raises
    ------
    DataUnreadableError
        The data could not be read. What was drawn until then is dropped: it may be drawn again.
    MemoryError
        There was too little memory, as when a process dies of that, or no thread or file.
    Problem
        ``release-void``, the same whatever else went wrong. The log gets the name
        of the exception's class: its message, its frames and its chain may
        hold values, so they end here.

    **Privacy.** By the plan's theorem; that a draw failed says no more than
    one fixed problem. That files cannot be read does not depend on what is in them.
    """
    try:
        return plan.draw(data, system_randomness()).settled()
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # a panic of the Parquet reader is no Exception
        failure = type(error).__name__
        reported = _told(error)
    # Outside the handler: an error raised within would bring the first one along in its context.
    _log.error("draw failed", extra={"failure": failure})
    raise reported


def _told(error: BaseException) -> Exception:
    """Map an error to a public one that carries its kind and no data."""
    if isinstance(error, DataUnreadableError):
        return DataUnreadableError("the data could not be read")
    return MemoryError() if is_of_storage(error) else Problem("release-void")
