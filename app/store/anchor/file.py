"""An anchor in a directory of its own: an append-only file of checksummed records.

::

    anchor.log      magic, a record of a whole state, a record per transaction, then zeros
    anchor.lock     held while a server runs

A record is its length, a checksum, a line of JSON and the bytes of results. Each
checksum covers the one before it, so a record is valid only where it was
written. Reading ends at the first one that is not: a crash can tear only the
last, whose COMMIT has then never begun. Damage in the middle makes the anchor
end early, and a database that is ahead of its anchor is frozen.

A transaction costs one write and one flush, whatever the number of accounts.
The file is rewritten at the first one after a start, and when it has grown
well beyond a list of the accounts. It is filled up with zeros in advance,
because flushing a file that does not grow takes half the time.

What anchors write: states and transactions as JSON objects, and results as they are.
"""

from __future__ import annotations

import base64
import fcntl
import hashlib
import json
import os
import struct
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from sqlalchemy import Connection

from app.store.anchor.standing import (
    Anchored,
    AnchorError,
    AnchorMismatchError,
    Evidence,
    LedgerState,
    Step,
)
from app.store.errors import DirectoryLockedError
from app.store.ledger.entries import Move, Position
from app.vault.stored import flush

Results = Mapping[str, bytes | None]
_NONE: Results = {}


def state_record(state: LedgerState | None) -> dict[str, Any]:
    """Return a whole state, or the lack of one."""
    if state is None:
        return {"state": None}
    return {
        "state": {
            "ledger": state.ledger,
            "epoch": state.epoch,
            "unfinished": state.unfinished,
            "accounts": _listed(state.accounts),
        }
    }


def state_of(fields: dict[str, Any] | None) -> LedgerState | None:
    """Return the state that was written."""
    if fields is None:
        return None
    return LedgerState(**{**fields, "accounts": positions_of(fields["accounts"])})


def step_record(step: Step, *, kept: bool) -> dict[str, Any]:
    """Return a transaction but for its results; ``kept``: the one before it was committed."""
    return {
        "kept": kept,
        "moves": _listed({name: move.pending for name, move in step.moves.items()}),
        "unfinished": step.unfinished_change,
    }


def step_bytes(step: Step, *, kept: bool) -> bytes:
    """Return a transaction and its results as :func:`as_bytes` does."""
    return as_bytes(step_record(step, kept=kept), step.results)


def step_of(record: dict[str, Any], before: Mapping[str, Position]) -> Step:
    """Return the transaction that was written, its results in bytes, given where accounts were."""
    pending = positions_of(record["moves"])
    return Step(
        moves={name: Move(before.get(name), at) for name, at in pending.items()},
        unfinished_change=record["unfinished"],
        results=record["results"],
    )


def as_bytes(record: Mapping[str, Any], results: Results = _NONE) -> bytes:
    """Return a record as a line of JSON, which says how long results are, and after it those."""
    sizes = {name: None if result is None else len(result) for name, result in results.items()}
    line = json.dumps({**record, "results": sizes}, separators=(",", ":")).encode()
    # JSON escapes line breaks, so the first one ends the line whatever the results hold.
    return b"".join((line, b"\n", *filter(None, results.values())))


def from_bytes(content: bytes) -> dict[str, Any]:
    """Return the record that was written, with its results."""
    line, _, rest = content.partition(b"\n")
    record: dict[str, Any] = json.loads(line)
    at, results = 0, {}
    for name, size in record["results"].items():
        results[name] = None if size is None else rest[at : at + size]
        at += size or 0
    return {**record, "results": results}


def as_text(record: Mapping[str, Any], results: Results = _NONE) -> str:
    """Return a record as JSON throughout, its results in Base64."""
    encoded = {
        name: None if result is None else base64.b64encode(result).decode()
        for name, result in results.items()
    }
    return json.dumps({**record, "results": encoded})


def from_text(text: str | bytes) -> dict[str, Any]:
    """Return the record that was written, with its results."""
    record: dict[str, Any] = json.loads(text)
    results = {
        name: None if result is None else base64.b64decode(result)
        for name, result in record.get("results", {}).items()
    }
    return {**record, "results": results}


def positions_of(accounts: Mapping[str, Any]) -> dict[str, Position]:
    """Return where accounts are."""
    return {name: Position(*at) for name, at in accounts.items()}


def _listed(accounts: Mapping[str, Position]) -> dict[str, tuple[int, str, int]]:
    return {name: (at.seq, at.head, at.spent) for name, at in accounts.items()}


# An anchor in a directory of its own: an append-only file of checksummed records


LOG_NAME = "anchor.log"
LOCK_NAME = "anchor.lock"
MAGIC = b"release-desk anchor 2\n"

_HEADER = struct.Struct(">I16s")
# Zeros ahead of the end, so that most flushes need not write the file's length.
_SPARE = 1 << 18
_REWRITE_AT = 1 << 25  # lines are appended, which is quick, until the file is this large
_REWRITE_FACTOR = 8  # rewriting a file costs its length: seldom, so that it costs each line little


def _checksum(before: bytes, payload: bytes) -> bytes:
    return hashlib.sha256(before + payload).digest()[:16]


class FileAnchor:
    """The anchor of one ledger on SQLite, held by one process.

    Parameters
    ----------
    directory
        Made, for the service's user alone, if need be.
    place
        What ``/readyz`` says of it.

    Raises
    ------
    DirectoryLockedError
        Another server holds it.
    AnchorError
        It cannot be made or written to.
    """

    def __init__(self, directory: Path, *, place: str = "directory") -> None:
        self.place = place
        self._directory = directory
        self._lock = _locked(directory)
        self._log: _Log | None = None
        self._ledger, self._epoch, self._unfinished = "", 0, 0
        self._accounts: dict[str, Position] = {}
        self._last: Step | None = None
        self._last_kept = True
        self._lost: Step | None = None

    def read(self) -> Anchored | None:
        """Return what the file says; None when there is none."""
        return _replayed(_records(self.witness.look()))

    @property
    def witness(self) -> FileWitness:
        """Return a reader of it for other processes."""
        return FileWitness(self._directory)

    def start(self, state: LedgerState, *, lost: Step | None = None) -> None:
        """Go on from a state; the next transaction rewrites the file with it."""
        self._drop_log()
        self._lost = lost
        self._ledger, self._epoch = state.ledger, state.epoch
        self._accounts, self._unfinished = dict(state.accounts), state.unfinished
        self._last, self._last_kept = None, True

    def settle(self, evidence: Evidence) -> Step | None:
        """Return what was lost at the start; later the one process here knows what it does."""
        del evidence
        lost, self._lost = self._lost, None
        return lost

    def begin(self, step: Step) -> None:
        """Note a transaction with one write and one flush."""
        # It was not undone before another one begins: so it has been committed.
        if self._last is not None:
            self._accounts.update((name, move.pending) for name, move in self._last.moves.items())
            self._unfinished += self._last.unfinished_change
            self._last = None
        if not (step.moves or step.results or step.unfinished_change):
            return
        for name, move in step.moves.items():
            if self._accounts.get(name) != move.before:
                raise AnchorMismatchError(f"account {name} is not where the anchor left it")
        record = step_bytes(step, kept=self._last_kept)
        try:
            if self._log is None or self._log.is_long:
                self._rewrite(as_bytes(self._state_json()), record)
            else:
                self._log.append(record)
        except BaseException as error:  # out of memory, too
            # What is on disk now is unknown: the next transaction rewrites the file.
            self._drop_log()
            if not isinstance(error, OSError):
                raise
            raise AnchorError(f"the anchor cannot be written: {error.strerror}") from error
        self._last, self._last_kept = step, True

    def undo(self) -> None:
        """Take back the transaction begun last; the next record will say so."""
        self._last_kept = self._last_kept and self._last is None
        self._last = None

    def adopt(self, state: LedgerState) -> None:
        """Rewrite the file: what was certain, and the state that is to take its place.

        The previous file stays next to it.
        """
        known = self.read()
        certain = None if known is None else known.state
        try:
            if known is not None:
                self._keep_aside(state.epoch)
            self._rewrite(as_bytes(state_record(certain)), as_bytes(state_record(state)))
        except OSError as error:
            raise AnchorError(f"the anchor cannot be written: {error.strerror}") from error
        finally:
            self._drop_log()

    def close(self) -> None:
        """Close the file and give the directory free."""
        self._drop_log()
        os.close(self._lock)

    def _keep_aside(self, epoch: int) -> None:
        aside = self._directory / f"anchor.before-epoch-{epoch}.log"
        with suppress(FileExistsError):
            # A link: it keeps its own name as well until the new file takes that.
            os.link(self._directory / LOG_NAME, aside)

    def _state_json(self) -> dict[str, Any]:
        return state_record(
            LedgerState(
                ledger=self._ledger,
                epoch=self._epoch,
                accounts=self._accounts,
                unfinished=self._unfinished,
            )
        )

    def _rewrite(self, *records: bytes) -> None:
        self._drop_log()
        self._log = _Log(self._directory, records)

    def _drop_log(self) -> None:
        if self._log is not None:
            self._log.close()
            self._log = None


class FileWitness:
    """Reads an anchor's file, whichever process holds it."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def require_apart(self, ledger: Connection) -> None:
        """Pass: a directory is no database. Where it lies, the settings' reader says."""

    def look(self) -> bytes:
        """Return the file's content; nothing where there is no file yet."""
        try:
            return (self._directory / LOG_NAME).read_bytes()
        except FileNotFoundError:
            return b""
        except OSError as error:
            raise AnchorError(f"the anchor cannot be read: {error.strerror}") from error

    def between(self, before: bytes, after: bytes) -> list[Anchored | None] | None:
        """Replay what was added; None where the file has been rewritten."""
        if not after.startswith(before.rstrip(b"\0")):
            return None
        seen, records = len(list(_records(before))), list(_records(after))
        known = [_replayed(iter(records[:seen]))]
        for record in records[seen:]:
            last = known[-1]
            certain = None if last is None else last.latest if record["kept"] else last.state
            if certain is None:
                return None
            known.append(Anchored(certain, step_of(record, certain.accounts)))
        return known


class _Log:
    """The open file, rewritten."""

    def __init__(self, directory: Path, records: tuple[bytes, ...]) -> None:
        fresh, path = directory / f"{LOG_NAME}.new", directory / LOG_NAME
        self._file = os.open(fresh, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            self._checksum, self._end, self._filled = MAGIC, 0, 0
            content = b"".join((MAGIC, *map(self._framed, records)))
            self._write(content)
            self._rewrite_at = max(_REWRITE_AT, _REWRITE_FACTOR * len(content))
            # The content is on the disk before the name is: a crash leaves the old file
            # or the new one whole.
            fresh.replace(path)
            # And the name itself, which is the directory's.
            flush(directory)
        except BaseException:
            os.close(self._file)
            raise

    @property
    def is_long(self) -> bool:
        """Return whether it is worth rewriting."""
        return self._end > self._rewrite_at

    def append(self, record: bytes) -> None:
        """Write a record after the last one, and flush it."""
        self._write(self._framed(record))

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)

    def _framed(self, record: bytes) -> bytes:
        self._checksum = _checksum(self._checksum, record)
        return _HEADER.pack(len(record), self._checksum) + record

    def _write(self, content: bytes) -> None:
        end = self._end + len(content)
        # Room for a header of zeros as well, which is where reading ends.
        if end + _HEADER.size > self._filled:
            content += bytes(_SPARE)
            self._filled = self._end + len(content)
        rest, at = memoryview(content), self._end
        while rest:
            # May write less than it is given.
            written = os.pwrite(self._file, rest, at)
            rest, at = rest[written:], at + written
        os.fdatasync(self._file)
        self._end = end


def _locked(directory: Path) -> int:
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = os.open(directory / LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise AnchorError(
            f"the anchor's directory {directory} cannot be used: {error.strerror}"
        ) from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(lock)
        raise DirectoryLockedError(
            f"another Release Desk server keeps its anchor in {directory}: "
            "each ledger needs an anchor of its own."
        ) from error
    return lock


def _records(content: bytes) -> Iterator[dict[str, Any]]:
    """Yield the records up to the first that is not whole."""
    checksum, at = content[: len(MAGIC)], len(MAGIC)
    if checksum != MAGIC:
        return
    while at + _HEADER.size <= len(content):
        length, expected = _HEADER.unpack_from(content, at)
        at += _HEADER.size
        payload = content[at : at + length]
        checksum = _checksum(checksum, payload)
        # Zeros not written over yet, or a record that a crash has torn.
        if length == 0 or checksum != expected:
            return
        at += length
        yield from_bytes(payload)


def _replayed(records: Iterator[dict[str, Any]]) -> Anchored | None:
    """Return what the records come to: every transaction but the last, and the last."""
    first = next(records, None)
    if first is None:
        return None
    state = state_of(first["state"])
    accounts = {} if state is None else dict(state.accounts)
    unfinished = 0 if state is None else state.unfinished
    last: dict[str, Any] = {}
    for record in records:
        if "state" in record:
            return Anchored(state, state_of(record["state"]))
        # The next record shows whether the step before was committed.
        if last and record["kept"]:
            accounts.update(positions_of(last["moves"]))
            unfinished += last["unfinished"]
        last = record
    if state is None:
        return None
    certain = LedgerState(
        ledger=state.ledger, epoch=state.epoch, accounts=accounts, unfinished=unfinished
    )
    return Anchored(certain, step_of(last, accounts) if last else None)
