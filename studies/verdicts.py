"""Whether verdicts and expected errors come true, on the demonstration data.

    python -m studies.verdicts 200
    python -m studies.verdicts 200 --errors

Random questions about the California housing data, at random prices: statistics of random columns,
with or without conditions and groups. The preview is the service's own, by its default assumptions
and what the demo's spec states as typical; the release is drawn, and judged as the service does.

``--errors`` compares expected errors with realised ones: mean absolute differences between draws
and the same answer without noise and without the bias of its mechanism. A question's ratio is the
geometric mean over its numbers, and its largest ratio that of its worst number. The data sets are
all housing records, an even sample of 1,000 of them with a public and with a private number of
rows, and Engel's 235 households.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import exp, log
from typing import Any

import numpy as np
import polars as pl

from app.demo import DEMO_DATA, ENGEL, HOUSING
from app.engine.schema import schema_of
from app.services.plans.answers import kept_json, usefulness_of
from app.services.plans.missing import with_typical
from app.services.plans.questions import read_question
from app.web.requests.schemas import DatasetSpec
from mechanisms.catalog import calibrate
from mechanisms.contract import InvalidStatisticError, Json
from mechanisms.domain import CategoryColumn, Schema
from mechanisms.estimates.assumptions import Assumptions
from mechanisms.estimates.estimate import ErrorEstimate, estimate_error
from mechanisms.estimates.trees import at, mapped, numbers
from mechanisms.privacy import Adjacency, Epsilon
from mechanisms.sketches import ArrayData
from mechanisms.testing import seeded_randomness

KINDS = ("count", "histogram", "sum", "mean", "variance", "std", "quantile", "covariance",
         "correlation", "linear_regression")  # fmt: skip
MEASURED = (*KINDS, "logistic_regression", "interquartile_range")
EPSILONS = ("0.02", "0.1", "0.5", "1", "3")


@dataclass(frozen=True)
class Judged:
    """A question, and its verdict before and after it was drawn."""

    question: dict[str, Any]
    before: str
    after: str
    sentences: tuple[str, str]

    @property
    def agrees(self) -> bool:
        """Return whether the release says what the preview said, or what it left open."""
        return self.before in (self.after, "depends")


def questions(
    count: int, *, seed: int = 37, spec: dict[str, Any] = HOUSING, kinds: tuple[str, ...] = KINDS
) -> Iterator[dict[str, Any]]:
    """Yield random questions and prices."""
    chance = random.Random(seed)  # noqa: S311 - which questions are asked is no secret
    columns = spec["columns"]
    names = [name for name, column in columns.items() if column["type"] == "number"]
    category = next((n for n, column in columns.items() if column["type"] == "category"), None)
    for _ in range(count):
        kind = chance.choice(kinds)
        some = chance.sample(names, min(len(names), 3))
        asked = {"kind": kind, **_about(chance, columns, some, kind, category)}
        if kind == "count" or chance.random() < 0.4:
            asked["where"] = [_condition(chance, columns, some[-1], kind)]
        if category and chance.random() < 0.4 and kind != "histogram":
            asked["by"] = [category]
            if chance.random() < 0.3:
                asked["by"] = [{"column": "median_income", "edges": [0, 2, 3, 4, 6, 15]}]
            if any(each["column"] == category for each in asked.get("where", [])):
                del asked["where"]
        yield {"statistic": asked, "epsilon": chance.choice(EPSILONS), "mechanism": "auto",
               "norm": "auto"}  # fmt: skip


def _about(
    chance: random.Random, columns: dict[str, Any], some: list[str], kind: str, category: str | None
) -> dict[str, Any]:
    """Return which columns a question is about."""
    first, others = some[0], some[1:]
    column = columns[first]
    low, high = column["lower"], column["upper"]
    target = {"column": first, "op": ">=", "value": column.get("typical", {"mean": 700})["mean"]}
    counted: dict[str, Any] = {"columns": [category]}
    if category is None:
        counted = {"columns": [first], "edges": {first: [low, (low + high) // 4, high]}}
    found: dict[str, dict[str, Any]] = {
        "count": {},
        "histogram": counted,
        "covariance": {"columns": some[:2]},
        "correlation": {"columns": some[:2]},
        "linear_regression": {"target": first, "features": others, "bound": 3},
        "logistic_regression": {"target": target, "features": others, "bound": 5},
        "quantile": {"column": first, "levels": [chance.choice([0.1, 0.25, 0.5, 0.9])]},
        "interquartile_range": {"column": first},
    }
    return found.get(kind, {"columns": [first]})


def _condition(
    chance: random.Random, columns: dict[str, Any], name: str, kind: str
) -> dict[str, Any]:
    if "ocean_proximity" in columns and chance.random() < 0.4 and kind != "histogram":
        values = columns["ocean_proximity"]["values"]
        return {"column": "ocean_proximity", "op": "==", "value": chance.choice(values)}
    low, high = columns[name]["lower"], columns[name]["upper"]
    place = low + (high - low) * chance.uniform(0.02, 0.6)
    return {"column": name, "op": chance.choice([">=", "<"]), "value": round(place, 2)}


def judged(asked_of: Iterable[dict[str, Any]], spec: dict[str, Any] = HOUSING) -> Iterator[Judged]:
    """Yield questions with both of their verdicts."""
    facts = DatasetSpec.model_validate(_as_text(spec)).declared().columns
    frame = _rows("california_housing")
    schema = schema_of(facts, rows=len(frame))
    data, assumed = _data(frame, schema), with_typical(Assumptions(), facts)
    for number, asked in enumerate(asked_of):
        question = read_question(json.dumps(asked))
        plan = calibrate(question.statistic, schema, question.epsilon, mechanism=question.mechanism)
        found = estimate_error(
            question.statistic, schema, question.epsilon, mechanism=question.mechanism,
            norm="auto", assumptions=assumed,
        )  # fmt: skip
        text = json.dumps({"estimate": kept_json(found, assumed.to_json(schema))})
        outcome = plan.draw(data, seeded_randomness(number))
        after = usefulness_of(text, question.kinds, outcome)
        assert after is not None
        yield Judged(
            asked, found.usefulness.verdict, str(after["verdict"]),
            (found.usefulness.sentence, str(after["sentence"])),
        )  # fmt: skip


def _as_text(spec: dict[str, Any]) -> dict[str, Any]:
    """Return a spec whose prices are texts, as a request's are."""
    return {**spec, "budget": {name: str(value) for name, value in spec["budget"].items()}}


def _data(frame: pl.DataFrame, schema: Schema) -> ArrayData:
    codes = {}
    for name, column in schema.columns.items():
        cells = frame[name].to_list()
        if isinstance(column, CategoryColumn):
            codes[name] = np.array([column.values.index(cell) for cell in cells], dtype=np.int32)
        else:
            codes[name] = column.encode(np.array(cells, dtype=np.float64))
    return ArrayData(columns=schema.columns, codes=codes)


@dataclass(frozen=True)
class Calibrated:
    """A question, its verdict, and realised errors in units of expected ones.

    Ratios are of errors beyond what is expected in any population considered, and 1 within.
    """

    name: str
    question: dict[str, Any]
    verdict: str
    ratios: tuple[float, ...]

    @property
    def kind(self) -> str:
        """Return what was asked."""
        return str(self.question["statistic"]["kind"])

    @property
    def mean(self) -> float:
        """Return the geometric mean over the answer's numbers."""
        return exp(sum(map(log, self.ratios)) / len(self.ratios))


def calibrated(count: int, *, draws: int, seed: int = 41) -> Iterator[Calibrated]:
    """Yield random questions about each data set with realised and expected errors."""
    housing, engel = _rows("california_housing"), _rows("engel")
    some = housing[::20][:1000]
    data_sets: tuple[tuple[str, dict[str, Any], pl.DataFrame, int | None], ...] = (
        ("20,640 block groups", HOUSING, housing, None),
        ("the same, nothing stated", bare(HOUSING), housing, None),
        ("1,000 block groups", HOUSING, some, None),
        ("the same, add_remove", HOUSING, some, 2000),
        ("Engel, nothing stated", ENGEL, engel, None),
    )
    for name, spec, frame, most in data_sets:
        asked_of = questions(count, seed=seed, spec=spec, kinds=MEASURED)
        for asked, verdict, ratios in _compared(spec, frame, most, asked_of, draws=draws):
            yield Calibrated(name, asked, verdict, ratios)


def _compared(
    spec: dict[str, Any],
    frame: pl.DataFrame,
    most: int | None,
    asked_of: Iterable[dict[str, Any]],
    *,
    draws: int,
) -> Iterator[tuple[dict[str, Any], str, tuple[float, ...]]]:
    """Yield questions, their verdicts and the ratios of their errors; ``most`` bounds the rows."""
    facts = DatasetSpec.model_validate(_as_text(spec)).declared().columns
    schema = schema_of(facts, rows=len(frame))
    if most is not None:
        schema = Schema(schema.columns, Adjacency.ADD_REMOVE, None, most)
    data, assumed = _data(frame, schema), with_typical(Assumptions(), facts)
    for asked in asked_of:
        question = read_question(json.dumps(asked))
        try:
            plan = calibrate(question.statistic, schema, question.epsilon)
            sure = calibrate(question.statistic.estimand(), schema, Epsilon.parse("10000"))
        except InvalidStatisticError:  # as of a condition that all records meet
            continue
        found = estimate_error(
            question.statistic, schema, question.epsilon, mechanism="auto", norm="auto",
            assumptions=assumed,
        )  # fmt: skip
        exact = sure.draw(data, seeded_randomness(0)).value
        values = [plan.draw(data, seeded_randomness(turn)).value for turn in range(1, draws + 1)]
        errors = [mapped(lambda one, true: abs(one - true), each, exact) for each in values]
        realised = mapped(lambda *each: sum(each) / len(each), *errors)
        ratios = tuple(_ratios(found, realised))
        if ratios:
            yield asked, found.usefulness.verdict, ratios


def _ratios(found: ErrorEstimate, realised: Json) -> Iterator[float]:
    low = found.expected_error if found.low is None else found.low
    high = found.expected_error if found.high is None else found.high
    for path, error in numbers(found.expected_error):
        seen, least, most = at(realised, path), at(low, path), at(high, path)
        # Coefficients at their bound, and clamped numbers, may have no error at all.
        if error > 0 and seen is not None and seen > 1e-9 * error:
            yield seen / least if seen < least else seen / most if seen > most else 1.0


def _rows(name: str) -> pl.DataFrame:
    return pl.read_csv(DEMO_DATA / f"{name}.csv").fill_null(0)


def print_agreement(count: int) -> None:
    """Print how often both verdicts agree, and where they do not."""
    for name, spec in (("typical", HOUSING), ("nothing stated", bare(HOUSING))):
        found = list(judged(questions(count, spec=spec), spec))
        agreed = sum(each.agrees for each in found)
        same = sum(each.before == each.after for each in found)
        kinds = Counter((each.before, each.after) for each in found)
        sys.stdout.write(f"{name}: {agreed} of {count} agree, {same} say the same; {kinds}\n")
        for each in found:
            if not each.agrees:
                lines = (f"{each.before} -> {each.after}", json.dumps(each.question))
                sys.stdout.write("\n  ".join(["", *lines, *each.sentences]) + "\n")


def print_errors(count: int, *, draws: int) -> None:
    """Print how often realised errors are within a factor of 2 of expected ones, by data set."""
    found = list(calibrated(count, draws=draws))
    for part in ("name", "kind"):
        for name in dict.fromkeys(getattr(each, part) for each in found):
            own = [each for each in found if getattr(each, part) == name]
            inside = sum(0.5 <= each.mean <= 2 for each in own)
            worst = max((max(each.ratios) for each in own if each.verdict == "good"), default=0.0)
            sys.stdout.write(
                f"{name}: {inside} of {len(own)} within a factor of 2, {worst:.2g} times as much "
                f"as expected at most where the verdict is good\n"
            )
    for each in found:
        if not 0.5 <= each.mean <= 2:
            asked = json.dumps(each.question["statistic"])
            line = f"{each.mean:.2g} {each.name} {each.verdict} {each.question['epsilon']} {asked}"
            sys.stdout.write(f"  {line}\n")


def bare(spec: dict[str, Any]) -> dict[str, Any]:
    """Return a spec that states nothing as typical."""
    columns = {
        name: {field: value for field, value in column.items() if field != "typical"}
        for name, column in spec["columns"].items()
    }
    return {**spec, "columns": columns}


def main() -> None:
    """Run one of the two studies."""
    parser = argparse.ArgumentParser(description="Whether verdicts and expected errors come true.")
    parser.add_argument("count", type=int, nargs="?", default=200, help="questions of each")
    parser.add_argument("--errors", action="store_true", help="compare expected errors with draws")
    parser.add_argument("--draws", type=int, default=40, help="draws of each question")
    given = parser.parse_args()
    if given.errors:
        print_errors(given.count, draws=given.draws)
    else:
        print_agreement(given.count)


if __name__ == "__main__":
    main()
