"""One person with several rows: what the real ingest keeps is decided by that person alone."""

from __future__ import annotations

import io
import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from datetime import date
from functools import cache
from itertools import combinations, product
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from app.domain.columns import InvalidSpecError
from app.domain.datasets import parse_columns
from app.domain.problems import Problem
from app.domain.upload_reports import PeopleCounts, UploadReport
from app.engine.schema import schema_of
from app.uploads.ingest import ingest
from app.uploads.people.wire import Spill, fields_of
from app.vault.vault import Vault
from mechanisms.privacy import Adjacency
from tests.app.people import PRF, Row, X, csv_of, people_spec, stored
from tests.app.uploads import DataHere
from tests.tiers import in_one

Rows = Sequence[tuple[str | None, int]]
Taking = Callable[[Rows], Counter[Row]]


def interleaved(one: Sequence[Any], other: Sequence[Any]) -> Iterator[list[Any]]:
    """Every order in which two people's rows may stand in a file, each one's own kept."""
    for places in combinations(range(len(one) + len(other)), len(one)):
        mine, theirs = iter(one), iter(other)
        yield [
            next(mine) if place in places else next(theirs)
            for place in range(len(one) + len(other))
        ]


def tiny_data() -> Iterator[Rows]:
    """Every file of two people with up to 3 and 2 rows of two values, one row with no id."""
    for mine in range(4):
        for theirs in range(3):
            for cells in product((1, 2), repeat=mine + theirs):
                own = [("a", cell) for cell in cells[:mine]]
                others = [("b", cell) for cell in cells[mine:]]
                for rows in interleaved(own, others):
                    yield [*rows[:1], (None, 1), *rows[1:]]


def without(rows: Rows, person: str | None) -> Rows:
    return [row for row in rows if row[0] != person]


def most_changed(taking: Taking) -> int:
    """The most rows that one person's coming changes, over every tiny file."""
    known: dict[tuple[Any, ...], Counter[Row]] = {}

    def taken(rows: Rows) -> Counter[Row]:
        if tuple(rows) not in known:
            known[tuple(rows)] = taking(rows)
        return known[tuple(rows)]

    changed = 0
    for rows in tiny_data():
        for person in ("a", "b"):
            here, there = taken(rows), taken(without(rows, person))
            changed = max(changed, (here - there).total() + (there - here).total())
    return changed


@pytest.mark.parametrize("most", [1, 2])
def test_a_person_more_or_less_changes_at_most_k_rows(most: int) -> None:
    """Exhaustively, through the real ingest; and what is stored is what each person alone gives."""
    spec = people_spec({"max_rows": most})

    @cache
    def kept(rows: tuple[tuple[str | None, int], ...]) -> Counter[Row]:
        return stored(csv_of(rows), spec)

    def taking(rows: Rows) -> Counter[Row]:
        alone = [kept(tuple(r for r in rows if r[0] == person)) for person in ("a", "b", None)]
        assert kept(tuple(rows)) == sum(alone, Counter())
        return kept(tuple(rows))

    assert most_changed(taking) == most


@pytest.mark.wide
def test_a_person_whose_rows_are_reduced_changes_one_row() -> None:
    """A row has a column for every reduction: it changes where any one of them does."""
    cells = ["sum", "mean", "min", "max", "first", "last"]
    spec = people_spec(
        {"reduce": {how: how for how in [*cells, "count"]}},
        dict.fromkeys([*cells, "count"], X["x"]),
    )

    def reduced(rows: Rows) -> Counter[Row]:
        wide = [(person, *[cell] * len(cells)) for person, cell in rows]
        return stored(csv_of(wide, ",".join(["id", *cells])), spec)

    assert most_changed(reduced) == 1


def first_rows(rows: Rows) -> Counter[Row]:
    """A twin: up to 2 rows of each person, of the first 3 rows of the file."""
    return of_each(rows[:3])


def hash_of_all(rows: Rows) -> Counter[Row]:
    """A twin: up to 2 rows of each person, chosen by a hash that knows how many rows there are."""
    return of_each(sorted(rows, key=lambda row: row[1] * (-1) ** len(rows)))


def largest_first(rows: Rows) -> Counter[Row]:
    """A twin: up to 2 rows of each person, but 3 of all, the largest cells first."""
    return of_each(sorted(rows, key=lambda row: -row[1])[:3])


def of_each(rows: Rows) -> Counter[Row]:
    found: Counter[Row] = Counter()
    left: Counter[Any] = Counter({"a": 2, "b": 2, None: 9})
    for person, cell in rows:
        if left[person]:
            left[person] -= 1
            found[(cell,)] += 1
    return found


@pytest.mark.parametrize("twin", [first_rows, hash_of_all, largest_first])
def test_a_choice_that_looks_at_other_people_s_rows_is_caught(twin: Taking) -> None:
    """The same search over every tiny file finds more than k rows that one person changes."""
    assert most_changed(twin) > 2


def test_the_order_of_the_file_decides_nothing() -> None:
    """Of what is kept; a last cell is the last of the person's own, wherever others' rows stand."""
    generator = random.Random(5)
    rows = [(f"p{generator.randrange(30)}", generator.randrange(5)) for _ in range(200)]
    spec, found = people_spec({"max_rows": 3}), None
    for _ in range(3):
        generator.shuffle(rows)
        again = stored(csv_of(rows), spec)
        assert found in (None, again)
        found = again


def test_every_row_of_a_person_is_kept_as_often_as_any_other() -> None:
    """Equal rows count as often as they are there; a tally of 4,000 people, within 5 deviations."""
    rows = [(f"p{person}", cell) for person in range(4_000) for cell in (1, 1, 1, 2, 3)]
    found = stored(csv_of(rows), people_spec({"max_rows": 2}))
    assert found.total() == 8_000
    expected = {(1.0,): 4_800, (2.0,): 1_600, (3.0,): 1_600}
    assert all(abs(found[row] - count) < 5 * 40 for row, count in expected.items())


IDS = ["7", " 7", "7.0", "07", "A", "a", "x" * 100 + "1", "x" * 100 + "2", "", None, "7.5", "é"]


def test_whose_a_row_is_follows_from_the_text_of_the_id() -> None:
    """Blanks around it and a whole number's point are no part of it; nothing else is left out."""
    spec = people_spec({"reduce": {"x": "sum"}})
    rows = [(name, 10) for name in IDS]
    assert stored(csv_of(rows), spec) == Counter({(30.0,): 1, (10.0,): 9})


@pytest.mark.parametrize(
    "ids",
    [
        pl.Series([7, 7, 8, None, None]),
        pl.Series([7.0, 7.0, 8.0, float("nan"), None]),
        pl.Series(["7", " 7 ", "8", "", None]),
        pl.Series(["7", "7", "8", None, None]).cast(pl.Categorical),
        pl.Series([7, 7, 8, None, None], dtype=pl.UInt64),
    ],
)
def test_parquet_ids_of_any_type_name_the_same_people(ids: pl.Series, tmp_path: Path) -> None:
    frame = pl.DataFrame({"id": ids, "x": [1, 2, 4, 8, 16]})
    with (tmp_path / "file.parquet").open("w+b") as file:
        frame.write_parquet(file)
        file.seek(0)
        spec = people_spec({"reduce": {"x": "sum"}})
        blocks = list(ingest(file, spec, ids=PRF))
    own = list(ingest(io.BytesIO(csv_of([("7", 0), ("8", 0)])), spec, ids=PRF))
    words = [name for name in blocks[0] if "person" in name]
    there = np.column_stack([blocks[0][name] for name in words])
    here = np.column_stack([own[0][name] for name in words])
    assert there[0].tolist() == there[1].tolist() == here[0].tolist()
    assert there[2].tolist() == here[1].tolist()
    assert not there[3:].any()


def test_ids_of_another_type_are_refused(tmp_path: Path) -> None:
    with (tmp_path / "file.parquet").open("w+b") as file:
        pl.DataFrame({"id": [True], "x": [1]}).write_parquet(file)
        file.seek(0)
        with pytest.raises(Problem) as refused:
            list(ingest(file, people_spec({"max_rows": 1}), ids=PRF))
    assert refused.value.extras["problems"][0]["columns"][0]["column"] == "id"


def test_a_file_without_the_column_of_ids_is_refused() -> None:
    with pytest.raises(Problem) as refused:
        stored(b"x\n1\n", people_spec({"max_rows": 1}))
    assert refused.value.extras["problems"][0]["columns"][0]["column"] == "id"


def test_reduced_rows_are_what_plain_sums_are_clamped_to_public_bounds() -> None:
    columns: dict[str, dict[str, object]] = {
        "spend": {"type": "number", "lower": 0, "upper": 50, "missing": 0},
        "visits": {"type": "number", "lower": 0, "upper": 2},
        "income": {"type": "number", "lower": 0, "upper": 1000, "missing": "drop"},
        "member": {"type": "boolean"},
        "sex": {"type": "category", "values": ["f", "m"]},
    }
    reduce = {"spend": "sum", "visits": "count", "income": "last", "member": "max"}
    spec = people_spec(
        {"reduce": reduce}, columns, {"per visit": "spend / 2", "unknown": "spend is missing"}
    )
    rows = [
        ("a", 30, 100, 0, "f"),
        ("b", None, 700, 0, "m"),
        ("a", 40, 200, 1, "f"),
        ("a", -10, 5000, 0, "m"),
        ("c", 20, None, 1, "m"),
        ("d", -5, 50, 1, "f"),
    ]
    found = stored(csv_of(rows, "id,spend,income,member,sex"), spec)
    assert found == Counter(
        {
            (50.0, 2.0, 1000.0, 1.0, "m", 25.0, 0.0): 1,
            (0.0, 1.0, 700.0, 0.0, "m", 0.0, 1.0): 1,
            (0.0, 1.0, 50.0, 1.0, "f", 0.0, 0.0): 1,
        }
    )


def test_whole_numbers_and_days_stay_whole() -> None:
    columns: dict[str, dict[str, object]] = {
        "x": {"type": "integer", "lower": 0, "upper": 10},
        "day": {"type": "date", "lower": "2020-01-01", "upper": "2020-12-31"},
    }
    spec = people_spec({"reduce": {"x": "mean", "day": "mean"}}, columns)
    rows = [("a", 1, "2020-01-01"), ("a", 2, "2020-01-04"), ("b", 7, "2020-03-01")]
    found = stored(csv_of(rows, "id,x,day"), spec)
    days = [(date(2020, 1, 1) - date(1970, 1, 1)).days + more for more in (2, 60)]
    assert {row[0] for row in found} == {2.0, 7.0}
    assert sorted(float(str(row[1])) for row in found) == pytest.approx(days, abs=1e-3)


def test_sums_do_not_depend_on_whose_rows_stand_between() -> None:
    """Cells whose sum depends on the order of additions: other people's rows change nothing."""
    spec = people_spec({"reduce": {"x": "sum"}})
    own = [("a", cell) for cell in (1e17, 1, 1, 1, -1e17, 60, 0.1, 0.2, 0.3)]
    generator = random.Random(7)
    for _ in range(5):
        mixed = [(f"p{generator.random()}", 1) for _ in range(200)]
        for place, row in zip(sorted(generator.choices(range(200), k=len(own))), own, strict=True):
            mixed.insert(place, row)
        own_left = [row for row in mixed if row[0] == "a"]
        assert stored(csv_of(own_left), spec) <= stored(csv_of(mixed), spec)


def test_rows_beyond_memory_are_sorted_by_person_on_disk(tmp_path: Path) -> None:
    """The same rows come back, each person's together and in order; no file is left."""
    generator = np.random.default_rng(3)
    rows = generator.integers(0, 50, (5_000, 1)).astype(np.int32)
    people = rows * np.array([[7, 11, 13, 17]], dtype=np.int32) + 1
    numbered = np.column_stack([np.arange(5_000, dtype=np.int32), rows, people])
    spill = Spill(tmp_path, 6, held_bytes=20_000)
    for start in range(0, 5_000, 300):
        spill.add(numbered[start : start + 300])
    groups = list(spill.groups())
    assert 1 < len(groups) <= 50
    whose = [set(group[:, 1].tolist()) for group in groups]
    assert sum(map(len, whose)) == len(set().union(*whose)), "a person is in one group"
    assert all((np.diff(group[:, 0]) > 0).all() for group in groups), "in the order of the file"
    assert sorted(np.concatenate(groups)[:, 0].tolist()) == list(range(5_000))
    assert list(tmp_path.iterdir()) == []


def test_markers_of_what_is_missing_name_nobody() -> None:
    """As declared for the whole data set; without that they are an id like any other."""
    rows = [("NA", 1), ("NA", 2), ("-99", 4), ("-99.0", 8), ("a", 16), ("a", 32)]
    named = people_spec({"reduce": {"x": "sum"}})
    assert stored(csv_of(rows), named) == Counter({(3.0,): 1, (12.0,): 1, (48.0,): 1})
    marked = people_spec({"reduce": {"x": "sum"}, "na": ("NA", -99.0)})
    assert stored(csv_of(rows), marked) == Counter({(c,): 1 for c in (1.0, 2.0, 4.0, 8.0, 48.0)})


def test_the_report_tells_whose_the_rows_are(tmp_path: Path) -> None:
    """And under a reduction how many people, not cells, were moved to a bound."""
    rows = [("a", 30)] * 5 + [("b", 1)] * 2 + [("c", 99), (None, 7), (None, 120)]
    engine = DataHere(Vault(tmp_path))
    cut = engine.store("ds_1", io.BytesIO(csv_of(rows)), people_spec({"max_rows": 2})).report
    assert cut.people == PeopleCounts(3, 2, 5, 2, 3)
    assert cut.columns["x"].clamped_high == 1
    columns = {**X, "n": {"type": "number", "lower": 2, "upper": 4}}
    spec = people_spec({"reduce": {"x": "sum", "n": "count"}}, columns)
    made = engine.store("ds_2", io.BytesIO(csv_of(rows)), spec).report
    assert made.people == PeopleCounts(3, 2, 5, 2, 0)
    counts = made.columns["x"], made.columns["n"]
    assert [(c.values, c.clamped_low, c.clamped_high) for c in counts] == [(5, 0, 2), (5, 3, 1)]
    assert UploadReport.of(made.to_json(), made.columns) == made


def test_ids_are_never_stored_and_the_bound_is_on_stored_rows(tmp_path: Path) -> None:
    """By the processes of the service: no file of the data set holds an id, nor its digest."""
    rows = [(f"SENTINEL{person % 40}", person % 7) for person in range(400)]
    spec = people_spec({"max_rows": 2}, max_rows=80)
    engine = DataHere(Vault(tmp_path), lineage_key=bytes(32))
    stored_rows = engine.store("ds_1", io.BytesIO(csv_of(rows)), spec).rows
    assert stored_rows == 80
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert files
    assert not any(b"SENTINEL" in path.read_bytes() for path in files)
    engine.check("ds_1")
    assert schema_of(spec, rows=None).protects.words == "one person, up to 2 rows"
    with pytest.raises(Problem, match="invalid-upload"):
        engine.store("ds_2", io.BytesIO(csv_of(rows)), people_spec({"max_rows": 2}, max_rows=79))


def test_a_reader_that_was_taken_over_cannot_send_what_is_no_number() -> None:
    fields = fields_of(people_spec({"reduce": {"x": "sum"}}))
    rows = {name: np.zeros(1, field.dtype) for name, field in fields.items()}
    assert all(field.holds(rows[name]) for name, field in fields.items())
    for forged in (np.nan, np.inf):
        assert not fields["x"].holds(np.array([0, forged]))


def test_a_file_of_nobody_is_stored_as_one(tmp_path: Path) -> None:
    spec = people_spec({"max_rows": 2})
    assert stored(b"id,x\n", spec) == Counter()
    engine = DataHere(Vault(tmp_path))
    assert engine.store("ds_1", io.BytesIO(b"id,x\n"), spec).rows == 0


@in_one(
    ("unit", "place"),
    [
        ({}, "unit.max_rows"),
        ({"max_rows": 0}, "unit.max_rows"),
        ({"max_rows": 1001}, "unit.max_rows"),
        ({"column": "x", "max_rows": 1}, "unit.column"),
        ({"reduce": {"y": "sum"}}, "unit.reduce[0]"),
        ({"reduce": {"x": "last", "kind": "sum"}}, "unit.reduce[1]"),
        ({"reduce": {"yes": "mean"}}, "unit.reduce[0]"),
        ({"reduce": {"x": "count", "kind": "count"}}, "unit.reduce[1]"),
    ],
)
def test_a_unit_that_does_not_fit_is_refused_with_its_place(
    unit: dict[str, object], place: str
) -> None:
    columns = {
        **X,
        "kind": {"type": "category", "values": ["u", "v"]},
        "yes": {"type": "boolean"},
    }
    with pytest.raises(InvalidSpecError) as refused:
        people_spec(unit, columns)
    assert refused.value.field_name == place


def test_counts_alone_are_no_data_set() -> None:
    with pytest.raises(InvalidSpecError, match="not a count"):
        people_spec({"reduce": {"x": "count"}})


def test_a_unit_is_for_a_private_number_of_rows() -> None:
    unit = {"column": "id", "max_rows": 2}
    with pytest.raises(InvalidSpecError, match="add_remove only"):
        parse_columns(X, adjacency=Adjacency.REPLACE_ONE, max_rows=None, unit=unit)
