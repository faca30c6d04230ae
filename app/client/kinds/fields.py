"""Fields of statistics without a type in the questions. Generated: do not edit.

``python -m app.services.generated`` writes this file from the classes of the statistics.
"""

from __future__ import annotations

from typing import TypedDict


class OwnFields(TypedDict, total=False):
    """Fields that few statistics have; the service says what they may be."""
