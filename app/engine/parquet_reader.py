"""The process that decodes an uploaded Parquet file, so that the service need not.

A Parquet file is a program for its decoder: a few bytes can declare gigabytes,
and a decoder that gives up may end its process or print cells. So the decoding
is done by a child with a bounded address space and no error output. It sends
Arrow batches, or one of a few fixed words about what is wrong.

Each message is one byte that says what it is (:class:`Message`) and a body.
"""

from __future__ import annotations

import io
import json
import resource
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum
from multiprocessing.connection import Connection
from typing import Literal

import polars as pl

BATCH_ROWS = 1 << 16

Kind = Literal["number", "category", "boolean"]


class Message(IntEnum):
    """What a message's body is."""

    NAMES = 0
    """JSON: the columns' names, in the file's order."""
    BATCH = 1
    """Arrow IPC: floats for numbers, texts for the rest."""
    WRONG_TYPES = 2
    """JSON: the declared columns whose type does not fit; the last message."""
    TOO_MANY_ROWS = 3
    """Nothing; the last message."""
    UNREADABLE = 4
    """Nothing; the last message."""
    END = 5
    """Nothing; the last message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """What the process is started for; it arrives as JSON on its channel."""

    path: str
    kinds: Mapping[str, Kind]
    max_rows: int
    memory_bytes: int


def main(descriptor: int) -> None:
    """Send what the file holds in the declared columns, then leave."""
    with Connection(descriptor) as channel:
        task = Task(**json.loads(channel.recv_bytes()))
        resource.setrlimit(resource.RLIMIT_AS, (task.memory_bytes, task.memory_bytes))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        try:
            for message, body in _messages(task.path, task.kinds, task.max_rows):
                channel.send_bytes(bytes([message]) + body)
        except BrokenPipeError:
            return
        except BaseException:  # the decoder's panics are no Exception; what they say is dropped
            channel.send_bytes(bytes([Message.UNREADABLE]))


def _messages(
    path: str, kinds: Mapping[str, Kind], max_rows: int
) -> Iterator[tuple[Message, bytes]]:
    types = pl.read_parquet_schema(path)
    yield Message.NAMES, json.dumps(list(types)).encode()
    if not set(kinds) <= set(types):
        return
    wrong = [name for name, kind in kinds.items() if not _fits(types[name], kind)]
    if wrong:
        yield Message.WRONG_TYPES, json.dumps(wrong).encode()
        return
    frame = pl.scan_parquet(path, glob=False, hive_partitioning=False, low_memory=True)
    declared = frame.select(pl.len()).collect().item()
    if declared > max_rows:
        yield Message.TOO_MANY_ROWS, b""
        return
    rows = 0
    for batch in _batches(frame.select(_casts(kinds))):
        rows += batch.height
        body = io.BytesIO()
        batch.write_ipc(body)
        yield Message.BATCH, body.getvalue()
    yield (Message.END if rows == declared else Message.UNREADABLE), b""


def _batches(frame: pl.LazyFrame) -> Iterator[pl.DataFrame]:
    yield from frame.collect_batches(chunk_size=BATCH_ROWS, maintain_order=True)


def _fits(kind_in_file: pl.DataType, kind: Kind) -> bool:
    if kind_in_file == pl.Null:
        return True
    texts = isinstance(kind_in_file, pl.String | pl.Categorical | pl.Enum)
    match kind:
        case "number":
            return kind_in_file.is_numeric()
        case "category":
            return texts or kind_in_file.is_integer()
    return texts or kind_in_file == pl.Boolean or kind_in_file.is_integer()


def _casts(kinds: Mapping[str, Kind]) -> list[pl.Expr]:
    """Cast numbers to floats, and the rest to the text a CSV file would have."""
    return [
        pl.col(name).cast(pl.Float64 if kind == "number" else pl.String)
        for name, kind in kinds.items()
    ]
