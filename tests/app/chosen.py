"""Settings and constants that a test chooses by their names."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from app.constants import Constants
from app.settings import Settings

_CONSTANTS = {each.name for each in fields(Constants)}


def chosen(**values: Any) -> tuple[Settings, Constants]:
    """Return the settings and the constants with these values."""
    constants = {name: values.pop(name) for name in _CONSTANTS & set(values)}
    return Settings(**values), Constants(**constants)
