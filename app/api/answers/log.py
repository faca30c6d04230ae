"""The bodies of answers about the public log."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from starlette.responses import Response

from app.api.answers.base import Answer
from app.services.transparency.authority import REPLY_TYPE
from app.services.transparency.log import InclusionProof, VerifierKey

NOTE_TYPE = "text/plain; charset=utf-8"
STAMP_TYPE = REPLY_TYPE


class InclusionAnswer(Answer):
    """A proof that a leaf is in the tree of the first `size` leaves. Hashes are SHA-256, in hex."""

    index: int
    """The leaf's place in the log, from 0."""
    size: int
    """How many leaves the tree has."""
    leaf: str
    """The leaf's hash."""
    path: list[str]
    """What the root is computed from, in addition to the leaf: nearest first (RFC 9162, 2.1.3)."""


class ConsistencyAnswer(Answer):
    """That a tree begins with the leaves of a smaller one. Hashes are SHA-256, in hex."""

    before: int
    """How many leaves the smaller tree has."""
    size: int
    """How many leaves the larger tree has."""
    path: list[str]
    """What both roots are computed from (RFC 9162, 2.1.4)."""


class LogKeyAnswer(Answer):
    """A key that checkpoints may be signed with, and since when the ledger has it."""

    kid: str
    """The key's name, as receipts and `/v1/ledger/public-keys` have it."""
    verifier: str
    """The public key as tools for signed notes take it: name, key hash and key."""
    since: str
    """When the ledger recorded it (UTC)."""


class LogKeysAnswer(Answer):
    """The name of the log, which is the first line of its checkpoints, and its keys."""

    origin: str
    """The log's name: the ledger's id and its epoch are in it."""
    keys: list[LogKeyAnswer]
    """The present key, then earlier ones."""


def checkpoint_answer(note: str) -> Response:
    """Return a signed checkpoint, which is text."""
    return Response(note, media_type=NOTE_TYPE)


def stamp_answer(stamp: bytes) -> Response:
    """Return a time stamp, as the authority has answered it."""
    return Response(stamp, media_type=STAMP_TYPE)


def inclusion_answer(proof: InclusionProof) -> InclusionAnswer:
    """Return an inclusion proof."""
    return InclusionAnswer(
        index=proof.index, size=proof.size, leaf=proof.leaf.hex(), path=_texts(proof.path)
    )


def consistency_answer(before: int, size: int, path: Sequence[bytes]) -> ConsistencyAnswer:
    """Return a consistency proof."""
    return ConsistencyAnswer(before=before, size=size, path=_texts(path))


def log_keys_answer(origin: str, keys: Iterable[VerifierKey]) -> LogKeysAnswer:
    """Return the log's keys."""
    shown = [LogKeyAnswer(kid=key.name, verifier=key.text, since=key.since) for key in keys]
    return LogKeysAnswer(origin=origin, keys=shown)


def _texts(path: Iterable[bytes]) -> list[str]:
    return [each.hex() for each in path]
