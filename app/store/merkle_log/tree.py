"""The tree over the log's leaves, of which most is computed once and remembered.

The roots of full blocks of leaves never change, so a process keeps them: 32 bytes for every 256
leaves. A root of many leaves is made of those, and of the leaves of one block at most.
"""

from __future__ import annotations

import threading

from app.domain.merkle import RootOf, root_over
from app.store.merkle_log.parts import Log

_BLOCK = 256  # a power of two, so that a full block is a subtree of any larger tree
_BLOCKS_AT_ONCE = 64


class LogTree:
    """Roots over ranges of leaves, as proofs need them; any thread may ask."""

    def __init__(self) -> None:
        self._blocks: list[bytes] = []
        self._lock = threading.Lock()

    def over(self, log: Log) -> RootOf:
        """Return what gives roots over leaves of the log, in one snapshot of it.

        A range of more than a block must begin where a block does, as those of proofs do.
        """

        def root_of(first: int, until: int) -> bytes:
            if until - first <= _BLOCK:
                return root_over(log.hashes(first, until))
            # The last block may still grow: its root is not kept.
            full = until // _BLOCK
            roots = self._full_blocks(log, full)[first // _BLOCK :]
            if until % _BLOCK:
                roots.append(root_over(log.hashes(full * _BLOCK, until)))
            return root_over(roots)

        return root_of

    def _full_blocks(self, log: Log, count: int) -> list[bytes]:
        """Return the roots of the first blocks."""
        with self._lock:
            while len(self._blocks) < count:
                first = len(self._blocks)
                until = min(count, first + _BLOCKS_AT_ONCE)
                leaves = log.hashes(first * _BLOCK, until * _BLOCK)
                self._blocks += [
                    root_over(leaves[start : start + _BLOCK])
                    for start in range(0, len(leaves), _BLOCK)
                ]
            return self._blocks[:count]
