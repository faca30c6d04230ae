"""Growing data: a version is its files in one, and a cap of rows holds over all of them."""

from __future__ import annotations

import io
import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from app.domain.problems import Problem
from app.engine.schema import schema_of
from app.uploads import sketching, storing
from app.uploads.ingest import ingest
from app.uploads.people import counting
from app.uploads.people.counting import RowsStored, Table
from app.uploads.people.taking import PeopleRows
from app.uploads.people.wire import Spill
from app.vault.stored import TamperedError
from app.vault.vault import Vault
from mechanisms.catalog import calibrate
from mechanisms.contract import Statistic
from mechanisms.privacy import Epsilon
from mechanisms.randomness import Randomness
from mechanisms.statistics.histogram import Histogram
from mechanisms.statistics.logistic_regression import LogisticRegression
from mechanisms.statistics.mean import Mean
from mechanisms.statistics.quantile import Quantile
from tests.app.people import PRF, Row, csv_of, people_spec
from tests.app.uploads import DataHere, columns_spec, plain_data, sample_csv

ROWS = (230, 1, 160)
SPEC = columns_spec()
SCHEMA = schema_of(SPEC, rows=sum(ROWS))
MOST = 2

Person = tuple[str, int]
Files = tuple[tuple[Person, ...], ...]
Storing = Callable[[Files], Counter[Row]]


class SeededBits:
    """Bits that are the same each time."""

    def __init__(self) -> None:
        self._random = random.Random(20_261_124)

    def bits(self, count: int) -> int:
        return self._random.getrandbits(count) if count else 0


@dataclass
class Kept:
    """Files that a version keeps, held in memory."""

    content: bytes

    def read(self) -> bytes:
        return self.content


@dataclass
class Shelf:
    """What versions keep of people, one after the other."""

    files: dict[str, Kept] = field(default_factory=dict)
    next: dict[str, Kept] = field(default_factory=dict)

    def attach(self, name: str, content: bytes) -> None:
        self.next[name] = Kept(content)

    def turn(self) -> None:
        self.files, self.next = self.next, {}


def three_files() -> list[str]:
    return [sample_csv(rows, seed=rows) for rows in ROWS]


def grown(engine: DataHere, files: Sequence[bytes], spec: Any = SPEC) -> list[str]:
    """Store files one behind the other, and return the versions."""
    names = [f"ds_{number}" for number in range(1, len(files) + 1)]
    before: tuple[str, None] | None = None
    for name, content in zip(names, files, strict=True):
        engine.store(name, io.BytesIO(content), spec, extends=before)
        before = (name, None)
    return names


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> DataHere:
    monkeypatch.setattr(storing, "_MAX_PART_ROWS", 100)
    return DataHere(Vault(tmp_path))


@pytest.mark.parametrize("dense", [1, 16])
def test_a_version_is_one_upload_of_all_its_rows(
    tmp_path: Path, engine: DataHere, monkeypatch: pytest.MonkeyPatch, dense: int
) -> None:
    """Its rows, its sketches and what is drawn of them, bit for bit; old parts are not copied."""
    monkeypatch.setattr(sketching, "DENSE_COLUMNS", dense)
    files = three_files()
    whole = files[0] + "".join(text.split("\n", 1)[1] for text in files[1:])
    versions = grown(engine, [text.encode() for text in files])
    engine.store("ds_whole", io.BytesIO(whole.encode()), SPEC)
    wanted = plain_data(whole, SPEC)
    together, apart = engine.open(versions[-1]), engine.open("ds_whole")
    numbers = list(wanted.sketch.ordered)
    for data in (together, apart):
        assert data.rows == sum(ROWS)
        assert data.gram(numbers) == wanted.gram(numbers)
        assert data.category_counts("region").tolist() == wanted.category_counts("region").tolist()
        for name in numbers:
            for mine, theirs in zip(data.ordered(name), wanted.ordered(name), strict=True):
                assert np.array_equal(mine, theirs)
        blocks = list(data.blocks(list(wanted.codes)))
        for name, codes in wanted.codes.items():
            assert np.array_equal(np.concatenate([block[name] for block in blocks]), codes)
    statistics: list[Statistic] = [
        Mean(columns=("income", "owner")),
        Histogram(columns=("region",)),
        Quantile(column="income", levels=(0.5,)),
        LogisticRegression(target="owner", features=("income",)),
    ]
    for statistic in statistics:
        plan = calibrate(statistic, SCHEMA, Epsilon.parse("1"))
        drawn = [plan.draw(data, Randomness(SeededBits())) for data in (together, apart)]
        assert drawn[0].value == drawn[1].value
    for name in (*versions, "ds_whole"):
        engine.check(name)
    parts = [tmp_path / "datasets" / name / "part-00000.parquet" for name in versions]
    assert len({path.stat().st_ino for path in parts}) == 1


def test_versions_outlive_one_another(tmp_path: Path, engine: DataHere) -> None:
    """Whichever is erased, the others can be read, and each names the one that it was made from."""
    versions = grown(engine, [text.encode() for text in three_files()])
    vault = Vault(tmp_path)
    extends = vault.open(versions[1]).facts["extends"]
    assert extends == {"dataset": "ds_1", "manifest": vault.manifest_digest("ds_1")}
    engine.erase(versions[0])
    engine.erase(versions[2])
    engine.check(versions[1])
    assert engine.open(versions[1]).rows == sum(ROWS[:2])


def test_a_manifest_that_is_not_the_ledger_s_is_not_built_on(engine: DataHere) -> None:
    grown(engine, [three_files()[0].encode()])
    with pytest.raises(TamperedError):
        engine.store(
            "ds_2", io.BytesIO(three_files()[1].encode()), SPEC, extends=("ds_1", "0" * 64)
        )


@pytest.mark.parametrize("failing", ["an unreadable cell", "a full disk"])
def test_an_extension_that_fails_leaves_the_old_version_as_it_was(
    tmp_path: Path, engine: DataHere, monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    grown(engine, [three_files()[0].encode()])
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    content = three_files()[2].encode()
    if failing == "an unreadable cell":
        content += b"nowhere,,1,1\n"
    else:
        monkeypatch.setattr(sketching.SketchBuilder, "files", full_disk)
    with pytest.raises((Problem, OSError)):
        engine.store("ds_2", io.BytesIO(content), SPEC, extends=("ds_1", None))
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before
    engine.check("ds_1")


def full_disk(*_: Any) -> Iterator[Any]:
    raise OSError(28, "No space left on device")


# A cap of rows over all versions


def both_files() -> Iterator[Files]:
    """Two files of two people with up to 3 rows of two values each, of whom one comes twice."""
    for first, second, others in product(range(4), range(3), range(2)):
        for cells in product((1, 2), repeat=first + second):
            mine = [("a", cell) for cell in cells]
            theirs = [("b", 1)] * others
            yield (*mine[:first], *theirs), (*theirs, *mine[first:], *theirs)


def without(files: Files, person: str) -> Files:
    return tuple(tuple(row for row in file if row[0] != person) for file in files)


def really_stored(
    files: Files, restarting: bool = False, directory: Path = Path("unused")
) -> Counter[Row]:
    """What the last version holds, through the real reading, counting and keeping."""
    spec, shelf, found = people_spec({"max_rows": MOST}), Shelf(), Counter[Row]()
    for file in files:
        kept = RowsStored(shelf.attach, {} if restarting else shelf.files)
        blocks = ingest(io.BytesIO(csv_of(file)), spec, ids=PRF)
        for block in PeopleRows(spec, PRF, directory, kept).taken(blocks):
            found += Counter((int(code),) for code in block["x"])
        kept.finish()
        shelf.turn()
    return found


def first_of_all(files: Files) -> Counter[Row]:
    """A twin: the first 4 rows of all files, and at most 2 of each person."""
    found, left = Counter[Row](), Counter({"a": MOST, "b": MOST})
    for person, cell in [row for file in files for row in file][:4]:
        if left[person]:
            left[person] -= 1
            found[(cell,)] += 1
    return found


def most_changed(stored: Storing) -> int:
    """The most rows that one person's coming changes in any version, over all tiny files."""
    known = cache(stored)
    changed = 0
    for files, person in product(both_files(), ("a", "b")):
        for version in (files[:1], files):
            here, there = known(version), known(without(version, person))
            changed = max(changed, (here - there).total() + (there - here).total())
    return changed


@pytest.mark.wide
def test_a_person_changes_at_most_k_rows_of_every_version() -> None:
    assert most_changed(really_stored) == MOST


@pytest.mark.wide
def test_a_cap_that_begins_anew_with_every_file_is_caught() -> None:
    """A twin, by the same search: a person who comes twice would change twice as many rows."""
    assert most_changed(lambda files: really_stored(files, restarting=True)) == 2 * MOST


def test_a_cap_that_looks_at_other_people_is_caught() -> None:
    assert most_changed(first_of_all) > MOST


@pytest.mark.parametrize("spilled", [False, True])
def test_counts_of_many_people_lie_in_several_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spilled: bool
) -> None:
    """However they are kept, the caps are those that one plain count gives."""
    monkeypatch.setattr(counting, "_MOST_TOGETHER", 150)
    if spilled:
        monkeypatch.setattr(Spill.__init__, "__kwdefaults__", {"held_bytes": 1000})
    chance = random.Random(5)
    files = [[(f"P{chance.randrange(size)}", 1) for _ in range(300)] for size in (100, 400, 150)]
    room, wanted = Counter({f"P{number}": MOST for number in range(400)}), 0
    for file in files:
        for person, _ in file:
            wanted += room[person] > 0
            room[person] -= room[person] > 0
    stored = really_stored(tuple(map(tuple, files)), directory=tmp_path)
    assert stored.total() == wanted


def test_a_table_of_people_is_read_as_it_was_written() -> None:
    people = np.array([[3, 1], [3, 0], [2**63, 5], [3, 1]], dtype=np.uint64)
    table = Table.summed(people, np.array([1, 2, 3, 4]))
    again = Table.from_bytes(table.to_bytes())
    assert again.people.tolist() == [[3, 0], [3, 1], [2**63, 5]]
    assert again.rows.tolist() == [2, 5, 3]
    asked = np.array([[3, 1], [4, 4], [3, 0]], dtype=np.uint64)
    assert again.of(asked).tolist() == [5, 0, 2]


def test_what_is_kept_of_people_names_nobody(tmp_path: Path) -> None:
    engine = DataHere(Vault(tmp_path))
    spec = people_spec({"max_rows": MOST}, max_rows=9)
    files = [csv_of([("SENTINEL-a", 1), ("SENTINEL-b", 2)]), csv_of([("SENTINEL-a", 3)] * 2)]
    versions = grown(engine, files, spec)
    stored = Vault(tmp_path).open(versions[1])
    assert (stored.rows, stored.facts["max_rows"]) == (3, 18)
    table = Table.from_bytes(stored.attached[counting.TOGETHER].read())
    assert sorted(table.rows.tolist()) == [1, MOST]
    kept = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    assert not any(b"SENTINEL" in content for content in kept)
    engine.check(versions[1])


@pytest.mark.parametrize("reason", ["not counted", "another key"])
def test_without_counts_under_this_key_nobody_comes_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reason: str
) -> None:
    """Data stored by an earlier version, or whose key is lost: the cap would begin again."""
    engine = DataHere(Vault(tmp_path), lineage_key=bytes(32))
    spec = people_spec({"max_rows": MOST})
    if reason == "not counted":
        monkeypatch.setattr(storing, "_PEOPLE_KEY", "other")
    grown(engine, [csv_of([("a", 1)])], spec)
    monkeypatch.undo()
    if reason == "another key":
        engine = DataHere(Vault(tmp_path), lineage_key=bytes(range(32)))
    with pytest.raises(Problem) as refused:
        engine.store("ds_2", io.BytesIO(csv_of([("a", 2)])), spec, extends=("ds_1", None))
    assert refused.value.code == "not-extendable"
    assert (tmp_path / "staging").exists()
    assert list((tmp_path / "staging").iterdir()) == []
