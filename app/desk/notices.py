"""What a page says after an act: the address names it, the words are here."""

from __future__ import annotations

from collections.abc import Mapping

NOTICES: Mapping[str, str] = {}
"""The words for each value of ``?done=``; anything else says nothing."""
