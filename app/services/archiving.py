"""Archiving: a data set takes no more charges, and its rows go; ledger and releases stay."""

from __future__ import annotations

import http.client
import logging
import ssl
from collections.abc import Mapping, Sequence
from functools import partial
from urllib.parse import urlsplit

import anyio.to_thread

from app.domain.problems import Problem
from app.domain.releases import ReleaseState
from app.services.datasets.datasets import DatasetService, DatasetView
from app.services.datasets.erasing import ErasingService
from app.services.people.keys import Caller
from app.services.releases.releases import ReleaseService
from app.store import DatasetRecord, Store, UnitOfWork

# One POST to an address that the operator has set, without redirects and with little patience

_TIMEOUT_S = 10.0


class NotPostedError(Exception):
    """The message was not delivered; says why in a few fixed words, or by a status."""


def post(url: str, body: bytes, headers: Mapping[str, str], *, most_bytes: int = 0) -> bytes:
    """Post a body, and return the beginning of the answer: at most ``most_bytes``.

    Raises
    ------
    NotPostedError
        No answer, or a status other than 2xx.
    """
    parts = urlsplit(url)
    # A user and a password in the URL are no part of the host's name.
    host = parts.netloc.rpartition("@")[2]
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    connection = (
        http.client.HTTPSConnection(host, timeout=_TIMEOUT_S, context=ssl.create_default_context())
        if parts.scheme == "https"
        else http.client.HTTPConnection(host, timeout=_TIMEOUT_S)
    )
    try:
        connection.request("POST", path, body=body, headers=dict(headers))
        with connection.getresponse() as answer:
            # Bounded: the other side may answer without end.
            content = answer.read(most_bytes) if most_bytes else b""
    except (OSError, http.client.HTTPException) as error:
        raise NotPostedError(type(error).__name__) from None
    finally:
        connection.close()
    if not 200 <= answer.status < 300:
        raise NotPostedError(f"status {answer.status}")
    return content


# Archiving: a data set takes no more charges, and its rows go; ledger and releases stay

_LOG = logging.getLogger(__name__)
_REASON = "the data set has been archived"


class ArchivingService:
    """Archives data sets."""

    def __init__(
        self,
        store: Store,
        datasets: DatasetService,
        releases: ReleaseService,
        erasing: ErasingService,
    ) -> None:
        self._store = store
        self._datasets = datasets
        self._releases = releases
        self._erasing = erasing

    async def archive(self, dataset: str, *, caller: Caller) -> DatasetView:
        """Close a data set to new charges, give back what waits for a review, and erase its rows.

        All its versions are archived together: each has the rows of those before it.
        Charged releases keep their right to a draw: the rows go when none is under way.

        Raises
        ------
        Problem
            ``not-found``; ``dataset-archived`` for a deleted one.
        """
        # Closed first: whatever comes from here on is refused, and what is charged
        # by now gets its draw.
        records = await self._store.awrite(partial(_archive, dataset, caller))
        for record in records:
            self._datasets.remember(record)
            _LOG.info("data set archived", extra={"dataset": record.id})
        view = await anyio.to_thread.run_sync(self._datasets.view, dataset)
        await self._releases.finish_running()
        for record in records:
            await self._erasing.erase(record.id)
        return view


def _archive(dataset: str, caller: Caller, work: UnitOfWork) -> Sequence[DatasetRecord]:
    """Archive all versions of a data set; what waits for a review could not be drawn any more."""
    person = caller.person
    work.by(caller.acting)
    found = work.datasets.get(dataset)
    if found is None:
        raise Problem("not-found")
    versions = [each.id for each in work.datasets.versions(found.first)]
    if not versions:
        raise Problem("dataset-archived")
    # In the same transaction: nothing may be approved between the two.
    for release in (each for name in versions for each in work.reviews.waiting_for(name)):
        work.reviews.unreserve(release, ReleaseState.REJECTED, principal=person, reason=_REASON)
    return [work.datasets.archive(name, principal=person) for name in versions]
