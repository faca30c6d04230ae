"""The measured work: ingesting rows, the same with Polars, and drawing every statistic."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import polars as pl
from pydantic import TypeAdapter

from app.engine.choice import Passes
from app.engine.data import DataEngine
from app.engine.executor import DEFAULT_KEEP_BYTES
from app.engine.schema import schema_of
from app.processes.program import keep_memory
from app.processes.upload_reading import SHARED, checked_blocks
from app.uploads.row_digests import KEY_BYTES
from app.uploads.storing import ReadingTask, Tally, write_files
from app.uploads.trouble import Limits
from app.vault.vault import Vault
from mechanisms.catalog import STATISTICS, calibrate
from mechanisms.contract import InvalidStatisticError, Plan, Statistic
from mechanisms.privacy import Epsilon
from mechanisms.randomness import system_randomness
from mechanisms.statistics.conditions import Condition
from mechanisms.statistics.correlation import Correlation
from mechanisms.statistics.count import Count
from mechanisms.statistics.covariance import Covariance
from mechanisms.statistics.geometric_median import GeometricMedian
from mechanisms.statistics.histogram import Histogram
from mechanisms.statistics.linear_regression import LinearRegression
from mechanisms.statistics.logistic_regression import LogisticRegression
from mechanisms.statistics.mean import Mean
from mechanisms.statistics.moments import Moments
from mechanisms.statistics.quantile import Quantile
from mechanisms.statistics.quantile_regression import QuantileRegression
from mechanisms.statistics.stack import Part, Stack
from mechanisms.statistics.std import Std
from mechanisms.statistics.total import Sum
from mechanisms.statistics.variance import Variance
from studies.scale.rows import GROUPS, NUMBERS, spec

DATASET = "ds_scale"
_DRAWS = 3
_QUICK_S = 2.0
_TWO = NUMBERS[:2]
_SKETCHED: tuple[Statistic, ...] = (
    Histogram(columns=("group",)),
    Sum(columns=_TWO),
    Mean(columns=_TWO),
    Variance(columns=_TWO),
    Std(columns=_TWO),
    Moments(columns=_TWO),
    Covariance(columns=_TWO),
    Correlation(columns=_TWO),
    Quantile(column=NUMBERS[0], levels=(0.5,)),
    LinearRegression(target=NUMBERS[0], features=NUMBERS[1:5], bound=2.0),
    Stack(
        parts=(Part(statistic=Mean(columns=_TWO)), Part(statistic=Histogram(columns=("group",))))
    ),
)
_READING: tuple[tuple[Statistic, str], ...] = (
    (Count(where=(Condition(column=NUMBERS[0], op=">", value=50),)), "auto"),
    (LogisticRegression(target="yes", features=NUMBERS[1:3]), "objective_perturbation"),
    (QuantileRegression(target=NUMBERS[0], features=NUMBERS[1:3], bound=2.0), "kng"),
    (GeometricMedian(columns=_TWO), "kng"),
)


def statistics() -> Mapping[str, tuple[Statistic, str, bool]]:
    """Return the questions by kind: statistic, mechanism, and whether its draw reads rows."""
    found = {each.kind: (each, "auto", False) for each in (*_SKETCHED, *_examples())}
    return found | {each.kind: (each, mechanism, True) for each, mechanism in _READING}


def _examples() -> Iterator[Statistic]:
    """Yield the examples of all other kinds, about these columns."""
    known = {each.kind for each in (*_SKETCHED, *(each for each, _ in _READING))}
    ours = {"column": NUMBERS[0], "columns": list(_TWO)}
    for kind, statistic in STATISTICS.items():
        if kind not in known:
            asked = {name: ours.get(name, value) for name, value in statistic.example.items()}
            yield TypeAdapter(statistic).validate_python(asked)


def take_in(file: Path, folder: Path, passes: Passes) -> dict[str, Any]:
    """Read, check, encode, sketch, digest and store a file, as the service's processes do."""
    keep_memory()
    # one process sketches what comes by; several sketch what is stored
    executor = passes.executor() if passes != Passes() else None
    declared, started = spec(), time.perf_counter()
    size = file.stat().st_size
    limits = Limits(max_upload_bytes=max(size, 1 << 32), silence_s=3600, standstill_s=600)
    with file.open("rb") as stream:
        vault, tally = Vault(folder), Tally()
        task = ReadingTask.of(declared, limits, lineage_key=bytes(KEY_BYTES))
        with vault.writer(DATASET) as writer, SHARED.reading(stream, task) as channel:
            blocks = checked_blocks(channel, task, declared, tally)
            write_files(writer, blocks, declared, tally, task.ids(), executor=executor)
            vault.publish(writer)
    seconds = time.perf_counter() - started
    if executor is not None:
        executor.close()
    stored = sum(each.stat().st_size for each in (folder / "datasets" / DATASET).iterdir())
    return {"seconds": seconds, "bytes": stored}


def by_polars(file: Path, out: Path) -> dict[str, Any]:
    """Have Polars read the same file, clamp its cells, and write the same values as Parquet."""
    numbers = [pl.col(name).clip(0, 100) for name in NUMBERS]
    places = pl.col("group").cast(pl.Enum(GROUPS)).to_physical().cast(pl.UInt8)
    truths = pl.col("yes").cast(pl.UInt8)
    started = time.perf_counter()
    pl.scan_parquet(file).select(*numbers, places, truths).sink_parquet(out, compression="zstd")
    seconds = time.perf_counter() - started
    size = out.stat().st_size
    out.unlink()
    return {"seconds": seconds, "bytes": size}


def plan_of(kind: str, rows: int) -> Plan:
    """Return the plan of a statistic about ``rows`` rows."""
    statistic, mechanism, _ = statistics()[kind]
    schema = schema_of(spec(), rows=rows)
    return calibrate(statistic, schema, Epsilon.parse("1"), mechanism=mechanism)


def draw(kind: str, rows: int, folder: Path, passes: Passes) -> dict[str, Any]:
    """Open the stored rows and draw a statistic: the first time, and when all is at hand."""
    _, _, reads = statistics()[kind]
    # as the service's processes that draw
    executor = passes.executor(keep_bytes=DEFAULT_KEEP_BYTES)
    try:
        try:
            plan = plan_of(kind, rows)
        except InvalidStatisticError:
            return {"seconds": 0.0, "status": "refused"}
        times: list[float] = []
        started = time.perf_counter()
        data = DataEngine(Vault(folder), executor=executor).open(DATASET)
        # rows that have been read are cached: only the first draw includes reading them
        while not times or (not reads and len(times) <= _DRAWS and times[0] < _QUICK_S):
            plan.draw(data, system_randomness())
            times.append(time.perf_counter() - started)
            started = time.perf_counter()
        first, *later = times
        return {"seconds": min(later, default=first), "first_s": first}
    finally:
        executor.close()
