"""Ingesting 10^6 rows x 10 numbers, against Polars writing the same rows to Parquet.

Both run in a process of their own, so that peak memory is the ingest's alone.
The CSV is read from disk, encoded, sketched, digested, and written as hashed parts.
"""

from __future__ import annotations

import multiprocessing
import resource
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import numpy as np
import polars as pl

from app.domain.columns import NumberSpec
from app.domain.datasets import ColumnsSpec
from app.processes.upload_reading import SHARED, checked_blocks
from app.uploads.row_digests import KEY_BYTES
from app.uploads.storing import ReadingTask, Tally, write_files
from app.uploads.trouble import Limits
from app.vault.vault import Vault
from mechanisms.privacy import Adjacency

ROWS = 1_000_000
NAMES = tuple(f"c{number}" for number in range(10))


@dataclass(frozen=True, slots=True)
class Upload:
    """Seconds of an upload and of writing Parquet alone, and the upload's peak in MB."""

    upload_s: float
    parquet_s: float
    peak_mb: float

    @property
    def ratio(self) -> float:
        """Return the upload's time over that of writing Parquet alone."""
        return self.upload_s / self.parquet_s


def _write_csv(path: Path) -> None:
    values = np.random.default_rng(7).uniform(0, 100, (ROWS, len(NAMES))).round(6)
    pl.DataFrame(values, schema=list(NAMES)).write_csv(path)


def _take_in(folder: Path) -> None:
    column = NumberSpec(lower=Fraction(0), upper=Fraction(100))
    spec = ColumnsSpec(
        columns=dict.fromkeys(NAMES, column), adjacency=Adjacency.REPLACE_ONE, max_rows=None
    )
    with (folder / "rows.csv").open("rb") as stream:
        vault, tally = Vault(folder / "vault"), Tally()
        task = ReadingTask.of(spec, Limits(), lineage_key=bytes(KEY_BYTES))
        with vault.writer("ds_study") as writer, SHARED.reading(stream, task) as channel:
            blocks = checked_blocks(channel, task, spec, tally)
            write_files(writer, blocks, spec, tally, task.ids())
            vault.publish(writer)


def _in_child(task: Callable[[Path], float], folder: Path) -> tuple[float, float]:
    """Return what the task measured and the child's peak memory in MB."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(_measured, (task, folder))


def _measured(task: Callable[[Path], float], folder: Path) -> tuple[float, float]:
    return task(folder), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _time_upload(folder: Path) -> float:
    start = time.perf_counter()
    _take_in(folder)
    return time.perf_counter() - start


def _time_parquet(folder: Path) -> float:
    frame = pl.read_csv(folder / "rows.csv")
    start = time.perf_counter()
    frame.write_parquet(folder / "rows.parquet")
    return time.perf_counter() - start


def measure() -> Upload:
    """Measure both, one after the other, on the same rows."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _write_csv(folder / "rows.csv")
        parquet_s, _ = _in_child(_time_parquet, folder)
        upload_s, peak_mb = _in_child(_time_upload, folder)
    return Upload(upload_s, parquet_s, peak_mb)
