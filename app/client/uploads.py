"""Calls that bring rows to the service: data sets, and versions of them."""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

import httpx

from app.client.answers import Answer
from app.client.datasets import Facts
from app.client.progress import Line as Told
from app.client.progress import Sending
from app.client.steps import Call, Glance, Line, Listing, Pages, Steps

D = TypeVar("D", bound=Facts)

_WHILE_A_FILE_IS_READ = httpx.Timeout(60.0, read=86_400.0)
"""The service answers an upload when it has read the whole file, and says nothing before."""
_LOOK_EVERY_S = 1.0
_UNSEEN = 0.05
"""So much of the time goes by between two looks, where that is longer: each is a request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetVersion(Answer):
    """A version of a data set in short: a data set of its own, by its ``id``."""

    id: str
    version: int
    name: str
    created_at: str
    rows: int | None = None


class UploadCalls(Generic[D]):
    """What both desks do with files. ``D`` is the kind of data set that they return."""

    line: Line
    dataset_type: type[D]

    @Call
    def upload(self, file: Path | str, spec: Mapping[str, object]) -> Steps[D]:
        """Upload a CSV, CSV.gz or Parquet file under a public spec (curators).

        On a terminal or in a notebook a line says how far it is, sent and read. The answer comes
        when the file has been read; it is waited for a day, whatever ``timeout_s`` is.
        """
        return (yield from self._sent("/v1/datasets", Path(file), spec))

    @Call
    def register(self, source: str, spec: Mapping[str, object]) -> Steps[D]:
        """Register rows where they lie, below a root that the operator allows (curators).

        ``source`` is a URL such as ``file:///srv/people/*.parquet``. It is waited for as an upload
        is.
        """
        return (yield from self._registered("/v1/datasets", source, spec))

    @Call
    def extend(
        self,
        dataset: Facts | str,
        file: Path | str | None = None,
        spec: Mapping[str, object] | None = None,
        *,
        source: str | None = None,
    ) -> Steps[D]:
        """Add rows of new people to a data set, from a file or a ``source`` (curators).

        What comes back is its next version: a data set of its own, with all rows, that shares the
        budget. ``spec`` says what is public about the rows: ``max_rows`` where the data set has a
        bound, and perhaps a ``name``.
        """
        path = f"/v1/datasets/{dataset.id if isinstance(dataset, Facts) else dataset}/versions"
        said = dict(spec or {})
        if file is None:
            return (yield from self._registered(path, source or "", said))
        return (yield from self._sent(path, Path(file), said))

    @Listing
    def dataset_versions(self, dataset: Facts | str) -> Pages[DatasetVersion]:
        """Yield the versions of which a data set is one, newest first."""
        wanted = dataset.id if isinstance(dataset, Facts) else dataset
        return Pages(f"/v1/datasets/{wanted}/versions", DatasetVersion.model_validate)

    def dataset_of(self, members: Mapping[str, Any]) -> D:
        """Return the data set that an answer is about."""
        return self.dataset_type.model_validate({**members}, desk=self)

    def _registered(self, address: str, source: str, spec: Mapping[str, object]) -> Steps[D]:
        with Told() as told:
            told.keep_saying(f"the service reads {source}")
            response = yield from self.line.send(
                "POST",
                address,
                json={**spec, "source": source},
                timeout=_WHILE_A_FILE_IS_READ,
                **_looked_at(told, source),
            )
        return self.dataset_of(response.json())

    def _sent(self, address: str, path: Path, spec: Mapping[str, object]) -> Steps[D]:
        with path.open("rb") as stream, Sending(path, stream) as sending:
            parts = {"file": (path.name, sending), "spec": (None, json.dumps(spec))}
            response = yield from self.line.send(
                "POST",
                address,
                files=parts,
                timeout=_WHILE_A_FILE_IS_READ,
                **_looked_at(sending, path.name),
            )
        return self.dataset_of(response.json())


def _looked_at(told: Told, name: str) -> dict[str, Any]:
    """Return what a request has beside, where somebody looks how far the service has read."""
    if not told.is_seen:
        return {}
    reading = secrets.token_hex(16)

    def tell(response: httpx.Response) -> float:
        found = response.json()["items"] if response.is_success else []
        for each in found:  # none before its first rows are read, and once all are stored
            if each["reading"] == reading:
                told.tell_reading(name, each)
        return max(_LOOK_EVERY_S, told.passed_s * _UNSEEN)

    glance = Glance("/v1/readings", tell)
    return {"headers": {"Reading": reading}, "meanwhile": glance}
