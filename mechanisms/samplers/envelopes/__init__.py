"""Envelopes of a law on a grid: pieces with weights, from which points are drawn and kept or not.

May enter: what adaptive rejection needs whatever the shape of its pieces. May import: ``exact`` and
``randomness``.
"""

from mechanisms.samplers.envelopes.envelope import MOST_BYTES, Envelope, Piece, Trial, first_kept

__all__ = ["MOST_BYTES", "Envelope", "Piece", "Trial", "first_kept"]
