"""The engine's view of stored data: equal to encoding and sketching the whole file at once."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from app.domain.datasets import ColumnsSpec
from app.domain.problems import Problem
from app.domain.upload_reports import ColumnCounts, UploadReport
from app.engine import schema
from app.engine.data import MismatchError
from app.engine.executor import ProcessExecutor
from app.engine.schema import schema_of
from app.uploads import sketching, storing
from app.uploads.storing import Ingested, part_rows, regroup
from app.uploads.trouble import Limits
from app.vault.stored import AbsentError, TamperedError
from app.vault.vault import Vault
from mechanisms.privacy import Adjacency
from mechanisms.sketches import ArrayData
from tests.app.uploads import DataHere, columns_spec, plain_data, sample_csv
from tests.tiers import in_one


def _wide(columns: int, rows: int) -> tuple[bytes, ColumnsSpec]:
    generator = np.random.default_rng(3)
    names = [f"c{index}" for index in range(columns)]
    spec = columns_spec({name: {"type": "number", "lower": -1, "upper": 1} for name in names})
    values = generator.normal(size=(rows, columns)).round(2)
    lines = [",".join(names), *(",".join(map(repr, row)) for row in values.tolist())]
    return "\n".join(lines).encode(), spec


def _stored(tmp_path: Path, content: bytes, spec: ColumnsSpec, **limits: Any) -> DataHere:
    engine = DataHere(Vault(tmp_path), limits=Limits(**limits))
    engine.store("ds_1", io.BytesIO(content), spec)
    return engine


def _expect_equal(engine: DataHere, whole: ArrayData) -> None:
    data = engine.open("ds_1")
    sketch = whole.sketch
    numbers = list(sketch.ordered)
    assert data.rows == whole.rows
    assert data.gram(numbers) == whole.gram(numbers)
    assert data.gram(numbers[::-1][:2]) == whole.gram(numbers[::-1][:2])
    for name in numbers:
        for mine, theirs in zip(data.ordered(name), whole.ordered(name), strict=True):
            assert np.array_equal(mine, theirs)
            assert mine.dtype == theirs.dtype
    for name in sketch.categories:
        assert np.array_equal(data.category_counts(name), whole.category_counts(name))
    blocks = list(data.blocks(list(whole.codes)))
    for name, codes in whole.codes.items():
        assert np.array_equal(np.concatenate([block[name] for block in blocks]), codes)


@pytest.mark.parametrize("rows", [1, 99, 100, 101, 350])
def test_parts_and_sketches_equal_the_whole_file_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: int
) -> None:
    monkeypatch.setattr(storing, "_MAX_PART_ROWS", 100)
    monkeypatch.setattr(sketching, "SORTED_ROWS", 150)
    monkeypatch.setattr(sketching, "COUNTED_ROWS", 120)
    monkeypatch.setattr(sketching, "NARROW_ROWS", 250)
    text, spec = sample_csv(rows, seed=rows), columns_spec()
    engine = _stored(tmp_path, text.encode(), spec, chunk_bytes=999)
    whole = plain_data(text, spec)
    _expect_equal(engine, whole)
    heights = [len(block["owner"]) for block in engine.open("ds_1").blocks(["owner"])]
    assert heights == [100] * (rows // 100) + [rows % 100] * bool(rows % 100)
    engine.check("ds_1")


def test_columns_counted_from_the_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sketching, "DENSE_COLUMNS", 3)
    monkeypatch.setattr(storing, "_MAX_PART_ROWS", 64)
    content, spec = _wide(8, 300)
    engine = _stored(tmp_path, content, spec)
    engine.check("ds_1")
    _expect_equal(
        engine,
        plain_data(content.decode(), spec),
    )


def test_no_rows(tmp_path: Path) -> None:
    engine = _stored(tmp_path, b"income,region,owner\n", columns_spec())
    data = engine.open("ds_1")
    assert data.rows == 0
    assert data.gram(["income", "owner"]) == [[0] * 3] * 3
    assert [len(column) for column in data.ordered("income")] == [0, 0]
    assert data.category_counts("region").tolist() == [0, 0, 0, 0]
    assert list(data.blocks(["income"])) == []
    engine.check("ds_1")


def test_what_was_filled_and_dropped_is_counted(tmp_path: Path) -> None:
    spec = columns_spec(
        {
            "x": {"type": "number", "lower": 0, "upper": 1, "missing": 0},
            "y": {"type": "boolean", "missing": "drop"},
        },
        adjacency=Adjacency.ADD_REMOVE,
        max_rows=10,
    )
    engine = DataHere(Vault(tmp_path))
    content = b"x,y\n1,1\n,1\n1,\n,0\n"
    stored = engine.store("ds_1", io.BytesIO(content), spec)
    x, y = ColumnCounts(values=2, filled=2), ColumnCounts(values=3)
    assert stored == Ingested(3, UploadReport(4, 1, {"x": x, "y": y}))
    assert engine.open("ds_1").rows == 3
    manifest = (tmp_path / "datasets" / "ds_1" / "manifest.json").read_text()
    assert "filled" not in manifest
    assert "dropped" not in manifest


def test_a_refused_upload_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storing, "_MAX_PART_ROWS", 10)
    content = sample_csv(200).encode() + b"north,,words,1\n"
    with pytest.raises(Problem):
        _stored(tmp_path, content, columns_spec(), chunk_bytes=500)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
    with pytest.raises(AbsentError):
        DataHere(Vault(tmp_path)).open("ds_1")


def test_a_failing_disk_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError("no space left")

    monkeypatch.setattr("app.vault.vault._write_durably", fail)
    with pytest.raises(OSError, match="no space left"):
        _stored(tmp_path, sample_csv(10).encode(), columns_spec())
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_check_by_processes_notices_sketches_of_other_rows(tmp_path: Path) -> None:
    executor = ProcessExecutor(workers=2)
    vault = Vault(tmp_path)
    engine = DataHere(vault, executor=executor)
    try:
        engine.store("ds_1", io.BytesIO(sample_csv(50).encode()), columns_spec())
        engine.check("ds_1")
        with vault.writer("ds_2") as writer:
            for part in vault.open("ds_1").parts:
                block = part.read(["income", "region", "owner"])
                writer.write({**block, "income": block["income"] // 2})
            for name, file in vault.open("ds_1").attached.items():
                writer.attach(name, file.read())
            writer.finish(vault.open("ds_1").facts)
            vault.publish(writer)
        with pytest.raises(MismatchError):
            engine.check("ds_2")
    finally:
        executor.close()


def test_tampered_rows_reach_no_pass(tmp_path: Path) -> None:
    engine = _stored(tmp_path, sample_csv(50).encode(), columns_spec())
    data = engine.open("ds_1")
    (path,) = tmp_path.rglob("part-*.parquet")
    content = bytearray(path.read_bytes())
    content[100] ^= 255
    path.write_bytes(content)
    with pytest.raises(TamperedError):
        list(data.blocks(["income"]))
    with pytest.raises(TamperedError):
        engine.check("ds_1")


def test_erasing_forgets_what_was_cached(tmp_path: Path) -> None:
    engine = _stored(tmp_path, sample_csv(50).encode(), columns_spec())
    engine.open("ds_1").ordered("income")
    engine.erase("ds_1")
    with pytest.raises(AbsentError):
        engine.open("ds_1")


def test_erasing_tells_everybody_who_may_remember(tmp_path: Path) -> None:
    reported: list[str] = []

    def fail(_: str) -> None:
        raise OSError

    engine = DataHere(Vault(tmp_path), erased=[reported.append, fail, reported.append])
    engine.store("ds_1", io.BytesIO(b"x\n1\n"), columns_spec({"x": {"type": "boolean"}}))
    with pytest.raises(OSError):  # noqa: PT011 - the very one above
        engine.erase("ds_1")
    assert reported == ["ds_1", "ds_1"]
    with pytest.raises(AbsentError):
        engine.open("ds_1")


def test_what_stays_on_disk_goes_from_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process may read the vault and not write there."""

    def refuse(*_: object) -> None:
        raise PermissionError

    reported: list[str] = []
    engine = DataHere(Vault(tmp_path), erased=[reported.append])
    engine.store("ds_1", io.BytesIO(b"x\n1\n"), columns_spec({"x": {"type": "boolean"}}))
    engine.open("ds_1")
    monkeypatch.setattr(Vault, "erase", refuse)
    with pytest.raises(PermissionError):
        engine.erase("ds_1")
    assert reported == ["ds_1"]
    assert not engine._cache._held


def test_the_cache_is_bounded_and_serves_the_same_numbers(tmp_path: Path) -> None:
    content, spec = _wide(4, 200)
    Vault(tmp_path)
    engine = DataHere(Vault(tmp_path), cache_bytes=6000)
    engine.store("ds_1", io.BytesIO(content), spec)
    first = engine.open("ds_1")
    assert engine.open("ds_1") is first
    counts = {name: first.ordered(name) for name in spec.columns}
    assert engine._cache._bytes <= 6000
    assert engine.open("ds_1") is not first
    for name, (codes, times) in counts.items():
        again = engine.open("ds_1").ordered(name)
        assert np.array_equal(codes, again[0])
        assert np.array_equal(times, again[1])


def test_a_mean_reads_no_column_and_no_part(tmp_path: Path) -> None:
    engine = _stored(tmp_path, sample_csv(50).encode(), columns_spec())
    for path in tmp_path.rglob("part-*"):
        path.unlink()
    (attached,) = tmp_path.rglob("attached.bin")
    content = attached.read_bytes()
    counts = -1
    for _ in range(4):  # the first array behind the three of the matrix
        counts = content.index(b"NUMPY", counts + 1)
    attached.write_bytes(content[: counts - 1])
    data = engine.open("ds_1")
    assert data.gram(["income"])[0][0] == 50
    with pytest.raises(TamperedError):
        data.ordered("income")


def test_a_matrix_of_integers_of_any_size_is_kept() -> None:
    largest = 1 << 128
    for rows in ([[0]], [[1]], [[-1]], [[largest, -largest], [-largest, 1 << 34]], [[127 << 68]]):
        words = [
            np.array([[each >> shift & mask for each in row] for row in rows], dtype=np.int64)
            for shift, mask in ((68, -1), (34, (1 << 34) - 1), (0, (1 << 34) - 1))
        ]
        again = schema.read_gram(schema.Gram(*words).to_bytes())
        assert again.some(range(len(rows))) == rows
        again.add(schema.read_gram(again.to_bytes()))
        assert again.some(range(len(rows))) == [[2 * each for each in row] for row in rows]


@in_one("sizes", [[], [3], [10], [11], [4, 6], [25, 1, 0, 9], [1] * 31])
def test_regrouping_keeps_rows_and_order(sizes: list[int]) -> None:
    stream = iter(range(1000))
    blocks = [{"a": np.array([next(stream) for _ in range(n)], dtype=np.int32)} for n in sizes]
    groups = [block["a"].tolist() for block in regroup(blocks, 10)]
    assert [code for group in groups for code in group] == list(range(sum(sizes)))
    assert all(len(group) == 10 for group in groups[:-1])
    assert all(1 <= len(group) <= 10 for group in groups)


def test_full_parts_are_bounded_in_cells() -> None:
    assert part_rows(1) == part_rows(32) == 1 << 18
    assert part_rows(1000) * 1000 <= 1 << 23


def test_merged_sketches_of_parts_are_the_sketch_of_the_whole() -> None:
    text, spec = sample_csv(120), columns_spec()
    columns = schema_of(spec, rows=None).columns
    rows = plain_data(text, spec)
    values = {name: rows.values_of(name) for name in columns}
    builder = sketching.SketchBuilder(columns)
    for part in regroup([values], 50):
        builder.add(part)
    files = dict(builder.files([]))
    whole = rows.sketch
    for index, name in enumerate(whole.ordered):
        mine = schema.read_column(files[schema.column_file(index)])
        assert np.array_equal(mine[0], whole.ordered[name][0])
        assert np.array_equal(mine[1], whole.ordered[name][1])
