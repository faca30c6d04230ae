"""Survival and ROC curves: how often their bands, medians and areas hold the population's.

    python -m studies.curves [--replicates 300] [--quick] [--only bands|log-rank]

prints two Markdown tables, or one of them with ``--only``. The first has the coverage of survival
bands, of median survival, of bands of rates and of areas. The band of a curve covers where it holds
the population's curve at all places together. The second has how often the log-rank test rejects
at 5%, and the usual one without noise: where two groups have one curve, but other censoring, and
where the hazard of one is half as large again.

*Populations.* Times are exponential with mean 40 or 200, or of a Weibull law, seen until a uniform
time of up to 80 or 100. Scores are normal, with a label of 30% or 8% whose scores are 15 larger.
Numbers of the population are read off 400,000 rows without noise.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from scipy.stats import chi2

from mechanisms.catalog import calibrate
from mechanisms.contract import Outcome, Term
from mechanisms.domain import CategoryColumn, NumberColumn, Schema
from mechanisms.privacy import Adjacency, Epsilon
from mechanisms.sketches import ArrayData
from mechanisms.statistics.cells.axes import Step
from mechanisms.statistics.curves.kaplan_meier import KaplanMeier
from mechanisms.statistics.curves.roc import Roc
from mechanisms.testing import seeded_randomness
from studies.hypothesis_tests import Found, is_rejected

REPLACE, ADD = Adjacency.REPLACE_ONE, Adjacency.ADD_REMOVE
COLUMNS: Mapping[str, Any] = {
    "amount": NumberColumn(Fraction(0), Fraction(100)),
    "flag": NumberColumn(Fraction(0), Fraction(1), boolean=True),
    "arm": CategoryColumn(("a", "b")),
}
CENSUS, LEVEL = 400_000, 0.05
_EXACTLY = Epsilon.parse("10000")

Values = Mapping[str, Any]


def _seen(rng: np.random.Generator, times: Any, most: Any) -> Values:
    lost = rng.uniform(0, most)
    arms = np.where(np.arange(len(times)) % 2 == 0, "a", "b")
    return {"amount": np.minimum(times, lost), "flag": (times <= lost).astype(int), "arm": arms}


def _times(mean: float, shape: float) -> Any:
    def sample(rng: np.random.Generator, rows: int, hazard: float = 1.0) -> Values:
        second = np.arange(rows) % 2 == 1
        times = mean * rng.weibull(shape, rows)
        times = np.where(second, times / hazard ** (1 / shape), times)
        return _seen(rng, times, np.where(second, 100.0, 80.0))

    return sample


def _scores(share: float) -> Any:
    def sample(rng: np.random.Generator, rows: int, _hazard: float = 1.0) -> Values:
        flags = rng.uniform(size=rows) < share
        amounts = rng.normal(42 + 15 * flags, 15).clip(0, 100)
        return {"amount": amounts, "flag": flags.astype(int), "arm": ["a"] * rows}

    return sample


POPULATIONS: Mapping[str, Any] = {
    "exponential": _times(40, 1.0),
    "few events": _times(200, 1.0),
    "aging": _times(50, 2.0),
    "label of 30%": _scores(0.3),
    "label of 8%": _scores(0.08),
}
_CURVES = frozenset({"exponential", "few events", "aging"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """A curve of samples of a population; ``cells`` 0 for the usual ones."""

    population: str
    rows: int
    epsilon: str = "1"
    cells: int = 10
    adjacency: Adjacency = ADD
    groups: bool = False

    @property
    def asked(self) -> Any:
        """Return the question."""
        edges: Any = {"amount": Step(step=100 / self.cells)} if self.cells else {}
        by = ("arm",) if self.groups else ()
        if self.population in _CURVES:
            return KaplanMeier(time="amount", event="flag", edges=edges, by=by)
        return Roc(score="amount", label="flag", edges=edges, by=by)


SETTINGS = tuple(
    Setting(population=population, rows=rows, epsilon=epsilon, cells=cells, adjacency=adjacency)
    for population in POPULATIONS
    for rows, epsilon, cells, adjacency in (
        (300, "2", 10, ADD),
        (2_000, "0.5", 10, ADD),
        (2_000, "1", 0, ADD),
        (2_000, "1", 20, REPLACE),
    )
)
COMPARED = tuple(
    Setting(population=population, rows=1_000, groups=True) for population in sorted(_CURVES)
)
QUICK = SETTINGS[:1], COMPARED[:1]


def _schema(rows: int, adjacency: Adjacency) -> Schema:
    return Schema(COLUMNS, adjacency, rows if adjacency is REPLACE else None, 2 * rows)


def _drawn(setting: Setting, values: Values, epsilon: Epsilon, seed: int) -> Outcome:
    rows = len(values["amount"])
    data = ArrayData.from_values(
        _schema(rows, REPLACE), {name: list(each) for name, each in values.items()}
    )
    plan = _plan(setting, rows, epsilon)
    outcome: Outcome = plan.draw(data, seeded_randomness(seed))
    return outcome


@lru_cache(maxsize=8)
def _plan(setting: Setting, rows: int, epsilon: Epsilon) -> Any:
    return calibrate(setting.asked, _schema(rows, setting.adjacency), epsilon)


def _terms(outcome: Outcome) -> Mapping[str, Term]:
    assert outcome.inference is not None
    return {term.term: term for term in (*outcome.inference.terms, *outcome.inference.fit)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """How often the band holds the curve, and the interval the median or the area."""

    setting: Setting
    band: float
    number: float


def measured(setting: Setting, *, replicates: int, seed: int, narrowed: float = 1.0) -> Row:
    """Return the coverage; ``narrowed`` is a factor that a negative control has."""
    sample = POPULATIONS[setting.population]
    census = _terms(_drawn(setting, sample(np.random.default_rng(0), CENSUS), _EXACTLY, 0))
    rng = np.random.default_rng(seed)
    bands, numbers = [], []
    for turn in range(replicates):
        values = sample(rng, setting.rows)
        found = _terms(_drawn(setting, values, Epsilon.parse(setting.epsilon), seed * 10**6 + turn))
        held = {
            name: _holds(term, census[name].estimate, narrowed)
            for name, term in found.items()
            if census[name].estimate is not None
        }
        single = [name for name in held if name in {"area", "median survival"}]
        bands.append(all(each for name, each in held.items() if name not in single))
        numbers += [held[name] for name in single]
    return Row(
        setting=setting,
        band=float(np.mean(bands)),
        number=float(np.mean(numbers)) if numbers else float("nan"),
    )


def _holds(term: Term, truth: float, narrowed: float) -> bool:
    low, high = term.confidence_95
    middle = (low + high) / 2
    return bool(abs(truth - middle) <= (high - low) / 2 * narrowed + 1e-12)


def rejected(setting: Setting, hazard: float, *, replicates: int, seed: int) -> Found:
    """Return how often the log-rank test rejects at 5%."""
    rng, found, plain = np.random.default_rng(seed), 0, 0
    for turn in range(replicates):
        values = POPULATIONS[setting.population](rng, setting.rows, hazard)

        def p_value(values: Values = values, turn: int = turn) -> float:
            outcome = _drawn(setting, values, Epsilon.parse(setting.epsilon), seed * 10**6 + turn)
            test: Any = outcome.value["log_rank"]
            return float(test["p_value"])

        found += is_rejected(p_value)
        plain += without_noise(values) <= LEVEL
    return Found(repetitions=replicates, rejected=found, plain=plain)


def without_noise(values: Values) -> float:
    """Return the p-value of the usual log-rank test, of two groups and distinct times."""
    order = np.argsort(values["amount"])
    second = (np.asarray(values["arm"]) == "b")[order]
    events = np.asarray(values["flag"])[order]
    share = np.cumsum(second[::-1])[::-1] / np.arange(len(order), 0, -1)
    excess = float((events * (second - share)).sum())
    return float(chi2.sf(excess**2 / float((events * share * (1 - share)).sum()), 1))


def lines(
    settings: tuple[Setting, ...], compared: tuple[Setting, ...], replicates: int
) -> Iterator[str]:
    """Yield the lines of both tables."""
    yield "| population | rows | adjacency | epsilon | cells | band | median or area |"
    yield "| --- | --- | --- | --- | --- | --- | --- |"
    for place, of in enumerate(settings):
        row = measured(of, replicates=replicates, seed=1 + place)
        number = "none" if np.isnan(row.number) else f"{row.number:.3f}"
        yield (
            f"| {of.population} | {of.rows:,} | `{of.adjacency}` | {of.epsilon} "
            f"| {of.cells or 'usual'} | {row.band:.3f} | {number} |"
        )
    yield ""
    yield (
        "| log-rank: population | rows | epsilon | cells | level | its interval | no noise "
        "| power | no noise |"
    )
    yield "| --- " * 9 + "|"
    for place, of in enumerate(compared):
        level = rejected(of, 1.0, replicates=4 * replicates, seed=100 + place)
        power = rejected(of, 1.5, replicates=2 * replicates, seed=200 + place)
        low, high = level.interval
        usual, its_power = (each.plain / each.repetitions for each in (level, power))
        yield (
            f"| {of.population} | {of.rows:,} | {of.epsilon} | {of.cells or 'usual'} "
            f"| {level.share:.3f} | {low:.3f} to {high:.3f} | {usual:.3f} "
            f"| {power.share:.2f} | {its_power:.2f} |"
        )


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--replicates", type=int, default=300, help="data sets per setting")
    parser.add_argument("--quick", action="store_true", help="one setting of each, 40 data sets")
    parser.add_argument("--only", choices=("bands", "log-rank"), help="one of the tables")
    asked = parser.parse_args()
    (settings, compared), replicates = (
        (QUICK, 40) if asked.quick else ((SETTINGS, COMPARED), asked.replicates)
    )
    if asked.only is not None:
        settings, compared = (settings, ()) if asked.only == "bands" else ((), compared)
    for line in lines(settings, compared, replicates):
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
