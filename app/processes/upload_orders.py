"""The first message to a process that stores uploads, or compares them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class StoringOrder:
    """What a storing process is to do: store, if it gets a reader, and compare or index otherwise.

    ``extends`` is the data set that rows are added to, with the SHA-256 of its manifest, and
    ``data_dir`` is where it lies. ``source`` is where the files are that it has to feed the reader
    with, and ``access`` is how a store of objects is asked for them. ``passes`` says where parts
    are sketched. ``note`` is the name of a file that says how far it is, and by
    which text its sender knows it, if they want to know (:mod:`app.processes.upload_notes`).
    ``size`` is how large an upload is. With ``indexing`` the digests of ``earlier`` data sets are
    brought into their index (:mod:`app.uploads.digest_index`).
    """

    log_level: str
    memory_bytes: int
    directory: str
    dataset: str
    spare: bool
    task: str | None = None
    source: Mapping[str, Any] | None = None
    access: Mapping[str, Any] = field(default_factory=dict, repr=False)
    passes: Mapping[str, Any] = field(default_factory=dict, repr=False)
    sha256: str = ""
    earlier: Sequence[tuple[str, str, bool, str | None]] = ()
    together: Sequence[tuple[str, str, bool, str | None]] = ()
    data_dir: str = ""
    extends: tuple[str, str] | None = None
    note: tuple[str, str] | None = None
    size: int = 0
    indexing: bool = False

    def to_json(self) -> bytes:
        """Return the order as it is sent."""
        # not by asdict(): it would copy each of thousands of data sets
        return json.dumps({each.name: getattr(self, each.name) for each in fields(self)}).encode()

    @classmethod
    def from_json(cls, content: bytes) -> StoringOrder:
        """Return the order that was sent."""
        return cls(**json.loads(content))
