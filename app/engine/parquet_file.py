"""Parquet uploads: a child process decodes them, this one encodes the batches."""

from __future__ import annotations

import json
import multiprocessing
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import IO

import polars as pl

from app.domain.datasets import CategorySpec, ColumnSpec, ColumnsSpec, NumberSpec
from app.engine.cells import Codes, RowEncoder
from app.engine.csv_file import name_troubles
from app.engine.csv_records import Source
from app.engine.limits import Limits
from app.engine.parquet_reader import Kind, Message, serve
from app.engine.trouble import Trouble, Troubles, UnreadableError, too_large

MAGIC = b"PAR1"
_MAX_FOOTER_BYTES = 1 << 26
_COPY_BYTES = 1 << 22
UNREADABLE = "is not a Parquet file that can be read within the limits"
WRONG_TYPE = "has a type in the file that does not fit the declared one"


def parquet_blocks(
    source: Source,
    spec: ColumnsSpec,
    *,
    encoder: RowEncoder,
    limits: Limits,
    troubles: Troubles,
    scratch: Path | None,
) -> Iterator[Mapping[str, Codes]]:
    """Yield the declared columns of a Parquet file as blocks of codes, in order.

    ``scratch`` is the directory for a copy of the file, which is gone afterwards.

    Raises
    ------
    UnreadableError, Problem
        The file cannot be decoded; ``too-large``.
    """
    with tempfile.NamedTemporaryFile(dir=scratch, suffix=".parquet") as file:
        while chunk := source.read(_COPY_BYTES):
            file.write(chunk)
        file.flush()
        _check_ends(file)
        row = 1
        for message, body in _decoded(Path(file.name), spec, limits):
            match message:
                case Message.NAMES:
                    names = json.loads(body)
                    if len(names) > limits.max_columns:
                        raise too_large("max_columns", limits.max_columns)
                    troubles.extend(name_troubles(names, spec))
                case Message.WRONG_TYPES:
                    troubles.extend(Trouble(None, name, WRONG_TYPE) for name in json.loads(body))
                case Message.TOO_MANY_ROWS:
                    raise too_large("max_rows", limits.max_rows)
                case Message.UNREADABLE:
                    raise UnreadableError(UNREADABLE)
                case Message.BATCH:
                    frame = pl.read_ipc(body)
                    block = encoder.encode(frame, row, troubles)
                    row += frame.height
                    if not troubles:
                        yield block
            if troubles.full or (troubles and message is not Message.BATCH):
                return


def _check_ends(file: IO[bytes]) -> None:
    """Check both magic words and that the footer lies within the file."""
    size = file.seek(0, 2)
    if size < 3 * len(MAGIC):
        raise UnreadableError(UNREADABLE)
    file.seek(size - 8)
    tail = file.read(8)
    footer = int.from_bytes(tail[:4], "little")
    if tail[4:] != MAGIC or footer > min(size - 12, _MAX_FOOTER_BYTES):
        raise UnreadableError(UNREADABLE)


def _decoded(path: Path, spec: ColumnsSpec, limits: Limits) -> Iterator[tuple[Message, bytes]]:
    kinds = {name: _kind(column) for name, column in spec.columns.items()}
    with _reader(path, kinds, limits) as connection:
        while True:
            try:
                if not connection.poll(limits.reader_timeout_s):
                    raise UnreadableError(UNREADABLE)
                content = connection.recv_bytes()
            except (EOFError, OSError):  # the child was stopped, by its own limits mostly
                raise UnreadableError(UNREADABLE) from None
            message = Message(content[0])
            yield message, content[1:]
            if message not in (Message.NAMES, Message.BATCH):
                return


@contextmanager
def _reader(path: Path, kinds: Mapping[str, Kind], limits: Limits) -> Iterator[Connection]:
    """Run the decoding process for as long as the block lasts."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(
        target=serve,
        args=(theirs, str(path), kinds),
        kwargs={"max_rows": limits.max_rows, "memory_bytes": limits.reader_memory_bytes},
        daemon=True,
    )
    try:
        process.start()
        theirs.close()
        yield ours
    finally:
        ours.close()
        if process.pid is not None:
            process.kill()
            process.join()
            process.close()


def _kind(column: ColumnSpec) -> Kind:
    match column:
        case NumberSpec():
            return "number"
        case CategorySpec():
            return "category"
    return "boolean"
