"""Bad uploads: a clear problem with rows and columns, and never a cell."""

from __future__ import annotations

import contextlib
import gzip
import io
import logging
import random
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from app.domain.problems import Problem
from app.uploads.ingest import ingest
from app.uploads.recognition import recognised
from app.uploads.trouble import Limits
from mechanisms.privacy import Adjacency
from tests.app.uploads import (
    SENTINEL,
    columns_spec,
    encode,
    read_upload,
    refused,
    sample_csv,
    troubles,
)
from tests.tiers import in_one

HEADER = "income,region,owner\n"
GOOD = "1,north,1\n"
WINDOWS = 'it looks like windows-1252: declare "encoding": "windows-1252"'


def _csv(*rows: str) -> bytes:
    return (HEADER + "".join(f"{row}\n" for row in rows)).encode()


def _parquet(frame: pl.DataFrame, *, group: int | None = None) -> bytes:
    file = io.BytesIO()
    frame.write_parquet(file, row_group_size=group)
    return file.getvalue()


ENUM = pl.Enum([SENTINEL])
SOUND = pl.DataFrame({"income": [1.0, 2.0], "region": ["north", "öst"], "owner": [True, False]})


@pytest.mark.parametrize("chunk_bytes", [16, 1 << 20])
def test_every_bad_cell_is_named_by_row_and_column(chunk_bytes: int) -> None:
    content = _csv(
        "1,north,1",
        ",north,1",
        f"{SENTINEL},north,1",
        "nan,north,1",
        "-inf,north,1",
        "1e999,north,1",
        f"1,{SENTINEL},1",
        "1,,1",
        f"1,north,{SENTINEL}",
        "1,north,",
        f"{SENTINEL},{SENTINEL},{SENTINEL}",
    )
    assert troubles(content, chunk_bytes=chunk_bytes) == [
        (2, "income", "missing"),
        (3, "income", "not a number"),
        (4, "income", "not a number"),
        (5, "income", "not a finite number"),
        (6, "income", "not a finite number"),
        (7, "region", "not one of the declared values"),
        (8, "region", "missing"),
        (9, "owner", "not true, false, 1 or 0"),
        (10, "owner", "missing"),
        (11, "income", "not a number"),
        (11, "region", "not one of the declared values"),
        (11, "owner", "not true, false, 1 or 0"),
    ]


@pytest.mark.parametrize("chunk_bytes", [256, 1 << 20])
def test_each_kind_of_fault_is_named_once_with_its_columns_and_counts(chunk_bytes: int) -> None:
    rows = ["1,north,1", ",north,", "x,,maybe", "1,,inf", "inf,nowhere,1"]
    problem = refused(_csv(*rows * 500), chunk_bytes=chunk_bytes)
    assert problem.detail.startswith("The file does not fit its spec: 5 kinds of faults")
    listed: Any = problem.extras["problems"]
    assert {
        kind["reason"]: {each["column"]: each["count"] for each in kind["columns"]}
        for kind in listed
    } == {
        "missing": {"income": 500, "region": 1000, "owner": 500},
        "not a number": {"income": 500},
        "not a finite number": {"income": 500},
        "not true, false, 1 or 0": {"owner": 1000},
        "not one of the declared values": {"region": 500},
    }
    assert len({kind["reason"] for kind in listed}) == len(listed)
    missing = listed[0]
    assert (missing["reason"], missing["count"]) == ("missing", 2000)
    assert missing["columns"][0] == {"column": "income", "count": 500, "rows": [2, 7, 12, 17, 22]}
    assert missing["rows"] == [2, 3, 4, 7, 8]


def test_rows_of_another_width_are_counted() -> None:
    problem = refused(_csv(*["1,north,1", "1,north", "1,north,1,1"] * 300), chunk_bytes=64)
    listed: Any = problem.extras["problems"]
    few, many = "has too few cells for the header", "has too many cells for the header"
    assert {kind["reason"]: kind["count"] for kind in listed} == {few: 300, many: 300}
    assert [kind["columns"] for kind in listed] == [[], []]


def test_a_category_is_matched_exactly_but_for_white_space_around_it() -> None:
    listed = troubles(_csv("1,North,1", "1, north,1", "1,nort,1"))
    assert [row for row, _, _ in listed] == [1, 3]


@pytest.mark.parametrize("chunk_bytes", [8, 1 << 20])
def test_ragged_rows(chunk_bytes: int) -> None:
    content = _csv("1,north,1", f"{SENTINEL},north", "1,north,1,1", "", "1,north,1")
    few, many = "has too few cells for the header", "has too many cells for the header"
    assert troubles(content, chunk_bytes=chunk_bytes) == [
        (2, None, few),
        (3, None, many),
        (4, None, few),
    ]


def test_ragged_rows_beside_undeclared_columns() -> None:
    spec = columns_spec({"x": {"type": "boolean"}})
    few, many = "has too few cells for the header", "has too many cells for the header"
    assert troubles(b"y,x,z\n1,1,1\n1,1\n1,1,1,1\n", spec) == [(2, None, few), (3, None, many)]
    assert troubles(b'y,x,z\n"1,1",1\n1,1,1\n', spec) == [(1, None, few)]


@in_one(
    ("row", "reason"),
    [
        (b"\x00,north,1", "holds a NUL byte, which no text has"),
        (b"\xff\xfe,north,1", f"is not UTF-8 text; {WINDOWS}"),
        ("1,öst,1".encode("latin-1"), f"is not UTF-8 text; {WINDOWS}"),
        (b'5" pipe,north,1', "holds a stray or unclosed quote"),
        (b'"1"x,north,1', "holds a stray or unclosed quote"),
        (b'1, "north",1', "holds a stray or unclosed quote"),
        (b'"1,north,1', "holds a stray or unclosed quote"),
        (b'1,north,"1"\r', None),
    ],
)
def test_broken_bytes_are_named_by_row(row: bytes, reason: str | None) -> None:
    content = HEADER.encode() + GOOD.encode() * 2 + row + b"\n" + GOOD.encode()
    if reason is None:
        assert len(encode(content, columns_spec())["owner"]) == 4
    else:
        assert troubles(content)[-1] == (3, None, reason)


def test_a_quote_that_is_never_closed_does_not_take_the_rest_of_the_file() -> None:
    content = _csv(*[GOOD.strip()] * 3, '"1,north,1', *[GOOD.strip()] * 9999)
    ((row, _, reason),) = troubles(content, chunk_bytes=1024, max_record_bytes=4096)
    assert row == 4
    assert "never closed" in reason


@pytest.mark.parametrize("chunk_bytes", [64, 1 << 12, 1 << 20])
def test_a_huge_cell_is_refused_wherever_it_lies(chunk_bytes: int) -> None:
    content = _csv("1,north,1", f"{SENTINEL * 1000},north,1", "1,north,1")
    ((row, _, reason),) = troubles(content, chunk_bytes=chunk_bytes, max_record_bytes=4096)
    assert row == 2
    assert reason.startswith("is longer than 4096 bytes")


@in_one(
    ("content", "reason"),
    [
        (b"", "the file is empty"),
        (b"\n\r\n  \n", "the file is empty"),
        (b"\xef\xbb\xbf", "the file is empty"),
        (
            "income\n1\n".encode("utf-16"),
            (
                "the content of the file is not UTF-8 text; it looks like utf-16: declare "
                '"encoding": "utf-16"'
            ),
        ),
        ("ö\n1\n".encode("latin-1"), f"the header of the file is not UTF-8 text; {WINDOWS}"),
        (b"income,region,owner\r1,north,1\r", "the header is not a line of CSV"),
        (
            b"inc\x00ome,region,owner\n",
            "the header of the file holds a NUL byte, which no text has",
        ),
        (b'"income,region,owner\n1,north,1\n', "the header is not a line of CSV"),
        (b'"income"x,region,owner\n', "the header of the file holds a stray or unclosed quote"),
        (
            b"PK\x03\x04" + bytes(60),
            recognised(b"PK\x03\x04" + bytes(60)).sentence,
        ),
        (b"\x1f\x8b" + bytes(60), "the gzip data are damaged or cut short"),
        (gzip.compress(HEADER.encode(), mtime=0)[:-6], "the gzip data are damaged or cut short"),
        (
            gzip.compress(HEADER.encode(), mtime=0) + b"tail",
            "the gzip data are damaged or cut short",
        ),
        (
            gzip.compress(_parquet(SOUND), mtime=0),
            "the file is Parquet inside gzip; send the Parquet file itself",
        ),
    ],
)
def test_files_that_are_no_table(content: bytes, reason: str) -> None:
    assert troubles(content) == [(None, None, reason)]


def test_random_bytes_are_refused() -> None:
    generator = random.Random(5)
    for _ in range(50):
        assert refused(generator.randbytes(3000)).code == "invalid-upload"


def test_declared_columns_must_be_in_the_header_just_once() -> None:
    content = f"income,income,{SENTINEL}\n1,1,1\n".encode()
    assert [(row, column) for row, column, _ in troubles(content)] == [
        (None, "income"),
        (None, "region"),
        (None, "owner"),
    ]


def test_undeclared_columns_may_repeat() -> None:
    assert encode(b",,owner\n1,1,1\n", columns_spec({"owner": {"type": "boolean"}}))["owner"].size


def test_more_rows_than_declared() -> None:
    spec = columns_spec({"owner": {"type": "boolean"}}, adjacency=Adjacency.ADD_REMOVE, max_rows=3)
    assert len(encode(b"owner\n1\n1\n1\n", spec)["owner"]) == 3
    assert troubles(b"owner\n1\n1\n1\n1\n", spec) == [
        (None, None, "the file has more rows than the declared max_rows")
    ]


@in_one(
    ("content", "limit"),
    [
        (_csv(*["1,north,1"] * 11), {"max_upload_rows": 10}),
        (_csv("1,north,1"), {"max_file_columns": 2}),
        (_csv(*["1,north,1"] * 11), {"max_upload_bytes": 100}),
        (gzip.compress(_csv(*["1,north,1"] * 100_000), mtime=0), {"max_expanded_bytes": 50_000}),
        (_parquet(pl.concat([SOUND] * 6)), {"max_upload_rows": 10}),
        (_parquet(SOUND), {"max_file_columns": 2}),
        (_parquet(SOUND), {"max_upload_bytes": 100}),
    ],
)
def test_limits(content: bytes, limit: dict[str, int]) -> None:
    problem = refused(content, **limit)
    assert (problem.code, problem.status) == ("too-large", 413)
    assert problem.extras == {"limit": next(iter(limit)), "maximum": next(iter(limit.values()))}


@in_one(
    ("frame", "wrong"),
    [
        (SOUND.with_columns(income=pl.concat_list("income")), ["income"]),
        (SOUND.with_columns(income=pl.struct("region")), ["income"]),
        (SOUND.with_columns(region=pl.time(1), owner=pl.date(2020, 1, 1)), ["region", "owner"]),
        (SOUND.with_columns(region=pl.date(2020, 1, 1)), ["region"]),
        (SOUND.with_columns(region=pl.lit(SENTINEL.encode())), ["region"]),
        (SOUND.with_columns(income=pl.lit(1).cast(pl.Duration("us"))), ["income"]),
        (SOUND.with_columns(income=pl.lit([SENTINEL]).cast(pl.List(ENUM))), ["income"]),
    ],
)
def test_parquet_of_the_wrong_types_is_named_with_them(
    frame: pl.DataFrame, wrong: list[str]
) -> None:
    reported = troubles(_parquet(frame))
    assert [(row, column) for row, column, _ in reported] == [(None, name) for name in wrong]
    for (_, _, reason), name in zip(reported, wrong, strict=True):
        kind = type(frame.schema[name]).__name__.lower()
        assert reason.startswith(f"has the type {kind}")
        assert " is read from " in reason
    spec = columns_spec({"sound": {"type": "boolean"}})
    undeclared = frame.with_columns(sound=pl.lit(value=True))
    assert len(encode(_parquet(undeclared), spec)["sound"]) == 2


def test_texts_of_numbers_in_parquet_are_read_as_in_csv() -> None:
    frame = SOUND.with_columns(income=pl.Series(["1.5", SENTINEL]))
    assert troubles(_parquet(frame)) == [(2, "income", "not a number")]
    sound = SOUND.with_columns(income=pl.Series(["1.5", " 2 "]))
    numbers = SOUND.with_columns(income=pl.Series([1.5, 2.0]))
    spec = columns_spec()
    texts = encode(_parquet(sound), spec)["income"].tolist()
    assert texts == encode(_parquet(numbers), spec)["income"].tolist()


def test_parquet_cells_and_columns() -> None:
    frame = pl.DataFrame(
        {
            "income": [1.0, None, float("inf")],
            "region": ["north", SENTINEL, None],
            "owner": [1, 2, 0],
        }
    )
    assert troubles(_parquet(frame)) == [
        (2, "income", "missing"),
        (2, "region", "not one of the declared values"),
        (2, "owner", "not true, false, 1 or 0"),
        (3, "income", "not a finite number"),
        (3, "region", "missing"),
    ]
    assert [entry[1] for entry in troubles(_parquet(SOUND.select("owner")))] == ["income", "region"]


@pytest.mark.parametrize("damage", ["cut", "footer length", "footer", "pages", "magic only"])
def test_parquet_that_lies(damage: str, capfd: pytest.CaptureFixture[str]) -> None:
    whole = _parquet(pl.concat([SOUND] * 500))
    footer = int.from_bytes(whole[-8:-4], "little")
    content = {
        "cut": whole[: len(whole) // 2],
        "footer length": whole[:-8] + b"\xff\xff\xff\x7f" + b"PAR1",
        "footer": whole[: -8 - footer] + bytes(footer) + whole[-8:],
        "pages": whole[:4] + b"\xff" * 200 + whole[204:],
        "magic only": b"PAR1",
    }[damage]
    assert troubles(content) == [
        (None, None, "the file cannot be read within the limits of memory and time, or is damaged")
    ]
    assert capfd.readouterr() == ("", "")


def test_a_parquet_file_that_needs_too_much_memory_ends_its_reader_only() -> None:
    rows = 24_000_000
    bomb = _parquet(
        pl.select(income=pl.repeat(1.0, rows), region=pl.repeat("north", rows)).with_columns(
            owner=pl.lit(True)
        ),
        group=rows,
    )
    assert len(bomb) < 200_000
    # A thread of the Parquet reader that gets no memory may leave the others waiting.
    assert troubles(bomb, upload_memory_bytes=1 << 29, standstill_s=1) == [
        (None, None, "the file cannot be read within the limits of memory and time, or is damaged")
    ]


def test_a_copy_of_the_file_is_gone_afterwards(tmp_path: Path) -> None:
    for content in (_parquet(SOUND), _parquet(SOUND)[:-9]):
        with contextlib.suppress(Problem):
            list(read_upload(io.BytesIO(content), columns_spec(), scratch=tmp_path))
        assert list(tmp_path.iterdir()) == []


def test_nothing_is_yielded_after_the_first_trouble() -> None:
    content = _csv(*["1,north,1"] * 50, f"{SENTINEL},north,1", *["1,north,1"] * 50)
    blocks = ingest(io.BytesIO(content), columns_spec(), limits=Limits(chunk_bytes=100))
    rows = []
    with pytest.raises(Problem):
        rows.extend(len(block["owner"]) for block in blocks)
    assert sum(rows) <= 50


def test_no_cell_reaches_a_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    refused(_csv(f"{SENTINEL},{SENTINEL},{SENTINEL}"))
    refused(sample_csv(50).replace("plain", SENTINEL).replace(",TRUE", f",{SENTINEL}").encode())
    assert SENTINEL not in caplog.text
