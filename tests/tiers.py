"""Cases that `make test-wide` adds to what `make test` shows by others."""

from __future__ import annotations

from typing import Any

import pytest


def wide(*values: object) -> list[Any]:
    """Return values of a parameter, each a case of `make test-wide` alone."""
    return [pytest.param(value, marks=pytest.mark.wide) for value in values]
