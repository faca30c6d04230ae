"""Names and fields of statistics, for programs that do not know them. Generated: do not edit.

``python -m app.services.generated`` writes this file from the classes of the statistics.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypedDict

NAMES: Mapping[str, str] = {"std": "standard deviation"}
"""Names of kinds that are not their kind in words."""

ON_DIAGONAL: Mapping[str, str] = {"covariance": "variance"}
"""The kind of a matrix's entries of a column with itself, where that has a name of its own."""


class OwnFields(TypedDict, total=False):
    """Fields that have no type in :mod:`app.client.questions`; the service says what they are."""
