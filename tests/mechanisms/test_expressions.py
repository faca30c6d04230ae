"""Expressions: what is read, what is refused, which values they have and between which bounds."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mechanisms.domain import CategoryColumn, Column, NumberColumn
from mechanisms.expressions import tree
from mechanisms.expressions.derived import DerivedColumn, derived_column
from mechanisms.expressions.parsing import (
    LONGEST,
    MOST_NODES,
    OF_SEVERAL_ROWS,
    ExpressionError,
    parse,
)
from mechanisms.expressions.tree import Node, coefficient_name
from tests.tiers import in_one

COLUMNS: Mapping[str, Column] = {
    "age": NumberColumn(Fraction(0), Fraction(120)),
    "income": NumberColumn(Fraction(0), Fraction(10**6)),
    "debt": NumberColumn(Fraction(-500), Fraction(500)),
    "smoker": NumberColumn(Fraction(0), Fraction(1), boolean=True),
    "sex": CategoryColumn(("female", "male")),
    "house value": NumberColumn(Fraction(1), Fraction(5)),
    "class": NumberColumn(Fraction(1), Fraction(3)),
}
ROWS: Mapping[str, list[Any]] = {
    "age": [0, 17, 18, 64, 65, 120],
    "income": [0, 1, 1234, 99_999, 500_000, 1_000_000],
    "debt": [-500, -1, 0, 0.5, 20, 500],
    "smoker": [0, 1, 0, 1, 0, 1],
    "sex": [0, 1, 0, 1, 0, 1],
    "house value": [1, 1.5, 2, 3, 4.25, 5],
    "class": [1, 2, 3, 1, 2, 3],
}


def made(text: str, **bounds: Fraction) -> DerivedColumn:
    return derived_column(parse(text), COLUMNS, **bounds)


def block_of(rows: Mapping[str, list[Any]]) -> dict[str, np.ndarray]:
    block = {}
    for name, values in rows.items():
        column = COLUMNS[name]
        if isinstance(column, NumberColumn):
            block[name] = column.clamped(np.array(values, dtype=np.float64))
        else:
            block[name] = np.array(values, dtype=np.int32)
    return block


def values_of(text: str) -> list[float]:
    found = made(text)
    return found.values(block_of(ROWS)).tolist()


@in_one(
    ("text", "value"),
    [
        ("log(income + 1)", lambda row: math.log(row["income"] + 1)),
        ("log1p(income)^2", lambda row: math.log1p(row["income"]) ** 2),
        ("sqrt(max(debt, 0))", lambda row: math.sqrt(max(row["debt"], 0))),
        ("exp(age / 100) - 1", lambda row: math.exp(row["age"] / 100) - 1),
        ("abs(debt) / 10", lambda row: abs(row["debt"]) / 10),
        ("(age - 40) ** 3", lambda row: (row["age"] - 40) ** 3),
        ("-age ^ 2", lambda row: -(row["age"] ** 2)),
        ("`house value` ^ -1.5", lambda row: row["house value"] ** -1.5),
        ("clip(age, 18, 65) * class", lambda row: min(max(row["age"], 18), 65) * row["class"]),
        ("min(age, debt, 10)", lambda row: min(row["age"], row["debt"], 10)),
        ("smoker * income", lambda row: row["smoker"] * row["income"]),
        ("age * (sex == 'male')", lambda row: row["age"] * row["sex"]),
        ("18 <= age < 65", lambda row: 18 <= row["age"] < 65),
        ("age == 65 or debt == 0.5", lambda row: row["age"] == 65 or row["debt"] == 0.5),
        ("not sex in ['female'] and smoker", lambda row: row["sex"] == 1 and row["smoker"]),
        ("class not in (1, 3)", lambda row: row["class"] not in (1, 3)),
        ("income > 1234", lambda row: row["income"] > 1234),
        ("income < 1e5", lambda row: row["income"] < 100_000),
        ("2 * age > debt", lambda row: 2 * row["age"] > row["debt"]),
        ("smoker == True", lambda row: row["smoker"] == 1),
    ],
)
def test_values_are_those_of_plain_arithmetic(
    text: str, value: Callable[[Mapping[str, Any]], float]
) -> None:
    rows = [dict(zip(ROWS, each, strict=True)) for each in zip(*ROWS.values(), strict=True)]
    column = made(text).column
    assert values_of(text) == pytest.approx(
        [float(value(row)) for row in rows], abs=float(column.step), rel=1e-12
    )


@in_one(
    ("text", "lower", "upper"),
    [
        ("log(income + 1)", 0, math.log(10**6 + 1)),
        ("debt^2", 0, 250_000),
        ("debt * debt", 0, 250_000),
        ("debt^3", -(500**3), 500**3),
        ("abs(debt)", 0, 500),
        ("clip(debt, -1, 3)", -1, 3),
        ("age - income", -(10**6), 120),
        ("-debt / 2", -250, 250),
        ("class^-1", 0.333333333333333, 1),
        ("age * (sex == 'male')", 0, 120),
        ("max(debt, 0, age)", 0, 500),
    ],
)
def test_bounds_follow_from_the_columns(text: str, lower: float, upper: float) -> None:
    column = made(text).column
    assert float(column.lower) == pytest.approx(lower)
    assert float(column.upper) == pytest.approx(upper)
    assert Fraction(repr(float(column.lower))) == column.lower, "a decimal that JSON keeps"


def test_bounds_can_be_narrowed_and_values_are_then_clamped() -> None:
    narrow = made("debt", lower=Fraction(-1), upper=Fraction(10**9))
    assert (narrow.column.lower, narrow.column.upper) == (-1, 500), "they only narrow"
    assert narrow.values(block_of(ROWS))[0] == -1
    for lower, upper, part in ((600, None, "lower"), (None, -600, "upper"), (5, 5, "lower")):
        ends = {"lower": lower, "upper": upper}
        with pytest.raises(ExpressionError) as refused:
            made("debt", **{k: Fraction(v) for k, v in ends.items() if v is not None})
        assert getattr(refused.value, "part", None) == part
    with pytest.raises(ExpressionError, match="no bounds"):
        made("age > 3", lower=Fraction(0))


@in_one(
    ("text", "said"),
    [
        ("log(income)", r"write log\(max\(income, 1\)\) or log1p\(income\) \(at character 1\)"),
        ("1 + log1p(debt)", r"log1p\(max\(debt, 0\)\) \(at character 5\)"),
        ("log1p(age * 0 - 1 + 1e-20)", r"log1p of -1 or less has no value"),
        ("sqrt(debt)", r"debt lies between -500 and 500 by its bounds; write sqrt\(max"),
        ("debt^-1", "negative power of 0"),
        ("debt^0.5", "fractional power"),
        ("exp(income)", "exp of more than 230"),
        ("income/age", "division is by a number only"),
        ("age/0", "division by 0"),
        ("age^age", "a power is a number"),
        ("age^65", "a power is a number"),
        ("(income^60)^60", "1e100"),
        ("sex + 1", "sex is a category"),
        ("sex < 'male'", "compared by =="),
        ("sex == 'femal'", "femal is no value of sex .did you mean female"),
        ("sex == male", 'stands in quotes: "male"'),
        ("Netto-Einkommen (€) / 2", r"in backticks, as in `Netto-Einkommen \(€\)`"),
        ("stay (months) + 1", r"in backticks, as in `stay \(months\)`"),
        ("sex == mal", "mal is no value of sex .did you mean male"),
        ("age == 'male'", "a number is compared with a number"),
        ("'male'", "names no column"),
        ("sex", "is a category"),
        ("age and smoker", "true or false"),
        ("3 * (1 + 1)", "names no column"),
        ("0 * age", "same number in every row"),
        ("agee", "agee is no column .did you mean age.*; the columns are age, income"),
        ("age.real", "no such column"),
        ("os.system('ls')", "no such function"),
        ("__import__('os').system('ls')", "not an expression|no such function"),
        ("lambda: age", "not an expression"),
        ("[x for x in age]", "not an expression"),
        ("age if smoker else 1", "not an expression"),
        ("(age := 3)", "that is not offered here"),
        ("age[0]", "that is not offered here"),
        ("{age}", "that is not offered here"),
        ("f'{age}'", "something is missing"),
        ("b'x' == sex", "something is missing"),
        ("age # all", "not an expression"),
        ("age; 1", "not an expression"),
        ("age // 2", "that is not offered here|not an expression"),
        ("age % 2", "that is not offered here"),
        ("~age", "not an expression"),
        ("age = 3", "compared by =="),
        ("smoker & smoker", "joined by and, or, not"),
        ("'a' 'b' == sex", "side by side"),
        ("age is smoker", '"missing"'),
        ("age is missing", "in the derive of the spec"),
        ("age + 1 is missing", "asked of a column"),
        ("age in 3 + age", "a list of values"),
        ("age in (debt, 3)", "a list of values"),
        ("age in ()", "a list of values"),
        ("max(income)", "reads other rows"),
        ("clip(age)", "takes 3 values"),
        ("clip(age, 65, 18)", "the least and the largest"),
        ("log(x=age)", "without names"),
        ("1e101 * age", "at most 1e100"),
        ("1e999", "at most 1e100"),
        ("age < 1e-999999999", "an exponent is from -2000 to 2000"),
        ("age < 1E+999999999", "an exponent is from -2000 to 2000"),
        (f"age in ({', '.join(f'{n}e-1999' for n in range(1, 150))})", "at most 2000 digits"),
        ("0x10 + age", "something is missing"),
        ("12j", "something is missing"),
        ("age\\", "not an expression"),
        ("'age", "not an expression"),
        ("", "is empty"),
        ("  ", "is empty"),
        ("x" * (LONGEST + 1), f"at most {LONGEST} characters"),
        ("<".join(["income", "age"] * 60), "characters, spelled out"),
        ("(" * 900 + "age", "not an expression"),
        ("(" * 100 + "age" + ")" * 100 + " + 1" * 300, "at most|not an expression"),
        ("-" * 1_900 + "age", f"at most {MOST_NODES} parts"),
        ("not " * 400 + "smoker", f"at most {MOST_NODES} parts"),
        (" + ".join(["age"] * 300), f"at most {MOST_NODES} parts"),
    ],
)
def test_what_is_refused_says_why_and_repeats_nothing_unknown(text: str, said: str) -> None:
    with pytest.raises(ExpressionError, match=said) as refused:
        made(text)
    assert len(refused.value.detail) < 400
    for stranger in ("system", "__import__"):
        assert stranger not in refused.value.detail


@in_one("name", sorted(OF_SEVERAL_ROWS))
def test_what_reads_other_rows_is_refused_by_name(name: str) -> None:
    for text in (
        f"{name}(age)",
        f"age - {name}(age, 4)",
        f"np.{name}(age)",
        f"{name.upper()}(age)",
    ):
        with pytest.raises(ExpressionError, match="reads the data"):
            parse(text)


def test_missing_cells_can_be_asked_for_while_a_file_is_read() -> None:
    found = derived_column(parse("income is missing"), COLUMNS, may_miss=True)
    mask = np.array([True, False, False, True, False, False])
    block = block_of(ROWS)
    assert found.values(block, {"income": mask}).tolist() == mask.tolist()
    assert set(found.values(block).tolist()) == {0}
    other = derived_column(parse("age is not missing"), COLUMNS, may_miss=True)
    assert set(other.values(block).tolist()) == {1}


@in_one(
    ("text", "canonical", "coefficient"),
    [
        ("log( income+1 )**2", "log(income + 1)^2", "I(log(income + 1)^2)"),
        ("log(income+1)", "log(income + 1)", "log(income + 1)"),
        ("age ** 2", "age^2", "I(age^2)"),
        ("age", "age", "age"),
        ("`house value`*2.50", "`house value` * 2.5", "I(`house value` * 2.5)"),
        ("`age`", "age", "age"),
        ("class", "class", "class"),
        ("65 <= age", "age >= 65", "I(age >= 65)"),
        ("sex in {'male' , \"female\"}", 'sex in ("male", "female")', None),
        ("sex in ('male')", 'sex in ("male")', None),
        ("smoker and (age > 3 and debt < 1)", "smoker and age > 3 and debt < 1", None),
        ("(-age)^2 - (-(age^2))", "(-age)^2 - -age^2", None),
        ("age - (debt - 1) - 2", "age - (debt - 1) - 2", None),
        ("age * (debt + 1)/2", "age * (debt + 1)/2", None),
        ("class^2^1", "class^2^1", None),
        ("(class^2)^1", "(class^2)^1", None),
        ("age\n + 1e1", "age + 10", None),
        ("not (not smoker)", "not not smoker", None),
    ],
)
def test_one_text_for_all_spellings(text: str, canonical: str, coefficient: str | None) -> None:
    tree = parse(text)
    assert str(tree) == canonical
    assert parse(canonical) == tree
    assert coefficient is None or coefficient_name(tree) == coefficient


def leaves() -> st.SearchStrategy[Node]:
    numbers = st.fractions(min_value=0, max_value=50).filter(lambda x: 1000 % x.denominator == 0)
    return st.one_of(
        st.sampled_from(["age", "debt", "house value", "class"]).map(
            lambda n: Node("column", value=n)
        ),
        numbers.map(lambda number: Node("number", value=number)),
    )


def grown(inner: st.SearchStrategy[Node]) -> st.SearchStrategy[Node]:
    one = st.sampled_from(["negative", "abs"])
    two = st.sampled_from(["+", "-", "*", "max", "min"])
    power = st.builds(
        lambda base, e: Node("^", (base, Node("number", value=Fraction(e)))),
        inner,
        st.integers(0, 3),
    )
    return st.one_of(
        st.builds(lambda op, arg: Node(op, (arg,)), one, inner),
        st.builds(lambda op, a, b: Node(op, (a, b)), two, inner, inner),
        power,
    )


@settings(max_examples=80, deadline=None)
@given(tree=st.recursive(leaves(), grown, max_leaves=8))
def test_any_tree_is_read_again_from_its_text(tree: Node) -> None:
    assert parse(str(tree)) == tree


@settings(max_examples=60, deadline=None)
@given(tree=st.recursive(leaves(), grown, max_leaves=6))
def test_values_lie_within_the_bounds_before_they_are_clamped(tree: Node) -> None:
    if len(tree.columns) == 0:
        return
    try:
        found = derived_column(tree, COLUMNS)
    except ExpressionError:
        return  # the same in every row, or beyond 1e100
    names = {"`house value`": "house", "class": "klass", "^": "**"}
    python = str(tree)
    for written, plain in names.items():
        python = python.replace(written, plain)
    for row in zip(*ROWS.values(), strict=True):
        values = dict(zip(ROWS, row, strict=True))
        values |= {"house": values["house value"], "klass": values["class"]}
        value = eval(python, {"abs": abs, "max": max, "min": min}, values)
        slack = 1e-9 * max(1, abs(value))
        assert found.column.lower - slack <= value <= found.column.upper + slack


EVERYDAY = ("log(income + 1)", "exp(debt / 100)", "age^0.3", "log1p(income) * (sex == 'male')")


def alone(found: DerivedColumn, block: Mapping[str, np.ndarray], row: int) -> float:
    part = {name: values[row : row + 1] for name, values in block.items()}
    return float(found.values(part)[0])


@pytest.mark.parametrize("text", EVERYDAY)
def test_a_rows_value_depends_on_no_other_row(text: str) -> None:
    """In blocks of every length and at every place in them, a row has the value it has alone."""
    rng = np.random.default_rng(5)
    found = made(text)
    whole = {
        name: column.clamped(rng.uniform(float(column.lower), float(column.upper), 40_000))
        if isinstance(column, NumberColumn)
        else rng.integers(0, 2, 40_000).astype(np.int32)
        for name in found.reads
        for column in [COLUMNS[name]]
    }
    values = found.values(whole)
    for row in rng.integers(0, 40_000, 50):
        assert alone(found, whole, int(row)) == values[row]
    for start, length in ((1, 3), (7, 1001), (16_380, 9), (3, 39_997)):
        part = {name: each[start : start + length] for name, each in whole.items()}
        assert np.array_equal(found.values(part), values[start : start + length])


def test_a_map_that_looks_at_other_rows_is_caught() -> None:
    """The twin: the same check tells a centred column from a row-wise one."""
    block = block_of(ROWS)

    def centred(some: Mapping[str, np.ndarray]) -> np.ndarray:
        return some["age"] - np.rint(some["age"].mean()).astype(np.int32)

    codes = centred(block)
    assert [int(centred({"age": block["age"][[row]]})[0]) for row in range(6)] != codes.tolist()


def test_the_same_number_of_rows_with_no_value_is_the_lower_bound() -> None:
    """Totality: even where rounding or overflow leaves no number, there is a value."""
    found = derived_column(parse("age^2"), COLUMNS)
    wild = DerivedColumn(
        parse("log(age - 200) + sqrt(age - 200) + (0 * debt)^-1"), found.column, COLUMNS
    )
    values = wild.values(block_of(ROWS))
    lower, upper = float(found.column.lower), float(found.column.upper)
    assert ((values >= lower) & (values <= upper)).all()


def test_elementary_functions_are_accurate() -> None:
    rng = np.random.default_rng(3)
    wide = np.exp(rng.uniform(-600, 600, 20_000))
    near = rng.uniform(0.5, 2, 20_000)
    for values in (wide, near):
        assert np.allclose(tree.log(values), np.log(values), rtol=1e-14, atol=0)
    some = np.concatenate([rng.uniform(-0.9, 10, 20_000), 10.0 ** rng.uniform(-18, 3, 20_000)])
    assert np.allclose(tree.log1p(some), np.log1p(some), rtol=1e-14, atol=0)
    powers = rng.uniform(-600, 600, 20_000)
    assert np.allclose(tree.exp(powers), np.exp(powers), rtol=1e-14, atol=0)
    assert np.allclose(tree.power(near, 1.7), near**1.7, rtol=1e-14, atol=0)
    assert tree.exp(np.array([-1e9, 0.0])).tolist() == [0.0, 1.0]
    assert tree.power(np.array([0.0]), 0.25).tolist() == [0.0]
