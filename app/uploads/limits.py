"""What an upload may cost the service at most."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bounds on one upload; the defaults are those of every service, but for its settings.

    Attributes
    ----------
    max_upload_bytes
        Size of the file as sent.
    max_expanded_bytes
        Size of a gzip file's content.
    max_compression_ratio
        How many times larger than the file its content may be; small contents
        (:data:`RATIO_FREE_BYTES`) may be anything.
    max_upload_rows
        Rows of data.
    max_file_columns
        Columns in the file, declared or not.
    max_record_bytes
        Size of one CSV record, hence of a cell, and of the header.
    chunk_bytes
        How much CSV is parsed at a time; what is stored does not depend on it.
    upload_memory_bytes
        Address space of the process that reads the file.
    upload_cpu_s
        Processor time of that process, in seconds.
    silence_s
        How long it may take for its next block of rows, in seconds.
    standstill_s
        How long none of its threads may have or want a processor or wait for a disk, in seconds.
    """

    max_upload_bytes: int = 1 << 32
    max_expanded_bytes: int = 1 << 36
    max_compression_ratio: int = 250
    max_upload_rows: int = 100_000_000
    max_file_columns: int = 10_000
    max_record_bytes: int = 1 << 20
    chunk_bytes: int = 1 << 23
    upload_memory_bytes: int = 1 << 31
    upload_cpu_s: int = 1_800
    silence_s: float = 300.0
    standstill_s: float = 10.0


RATIO_FREE_BYTES = 1 << 26  # a small table of equal rows is packed to next to nothing
