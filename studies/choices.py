"""Whether ``auto`` takes what errs least, for linear regressions of other data.

``python -m studies.choices`` prints the mean Euclidean distance of scaled coefficients to least
squares by each candidate (mechanisms, and objective perturbation by squared loss or by thresholds
of Huber's), the choice of ``auto``, and the ratio of its error to the least one. Each draw has a
data set of its own, which the candidates share; of real data, an even sample.

Features are uniform on a part of their bounds (``spread``), off centre where that is not all of
them, and correlate by ``rho``; ``flags`` of them are 1 in one record of 20 and else 0. Residuals
have a law and a deviation. The ratio's standard error is that of a ratio of paired means.

*Regret.* Settings with the same rows, coefficients, bound, epsilon and adjacency have the same
public facts, so a choice from public facts takes the same candidate in all of them. Its regret is
the largest ratio of its error to the least one, over those settings, and the least regret of any
candidate is what no rule can be better than. ``--groups`` draws such settings and writes their mean
errors to a file, and ``--regret`` makes the table of docs/research/choices.md from it.
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from itertools import chain, product
from pathlib import Path
from typing import cast, get_args

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from app.tidy.pivots import csv_text
from mechanisms.catalog import calibrate
from mechanisms.contract import Plan, Statistic
from mechanisms.domain import CategoryColumn, Column, NumberColumn, Schema, Typical
from mechanisms.perturbation.thresholds import Law, residuals
from mechanisms.privacy import Adjacency, Epsilon
from mechanisms.randomness import Randomness, system_randomness
from mechanisms.single import IN_ZCDP
from mechanisms.sketches import ArrayData
from mechanisms.statistics.designs.cox_regression import CoxRegression
from mechanisms.statistics.designs.multinomial_regression import MultinomialRegression
from mechanisms.statistics.designs.poisson_regression import PoissonRegression
from mechanisms.statistics.linear_regression import LinearRegression
from mechanisms.statistics.quantile_regression import QuantileRegression
from mechanisms.testing import seeded_randomness

Values = NDArray[np.float64]

MECHANISMS = ("kng", "functional")
LOSSES: tuple[float | None, ...] = (None, 1, 1 / 2, 1 / 4, 1 / 8, 1 / 16, 1 / 32)
"""Squared loss, and thresholds of Huber's in scaled units."""
CANDIDATES = (*MECHANISMS, *("squared" if each is None else f"{each:g}" for each in LOSSES))
_UNIT = NumberColumn(lower=Fraction(-1), upper=Fraction(1))
_FLAG = NumberColumn(lower=Fraction(0), upper=Fraction(1), boolean=True)
_PERTURBED = "objective_perturbation"
_SHARE = 0.05
_OFF_CENTRE = 0.3


@dataclass(frozen=True, slots=True)
class Setting:
    """A population, and the question about a sample of it."""

    rows: int
    coefficients: int
    bound: float = 10.0
    epsilon: str = "1"
    spread: float = 1.0
    rho: float = 0.0
    flags: int = 0
    length: float = 0.5
    """The l1 norm of the slopes, in scaled units."""
    law: Law = "normal"
    error: float = 0.1
    """The deviation of residuals, in scaled units."""
    adjacency: Adjacency = Adjacency.REPLACE_ONE
    stated: bool = False
    """Whether what is typical of each column is public: its mean and deviation."""

    @property
    def names(self) -> tuple[str, ...]:
        """Return the features' names."""
        return tuple(f"x{number}" for number in range(1, self.coefficients))

    @property
    def statistic(self) -> LinearRegression:
        """Return the question."""
        return LinearRegression(target="y", features=self.names, bound=self.bound)

    def plans(self) -> dict[str, Plan]:
        """Return the plan of each candidate, and that of ``auto``."""
        schema, epsilon, asked = self.schema(), Epsilon.parse(self.epsilon), self.statistic
        found = {
            name: calibrate(asked, schema, epsilon, mechanism=name)
            for name in (*MECHANISMS, "auto")
        }
        for name, threshold in zip(CANDIDATES[len(MECHANISMS) :], LOSSES, strict=True):
            fit = replace(asked, loss="squared")
            if threshold is not None:
                fit = replace(asked, loss="huber", threshold=threshold)
            found[name] = calibrate(fit, schema, epsilon, mechanism=_PERTURBED)
        return found

    def schema(self) -> Schema:
        """Return the public facts."""
        flagged = self.names[: self.flags]
        number = replace(_UNIT, typical=self._typical) if self.stated else _UNIT
        columns = {name: _FLAG if name in flagged else number for name in self.names}
        columns["y"] = replace(_UNIT, typical=self._typical_target) if self.stated else _UNIT
        known = self.rows if self.adjacency is Adjacency.REPLACE_ONE else None
        return Schema(columns, self.adjacency, known, max_rows=10 * self.rows)

    @property
    def _typical(self) -> Typical:
        centre = _OFF_CENTRE if self.spread < 1 else 0
        return Typical(_hundredths(centre), _hundredths(self.spread / np.sqrt(3)))

    @property
    def _typical_target(self) -> Typical:
        """Return what it is where all slopes are equal."""
        slope = self.length / len(self.names)
        variance = len(self.names) * (slope * self.spread) ** 2 / 3 + self.error**2
        return Typical(Fraction(0), _hundredths(np.sqrt(variance)))

    def sample(self, rng: np.random.Generator) -> tuple[ArrayData, Values]:
        """Return a data set and its scaled least squares, the constant first."""
        shape = (self.rows, len(self.names))
        common = rng.standard_normal((self.rows, 1))
        mixed = np.sqrt(self.rho) * common + np.sqrt(1 - self.rho) * rng.standard_normal(shape)
        features = self.spread * (2 * ndtr(mixed) - 1) + (_OFF_CENTRE if self.spread < 1 else 0)
        features[:, : self.flags] = np.where(rng.uniform(size=shape) < _SHARE, 1, -1)[
            :, : self.flags
        ]
        slopes = rng.standard_normal(len(self.names))
        slopes *= self.length / np.abs(slopes).sum()
        centred = (features - features.mean(axis=0)) @ slopes
        target = np.clip(centred + self.error * rng.choice(residuals(self.law), self.rows), -1, 1)
        values = dict(zip(self.names, features.T, strict=True))
        for name in self.names[: self.flags]:
            values[name] = (values[name] + 1) / 2
        data = ArrayData.from_values(self.schema(), {**values, "y": target})
        design = np.column_stack([np.ones(self.rows), features])
        return data, np.linalg.lstsq(design, target, rcond=None)[0]

    def scaled(self, coefficients: dict[str, float]) -> Values:
        """Return an answer's coefficients in scaled units."""
        slopes = np.array([coefficients[name] for name in self.names])
        constant = coefficients["(intercept)"] + slopes[: self.flags].sum() / 2
        slopes[: self.flags] /= 2
        return np.array([constant, *slopes])


def _hundredths(number: float) -> Fraction:
    """Return a number as a curator would state it: to two decimals."""
    return Fraction(round(100 * number), 100)


ADD = Adjacency.ADD_REMOVE
FOUND_ON = (
    Setting(235, 2),
    Setting(1_000, 4),
    Setting(1_000, 6),
    Setting(10_000, 4, spread=0.25),
    Setting(10_000, 6, spread=0.25),
    Setting(10_000, 8, 2.0),
    Setting(10_000, 12),
    Setting(60, 2, epsilon="2", length=0.8),
    Setting(300, 3, 2.0, spread=0.4),
    Setting(500, 3, epsilon="0.5", rho=0.5),
    Setting(1_500, 7, epsilon="3"),
    Setting(2_000, 4, 3.0, rho=0.8),
    Setting(2_000, 3, length=0.2, adjacency=ADD),
    Setting(3_000, 5, flags=2),
    Setting(4_000, 8, epsilon="2", flags=7),
    Setting(5_000, 6, epsilon="2", spread=0.5, rho=0.3),
    Setting(8_000, 14, spread=0.6),
    Setting(20_000, 5, epsilon="0.1", length=0.9),
    Setting(20_000, 9, epsilon="0.3", flags=4, adjacency=ADD),
    Setting(50_000, 10, 5.0, epsilon="0.5", rho=0.5),
    Setting(100_000, 5, epsilon="0.1", spread=0.25),
)
FRESH = (
    Setting(120, 2, 4.0, "0.5", spread=0.6),
    Setting(400, 4, 5.0, "2", flags=1),
    Setting(800, 5, rho=0.3, length=0.9),
    Setting(1_200, 3, 2.0, "0.2", spread=0.5),
    Setting(2_500, 6, rho=0.4, flags=3),
    Setting(3_500, 9, epsilon="2"),
    Setting(6_000, 7, 3.0, "0.5", spread=0.7, rho=0.6),
    Setting(12_000, 11, flags=10),
    Setting(15_000, 3, epsilon="0.1", spread=0.3, adjacency=ADD),
    Setting(30_000, 8, spread=0.35),
    Setting(40_000, 13, 5.0, "0.5", rho=0.2, length=0.8),
    Setting(70_000, 6, epsilon="0.2", adjacency=ADD),
)
LAWS: tuple[Setting, ...] = tuple(
    Setting(rows, coefficients, spread=spread, law=law, error=error)
    for rows, coefficients, spread in ((1_000, 4, 1.0), (10_000, 6, 0.25), (50_000, 3, 1.0))
    for law, error in product(get_args(Law), (0.05, 0.2))
)
"""Residuals of other laws and deviations."""
HIGH: tuple[Setting, ...] = (
    *(
        Setting(rows, coefficients, bound, "4", law=law, error=error)
        for rows, coefficients, bound in ((1_000, 2, 1.0), (10_000, 4, 1.0), (10_000, 12, 10.0))
        for law, error in (("normal", 0.1), *product(get_args(Law), (0.05, 0.2)))
    ),
    Setting(235, 2, 5.0, "4"),
    Setting(100_000, 4, epsilon="4"),
    Setting(3_000, 6, epsilon="8", spread=0.5),
    Setting(2_000, 3, 2.0, "4", spread=0.4, flags=1),
)
"""Larger epsilon, where less noise leaves more of the bias of Huber's loss."""
FILLED: tuple[Setting, ...] = tuple(
    Setting(10_000, 6, law=law, error=error) for law, error in product(get_args(Law), (0.05, 0.2))
)
"""As the second group of :data:`LAWS`, whose public facts do not say how far features spread."""


@dataclass(frozen=True, slots=True)
class Row:
    """Mean errors of each mechanism, the choice of ``auto``, and its ratio to the least error."""

    setting: Setting
    errors: dict[str, float]
    taken: str
    ratio: float
    ratio_se: float


def study(
    settings: tuple[Setting, ...],
    draws: int,
    seed: int = 18,
    randomness: Randomness | None = None,
) -> Iterator[Row]:
    """Yield a row for each setting."""
    bits = randomness or system_randomness()
    for setting in settings:
        plans = setting.plans()
        chosen = plans.pop("auto")
        taken = chosen.mechanism
        if taken == _PERTURBED:
            taken = f"{chosen.details.get('threshold', 'squared'):g}"
        found = _errors(setting, plans, draws, np.random.default_rng(seed), bits)
        means = {name: float(each.mean()) for name, each in found.items()}
        own, least = found[taken], found[min(means, key=means.__getitem__)]
        ratio = float(own.mean() / least.mean())
        spread = float(np.std(own - ratio * least)) / float(least.mean()) / np.sqrt(draws)
        yield Row(setting, means, taken, ratio, spread)


def _errors(
    setting: Setting,
    plans: dict[str, Plan],
    draws: int,
    rng: np.random.Generator,
    bits: Randomness,
) -> dict[str, Values]:
    found: dict[str, list[float]] = {name: [] for name in plans}
    for _ in range(draws):
        data, truth = setting.sample(rng)
        for name, plan in plans.items():
            value = plan.draw(data, bits).value["coefficients"]
            assert isinstance(value, dict)
            found[name].append(float(np.linalg.norm(setting.scaled(value) - truth)))
    return {name: np.array(each) for name, each in found.items()}


# The least regret of settings with the same public facts

STORED = Path(__file__).parents[1] / "docs" / "research" / "studies" / "choices.csv"
_UNSEEN = ("spread", "law", "error", "rho", "length")
"""What of a setting is not public, and differs within a group."""


def groups(settings: Iterable[Setting]) -> list[list[Setting]]:
    """Return the settings that share their public facts with others, by those facts."""
    found: dict[Setting, list[Setting]] = {}
    for each in settings:
        found.setdefault(_public(each), []).append(each)
    return [own for own in found.values() if len(own) > 1]


def _public(setting: Setting) -> Setting:
    """Return a setting with what is not public as the class has it."""
    usual = Setting(setting.rows, setting.coefficients)
    return replace(setting, **{name: getattr(usual, name) for name in _UNSEEN})


@dataclass(frozen=True, slots=True)
class Regret:
    """Largest ratios to the least error over the settings of a group: each candidate's, auto's."""

    settings: tuple[Setting, ...]
    by_candidate: dict[str, float]
    taken: str

    @property
    def least(self) -> str:
        """Return the candidate with the least regret: no rule from public facts has less."""
        return min(self.by_candidate, key=self.by_candidate.__getitem__)


def regrets(rows: Iterable[Row]) -> list[Regret]:
    """Return the regret of each candidate in each group.

    Raises
    ------
    ValueError
        ``auto`` took different candidates in settings of a group.
    """
    by_setting = {row.setting: row for row in rows}
    found = []
    for group in groups(by_setting):
        own = [by_setting[setting] for setting in group]
        (taken,) = {row.taken for row in own}
        ratios = {
            name: max(row.errors[name] / min(row.errors.values()) for row in own)
            for name in CANDIDATES
        }
        found.append(Regret(tuple(group), ratios, taken))
    return found


def stored(path: Path = STORED) -> list[Row]:
    """Return the rows of a file that ``--groups`` wrote."""
    with path.open(newline="", encoding="utf-8") as file:
        return [_read(cells) for cells in csv.DictReader(file)]


def _read(cells: dict[str, str]) -> Row:
    setting = Setting(
        int(cells["rows"]), int(cells["coefficients"]), float(cells["bound"]), cells["epsilon"],
        float(cells["spread"]), float(cells["rho"]), int(cells["flags"]), float(cells["length"]),
        cast(Law, cells["law"]), float(cells["error"]), Adjacency(cells["adjacency"]),
    )  # fmt: skip
    errors = {name: float(cells[name]) for name in CANDIDATES}
    return Row(setting, errors, cells["taken"], float(cells["ratio"]), float(cells["ratio_se"]))


def _write(rows: Iterable[Row], path: Path) -> None:
    facts = [each.name for each in fields(Setting) if each.name not in ("adjacency", "stated")]
    names = (*facts, "adjacency", "taken", "ratio", "ratio_se", *CANDIDATES)
    lines: list[list[str]] = []
    for row in rows:
        own = [str(getattr(row.setting, name)) for name in facts]
        ends = [row.setting.adjacency.value, row.taken, f"{row.ratio:.4g}", f"{row.ratio_se:.2g}"]
        lines.append([*own, *ends, *(f"{row.errors[name]:.5g}" for name in CANDIDATES)])
        path.write_text(csv_text(names, lines, line_end="\n"), "utf-8")


def regret_lines(rows: Iterable[Row]) -> Iterator[str]:
    """Yield the table of docs/research/choices.md."""
    yield f"| rows, coefficients, bound, epsilon | settings | {' | '.join(CANDIDATES)} | `auto` |"
    yield "| --- " * (3 + len(CANDIDATES)) + "|"
    for each in regrets(rows):
        one = each.settings[0]
        more = "" if one.adjacency is Adjacency.REPLACE_ONE else f", `{one.adjacency.value}`"
        facts = f"{one.rows:,}, {one.coefficients}, {one.bound:g}, {one.epsilon}{more}"
        cells = [
            f"**{regret:.2f}**" if name == each.least else f"{regret:.2f}"
            for name, regret in each.by_candidate.items()
        ]
        auto = f"{each.by_candidate[each.taken]:.2f} ({each.taken})"
        yield f"| {facts} | {len(each.settings)} | {' | '.join(cells)} | {auto} |"


def least_median(rows: Iterable[Row]) -> tuple[float, float]:
    """Return the least median ratio of any rule that reads public facts alone, and its largest.

    A rule takes one candidate in each group; all of them are tried.
    """
    by_setting = {row.setting: row for row in rows}
    ratios = [
        np.array(
            [[own.errors[name] for name in CANDIDATES] for own in map(by_setting.get, group) if own]
        )
        for group in groups(by_setting)
    ]
    ratios = [each / each.min(axis=1, keepdims=True) for each in ratios]
    rules = product(range(len(CANDIDATES)), repeat=len(ratios))
    found = (
        np.concatenate([each[:, place] for each, place in zip(ratios, rule, strict=True)])
        for rule in rules
    )
    return min((float(np.median(each)), float(each.max())) for each in found)


# Other regressions: mechanisms, norms and shares of the tilt

_EXACTLY = Epsilon.parse("10000")
_WAYS = ("a", "b", "c")
_QS = (0.5, 0.6, 0.7, 0.8, 0.9)
_RIDGE = 200.0

Made = tuple[dict[str, Column], dict[str, object]]
"""The declared columns of a target, and its values."""


@dataclass(frozen=True, slots=True)
class Other:
    """A regression of another kind on features that fill their bounds, slopes of one length."""

    kind: str
    rows: int
    features: int
    epsilon: str = "1"
    length: float = 1.0

    @property
    def names(self) -> tuple[str, ...]:
        """Return the features' names."""
        return tuple(f"x{number}" for number in range(1, self.features + 1))

    @property
    def statistic(self) -> Statistic:
        """Return the question."""
        features = self.names
        asked: dict[str, Statistic] = {
            "poisson": PoissonRegression(target="y", features=features),
            "multinomial": MultinomialRegression(target="y", features=features),
            "cox": CoxRegression(
                time="y", event="seen", edges={"y": tuple(range(0, 101, 10))}, features=features
            ),
            "median": QuantileRegression(target="y", features=features, tau=0.5),
            "level .9": QuantileRegression(target="y", features=features, tau=0.9),
            "ridge": LinearRegression(target="y", features=features, bound=2.0, ridge=_RIDGE),
        }
        return asked[self.kind]

    def candidates(self) -> dict[str, tuple[Statistic, str, str]]:
        """Return the question, mechanism and norm of each fixed choice."""
        asked = self.statistic
        found = {
            f"{mechanism} {norm}".removesuffix(" auto"): (asked, mechanism, norm)
            for mechanism, norms in asked.mechanisms.items()
            for norm in norms or ("auto",)
            if mechanism != IN_ZCDP and not (self.kind == "ridge" and mechanism == _PERTURBED)
        }
        if "q" in {each.name for each in fields(asked)}:  # type: ignore[arg-type]
            shares = {q: replace(asked, q=q) for q in _QS}  # type: ignore[type-var]
            found |= {f"q = {q:g}": (one, _PERTURBED, "auto") for q, one in shares.items()}
        return found

    def sample(self, rng: np.random.Generator) -> tuple[Schema, ArrayData]:
        """Return a data set and its public facts."""
        x = rng.uniform(-1, 1, (self.rows, self.features))
        slopes = rng.standard_normal((len(_WAYS), self.features))
        slopes *= self.length / np.linalg.norm(slopes, axis=1, keepdims=True)
        columns, target = _TARGETS[self.kind](x @ slopes.T, rng)
        schema = Schema(
            {**dict.fromkeys(self.names, _UNIT), **columns}, Adjacency.REPLACE_ONE, self.rows
        )
        values = {**dict(zip(self.names, x.T, strict=True)), **target}
        return schema, ArrayData.from_values(schema, values)


def _counts(line: Values, rng: np.random.Generator) -> Made:
    column = NumberColumn(Fraction(0), Fraction(20), kind="integer")
    return {"y": column}, {"y": np.minimum(rng.poisson(np.exp(0.5 + line[:, 0])), 20)}


def _levels(line: Values, rng: np.random.Generator) -> Made:
    odds = np.exp(line - line[:, :1])
    below = np.cumsum(odds / odds.sum(axis=1, keepdims=True), axis=1)
    places = (rng.uniform(size=(len(line), 1)) > below).sum(axis=1)
    return {"y": CategoryColumn(_WAYS)}, {"y": [_WAYS[min(each, 2)] for each in places]}


def _times(line: Values, rng: np.random.Generator) -> Made:
    event = rng.exponential(40 * np.exp(-line[:, 0]))
    last = rng.uniform(20, 100, len(line))
    columns: dict[str, Column] = {"y": NumberColumn(Fraction(0), Fraction(100)), "seen": _FLAG}
    return columns, {"y": np.minimum(event, last), "seen": (event <= last).astype(int)}


def _numbers(line: Values, rng: np.random.Generator) -> Made:
    return {"y": _UNIT}, {"y": np.clip(0.3 * line[:, 0] + rng.normal(0, 0.1, len(line)), -1, 1)}


_TARGETS = {
    "poisson": _counts,
    "multinomial": _levels,
    "cox": _times,
    "median": _numbers,
    "level .9": _numbers,
    "ridge": _numbers,
}
OTHERS = tuple(
    Other(kind, rows, features, epsilon)
    for kind in _TARGETS
    for rows, features, epsilon in ((1_000, 1, "1"), (2_000, 2, "0.5"), (2_000, 2, "4"))
)


def others(draws: int, seed: int = 18) -> Iterator[tuple[Other, dict[str, float], str, float]]:
    """Yield each setting's mean errors, the best fixed choice, and the ratio of auto to it.

    Errors are distances of coefficients to those of a draw at a very large epsilon. All choices
    draw with the same random bits: what ``auto`` takes has its error to the last digit.
    """
    for setting in OTHERS:
        rng, found = np.random.default_rng(seed), dict[str, list[float]]()
        epsilon, fixed = Epsilon.parse(setting.epsilon), setting.candidates()
        reference = "functional" if setting.kind == "ridge" else _PERTURBED
        for number in range(draws):
            schema, data = setting.sample(rng)
            asked = {"auto": (setting.statistic, "auto", "auto"), **fixed}
            exact = calibrate(setting.statistic, schema, _EXACTLY, mechanism=reference)
            truth = _coefficients(exact.draw(data, seeded_randomness(number)).value)
            for name, (statistic, mechanism, norm) in asked.items():
                plan = calibrate(statistic, schema, epsilon, mechanism=mechanism, norm=norm)
                answer = _coefficients(plan.draw(data, seeded_randomness(number)).value)
                found.setdefault(name, []).append(float(np.linalg.norm(answer - truth)))
        means = {name: float(np.mean(each)) for name, each in found.items()}
        best = min(fixed, key=means.__getitem__)
        yield setting, means, best, means["auto"] / means[best]


def _coefficients(value: object) -> Values:
    """Return the numbers of an answer's coefficients, one after the other."""
    assert isinstance(value, dict)
    rows = [value["coefficients"]]
    while isinstance(next(iter(rows[0].values())), dict):
        rows = [inner for row in rows for inner in row.values()]
    return np.array([number for row in rows for number in row.values()], dtype=np.float64)


def _print_others(draws: int) -> None:
    for asked, means, best, over in others(draws):
        errors = ", ".join(f"{name} {error:.3g}" for name, error in means.items())
        facts = f"{asked.kind} {asked.rows:,} {asked.features} {asked.epsilon}"
        sys.stdout.write(f"{facts}  {errors}  {best} {over:.2f}\n")
        sys.stdout.flush()


def main() -> None:
    """Print a table of all settings."""
    parser = argparse.ArgumentParser(
        description="The choice of auto, compared with the mechanism of least error."
    )
    parser.add_argument("--draws", type=int, default=80, help="data sets of each setting")
    parser.add_argument("--fresh", action="store_true", help="only the settings in FRESH")
    parser.add_argument("--stated", action="store_true", help="what is typical is public")
    parser.add_argument("--others", action="store_true", help="regressions of other kinds")
    parser.add_argument("--groups", action="store_true", help="write errors of equal public facts")
    parser.add_argument("--regret", action="store_true", help="the table of these; draws nothing")
    parser.add_argument("--file", type=Path, default=STORED, help="where they are written and read")
    given = parser.parse_args()
    if given.regret:
        sys.stdout.write("\n".join(regret_lines(stored(given.file))) + "\n")
        median, largest = least_median(stored(given.file))
        sys.stdout.write(f"least median of any rule: {median:.2f}, its largest: {largest:.1f}\n")
        return
    if given.groups:
        every = groups(FOUND_ON + FRESH + LAWS + HIGH + FILLED)
        _write(study(tuple(chain.from_iterable(every)), given.draws), given.file)
        return
    if given.others:
        _print_others(given.draws)
        return
    sys.stdout.write(f"rows ...  {' '.join(CANDIDATES)}\n")
    settings = FRESH if given.fresh else FOUND_ON + FRESH + LAWS + HIGH
    settings = tuple(replace(each, stated=given.stated) for each in settings)
    for row in study(settings, given.draws):
        one = row.setting
        asked = f"{one.rows:,} {one.coefficients} {one.bound:g} {one.epsilon} {one.adjacency.value}"
        design = f"{one.spread:g} {one.rho:g} {one.flags} {one.length:g} {one.law} {one.error:g}"
        errors = " ".join(f"{row.errors[name]:.3g}" for name in CANDIDATES)
        ratio = f"{row.ratio:.2f} ± {row.ratio_se:.2f}"
        sys.stdout.write(f"{asked}  {design}  {errors}  {row.taken} {ratio}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
