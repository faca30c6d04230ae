"""How often 95% confidence intervals hold the population's number, and how wide they are.

``python -m studies.coverage`` prints a table: the design, rows, epsilon, how the numbers were
released, the share of intervals that contain the truth, their mean width, how many of them are
uninformative, and the seconds that one release or derivation takes. Each data set is a new draw;
slopes are counted, not the intercept.

*Linear*: features uniform over a share of their bounds (``spread``), normal errors of standard
deviation 0.1, slopes of both signs, all in scaled units. By ``moments`` the regression is derived
from a release of them. *Logistic* is the design of Awan and Wang (arXiv 2303.05328): one feature
2 Beta(1/2, 1/2) - 1, log-odds 1/2 + 2 x. Their repro samples cover 0.994 at mean width 0.969 in
5,139 s, and DP-CI-ERM 0.824 at 0.770, at n = 1000 and epsilon 1. *Poisson*, *multinomial* and *Cox*
are models that hold; counts are also of a variance above their mean. *Correlations* are of two
columns of the housing file, whose rows are the population: data sets are drawn from them.

``--verdicts`` shows whether a preview expects uninformative intervals under add-remove, where it
knows a bound of the rows alone: the verdict of a preview whose requested accuracy any numbers have,
so that the intervals decide, and how many intervals of draws are open.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product
from typing import Literal, Protocol

import numpy as np
import polars as pl
from numpy.typing import NDArray

from app.demo import DEMO_DATA, HOUSING
from app.services.plans.missing import intervals_of, warned
from mechanisms.catalog import calibrate
from mechanisms.contract import Outcome, Plan, Statistic
from mechanisms.derivations import Released, derive
from mechanisms.domain import CategoryColumn, Column, NumberColumn, Schema, Typical
from mechanisms.estimates.verdicts import Usefulness
from mechanisms.privacy import Adjacency, Epsilon
from mechanisms.randomness import system_randomness
from mechanisms.sketches import ArrayData
from mechanisms.statistics.correlation import Correlation
from mechanisms.statistics.designs.cox_regression import CoxRegression
from mechanisms.statistics.designs.multinomial_regression import MultinomialRegression
from mechanisms.statistics.designs.poisson_regression import PoissonRegression
from mechanisms.statistics.linear_regression import LinearRegression
from mechanisms.statistics.logistic_regression import LogisticRegression
from mechanisms.statistics.moments import Moments
from mechanisms.statistics.quantile import Quantile

Values = NDArray[np.float64]

WANTED = (0.94, 0.975)
REPLACE, ADD = Adjacency.REPLACE_ONE, Adjacency.ADD_REMOVE
_ERROR, _INTERCEPT, _LENGTH = 0.1, 0.1, 0.4
_UNIT = NumberColumn(lower=Fraction(-1), upper=Fraction(1))
_FLAG = NumberColumn(lower=Fraction(0), upper=Fraction(1), boolean=True)
_SHARE = NumberColumn(lower=Fraction(0), upper=Fraction(1))
_MOST = 20
_COUNT = NumberColumn(lower=Fraction(0), upper=Fraction(_MOST), kind="integer")


class Design(Protocol):
    """A population, and the regression of it."""

    @property
    def name(self) -> str: ...

    @property
    def rows(self) -> int: ...

    @property
    def adjacency(self) -> Adjacency: ...

    @property
    def truths(self) -> Values:
        """Return the population's numbers: those of the last terms of an answer."""

    @property
    def statistic(self) -> Statistic: ...

    def schema(self) -> Schema:
        """Return the public facts."""

    def sample(self, rng: np.random.Generator) -> ArrayData:
        """Return a data set drawn from the population."""


def _schema(design: Design, names: Sequence[str], target: Column) -> Schema:
    known = design.rows if design.adjacency is REPLACE else None
    columns = {**dict.fromkeys(names, _UNIT), "y": target}
    return Schema(columns, design.adjacency, known, max_rows=10 * design.rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class Linear:
    """A linear regression on uniform features."""

    rows: int
    features: int
    spread: float = 1.0
    adjacency: Adjacency = REPLACE
    loss: Literal["auto", "squared", "huber"] = "squared"
    heavy: bool = False
    """Whether residuals have the law of Student's t of 3 degrees of freedom."""

    @property
    def name(self) -> str:
        """Return the design in a few words."""
        more = (", Huber" if self.loss == "huber" else "") + (", heavy" if self.heavy else "")
        return f"linear, {self.features} slopes, spread {self.spread:g}{more}"

    @property
    def truths(self) -> Values:
        """Return the population's slopes."""
        signs = np.where(np.arange(self.features) % 2 == 0, 1.0, -1.0)
        return np.asarray(_LENGTH * signs / np.sqrt(self.features))

    @property
    def statistic(self) -> LinearRegression:
        """Return the question."""
        names = tuple(f"x{place}" for place in range(self.features))
        return LinearRegression(target="y", features=names, loss=self.loss)

    def schema(self) -> Schema:
        """Return the public facts."""
        return _schema(self, self.statistic.names, _UNIT)

    def sample(self, rng: np.random.Generator) -> ArrayData:
        """Return a data set drawn from the population."""
        features = rng.uniform(-self.spread, self.spread, (self.rows, self.features))
        residuals = rng.normal(0, _ERROR, self.rows)
        if self.heavy:
            residuals = _ERROR * rng.standard_t(3, self.rows) / np.sqrt(3)
        target = _INTERCEPT + features @ self.truths + residuals
        names = (*self.statistic.names, "y")
        table = dict(zip(names, (*features.T, target), strict=True))
        return ArrayData.from_values(self.schema(), table)


@dataclass(frozen=True, slots=True, kw_only=True)
class Logistic:
    """The logistic regression of Awan and Wang."""

    rows: int
    adjacency: Adjacency = REPLACE

    @property
    def name(self) -> str:
        """Return the design in a few words."""
        return "logistic, Awan and Wang"

    @property
    def truths(self) -> Values:
        """Return the population's slope."""
        return np.array([2.0])

    @property
    def statistic(self) -> LogisticRegression:
        """Return the question."""
        return LogisticRegression(target="y", features=("x",))

    def schema(self) -> Schema:
        """Return the public facts."""
        return _schema(self, ("x",), _FLAG)

    def sample(self, rng: np.random.Generator) -> ArrayData:
        """Return a data set drawn from the population."""
        x = 2 * rng.beta(0.5, 0.5, self.rows) - 1
        odds = np.exp(0.5 + 2 * x)
        y = (rng.uniform(size=self.rows) < odds / (1 + odds)).astype(np.float64)
        return ArrayData.from_values(self.schema(), {"x": list(x), "y": list(y)})


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """A Poisson regression with an offset; ``varied`` counts vary up to three times their mean."""

    rows: int
    adjacency: Adjacency = ADD
    varied: bool = False

    @property
    def name(self) -> str:
        """Return the design in a few words."""
        return "Poisson, offset" + (", varied" if self.varied else "")

    @property
    def truths(self) -> Values:
        """Return the population's slopes."""
        return np.array([0.5, -0.4])

    @property
    def statistic(self) -> PoissonRegression:
        """Return the question."""
        return PoissonRegression(target="y", features=("x0", "x1"), offset="offset")

    def schema(self) -> Schema:
        """Return the public facts."""
        found = _schema(self, ("x0", "x1"), _COUNT)
        return replace(found, columns={**found.columns, "offset": _SHARE})

    def sample(self, rng: np.random.Generator) -> ArrayData:
        """Return a data set drawn from the population."""
        features, offset = rng.uniform(-1, 1, (self.rows, 2)), rng.uniform(0, 1, self.rows)
        mean = np.exp(0.7 + features @ self.truths + offset)
        if self.varied:
            mean = mean * rng.gamma(3, 1 / 3, self.rows)
        y = rng.poisson(mean).clip(0, _MOST)
        columns = {"x0": features[:, 0], "x1": features[:, 1], "offset": offset, "y": y}
        table = {name: list(each) for name, each in columns.items()}
        return ArrayData.from_values(self.schema(), table)


@dataclass(frozen=True, slots=True, kw_only=True)
class Levels:
    """A multinomial regression of three levels on one feature."""

    rows: int
    adjacency: Adjacency = ADD

    @property
    def name(self) -> str:
        """Return the design in a few words."""
        return "multinomial, three levels"

    @property
    def truths(self) -> Values:
        """Return the population's coefficients."""
        return np.array([0.3, 1.0, -0.2, -0.8])

    @property
    def statistic(self) -> MultinomialRegression:
        """Return the question."""
        return MultinomialRegression(target="y", features=("x",))

    def schema(self) -> Schema:
        """Return the public facts."""
        return _schema(self, ("x",), CategoryColumn(("a", "b", "c")))

    def sample(self, rng: np.random.Generator) -> ArrayData:
        """Return a data set drawn from the population."""
        x = rng.uniform(-1, 1, self.rows)
        one, slope, other, fall = self.truths
        odds = np.exp(np.stack([0 * x, one + slope * x, other + fall * x]))
        below = np.cumsum(odds / odds.sum(axis=0), axis=0)
        place = (rng.uniform(size=self.rows) > below[:2]).sum(axis=0)
        y = np.array(["a", "b", "c"])[place]
        return ArrayData.from_values(self.schema(), {"x": list(x), "y": list(y)})


@dataclass(frozen=True, slots=True, kw_only=True)
class Events:
    """A Cox regression on one feature; half of the records are censored."""

    rows: int
    adjacency: Adjacency = ADD

    @property
    def name(self) -> str:
        """Return the design in a few words."""
        return "Cox, one slope"

    @property
    def truths(self) -> Values:
        """Return the population's slope."""
        return np.array([0.8])

    @property
    def statistic(self) -> CoxRegression:
        """Return the question."""
        return CoxRegression(time="y", event="died", edges={"y": (0, 1, 2, 4)}, features=("x",))

    def schema(self) -> Schema:
        """Return the public facts."""
        found = _schema(self, ("x",), NumberColumn(lower=Fraction(0), upper=Fraction(4)))
        return replace(found, columns={**found.columns, "died": _FLAG})

    def sample(self, rng: np.random.Generator) -> ArrayData:
        """Return a data set drawn from the population."""
        x, ends = rng.uniform(-1, 1, self.rows), rng.uniform(0.5, 4, self.rows)
        happens = rng.exponential(1 / (0.4 * np.exp(x * self.truths[0])))
        columns = {"x": x, "y": np.minimum(happens, ends), "died": 1.0 * (happens <= ends)}
        table = {name: list(each) for name, each in columns.items()}
        return ArrayData.from_values(self.schema(), table)


@dataclass(frozen=True, slots=True, kw_only=True)
class Median:
    """The median of a normal column whose standard deviation is a fifth of its half-width."""

    rows: int
    adjacency: Adjacency = REPLACE

    @property
    def name(self) -> str:
        """Return the design in a few words."""
        return "median of normal rows"

    @property
    def truths(self) -> Values:
        """Return the population's median."""
        return np.array([-0.2])

    @property
    def statistic(self) -> Quantile:
        """Return the question."""
        return Quantile(column="y", levels=(0.5,))

    def schema(self) -> Schema:
        """Return the public facts."""
        return _schema(self, (), _UNIT)

    def sample(self, rng: np.random.Generator) -> ArrayData:
        """Return a data set drawn from the population."""
        return ArrayData.from_values(self.schema(), {"y": list(rng.normal(-0.2, 0.2, self.rows))})


@dataclass(frozen=True, slots=True, kw_only=True)
class Housing:
    """The correlation of two columns in rows drawn from the housing file."""

    rows: int
    columns: tuple[str, str]
    adjacency: Adjacency = REPLACE

    @property
    def name(self) -> str:
        """Return the design in a few words."""
        return "correlation, " + " ".join(name[:9] for name in self.columns)

    @property
    def truths(self) -> Values:
        """Return the correlation in the file."""
        one, two = self._file().T
        return np.array([np.corrcoef(one, two)[0, 1]], dtype=np.float64)

    @property
    def statistic(self) -> Correlation:
        """Return the question."""
        return Correlation(columns=self.columns)

    def schema(self) -> Schema:
        """Return the public facts."""
        columns = dict.fromkeys(self.columns, _UNIT)
        for name in self.columns:
            low, high = (Fraction(str(HOUSING["columns"][name][end])) for end in ("lower", "upper"))
            columns[name] = NumberColumn(lower=low, upper=high)
        return Schema(columns, self.adjacency, self.rows, max_rows=10 * self.rows)

    def sample(self, rng: np.random.Generator) -> ArrayData:
        """Return a data set drawn from the population."""
        rows = rng.choice(self._file(), self.rows)
        return ArrayData.from_values(self.schema(), dict(zip(self.columns, rows.T, strict=True)))

    def _file(self) -> Values:
        frame = pl.read_csv(DEMO_DATA / "california_housing.csv").fill_null(0)
        return frame.select(self.columns).to_numpy().astype(np.float64)


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """A design, and how its numbers are released: without a share from ``moments``."""

    design: Design
    epsilon: str
    mechanism: str = "moments"
    share: Fraction | None = None

    @property
    def released_by(self) -> str:
        """Return the mechanism, and the share of epsilon for the intervals."""
        return self.mechanism if self.share is None else f"{self.mechanism}, {self.share}"


_THIRD = Fraction(1, 3)
SETTINGS = (
    *(
        Setting(design=Logistic(rows=rows), epsilon="1", mechanism=mechanism, share=share)
        for rows, mechanism, share in (
            (1_000, "objective_perturbation", Fraction(1, 5)),
            (1_000, "objective_perturbation", _THIRD),
            (10_000, "objective_perturbation", _THIRD),
        )
    ),
    *(
        Setting(design=Linear(rows=rows, features=features), epsilon=epsilon)
        for rows in (1_000, 10_000, 100_000)
        for features in (1, 3)
        for epsilon in ("1", "0.25")
    ),
    Setting(design=Linear(rows=10_000, features=10), epsilon="1"),
    Setting(design=Linear(rows=10_000, features=3, spread=0.25), epsilon="1"),
    Setting(design=Linear(rows=1_000, features=3, adjacency=ADD), epsilon="1"),
    *(
        Setting(
            design=Linear(rows=10_000, features=3), epsilon="1", mechanism=mechanism, share=_THIRD
        )
        for mechanism in ("kng", "objective_perturbation", "functional", "exponential")
    ),
    *(
        Setting(
            design=Linear(rows=rows, features=features, loss="huber", heavy=heavy),
            epsilon="1",
            mechanism="objective_perturbation",
            share=_THIRD,
        )
        for rows, features in ((2_000, 1), (10_000, 3))
        for heavy in (False, True)
    ),
    *(
        Setting(design=design, epsilon=epsilon, mechanism="objective_perturbation", share=_THIRD)
        for design, epsilon in (
            (Counts(rows=5_000), "1"),
            (Counts(rows=5_000, varied=True), "1"),
            (Levels(rows=5_000), "2"),
            (Events(rows=5_000), "4"),
        )
    ),
    *(
        Setting(
            design=Median(rows=rows, adjacency=adjacency),
            epsilon="1",
            mechanism="kng",
            share=Fraction(1, 2),
        )
        for adjacency in (REPLACE, ADD)
        for rows in (1_000, 10_000)
    ),
    *(
        Setting(design=Housing(rows=10_000, columns=columns), epsilon=epsilon)
        for columns in (
            ("population", "households"),
            ("median_income", "median_house_value"),
            ("total_rooms", "housing_median_age"),
        )
        for epsilon in ("1", "20")
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """The result of one setting."""

    setting: Setting
    coverage: float
    width: float
    open_share: float
    seconds: float


def study(*, replicates: int, seed: int = 1) -> Iterator[Row]:
    """Yield a row per setting."""
    for place, setting in enumerate(SETTINGS):
        yield measured(setting, replicates=replicates, seed=seed + place)


def measured(setting: Setting, *, replicates: int, seed: int) -> Row:
    """Return the coverage of the intervals of one setting."""
    design, rng = setting.design, np.random.default_rng(seed)
    infer = _from_moments(setting) if setting.share is None else _beside(setting)
    ends, nothing, seconds = [], [], []
    for _ in range(replicates):
        outcome, took_s = infer(design.sample(rng))
        if outcome.inference is None:
            raise ValueError("a setting has standard errors")
        terms = outcome.inference.terms[-len(design.truths) :]
        ends.append([term.confidence_95 for term in terms])
        nothing.append([term.open for term in terms])
        seconds.append(took_s)
    low, high = np.moveaxis(np.array(ends), -1, 0)
    return Row(
        setting=setting,
        coverage=float(((low <= design.truths) & (design.truths <= high)).mean()),
        width=float((high - low).mean()),
        open_share=float(np.mean(nothing)),
        seconds=float(np.mean(seconds)),
    )


Infer = Callable[[ArrayData], tuple[Outcome, float]]


def _from_moments(setting: Setting) -> Infer:
    """Return a function that derives the regression from released moments; it is timed."""
    design, epsilon = setting.design, Epsilon.parse(setting.epsilon)
    wanted, schema = design.statistic, design.schema()
    asked = Moments(columns=tuple(schema.columns))
    plan = calibrate(asked, schema, epsilon)

    def infer(data: ArrayData) -> tuple[Outcome, float]:
        outcome = plan.draw(data, system_randomness())
        released = Released(
            statistic=asked,
            mechanism=plan.mechanism,
            norm=plan.norm,
            epsilon=epsilon,
            value=outcome.value,
            noise=outcome.noise,
            details=plan.details,
        )
        begin_s = time.perf_counter()
        return derive(wanted, released, schema), time.perf_counter() - begin_s

    return infer


def _beside(setting: Setting) -> Infer:
    """Return a function that releases the regression with its standard errors; it is timed."""
    plan: Plan = calibrate(
        setting.design.statistic,
        setting.design.schema(),
        Epsilon.parse(setting.epsilon),
        mechanism=setting.mechanism,
        inference=setting.share,
    )

    def infer(data: ArrayData) -> tuple[Outcome, float]:
        begin_s = time.perf_counter()
        return plan.draw(data, system_randomness()), time.perf_counter() - begin_s

    return infer


# Whether a preview expects intervals that say nothing

JUDGED: tuple[Design, ...] = (
    Linear(rows=2_000, features=3, adjacency=ADD, loss="huber"),
    Logistic(rows=2_000, adjacency=ADD),
    Counts(rows=2_000),
    Levels(rows=2_000),
    Events(rows=2_000),
    Median(rows=2_000, adjacency=ADD),
)
EPSILONS = ("0.03", "0.1", "0.3", "1", "3", "10")
PARTS = (Fraction(1, 4), Fraction(1, 2), Fraction(1))
"""Which part of the public bound on rows there are."""
_FOURTH = Fraction(1, 4)


@dataclass(frozen=True, slots=True, kw_only=True)
class Previewed:
    """A preview's verdict at each of :data:`PARTS`, and the share of intervals that are open."""

    design: Design
    epsilon: str
    stated: bool
    verdicts: tuple[str, ...]
    open_share: float


def previewed(*, draws: int, seed: int = 1) -> Iterator[Previewed]:
    """Yield a row per design and epsilon, with and without what is typical of the columns."""
    for design, epsilon, stated in product(JUDGED, EPSILONS, (True, False)):
        rng = np.random.default_rng(seed)
        facts = _facts(design, design.sample(rng), stated=stated)
        verdicts = tuple(
            _verdict(design.statistic, replace(facts, max_rows=int(design.rows / part)), epsilon)
            for part in PARTS
        )
        plan = _judged_plan(design.statistic, facts, epsilon)
        found = (plan.draw(design.sample(rng), system_randomness()) for _ in range(draws))
        terms = [term.open for each in found if each.inference for term in each.inference.terms]
        yield Previewed(
            design=design, epsilon=epsilon, stated=stated, verdicts=verdicts,
            open_share=float(np.mean(terms)),
        )  # fmt: skip


def _facts(design: Design, data: ArrayData, *, stated: bool) -> Schema:
    """Return the public facts of a design, with its columns' typical values if they are stated."""
    facts = design.schema()
    columns = {
        name: replace(column, typical=_typical(data.values_of(name)))
        for name, column in facts.columns.items()
        if stated and isinstance(column, NumberColumn) and not column.boolean
    }
    return replace(facts, columns={**facts.columns, **columns})


def _typical(values: Values) -> Typical:
    mean, std = (Fraction(round(100 * float(each)), 100) for each in (values.mean(), values.std()))
    return Typical(mean, std)


def _judged_plan(statistic: Statistic, facts: Schema, epsilon: str) -> Plan:
    by = next(name for name in ("objective_perturbation", "kng") if name in statistic.mechanisms)
    return calibrate(statistic, facts, Epsilon.parse(epsilon), mechanism=by, inference=_FOURTH)


def _verdict(statistic: Statistic, facts: Schema, epsilon: str) -> str:
    """Return what a preview says of the intervals, if all numbers are accurate enough."""
    details = _judged_plan(statistic, facts, epsilon).details
    if any("enough_epsilon" in each for _, each in intervals_of(details)):
        return "refused"
    return warned(Usefulness("good", "Good."), details).verdict


def _print_previewed(draws: int) -> None:
    for row in previewed(draws=draws):
        stated = "typical stated" if row.stated else "nothing stated"
        sys.stdout.write(
            f"{row.design.name:<30} {row.epsilon:>5} {stated:<15}"
            f" {'  '.join(f'{each:<8}' for each in row.verdicts)} {row.open_share:.3f}\n"
        )
        sys.stdout.flush()


def main() -> None:
    """Print one of the two tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--replicates", type=int, default=400, help="data sets per setting")
    parser.add_argument("--verdicts", action="store_true", help="of previews on intervals")
    asked = parser.parse_args()
    if asked.verdicts:
        _print_previewed(asked.replicates)
        return
    sys.stdout.write(
        f"{asked.replicates} data sets a row; coverage is wanted between {WANTED[0]} and "
        f"{WANTED[1]}\n{'design':<30}{'n':>7}{'epsilon':>9}  {'adjacency':<12}"
        f"{'mechanism':<28}{'coverage':>9}{'width':>9}{'open':>7}{'seconds':>9}\n"
    )
    for row in study(replicates=asked.replicates):
        setting, design = row.setting, row.setting.design
        sys.stdout.write(
            f"{design.name:<30}{design.rows:>7}{setting.epsilon:>9}  {design.adjacency:<12}"
            f"{setting.released_by:<28}{row.coverage:>9.3f}{row.width:>9.4f}"
            f"{row.open_share:>7.3f}{row.seconds:>9.3f}\n"
        )
        sys.stdout.flush()


if __name__ == "__main__":
    main()
