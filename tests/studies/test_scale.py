"""The study of scale: its rows, its cells, what is fitted, and what its page says."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from importlib.machinery import ModuleSpec
from multiprocessing.connection import Connection
from multiprocessing.spawn import get_preparation_data
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import cast

import numpy as np
import polars as pl
import pytest

from app.services.plans.questions import KINDS
from studies.growth import growth
from studies.scale import measuring, page, rows, run, store, work
from studies.scale.fitting import model, slope
from studies.scale.measuring import Measured
from studies.scale.store import Row


def test_rows_are_the_same_in_any_run_of_them(tmp_path: Path) -> None:
    rows.write(tmp_path / "rows.parquet", 1_000)
    made = pl.read_parquet(tmp_path / "rows.parquet")
    assert made.equals(rows.run_of(0, 1_000))
    assert not rows.run_of(1, 1_000).equals(made)
    assert made.columns == [*rows.spec().in_file]
    size = len(made.write_csv().encode())
    assert rows.csv_bytes(1_000) == size
    reported = work.by_polars(tmp_path / "rows.parquet", tmp_path / "codes.parquet")
    assert reported["bytes"] > 0
    assert not (tmp_path / "codes.parquet").exists(), "nothing is left"


def test_every_statistic_of_the_catalog_is_asked() -> None:
    assert {*work.statistics()} == {*KINDS}
    asked = {each.what for each in run.cells(10**8)}
    assert asked == {*KINDS, run.INGEST, run.POLARS}
    assert {each.rows for each in run.cells(10**5)} == {10**3, 10**4, 10**5}
    reading = {each.what for each in run.cells(10**6) if each.executor == run.POOL}
    assert reading == {
        run.INGEST,
        *(kind for kind, (_, _, reads) in work.statistics().items() if reads),
    }


@pytest.mark.parametrize(("start", "per_row"), [(0.0, 1e-6), (2.0, 1e-7), (0.5, 0.0)])
def test_the_model_finds_what_lines_are_made_of(start: float, per_row: float) -> None:
    points = [(10**power, start + per_row * 10**power) for power in range(3, 8)]
    found = model(points)
    assert found is not None
    assert found.at(10**9) == pytest.approx(start + per_row * 10**9, rel=1e-6)
    steep = slope(points)
    assert steep is not None
    assert np.sign(round(steep, 6)) == np.sign(per_row)
    assert model(points[:2]) is None
    assert slope([]) is None


def test_a_run_goes_on_where_it_was(tmp_path: Path) -> None:
    path = tmp_path / "scale.csv"
    known = [
        Row(
            what="ingest", executor="serial", rows=10, seconds=1.25, cpu_s=1.0, peak_mb=3.0, bytes=7
        ),
        Row(what="mean", executor="Dask of 2", rows=10, status="not installed"),
    ]
    store.write(path, known)
    assert store.read(path) == known
    path.write_text(path.read_text() + "count,serial,10")
    assert store.read(path) == known, "half a line is none"
    assert store.read(tmp_path / "nothing.csv") == []


def test_looking_is_no_part_of_what_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    def rest() -> dict[str, float]:
        started = time.process_time()
        while time.process_time() < started + 0.3:  # looked at all the time, and doing nothing
            time.sleep(0.01)
        return {}

    monkeypatch.setattr(measuring, "_EVERY_S", 0.0)
    assert measuring.watched(rest, ()).cpu_s < 0.2


def test_what_is_measured_begins_nothing_with_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    program, reported = ModuleType("__main__"), list[Measured]()
    program.__spec__ = ModuleSpec("studies.bench", None)
    monkeypatch.setitem(sys.modules, "__main__", program)
    channel = SimpleNamespace(send=reported.append)
    measuring.send_measured(cast(Connection, channel), get_preparation_data, ("a worker",))
    assert not [each for each in reported[0].result if each.startswith("init_main")]


@pytest.mark.wide
def test_the_page_tells_ratios_slopes_and_what_is_not_there(tmp_path: Path) -> None:
    found = [
        Row(what=what, executor="serial", rows=n, seconds=9 * times, cpu_s=times * n / 1e5, bytes=n)
        for n in (10**4, 10**5)
        for what, times in (("polars", 1.0), ("ingest", 2.0), ("count", 0.5))
    ]
    found.append(Row(what="count", executor="Dask of 2", rows=10**5, status="not installed"))
    folder = tmp_path / "docs"
    (folder / "studies").mkdir(parents=True)
    store.write(tmp_path / "scale.csv", found)
    (folder / "scale.md").write_text(f"# Scale\n\n{page.BEGIN}\n{page.END}\n\nthe end\n")
    page.keep(tmp_path / "scale.csv", folder / "scale.md")
    reported = (folder / "scale.md").read_text()
    assert "| 100,000 | 18.00 | 9.00 | 2.0 | 2.00 |" in reported
    assert "| count | Dask of 2 | 100,000 | not installed |" in reported
    # fitted to processor time: how long it took next to other work says nothing of rows
    assert "| ingest | serial | 100,000 | 18 |  | 2 |  | 0 | 1.00 | 2e+04 | 2e+06 |" in reported
    told_s = work.plan_of("count", 10**5).expected_ms / 1000
    assert f"| count | serial | 100,000 | 4.5 |  | 0.5 | {told_s:.3g} |" in reported
    assert reported.endswith("the end\n")
    assert (folder / "images" / "studies" / "scale.svg").read_text().startswith("<?xml")
    (folder / "scale.md").write_text("no markers")
    with pytest.raises(ValueError, match="the page has no"):
        page.keep(tmp_path / "scale.csv", folder / "scale.md")


@pytest.mark.parametrize("typed", [["bench", "scale"], ["scale"], ["bench", "ARGS=scale"]])
def test_it_is_run_once_however_it_is_typed(typed: list[str]) -> None:
    # options that another make has passed to this run of tests are not meant for this one
    of_make = ("MAKEFLAGS", "MFLAGS", "MAKEOVERRIDES", "ARGS", "QUICK")
    own = {name: value for name, value in os.environ.items() if name not in of_make}
    reported = subprocess.run(
        ["make", "--dry-run", *typed], env=own, capture_output=True, text=True, check=True
    )
    benches = [line.split() for line in reported.stdout.splitlines() if "studies.bench" in line]
    assert [each[1:] for each in benches] == [["-m", "studies.bench", "scale"]]


def test_growth_compares_with_more_and_more_data_sets(tmp_path: Path) -> None:
    found = list(growth(tmp_path, [4, 24]))
    assert [size for size, _ in found] == [4, 24]
    assert all(0 < seconds < 1 for _, seconds in found)
    assert list((tmp_path / "lineage" / "index").iterdir()), "most are found by the index"
