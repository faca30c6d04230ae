"""Random schemas, questions and records, for searches over whole plans.

Everything follows from a seed. Kinds that are drawn by sums alone are asked in every combination
of adjacency, rows of one person, conditions, groups, weights, missing cells, levels of places,
designs and accounts that the drawn schema allows; what does not go together is refused by the plan.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from fractions import Fraction
from random import Random
from typing import Any

from mechanisms.analysis.hypothesis import HypothesisTest
from mechanisms.analysis.pca import PrincipalComponents
from mechanisms.analysis.summary import Summary
from mechanisms.contract import Statistic
from mechanisms.domain import CategoryColumn, Column, Design, Nested, NumberColumn, Schema
from mechanisms.privacy import ONE_ROW, Adjacency, Protected
from mechanisms.sketches import ArrayData
from mechanisms.statistics.cells.axes import Step
from mechanisms.statistics.cells.parting import Bands
from mechanisms.statistics.conditions import Condition
from mechanisms.statistics.correlation import Correlation
from mechanisms.statistics.count import Count
from mechanisms.statistics.covariance import Covariance
from mechanisms.statistics.curves.kaplan_meier import KaplanMeier
from mechanisms.statistics.curves.roc import Roc
from mechanisms.statistics.facts.clipping import ClipBounds
from mechanisms.statistics.histogram import Histogram
from mechanisms.statistics.linear_regression import LinearRegression
from mechanisms.statistics.mean import Mean
from mechanisms.statistics.moments import Moments
from mechanisms.statistics.registry import SINGLE_STATISTICS
from mechanisms.statistics.stack import Part, Stack
from mechanisms.statistics.std import Std
from mechanisms.statistics.tables import Tables
from mechanisms.statistics.total import Sum
from mechanisms.statistics.variance import Variance

F = Fraction
Row = Mapping[str, Any]
WEIGHTS: Sequence[NumberColumn] = (
    NumberColumn(F(0), F(4)),
    NumberColumn(F(1, 2), F(3)),
    NumberColumn(F(0), F(1, 1000)),
    NumberColumn(F(2), F(5), kind="integer"),
    NumberColumn(F(0), F(10**9), kind="integer"),
    NumberColumn(F(0), F(1), boolean=True),
)
REPLICATES = ("r1", "r2", "r3")
NESTED = {
    "region": Nested("town", (0, 1, 0, 2, 3)),
    "nation": Nested("region", (0, 1, 0, 2)),
}
COLUMNS: Mapping[str, Column] = {
    "x": NumberColumn(F(-1), F(1)),
    "far": NumberColumn(F(5), F(10)),
    "neg": NumberColumn(F(-9, 2), F(-1, 2)),
    "k": NumberColumn(F(-2), F(3), kind="integer"),
    "big": NumberColumn(F(-(10**17)), F(10**17 + 1), kind="integer"),
    "yes": NumberColumn(F(0), F(1), boolean=True),
    "no": NumberColumn(F(0), F(1), boolean=True),
    "d": NumberColumn(F(18000), F(18400), kind="date"),
    "g": CategoryColumn(("a", "b", "c")),
    "h": CategoryColumn(("u", "v")),
    "town": CategoryColumn(("t1", "t2", "t3", "t4")),
    "region": CategoryColumn(("n", "s", "w")),
    "nation": CategoryColumn(("N", "M")),
    **{name: NumberColumn(F(0), F(8)) for name in REPLICATES},
}
NUMBERS = ("x", "far", "neg", "k", "big", "yes", "no", "more", "product", "both")
CELLS = ("g", "h", "yes", "no", "town", "region", "nation")
DERIVED = {
    "it": "x is missing or far > 7",
    "more": "2 * far + 1",
    "product": "x * far",
    "both": "far > 7 and g == 'a'",
    "size": "abs(w)",
}
CONDITIONS = (
    Condition(column="g", op="in", value=("a", "b")),
    Condition(column="yes", op="==", value=True),
    Condition(column="far", op=">=", value=7),
    Condition(column="k", op="<", value=2),
    Condition(column="region", op="==", value="n"),
    Condition(column="x", op="missing"),
    Condition(column="d", op=">=", value="2019-07-01"),
    Condition(column="town", op="!=", value="t1"),
    Condition(column="big", op=">", value=10**16 + 1),
    Condition(column="it", op="==", value=True),
)
GROUPS: tuple[str | Bands, ...] = (
    "g",
    "h",
    "region",
    "town",
    "yes",
    Bands(column="x", edges=(-1, 0, 1)),
    Bands(column="x", edges=(-0.5, 0.5), outside="drop"),
    Bands(column="k", edges="values"),
    Bands(column="far", edges=Step(step=2)),
    Bands(column="d", edges=("2019-05-01", "2019-08-01")),
)
EDGES: Mapping[str, Sequence[Any]] = {
    "x": [(-1, 0, 1), (-0.5, 0.5), (-1, -0.5, 0, 0.5, 1)],
    "far": [(5, 7, 10), Step(step=1), (6, 8)],
    "k": ["values", (-1, 1), (-2, 0, 3)],
    "d": [("2019-05-01", "2019-08-01")],
    "neg": [(-4.5, -2, -0.5)],
}
FORMULAS = (
    "far ~ x",
    "far ~ x + g",
    "far ~ x * g",
    "far ~ g - 1",
    "x ~ k + yes:g",
    "k ~ yes * h",
    "far ~ x + region",
    "x ~ I(far^2) + k",
)
TESTS: Sequence[Mapping[str, Any]] = (
    {"test": "t", "columns": ("x",)},
    {"test": "t", "columns": ("x",), "groups": "h"},
    {"test": "welch", "columns": ("far",), "groups": "yes"},
    {"test": "anova", "columns": ("k",), "groups": "region"},
    {"test": "chi_square", "columns": ("g", "town")},
    {"test": "proportion", "columns": ("no",), "groups": "h"},
    {"test": "rank_sum", "columns": ("x",), "groups": "yes", "bins": 4},
    {"test": "signed_rank", "columns": ("x",), "bins": 5, "value": 0.3},
    {"test": "correlation", "columns": ("x", "far")},
)


def random_schema(chance: Random) -> Schema:
    """Return public facts: how many rows are protected, what may be missing, how it is kept."""
    columns = {**COLUMNS, "w": chance.choice(WEIGHTS)}
    adjacency = chance.choice([*Adjacency])
    added = adjacency is Adjacency.ADD_REMOVE
    several = Protected(chance.choice([2, 3]), "one person, up to some rows")
    stored = [*(columns.keys() - NESTED - {*REPLICATES})]
    optional = {*chance.choice([[], stored, chance.sample(sorted(stored), 4)])}
    design = _design(chance) if chance.random() < 0.4 else None
    if design is not None:  # a spec refuses designs whose columns lack cells
        optional -= {"w", "h"}
    if "town" in optional:
        optional |= NESTED.keys()
    return Schema(
        columns,
        adjacency,
        None if added else chance.choice([2, 3]),
        chance.choice([4, 1000]),
        protects=several if added and chance.random() < 0.3 else ONE_ROW,
        optional=frozenset(optional),
        zcdp=chance.random() < 0.4,
        nested=NESTED,
        design=design,
    )


def _design(chance: Random) -> Design:
    strata, replicates = chance.choice([(None, ()), ("h", ()), (None, REPLICATES)])
    scales = (F(1), F(1, 2), F(2)) if replicates and chance.random() < 0.5 else ()
    return Design(weight="w", strata=strata, replicates=replicates, rscales=scales)


def random_row(chance: Random, schema: Schema) -> Row:
    """Return a record at ends of its columns' bounds, mostly; and some without values."""
    return {
        name: None if name in schema.optional and chance.random() < 0.2 else _cell(chance, column)
        for name, column in schema.columns.items()
        if name not in schema.nested
    }


def _cell(chance: Random, column: Column) -> object:
    if isinstance(column, CategoryColumn):
        return chance.choice(column.values)
    low, high = column.lower, column.upper
    if column.whole or column.boolean:
        return chance.choice([int(low), int(high), int(low) + 1])
    inside = low + (high - low) * F(chance.random())
    return float(chance.choice([low, high, low, high, inside, F(0)]))


def data_of(schema: Schema, rows: Sequence[Row]) -> ArrayData:
    """Return records as data."""
    names = [name for name in schema.columns if name not in schema.nested]
    return ArrayData.from_values(schema, {name: [row[name] for row in rows] for name in names})


def random_question(chance: Random) -> Statistic:
    """Return a question that is answered by sums with noise, or several in a stack."""
    if chance.random() < 0.05:
        parts = [Part(statistic=_single(chance), share=share) for share in (1.0, 2.0)]
        return Stack(parts=tuple(parts))
    return _asked(chance, chance.choice([*KINDS.values()])(chance))


def _single(chance: Random) -> Statistic:
    made = _asked(chance, chance.choice([*KINDS.values()])(chance))
    # by sums: what a regression in a stack is drawn by is chosen by its error
    fits = made.kind in SINGLE_STATISTICS and not isinstance(made, LinearRegression)
    return made if fits else _single(chance)


def _asked(chance: Random, statistic: Any) -> Statistic:
    """Return the question of some records, in groups, with the columns that it derives."""
    found = replace(
        statistic,
        where=tuple(chance.sample(CONDITIONS, chance.choice([0, 0, 0, 1, 1, 2]))),
        by=tuple(chance.sample(GROUPS, chance.choice([0, 0, 0, 1, 1, 2]))),
        missing=chance.choice(["complete"] * 5 + ["available", "cell"]),
    )
    if hasattr(found, "weights"):
        found = replace(found, weights=chance.choice([None, None, "w", "w", "yes", "size"]))
    named = repr([getattr(found, each.name) for each in fields(found)])
    derive = {name: text for name, text in DERIVED.items() if f"'{name}'" in named}
    made: Statistic = replace(found, derive=derive)
    return made


def _numbers(chance: Random, most: int = 3) -> tuple[str, ...]:
    return tuple(chance.sample(NUMBERS, chance.randint(1, most)))


def _cells(chance: Random, most: int, names: Sequence[str]) -> Mapping[str, Any]:
    columns = tuple(chance.sample(names, chance.randint(1, most)))
    return {"columns": columns, "edges": _edges(chance, columns)}


def _edges(chance: Random, names: Sequence[str]) -> Mapping[str, Any]:
    return {name: chance.choice(EDGES[name]) for name in names if name in EDGES}


def _tables(chance: Random) -> Statistic:
    asked = _cells(chance, 4, ("g", "h", "yes", "no", "town", "x", "far", "k"))
    order = chance.choice(["all_one_way", "all_two_way", "all_three_way"])
    return Tables(**asked, margins=order, raw=True)


def _levels(chance: Random) -> Statistic:
    names = ("town", *chance.sample(("g", "yes"), chance.randint(0, 2)))
    return Tables(columns=names, margins=(names,), raw=True, hierarchy="town")


def _clipped(chance: Random) -> Statistic:
    kind: Any = chance.choice([Mean, Sum, Variance])
    made: Statistic = kind(columns=("far",), clip=ClipBounds(lower=6, upper=8))
    return made


def _curve(chance: Random, kind: Any, first: str, second: str) -> Statistic:
    name = chance.choice(["far", "x"])
    named = {first: name, second: "yes", "edges": _edges(chance, [name])}
    made: Statistic = kind(**named)
    return made


def _summary(chance: Random) -> Statistic:
    names = chance.sample(("x", "far", "k", "g", "yes", "h", "region"), chance.randint(1, 3))
    return Summary(columns=tuple(names), show=("n", "mean_sd", "share"))


KINDS: Mapping[str, Callable[[Random], Statistic]] = {
    "count": lambda _: Count(),
    "histogram": lambda chance: Histogram(
        **_cells(chance, 2, (*CELLS, *EDGES)), outside=chance.choice(["cells", "drop"])
    ),
    "ranges": lambda chance: Histogram(**_cells(chance, 1, tuple(EDGES)), ranges=True),
    "tables": _tables,
    "levels": _levels,
    "sum": lambda chance: Sum(columns=_numbers(chance)),
    "mean": lambda chance: Mean(columns=_numbers(chance)),
    "variance": lambda chance: Variance(columns=_numbers(chance, 2)),
    "std": lambda chance: Std(columns=_numbers(chance, 2)),
    "clipped": _clipped,
    "moments": lambda chance: Moments(columns=_numbers(chance)),
    "covariance": lambda chance: Covariance(columns=_numbers(chance)),
    "correlation": lambda chance: Correlation(columns=_numbers(chance)),
    "regression": lambda chance: LinearRegression(formula=chance.choice(FORMULAS)),
    "summary": _summary,
    "test": lambda chance: HypothesisTest(**chance.choice(TESTS)),
    "components": lambda chance: PrincipalComponents(columns=_numbers(chance)),
    "survival": lambda chance: _curve(chance, KaplanMeier, "time", "event"),
    "roc": lambda chance: _curve(chance, Roc, "score", "label"),
}
