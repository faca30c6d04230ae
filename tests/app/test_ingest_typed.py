"""Cells that Parquet holds as truths, dictionaries or numbers become what their texts would."""

from __future__ import annotations

import io
import tempfile
from collections.abc import Mapping
from datetime import date, datetime
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from app.domain.problems import Problem
from app.domain.upload_reports import UploadReport
from app.uploads.ingest import ingest
from app.uploads.row_digests import KEY_BYTES, RowDigester
from app.uploads.spellings import dictionary_of
from mechanisms.privacy import Adjacency
from tests.app.uploads import columns_spec
from tests.tiers import in_one

WORDS = ["a", "true", "2", "1.5", "2020-02-29", 'with "quotes", and a comma', "70000", "é"]
UNSOUND = ["", "B", " 1", "TRUE", "NA", "9", "-3", "nan"]
DICTIONARIES = [pl.String(), pl.Categorical(), pl.Enum([*WORDS, *UNSOUND, "in no cell"])]
WHOLE = [pl.Int8(), pl.Int32(), pl.Int64(), pl.UInt8(), pl.UInt64()]
BOOLEAN: dict[str, Any] = {"type": "boolean", "missing": True, "na": ["9", "NA"]}
CATEGORY: dict[str, Any] = {"type": "category", "values": WORDS, "missing": "a", "na": ["9", "NA"]}
NUMBER: dict[str, Any] = {"type": "number", "lower": -5, "upper": 20, "missing": 5, "na": ["9"]}
DATE: dict[str, Any] = {
    "type": "date", "lower": "1900-01-01", "upper": "2030-12-31", "missing": "2000-01-01",
}  # fmt: skip
MOMENT: dict[str, Any] = {
    "type": "datetime", "lower": "2000-01-01T00:00:00Z", "upper": "2030-01-01T00:00:00Z",
    "missing": "2020-01-01T00:00:00Z",
}  # fmt: skip
FLOATS = [0.0, -0.0, 1.5, 9.0, 1e300, 5e-324, float("nan"), float("inf"), float("-inf")]
TIMES = [datetime(2020, 2, 29, 13, 30), datetime(1970, 1, 1), datetime(2999, 1, 1)]
TRUTHS = pl.DataFrame({"c0": [True, False] * 10, "last": [*range(20)]})
NO_VALUES = pl.DataFrame(
    {"c0": [False] * 3, "c1": pl.Series([None] * 3, dtype=pl.Boolean), "last": [*range(3)]}
)


def _whole(kind: pl.DataType) -> st.SearchStrategy[int]:
    info = np.iinfo(str(kind).lower())
    few = st.sampled_from([0, 1, 2, 9, 100])
    ends = st.sampled_from([int(info.min), int(info.max), min(int(info.max), 70_000)])
    return st.one_of(few, few, ends)


@st.composite
def _column(draw: st.DrawFn) -> tuple[dict[str, Any], pl.Series]:
    """Draw a declaration and a few different cells of a type that fits it."""
    spec = draw(st.sampled_from([BOOLEAN, BOOLEAN, CATEGORY, CATEGORY, NUMBER, DATE, MOMENT]))
    kinds: Mapping[str, list[Any]] = {
        "boolean": [*4 * [pl.Boolean()], *DICTIONARIES, *WHOLE],
        "category": [*DICTIONARIES, *WHOLE],
        "number": [pl.Float64(), *DICTIONARIES, *WHOLE],
        "date": [pl.Date(), pl.String()],
        "datetime": [pl.Datetime("us"), pl.Datetime("ms"), pl.String()],
    }
    kind = draw(st.sampled_from(kinds[spec["type"]]))
    cells: st.SearchStrategy[Any]
    if kind == pl.Boolean:
        cells = st.booleans()
    elif kind.is_integer():
        cells = _whole(kind)
    elif kind.is_float():
        cells = st.sampled_from(FLOATS)
    elif kind == pl.Date:
        cells = st.dates(date(1800, 1, 1), date(2100, 1, 1))
    elif kind == pl.Datetime:
        cells = st.sampled_from(TIMES)
    else:
        sound = st.sampled_from(["2", "1.5"] if spec is NUMBER else WORDS)
        cells = st.one_of(sound, sound, st.sampled_from(UNSOUND))
    found = draw(st.lists(st.one_of(cells, cells, st.none()), min_size=1, max_size=6))
    return _declared(draw, spec), pl.Series(found, dtype=kind)


def _declared(draw: st.DrawFn, spec: dict[str, Any]) -> dict[str, Any]:
    """Say in some way what becomes of a cell without a value, and of a text that no list has."""
    missing = draw(st.sampled_from([spec["missing"], spec["missing"], "reject", "drop"]))
    declared = {
        **spec,
        "missing": missing,
        "unreadable": draw(st.sampled_from(["missing", "reject"])),
    }
    if spec is CATEGORY and draw(st.booleans()):
        return {**declared, "other": "a"}
    return declared


@st.composite
def _tables(draw: st.DrawFn) -> tuple[dict[str, dict[str, Any]], pl.DataFrame]:
    """Draw a few columns of their cells in any order, more rows than are looked at first or few."""
    columns = draw(st.lists(_column(), min_size=1, max_size=3))
    rows = draw(st.sampled_from([3, 20, 1500]))
    chance = np.random.default_rng(draw(st.integers(0, 99)))
    frame = pl.DataFrame(
        [
            cells.gather(chance.integers(0, len(cells), rows)).alias(f"c{place}")
            for place, (_, cells) in enumerate(columns)
        ]
    )
    spec = {f"c{place}": declared for place, (declared, _) in enumerate(columns)}
    return spec, frame.with_columns(last=pl.int_range(rows))


def _spelt(frame: pl.DataFrame) -> pl.DataFrame:
    return frame.select(pl.all().cast(pl.String))


def _parquet(frame: pl.DataFrame) -> bytes:
    file = io.BytesIO()
    frame.write_parquet(file, row_group_size=700)
    return file.getvalue()


def _outcome(content: bytes, columns: dict[str, dict[str, Any]]) -> Any:
    """Return all that reading an upload tells: codes, counts and digests, or the refusal."""
    spec = columns_spec(columns, adjacency=Adjacency.ADD_REMOVE, max_rows=10_000)
    report, digester = UploadReport(), RowDigester(bytes(KEY_BYTES), spec)
    with tempfile.TemporaryFile() as file:
        file.write(content)
        file.seek(0)
        try:
            blocks = list(ingest(file, spec, report=report, digester=digester))
        except Problem as problem:
            return problem.code, problem.detail, problem.extras
    codes = {name: np.concatenate([block[name] for block in blocks]).tolist() for name in columns}
    return codes, report.to_json(), digester.finish().to_bytes()


@settings(max_examples=30, deadline=None)
@given(_tables())
@example(({"c0": BOOLEAN, "c1": BOOLEAN}, NO_VALUES))  # of a column whose rows are all missing
@example(({"c0": BOOLEAN}, TRUTHS))  # a truth next to numbers is no number of the file
def test_typed_cells_become_what_their_texts_do(
    table: tuple[dict[str, dict[str, Any]], pl.DataFrame],
) -> None:
    columns, frame = table
    typed = _outcome(_parquet(frame), columns)
    assert typed == _outcome(_spelt(frame).write_csv().encode(), columns)
    assert typed == _outcome(_parquet(_spelt(frame)), columns)


@in_one(
    "cells",
    [
        pl.Series(["q", "b", None, "q"], dtype=pl.Categorical),
        pl.Series(["q", "b", None, "q"], dtype=pl.Enum(["unused", "q", "b"])),
        pl.Series([True, None, False]),
        pl.Series([3, 0, None, 3], dtype=pl.Int8),
        pl.Series([None, None], dtype=pl.Boolean),
        pl.Series([], dtype=pl.Categorical),
    ],
)
def test_a_dictionary_has_each_text_in_use_once(cells: pl.Series) -> None:
    texts, rows = dictionary_of(cells)
    assert rows is not None
    assert texts.gather(rows).to_list() == cells.cast(pl.String).to_list()
    assert sorted(texts, key=str) == sorted(cells.cast(pl.String).unique(), key=str)


@pytest.mark.parametrize("number", [-1, 1 << 16, 2**62])
def test_whole_numbers_that_are_no_places_come_back_as_texts(number: int) -> None:
    texts, rows = dictionary_of(pl.Series([number, 1, None]))
    assert (texts.to_list(), rows) == ([str(number), "1", None], None)


def test_a_large_dictionary_comes_back_as_texts() -> None:
    many = pl.Series([f"v{place}" for place in range(70_000)])
    cells = many.cast(pl.Categorical(pl.Categories("many"))).tail(3)
    texts, rows = dictionary_of(cells)
    assert (texts.to_list(), rows) == (many.tail(3).to_list(), None)
