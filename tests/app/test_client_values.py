"""What the Python client sends of times and data frames, in zones whose clocks are changed."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import httpx
import numpy as np
import polars as pl
import pytest

from app.client import ReleaseDesk
from app.client.answers import plain, write_frame
from mechanisms.domain import number_of
from tests.tiers import in_one

ZONES = ("America/New_York", "Europe/Berlin", "Australia/Lord_Howe")


def around_changes(zone: str) -> list[datetime]:
    """Return the half hours of 2024 on each side of which a zone's clocks are changed."""
    start = datetime(2024, 1, 1, tzinfo=UTC)
    halves = [start + timedelta(minutes=30 * at) for at in range(366 * 48)]
    offsets = [each.astimezone(ZoneInfo(zone)).utcoffset() for each in halves]
    changes = [at for at in range(1, len(halves)) if offsets[at] != offsets[at - 1]]
    assert len(changes) == 2, "one forward, one back"
    near = [halves[at + more] for at in changes for more in range(-4, 5)]
    return [each.astimezone(ZoneInfo(zone)) for each in near]


@dataclass
class Rows:
    """A table with the two methods of pandas that are used."""

    columns: list[str]
    rows: list[tuple[Any, ...]]

    def itertuples(self, *, index: bool, name: None) -> Iterator[tuple[Any, ...]]:
        assert not index
        return iter(self.rows)


def _cells(frame: Any, spec: dict[str, Any] | None = None) -> list[list[str]]:
    file = io.StringIO()
    write_frame(frame, spec or {}, file)
    return list(csv.reader(io.StringIO(file.getvalue())))


@in_one("zone", ZONES)
@in_one("kind", ["polars", "pandas"])
def test_instants_of_a_frame_are_those_of_a_condition(zone: str, kind: str) -> None:
    instants = around_changes(zone)
    if kind == "polars":
        frame: Any = pl.DataFrame(
            {"at": pl.Series(instants, dtype=pl.Datetime("us", time_zone=zone))}
        )
    else:
        frame = Rows(["at"], [(each,) for each in instants])
    written = [row[0] for row in _cells(frame)[1:]]
    assert [number_of("datetime", text) for text in written] == [
        int(each.timestamp()) for each in instants
    ]
    assert plain(instants) == written
    assert len(set(written)) == len(instants), "the hour that comes twice is two"


def test_cells_of_a_frame_are_plain() -> None:
    row = (
        100000.0, 1e15, 0.1, math.nan, None, True, np.bool_(False), np.int64(7), np.float32(1.5),
        Decimal("1E+3"), date(2020, 2, 29), datetime(2020, 2, 29, 1, 2, 3, 500000), "a, b",
    )  # fmt: skip
    assert _cells(Rows([f"c{at}" for at in range(len(row))], [row]))[1] == [
        "100000", "1000000000000000", "0.1", "", "", "true", "false", "7", "1.5", "1000",
        "2020-02-29", "2020-02-29T01:02:03.500000", "a, b",
    ]  # fmt: skip


def test_no_float_is_sent_in_scientific_notation() -> None:
    """Whole ones that are not exact are: the service refuses such an id, and says why."""
    floats = [1e5, 1e15, -1e5, 2.0**53 - 1, 1e-7, 1e5 + 0.5, np.float64(1e5), np.float32(1e-7)]
    reported = [
        "100000", "1000000000000000", "-100000", "9007199254740991", "0.0000001", "100000.5",
        "100000", "0.0000001",
    ]  # fmt: skip
    frames: list[Any] = [
        Rows(["id"], [(each,) for each in floats]), pl.DataFrame({"id": floats[:7]})
    ]  # fmt: skip
    for frame in frames:
        cells = [row[0] for row in _cells(frame)[1:]]
        assert cells == reported[: len(cells)]
    assert _cells(Rows(["id"], [(1e5,), (np.float32("nan"),)])) == [["id"], ["100000"], [""]]
    inexact = [row[0] for row in _cells(Rows(["id"], [(2.0**53,), (1e20,)]))[1:]]
    assert inexact == ["9.0071992547409920e+15", "1.0000000000000000e+20"]


@pytest.mark.parametrize(
    "spec",
    [
        {"delimiter": ";"}, {"decimal": ","}, {"encoding": "utf-16"}, {"skip_rows": 1},
        {"columns": {"x": {"type": "number", "thousands": "."}}},
    ],
)  # fmt: skip
def test_a_frame_has_no_dialect_of_its_own(spec: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="leave out"):
        _cells(Rows(["x"], [(1.125,)]), spec)


def test_arrays_are_lists_and_other_values_stay() -> None:
    reported = {"a": np.array([1, 2]), "b": pl.Series([0.5]), "c": (None, "x"), "d": np.float64(2)}
    assert json.dumps(plain(reported)) == '{"a": [1, 2], "b": [0.5], "c": [null, "x"], "d": 2.0}'
    moment = np.datetime64("2020-01-01T00:00:01", "ns")
    assert plain(moment) == "2020-01-01T00:00:01.000000000"


def test_times_are_sent_in_every_request() -> None:
    bodies: list[bytes] = []

    def answer(request: httpx.Request) -> httpx.Response:
        bodies.append(request.read())
        return httpx.Response(201, json={
            "id": "x", "dataset": "x", "status": "released", "epsilon": "1", "value": {},
            "name": "x", "adjacency": "replace_one", "columns": {},
        })  # fmt: skip

    at = datetime(2024, 3, 10, 3, tzinfo=ZoneInfo("America/New_York"))
    where = [{"column": "at", "op": "in", "value": (at, at + timedelta(hours=1))}]
    spec = {"columns": {"at": {"type": "datetime", "lower": at, "upper": "2030-01-01"}}}
    transport = httpx.MockTransport(answer)
    with ReleaseDesk("http://desk", "k" * 40, transport=transport) as desk:
        desk.release("x", {"kind": "count", "where": where}, epsilon=1)
        desk.dataset_of(
            {"id": "x", "name": "x", "adjacency": "x", "status": "active", "columns": {}}
        ).count(where=where, epsilon=1)
        desk.upload(pl.DataFrame({"at": [at]}), spec)
        desk.register("file:///x.csv", spec)
    assert len(bodies) == 4
    assert all(b"2024-03-10T07:00:00Z" in body for body in bodies)
    assert b"at\n2024-03-10T07:00:00Z\n" in bodies[2]
