"""Public parts of stored data: filters and groups, computed once for a data set and a selection."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest

from app.engine.schema import schema_of
from app.uploads import storing
from app.vault.stored import AbsentError, TamperedError
from app.vault.vault import Vault
from mechanisms.domain import exact
from mechanisms.parted import Part, parts_of
from mechanisms.sketches import ArrayData
from mechanisms.statistics.cells.parting import Bands, Parting
from mechanisms.statistics.conditions import Condition
from tests.app.uploads import DataHere, columns_spec, plain_data, sample_csv

ROWS = 350
ABSENT = (AbsentError, TamperedError)
SPEC = columns_spec()
SCHEMA = schema_of(SPEC, rows=ROWS)


def parting(low: float, op: str = ">=") -> Parting:
    """The rows of owners above a number, by region."""
    where = (
        Condition(column="owner", op="==", value=True),
        Condition(column="income", op=op, value=low),  # type: ignore[arg-type]
    )
    return Parting.of(where, ("region",), SCHEMA)


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> DataHere:
    monkeypatch.setattr(storing, "_MAX_PART_ROWS", 100)
    found = DataHere(Vault(tmp_path))
    found.store("ds_1", io.BytesIO(sample_csv(ROWS).encode()), SPEC)
    return found


def expect_equal(part: Part, rows: ArrayData) -> None:
    assert part.rows == rows.rows
    assert part.gram(["income", "owner"]) == rows.gram(["income", "owner"])
    for mine, theirs in zip(part.ordered("income"), rows.ordered("income"), strict=True):
        assert np.array_equal(mine, theirs)
        assert mine.dtype == theirs.dtype
    assert np.array_equal(part.category_counts("region"), rows.category_counts("region"))
    found = [block["income"] for block in part.blocks(["income"])]
    assert np.array_equal(np.concatenate(found), rows.codes["income"])


def test_a_part_is_what_its_rows_alone_are(engine: DataHere) -> None:
    whole = plain_data(sample_csv(ROWS), SPEC)
    asked = parting(5)
    (block,) = whole.blocks(asked.columns)
    place = asked.place(block)
    parts = parts_of(engine.open("ds_1"), asked)
    assert len(parts) == asked.cells == len(asked.labels)
    for cell, part in enumerate(parts):
        codes = {name: column[place == cell] for name, column in whole.codes.items()}
        values = {name: whole.values_of(name)[place == cell] for name in codes}
        expect_equal(part, ArrayData(SCHEMA.columns, codes, values))
    assert 0 < sum(part.rows for part in parts) < ROWS


def test_a_selection_is_computed_once(engine: DataHere, tmp_path: Path) -> None:
    """Another spelling of the same one reads no row; another one does."""
    asked, other = parting(5), parting(5, "<")
    data = engine.open("ds_1")
    before = [part.gram(["income"]) for part in parts_of(data, asked)]
    for path in tmp_path.rglob("part-*"):
        path.unlink()
    spelt = (
        Condition(column="income", op=">=", value=5.0),
        Condition(column="owner", op="==", value=1),
    )
    again = Parting.of(spelt, ("region",), SCHEMA)
    assert again.key == asked.key != other.key
    assert [part.gram(["income"]) for part in parts_of(data, again)] == before
    with pytest.raises(ABSENT):
        parts_of(data, other)[0].gram(["income"])
    with pytest.raises(ABSENT):
        parts_of(data, asked)[0].ordered("income")


def test_what_was_computed_goes_with_the_data_set(engine: DataHere) -> None:
    data = engine.open("ds_1")
    assert parts_of(data, parting(5))[0].rows >= 0
    engine.erase("ds_1")
    engine.store("ds_1", io.BytesIO(sample_csv(ROWS, seed=9).encode()), SPEC)
    (block,) = plain_data(sample_csv(ROWS, seed=9), SPEC).blocks(parting(5).columns)
    place = parting(5).place(block)
    found = [part.rows for part in parts_of(engine.open("ds_1"), parting(5))]
    assert found == np.bincount(place, minlength=parting(5).cells + 1)[:-1].tolist()


def test_edges_place_values_exactly() -> None:
    asked = Parting.of((), (Bands(column="income", edges=(0, 10, 15)),), SCHEMA)
    column = SCHEMA.columns["income"]
    values = column.clamped(  # type: ignore[union-attr]
        np.array([-5, -1e-300, 0, np.nextafter(10, 0), 10, 14.9, 15, 100.0])
    )
    assert asked.place({exact("income"): values}).tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
    assert [each["income"] for each in asked.labels] == ["< 0", "[0,10)", "[10,15)", ">= 15"]
