"""Derived columns of a data set: computed from one row alone while the file is read."""

from __future__ import annotations

import io
import math
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from app.domain.columns import InvalidSpecError
from app.domain.datasets import ColumnsSpec, columns_json, derived_json, parse_columns
from app.engine.data import VaultData
from app.engine.schema import schema_of
from app.services.datasets.admitting import declared_columns
from app.vault.vault import Vault
from mechanisms.domain import CODE_MAX, NumberColumn, exact, summed
from mechanisms.parted import parts_of
from mechanisms.privacy import Adjacency
from mechanisms.sketches import Sketch
from mechanisms.statistics.cells.parting import Parting
from mechanisms.statistics.conditions import Condition
from mechanisms.statistics.mean import Mean
from mechanisms.statistics.questions import viewed
from mechanisms.statistics.weights import Weights, require_weights, weighted_data
from tests.app.uploads import DataHere, encode, values_read

COLUMNS: dict[str, dict[str, object]] = {
    "income": {"type": "number", "lower": 0, "upper": 5000, "missing": 0},
    "age": {"type": "number", "lower": 0, "upper": 100, "missing": "drop"},
    "sex": {"type": "category", "values": ["f", "m"]},
}
ROWS = [(1200, 30, "f"), (None, 65, "m"), (5000, 64.5, "f"), (9999, None, "m"), (1, 18, "m")]
DERIVE = {
    "working woman": "sex == 'f' and 18 <= age < 65",
    "log_income": "log(max(income, 1))",
    "half": "square / 2",
    "square": "age^2",
    "unknown": "income is missing",
}


def declared(derive: Mapping[str, Any] | None = None) -> ColumnsSpec:
    wanted = DERIVE if derive is None else derive
    parts = {n: {"expr": each} if isinstance(each, str) else each for n, each in wanted.items()}
    return declared_columns(COLUMNS, parts, adjacency=Adjacency.ADD_REMOVE, max_rows=1000)


def csv_text() -> str:
    lines = [",".join("" if cell is None else str(cell) for cell in row) for row in ROWS]
    return "\n".join(["income,age,sex", *lines, ""])


def parquet() -> bytes:
    buffer = io.BytesIO()
    pl.DataFrame(ROWS, schema=["income", "age", "sex"], orient="row", strict=False).write_parquet(
        buffer
    )
    return buffer.getvalue()


@pytest.mark.parametrize("content", [csv_text().encode(), parquet()])
def test_derived_columns_are_computed_from_each_row_as_it_is_stored(content: bytes) -> None:
    spec = declared()
    values, columns = values_read(content, spec), schema_of(spec, rows=None).columns
    found = {
        name: values[name].tolist()
        for name, column in columns.items()
        if isinstance(column, NumberColumn)
    }
    assert found["income"] == [1200, 0, 5000, 1], "one row is left out, one cell filled"
    assert found["log_income"] == pytest.approx([math.log(1200), 0, math.log(5000), 0], abs=1e-5)
    assert found["square"] == pytest.approx([900, 65**2, 64.5**2, 18**2], abs=0.005)
    assert found["half"] == pytest.approx([450, 65**2 / 2, 64.5**2 / 2, 162], abs=0.005)
    assert found["working woman"] == [1, 0, 1, 0]
    assert found["unknown"] == [0, 1, 0, 0]


def test_what_is_declared_has_bounds_and_one_text() -> None:
    spec = declared()
    told = derived_json(spec)
    assert told["log_income"] == {
        "type": "number",
        "lower": 0,
        "upper": pytest.approx(math.log(5000)),
        "expr": "log(max(income, 1))",
    }
    assert told["working woman"] == {
        "type": "boolean",
        "expr": 'sex == "f" and age >= 18 and age < 65',
    }
    assert list(told).index("square") < list(told).index("half"), "what it is made of comes first"
    again = parse_columns(
        columns_json(spec), adjacency=spec.adjacency, max_rows=spec.max_rows, derived=told
    )
    assert again == spec
    assert encode(csv_text().encode(), again).keys() == spec.stored.keys()


def test_bounds_narrow_what_follows_from_the_columns() -> None:
    spec = declared({"debt": {"expr": "income - 1000", "lower": -500, "upper": 1e9}})
    assert (spec.derived["debt"].lower, spec.derived["debt"].upper) == (-500, 4000)
    assert encode(csv_text().encode(), spec)["debt"][1] == -CODE_MAX, "clamped"


def test_sketches_hold_derived_columns(tmp_path: Path) -> None:
    spec = declared()
    engine = DataHere(Vault(tmp_path))
    engine.store("ds_1", io.BytesIO(csv_text().encode()), spec)
    data, columns = engine.open("ds_1"), schema_of(spec, rows=None).columns
    values = values_read(csv_text().encode(), spec)
    sketch = Sketch.from_block({exact(name): each for name, each in values.items()}, columns)
    names = ["log_income", "square", "unknown", "income"]
    assert data.gram(names) == sketch.sub_gram(names)
    assert np.array_equal(data.ordered("square")[0], sketch.ordered["square"][0])
    engine.check("ds_1")


class Counted:
    """Stored data that count the passes over their rows."""

    def __init__(self, data: VaultData) -> None:
        self.data = data
        self.passes = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.data, name)

    def blocks(self, columns: Any) -> Any:
        self.passes += 1
        return self.data.blocks(columns)


def test_what_a_question_derives_is_computed_once_for_a_data_set(tmp_path: Path) -> None:
    spec = declared({})
    engine = DataHere(Vault(tmp_path))
    engine.store("ds_1", io.BytesIO(csv_text().encode()), spec)
    schema = schema_of(spec, rows=None)
    passes = []
    for text in ("log(income + 1)", "log( income+1 )", "log(income + 2)"):
        asked = viewed(Mean(columns=("it",), derive={"it": text}), schema)
        counted = Counted(engine.open("ds_1"))
        view: Any = asked.view.over(counted)  # type: ignore[arg-type]
        codes = [block[summed("it")].tolist() for block in view.blocks([summed("it")])]
        assert [sum(block) for block in codes] == [view.gram(["it"])[0][1]]
        assert sum(view.ordered("it")[1]) == 4
        passes.append(counted.passes)
    first, again, other = passes
    assert other == first, "another expression is another column"
    assert again < first, "the same one, however it is spelt, is remembered"


def test_questions_that_swap_two_names_are_two(tmp_path: Path) -> None:
    spec = declared({})
    engine = DataHere(Vault(tmp_path))
    engine.store("ds_1", io.BytesIO(csv_text().encode()), spec)
    schema, found = schema_of(spec, rows=None), []
    older, richer = "age / 2", "income / 2"
    for derive in ({"one": older, "two": richer}, {"two": older, "one": richer}):
        asked = viewed(Mean(columns=("one",), derive=derive), schema)
        view = asked.view.over(engine.open("ds_1"))
        where = Condition(column="sex", op="==", value="m")
        (men,) = parts_of(view, Parting.of((where,), (), asked.view.schema))
        weights = Weights("one", require_weights(asked.view.schema, "one"))
        sums = weighted_data(view, weights, sums_only=True).gram(["one"])
        found.append((men.gram(["one"]), [codes.tolist() for codes in men.ordered("one")], sums))
    ages, incomes = found
    for of_ages, of_incomes in zip(ages, incomes, strict=True):
        assert of_ages != of_incomes, "what was remembered of the other question is not told"


def test_a_stored_column_that_is_called_like_an_expression_is_another(tmp_path: Path) -> None:
    derive = {"half": "age / 2", "third": "age / 3"}
    plain = schema_of(declared({}), rows=None)
    called = viewed(Mean(columns=("half",), derive=derive), plain).view.added["half"].key
    columns = {"age": COLUMNS["age"], called: {"type": "number", "lower": 0, "upper": 5000}}
    spec = declared_columns(columns, {}, adjacency=Adjacency.ADD_REMOVE, max_rows=1000)
    engine = DataHere(Vault(tmp_path))
    engine.store("ds_1", io.BytesIO(f'age,"{called}"\n30,1200\n65,4000\n'.encode()), spec)
    view = viewed(Mean(columns=("half",), derive=derive), schema_of(spec, rows=None)).view
    data = view.over(engine.open("ds_1"))
    assert data.gram(["half", "third"]) != data.gram([called, "third"])


def test_columns_that_are_made_of_all_before_them_are_told_apart_at_once(tmp_path: Path) -> None:
    spec = declared({})
    engine = DataHere(Vault(tmp_path))
    engine.store("ds_1", io.BytesIO(csv_text().encode()), spec)
    found = []
    for first in ("age / 2", "(100 - age) / 2"):
        derive = {"c0": first}
        for place in range(1, 100):
            before = [f"c{each}" for each in range(max(0, place - 9), place)]
            derive[f"c{place}"] = f"({' + '.join(before)}) / 9"
        view = viewed(Mean(columns=("c99",), derive=derive), schema_of(spec, rows=None)).view
        found.append(view.over(engine.open("ds_1")).ordered("c99")[0].tolist())
    assert found[0] != found[1], "the first column is another, and so is the last"


@pytest.mark.parametrize(
    ("derive", "place", "said"),
    [
        ({"x": "log(income)"}, "derive.x.expr", "log1p"),
        ({"x": "mean(income)"}, "derive.x.expr", "reads the data"),
        ({"x": "income +"}, "derive.x.expr", "not an expression"),
        ({"x": {"expr": "income", "lower": 6000}}, "derive.x.lower", "leave nothing"),
        ({"x": {"expr": "income", "upper": float("inf")}}, "derive.x.upper", "finite"),
        ({"income": "age"}, "derive.income", "has this name"),
        ({"a": "b + 1", "b": "a + 1"}, "derive.b.expr", "made of itself"),
        ({"a": "b + 1", "b": "log(income)"}, "derive.b.expr", "log1p"),
        ({f"c{k}": f"c{k + 1} + income" for k in range(900)}, "derive.c40.expr", "in a row"),
        ({"a": "a + 1"}, "derive.a.expr", "made of itself"),
        ({"\n": "age + 1"}, "columns", "printable"),
    ],
)
def test_what_contradicts_itself_is_refused(derive: Any, place: str, said: str) -> None:
    with pytest.raises(InvalidSpecError, match=said) as refused:
        declared(derive)
    assert refused.value.field_name == place


def test_a_row_alone_has_the_codes_it_has_among_others() -> None:
    """What is stored of a person does not depend on who else is in the file."""
    spec = declared()
    header, *lines = csv_text().splitlines()
    together = encode(csv_text().encode(), spec)
    alone = [encode(f"{header}\n{line}\n".encode(), spec) for line in lines]
    for name in spec.stored:
        assert np.concatenate([each[name] for each in alone]).tolist() == together[name].tolist()


def test_a_declaration_without_derived_columns_is_as_before() -> None:
    spec = parse_columns(COLUMNS, adjacency=Adjacency.ADD_REMOVE, max_rows=5, derived=None)
    assert spec.derived == {}
    assert spec.stored == spec.columns
    assert Fraction(5000) == schema_of(spec, rows=None).columns["income"].upper  # type: ignore[union-attr]


def test_all_that_is_wrong_with_derived_columns_is_told_at_once() -> None:
    number: dict[str, object] = {"type": "number", "lower": 0, "upper": 9}
    derive = {
        "a": "log(x)", "b": "scale(x)", "c": "y + 1", "d": "a + 1", "e": "b + c", "f": "x + 1",
        "g": "h", "h": "g",
    }  # fmt: skip

    def places(columns: dict[str, dict[str, object]]) -> list[str]:
        with pytest.raises(InvalidSpecError) as caught:
            declared_columns(
                columns, {name: {"expr": text} for name, text in derive.items()},
                adjacency=Adjacency.REPLACE_ONE, max_rows=None,
            )  # fmt: skip
        return sorted(each.field_name.split(".", 2)[1] for each in caught.value.faults)

    assert places({"x": number})[:3] == ["a", "b", "c"]
    assert len(places({"x": number})) == 4
    assert places({"x": {**number, "lower": 10}}) == ["b", "x"]
