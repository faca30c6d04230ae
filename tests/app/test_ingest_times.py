"""Dates and moments in the files' own patterns and time zones, and questions about them."""

from __future__ import annotations

import io
from datetime import UTC, date, datetime, timedelta
from types import SimpleNamespace
from typing import Any
from zoneinfo import ZoneInfo

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.domain.column_json import column_json
from app.domain.columns import InvalidSpecError
from app.domain.datasets import ENCODINGS, ColumnsSpec, parse_columns
from app.engine.schema import column_of, schema_of
from app.services.plans.dry_runs import synthetic_file
from app.uploads.spellings import instants, parser_of
from mechanisms.domain import NumberColumn, instant_of, number_of, text_of, zone_named
from mechanisms.privacy import Adjacency
from tests.app.uploads import columns_spec, encode, troubles
from tests.tiers import in_one

ZONES = ["America/New_York", "Europe/Berlin", "Australia/Lord_Howe", "Pacific/Apia", "Asia/Kolkata"]
DATE: dict[str, Any] = {"type": "date", "lower": "2000-01-01", "upper": "2002-11-26"}
MOMENT: dict[str, Any] = {"type": "datetime", "lower": "2024-01-01", "upper": "2024-12-31"}
NEW_YORK = {"timezone": "America/New_York"}


def _spec(column: dict[str, Any]) -> ColumnsSpec:
    return columns_spec({"c": column})


def _parsed(column: dict[str, Any], *texts: str) -> list[str | None]:
    """Return what texts are read as, in ISO 8601."""
    spec = _spec(column).columns["c"]
    kind = column["type"]
    read = parser_of(kind, spec.reading)(pl.Series(texts))
    return [None if each is None else text_of(kind, each) for each in read.floor()]


def _parquet(**columns: Any) -> bytes:
    file = io.BytesIO()
    pl.DataFrame(columns).write_parquet(file)
    return file.getvalue()


@in_one(
    ("column", "texts", "read"),
    [
        (
            {**DATE, "format": "%d.%m.%Y"},
            ["09.03.2001", " 9.3.2001\u00a0", "2001-03-09", "31.2.2001"],
            ["2001-03-09", "2001-03-09", None, None],
        ),
        (
            {**DATE, "format": ["%Y-%m-%d", "%d/%m/%y", "%b %d, %Y"]},
            ["2001-03-09", "09/03/01", "Mar 9, 2001", "03/13/01"],
            ["2001-03-09", "2001-03-09", "2001-03-09", None],
        ),
        (
            {**DATE, "format": ["%d.%m.%Y", "%d.%m.%y"]},
            ["16.5.22", "16.05.2022", "1.2.0003", "3.2.1999"],
            ["2022-05-16", "2022-05-16", "0003-02-01", "1999-02-03"],
        ),
        ({**DATE, "format": "%d.%m.%Y"}, ["16.5.22", "16.05.2022"], [None, "2022-05-16"]),
        (
            {**DATE, "format": "%Y-%m-%d %H:%M:%S"},
            ["2001-03-09 23:59:59", "2001-03-09"],
            ["2001-03-09", None],
        ),
        (
            {**MOMENT, "format": "%d.%m.%Y %H:%M:%S.%f"},
            ["09.03.2024 20:30:01.25", "09.03.2024 20:30:01"],
            ["2024-03-09T20:30:01Z", "2024-03-09T20:30:01Z"],
        ),
        (
            {**MOMENT, **NEW_YORK, "format": ["%m/%d/%Y %I:%M %p", "%m/%d/%Y"]},
            ["03/09/2024 08:30 PM", "03/10/2024 02:30 AM", "11/03/2024 01:30 AM", "03/10/2024"],
            ["2024-03-10T01:30:00Z", "2024-03-10T07:30:00Z", "2024-11-03T05:30:00Z",
             "2024-03-10T05:00:00Z"],
        ),
        (
            {**MOMENT, **NEW_YORK},
            ["2024-03-09T20:30", "2024-03-09 20:30:00-08:00", "2024-03-09T20:30Z", "2024-03-10"],
            ["2024-03-10T01:30:00Z", "2024-03-10T04:30:00Z", "2024-03-09T20:30:00Z",
             "2024-03-10T05:00:00Z"],
        ),
        (
            {**DATE, **NEW_YORK},
            ["2001-03-10T01:30:00Z", "2001-03-09T20:30:00", "2001-03-09", "2001-03-09T23:00+09:00"],
            ["2001-03-09", "2001-03-09", "2001-03-09", "2001-03-09"],
        ),
        (
            {**DATE, **NEW_YORK, "format": "%Y-%m-%d %H:%M %z"},
            ["2001-03-10 01:30 +0000", "2001-03-09 20:30 -0500"],
            ["2001-03-09", "2001-03-09"],
        ),
    ],
)  # fmt: skip
def test_texts_are_read_by_their_patterns_and_zones(
    column: dict[str, Any], texts: list[str], read: list[str | None]
) -> None:
    assert _parsed(column, *texts) == read


LOCAL = st.datetimes(datetime(1990, 1, 1), datetime(2030, 1, 1)).map(
    lambda moment: moment.replace(microsecond=0)
)


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(ZONES), st.lists(LOCAL, min_size=1, max_size=50))
def test_local_times_are_the_instants_that_the_library_says(
    zone: str, moments: list[datetime]
) -> None:
    place = zone_named(zone)
    assert place is not None
    # some of them close to the changes of clocks, where a rule decides
    changes = [datetime(2024, 3, 10, 2), datetime(2024, 11, 3, 1), datetime(2011, 12, 30)]
    near = [each + timedelta(minutes=10 * step) for each in changes for step in range(-12, 13)]
    found = instants(pl.Series([*moments, *near]), zone).dt.epoch("s").to_list()
    assert found == [instant_of(each, place) for each in (*moments, *near)]
    ends = [each.replace(tzinfo=ZoneInfo(zone)).timestamp() for each in (*moments, *near)]
    assert found == [int(end) for end in ends]


@pytest.mark.parametrize("zone", ["America/New_York", "Europe/Berlin", "Pacific/Auckland"])
def test_parquet_and_csv_have_the_same_instants(zone: str) -> None:
    hours = [datetime(2024, 3, 9, tzinfo=UTC) + timedelta(hours=3 * step) for step in range(2000)]
    instants_in = pl.Series(hours, dtype=pl.Datetime("us", "UTC")).dt.convert_time_zone(zone)
    local = instants_in.dt.replace_time_zone(None)
    for column in ({**MOMENT, "timezone": zone}, {**DATE, **_DAYS, "timezone": zone}):
        spec = _spec(column)
        expected = encode(_parquet(c=instants_in), spec)["c"].tolist()
        texts = instants_in.dt.strftime("%Y-%m-%dT%H:%M:%S%z")
        assert encode(("c\n" + "\n".join(texts)).encode(), spec)["c"].tolist() == expected
        # An hour that occurs twice is the first of both, so a local time may be another instant.
        reported = zip(encode(_parquet(c=local), spec)["c"].tolist(), expected, strict=True)
        assert sum(mine != theirs for mine, theirs in reported) <= 1
    days = encode(_parquet(c=local.dt.date()), _spec({**DATE, **_DAYS}))["c"].tolist()
    assert expected == days


_DAYS = {"lower": "2024-01-01", "upper": "2029-09-27"}


def test_an_instant_in_a_column_of_days_needs_a_zone() -> None:
    evening = datetime(2024, 3, 9, 20, 30, tzinfo=ZoneInfo("America/New_York"))
    content = _parquet(c=[evening])
    ((row, column, reason),) = troubles(content, _spec({**DATE, **_DAYS}))
    assert (row, column) == (None, "c")
    assert '"timezone": "' in reason
    days = {
        zone: encode(content, _spec({**DATE, **_DAYS, "timezone": zone}))["c"][0]
        for zone in ("America/New_York", "Europe/Berlin")
    }
    written = encode(_parquet(c=[date(2024, 3, 9)]), _spec({**DATE, **_DAYS}))["c"][0]
    assert days["America/New_York"] == written < days["Europe/Berlin"]


@in_one(
    ("more", "place"),
    [
        ({"timezone": "Mars/Olympus"}, "timezone"),
        ({"timezone": "../etc/passwd"}, "timezone"),
        ({"timezone": "localtime"}, "timezone"),
        ({"format": "%d.%m"}, "format"),
        ({"format": "%Y-%m-%d %H"}, "format"),
        ({"format": "%s"}, "format"),
        ({"format": "%Y-%m-%d %I:%M"}, "format"),
        ({"format": "%Y-%m-%d %H:%M:%S,%f"}, "format"),
        ({"format": ["%d.%m.%Y", ""]}, "format"),
        ({"format": "%Y-%m-%d %H:%M %z"}, "timezone"),
    ],
)
def test_unsound_patterns_and_zones(more: dict[str, Any], place: str) -> None:
    with pytest.raises(InvalidSpecError) as caught:
        _spec({**DATE, **more})
    assert caught.value.field_name == f"columns.c.{place}"


def test_what_no_pattern_fits_is_unreadable() -> None:
    assert [row for row, _, _ in troubles(b"c\n9.3.2001\n2001-03-09\n\n", _spec(
        {**DATE, "format": "%d.%m.%Y"}
    ))] == [2, 3]  # fmt: skip


def test_bounds_fills_conditions_and_edges_are_local_times_of_the_zone() -> None:
    spec = _spec({**MOMENT, **NEW_YORK, "missing": "2024-03-09T20:30"}).columns["c"]
    reported = column_json(spec)
    assert reported["lower"] == "2024-01-01T05:00:00Z"
    assert reported["missing"] == "2024-03-10T01:30:00Z"
    column = column_of(spec)
    assert isinstance(column, NumberColumn)
    assert column.number_of("2024-03-09T20:30") == number_of("datetime", "2024-03-10T01:30Z")
    assert column.number_of("2024-03-09T20:30Z") == number_of("datetime", "2024-03-09T20:30Z")


def test_the_synthetic_file_of_a_data_set_is_written_as_it_declares() -> None:
    columns = {
        "own": {"type": "boolean", "true": ["ja"], "false": ["nein"], "source": "Q1\nowner?"},
        "day": {**DATE, "format": "%d.%m.%Y"},
        "at": {**MOMENT, **NEW_YORK, "format": "%m/%d/%Y %I:%M %p"},
    }
    spec = columns_spec(columns)
    facts: Any = SimpleNamespace(columns=spec, schema=schema_of(spec, rows=50))
    content = synthetic_file(facts)
    assert content.startswith(b'"Q1\nowner?",day,at\n')
    assert all(len(encode(content, spec)[name]) == 50 for name in columns)


@in_one("encoding", ENCODINGS)
@in_one("kind", [None, "number", "text"])
def test_the_synthetic_file_is_read_by_the_spec_that_it_is_made_of(
    encoding: str, kind: str | None
) -> None:
    columns: dict[str, Any] = {
        "weight": {"type": "number", "lower": 0, "upper": 1, "decimal": ",", "thousands": "."},
        "town": {"type": "category", "values": ["Köln", "Århus"]},
    }
    unit = {"column": "Whose?\nö", "max_rows": 1} | ({} if kind is None else {"id": kind})
    text = {"delimiter": ";", "encoding": encoding, "skip_rows": 2}
    spec = parse_columns(columns, adjacency=Adjacency.ADD_REMOVE, max_rows=99, unit=unit, text=text)
    facts: Any = SimpleNamespace(columns=spec, schema=schema_of(spec, rows=None))
    content = synthetic_file(facts)
    assert content.decode(encoding).startswith('title 1\ntitle 2\n"Whose?\nö";weight;town\n')
    weights = encode(content, spec)["weight"]
    assert len({*weights.tolist()}) > 20, "with a decimal point all would be clamped to 1"
