"""What a transaction writes: at once, or in order once all of it is known.

A group commit of charges and results is judged before its rows are written. So the anchor can
be written at the same time: its flush and the statements take their time together, and both are
done before COMMIT. Nothing that is kept can be refused: what has been announced fails only as a
COMMIT does.
"""

from __future__ import annotations

from collections.abc import Callable


class NotTogetherError(Exception):
    """What was to be written together has failed, and is to be written one by one."""


class Writes:
    """Statements that write, each in a function. While they are kept nothing reads their tables.

    Attributes
    ----------
    kept
        Whether they are kept for :meth:`run`, and not run at once.
    """

    __slots__ = ("_waiting", "kept")

    def __init__(self) -> None:
        self.kept = False
        self._waiting: list[Callable[[], object]] = []

    def begin(self, *, kept: bool = False) -> None:
        """Forget what an earlier transaction has not run."""
        self.kept = kept
        self._waiting.clear()

    def add(self, write: Callable[[], object]) -> None:
        """Run a function that writes, or keep it."""
        if self.kept:
            self._waiting.append(write)
        else:
            write()

    def run(self) -> None:
        """Run what has been kept, in order; what comes later is run at once.

        Raises
        ------
        NotTogetherError
            One of them failed; the transaction is to be undone.
        """
        waiting, self._waiting, self.kept = self._waiting, [], False
        try:
            for write in waiting:
                write()
        except Exception as error:
            raise NotTogetherError from error
