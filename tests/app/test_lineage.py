"""Who is recognised: the same people shuffled, re-encoded, reduced, and who is not."""

from __future__ import annotations

import errno
import gzip
import io
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from app.domain.datasets import ColumnsSpec, parse_columns
from app.domain.overlap import TableShape, chance_of_equal, overlaps
from app.services.datasets.comparing import Digested, compare
from app.uploads.ingest import ingest
from app.uploads.row_digests import MalformedError, RowDigester, RowDigests, tables_overlap
from app.uploads.samples import Sampler
from app.vault.lineage import LineageFiles, Origin
from app.vault.stored import TamperedError, UnreadableError, VaultError
from mechanisms.privacy import Adjacency

KEY = bytes(range(32))
ORIGIN = Origin(account="acc_1", adjacency="replace_one", delta=None)
REGIONS = ("north", "south", "east", "west")


def people(rows: int, *, seed: int = 1) -> pl.DataFrame:
    """Return a table as surveys are: money, ages, a few codes."""
    chance = np.random.default_rng(seed)
    return pl.DataFrame(
        {
            "income": chance.lognormal(7, 1, rows).round(2),
            "food": chance.lognormal(6, 1, rows).round(2),
            "age": chance.integers(18, 90, rows).astype(float),
            "region": chance.choice(REGIONS, rows),
            "owner": chance.random(rows) < 0.5,
        }
    )


FILL = {"missing": 0, "unreadable": "missing"}


def spec_of(frame: pl.DataFrame, *, upper: float = 5000) -> ColumnsSpec:
    columns: dict[str, dict[str, object]] = {}
    for name, kind in frame.schema.items():
        if kind == pl.String:
            columns[name] = {"type": "category", "values": frame[name].unique().sort().to_list()}
        elif kind == pl.Boolean:
            columns[name] = {"type": "boolean"}
        else:
            columns[name] = {"type": "number", "lower": 0, "upper": upper, **FILL}
    return parse_columns(columns, adjacency=Adjacency.REPLACE_ONE, max_rows=None)


def csv_of(frame: pl.DataFrame) -> bytes:
    return frame.write_csv().encode()


def parquet_of(frame: pl.DataFrame, path: Path) -> bytes:
    frame.write_parquet(path)
    return path.read_bytes()


def digests(
    content: pl.DataFrame | bytes, spec: ColumnsSpec | None = None, *, key: bytes = KEY
) -> RowDigests:
    """Digest an upload, in small blocks, and send it through its stored form."""
    if isinstance(content, pl.DataFrame):
        spec = spec or spec_of(content)
        content = csv_of(content)
    assert spec is not None
    digester = RowDigester(key, spec)
    import tempfile

    with tempfile.TemporaryFile() as file:  # Parquet needs a descriptor
        file.write(content)
        file.seek(0)
        for _ in ingest(file, spec, digester=digester):
            pass
    return RowDigests.from_bytes(digester.finish().to_bytes())


def found(
    new: pl.DataFrame | bytes, old: pl.DataFrame | bytes, spec: ColumnsSpec | None = None
) -> bool:
    one, other = digests(new, spec), digests(old, spec)
    forwards, backwards = tables_overlap(one, other), tables_overlap(other, one)
    assert forwards == backwards
    return forwards


SIZES = pytest.mark.parametrize("rows", [5, 40, 235, 5_000])


@SIZES
def test_the_same_rows_shuffled_reordered_and_renamed(rows: int) -> None:
    before = people(rows)
    after = before.sample(fraction=1, shuffle=True, seed=3)
    assert found(after, before)
    assert found(after.select("owner", "age", "income", "region", "food"), before)
    assert found(after.rename({name: f"v{name}" for name in after.columns}), before)


@SIZES
def test_other_people_of_the_same_law_are_not_found(rows: int) -> None:
    for seed in range(2, 12):
        assert not found(people(rows, seed=seed), people(rows)), seed


@pytest.mark.parametrize("rows", [40, 235, 5_000])
def test_some_rows_dropped_or_added(rows: int) -> None:
    before = people(rows)
    assert found(before.sample(fraction=0.3, seed=1), before)
    assert found(before[:-1], before)
    assert found(pl.concat([before, people(2 * rows, seed=9)]), before)
    # every row twice is no way out
    assert found(pl.concat([before, before]), before)


def test_a_few_shared_rows_are_no_overlap() -> None:
    before, others = people(1_000), people(1_000, seed=2)
    assert not found(pl.concat([others, before[:50]]), before)
    assert found(pl.concat([others[:600], before[:400]]), before)


@pytest.mark.parametrize("rows", [40, 5_000])
@pytest.mark.parametrize("dropped", [["food"], ["owner", "region"]])
def test_columns_dropped_from_either(rows: int, dropped: list[str]) -> None:
    before = people(rows)
    assert found(before.drop(dropped).sample(fraction=1, shuffle=True, seed=3), before)


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_columns_that_are_not_declared_leave_no_trace(form: str, tmp_path: Path) -> None:
    def digested(table: pl.DataFrame, declared: list[str]) -> RowDigests:
        content = csv_of(table) if form == "csv" else parquet_of(table, tmp_path / "table.parquet")
        return digests(content, spec_of(table.select(declared)))

    before, others = people(300), people(300, seed=2)
    first, second = ["income", "region"], ["food", "age", "owner"]
    one = digested(before, first)
    assert one.to_bytes() == digested(before.with_columns(others.select(second)), first).to_bytes()
    # so the same people are not found again by the other columns of their file
    assert not tables_overlap(one, digested(before, second))
    assert tables_overlap(one, digested(before.sample(250, seed=2), [*first, "owner"]))


def test_one_column_that_nobody_declares_tells_nothing() -> None:
    """Strangers often share one: the midnights of a year, the places of their schools."""
    days = np.arange(365) * 86_400_000.0
    for shared in (days, np.random.default_rng(1).random(365).round(6)):
        one, other = (
            people(365, seed=seed).select("income").with_columns(pl.Series("shared", shared))
            for seed in (1, 2)
        )
        first, second = (
            digests(csv_of(table), spec_of(table.select("income"))) for table in (one, other)
        )
        assert not tables_overlap(first, second)
    # nor does it where it is the only one with numbers
    lists = pl.DataFrame({"rank": days / 1000, "name": REGIONS[0], "rich": [True, *[False] * 364]})
    spec = spec_of(lists.select("rich"))
    assert not any("file" in kept.labels for kept in digests(csv_of(lists), spec).kept)


def test_cells_that_are_not_declared_may_be_anything() -> None:
    rows = "".join(f"{row}.25,{row}.5,{'x' if row % 3 else row},nan,1e999,\n" for row in range(100))
    spec = parse_columns(
        {"a": {"type": "number", "lower": 0, "upper": 9}},
        adjacency=Adjacency.REPLACE_ONE,
        max_rows=None,
    )
    old = digests(("a,b,a text,none,none,\n" + rows).encode(), spec)
    assert old.kept[0].sample.rows == 100


@pytest.mark.parametrize("name", ["*", "^a.*$", "^($"])
def test_a_parquet_column_may_be_named_like_a_pattern(name: str, tmp_path: Path) -> None:
    table = people(30).select("age", pl.col("income").alias(name), pl.col("food").alias("ab"))
    content = parquet_of(table, tmp_path / "table.parquet")
    for place in (0, 1):
        assert found(content, content, spec_of(table.select(pl.nth(place))))


@pytest.mark.wide
def test_columns_of_few_bits_each_are_found_by_their_halves() -> None:
    chance = np.random.default_rng(5)
    answers = pl.DataFrame(
        {f"q{number}": chance.integers(1, 6, 3_000).astype(float) for number in range(40)}
    )
    assert found(answers.drop("q7"), answers)
    assert found(answers.with_columns(wave=pl.Series(chance.integers(1, 4, 3_000))), answers)
    others = pl.DataFrame(
        {f"q{number}": chance.integers(1, 6, 3_000).astype(float) for number in range(40)}
    )
    assert not found(others, answers)


def test_one_format_or_another(tmp_path: Path) -> None:
    before = people(300)
    spec, csv = spec_of(before), csv_of(before)
    narrow = before.with_columns(pl.col("income", "food").cast(pl.Float32))
    for other in (
        gzip.compress(csv),
        parquet_of(before, tmp_path / "wide.parquet"),
        parquet_of(narrow, tmp_path / "narrow.parquet"),
        csv.replace(b"\n", b"\r\n"),
    ):
        assert found(other, csv, spec)
        whole = digests(other, spec), digests(csv, spec)
        assert whole[0].whole == whole[1].whole


def test_one_spelling_or_another() -> None:
    spec = parse_columns(
        {"a": {"type": "number", "lower": 0, "upper": 1}, "b": {"type": "boolean"}},
        adjacency=Adjacency.REPLACE_ONE,
        max_rows=None,
    )
    one = digests(b"a,b\n1,true\n0,false\n-0.5,1\n100,0\n", spec)
    other = digests(b"a,b\n1.0e0,TRUE\n-0,False\n -5e-1,1\n1.00e2,0\n", spec)
    assert one.whole is not None
    assert one.whole == other.whole


def test_bounds_types_and_fills_change_nothing() -> None:
    before = people(200)
    clamped = digests(csv_of(before), spec_of(before, upper=1))
    assert tables_overlap(clamped, digests(before))
    ages = [str(age) for age in range(18, 90)]
    retyped = parse_columns(
        {
            "income": {"type": "number", "lower": 0, "upper": 1},
            "age": {"type": "category", "values": ages, "missing": "18", "unreadable": "missing"},
            "owner": {"type": "category", "values": ["true", "false"]},
        },
        adjacency=Adjacency.REPLACE_ONE,
        max_rows=None,
    )
    whole = before.with_columns(pl.col("age").cast(pl.Int64))
    typed = digests(whole.select("income", "age", "owner"))
    assert digests(csv_of(whole), retyped).whole == typed.whole


# Tables in which everybody resembles somebody


@pytest.mark.wide
def test_tables_of_few_different_rows_overlap_only_when_they_are_the_same() -> None:
    chance = np.random.default_rng(1)

    def booleans(rows: int) -> pl.DataFrame:
        return pl.DataFrame({"a": chance.random(rows) < 0.5, "b": chance.random(rows) < 0.3})

    for rows in (4, 100, 5_000):
        for _ in range(10):
            assert not found(booleans(rows), booleans(rows))
    # unchanged but for the order, and too many rows for a coincidence
    before = booleans(5_000)
    assert found(before.sample(fraction=1, shuffle=True, seed=1), before)
    # four rows with one of each say nothing
    factorial = pl.DataFrame({"a": [True, True, False, False], "b": [True, False, True, False]})
    assert not found(factorial, factorial)


def test_lists_of_numbers_and_designs_are_shared_by_strangers() -> None:
    def ids(rows: int) -> pl.DataFrame:
        return pl.DataFrame({"id": np.arange(1, rows + 1)})

    for rows in (60, 5_000):
        assert not found(ids(1_000), ids(rows))
    ages = [pl.DataFrame({"age": np.random.default_rng(s).integers(18, 90, 300)}) for s in (1, 2)]
    assert not found(*ages)
    # the very same lists are the same table, and so are those that lost a row of other numbers
    assert found(ids(200), ids(200))
    steps = pl.DataFrame({"number": np.arange(200), "step": np.arange(200) * 0.5})
    assert found(steps[:-9], steps)
    grid = pl.DataFrame({"x": np.repeat(np.arange(20), 20), "y": np.tile(np.arange(20), 20)})
    assert not found(grid.sample(fraction=0.9, seed=1), grid)


@pytest.mark.parametrize("columns", [["day"], ["pay"], ["day", "pay", "owner"]])
@pytest.mark.parametrize("rows", [60, 100, 300])
def test_strangers_have_days_and_round_pay_in_common(rows: int, columns: list[str]) -> None:
    """A small table has no two equal days, and a large one has nearly all the days there are."""
    chance = np.random.default_rng(rows)

    def frame(rows: int) -> pl.DataFrame:
        drawn = {
            "day": pl.Series(20_000 + chance.integers(0, 720, rows)).cast(pl.Date).cast(pl.String),
            "pay": chance.lognormal(10.5, 0.5, rows).round(-2),
            "owner": chance.random(rows) < 0.4,
        }
        return pl.DataFrame({name: drawn[name] for name in columns})

    kinds: dict[str, dict[str, object]] = {
        "day": {"type": "date", "lower": "2000-01-01", "upper": "2030-12-31"},
        "pay": {"type": "number", "lower": 0, "upper": 200_000},
        "owner": {"type": "boolean"},
    }
    spec = parse_columns(
        {name: kinds[name] for name in columns}, adjacency=Adjacency.REPLACE_ONE, max_rows=None
    )
    large = [digests(csv_of(frame(many)), spec) for many in (300, 1_500, 10_000)]
    for small in (digests(csv_of(frame(rows)), spec) for _ in range(12)):
        assert not any(tables_overlap(small, old) for old in large)
        # of the days in a range there are no more than that, however fine a time could be
        assert all(kept.bits < 10 for kept in small.kept if columns == ["day"])
    # the same people are found, also among as many others and written twice
    if len(columns) > 1:
        before = frame(rows)
        among = pl.concat([before, frame(rows)])
        assert found(csv_of(pl.concat([among, among])), csv_of(before), spec)


@pytest.mark.parametrize("rows", [40, 200, 1_000])
@pytest.mark.parametrize(
    "columns",
    [["number", "spent"], ["number", "code"], ["number", "place", "owner"], ["code", "age"]],
)
def test_strangers_who_are_numbered_are_no_overlap(rows: int, columns: list[str]) -> None:
    """Next to a running number rows have no twins, however often all else is the same."""
    chance = np.random.default_rng(rows)

    def frame(rows: int) -> pl.DataFrame:
        spent = np.where(chance.random(rows) < 0.6, 0, chance.lognormal(3, 1, rows).round(2))
        drawn = {
            "number": np.arange(1, rows + 1),
            "place": np.arange(1_000, 1_000 + rows),
            "spent": spent,
            "code": 1_000 + np.minimum(chance.zipf(1.4, rows), 8_000),
            "age": 1_000 + (8_000 * chance.beta(0.5, 1, rows)).astype(int),
            "owner": chance.random(rows) < 0.4,
        }
        return pl.DataFrame({name: drawn[name] for name in columns})

    spec = spec_of(frame(2), upper=10**6)
    large = [digests(csv_of(frame(many)), spec) for many in (60, 1_500)]
    for small in (digests(csv_of(frame(rows)), spec) for _ in range(4)):
        assert not any(tables_overlap(small, old) for old in large)


def test_a_third_of_equal_rows_does_not_hide_the_others() -> None:
    nobody = pl.DataFrame({"spent": [0.0] * 300, "owed": [0.0] * 300})
    chance = np.random.default_rng(1)

    def customers() -> pl.DataFrame:
        money = {name: chance.lognormal(5, 2, 700).round(2) for name in ("spent", "owed")}
        return pl.concat([nobody, pl.DataFrame(money)])

    before = customers()
    assert found(before[:-1], before)
    assert not found(customers(), before)


@pytest.mark.wide
def test_rare_marks_of_the_same_law_are_no_overlap() -> None:
    chance = np.random.default_rng(2)

    def marks() -> pl.DataFrame:
        return pl.DataFrame({f"m{number}": chance.random(2_000) < 0.02 for number in range(20)})

    before = marks()
    for _ in range(10):
        assert not found(marks(), before)
    assert found(before.sample(fraction=1, shuffle=True, seed=1), before)


def test_a_small_part_of_a_large_table(tmp_path: Path) -> None:
    before = people(400_000).drop("region")  # more rows than the sample keeps
    old = digests(before)
    assert old.whole is None
    assert tables_overlap(digests(before.sample(1_000, seed=1)), old)
    assert not tables_overlap(digests(people(1_000, seed=4).drop("region")), old)
    assert len(old.to_bytes()) < 4 << 20


def test_another_key_tells_nothing() -> None:
    before = people(200)
    assert not tables_overlap(digests(before, key=bytes(32)), digests(before))
    held = digests(before).kept[0].sample.digests
    assert not np.isin(held, digests(before, key=bytes(32)).kept[0].sample.digests).any()


def test_rows_without_any_cell_are_nobody() -> None:
    spec = parse_columns(
        {"a": {"type": "number", "lower": 0, "upper": 1, **FILL}},
        adjacency=Adjacency.REPLACE_ONE,
        max_rows=None,
    )
    nobody = digests(b"a\n" + b"x\n" * 50, spec)
    assert nobody.kept[0].sample.rows == 0
    assert not tables_overlap(nobody, nobody)


@pytest.mark.wide
def test_wide_tables_are_compared_in_one_pass() -> None:
    columns = {f"c{number}": {"type": "number", "lower": 0, "upper": 9} for number in range(600)}
    spec = parse_columns(columns, adjacency=Adjacency.REPLACE_ONE, max_rows=None)

    def digested(seed: int) -> RowDigests:
        chance, digester = np.random.default_rng(seed), RowDigester(KEY, spec)
        digester.add({name: (chance.uniform(0, 9, 400), None) for name in columns})
        return digester.finish()

    one, other = digested(1), digested(2)
    started = time.process_time()
    assert not tables_overlap(one, other)
    assert time.process_time() - started < 1  # column by column it takes four seconds


# Samples and the rule by themselves


def test_a_sample_is_the_smallest_digests_however_they_arrive() -> None:
    chance = np.random.default_rng(3)
    values = chance.integers(1, 2**63, 5_000, dtype=np.uint64)
    often = np.concatenate([values, values[:1_000]])

    def sampled(order: np.ndarray, step: int) -> Iterator[object]:
        sampler = Sampler(256)
        for start in range(0, len(order), step):
            sampler.add(order[start : start + step])
        sample = sampler.sample()
        assert sample is not None
        yield from (sample.digests.tolist(), sample.limit, sample.rows, sample.repeated)

    one = list(sampled(often, 100))
    other = list(sampled(chance.permutation(often), 777))
    assert one == other
    smallest = np.unique(values)
    assert one[0] == smallest[:256].tolist()
    assert one[1] == int(smallest[256])
    assert one[2] == 6_000
    assert 0.2 < float(str(one[3])) < 0.45  # 2,000 of 6,000 rows have a twin


def test_a_table_of_twins_is_given_up_unless_wanted() -> None:
    coins = np.random.default_rng(1).integers(1, 3, 300_000, dtype=np.uint64)
    hasty, patient = Sampler(64), Sampler(64, patient=True)
    for sampler in (hasty, patient):
        for start in range(0, len(coins), 1_000):
            sampler.add(coins[start : start + 1_000])
    assert hasty.sample() is None
    counts = patient.counts()
    assert counts is not None
    assert counts.tolist() == np.bincount(coins.astype(np.int64))[1:].tolist()


def test_the_rule_asks_for_more_than_chance() -> None:
    table = TableShape(rows=1_000, distinct=800, repeated=0.4, bits=60)
    assert chance_of_equal(smaller=table, larger=table) == pytest.approx(0.4)
    assert not overlaps(smaller=table, larger=table, compared=800, common=400)
    assert overlaps(smaller=table, larger=table, compared=800, common=700)
    rich = TableShape(rows=1_000, distinct=1_000, repeated=0, bits=60)
    assert not overlaps(smaller=rich, larger=rich, compared=1_000, common=90)
    assert overlaps(smaller=rich, larger=rich, compared=1_000, common=110)
    # the smaller one's twins say as well how often rows recur
    some = TableShape(rows=60, distinct=56, repeated=0.13, bits=22)
    none = TableShape(rows=60, distinct=60, repeated=0, bits=22)
    assert not overlaps(smaller=some, larger=none, compared=56, common=7)
    assert overlaps(smaller=some, larger=none, compared=56, common=40)
    alone = TableShape(rows=1, distinct=1, repeated=0, bits=60)
    assert not overlaps(smaller=alone, larger=rich, compared=1, common=1)


def test_other_bytes_are_no_digests() -> None:
    sound = digests(people(50)).to_bytes()
    for broken in (b"", b"{}", b"\n", sound[:-8], sound + b"12345678", sound[:40], b"[]\n"):
        with pytest.raises(MalformedError):
            RowDigests.from_bytes(broken)
    assert io.BytesIO(sound).read() == sound


def test_a_key_of_another_length_is_no_key(tmp_path: Path) -> None:
    """It is refused rather than replaced: digests under a new one would match nothing."""
    files = LineageFiles(tmp_path)
    key = files.key()
    assert files.key() == key
    (tmp_path / "lineage" / "key").write_bytes(key[:31])
    with pytest.raises(VaultError, match="not a key of 32 bytes"):
        files.key()
    assert (tmp_path / "lineage" / "key").read_bytes() == key[:31]


def test_digests_are_read_as_they_were_kept_or_not_at_all(tmp_path: Path) -> None:
    files = LineageFiles(tmp_path)
    sha256 = files.keep("ds_1", b"some digests", ORIGIN)
    assert files.read("ds_1", sha256) == b"some digests"
    assert files.kept() == ["ds_1"]
    assert files.sha256_of("ds_1") == sha256
    assert files.origin("ds_1") == ORIGIN
    file = tmp_path / "lineage" / "ds_1.digests"
    file.write_bytes(b"same length!")
    with pytest.raises(TamperedError, match="differs"):
        files.read("ds_1", sha256)
    for _ in range(2):
        files.forget("ds_1")
        with pytest.raises(TamperedError, match="cannot be read"):
            files.read("ds_1", sha256)
    assert files.kept() == []
    assert files.origin("ds_1") is None
    for broken in (b"", b"[]", b"{}", b"\xff"):
        (tmp_path / "lineage" / "ds_1.account").write_bytes(broken)
        assert files.origin("ds_1") is None


def test_digests_that_the_system_does_not_give_are_not_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = LineageFiles(tmp_path)
    content = digests(csv_of(people(300)), spec_of(people(300))).to_bytes()
    one, other = (Digested(name, files.keep(name, content, ORIGIN)) for name in ("ds_1", "ds_2"))
    assert compare(files, one, [other]).found == "ds_2"

    def refusing(system: Any) -> Any:
        def refuse(path: Any, *arguments: Any, **options: Any) -> Any:
            if "ds_2" in str(path):
                raise OSError(errno.EMFILE, "too many open files")
            return system(path, *arguments, **options)

        return refuse

    with monkeypatch.context() as patched:
        patched.setattr(os, "open", refusing(os.open))
        patched.setattr(io, "open", refusing(io.open))
        with pytest.raises(UnreadableError):
            files.origin("ds_2")
        with pytest.raises(UnreadableError):
            compare(files, one, [other])
    files.forget("ds_2")
    assert compare(files, one, [other]).lost == ("ds_2",)


def test_what_was_cut_off_is_swept_and_what_is_whole_stays(tmp_path: Path) -> None:
    files = LineageFiles(tmp_path)
    files.keep("ds_1", b"whole", ORIGIN)
    (tmp_path / "lineage" / "ds_2-half").write_bytes(b"ha")
    before = {file.name for file in (tmp_path / "lineage").iterdir()}
    files.sweep()
    assert before - {file.name for file in (tmp_path / "lineage").iterdir()} == {"ds_2-half"}
    assert files.origin("ds_1") == ORIGIN


def test_runs_of_the_index_that_hold_a_forgotten_data_set_go(tmp_path: Path) -> None:
    files = LineageFiles(tmp_path)
    files.keep("ds_1", b"whole", ORIGIN)
    files.index.mkdir()
    for name in ("ds_1", "ds_2"):
        (files.index / f"{name}.run").write_text(f"{name}\nds_1")
    (files.index / "half.part").touch()
    (files.index / "gone.run").symlink_to("nowhere")  # as when it is merged meanwhile
    files.sweep()
    files.forget("ds_1")
    assert {file.name for file in files.index.iterdir()} == {"ds_2.run", "gone.run"}
