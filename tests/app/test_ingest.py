"""Sound uploads: every format and chunking gives the codes of the plain encoding."""

from __future__ import annotations

import csv
import gzip
import io
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.domain.problems import Problem
from app.domain.upload_reports import ColumnCounts, UploadReport
from app.engine.schema import schema_of
from app.uploads.ingest import ingest
from mechanisms.domain import CODE_BITS, CODE_MAX
from mechanisms.privacy import Adjacency
from tests.app.uploads import columns_spec, encode, plainly, same, sample_csv
from tests.tiers import in_one

ONE_NUMBER = columns_spec({"x": {"type": "number", "lower": -8, "upper": 8}})


@pytest.mark.parametrize("chunk_bytes", [1, 7, 64, 1000, 1 << 20])
@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
@pytest.mark.parametrize("quote_all", [False, True])
def test_csv_in_chunks_of_any_size_is_the_plain_encoding(
    chunk_bytes: int, line_end: str, quote_all: bool
) -> None:
    rows = 8 if chunk_bytes == 1 else 300
    text = sample_csv(rows, line_end=line_end, quote_all=quote_all)
    spec = columns_spec()
    assert same(encode(text.encode(), spec, chunk_bytes=chunk_bytes), plainly(text, spec))


def test_gzip_and_parquet_equal_csv() -> None:
    text = sample_csv(500)
    spec = columns_spec()
    frame = pl.read_csv(text.encode(), schema_overrides={"income": pl.Float64}).with_columns(
        pl.col("owner").str.to_lowercase().is_in(["true", "1"])
    )
    parquet = io.BytesIO()
    frame.write_parquet(parquet, row_group_size=100)
    expected = plainly(text, spec)
    assert same(encode(text.encode(), spec), expected)
    assert same(encode(gzip.compress(text.encode()), spec, chunk_bytes=512), expected)
    assert same(encode(parquet.getvalue(), spec), expected)


def test_two_gzip_members_are_one_file() -> None:
    packed = gzip.compress(b"x\n1\n") + gzip.compress(b"2\n")
    assert (
        encode(packed, ONE_NUMBER)["x"].tolist() == encode(b"x\n1\n2\n", ONE_NUMBER)["x"].tolist()
    )


@pytest.mark.parametrize(
    ("frame", "codes"),
    [
        (pl.DataFrame({"x": [4, -8]}), [CODE_MAX // 2, -CODE_MAX]),
        (pl.DataFrame({"x": pl.Series([4.0], dtype=pl.Float32)}), [CODE_MAX // 2]),
        (pl.DataFrame({"x": pl.Series([2**63], dtype=pl.UInt64)}), [CODE_MAX]),
        (pl.DataFrame({"x": pl.Series(["4.00"]).cast(pl.Decimal(9, 2))}), [CODE_MAX // 2]),
        (pl.DataFrame({"x": pl.Series([], dtype=pl.Int8)}), []),
    ],
)
def test_parquet_numbers_of_any_kind(frame: pl.DataFrame, codes: list[int]) -> None:
    file = io.BytesIO()
    frame.write_parquet(file)
    assert encode(file.getvalue(), ONE_NUMBER)["x"].tolist() == codes


@in_one(
    "content",
    [
        b"x\n1\n2",
        b"x\n1\n2\n",
        b"x\r\n1\r\n2\r\n",
        b"\xef\xbb\xbfx\n1\n2\n",
        b'"x"\n"1"\n"2"\n',
        b"x,y\n1,\n2,\n\n\r\n\n",
        b"y,x\n,1\n,2\n\n",
        b"x,y\n 1,\n2\t,\n",
        b"x,x2\n+1,\n2e0,\n",
        b'x,"y\nz"\n1,"\n"\n2,"a""b"\n',
    ],
)
def test_one_and_two_in_every_spelling(content: bytes) -> None:
    assert encode(content, ONE_NUMBER)["x"].tolist() == [CODE_MAX // 8, CODE_MAX // 4]


def test_values_outside_the_bounds_are_clamped_even_where_floats_overflow() -> None:
    spec = columns_spec({"x": {"type": "number", "lower": 0, "upper": 1e-90}})
    assert encode(b"x\n1e300\n-1e300\n", spec)["x"].tolist() == [CODE_MAX, -CODE_MAX]


@pytest.mark.parametrize("content", [b"x\n", b"x", b"\xef\xbb\xbfx\r\n", b"x,y\n\n\n"])
def test_a_header_alone_is_no_rows(content: bytes) -> None:
    assert encode(content, ONE_NUMBER)["x"].tolist() == []


FILLED: dict[str, Any] = {
    "n": {"type": "number", "lower": 0, "upper": 10, "missing": 5},
    "c": {"type": "category", "values": ["a", "b"], "missing": "b"},
    "o": {"type": "boolean", "missing": True},
}
for each in FILLED.values():
    each["unreadable"] = "missing"


def test_missing_and_unreadable_cells_take_the_public_fill_value() -> None:
    content = b"n,c,o\n,,\nnan,zz,maybe\ninf,a,0\nwords,a,0\n10,b,1\n"
    report = UploadReport()
    (block,) = ingest(io.BytesIO(content), columns_spec(FILLED), report=report)
    assert block["n"].tolist() == [5, 5, 5, 5, 10]
    assert block["c"].tolist() == [1, 1, 0, 0, 1]
    assert block["o"].tolist() == [1, 1, 0, 0, 1]
    assert {name: each.filled for name, each in report.columns.items()} == {"n": 4, "c": 2, "o": 2}
    assert report.columns["n"] == ColumnCounts(values=1, filled=4, unreadable=3)


def test_an_all_missing_column_is_all_fill() -> None:
    assert encode(b"n,c,o\n,a,1\n,a,1\n", columns_spec(FILLED))["n"].tolist() == [0, 0]


def test_a_fill_value_outside_the_bounds_is_clamped() -> None:
    spec = columns_spec({"x": {"type": "number", "lower": 0, "upper": 1, "missing": 7}})
    assert encode(b"x,y\n,\n", spec)["x"].tolist() == [CODE_MAX]


def test_under_add_remove_rows_with_missing_cells_may_be_dropped() -> None:
    spec = columns_spec(
        {name: {**column, "missing": "drop"} for name, column in FILLED.items()},
        adjacency=Adjacency.ADD_REMOVE,
        max_rows=2,
    )
    report = UploadReport()
    content = b"n,c,o\n1,a,1\n,a,1\n2,q,1\n3,a,maybe\n4,b,0\n"
    (block,) = ingest(io.BytesIO(content), spec, report=report)
    assert block["c"].tolist() == [0, 1]
    assert (report.rows, report.rows_dropped) == (5, 3)
    assert {each.filled for each in report.columns.values()} == {0}


CELLS = st.one_of(
    st.floats(allow_nan=True, allow_infinity=True).map(repr),
    st.integers(-(10**20), 10**20).map(str),
    st.sampled_from(["", " ", "\t", "1.", ".5", "+3", "1e3", "1E-3", " 7", "7 ", "infinity"]),
)


@settings(max_examples=25, deadline=None)
@given(st.lists(CELLS, min_size=1, max_size=30))
def test_a_number_means_the_same_beside_a_cell_that_does_not_parse(cells: list[str]) -> None:
    spec = columns_spec(
        {
            "x": {
                "type": "number",
                "lower": -50,
                "upper": 1000,
                "missing": 1,
                "unreadable": "missing",
            },
            "k": {"type": "boolean"},
        }
    )
    body = "".join(f"{cell},1\n" for cell in cells)
    typed = encode(f"x,k\n{body}".encode(), spec)["x"]
    texts = encode(f"x,k\n{body}words,1\n".encode(), spec)["x"]
    assert typed.tolist() == texts[:-1].tolist()


PIECES = st.sampled_from(["a", "b", "7", ",", '"', '""', "\n", "\r\n", '"a"', '","', " ", "ö"])


@settings(max_examples=60, deadline=None)
@given(st.lists(PIECES, max_size=40), st.sampled_from([1, 5, 1 << 20]))
def test_what_is_accepted_is_read_as_the_standard_library_reads_it(
    pieces: list[str], chunk_bytes: int
) -> None:
    fill = {"missing": "?", "unreadable": "missing", "trim": False}
    spec = columns_spec(
        {
            "x": {"type": "category", "values": ["?", "a", "b", "7", "a,b"], **fill},
            "y": {"type": "category", "values": ["?", "a", "ö", " "], **fill},
        }
    )
    body = "".join(pieces)
    try:
        mine = encode(f"y,x\n{body}".encode(), spec, chunk_bytes=chunk_bytes)
    except Problem:
        return
    rows = list(csv.reader(io.StringIO(body.rstrip("\r\n"), newline=""), strict=True))
    for place, name in enumerate(["y", "x"]):
        values = schema_of(spec, rows=None).columns[name].values  # type: ignore[union-attr]
        theirs = [values.index(row[place]) if row[place] in values else 0 for row in rows]
        assert mine[name].tolist() == theirs


def test_codes_lie_in_their_range_and_are_int32() -> None:
    codes = encode(sample_csv(200).encode(), columns_spec())
    assert all(column.dtype == np.int32 for column in codes.values())
    assert int(np.abs(codes["income"]).max()) <= 1 << CODE_BITS
