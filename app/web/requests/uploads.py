"""Uploads: specs that name a source or add rows, and multipart bodies as streams.

The file part is streamed to an unnamed file, the spec part to memory.

The framework's own form parser would spool to the system's temporary
directory, which a hardened container does not have and which does not
belong to the ledger's volume.
"""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator, Collection, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

import anyio.to_thread
from pydantic import ConfigDict, Field, JsonValue
from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header
from starlette.requests import Request

from app.domain.datasets import Encoding, TextFile
from app.domain.problems import Problem, invalid_request
from app.services.datasets.extending import NewRows
from app.web.requests.schemas import EXAMPLE, DatasetSpec, OverlapSpec
from app.web.requests.values import Delimiter, Name, RequestBody, SkippedRows

# A data set's spec that says where its rows lie

LONGEST_SOURCE = 4_000
SOURCE = "file:///srv/people/2024/*.parquet"


class SourcedDatasetSpec(DatasetSpec):
    """The public description of a data set, and where its rows are stored."""

    model_config = ConfigDict(json_schema_extra={"examples": [{**EXAMPLE, "source": SOURCE}]})

    source: str = Field(max_length=LONGEST_SOURCE, examples=[SOURCE])
    """A `file:///` or `s3://` URL below one of the roots that the operator allows. A star stands
    for any characters of a name, and two as a whole name for any folders. Folders such as
    `year=2024` are columns where such are declared."""


# Multipart uploads, streamed: the file part to an unnamed file, the spec part to memory

_FILE: Final = "file"
_SPEC: Final = "spec"
_DICTIONARY: Final = "dictionary"
_DICTIONARY_BYTES = 2**24
_FLUSH_BYTES = 2**20
# boundaries, part headers and the like, beyond the two parts
_FRAMING_BYTES = 2**22
_MOST_PARTS = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class UploadLimits:
    """How large the two parts may be, in bytes."""

    file_bytes: int
    spec_bytes: int


@dataclass(frozen=True, slots=True)
class Upload:
    """A received upload; ``file`` is positioned at its start."""

    file: BinaryIO
    spec: bytes


class UploadGate:
    """Limits the uploads at a time: each may fill ``max_upload_bytes`` of the disk."""

    def __init__(self, most: int) -> None:
        self._free = most

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Hold a place for the block, on the event loop alone.

        Raises
        ------
        Problem
            ``busy``: there is none.
        """
        if self._free == 0:
            raise Problem("busy")
        self._free -= 1
        try:
            yield
        finally:
            self._free += 1


@dataclass(frozen=True, slots=True)
class SentForm:
    """A form that a browser has sent with a file; ``file`` is empty where none was chosen.

    ``dictionary`` holds the bytes of a second file, which says what the first one's columns are.
    """

    file: BinaryIO
    file_name: str
    pairs: Sequence[tuple[str, str]]
    dictionary: bytes = b""


class _Parts:
    """Receives the parser's events and sorts bytes to the part they belong to.

    With ``known`` each of these parts comes once and no other does; else any, any number of times.
    """

    def __init__(self, limits: UploadLimits, known: Collection[str] | None) -> None:
        self.limits = limits
        self.known = known
        self.texts: list[tuple[str, bytearray]] = []
        self.text_bytes = 0
        self.dictionary = bytearray()
        self.pending = bytearray()
        self.file_bytes = 0
        self.file_name = ""
        self.seen: list[str] = []
        self.ended = False
        self._field, self._value = bytearray(), bytearray()

    def callbacks(self) -> dict[str, object]:
        """Return the events this object listens to."""
        return {
            "on_part_begin": self._begin,
            "on_header_field": self._header_name,
            "on_header_value": self._header_value,
            "on_header_end": self._header_end,
            "on_headers_finished": self._headers_finished,
            "on_part_data": self._data,
            "on_end": self._end,
        }

    def _begin(self) -> None:
        self._name, self._file_name = "", ""
        self._field, self._value = bytearray(), bytearray()

    def _header_name(self, data: bytes, start: int, end: int) -> None:
        self._field += data[start:end]

    def _header_value(self, data: bytes, start: int, end: int) -> None:
        self._value += data[start:end]

    def _header_end(self) -> None:
        if bytes(self._field).lower() == b"content-disposition":
            _, options = parse_options_header(bytes(self._value))
            self._name = options.get(b"name", b"").decode("utf-8", "replace")
            self._file_name = options.get(b"filename", b"").decode("utf-8", "replace")
        self._field, self._value = bytearray(), bytearray()

    def _headers_finished(self) -> None:
        if self.known is not None and self._name not in self.known:
            raise invalid_request("body", "takes a part named file and a part named spec, no other")
        once = self.known is not None or self._name in (_FILE, _DICTIONARY)
        if self._name in self.seen and once:
            raise invalid_request(self._name, "is given twice")
        self.seen.append(self._name)
        if self._name == _FILE:
            self.file_name = self._file_name
        elif self._is_dictionary:
            pass
        elif len(self.texts) == _MOST_PARTS:
            raise _too_large("max_request_bytes", self.limits.spec_bytes)
        else:
            self.texts.append((self._name, bytearray()))

    def _data(self, data: bytes, start: int, end: int) -> None:
        if self._name == _FILE:
            self.file_bytes += end - start
            if self.file_bytes > self.limits.file_bytes:
                raise _too_large("max_upload_bytes", self.limits.file_bytes)
            self.pending += data[start:end]
            return
        if self._is_dictionary:
            self.dictionary += data[start:end]
            if len(self.dictionary) > _DICTIONARY_BYTES:
                raise invalid_request(_DICTIONARY, f"is larger than {_DICTIONARY_BYTES} bytes")
            return
        self.text_bytes += end - start
        if self.text_bytes > self.limits.spec_bytes:
            raise _too_large("max_request_bytes", self.limits.spec_bytes)
        self.texts[-1][1].extend(data[start:end])

    @property
    def _is_dictionary(self) -> bool:
        """Say whether this part is a form's second file."""
        return self.known is None and self._name == _DICTIONARY

    def _end(self) -> None:
        self.ended = True

    def check_complete(self) -> None:
        """Refuse a body that stopped early or lacks a part."""
        if not self.ended:
            raise Problem("malformed-request", "The multipart body ends before its last boundary.")
        for name in self.known or ():
            if name not in self.seen:
                raise invalid_request(name, "is required")


@asynccontextmanager
async def receive_upload(
    request: Request, *, directory: Path, limits: UploadLimits
) -> AsyncIterator[Upload]:
    """Receive a multipart body in bounded memory; the file is gone after the block.

    Raises
    ------
    Problem
        Not multipart (415), malformed (400), unknown or missing parts (422),
        or larger than the limits (413).
    """
    parts = _Parts(limits, (_FILE, _SPEC))
    async with _received(request, parts, directory) as file:
        yield Upload(file, bytes(parts.texts[0][1]))


@asynccontextmanager
async def receive_form(
    request: Request, *, directory: Path, limits: UploadLimits
) -> AsyncIterator[SentForm]:
    """Receive a browser's form with a file in it; the file is gone after the block.

    Raises
    ------
    Problem
        As :func:`receive_upload`.
    """
    parts = _Parts(limits, None)
    async with _received(request, parts, directory) as file:
        try:
            pairs = [(name, content.decode()) for name, content in parts.texts]
        except UnicodeDecodeError:
            raise Problem("malformed-request", "The form is not UTF-8 text.") from None
        yield SentForm(file, parts.file_name, pairs, bytes(parts.dictionary))


@asynccontextmanager
async def _received(request: Request, parts: _Parts, directory: Path) -> AsyncIterator[BinaryIO]:
    """Give the file of a body whose parts have all come."""
    parser = MultipartParser(_boundary(request), parts.callbacks())  # type: ignore[arg-type]
    limits, received = parts.limits, 0
    with tempfile.TemporaryFile(dir=directory) as file:
        async for chunk in request.stream():
            received += len(chunk)
            if received > limits.file_bytes + limits.spec_bytes + _FRAMING_BYTES:
                raise _too_large("max_upload_bytes", limits.file_bytes)
            try:
                parser.write(chunk)
            except FormParserError:
                raise Problem("malformed-request", "The multipart body is malformed.") from None
            if len(parts.pending) >= _FLUSH_BYTES:
                await anyio.to_thread.run_sync(file.write, bytes(parts.pending))
                parts.pending.clear()
        file.write(parts.pending)
        parts.check_complete()
        file.seek(0)
        yield file


def _boundary(request: Request) -> bytes:
    kind, options = parse_options_header(request.headers.get("content-type", ""))
    if kind != b"multipart/form-data":
        raise Problem("unsupported-media-type", "Send multipart/form-data, or a source as JSON.")
    boundary = options.get(b"boundary", b"")
    if not 1 <= len(boundary) <= 70:
        raise Problem("malformed-request", "The multipart boundary is missing or too long.")
    return boundary


def _too_large(setting: str, maximum: int) -> Problem:
    return Problem(
        "too-large",
        f"The upload is larger than {setting} ({maximum} bytes).",
        limit=setting,
        maximum=maximum,
    )


_EXAMPLE: dict[str, JsonValue] = {"name": "engel, 1858"}


class VersionSpec(RequestBody):
    """The public description of rows that are added to a data set; all else is the data set's."""

    model_config = ConfigDict(json_schema_extra={"examples": [_EXAMPLE]})

    name: Name | None = Field(default=None, examples=["engel, 1858"])
    """What the new version is called: the data set's name and the version's number, unless this
    says otherwise."""
    max_rows: int | None = Field(default=None, ge=1, le=10**12, examples=[1000])
    """Public bound on how many rows are added, required where the data set has a bound. The new
    version's bound is their sum."""
    delimiter: Delimiter = Field(default=",", examples=[";"])
    """The delimiter of a CSV file."""
    encoding: Encoding = Field(default="utf-8", examples=["windows-1252"])
    """How the text of a CSV file is encoded."""
    skip_rows: SkippedRows = Field(default=0, examples=[3])
    """How many lines above the header of a CSV file are titles, which are not read."""
    overlap: OverlapSpec | None = Field(default=None, examples=[{"reason": "other people"}])
    """An admin's statement that rows which look like earlier data are about other people."""

    def declared(self) -> NewRows:
        """Return the declaration, as the services know it."""
        return NewRows(
            name=self.name,
            max_rows=self.max_rows,
            text=TextFile(
                delimiter=self.delimiter, encoding=self.encoding, skip_rows=self.skip_rows
            ),
            overlap_reason=None if self.overlap is None else self.overlap.reason,
        )


class SourcedVersionSpec(VersionSpec):
    """The public description of rows that are added, and where they are stored."""

    model_config = ConfigDict(json_schema_extra={"examples": [{**_EXAMPLE, "source": SOURCE}]})

    source: str = Field(max_length=LONGEST_SOURCE, examples=[SOURCE])
    """A URL below one of the roots that the operator allows, as for a new data set."""
