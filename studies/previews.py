"""First previews of 40 kinds of questions over HTTP: how long each takes on a server just started.

Every question is previewed twice on one connection, one after the other. The first has nothing
stored that it could return; the second is what the path itself takes. CPU time is that of the
server and its processes, so that a busy machine does not count.

    python -m studies.previews [--each]
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import httpx
import numpy as np

from studies.service import CLOCKS_PATH, KEY, send_upload, server

MEDIAN_MS, SLOW_MS = 30.0, 150.0
"""Wanted of a first preview on 2 quiet cores: in the median, and in 19 of 20."""

ROWS = 5000
COLUMNS: Mapping[str, object] = {
    "age": {"type": "integer", "lower": 16, "upper": 100},
    "income": {"type": "number", "lower": 0, "upper": 200_000},
    "bmi": {"type": "number", "lower": 10, "upper": 60, "typical": {"mean": 26, "std": 5}},
    "months": {"type": "number", "lower": 0, "upper": 120},
    "died": {"type": "boolean"},
    "treated": {"type": "boolean"},
    "sex": {"type": "category", "values": ["f", "m"]},
    "region": {"type": "category", "values": [f"r{place:02}" for place in range(14)]},
    "educ": {"type": "category", "values": ["low", "mid", "high"]},
}
_OVER_40 = [{"column": "age", "op": ">", "value": 40}]
_LOGIT = {"column": "bmi", "op": ">=", "value": 30}


def _of(kind: str, **fields: object) -> dict[str, object]:
    return {"statistic": {"kind": kind, **fields}, "epsilon": "1"}


QUESTIONS: Mapping[str, Mapping[str, object]] = {
    "count of a share": _of("count", where=[{"column": "died", "op": "==", "value": True}]),
    "count, where": _of("count", where=_OVER_40),
    "count by region": _of("count", by=["region"]),
    "mean": _of("mean", columns=["income"]),
    "means": _of("mean", columns=["income", "bmi", "months"]),
    "mean, where": _of("mean", columns=["income"], where=_OVER_40),
    "mean by region": _of("mean", columns=["income"], by=["region"]),
    "mean by sex, educ": _of("mean", columns=["income"], by=["sex", "educ"]),
    "mean of a derived column": _of("mean", columns=["l"], derive={"l": "log1p(income)"}),
    "mean, clipped": _of("mean", columns=["income"], clip="private"),
    "sum": _of("sum", columns=["income"]),
    "variance": _of("variance", columns=["bmi"]),
    "std": _of("std", columns=["bmi"]),
    "std by region": _of("std", columns=["bmi"], by=["region"]),
    "covariance": _of("covariance", columns=["bmi", "income"]),
    "correlation": _of("correlation", columns=["bmi", "income", "months"]),
    "moments": _of("moments", columns=["age", "bmi", "income", "months"]),
    "median": _of("quantile", column="income", levels=[0.5]),
    "deciles": _of("quantile", column="income", levels=[k / 10 for k in range(1, 10)]),
    "median of integers": _of("quantile", column="age", levels=[0.5]),
    "median by region": _of("quantile", column="income", levels=[0.5], by=["region"]),
    "median with interval": _of("quantile", column="income", levels=[0.5])
    | {"inference": {"share": "1/4"}},
    "interquartile range": _of("interquartile_range", column="income"),
    "histogram of numbers": _of(
        "histogram", columns=["age"], edges={"age": list(range(20, 100, 10))}
    ),
    "histogram of categories": _of("histogram", columns=["region", "sex"]),
    "tables": _of("tables", columns=["sex", "educ", "region"]),
    "geometric median": _of("geometric_median", columns=["income", "bmi"]),
    "linear regression": _of("linear_regression", target="income", features=["age", "bmi"]),
    "formula with a factor": _of("linear_regression", formula="income ~ age + C(educ)"),
    "formula with an interaction": _of("linear_regression", formula="income ~ age * C(sex)"),
    "linear regression with errors": _of(
        "linear_regression", target="income", features=["age", "bmi"]
    )
    | {"inference": {"share": "1/4"}},
    "logistic regression": _of("logistic_regression", target=_LOGIT, features=["age", "months"]),
    "quantile regression": _of("quantile_regression", target="income", features=["age"], bound=2),
    "Poisson regression": _of("poisson_regression", target="months", features=["age"]),
    "multinomial regression": _of("multinomial_regression", target="educ", features=["age"]),
    "Cox regression": _of("cox_regression", time="months", event="died", features=["age", "sex"]),
    "ROC curve": _of("roc", score="bmi", label="died"),
    "principal components": _of("pca", columns=["age", "bmi", "income"]),
    "t test": _of("test", test="welch", columns=["bmi"], groups="sex"),
    "chi-square test": _of("test", test="chi_square", columns=["sex", "educ"]),
    "rank sum test": _of("test", test="rank_sum", columns=["bmi"], groups="sex"),
    "survival": _of("kaplan_meier", time="months", event="died"),
    "summary": _of("summary", columns=["age", "bmi", "income", "sex"]),
    "stack": _of(
        "stack",
        parts=[
            {"statistic": {"kind": "sum", "columns": ["income"]}},
            {"statistic": {"kind": "mean", "columns": ["bmi"]}},
            {"statistic": {"kind": "quantile", "column": "bmi", "levels": [0.5]}},
        ],
    ),
}


@dataclass(frozen=True, slots=True)
class Row:
    """A preview: milliseconds of the first and of the second, and of CPU time for the first."""

    name: str
    first_ms: float
    again_ms: float
    cpu_ms: float
    status: int


def rows_of_csv(rows: int) -> str:
    """Return the file of a made-up data set."""
    generator = np.random.default_rng(40)

    def chosen(values: Sequence[str]) -> Sequence[str]:
        return [values[place] for place in generator.integers(0, len(values), rows)]

    columns = {
        "age": generator.integers(16, 100, rows),
        "income": generator.lognormal(10, 0.6, rows).round(2),
        "bmi": generator.normal(26, 5, rows).round(1),
        "months": generator.exponential(40, rows).round(1),
        "died": chosen(["false", "true"]),
        "treated": chosen(["false", "true"]),
        "sex": chosen(["f", "m"]),
        "region": chosen([f"r{place:02}" for place in range(14)]),
        "educ": chosen(["low", "mid", "high"]),
    }
    lines = [
        ",".join(columns),
        *(",".join(map(str, row)) for row in zip(*columns.values(), strict=True)),
    ]
    return "\n".join(lines) + "\n"


def measured(rows: int = ROWS) -> list[Row]:
    """Return the rows, in the order of the questions, on a server just started."""
    with (
        tempfile.TemporaryDirectory() as directory,
        server(Path(directory), {}) as port,
        httpx.Client(
            base_url=f"http://127.0.0.1:{port}",
            headers={"Authorization": f"Bearer {KEY}"},
            timeout=120,
        ) as client,
    ):
        path = f"/v1/datasets/{send_upload(port, 'previews', COLUMNS, rows_of_csv(rows))}/previews"

        def cpu_s() -> float:
            return float(sum(client.get(CLOCKS_PATH).json().values()))

        def asked(body: Mapping[str, object]) -> tuple[float, int]:
            before = time.perf_counter()
            answer = client.post(path, json=body)
            return 1000 * (time.perf_counter() - before), answer.status_code

        found = []
        for name, body in QUESTIONS.items():
            before = cpu_s()
            first, status = asked(body)
            taken = cpu_s() - before
            found.append(Row(name, first, asked(body)[0], 1000 * taken, status))
        return found


def main() -> None:
    """Print the median, the 95% quantile and the slowest questions."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--each", action="store_true", help="print every question")
    found = measured()
    shown = found if parser.parse_args().each else sorted(found, key=lambda row: -row.first_ms)[:8]
    for row in shown:
        sys.stdout.write(
            f"{row.name:<30} first {row.first_ms:7.0f} ms   again {row.again_ms:6.0f} ms"
            f"   CPU {row.cpu_ms:6.0f} ms   {row.status}\n"
        )
    for name, each in (
        ("first", [row.first_ms for row in found]),
        ("CPU of the first", [row.cpu_ms for row in found]),
        ("again", [row.again_ms for row in found]),
    ):
        sys.stdout.write(
            f"{name:<18} median {np.median(each):6.0f} ms   95% {np.quantile(each, 0.95):6.0f} ms\n"
        )
    sys.stdout.write(f"wanted: {MEDIAN_MS:.0f} ms and {SLOW_MS:.0f} ms on 2 quiet cores\n")


if __name__ == "__main__":
    main()
