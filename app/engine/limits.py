"""What an upload may cost the service at most."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bounds on one upload.

    Attributes
    ----------
    max_bytes
        Size of the file as sent.
    max_expanded_bytes
        Size of a gzip file's content.
    max_rows
        Rows of data.
    max_columns
        Columns in the file, declared or not.
    max_record_bytes
        Size of one CSV record, hence of a cell.
    chunk_bytes
        How much CSV is parsed at a time; what is stored does not depend on it.
    reader_memory_bytes
        Address space of the process that decodes a Parquet file.
    reader_timeout_s
        How long that process may take for one batch of rows, in seconds.
    """

    max_bytes: int = 1 << 32
    max_expanded_bytes: int = 1 << 36
    max_rows: int = 100_000_000
    max_columns: int = 10_000
    max_record_bytes: int = 1 << 20
    chunk_bytes: int = 1 << 23
    reader_memory_bytes: int = 1 << 32
    reader_timeout_s: float = 120.0
