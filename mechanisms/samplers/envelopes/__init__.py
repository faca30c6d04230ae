"""Envelopes of a law on a grid: weighted pieces, whose points are proposed and accepted or not.

May enter: what adaptive rejection needs for every shape of pieces. May import: ``exact`` and
``randomness``.
"""

from mechanisms.samplers.envelopes.envelope import MOST_BYTES, Envelope, Piece, Trial, first_kept

__all__ = ["MOST_BYTES", "Envelope", "Piece", "Trial", "first_kept"]
