"""Failures that every layer may meet and that are no problem document of their own."""

from __future__ import annotations


class ProcessLostError(Exception):
    """A process of ours failed or died; what there is to say is in its own log."""
