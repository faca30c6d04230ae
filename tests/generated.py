"""Examples that are generated: without a stopwatch, and the same ones in each run.

A rare example that a run happens to find would fail a change that has nothing to do with it. New
ones are looked for by hand: ``EXPLORE=1 make test``.
"""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings


def load_examples() -> None:
    """Have tests generate their examples so, from here on."""
    settings.register_profile(
        "patient",
        deadline=None,  # a busy machine is not a failure
        suppress_health_check=[HealthCheck.too_slow],
        derandomize=not os.environ.get("EXPLORE"),
    )
    settings.load_profile("patient")
