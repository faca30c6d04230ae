"""What proves each offer of the catalog: one question, one worst pair of neighbours per offer.

:mod:`tests.mechanisms.test_every_offer` reads the catalog and this table. An offer (statistic x
mechanism x norm x adjacency) that no entry of :data:`PROOFS` covers fails the suite.

To add an offer, append one :class:`Proof` per statistic x mechanism:

1. ``statistic`` is a question on :data:`COLUMNS` (or on columns of your own). It is drawn on empty,
   single-row, constant and mixed data at the smallest and the largest epsilon, so keep it small.
2. ``shape`` is the answer's value with every number replaced by 0.0. Give ``shape_add_remove``
   where the answer differs under add-remove.
3. ``common`` and ``changed`` are the worst pair of neighbours you know: the records both data sets
   hold, then the one that is replaced, before and after. Under add-remove it is removed.
4. ``reading`` takes one number from the value, the one that tells the pair apart best; the events
   of the black-box audit are "above" and "at most" each of ``cuts``. Choose them from the
   mechanism's law, before looking at draws.
5. ``draws`` per data set, so that an audit takes less than about half a second of processor time
   (both data sets, and again for the twin). A few hundred are enough for a twin that is far away:
   most entries here catch theirs with a chance above 0.97. ``draws_replace_one`` is for pairs that
   are told apart sooner where a record is replaced, ``fewer`` for norms by which they are.
6. ``caught_at``: the audit must flag the same mechanism calibrated at this many times epsilon. It
   proves that the pair, the events and the number of draws could have found a violation. An audit
   of few draws on a simple pair sees about half of a K-norm gradient's loss, so 4 to 6 is usual
   there. Other neighbours reach all of it: nothing may be tightened because an audit finds less.
7. ``noise`` says whether a release states its noise. ``details["noise"]`` of every plan says in a
   sentence what is known, or why nothing is: the suite checks that too.
8. ``plain`` (optional): the value by numpy, from the columns' clamped values. A release at the
   largest epsilon comes to it.
9. A regression's entry on the feature ``x`` is proved again, by generation, on a product
   with an expression and on a category that stand for it: see :func:`on_designs`.
10. ``norms``, ``adjacencies`` and ``refused`` narrow an entry to what its question can be drawn by;
   some entry must then cover the rest. What is ``refused`` is tested to be.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial
from typing import Any

from mechanisms.catalog import STATISTICS
from mechanisms.contract import Statistic
from mechanisms.domain import CategoryColumn, Column, NumberColumn, Schema
from mechanisms.privacy import Adjacency
from mechanisms.sketches import ArrayData
from mechanisms.statistics.conditions import Condition
from mechanisms.statistics.correlation import Correlation
from mechanisms.statistics.count import Count
from mechanisms.statistics.covariance import Covariance
from mechanisms.statistics.designs.features import Category, Expression, Feature, Product
from mechanisms.statistics.geometric_median import GeometricMedian
from mechanisms.statistics.histogram import Histogram
from mechanisms.statistics.interquartile_range import InterquartileRange
from mechanisms.statistics.linear_regression import LinearRegression
from mechanisms.statistics.logistic_regression import LogisticRegression
from mechanisms.statistics.mean import Mean
from mechanisms.statistics.moments import Moments
from mechanisms.statistics.quantile import Quantile
from mechanisms.statistics.quantile_regression import QuantileRegression
from mechanisms.statistics.stack import Part, Stack
from mechanisms.statistics.std import Std
from mechanisms.statistics.total import Sum
from mechanisms.statistics.variance import Variance

REPLACE, ADD = Adjacency.REPLACE_ONE, Adjacency.ADD_REMOVE
MAX_ROWS = 100

Record = Mapping[str, object]

COLUMNS: Mapping[str, Column] = {
    "x": NumberColumn(Fraction(-1), Fraction(1)),
    "y": NumberColumn(Fraction(-1), Fraction(1)),
    "yes": NumberColumn(Fraction(0), Fraction(1), boolean=True),
    "group": CategoryColumn(("a", "b", "c")),
    "here": NumberColumn(Fraction(0), Fraction(1), boolean=True),
    "kind": CategoryColumn(("low", "high")),
}


def record(x: float = 0.0, y: float = 0.0, yes: int = 0, group: str = "a") -> Record:
    """Return one record of :data:`COLUMNS`."""
    return {"x": x, "y": y, "yes": yes, "group": group, "here": 1, "kind": "low"}


@dataclass(frozen=True, kw_only=True)
class Proof:
    """What an offer is tried with; the module's docstring says how to choose each field."""

    statistic: Statistic
    mechanism: str
    shape: Mapping[str, Any]
    common: Sequence[Record]
    changed: tuple[Record, Record]
    reading: Callable[[Any], float]
    cuts: Sequence[float]
    caught_at: int
    noise: bool
    draws: int = 300
    draws_replace_one: int | None = None
    fewer: Mapping[str, int] = field(default_factory=dict)
    epsilon: str = "1"
    plain: Callable[[Mapping[str, Any]], Mapping[str, Any]] | None = None
    shape_add_remove: Mapping[str, Any] | None = None
    norms: tuple[str, ...] | None = None
    adjacencies: tuple[Adjacency, ...] = (REPLACE, ADD)
    refused: tuple[tuple[str, Adjacency], ...] = ()
    columns: Mapping[str, Column] = field(default_factory=lambda: COLUMNS)

    @property
    def offered_norms(self) -> tuple[str, ...]:
        """Return the norms this entry proves; "auto" alone for a mechanism without one."""
        return self.norms or STATISTICS[self.statistic.kind].mechanisms[self.mechanism] or ("auto",)

    def shape_under(self, adjacency: Adjacency) -> Mapping[str, Any]:
        """Return the value's shape."""
        if adjacency is ADD and self.shape_add_remove is not None:
            return self.shape_add_remove
        return self.shape

    def schema(self, adjacency: Adjacency, rows: int) -> Schema:
        """Return the public facts of a data set with this many rows."""
        return Schema(self.columns, adjacency, rows if adjacency is REPLACE else None, MAX_ROWS)

    def data(self, records: Sequence[Record]) -> ArrayData:
        """Return a data set of these records."""
        values = {name: [each[name] for each in records] for name in self.columns}
        return ArrayData.from_values(self.schema(REPLACE, len(records)), values)

    def draws_under(self, adjacency: Adjacency, norm: str) -> int:
        """Return how often each data set is drawn from."""
        draws = self.fewer.get(norm, self.draws)
        return min(draws, self.draws_replace_one or draws) if adjacency is REPLACE else draws

    def pair(self, adjacency: Adjacency) -> tuple[ArrayData, ArrayData]:
        """Return the worst pair of neighbours."""
        other = [self.changed[1]] if adjacency is REPLACE else []
        return self.data([*self.common, self.changed[0]]), self.data([*self.common, *other])

    def tiny(self, adjacency: Adjacency) -> Iterator[ArrayData]:
        """Yield degenerate data sets: none, one, constant and mixed records."""
        if adjacency is ADD:
            yield self.data([])
        for each in self.changed:
            yield self.data([each])
            yield self.data([each] * 5)
        yield self.data([*self.common, *self.changed])


ABOVE = (Condition(column="x", op=">", value=0),)
WITHIN = (Condition(column="group", op="==", value="a"),)

WEIGHED: Mapping[str, Column] = {**COLUMNS, "w": NumberColumn(Fraction(0), Fraction(4))}


def weighed(w: float, x: float = 0.0, y: float = 0.0, yes: int = 0) -> Record:
    """Return a record that counts by a weight."""
    return {**record(x=x, y=y, yes=yes), "w": w}


def _weighted_means(columns: Mapping[str, Any]) -> Mapping[str, Any]:
    weights = columns["w"]
    return {name: (weights * columns[name]).sum() / weights.sum() for name in ("x", "y")}


LISTED: tuple[Proof, ...] = (
    Proof(
        statistic=Count(where=ABOVE),
        mechanism="k_norm",
        shape={"count": 0.0},
        common=[record(x=-1)] * 3,
        changed=(record(x=1), record(x=-1)),
        reading=lambda value: value["count"],
        cuts=(-0.5, 0.5, 1.5),
        caught_at=3,
        draws=100,
        noise=True,
    ),
    Proof(
        statistic=Count(),
        mechanism="k_norm",
        shape={"count": 0.0},
        common=[record()] * 3,
        changed=(record(), record()),
        reading=lambda value: value["count"],
        cuts=(2.5, 3.5, 4.5),
        caught_at=3,
        draws=100,
        noise=True,
        adjacencies=(ADD,),
    ),
    Proof(
        statistic=Histogram(columns=("group",)),
        mechanism="k_norm",
        shape={"cells": [{"cell": {"group": name}, "count": 0.0} for name in "abc"]},
        common=[record(group="a"), record(group="b"), record(group="c")],
        changed=(record(group="a"), record(group="b")),
        reading=lambda value: value["cells"][0]["count"] - value["cells"][1]["count"],
        cuts=(-1.0, 0.0, 1.0, 2.0),
        caught_at=6,
        draws_replace_one=100,
        fewer={"optimal": 100, "l1": 100},
        noise=True,
    ),
    Proof(
        statistic=Sum(columns=("x", "y")),
        mechanism="k_norm",
        shape={"x": 0.0, "y": 0.0},
        common=[record(x=-1, y=-1)] * 3,
        changed=(record(x=1, y=1), record(x=-1, y=-1)),
        reading=lambda value: min(value["x"], value["y"]),
        cuts=(-4.0, -3.0, -2.0, -1.0),
        caught_at=4,
        noise=True,
    ),
    Proof(
        statistic=Sum(columns=("x",), where=WITHIN),
        mechanism="k_norm",
        shape={"x": 0.0},
        common=[record(x=0.5)] * 3,
        changed=(record(x=1), record(x=-1)),
        reading=lambda value: value["x"],
        cuts=(1.0, 1.5, 2.0, 2.5),
        caught_at=4,
        noise=True,
    ),
    Proof(
        statistic=Mean(columns=("x", "y")),
        mechanism="k_norm",
        plain=lambda columns: {name: columns[name].mean() for name in ("x", "y")},
        shape={"x": 0.0, "y": 0.0},
        common=[record(x=-1, y=-1)] * 3,
        changed=(record(x=1, y=1), record(x=-1, y=-1)),
        reading=lambda value: min(value["x"], value["y"]),
        cuts=(-1.0, -0.75, -0.5, 0.0),
        caught_at=6,
        draws=200,
        draws_replace_one=100,
        fewer={"l2": 100, "linf": 100, "optimal": 100},
        noise=True,
    ),
    Proof(
        statistic=Sum(columns=("x", "y"), weights="w"),
        mechanism="k_norm",
        columns=WEIGHED,
        plain=lambda columns: {name: (columns["w"] * columns[name]).sum() for name in ("x", "y")},
        shape={"x": 0.0, "y": 0.0},
        common=[weighed(0, x=1)] * 3,
        changed=(weighed(4, x=1, y=1), weighed(4, x=-1, y=-1)),
        reading=lambda value: min(value["x"], value["y"]),
        cuts=(-4.0, 0.0, 2.0, 4.0),
        caught_at=4,
        noise=True,
    ),
    Proof(
        statistic=Mean(columns=("x", "y"), weights="w"),
        mechanism="k_norm",
        columns=WEIGHED,
        plain=_weighted_means,
        shape={"x": 0.0, "y": 0.0},
        common=[weighed(4, x=-1, y=-1)] * 3,
        changed=(weighed(4, x=1, y=1), weighed(4, x=-1, y=-1)),
        reading=lambda value: min(value["x"], value["y"]),
        cuts=(-1.0, -0.75, -0.5, 0.0),
        caught_at=6,
        noise=True,
    ),
    Proof(
        statistic=Variance(columns=("x",)),
        mechanism="k_norm",
        plain=lambda columns: {"x": columns["x"].var()},
        shape={"x": 0.0},
        common=[record(x=-1)] * 3,
        changed=(record(x=1), record(x=-1)),
        reading=lambda value: value["x"],
        cuts=(0.0, 0.25, 0.5, 0.75),
        caught_at=8,
        draws=100,
        noise=True,
    ),
    Proof(
        statistic=Std(columns=("x",)),
        mechanism="k_norm",
        plain=lambda columns: {"x": columns["x"].std()},
        shape={"x": 0.0},
        common=[record(x=-1)] * 3,
        changed=(record(x=1), record(x=-1)),
        reading=lambda value: value["x"],
        cuts=(0.0, 0.5, 0.7, 0.85),
        caught_at=8,
        draws=100,
        noise=True,
    ),
    Proof(
        statistic=Moments(columns=("x", "y")),
        mechanism="k_norm",
        shape={"means": {"x": 0.0, "y": 0.0}, "second": [[0.0, 0.0], [0.0, 0.0]]},
        shape_add_remove={
            "count": 0.0,
            "means": {"x": 0.0, "y": 0.0},
            "second": [[0.0, 0.0], [0.0, 0.0]],
        },
        common=[record(x=-1, y=-1)] * 3,
        changed=(record(x=1, y=1), record(x=-1, y=-1)),
        reading=lambda value: min(value["means"].values()),
        cuts=(-2.0, -1.0, -0.75, -0.5, 0.0),
        caught_at=10,
        draws=200,
        draws_replace_one=120,
        fewer={"linf": 100, "optimal": 80},
        noise=True,
    ),
    Proof(
        statistic=Covariance(columns=("x", "y")),
        mechanism="k_norm",
        shape={"matrix": [[0.0, 0.0], [0.0, 0.0]]},
        common=[record(x=-1, y=-1)] * 3,
        changed=(record(x=1, y=1), record(x=-1, y=-1)),
        reading=lambda value: value["matrix"][0][0],
        cuts=(0.0, 0.25, 0.5, 0.75),
        caught_at=12,
        noise=True,
        draws=200,
        fewer={"l2": 130, "linf": 100, "optimal": 80},
    ),
    Proof(
        statistic=Correlation(columns=("x", "y")),
        mechanism="k_norm",
        shape={"matrix": [[0.0, 0.0], [0.0, 0.0]]},
        common=[record(x=-1, y=-1), record(x=1, y=1)],
        changed=(record(x=1, y=-1), record(x=-1, y=-1)),
        reading=lambda value: value["matrix"][0][1],
        cuts=(-0.5, 0.0, 0.5),
        caught_at=40,
        draws=160,
        noise=True,
    ),
    Proof(
        statistic=Quantile(column="x", levels=(0.5,)),
        mechanism="kng",
        shape={"quantiles": [{"level": "0.5", "value": 0.0}]},
        common=[record(x=0.5)],
        changed=(record(x=-1), record(x=1)),
        reading=lambda value: value["quantiles"][0]["value"],
        cuts=(0.0, 0.5),
        caught_at=4,
        noise=False,
    ),
    Proof(
        statistic=Quantile(column="x", levels=(0.5,)),
        mechanism="exponential",
        shape={"quantiles": [{"level": "0.5", "value": 0.0}]},
        common=[record(x=0.5)],
        changed=(record(x=-1), record(x=1)),
        reading=lambda value: value["quantiles"][0]["value"],
        cuts=(0.0, 0.5),
        caught_at=4,
        noise=False,
    ),
    Proof(
        statistic=InterquartileRange(column="x"),
        mechanism="kng",
        shape={"x": 0.0},
        common=[record(x=x) for x in (*[-0.1] * 4, *[0.8] * 3, *[1] * 3)],
        changed=(record(x=-1), record(x=1)),
        reading=lambda value: value["x"],
        cuts=(0.25, 0.5, 0.75, 1.0, 1.25),
        caught_at=16,
        noise=False,
    ),
    Proof(
        statistic=InterquartileRange(column="x"),
        mechanism="exponential",
        shape={"x": 0.0},
        common=[record(x=x) for x in (*[-0.1] * 4, *[0.8] * 3, *[1] * 3)],
        changed=(record(x=-1), record(x=1)),
        reading=lambda value: value["x"],
        cuts=(0.25, 0.5, 0.75, 1.0, 1.25),
        caught_at=16,
        noise=False,
    ),
    Proof(
        statistic=LinearRegression(target="y", features=("x",), intercept=False, bound=1.0),
        mechanism="kng",
        shape={"coefficients": {"x": 0.0}},
        common=[record(x=1, y=0)],
        changed=(record(x=1, y=1), record(x=1, y=-1)),
        reading=lambda value: value["coefficients"]["x"],
        cuts=(-0.5, 0.0, 0.5),
        caught_at=6,
        draws=450,
        noise=False,
    ),
    Proof(
        statistic=LinearRegression(target="y", features=("x",), intercept=False, bound=1.0),
        mechanism="objective_perturbation",
        shape={"coefficients": {"x": 0.0}},
        common=[record(x=1, y=0)],
        changed=(record(x=1, y=1), record(x=1, y=-1)),
        reading=lambda value: value["coefficients"]["x"],
        cuts=(-0.5, 0.0, 0.5),
        caught_at=8,
        draws_replace_one=160,
        noise=False,
    ),
    Proof(
        statistic=LinearRegression(target="y", features=("x",), intercept=False, bound=1.0),
        mechanism="functional",
        shape={"coefficients": {"x": 0.0}},
        common=[record(x=1, y=0)],
        changed=(record(x=1, y=1), record(x=1, y=-1)),
        reading=lambda value: value["coefficients"]["x"],
        cuts=(0.0,),
        caught_at=20,
        draws=100,
        draws_replace_one=40,
        noise=True,
        norms=("linf", "l2", "l1"),
        refused=(("optimal", REPLACE), ("optimal", ADD)),
    ),
    Proof(
        statistic=LinearRegression(target="y", features=("x",), bound=1.0),
        mechanism="functional",
        shape={"coefficients": {"(intercept)": 0.0, "x": 0.0}},
        common=[record(x=1, y=0), record(x=-1, y=0)],
        changed=(record(x=1, y=1), record(x=1, y=-1)),
        reading=lambda value: sum(value["coefficients"].values()),
        cuts=(0.0,),
        caught_at=20,
        draws=100,
        draws_replace_one=40,
        noise=True,
        norms=("optimal",),
    ),
    Proof(
        statistic=LinearRegression(target="y", features=("x",), bound=1.0, weights="w"),
        mechanism="functional",
        columns=WEIGHED,
        shape={"coefficients": {"(intercept)": 0.0, "x": 0.0}},
        common=[weighed(4, x=1, y=0), weighed(4, x=-1, y=0)],
        changed=(weighed(4, x=1, y=1), weighed(4, x=1, y=-1)),
        reading=lambda value: sum(value["coefficients"].values()),
        cuts=(0.0,),
        caught_at=20,
        draws=100,
        draws_replace_one=40,
        noise=True,
    ),
    Proof(
        statistic=LinearRegression(target="y", features=("x",), intercept=False, bound=1.0),
        mechanism="exponential",
        shape={"coefficients": {"x": 0.0}},
        common=[record(x=1, y=0)],
        changed=(record(x=1, y=1), record(x=1, y=-1)),
        reading=lambda value: value["coefficients"]["x"],
        cuts=(-0.5, 0.0, 0.5),
        caught_at=20,
        draws=200,
        draws_replace_one=130,
        noise=False,
    ),
    Proof(
        statistic=LogisticRegression(target="yes", features=("x",), intercept=False, bound=1.0),
        mechanism="objective_perturbation",
        shape={"coefficients": {"x": 0.0}},
        common=[record(x=1, yes=1), record(x=1, yes=0)],
        changed=(record(x=1, yes=1), record(x=1, yes=0)),
        reading=lambda value: value["coefficients"]["x"],
        cuts=(-0.8, 0.0, 0.8),
        caught_at=8,
        draws=300,
        draws_replace_one=160,
        noise=False,
    ),
    Proof(
        statistic=GeometricMedian(columns=("x",)),
        mechanism="kng",
        shape={"x": 0.0},
        common=[record(x=0)],
        changed=(record(x=1), record(x=-1)),
        reading=lambda value: value["x"],
        cuts=(0.0,),
        caught_at=8,
        draws=200,
        noise=False,
    ),
    Proof(
        statistic=QuantileRegression(target="y", features=("x",), intercept=False, bound=1.0),
        mechanism="kng",
        shape={"coefficients": {"x": 0.0}},
        common=[record(x=1, y=0)],
        changed=(record(x=1, y=1), record(x=1, y=-1)),
        reading=lambda value: value["coefficients"]["x"],
        cuts=(0.0,),
        caught_at=6,
        draws=200,
        draws_replace_one=80,
        noise=False,
    ),
    Proof(
        statistic=QuantileRegression(target="y", features=("x",), intercept=False, bound=1.0),
        mechanism="exponential",
        shape={"coefficients": {"x": 0.0}},
        common=[record()],
        changed=(record(x=1, y=1), record(x=1, y=-1)),
        reading=lambda value: value["coefficients"]["x"],
        cuts=(0.0,),
        caught_at=20,
        draws=130,
        draws_replace_one=50,
        noise=False,
    ),
    Proof(
        statistic=QuantileRegression(target="y", features=("x",), intercept=False, tau=0.9),
        mechanism="objective_perturbation",
        shape={"coefficients": {"x": 0.0}},
        common=[record()],
        changed=(record(x=1, y=1), record(x=-1, y=1)),
        reading=lambda value: value["coefficients"]["x"],
        cuts=(0.0,),
        caught_at=8,
        draws=300,
        draws_replace_one=70,
        noise=False,
    ),
    Proof(
        statistic=Stack(
            parts=(
                Part(statistic=Count(where=ABOVE)),
                Part(statistic=Sum(columns=("x",), where=WITHIN), share=2.0, norm="l1"),
            )
        ),
        mechanism="composition",
        shape={"parts": [{"count": 0.0}, {"x": 0.0}]},
        common=[record(x=-1)] * 3,
        changed=(record(x=1), record(x=-1)),
        reading=lambda value: value["parts"][0]["count"] + value["parts"][1]["x"],
        cuts=(-5.0, -4.0, -3.0, -2.0, -1.0, 0.0),
        caught_at=6,
        draws=150,
        draws_replace_one=100,
        noise=True,
    ),
)


WEIGHED_FITS: tuple[Proof, ...] = tuple(
    replace(
        proof,
        statistic=replace(proof.statistic, weights="w"),  # type: ignore[call-arg, type-var]
        columns=WEIGHED,
        common=[{**each, "w": 4.0} for each in proof.common],
        changed=({**proof.changed[0], "w": 4.0}, {**proof.changed[1], "w": 4.0}),
        caught_at=proof.caught_at * 2,
        draws_replace_one=None,
        norms=proof.offered_norms[:1] if proof.offered_norms != ("auto",) else None,
        refused=(),
    )
    for proof in LISTED
    if isinstance(proof.statistic, LinearRegression | LogisticRegression | QuantileRegression)
    and proof.mechanism != "functional"
)
"""Each regression with weights, all the largest: no neighbours are further apart."""


DESIGNS: Mapping[str, Feature] = {
    "I(x * 1):here": Product(product=(Expression(expr="x * 1"), "here")),
    "kindhigh": Category(column="kind", reference="low"),
}
"""By the coefficient that stands for ``x``: a product with an expression, and a category."""


def on_designs(proof: Proof) -> Iterator[Proof]:
    """Yield a regression's proof on columns that are made of others, row by row.

    The product is ``x`` itself, so that the law is the same. The category is high where x is 1;
    without an intercept it has a coefficient for each value. One norm is tried, as the norms differ
    in the mechanism, which knows no design; and fewer draws, which catch twice the epsilon.
    """
    for name, feature in DESIGNS.items():
        category = isinstance(feature, Category)
        both = {"kindlow": 0.0} if category and "(intercept)" not in _coefficients(proof) else {}
        others = {each: 0.0 for each in _coefficients(proof) if each != "x"}
        yield replace(
            proof,
            statistic=replace(proof.statistic, features=(feature,)),  # type: ignore[type-var]
            shape={"coefficients": {**others, **both, name: 0.0}},
            common=[_of_kind(each) for each in proof.common],
            changed=(_of_kind(proof.changed[0]), _of_kind(proof.changed[1])),
            reading=partial(_read_as_x, proof.reading, name),
            caught_at=proof.caught_at * 2,
            draws=max(proof.draws * 2 // 3, 100),
            draws_replace_one=None,
            norms=proof.offered_norms[:1] if proof.offered_norms != ("auto",) else None,
            refused=(),
        )


def _coefficients(proof: Proof) -> Mapping[str, float]:
    found: Mapping[str, float] = proof.shape["coefficients"]
    return found


def _of_kind(each: Record) -> Record:
    return {**each, "kind": "high" if each["x"] == 1 else "low"}


def _read_as_x(reading: Callable[[Any], float], name: str, value: Any) -> float:
    found = {"x" if each == name else each: got for each, got in value["coefficients"].items()}
    return reading({"coefficients": {k: v for k, v in found.items() if k != "kindlow"}})


PROOFS: tuple[Proof, ...] = (
    *LISTED,
    *WEIGHED_FITS,
    *(
        made
        for proof in LISTED
        if isinstance(proof.statistic, LinearRegression | LogisticRegression | QuantileRegression)
        for made in on_designs(proof)
    ),
)
"""Those listed, and each regression's on every kind of design."""
