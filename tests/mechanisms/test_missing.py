"""Missing cells that are kept: every offer is about the records that have the values it needs.

:func:`mechanisms.statistics.questions.complete` reduces such a question to a filter. For each
statistic x mechanism x norm x adjacency of :mod:`tests.mechanisms.offers`, a draw is bit for bit
the draw from data that hold the complete records alone, by the plan of a filter.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest

from mechanisms.analysis.summary import Summary
from mechanisms.catalog import calibrate
from mechanisms.combined.squares import combine
from mechanisms.contract import InvalidStatisticError, Outcome, Statistic
from mechanisms.derivations import Released, derive
from mechanisms.domain import CategoryColumn, Column, NumberColumn, Schema
from mechanisms.estimates.assumptions import Assumptions
from mechanisms.estimates.estimate import ErrorEstimate, estimate_error
from mechanisms.expressions.parsing import parse
from mechanisms.expressions.presence import misses
from mechanisms.expressions.tree import Node
from mechanisms.filtered import REDUCTIONS
from mechanisms.privacy import Adjacency, Epsilon
from mechanisms.sketches import ArrayData
from mechanisms.statistics.conditions import Condition
from mechanisms.statistics.count import Count
from mechanisms.statistics.histogram import Histogram
from mechanisms.statistics.linear_regression import LinearRegression
from mechanisms.statistics.logistic_regression import LogisticRegression
from mechanisms.statistics.mean import Mean
from mechanisms.statistics.moments import Moments
from mechanisms.statistics.quantile import Quantile
from mechanisms.statistics.questions import Question, viewed
from mechanisms.statistics.stack import Part, Stack
from mechanisms.statistics.std import Std
from mechanisms.statistics.total import Sum
from mechanisms.statistics.variance import Variance
from mechanisms.testing import seeded_randomness
from tests.mechanisms.offers import ADD, REPLACE, Record
from tests.mechanisms.test_every_offer import CASES, Case, every_offer
from tests.mechanisms.test_every_selection import EPSILON, plan_of, records
from tests.tiers import in_one

F = Fraction
SURE = Epsilon.parse("1000")
COLUMNS: Mapping[str, Column] = {
    "income": NumberColumn(F(0), F(100)),
    "age": NumberColumn(F(0), F(100), kind="integer"),
    "job": NumberColumn(F(0), F(1), boolean=True),
    "sex": CategoryColumn(("f", "m")),
    "w": NumberColumn(F(0), F(4)),
}
KEPT = frozenset({"income", "job", "sex", "w"})
ROWS = 400
VALUES: Mapping[str, Sequence[Any]] = {
    "income": [None if i % 3 == 0 else 10 + i % 50 for i in range(ROWS)],
    "age": [i % 90 for i in range(ROWS)],
    "job": [None if i % 7 == 0 else i % 2 for i in range(ROWS)],
    "sex": [None if i % 5 == 0 else "fm"[i % 2] for i in range(ROWS)],
    "w": [None if i % 11 == 0 else i % 5 for i in range(ROWS)],
}
BOTH = pytest.mark.parametrize("adjacency", [REPLACE, ADD], ids=str)


def schema_of(adjacency: Adjacency, optional: frozenset[str] = KEPT) -> Schema:
    rows = ROWS if adjacency is REPLACE else None
    return Schema(COLUMNS, adjacency, rows, 1000, optional=optional)


def answered(statistic: Statistic, adjacency: Adjacency = REPLACE, mechanism: str = "auto") -> Any:
    """The answer with nearly no noise, and which columns' missing cells left records out."""
    schema = schema_of(adjacency)
    plan = calibrate(statistic, schema, SURE, mechanism=mechanism)
    outcome = plan.draw(ArrayData.from_values(schema, VALUES), seeded_randomness(1))
    return outcome.value, plan.details.get("excludes_missing", [])


def rows_with(*names: str) -> dict[str, np.ndarray[Any, Any]]:
    """The records that have a value of each of these columns."""
    whole = [i for i in range(ROWS) if all(VALUES[name][i] is not None for name in names)]
    return {name: np.array([cells[i] for i in whole], object) for name, cells in VALUES.items()}


def of_columns(outcome: Outcome) -> list[Any]:
    return [row for row in outcome.settled().value["rows"] if row["measure"] != "n"]


@every_offer
def test_every_offer_is_about_the_records_that_are_complete(case: Case) -> None:
    rows = records(case)
    optional = frozenset(case.proof.columns)
    nothing: Record = dict.fromkeys(case.proof.columns)
    lacking = [*rows[:3], nothing, *rows[3:], nothing]

    def schema(count: int) -> Schema:
        return replace(case.proof.schema(case.adjacency, count), optional=optional)

    def data(some: Sequence[Record]) -> ArrayData:
        cells = {name: [each[name] for each in some] for name in case.proof.columns}
        return ArrayData.from_values(schema(len(some)), cells)

    plan = plan_of(case, case.proof.statistic, schema(len(lacking)))
    outcome = plan.draw(data(lacking), seeded_randomness(1))
    asked = case.proof.statistic
    if isinstance(asked, Count) and not asked.where and asked.weights is None:
        assert "excludes_missing" not in plan.details
        return
    without = plan.draw(data(rows), seeded_randomness(1))
    if isinstance(asked, Summary):  # its n counts all records, and nothing else does
        assert of_columns(outcome) == of_columns(without)
        return
    assert outcome == without
    if case.proof.mechanism == "composition":
        return
    assert plan.guarantee.reduction == REDUCTIONS[case.adjacency]
    needed = plan.details["excludes_missing"]
    assert needed
    # One missing cell of those named is enough, and no other matters.
    for name in optional:
        one = [*rows, {**rows[0], name: None}]
        same = plan.draw(data(one), seeded_randomness(1))
        wanted = rows if name in needed else [*rows, rows[0]]  # type: ignore[operator]
        assert same == plan.draw(data(wanted), seeded_randomness(1)), name
    # The plan is that of the same question with a filter.
    where = tuple(Condition(column=name, op="present") for name in needed)  # type: ignore[attr-defined]
    spelt = replace(case.proof.statistic, where=(*where,))  # type: ignore[type-var]
    if not getattr(case.proof.statistic, "where", ()):
        other = plan_of(case, spelt, schema(len(lacking)))
        assert other.guarantee == plan.guarantee


@BOTH
def test_answers_are_about_the_records_that_have_a_value(adjacency: Adjacency) -> None:
    value, excluded = answered(Mean(columns=("income",)), adjacency)
    assert value["income"] == pytest.approx(rows_with("income")["income"].mean(), abs=0.02)
    assert excluded == ["income"]
    value, excluded = answered(Mean(columns=("age", "income")), adjacency)
    assert value["age"] == pytest.approx(rows_with("income")["age"].mean(), abs=0.02)
    assert excluded == ["income"]
    value, excluded = answered(Mean(columns=("age",)), adjacency)
    assert (value["age"], excluded) == (pytest.approx(np.mean(VALUES["age"]), abs=0.02), [])
    value, excluded = answered(Quantile(column="income", levels=(0.5,)), adjacency)
    assert value["quantiles"][0]["value"] == pytest.approx(34, abs=2)
    found = rows_with("income", "w")
    value, excluded = answered(Mean(columns=("income",), weights="w"), adjacency)
    wanted = (found["income"] * found["w"]).sum() / found["w"].sum()
    assert value["income"] == pytest.approx(wanted, abs=0.05)
    assert excluded == ["income", "w"]
    value, excluded = answered(
        LinearRegression(formula="age ~ income + sex"), adjacency, "objective_perturbation"
    )
    assert sorted(excluded) == ["income", "sex"]


@BOTH
def test_conditions_ask_whether_there_is_a_value(adjacency: Adjacency) -> None:
    def count(*conditions: Condition, **fields: Any) -> Any:
        value, excluded = answered(Count(where=conditions, **fields), adjacency)
        return value["count"], excluded

    present = [cell for cell in VALUES["income"] if cell is not None]
    low = sum(cell < 30 for cell in present)
    assert count(Condition(column="income", op="present")) == (len(present), ["income"])
    assert count(Condition(column="income", op="missing")) == (ROWS - len(present), [])
    assert count(Condition(column="income", op="<", value=30)) == (low, ["income"])
    # a missing cell meets no comparison, not even this one
    others = count(Condition(column="income", op=">=", value=30))[0]
    assert others == len(present) - low
    assert count(Condition(column="sex", op="!=", value="f"))[0] == VALUES["sex"].count("m")
    both = (Condition(column="income", op="present"), Condition(column="income", op="missing"))
    with pytest.raises(InvalidStatisticError, match="is present and income is missing cannot"):
        count(*both)
    # the limit on conditions is one of comparisons
    assert count(*both[:1] * 30)[0] == len(present)


def test_expressions_of_missing_cells_follow_one_rule() -> None:
    """In a question: missing, unless ``is missing`` or another part of ``and`` / ``or`` decides."""

    def share(expr: str) -> Any:
        value, excluded = answered(Mean(columns=("it",), derive={"it": expr}))
        return pytest.approx(value["it"], abs=0.01), excluded

    income = VALUES["income"]
    some = [cell for cell in income if cell is not None]
    above = sum(cell > 30 for cell in some)
    assert share("income is missing") == (income.count(None) / ROWS, [])
    assert share("income is not missing") == (len(some) / ROWS, [])
    assert share("income > 30") == (above / len(some), ["income"])
    assert share("not income > 30") == (1 - above / len(some), ["income"])
    assert share("income is missing or income > 30") == ((ROWS - len(some) + above) / ROWS, [])
    assert share("income is not missing and income > 30") == (above / ROWS, [])
    decided = [i for i, cell in enumerate(income) if cell is not None or i % 90 > 40]
    true = [i for i in decided if i % 90 > 40 or (income[i] or 0) > 30]
    assert share("age > 40 or income > 30") == (len(true) / len(decided), ["income"])
    # of a derived column: it is named by what it is made of
    derive = {"double": "2 * income", "lacks": "double is missing", "more": "double + 1"}
    value, excluded = answered(Mean(columns=("lacks",), derive=derive))
    assert (value["lacks"], excluded) == (pytest.approx(income.count(None) / ROWS, abs=0.01), [])
    value, excluded = answered(Mean(columns=("more",), derive=derive))
    assert (value["more"], excluded) == (pytest.approx(2 * np.mean(some) + 1, abs=0.05), ["income"])
    value, _ = answered(Count(where=(Condition(column="more", op="missing"),), derive=derive))
    assert value["count"] == income.count(None)


EXPRESSIONS = (
    "a > 0",
    "not a > 0",
    "a + b > 1",
    "a > 0 and b > 0",
    "a > 0 or b > 0",
    "a is missing",
    "a is missing or a > 0",
    "a is not missing and a > 0",
    "not (a is missing and b > 0)",
    "(a > 0 or b is missing) and (b > 0 or a is missing)",
    "(a > 0 and b > 0) or c > 0",
    "max(a, b) > 0 or (c > 0 and a is missing)",
    "a in (0, 1) and not b > 0",
)


def kleene(node: Node, row: Mapping[str, int | None]) -> Any:
    """The value of an expression by the rules of SQL, one row at a time; None for none."""
    if not node.args:
        return row[node.name] if node.op == "column" else node.number
    if node.op == "missing":
        return row[node.args[0].name] is None
    parts = [kleene(arg, row) for arg in node.args]
    if node.op in ("and", "or"):
        decides = node.op == "or"
        unknown = None if None in parts else not decides
        return decides if decides in parts else unknown
    if None in parts:
        return None
    first, *others = parts
    values: Mapping[str, Callable[[], Any]] = {
        "not": lambda: not first,
        ">": lambda: first > others[0],
        "+": lambda: first + others[0],
        "max": lambda: max(parts),
        "in": lambda: first in others,
    }
    return values[node.op]()


@in_one("text", EXPRESSIONS)
def test_every_record_of_every_kind_is_judged_as_sql_does(text: str) -> None:
    names = ("a", "b", "c")
    columns: Mapping[str, Column] = {name: NumberColumn(F(0), F(1)) for name in names}
    schema = Schema(columns, ADD, None, 100, optional=frozenset(names))
    cells = list(product((None, 0, 1), repeat=3))
    values = {name: [row[at] for row in cells] for at, name in enumerate(names)}
    asked = viewed(Count(derive={"it": text}, where=(is_true(),)), schema)
    assert isinstance(asked.statistic, Question)
    data = asked.view.over(ArrayData.from_values(schema, values))
    parting = asked.statistic.parting(asked.view.schema)
    (block,) = data.blocks(parting.columns)
    wanted = [kleene(parse(text), dict(zip(names, row, strict=True))) for row in cells]
    assert ((parting.place(block) == 0) == [each is True for each in wanted]).all()
    # what may leave it without a value is named, and nothing else
    named = set(misses(parse(text), names))
    assert any(each is None for each in wanted) == bool(named)
    for row, each in zip(cells, wanted, strict=True):
        if each is None:
            assert any(row[names.index(name)] is None for name in named)


def is_true() -> Condition:
    return Condition(column="it", op="==", value=True)


@BOTH
def test_each_columns_own_records(adjacency: Adjacency) -> None:
    one: Any
    for one, function in ((Mean, np.mean), (Std, np.std), (Variance, np.var), (Sum, np.sum)):
        asked = one(columns=("age", "income", "job"), missing="available")
        value, excluded = answered(asked, adjacency)
        assert excluded == ["income", "job"]
        assert [*value] == ["age", "income", "job"]
        for name in value:
            wanted = function(rows_with(name)[name].astype(float))
            assert value[name] == pytest.approx(wanted, rel=0.02, abs=0.5)
    # what all records have is drawn jointly, with the share of its columns
    plan = calibrate(
        Mean(columns=("age", "income"), missing="available"), schema_of(adjacency), SURE
    )
    parts: Any = plan.details["parts"]
    assert [part["columns"] for part in parts] == [["age"], ["income"]]
    assert [part["epsilon"] for part in parts] == ["500", "500"]
    assert plan.guarantee.epsilon == SURE
    each = [
        calibrate(Mean(columns=(name,)), schema_of(adjacency), Epsilon.parse("500"))
        for name in ("age", "income")
    ]
    assert plan.guarantee.zcdp == sum(other.guarantee.zcdp for other in each)
    grouped = Mean(columns=("age", "income"), missing="available", by=("sex",))
    value, excluded = answered(grouped, adjacency)
    assert [{*row["value"]} for row in value["groups"]] == [{"age", "income"}] * 2
    assert excluded == ["sex", "income"]


@BOTH
def test_a_category_has_a_cell_for_missing_values_where_that_is_asked(adjacency: Adjacency) -> None:
    sexes = [VALUES["sex"].count(each) for each in ("f", "m", None)]
    value, excluded = answered(Histogram(columns=("sex",)), adjacency)
    assert [cell["count"] for cell in value["cells"]] == sexes[:2]
    assert excluded == ["sex"]
    value, excluded = answered(Histogram(columns=("sex",), missing="cell"), adjacency)
    assert [cell["count"] for cell in value["cells"]] == sexes
    assert [cell["cell"]["sex"] for cell in value["cells"]] == ["f", "m", "missing"]
    assert excluded == []
    value, _ = answered(Count(by=("sex",), missing="cell", where=(SOME_AGE,)), adjacency)
    assert [row["by"]["sex"] for row in value["groups"]] == ["f", "m", "missing"]
    value, excluded = answered(Mean(columns=("income",), by=("sex",), missing="cell"), adjacency)
    lacking = [i for i in range(ROWS) if VALUES["sex"][i] is None]
    wanted = np.mean([VALUES["income"][i] for i in lacking if VALUES["income"][i] is not None])
    assert value["groups"][2]["value"]["income"] == pytest.approx(wanted, abs=0.1)
    assert excluded == ["income"]


SOME_AGE = Condition(column="age", op="<", value=90)


def test_a_declared_value_is_never_taken_for_the_cell_of_missing_ones() -> None:
    columns = {"sex": CategoryColumn(("missing", "m"))}
    schema = Schema(columns, ADD, None, 100, optional=frozenset(columns))
    plan = calibrate(Histogram(columns=("sex",), missing="cell"), schema, SURE)
    data = ArrayData.from_values(schema, {"sex": ["missing", None, None]})
    cells: Any = plan.draw(data, seeded_randomness(1)).value["cells"]
    assert [(each["cell"]["sex"], each["count"]) for each in cells] == [
        ("missing", 1),
        ("m", 0),
        ("(missing)", 2),
    ]


@in_one(
    ("statistic", "optional", "place", "words"),
    [
        (Count(where=(Condition(column="age", op="missing"),)), KEPT, "where[0]", "income, job"),
        (Count(where=(Condition(column="aeg", op="present"),)), KEPT, "where[0]", "no such column"),
        (Moments(columns=("age", "income"), missing="available"), KEPT, "missing", "complete"),
        (Histogram(columns=("job",), missing="cell"), KEPT, "missing", "is missing"),
        (Mean(columns=("income",), missing="cell"), KEPT, "missing", "is missing"),
        (Mean(columns=("it",), derive={"it": "age is missing"}), KEPT, "derive[0]", "keep"),
        (
            LogisticRegression(target=Condition(column="income", op="missing"), features=("age",)),
            KEPT,
            "target",
            "is missing",
        ),
        (Mean(columns=("income\tis present",)), KEPT, "columns", "no such column"),
    ],
)
def test_what_cannot_be_asked_says_what_can(
    statistic: Statistic, optional: frozenset[str], place: str, words: str
) -> None:
    with pytest.raises(InvalidStatisticError, match=words) as caught:
        calibrate(statistic, schema_of(REPLACE, optional), SURE)
    assert caught.value.field_name == place


def test_every_statistic_that_needs_all_its_columns_refuses_to_split_them() -> None:
    """Also one whose columns are no field of its own, such as the time and event of a curve."""
    firsts = {case.proof.statistic.kind: case for case in reversed(CASES)}
    answered = set()
    for kind, case in firsts.items():
        if not isinstance(case.proof.statistic, Question):
            continue  # a stack says it of each part
        wanted = replace(case.proof.statistic, missing="available")
        schema = case.proof.schema(case.adjacency, 3)
        kept = replace(schema, optional=frozenset(schema.columns))
        if kind in {"mean", "sum", "variance", "std"}:
            plan_of(case, wanted, kept)
            answered.add(kind)
            continue
        with pytest.raises(InvalidStatisticError) as refusal:
            plan_of(case, wanted, kept)
        assert refusal.value.field_name == "missing", kind
    assert len(answered) == 4


def test_a_condition_has_a_value_or_asks_whether_there_is_one() -> None:
    with pytest.raises(InvalidStatisticError, match="takes no value"):
        Condition(column="income", op="present", value=3)
    with pytest.raises(InvalidStatisticError, match="needs a value"):
        Condition(column="income", op=">")


def released(statistic: Statistic, adjacency: Adjacency) -> Released:
    schema = schema_of(adjacency)
    plan = calibrate(statistic, schema, SURE)
    outcome = plan.draw(ArrayData.from_values(schema, VALUES), seeded_randomness(1))
    return Released(
        statistic=statistic,
        mechanism=plan.mechanism,
        norm=plan.norm,
        epsilon=SURE,
        value=outcome.value,
        noise=outcome.noise,
        details=plan.details,
    )


@BOTH
def test_an_answer_tells_of_the_same_records_only(adjacency: Adjacency) -> None:
    schema = schema_of(adjacency)
    both = released(Mean(columns=("age", "income")), adjacency)
    with pytest.raises(InvalidStatisticError, match="same conditions"):
        derive(Mean(columns=("age",)), both, schema)
    assert derive(Mean(columns=("income",)), both, schema).value["income"] == both.value["income"]
    own = released(Sum(columns=("age", "income"), missing="available"), adjacency)
    with pytest.raises(InvalidStatisticError, match="does not determine"):
        derive(Mean(columns=("age", "income"), missing="available"), own, schema)
    counted = [
        released(Count(where=(Condition(column="income", op=op),)), adjacency)
        for op in ("present", "missing")
    ]
    with pytest.raises(InvalidStatisticError):
        combine(Count(where=(Condition(column="income", op="present"),)), counted, schema)
    moments = released(Moments(columns=("age", "income")), adjacency)
    found = derive(LinearRegression(target="income", features=("age",)), moments, schema)
    assert "age" in found.value["coefficients"]  # type: ignore[operator]


@BOTH
@pytest.mark.parametrize(
    "statistic",
    [
        Mean(columns=("income", "age")),
        Mean(columns=("income", "age"), missing="available"),
        Histogram(columns=("sex",), missing="cell"),
        Count(by=("sex",), missing="cell"),
        LogisticRegression(formula="job ~ age + sex"),
        Quantile(column="income", levels=(0.5,)),
        Stack(
            parts=(Part(statistic=Mean(columns=("income",))), Part(statistic=Count(by=("job",))))
        ),
    ],
    ids=lambda each: each.kind,
)
def test_errors_are_expected_without_rows(statistic: Statistic, adjacency: Adjacency) -> None:
    found = estimate_error(
        statistic,
        schema_of(adjacency),
        EPSILON,
        mechanism="auto",
        norm="auto",
        assumptions=Assumptions(rows=300),
    )
    assert found.usefulness.verdict


@BOTH
def test_errors_account_for_the_share_that_is_missing(adjacency: Adjacency) -> None:
    def estimated(statistic: Statistic, **missing: float) -> ErrorEstimate:
        return estimate_error(
            statistic, schema_of(adjacency), EPSILON, mechanism="auto", norm="auto",
            assumptions=Assumptions(rows=300, missing=tuple(missing.items()), even=True),
        )  # fmt: skip

    mean, some = (
        Mean(columns=("income",)),
        "assumed to be missing: state their assumed share in a preview",
    )
    full, tenth = estimated(mean), estimated(mean, income=0.9)
    assert full.usefulness.share is not None
    assert tenth.usefulness.share is not None
    assert tenth.usefulness.share > 4 * full.usefulness.share, "it is about a tenth of the records"
    assert f"No value of income is {some}" in full.usefulness.sentence
    assert some not in tenth.usefulness.sentence
    counted = Count(where=(Condition(column="income", op="present"),))
    assert some not in estimated(counted).usefulness.sentence, "its noise is known"
    for wrong in ({"age": 0.5}, {"income": 1.0}, {"nothing": 0.1}):
        with pytest.raises(InvalidStatisticError) as refused:
            estimated(mean, **wrong)
        assert refused.value.field_name == "assume.missing"
