"""Comparing an upload's rows with those of earlier data sets, by their digests.

It takes files alone, so that the process that does it loads no database.
See :mod:`app.services.datasets.lineage` for what is compared with what.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from app.domain.overlap import OTHERS, OWN
from app.uploads.overlap import Newcomer
from app.uploads.row_digests import MalformedError, RowDigests
from app.vault.errors import UnreadableError, VaultError
from app.vault.lineage import LineageFiles

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Digested:
    """A data set whose rows' digests are kept, and the SHA-256 of their file.

    ``own`` says whether whoever uploads now has uploaded it too, and so has seen its rows.
    """

    dataset: str
    sha256: str
    own: bool = False


@dataclass(frozen=True, slots=True)
class Verdict:
    """Which of some data sets an upload overlaps, the first of them, and whose digests are lost.

    ``withheld`` says that it is too small to be compared with those of others, and was not.
    """

    found: str | None = None
    lost: tuple[str, ...] = ()
    withheld: bool = False


def compare(files: LineageFiles, upload: Digested, earlier: Sequence[Digested]) -> Verdict:
    """Compare an upload with data sets one by one, until it overlaps one.

    One that is too small is not compared with those of others.

    Raises
    ------
    VaultError, MalformedError
        The upload's own digests are not what they were a moment ago, or others cannot be read.
    """
    digests = RowDigests.from_bytes(files.read(upload.dataset, upload.sha256))
    newcomer = Newcomer(digests)
    lost: list[str] = []
    withheld = newcomer.is_small and not all(each.own for each in earlier)
    for each in earlier:
        if withheld and not each.own:
            continue
        old = _read(files, each, digests.key)
        if old is None:
            lost.append(each.dataset)
        elif newcomer.overlaps(old, OWN if each.own else OTHERS):
            return Verdict(each.dataset, tuple(lost), withheld)
    return Verdict(None, tuple(lost), withheld)


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
