"""The calls about the public log, which take no key."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from app.client.answers import Answer
from app.client.checkpoints import Checkpoint, check_checkpoint, check_growth
from app.client.steps import Call, Line, Steps


@dataclass(frozen=True, slots=True, kw_only=True)
class Inclusion(Answer):
    """That a leaf is in the tree of the first ``size`` leaves; hashes are SHA-256, in hex."""

    index: int
    size: int
    leaf: str
    path: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Consistency(Answer):
    """That the tree of ``size`` leaves begins with that of ``before``; hashes in hex."""

    before: int
    size: int
    path: Sequence[str]


class LogCalls:
    """The methods about the public log, of both desks."""

    line: Line

    @Call
    def checkpoint(self, size: int | None = None) -> Steps[str]:
        """Return the newest checkpoint, or that of a size that was signed: keep it as it is."""
        params = None if size is None else {"size": str(size)}
        return (yield from self.line.read("/v1/log/checkpoint", params=params)).text

    @Call
    def stamp(self, size: int | None = None) -> Steps[bytes]:
        """Return the time stamp of a checkpoint, by default the newest there is (RFC 3161)."""
        params = None if size is None else {"size": str(size)}
        return (yield from self.line.read("/v1/log/stamp", params=params)).content

    @Call
    def inclusion(self, index: int, size: int) -> Steps[Inclusion]:
        """Prove that leaf ``index``, from 0, is in the tree of the first ``size`` leaves."""
        params = {"index": str(index), "size": str(size)}
        response = yield from self.line.read("/v1/log/proof/inclusion", params=params)
        return Inclusion.model_validate_json(response.content)

    @Call
    def consistency(self, before: int, size: int) -> Steps[Consistency]:
        """Prove that the tree of ``size`` leaves begins with the one of ``before``."""
        return (yield from self._consistency(before, size))

    def _consistency(self, before: int, size: int) -> Steps[Consistency]:
        params = {"from": str(before), "to": str(size)}
        response = yield from self.line.read("/v1/log/proof/consistency", params=params)
        return Consistency.model_validate_json(response.content)

    @Call
    def check_log(self, earlier: str, public_keys: str | bytes) -> Steps[Checkpoint]:
        """Return the newest checkpoint, once the log still begins with that of an earlier one.

        ``earlier`` is a checkpoint as it was kept, and ``public_keys`` what was kept with it.

        Raises
        ------
        ReceiptError
            The log has another name by now, or does not begin with what was in it.
        """
        kept = check_checkpoint(earlier, public_keys)
        later = (yield from self.line.read("/v1/log/checkpoint")).text
        newest = check_checkpoint(later, public_keys)
        path: Sequence[str] = ()
        # of another log, or of one that has shrunk, there is no proof to ask for
        if kept.log == newest.log and kept.size <= newest.size:
            path = (yield from self._consistency(kept.size, newest.size)).path
        return check_growth(earlier, later, path, public_keys)
