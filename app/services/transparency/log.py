"""The public log of the ledger's entries: bringing entries in, signing checkpoints, proofs.

No request waits for the log: entries come into it after their commit, at regular times, and each
checkpoint signs all that are in it by then. A proof is made against the first checkpoint that
covers an entry, so that it stays the same for ever.

*What it reveals.* How many entries the ledger has, at those times. Neither leaves nor paths say
whose they are (:mod:`app.domain.checkpoints`), and what was stored as a result moves nothing. The
log's own entries are not in it, or it would grow for ever by itself.
"""

from __future__ import annotations

import asyncio
import base64
import logging
from collections.abc import Sequence
from dataclasses import dataclass

import anyio
import anyio.to_thread

from app.domain.checkpoints import (
    Checkpoint,
    columns_of,
    hidden_digest,
    origin_of,
    read_checkpoint,
    verifier_key,
)
from app.domain.ledger import Entry, audit_path, consistency_path
from app.domain.problems import Problem, SignerLostError, invalid_request
from app.logs import describe
from app.services.releases.receipts import PublicKey
from app.store import LogTree, Reader, Store, UnitOfWork

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class InclusionProof:
    """Proof that a leaf is in a tree: its hash, and its audit path (RFC 9162, 2.1.3)."""

    index: int
    size: int
    leaf: bytes
    path: Sequence[bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryProof:
    """That an entry is in the log: what is shown of it, its place, and a signed checkpoint.

    ``stamp`` is the checkpoint's time stamp, where it has one.
    """

    entry: Entry
    hidden: str
    inclusion: InclusionProof
    checkpoint: str
    stamp: bytes | None


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifierKey:
    """A public key of the log in the form of signed notes; ``name`` as receipts have it."""

    name: str
    text: str
    since: str


class LogService:
    """Keeps the public log of one ledger, and proves what is in it.

    Parameters
    ----------
    store
        The ledger.
    keys
        The ledger's public keys, the present one first.
    every_s
        How many seconds pass between two looks for new entries.
    """

    def __init__(self, store: Store, keys: Sequence[PublicKey], *, every_s: float) -> None:
        self._store = store
        self._every_s = every_s
        self._tree = LogTree()
        self._behind = False
        self._wanted = asyncio.Event()
        self.ledger = store.identity.id
        """The ledger's id."""
        self.origin = origin_of(store.identity.id, store.identity.epoch)
        """The log's name: the first line of its checkpoints."""
        self.keys = tuple(
            VerifierKey(
                name=key.name, text=verifier_key(self.origin, _bytes(key.public)), since=key.since
            )
            for key in keys
        )
        """The keys that its checkpoints may be signed with, the present one first."""

    async def catch_up(self) -> None:
        """Bring what there is into the log and sign it.

        A large backlog is signed in parts: the beginning first, the rest at once after it.
        """
        self._behind = await self._step()
        if self._behind:
            self._wanted.set()

    async def keep(self) -> None:
        """Bring new entries into the log and sign, while somebody serves."""
        while True:
            if not self._behind:
                with anyio.move_on_after(self._every_s):
                    await self._wanted.wait()
            self._wanted.clear()
            # step by step, so that a stopping server waits for no more than one
            self._behind = await self._step()

    async def _step(self) -> bool:
        """Bring some entries into the log, sign once these are all; return whether they are not."""
        try:
            if await anyio.to_thread.run_sync(self._take_in):
                return True
            await anyio.to_thread.run_sync(self._sign)
        except (Problem, SignerLostError) as problem:  # busy, frozen, or no signer for now
            _LOG.info("no checkpoint yet", extra=describe(problem))
        except Exception as error:
            _LOG.error("no checkpoint yet", extra=describe(error))
        return False

    def extend(self) -> None:
        """Bring every entry that is committed by now into the log, and sign its size and root.

        Raises
        ------
        Problem
            ``busy``, ``ledger-frozen``.
        SignerLostError
            The key is not at hand.
        """
        while self._take_in():
            pass
        self._sign()

    def _take_in(self) -> bool:
        """Bring some entries into the log, and return whether there are more."""
        with self._store.reading() as reader:
            parts, more = reader.log.unlogged(self._store.identity.id)

        def append(work: UnitOfWork) -> None:
            work.log.append(parts)

        if parts:
            self._store.write(append)
        return more

    def _sign(self) -> None:
        """Sign what has come in, if that has not been done."""
        with self._store.reading() as reader:
            size = reader.log.size()
            if size == 0 or reader.log.checkpoint_of(size) is not None:
                return
            root = self._tree.over(reader.log)(0, size)
        # Signed between two transactions: who holds the key may be slow, and writers take turns.
        checkpoint, key = Checkpoint(origin=self.origin, size=size, root=root), self._store.key
        note = checkpoint.signed(_bytes(key.public), key.sign(checkpoint.body.encode()))
        self._store.write(lambda work: work.log.add_checkpoint(size, root, note))

    def checkpoint(self, size: int | None = None) -> str:
        """Return the newest checkpoint, or that of a size.

        Raises
        ------
        Problem
            ``not-found``.
        """

        def read(reader: Reader) -> str:
            log = reader.log
            note = log.newest_checkpoint() if size is None else log.checkpoint_of(size)
            if note is None:
                raise Problem("not-found")
            return note

        if size is not None:
            return self._store.read_public(read)
        with self._store.reading() as reader:  # a monitor of the log must not see it go back
            return read(reader)

    def inclusion(self, index: int, size: int) -> InclusionProof:
        """Prove that a leaf is in the tree of the first ``size`` leaves.

        Raises
        ------
        Problem
            ``invalid-request``; ``not-found`` above what has been signed.
        """
        if index >= size:
            raise invalid_request("index", "must be less than size")

        def read(reader: Reader) -> InclusionProof:
            _require_signed(reader, size)
            return self._inclusion(reader, index, size)

        return self._store.read_public(read)

    def consistency(self, before: int, size: int) -> Sequence[bytes]:
        """Prove that the tree of ``size`` leaves begins with the one of ``before``.

        Raises
        ------
        Problem
            ``invalid-request``; ``not-found`` above what has been signed.
        """
        if before > size:
            raise invalid_request("from", "must not be more than to")

        def read(reader: Reader) -> Sequence[bytes]:
            _require_signed(reader, size)
            return consistency_path(before, size, self._tree.over(reader.log))

        return self._store.read_public(read)

    def prove(self, account: str, seq: int) -> EntryProof | None:
        """Prove to everyone that an entry is in the log; None while no checkpoint covers it."""

        def read(reader: Reader) -> EntryProof:
            place = reader.log.place_of(account, seq)
            note = None if place is None else reader.log.checkpoint_covering(place.index)
            signed = None if note is None else read_checkpoint(note)
            if place is None or note is None or signed is None:
                raise Problem("not-found")
            (entry,) = reader.entries.list(account, after=seq - 1, limit=1)
            return EntryProof(
                entry=entry,
                hidden=hidden_digest(columns_of(entry), place.seed),
                inclusion=self._inclusion(reader, place.index, signed[0].size),
                checkpoint=note,
                stamp=reader.stamps.of(signed[0].size),
            )

        try:
            return self._store.read_public(read)
        except Problem:
            return None

    def _inclusion(self, reader: Reader, index: int, size: int) -> InclusionProof:
        root_of = self._tree.over(reader.log)
        return InclusionProof(
            index=index,
            size=size,
            leaf=root_of(index, index + 1),
            path=audit_path(index, size, root_of),
        )


def _require_signed(reader: Reader, size: int) -> None:
    """Pass where a size is within what has been signed: more does not exist for readers yet."""
    newest = reader.log.newest_checkpoint()
    signed = None if newest is None else read_checkpoint(newest)
    if signed is None or size > signed[0].size:
        raise Problem("not-found")


def _bytes(public: str) -> bytes:
    """Return the 32 bytes of a public key given in base64url."""
    return base64.urlsafe_b64decode(public + "=" * (-len(public) % 4))
