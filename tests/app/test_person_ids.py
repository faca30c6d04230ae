"""One person is one person, however files write the id: CSV, Parquet, and later versions."""

from __future__ import annotations

import io
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from app.domain.problems import Problem
from app.domain.units import IdKind
from app.uploads.ingest import ingest
from app.uploads.people.canonical import IdRule, canonical_id, canonical_ids
from app.vault.vault import Vault
from tests.app.people import PRF, csv_of, people_spec
from tests.app.uploads import DataHere

ONE_PERSON: dict[str, list[str]] = {
    "100000": [
        "100000", "1e+05", "1E5", "+100000", "100000.0", "100000.", "1.0e+05", " 100000\t",
        "\u00a0100000", "\u200b100000", "100000\ufeff", "１０００００", "100000\r", "100,000",
        "100'000", "100\u2019000", "100\u00a0000", "100\u202f000", "٠100000"[1:], "10000e1",
    ],
    "1.5": ["1.5", "1.50", "+1.5", "15e-1", "1．5"],
    "0": ["0", "-0", "0.0", "+0", "-0.00", "0e5"],
    "-7": ["-7", "-7.0", "\u22127"],
    "caf\u00e9": ["caf\u00e9", "caf\u200b\u00e9",
              "cafe\u0301", " caf\u00e9\u3000", "ca\u200df\u00e9", "caf\u00e9\r\n"],
    "a\nb": ["a\nb", "a\r\nb", "a\rb"],
    "100001": ["100001", "1.00001e5", "+100001", "100001.0"],
    "007": ["007", " 007", "\u200b007"],
    "A7": ["A7", "A7 ", "\u2060A7"],
    "900000000000000": ["900000000000000", "9e14", "9E+14"],
    "12345678901234567890": ["12345678901234567890", "12345678901234567890.0"],
}  # fmt: skip
TWO_PEOPLE = ["7", "07", "007", "A7", "a7", "A 7", "7A", "7-1", "7-10", "1.5.2", "٧x", "0x7", "nan"]


def words(content: bytes | pl.DataFrame, unit: dict[str, object], directory: Path) -> np.ndarray:
    """Return the digest of each row's id, as words."""
    if isinstance(content, bytes):
        blocks = list(ingest(io.BytesIO(content), people_spec(unit), ids=PRF))
    else:
        with (directory / "file.parquet").open("w+b") as file:
            content.write_parquet(file)
            file.seek(0)
            blocks = list(ingest(file, people_spec(unit), ids=PRF))
    names = [name for name in blocks[0] if "person" in name]
    return np.concatenate([np.column_stack([block[name] for name in names]) for block in blocks])


def quoted(ids: list[str]) -> bytes:
    return csv_of([('"' + each.replace('"', '""') + '"', 1) for each in ids])


def both(ids: list[str], unit: dict[str, object], directory: Path) -> list[np.ndarray]:
    frame = pl.DataFrame({"id": ids, "x": [1] * len(ids)})
    return [words(quoted(ids), unit, directory), words(frame, unit, directory)]


def test_every_spelling_of_an_id_is_one_person_in_csv_and_parquet(tmp_path: Path) -> None:
    ids = [spelt for spellings in ONE_PERSON.values() for spelt in spellings]
    people = [name for name, spellings in ONE_PERSON.items() for _ in spellings]
    first = {name: people.index(name) for name in ONE_PERSON}
    for found in both(ids, {"max_rows": 1}, tmp_path):
        assert len({tuple(row) for row in found.tolist()}) == len(ONE_PERSON)
        wrong = [
            spelt
            for spelt, name, row in zip(ids, people, found, strict=True)
            if row.tolist() != found[first[name]].tolist()
        ]
        assert wrong == []


def test_the_vectorised_path_reads_what_one_id_at_a_time_does() -> None:
    ids = [spelt for spellings in ONE_PERSON.values() for spelt in spellings] + TWO_PEOPLE
    kinds: tuple[IdKind | None, ...] = (None, "text", "number")
    for kind in kinds:
        for decimal in (".", ","):
            rule = IdRule(kind=kind, decimal=decimal)
            reported = [canonical_id(each, rule) for each in ids]
            texts, refused = canonical_ids(pl.Series(ids), rule)
            assert texts.to_list() == [text for text, _ in reported]
            rows = {row for mask in refused.values() for row in np.flatnonzero(mask)}
            assert rows == {row for row, (_, why) in enumerate(reported) if why is not None}


def test_texts_that_are_no_numbers_are_matched_exactly(tmp_path: Path) -> None:
    for found in both(TWO_PEOPLE, {"max_rows": 1}, tmp_path):
        assert len({tuple(row) for row in found.tolist()}) == len(TWO_PEOPLE)


def test_the_spec_decides_what_is_a_number(tmp_path: Path) -> None:
    ids = ["7", "007", "7.0", "+7", "7e0"]
    for kind, people in (("number", 1), (None, 2), ("text", 5)):
        for found in both(ids, {"max_rows": 1, "id": kind}, tmp_path):
            assert len({tuple(row) for row in found.tolist()}) == people
    with pytest.raises(Problem) as refused:
        words(
            csv_of([("7", 1), ("P7", 2), ("NA", 3)]),
            {"max_rows": 1, "id": "number", "na": ("NA",)},
            tmp_path,
        )
    problems: Any = refused.value.extras["problems"]
    reported = problems[0]
    assert reported["columns"] == [{"column": "id", "count": 1, "rows": [2]}]
    assert "P7" not in str(refused.value.extras)


@pytest.mark.parametrize(
    "ids",
    [
        pl.Series([100000, 8], dtype=pl.Int32),
        pl.Series([100000, 8], dtype=pl.UInt64),
        pl.Series([100000, 8], dtype=pl.Float64),
        pl.Series([100000, 8], dtype=pl.Float32),
        pl.Series([Decimal("100000.00"), Decimal("8.00")], dtype=pl.Decimal(12, 2)),
        pl.Series(["1e+05", "8.0"]),
        pl.Series(["1e+05", "8.0"]).cast(pl.Categorical),
    ],
)
@pytest.mark.parametrize("decimal", [".", ","])
def test_parquet_ids_of_any_type_are_those_of_a_csv_file(
    ids: pl.Series, decimal: str, tmp_path: Path
) -> None:
    unit: dict[str, object] = {"max_rows": 1, "decimal": decimal}
    found = words(pl.DataFrame({"id": ids, "x": [1, 2]}), unit, tmp_path)
    assert found.tolist() == words(csv_of([("100000", 1), ("8", 2)]), unit, tmp_path).tolist()


def test_large_integers_and_decimals_are_read_exactly(tmp_path: Path) -> None:
    large = [2**53, 2**53 + 1, 2**63 - 1]
    texts = words(csv_of([(each, 1) for each in large]), {"max_rows": 1}, tmp_path)
    for dtype in (pl.Int64, pl.UInt64, pl.Decimal(38, 0)):
        cells = large if dtype.is_integer() else list(map(Decimal, large))
        ids = pl.Series(cells, dtype=dtype)
        frame = pl.DataFrame({"id": ids, "x": [1, 1, 1]})
        assert words(frame, {"max_rows": 1}, tmp_path).tolist() == texts.tolist()


@pytest.mark.parametrize(
    "ids",
    [
        pl.Series([1.0, 2.0**53, 3.0]),
        pl.Series([1.0, 2.0**24, 3.0], dtype=pl.Float32),
        pl.Series([1.0, float("inf"), 3.0]),
        pl.Series(["1", "9.007199254740992e15", "3"]),
        pl.Series(["1", "1e16", "3"]),
        pl.Series(["1", "1e999999999", "3"]),
        pl.Series(["1", "1.23456789012346e+15", "3"]),
    ],
)
def test_ids_that_a_float_may_have_merged_are_refused_with_a_way_out(
    ids: pl.Series, tmp_path: Path
) -> None:
    files: list[bytes | pl.DataFrame] = [pl.DataFrame({"id": ids, "x": [1, 2, 3]})]
    if ids.dtype == pl.String:
        files.append(csv_of([(each, 1) for each in ids]))
    for file in files:
        with pytest.raises(Problem) as refused:
            words(file, {"max_rows": 1}, tmp_path)
        problems: Any = refused.value.extras["problems"]
        reported = problems[0]
        assert reported["columns"] == [{"column": "id", "count": 1, "rows": [2]}]
        assert "as integers or texts" in reported["reason"]


def test_no_spelling_gives_a_person_more_rows_in_a_later_version(tmp_path: Path) -> None:
    """The attack of issue 37: four more versions stored 121 rows of 50 people, at most 1 each."""
    spec: Any = people_spec({"max_rows": 1})
    engine = DataHere(Vault(tmp_path))
    numbers = range(100_000, 100_050)
    spellings = [
        [str(each) for each in numbers],
        [f"+{each}" for each in numbers],
        [f"{each}.0" for each in numbers],
        [f"{each / 1e5!r}e5" for each in numbers],
        [f"\u00a0{each}" for each in numbers],
    ]
    before: tuple[str, None] | None = None
    for version, ids in enumerate(spellings):
        stored = engine.store(f"ds_{version}", io.BytesIO(quoted(ids)), spec, extends=before)
        before = (f"ds_{version}", None)
        assert stored.rows == (0 if version else 50)
