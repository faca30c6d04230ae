"""Comparing an upload's rows with those of earlier data sets, by their digests.

It takes files alone, so that the process that does it loads no database.
See :mod:`app.services.datasets.lineage` for what is compared with what.

Which earlier data sets can overlap at all an index says (:mod:`app.uploads.digest_index`); only
those are read, with those that it does not know yet. It is brought up to date after comparisons.

**Privacy.** How many are read depends on the digests of others. So a few are read in any case: an
upload that could overlap fewer takes as long as one that could overlap none.
"""

from __future__ import annotations

import fcntl
import logging
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from app.domain.overlap import OTHERS, OWN, Floor
from app.uploads.digest_index import (
    Group,
    Indexed,
    Look,
    Lookup,
    runs_in,
    settle,
    write_run,
)
from app.uploads.row_digests import MalformedError, Newcomer, RowDigests, key_name
from app.vault.lineage import LineageFiles
from app.vault.stored import UnreadableError, VaultError

_LOG = logging.getLogger(__name__)
ALWAYS_READ = 8
"""At least this many data sets are read, whatever the index says."""
ENOUGH_NEW = 8
"""This many data sets outside any run are worth a new run."""
_TRIES = 3
_MOST_IN_RUN = 32  # of new ones: their digests are in memory together


@dataclass(frozen=True, slots=True)
class Digested:
    """A data set whose rows' digests are kept, and the SHA-256 of their file.

    ``own`` says whether the same person has uploaded it too, and so has seen its rows.
    ``account`` is the one that it is charged to, None where that is not known.
    """

    dataset: str
    sha256: str
    own: bool = False
    account: str | None = None


@dataclass(frozen=True, slots=True)
class Verdict:
    """Which of some data sets an upload overlaps, the first of them, and whose digests are lost.

    ``withheld`` says that it is too small to be compared with those of others, and was not.
    """

    found: str | None = None
    lost: tuple[str, ...] = ()
    withheld: bool = False


def compare(
    files: LineageFiles,
    upload: Digested,
    earlier: Sequence[Digested],
    together: Sequence[Digested] = (),
) -> Verdict:
    """Compare an upload with data sets one by one, until it overlaps one.

    Those that the index rules out are not read: nothing would be found in them. An upload that is
    too small is not compared with those of others. ``together`` are the data sets of the upload's
    own account, oldest first. What they hold of an account is judged as one table: see
    :func:`_joined`.

    Raises
    ------
    VaultError, MalformedError
        The upload's own digests are not what they were a moment ago, or others cannot be read.
    """
    digests = RowDigests.from_bytes(files.read(upload.dataset, upload.sha256))
    newcomer = Newcomer(digests)
    lost: list[str] = []
    withheld = newcomer.is_small and not all(each.own for each in earlier)
    allowed = [each for each in earlier if each.own or not withheld]
    compared = _possible(files, digests, allowed, together)
    for each in compared:
        old = _read(files, each, digests.key)
        if old is None:
            lost.append(each.dataset)
        elif newcomer.overlaps(old, _floor(each.own)):
            return Verdict(each.dataset, tuple(lost), withheld)
    accounts: dict[str, list[Digested]] = {}
    for each in compared:
        if each.account is not None and each.dataset not in lost:
            accounts.setdefault(each.account, []).append(each)
    own = {each.account for each in together}
    joined = _joined(files, digests, together) if accounts.keys() - own else []
    for account, several in accounts.items():
        unions = [] if account in own else joined
        found = _found_together(files, newcomer, unions, several, digests.key)
        if found is not None:
            return Verdict(found.dataset, tuple(lost), withheld)
    return Verdict(None, tuple(lost), withheld)


def _possible(
    files: LineageFiles,
    digests: RowDigests,
    earlier: Sequence[Digested],
    together: Sequence[Digested],
) -> Sequence[Digested]:
    """Return the data sets that an upload could overlap, and a few others."""
    for _ in range(_TRIES):
        # A run that is merged at this moment is gone, and what it held is in another one.
        with suppress(FileNotFoundError):
            return _by_index(files, digests, earlier, together)
    return earlier


def _by_index(
    files: LineageFiles,
    digests: RowDigests,
    earlier: Sequence[Digested],
    together: Sequence[Digested],
) -> Sequence[Digested]:
    runs = [run for run in runs_in(files.index) if run.key == digests.key]
    if not runs:
        return earlier
    known: dict[str, str] = {}
    for run in runs:
        known.update(run.datasets)
    accounts: dict[str, list[Digested]] = {}
    for each in earlier:
        accounts.setdefault(each.account or f"of {each.dataset}", []).append(each)
    groups, read = [], set[str]()
    for several in accounts.values():
        names = [each.dataset for each in several]
        if all(known.get(each.dataset) == each.sha256 for each in several):
            floor = OWN if any(each.own for each in several) else OTHERS
            groups.append(Group(names, floor))
        else:
            read.update(names)
    own = [_read(files, each, digests.key) for each in together]
    lookup = Lookup(digests, [each for each in own if each is not None])
    for place in lookup.found(runs, groups):
        read.update(groups[place].members)
    for group in reversed(groups):
        if len(read) >= ALWAYS_READ:
            break
        read.update(group.members)
    return [each for each in earlier if each.dataset in read]


def _look(files: LineageFiles, dataset: str) -> Look | None:
    try:
        found = os.stat(f"{files.directory}/{dataset}.digests")  # noqa: PTH116 - of thousands
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def bring_up_to_date(files: LineageFiles, earlier: Sequence[Digested]) -> None:
    """Take data sets into the index that it does not know, once these are a few.

    Runs of data sets that are gone, or whose files are others by now, are removed.
    """
    key = key_name(files.key())
    with _alone(files) as alone:
        if not alone:
            return
        sound, known = [], set[str]()
        for run in runs_in(files.index):  # the largest first: after a crash others are left in it
            usable = run.key == key and known.isdisjoint(run.datasets)
            if usable and all(_look(files, each.dataset) == each.look for each in run.indexed()):
                sound.append(run)
                known.update(run.datasets)
            else:
                run.path.unlink(missing_ok=True)
        new = [each for each in earlier if each.dataset not in known]
        if len(new) < ENOUGH_NEW:
            return
        for start in range(0, len(new), _MOST_IN_RUN):
            tables = list(_tables(files, key, new[start : start + _MOST_IN_RUN]))
            if tables:
                sound.append(write_run(files.index, key, tables))
        settle(files.index, sound)


def _tables(
    files: LineageFiles, key: str, new: Sequence[Digested]
) -> Iterator[tuple[Indexed, RowDigests]]:
    for each in new:
        look = _look(files, each.dataset)  # before it is read: a later change is then noticed
        digests = _read(files, each, key) if look is not None else None
        if look is not None and digests is not None:
            yield Indexed(each.dataset, each.sha256, look), digests


@contextmanager
def _alone(files: LineageFiles) -> Iterator[bool]:
    """Say whether no other process is at the index."""
    files.index.mkdir(mode=0o700, parents=True, exist_ok=True)
    lock = os.open(files.index / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield True
    except BlockingIOError:
        yield False
    finally:
        os.close(lock)


@dataclass(frozen=True, slots=True)
class _Union:
    """An upload's rows with those of some data sets of its account, which are ``before`` it."""

    upload: Newcomer
    rows: Newcomer
    before: RowDigests

    def overlaps(self, old: RowDigests, floor: Floor) -> bool:
        """Say whether the rows overlap, and the upload has a part in that.

        Data sets that overlapped before it have been admitted by somebody's word.
        """
        if not self.rows.overlaps(old, floor):
            return False
        return self.upload.shares(old) or not Newcomer(self.before).overlaps(old, floor)


def _joined(
    files: LineageFiles, digests: RowDigests, together: Sequence[Digested]
) -> Sequence[_Union]:
    """Return an upload's rows together with those of its account's newest 1, 3, 7, ... data sets.

    And with all of them. So it does not matter into how many uploads people of another account
    are divided, nor how many other people came long before them.
    """
    unions: list[_Union] = []
    upload, before, size = Newcomer(digests), None, 1
    for number, each in enumerate(reversed(together), 1):
        old = _read(files, each, digests.key)
        if old is not None:
            before = old if before is None else before.merged(old)
        if before is not None and number in (size, len(together)):
            unions.append(_Union(upload, Newcomer(before.merged(digests)), before))
        if number == size:
            size = 2 * size + 1
    return unions


def _found_together(
    files: LineageFiles,
    upload: Newcomer,
    unions: Sequence[_Union],
    several: Sequence[Digested],
    key: str,
) -> Digested | None:
    """Return an account's data set that a union overlaps; the newest if all of them together do."""
    if not unions and len(several) == 1:
        return None
    everything: RowDigests | None = None
    for each in several:
        old = _read(files, each, key)
        if old is None:
            continue
        everything = old if everything is None else everything.merged(old)
        if any(union.overlaps(old, _floor(each.own)) for union in unions):
            return each
    if everything is None or len(several) == 1:
        return None
    floor = _floor(all(each.own for each in several))
    overlap = upload.overlaps(everything, floor) or any(
        union.overlaps(everything, floor) for union in unions
    )
    return several[-1] if overlap else None


def _floor(own: bool) -> Floor:
    return OWN if own else OTHERS


def _read(files: LineageFiles, kept: Digested, key: str) -> RowDigests | None:
    """Return a data set's digests, or None when they are not what they were.

    Raises
    ------
    UnreadableError
        The system does not give them now.
    """
    try:
        digests = RowDigests.from_bytes(files.read(kept.dataset, kept.sha256))
    except UnreadableError:
        raise  # they are not lost: the system does not give them now
    except (VaultError, MalformedError):
        _LOG.error("row digests lost", extra={"dataset": kept.dataset})
        return None
    # Under another key equal rows have other digests: nothing could be found.
    return digests if digests.key == key else None
