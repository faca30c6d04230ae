"""How often the verdict of a preview equals the release's, on the demonstration data.

    python -m studies.verdicts 200

Random questions about the California housing data, at random prices: statistics of random columns,
with or without conditions and groups. The preview is the service's own, by its default assumptions
and what the demo's spec states as typical; the release is drawn, and judged as the service does.
"""

from __future__ import annotations

import json
import random
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from app.demo.questions import DEMO_DATA, HOUSING
from app.engine.schema import schema_of
from app.services.plans.missing import with_typical
from app.services.plans.questions import read_question
from app.services.plans.stored_estimates import kept_json, usefulness_of
from app.web.requests.schemas import DatasetSpec
from mechanisms.catalog import calibrate
from mechanisms.domain import CategoryColumn, Schema
from mechanisms.foresight.assumptions import Assumptions
from mechanisms.foresight.foresee import foresee
from mechanisms.sketches import ArrayData
from mechanisms.testing import seeded_randomness

KINDS = ("count", "histogram", "sum", "mean", "variance", "std", "quantile", "covariance",
         "correlation", "linear_regression")  # fmt: skip
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
    count: int, *, seed: int = 37, spec: dict[str, Any] = HOUSING
) -> Iterator[dict[str, Any]]:
    """Yield random questions and prices."""
    chance = random.Random(seed)  # noqa: S311 - which questions are asked is no secret
    columns = spec["columns"]
    numbers = [name for name, column in columns.items() if column["type"] == "number"]
    for _ in range(count):
        kind = chance.choice(KINDS)
        some = chance.sample(numbers, 3)
        asked: dict[str, Any] = {"kind": kind}
        if kind in ("covariance", "correlation"):
            asked["columns"] = some[:2]
        elif kind == "linear_regression":
            asked |= {"target": some[0], "features": some[1:], "bound": 3}
        elif kind == "quantile":
            asked |= {"column": some[0], "levels": [chance.choice([0.1, 0.25, 0.5, 0.9])]}
        elif kind == "histogram":
            asked["columns"] = ["ocean_proximity"]
        elif kind != "count":
            asked["columns"] = some[:1]
        if kind == "count" or chance.random() < 0.4:
            asked["where"] = [_condition(chance, columns, some[-1], kind)]
        if chance.random() < 0.4 and kind != "histogram":
            asked["by"] = ["ocean_proximity"]
            if chance.random() < 0.3:
                asked["by"] = [{"column": "median_income", "edges": [0, 2, 3, 4, 6, 15]}]
            if any(each["column"] == "ocean_proximity" for each in asked.get("where", [])):
                del asked["where"]
        yield {"statistic": asked, "epsilon": chance.choice(EPSILONS),
               "mechanism": "functional" if kind == "linear_regression" else "auto",
               "norm": "auto"}  # fmt: skip


def _condition(
    chance: random.Random, columns: dict[str, Any], name: str, kind: str
) -> dict[str, Any]:
    if chance.random() < 0.4 and kind != "histogram":
        values = columns["ocean_proximity"]["values"]
        return {"column": "ocean_proximity", "op": "==", "value": chance.choice(values)}
    low, high = columns[name]["lower"], columns[name]["upper"]
    place = low + (high - low) * chance.uniform(0.02, 0.6)
    return {"column": name, "op": chance.choice([">=", "<"]), "value": round(place, 2)}


def judged(asked_of: Iterable[dict[str, Any]], spec: dict[str, Any] = HOUSING) -> Iterator[Judged]:
    """Yield questions with both of their verdicts."""
    facts = DatasetSpec.model_validate(_as_text(spec)).declared().columns
    frame = pl.read_csv(DEMO_DATA / "california_housing.csv").fill_null(0)
    schema = schema_of(facts, rows=len(frame))
    data, assumed = _data(frame, schema), with_typical(Assumptions(), facts)
    for number, asked in enumerate(asked_of):
        question = read_question(json.dumps(asked))
        plan = calibrate(question.statistic, schema, question.epsilon, mechanism=question.mechanism)
        found = foresee(
            question.statistic, schema, question.epsilon, mechanism=question.mechanism,
            norm="auto", assumptions=assumed,
        )  # fmt: skip
        text = json.dumps({"foresight": kept_json(found, assumed.to_json(schema))})
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


def main(count: int) -> None:
    """Print how often both verdicts agree, and where they do not."""
    for name, spec in (("typical", HOUSING), ("nothing stated", bare(HOUSING))):
        found = list(judged(questions(count), spec))
        agreed = sum(each.agrees for each in found)
        same = sum(each.before == each.after for each in found)
        kinds = Counter((each.before, each.after) for each in found)
        sys.stdout.write(f"{name}: {agreed} of {count} agree, {same} say the same; {kinds}\n")
        for each in found:
            if not each.agrees:
                lines = (f"{each.before} -> {each.after}", json.dumps(each.question))
                sys.stdout.write("\n  ".join(["", *lines, *each.sentences]) + "\n")


def bare(spec: dict[str, Any]) -> dict[str, Any]:
    """Return a spec that states nothing as typical."""
    columns = {
        name: {field: value for field, value in column.items() if field != "typical"}
        for name, column in spec["columns"].items()
    }
    return {**spec, "columns": columns}


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 200)
