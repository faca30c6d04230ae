"""The index of row digests: nothing is found with it that is not found without it, and all that is.

Random families of tables are compared with and without it. It may be lost, cut off, stale or behind
at any time.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from app.domain.overlap import OWN, TableShape, overlaps
from app.services.datasets import comparing
from app.services.datasets.comparing import (
    ENOUGH_NEW,
    Digested,
    bring_up_to_date,
    compare,
)
from app.uploads import digest_index
from app.uploads.digest_index import may_overlap, runs_in
from app.vault.lineage import LineageFiles
from tests.app.test_lineage import KEY, ORIGIN, digests, people

ROWS = (3, 12, 25, 40, 120, 300)
ACCOUNTS = 6


@pytest.fixture
def files(tmp_path: Path) -> LineageFiles:
    found = LineageFiles(tmp_path)
    found.directory.mkdir()
    (found.directory / "key").write_bytes(KEY)
    return found


def keep(files: LineageFiles, name: str, table: pl.DataFrame, **whose: object) -> Digested:
    sha256 = files.keep(name, digests(table).to_bytes(), ORIGIN)
    return Digested(name, sha256, **whose)  # type: ignore[arg-type]


def unrelated(chance: random.Random) -> pl.DataFrame:
    """Return a table of its own people: of money, of codes, numbered, with other names."""
    rows = chance.choice(ROWS)
    table = people(rows, seed=chance.randrange(10**6))
    match chance.randrange(5):
        case 0:
            return table.select("age", "region", "owner")
        case 1:
            return table.select("income", "age")
        case 2:
            return table.with_columns(pl.Series("id", range(rows)).cast(pl.Float64))
        case 3:
            return table.rename({"income": "pay", "age": "years"})
        case _:
            return table


def related(chance: random.Random, tables: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """Return a table with people of another one: some of them, without a column, among others."""
    table = chance.choice(tables)
    seed = chance.randrange(99)
    match chance.randrange(4):
        case 0:
            share = chance.choice([0.05, 0.1, 0.15, 0.3, 0.6, 1])
            return table.sample(fraction=share, shuffle=True, seed=seed)
        case 1 if table.width > 2:
            return table.drop(chance.choice(table.columns))
        case 2:
            others = people(max(3, len(table) * chance.choice([1, 4])), seed=1000 + seed)
            if others.columns == table.columns:
                some = table.sample(fraction=chance.choice([0.1, 0.2, 0.5, 1]), seed=seed)
                return pl.concat([others, some])
    return table.head(max(2, len(table) // chance.choice([2, 3, 8])))


def family(
    files: LineageFiles, chance: random.Random, size: int
) -> tuple[list[Digested], Digested]:
    """Return earlier data sets, and an upload; some hold people of others."""
    tables: list[pl.DataFrame] = []
    for _ in range(size + 1):
        found = related(chance, tables) if tables and chance.random() < 0.5 else unrelated(chance)
        tables.append(found if len(found) else unrelated(chance))
    earlier = [
        keep(files, f"ds_{place}", table, account=f"acc_{chance.randrange(ACCOUNTS)}")
        for place, table in enumerate(tables[:-1])
    ]
    return earlier, keep(files, "upload", tables[-1])


def cases(earlier: Sequence[Digested]) -> Iterator[tuple[list[Digested], list[Digested]]]:
    """Yield what an upload may be compared with, and what is of its account."""
    for account in (None, "acc_0", "acc_1"):
        own = [each for each in earlier if each.account == account]
        others = [each for each in earlier if each.account != account]
        for seen in (False, True):
            yield [Digested(x.dataset, x.sha256, seen, x.account) for x in others], own
        # each in an account of its own, half of them seen
        yield (
            [
                Digested(x.dataset, x.sha256, place % 2 == 0, x.dataset)
                for place, x in enumerate(others)
            ],
            own,
        )


@pytest.mark.parametrize(
    "seed", [*range(3), *(pytest.param(seed, marks=pytest.mark.wide) for seed in range(3, 25))]
)
def test_random_families_are_judged_alike(
    files: LineageFiles, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(seed)
    earlier, upload = family(files, chance, 12)
    before = [compare(files, upload, *case) for case in cases(earlier)]
    monkeypatch.setattr(comparing, "ENOUGH_NEW", 1)
    monkeypatch.setattr(comparing, "ALWAYS_READ", 0)
    for name, size in (("_FEW", 0), ("_AT_ONCE", 512), ("_BLOCK", 16), ("_GATHERED", 100)):
        monkeypatch.setattr(digest_index, name, size)  # several pieces
    for some in (2, 5, 9, 11):  # some are in no run; runs are merged
        bring_up_to_date(files, earlier[:some])
    assert 1 <= len(runs_in(files.index)) <= 4
    after = [compare(files, upload, *case) for case in cases(earlier)]
    assert after == before


def shape(chance: random.Random) -> TableShape:
    rows = int(10 ** chance.uniform(0.5, 5))
    distinct = max(1, int(rows * chance.choice([1, 1, chance.random(), 0.01])))
    twins = 0.0 if distinct == rows else chance.random()
    alike = chance.choice([0, 0, 0.01, 0.5])
    bits = chance.uniform(0, 40)
    return TableShape(rows=rows, distinct=distinct, repeated=twins, bits=bits, alike=alike)


def test_no_pair_is_ruled_out_that_the_rule_finds() -> None:
    chance, found, kept = random.Random(5), 0, 0
    for _ in range(4_000):
        one, other = shape(chance), shape(chance)
        sizes = [min(int(each.distinct), 2_000) for each in (one, other)]
        facts = np.zeros(2, digest_index.SAMPLE)
        for place, (each, size) in enumerate(zip((one, other), sizes, strict=True)):
            limit = min(2**64 - 1, int(size / each.distinct * 2**64))
            stated = (
                0,
                digest_index.ROWS,
                size,
                limit,
                each.rows,
                each.repeated,
                each.bits,
                each.alike,
                0,
            )
            facts[place] = stated
        limit = int(min(facts["limit"]))
        ours = np.linspace(0, int(facts[0]["limit"]) - 2**12, sizes[0]).astype(np.uint64)
        # of the other's as many as on average: what is sampled is random
        share = min(1.0, limit / int(facts[1]["limit"]))
        below = [int(ours.searchsorted(np.uint64(limit))), max(1, int(share * sizes[1]))]
        compared = min(below)
        common = chance.randint(min(2, compared), compared)
        first = (below[0], one.rows) <= (below[1], other.rows)
        smaller, larger = (one, other) if first else (other, one)
        says = overlaps(smaller=smaller, larger=larger, compared=compared, common=common, floor=OWN)
        may = bool(may_overlap(facts[0], ours, facts[1:], np.array([common]))[0])
        assert may or not says, (one, other, compared, common)
        found, kept = found + says, kept + may
    assert 200 < found <= kept < 3_000, "it rules out a good many"


def test_few_are_read_of_many_of_the_same_law(files: LineageFiles) -> None:
    """Ages, regions and yes or no are shared by all tables; they are ruled out all the same."""
    earlier = [
        keep(files, f"ds_{seed}", people(200, seed=seed), account=f"acc_{seed}")
        for seed in range(40)
    ]
    other_people = keep(files, "other_people", people(200, seed=99))
    again = keep(files, "again", people(200, seed=7)[:60])
    bring_up_to_date(files, earlier)
    assert compare(files, other_people, earlier).found is None
    assert compare(files, again, earlier).found == "ds_7"
    for place, each in enumerate(earlier):
        if place not in (7, *range(len(earlier) - comparing.ALWAYS_READ, len(earlier))):
            (files.directory / f"{each.dataset}.digests").unlink()
    # hardly any of these is read
    assert len(compare(files, other_people, earlier).lost) < 5
    assert compare(files, again, earlier).found == "ds_7"
    # and when the index is brought up to date it is noticed that they are gone
    bring_up_to_date(files, earlier)
    assert len(compare(files, other_people, earlier).lost) > 20


def test_it_may_be_lost_cut_off_or_behind(
    files: LineageFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(comparing, "ALWAYS_READ", 0)
    earlier = [
        keep(files, f"ds_{seed}", people(60, seed=seed), account=f"acc_{seed}")
        for seed in range(ENOUGH_NEW + 2)
    ]
    uploads = [keep(files, f"up_{seed}", people(60, seed=seed)[:50]) for seed in (0, 5, 9, 77)]
    expected = ["ds_0", "ds_5", "ds_9", None]

    def found() -> list[str | None]:
        return [compare(files, upload, earlier).found for upload in uploads]

    bring_up_to_date(files, earlier[: ENOUGH_NEW - 1])  # too few to be worth it
    assert (runs_in(files.index), found()) == ([], expected)
    bring_up_to_date(files, earlier[:ENOUGH_NEW])
    assert found() == expected, "two are in no run"

    def dies(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Path, "rename", dies)
        patched.setattr(comparing, "ENOUGH_NEW", 1)
        with pytest.raises(KeyboardInterrupt):
            bring_up_to_date(files, earlier)
        assert found() == expected
        patched.undo()
        patched.setattr(comparing, "ENOUGH_NEW", 1)
        patched.setattr(comparing, "ALWAYS_READ", 0)
        bring_up_to_date(files, earlier)
        # merged, and the old ones left: as when it ends between the two
        (run,) = runs_in(files.index)
        (files.index / "copy.run").write_bytes(run.path.read_bytes())
        assert found() == expected
        bring_up_to_date(files, earlier)
        assert len(runs_in(files.index)) == 1
        (run,) = runs_in(files.index)
        (files.index / "copy.run").write_bytes(run.path.read_bytes()[:-8])
        (files.index / "none.run").write_bytes(b"[]\n")
        assert found() == expected
        (files.index / "left.part").touch()
        files.sweep()
        assert not (files.index / "left.part").exists()
        bring_up_to_date(files, earlier)
        assert found() == expected
    # under another key it is not used, and removed
    (files.directory / "key").write_bytes(bytes(32))
    bring_up_to_date(files, [])
    assert (runs_in(files.index), found()) == ([], expected)


def test_what_is_forgotten_is_in_no_run(files: LineageFiles) -> None:
    earlier = [
        keep(files, f"ds_{seed}", people(30, seed=seed), account="acc_1")
        for seed in range(ENOUGH_NEW + 1)
    ]
    bring_up_to_date(files, earlier)
    assert [{*run.datasets} for run in runs_in(files.index)] == [{x.dataset for x in earlier}]
    files.forget("up_1")  # an upload that was refused
    assert len(runs_in(files.index)) == 1
    files.forget(earlier[3].dataset)
    assert runs_in(files.index) == []
    bring_up_to_date(files, [each for each in earlier if each != earlier[3]])
    assert earlier[3].dataset not in runs_in(files.index)[0].datasets
