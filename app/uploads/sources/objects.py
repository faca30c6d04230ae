"""Objects in a store that speaks S3, below a root that is a bucket or a prefix in it.

The store is asked at the address of the operator's settings and nowhere else: no redirect is
followed, and neither the machine's environment nor its cloud is asked for credentials. Each
object is copied to a file without a name, by ranges of bytes, all of the one content that its
ETag names; so the reader needs no network, and what it reads is what was digested.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path as Directory
from typing import Any

from app.domain.problems import Problem
from app.domain.sources import Path, Source, meets
from app.uploads.sources.places import (
    ABSENT,
    DENIED,
    EMPTY,
    NO_TEXT,
    Look,
    changed,
    too_many,
    unreadable,
)

_RANGE_BYTES = 1 << 24
_TRIES = 3
_NOBODY = "nobody"
"""In place of a key where nothing is signed; without one the cloud would be asked for some."""
_MOST_LOOKED_AT = 100
"""Names that are looked at, for each file that there may be."""
SILENT = "the object store does not answer as it should"
_TOLD: Mapping[int, Callable[[], Problem]] = {
    403: lambda: unreadable(DENIED),
    404: lambda: unreadable(ABSENT),
    412: changed,
    416: changed,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectAccess:
    """Where the store is, and the credentials to use; without a key, requests are anonymous."""

    endpoint: str | None = None
    region: str = "us-east-1"
    key_id: str | None = None
    secret: str | None = field(default=None, repr=False)
    token: str | None = field(default=None, repr=False)

    def to_json(self) -> dict[str, Any]:
        """Return the access as it is sent to a process of ours."""
        return asdict(self)


class Objects:
    """The files of a source in a store.

    Parameters
    ----------
    source
        Which files.
    access
        How the store is asked.
    scratch
        Where copies are made, of two objects at most at a time.
    """

    def __init__(self, source: Source, access: ObjectAccess, scratch: Directory) -> None:
        self._source = source
        self._scratch = scratch
        self._client = _client(access)
        self._prefix = "".join(f"{each}/" for each in source.root.path)

    def found(self) -> Mapping[Path, int]:
        """Return the source's files in order, and their sizes; see :class:`Place`."""
        if self._source.is_one_file:
            return {self._source.pattern: 0}
        literal = []
        for segment in self._source.pattern:
            if "*" in segment:
                break
            literal.append(f"{segment}/")
        found: dict[Path, int] = {}
        for looked_at, (key, size) in enumerate(self._keys(self._prefix + "".join(literal)), 1):
            path = tuple(key.removeprefix(self._prefix).split("/"))
            if {"", ".", ".."}.isdisjoint(path) and meets(self._source.pattern, path):
                found[path] = size
            most = self._source.max_files
            if len(found) > most or looked_at > _MOST_LOOKED_AT * most:
                raise too_many(most)
        if not found:
            raise unreadable(EMPTY)
        return dict(sorted(found.items()))

    def opened(self, path: Path) -> ObjectFile:
        """Open one of them; see :class:`Place`."""
        key = self._prefix + "/".join(path)
        if not key.isprintable():
            raise unreadable(NO_TEXT)
        about = {"Bucket": self._source.root.bucket, "Key": key}
        return ObjectFile(self._client, about, path, self._scratch)

    def close(self) -> None:
        """Be done with it."""
        self._client.close()

    def _keys(self, prefix: str) -> Iterator[tuple[str, int]]:
        pages = self._client.get_paginator("list_objects_v2")
        with _told():
            for page in pages.paginate(Bucket=self._source.root.bucket, Prefix=prefix):
                for each in page.get("Contents", ()):
                    yield str(each["Key"]), int(each["Size"])


class ObjectFile:
    """An object as it was when it was opened; it is copied when it is first asked for."""

    def __init__(
        self, client: Any, about: Mapping[str, str], path: Path, scratch: Directory
    ) -> None:
        self.path = path
        self._client = client
        self._about = about
        self.look = self.look_again()
        self.etag: str | None = self.look.mark
        self._copy = tempfile.TemporaryFile(dir=scratch, buffering=0)  # noqa: SIM115
        self._copied = 0

    @property
    def descriptor(self) -> int:
        """Return what reads the copy."""
        return self._copy.fileno()

    def pieces(self) -> Iterator[bytes]:
        """Yield all of its bytes."""
        place = 0
        while place < self.look.size:
            stop = min(place + _RANGE_BYTES, self.look.size)
            piece = os.pread(self.descriptor, stop - place, place)
            if self._copied <= place:
                piece = self._fetched(place, stop)
                self._copy.write(piece)
                self._copied += len(piece)
            place += len(piece)
            yield piece

    def look_again(self) -> Look:
        """Return what the object of this name looks like now; see :class:`Opened`."""
        with _told():
            found = self._client.head_object(**self._about)
        if not found.get("ETag"):
            raise unreadable(SILENT)
        return Look(found["ContentLength"], found["ETag"])

    def close(self) -> None:
        """Be done with it."""
        self._copy.close()

    def _fetched(self, start: int, stop: int) -> bytes:
        """Return a range of the bytes; what breaks off on the way is asked for again."""
        from botocore.exceptions import BotoCoreError  # noqa: PLC0415 - of the extra

        wanted = {**self._about, "Range": f"bytes={start}-{stop - 1}", "IfMatch": self.look.mark}
        with _told():
            # the client tries requests again, but no body that breaks off
            for attempt in range(_TRIES):
                try:
                    content: bytes = self._client.get_object(**wanted)["Body"].read()
                except BotoCoreError:
                    if attempt == _TRIES - 1:
                        raise
                else:
                    if len(content) == stop - start:
                        return content
        raise unreadable(SILENT)


def _client(access: ObjectAccess) -> Any:
    from botocore import UNSIGNED  # noqa: PLC0415 - of the extra
    from botocore.config import Config  # noqa: PLC0415
    from botocore.session import Session  # noqa: PLC0415

    options = Config(
        signature_version=UNSIGNED if access.key_id is None else "s3v4",
        s3={"addressing_style": "auto" if access.endpoint is None else "path"},
        proxies={},
        retries={"total_max_attempts": _TRIES, "mode": "standard"},
        connect_timeout=10,
        read_timeout=60,
        request_checksum_calculation="when_required",
        response_checksum_validation="when_required",
    )
    session = Session()
    # what the machine has of its own is not the operator's word
    for variable in ("config_file", "credentials_file"):
        session.set_config_variable(variable, os.devnull)
    client = session.create_client(
        "s3",
        region_name=access.region,
        endpoint_url=access.endpoint or f"https://s3.{access.region}.amazonaws.com",
        aws_access_key_id=access.key_id or _NOBODY,
        aws_secret_access_key=access.secret or _NOBODY,
        aws_session_token=access.token,
        config=options,
    )
    client.meta.events.register("before-call.s3", _stay)
    return client


def _stay(context: dict[str, Any], **_: object) -> None:
    """Have the client take a request for one that has been sent to another region already.

    Otherwise an answer that names a region would lead to further requests, of which a store
    could have any number.
    """
    context.setdefault("s3_redirect", {})["redirected"] = True


@contextmanager
def _told() -> Iterator[None]:
    """Report failures of the store in fixed words; its own messages are dropped."""
    from botocore.exceptions import BotoCoreError, ClientError  # noqa: PLC0415 - of the extra

    try:
        yield
    except ClientError as error:
        status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
        raise _TOLD.get(status, lambda: unreadable(SILENT))() from None
    except BotoCoreError:
        raise unreadable(SILENT) from None
