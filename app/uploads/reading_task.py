"""The request to the process that reads an upload, and its result besides the rows."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from app.domain.datasets import (
    ColumnsSpec,
    columns_json,
    derived_json,
    parse_columns,
)
from app.domain.units import unit_json
from app.domain.upload_problems import UploadReport
from app.uploads.prf import Prf
from app.uploads.row_digests import KEY_BYTES, RowDigester, RowDigests
from app.uploads.trouble import Limits
from mechanisms.privacy import Adjacency


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadingTask:
    """What a reader is to do.

    ``lineage_key`` is hex, and useless without access to the digests it
    made; a reader whose decoder was taken over could read the key's file too. One that is
    ``fed`` reads the files that are given to it one after the other.
    """

    columns: Mapping[str, Any]
    derived: Mapping[str, Any]
    adjacency: str
    max_rows: int | None
    limits: Mapping[str, Any]
    unit: Mapping[str, Any] | None = None
    lineage_key: str | None = None
    text: Mapping[str, Any] = field(default_factory=dict)
    fed: bool = False

    @classmethod
    def of(
        cls, spec: ColumnsSpec, limits: Limits, *, lineage_key: bytes | None = None
    ) -> ReadingTask:
        """Return the task to read a file under a spec and limits."""
        return cls(
            columns=columns_json(spec),
            derived=derived_json(spec),
            adjacency=spec.adjacency.value,
            max_rows=spec.max_rows,
            limits={each.name: getattr(limits, each.name) for each in fields(limits)},
            unit=None if spec.unit is None else unit_json(spec.unit),
            lineage_key=None if lineage_key is None else lineage_key.hex(),
            text=asdict(spec.text),
        )

    def to_json(self) -> bytes:
        """Return the task as it is sent; a thousand columns are copied only once."""
        return json.dumps({each.name: getattr(self, each.name) for each in fields(self)}).encode()

    @classmethod
    def from_json(cls, content: bytes) -> ReadingTask:
        """Return the inverse of :meth:`to_json`."""
        return cls(**json.loads(content))

    def spec(self) -> ColumnsSpec:
        """Return the declared columns."""
        return parse_columns(
            self.columns,
            adjacency=Adjacency(self.adjacency),
            max_rows=self.max_rows,
            derived=self.derived,
            unit=self.unit,
            text=self.text,
        )

    def upload_limits(self) -> Limits:
        """Return what the upload may cost."""
        return Limits(**self.limits)

    def key(self) -> bytes | None:
        """Return the key of row digests."""
        return None if self.lineage_key is None else bytes.fromhex(self.lineage_key)

    def digester(self) -> RowDigester | None:
        """Return what makes the rows' digests, if that is asked for."""
        key = self.key()
        return None if key is None else RowDigester(key, self.spec())

    def ids(self) -> Prf:
        """Return what digests people's ids, and chooses among their rows."""
        return Prf(self.key() or bytes(KEY_BYTES))


@dataclass(slots=True)
class Tally:
    """What a reader has counted and digested on its way; complete after the last block.

    ``report`` is that of :func:`app.uploads.ingest.ingest`. ``read_bytes`` are those of the files
    up to the end of the block that has come last, as the reader says.
    """

    report: UploadReport = field(default_factory=UploadReport)
    digests: RowDigests | None = None
    read_bytes: int = 0
