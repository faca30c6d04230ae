"""Calls that bring rows to the service: data sets, and versions of them."""

from __future__ import annotations

import io
import json
import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

import httpx

from app.client.answers import Answer, is_frame, plain, write_frame
from app.client.datasets import Facts
from app.client.questions import Line as ProgressLine
from app.client.questions import Sending
from app.client.releasing import Call, Glance, Line, Listing, Pages, Steps

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
    def upload(self, file: Path | str | Any, spec: Mapping[str, object]) -> Steps[D]:
        """Upload a CSV, CSV.gz, Parquet or Excel file under a public spec (curators).

        ``file`` is a path, the content of a file as bytes, a file opened to read bytes, or a data
        frame of pandas or polars. A frame's times with a zone are sent as instants.

        On a terminal or in a notebook a line says how far it is, sent and read. The answer comes
        when the file has been read; it is waited for a day, whatever ``timeout_s`` is.
        """
        return (yield from self._sent("/v1/datasets", file, spec))

    @Call
    def check(
        self,
        file: Path | str | Any,
        spec: Mapping[str, object],
        *,
        extends: Facts | str | None = None,
    ) -> Steps[Mapping[str, Any]]:
        """Say how the service would read a file, and keep nothing of it (curators).

        What comes back is the ``report`` of an upload: counts by column, and ``warnings`` of
        columns to look at again. ``extends`` is the data set that the rows would be added to.
        """
        path = "/v1/datasets"
        if extends is not None:
            wanted = extends.id if isinstance(extends, Facts) else extends
            path = f"{path}/{wanted}/versions"
        response = yield from self._posted(f"{path}?check=true", file, spec)
        report: Mapping[str, Any] = response.json()["report"]
        return report

    @Call
    def replace(
        self, dataset: Facts | str, file: Path | str | Any, spec: Mapping[str, object]
    ) -> Steps[D]:
        """Upload a file in the place of a data set that has no releases (curators).

        In one step the new data set is there, the old one is deleted and its account closed: the
        people of both may be the same, and the name may be.
        """
        replaced = dataset.id if isinstance(dataset, Facts) else dataset
        return (yield from self._sent("/v1/datasets", file, {**spec, "replaces": replaced}))

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
        file: Path | str | Any = None,
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
        return (yield from self._sent(path, file, said))

    @Listing
    def dataset_versions(self, dataset: Facts | str) -> Pages[DatasetVersion]:
        """Yield the versions of which a data set is one, newest first."""
        wanted = dataset.id if isinstance(dataset, Facts) else dataset
        return Pages(f"/v1/datasets/{wanted}/versions", DatasetVersion.model_validate)

    def dataset_of(self, members: Mapping[str, Any]) -> D:
        """Return the data set that an answer is about."""
        return self.dataset_type.model_validate({**members}, desk=self)

    def _registered(self, address: str, source: str, spec: Mapping[str, object]) -> Steps[D]:
        with ProgressLine() as progress:
            progress.keep_saying(f"the service reads {source}")
            response = yield from self.line.send(
                "POST",
                address,
                json={**plain(spec), "source": source},
                timeout=_WHILE_A_FILE_IS_READ,
                **_looked_at(progress, source),
            )
        return self.dataset_of(response.json())

    def _sent(self, address: str, file: Any, spec: Mapping[str, object]) -> Steps[D]:
        response = yield from self._posted(address, file, spec)
        return self.dataset_of(response.json())

    def _posted(self, address: str, file: Any, spec: Mapping[str, object]) -> Steps[httpx.Response]:
        with (
            _path_of(file, spec) as path,
            path.open("rb") as stream,
            Sending(path, stream) as sending,
        ):
            parts = {"file": (path.name, sending), "spec": (None, json.dumps(plain(spec)))}
            response = yield from self.line.send(
                "POST",
                address,
                files=parts,
                timeout=_WHILE_A_FILE_IS_READ,
                **_looked_at(sending, path.name),
            )
        return response


@contextmanager
def _path_of(file: Any, spec: Mapping[str, Any]) -> Iterator[Path]:
    """Give the path of a file, or of one that a data frame or a file's content is written to."""
    if isinstance(file, str | os.PathLike):
        yield Path(file)
        return
    with tempfile.TemporaryDirectory(prefix="release-desk-") as folder:
        if is_frame(file):
            path = Path(folder) / "data frame.csv"
            with path.open("w", encoding="utf-8", newline="") as stream:
                write_frame(file, spec, stream)
        else:
            path = Path(folder) / "content"
            with path.open("wb") as copy:
                shutil.copyfileobj(io.BytesIO(file) if isinstance(file, bytes) else file, copy)
        yield path


def _looked_at(progress: ProgressLine, name: str) -> dict[str, Any]:
    """Return the extra content of a request, where its progress is shown."""
    if not progress.is_seen:
        return {}
    reading = secrets.token_hex(16)

    def reading_pause(response: httpx.Response) -> float:
        found = response.json()["items"] if response.is_success else []
        for each in found:  # none before its first rows are read, and once all are stored
            if each["reading"] == reading:
                progress.tell_reading(name, each)
        return max(_LOOK_EVERY_S, progress.passed_s * _UNSEEN)

    glance = Glance("/v1/readings", reading_pause)
    return {"headers": {"Reading": reading}, "glance": glance}
