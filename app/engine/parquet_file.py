"""Parquet uploads: a child process decodes them, this one encodes the batches."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from multiprocessing.connection import Connection, Pipe
from pathlib import Path
from typing import IO

import polars as pl

from app.domain.datasets import CategorySpec, ColumnSpec, ColumnsSpec, NumberSpec
from app.engine.cells import Codes, RowEncoder
from app.engine.csv_file import name_troubles
from app.engine.csv_records import Source
from app.engine.limits import Limits
from app.engine.parquet_reader import Kind, Message, Task
from app.engine.trouble import Trouble, Troubles, UnreadableError, too_large

MAGIC = b"PAR1"
_MAX_FOOTER_BYTES = 1 << 26
_COPY_BYTES = 1 << 22
_START = """
import json, sys
sys.path[:] = json.loads(sys.argv[1])
from app.engine.parquet_reader import main
main(int(sys.argv[2]))
"""
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
    task = Task(
        path=str(path),
        kinds={name: _kind(column) for name, column in spec.columns.items()},
        max_rows=limits.max_rows,
        memory_bytes=limits.reader_memory_bytes,
    )
    with _reader() as channel:
        message = Message.NAMES
        try:
            channel.send_bytes(json.dumps(asdict(task)).encode())
            while message in (Message.NAMES, Message.BATCH):
                if not channel.poll(limits.reader_timeout_s):
                    raise EOFError
                content = channel.recv_bytes()
                message = Message(content[0])
                yield message, content[1:]
        except (EOFError, OSError):  # it was stopped, by its own limits mostly
            raise UnreadableError(UNREADABLE) from None


@contextmanager
def _reader() -> Iterator[Connection]:
    """Run the decoding process for as long as the block lasts.

    It gets nothing of this process but the module path: no environment, no
    other descriptor, and nowhere to print to.
    """
    ours, theirs = Pipe()
    with ours, theirs:
        modules = json.dumps([str(Path(entry).absolute()) for entry in sys.path])
        process = subprocess.Popen(  # noqa: S603 - fixed words, this interpreter
            [sys.executable, "-I", "-c", _START, modules, str(theirs.fileno())],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=[theirs.fileno()],
            env={},
        )
        with process:
            try:
                theirs.close()
                yield ours
            finally:
                process.kill()


def _kind(column: ColumnSpec) -> Kind:
    match column:
        case NumberSpec():
            return "number"
        case CategorySpec():
            return "category"
    return "boolean"
