"""The demo, run as a person runs it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest

from app.client import Release
from app.demo import table
from tests.e2e.live import free_port

pytestmark = pytest.mark.slow

QUESTIONS = (
    "l1 noise",
    "l2 noise",
    "linf noise",
    "Quantiles of income",
    "Food expenditure on income",
    "Histogram of ocean_proximity",
    "Mean house value by the kind of coast",
    "by a formula as in R",
    "House value on income, age and rooms",
    "at least 200,000",
)
CELLS = ("<1H OCEAN", "INLAND", "ISLAND", "NEAR BAY", "NEAR OCEAN")


def start(tmp_path: Path, *options: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-u", "-m", "app.cli", "demo", "--port", str(free_port()), *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )


def gone(url: str) -> bool:
    """Say whether nothing answers any more."""
    try:
        httpx.get(f"{url}/livez", timeout=2, verify=False)
    except httpx.TransportError:
        return True
    return False


def all_shown(output: str) -> list[str]:
    """Return the steps of a demo, which are all there."""
    _, *steps = output.split("\n== ")
    for title in QUESTIONS:
        (step,) = [step for step in steps if title in step.splitlines()[0]]
        assert "POST /v1/datasets/" in step
        assert '"statistic"' in step
        assert "-> 201" in step
    for norm in ("l1", "l2", "linf"):
        (step,) = [step for step in steps if step.startswith("Means") and f" {norm} noise" in step]
        assert f"norm {norm}," in step
        assert (
            len(re.findall(r"(?:income|foodexp) +[\d.,-]+ +\[ *[\d.,-]+, +[\d.,-]+\]   std", step))
            == 2
        )
    (histogram,) = [step for step in steps if step.startswith("Histogram")]
    assert all(f"{cell} " in histogram for cell in CELLS)
    (by_coast,) = [step for step in steps if step.startswith("Mean house value by")]
    assert all(f"{cell}, median_house_value " in by_coast for cell in CELLS)
    assert by_coast.count("   std ") == len(CELLS)
    (formula,) = [step for step in steps if "by a formula as in R" in step]
    assert all(f" {term} " in formula for term in ("(intercept)", "median_income", "inland"))
    (quantiles,) = [step for step in steps if step.startswith("Quantiles")]
    assert [f"level {level}" in quantiles for level in ("0.1", "0.5", "0.9")] == [True] * 3
    assert "the advisor chooses k_norm" in output
    assert "-> 409 budget-exceeded" in output
    assert re.search(r"\d+ bytes, equal: True", output)
    assert re.search(r"ok True, \d+ entries", output)
    return steps


@pytest.mark.wide
def test_once_shows_everything_and_leaves_nothing(tmp_path: Path) -> None:
    """The build of the image runs this too (:mod:`tests.deploy.test_image`)."""
    process = start(tmp_path, "--once")
    output, _ = process.communicate(timeout=240)
    assert process.returncode == 0, output
    steps = all_shown(output)
    (url,) = set(re.findall(r"ready at (http://127\.0\.0\.1:\d+)", output))
    assert gone(url)
    assert "http" not in steps[-1], "nobody is sent to a service that is gone"
    assert "docs/tutorials/quickstart.md" in steps[-1]
    assert list(tmp_path.iterdir()) == [], "the temporary directory is removed"


@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGTERM])
def test_it_shows_everything_and_stays_up_until_it_is_stopped(
    tmp_path: Path, sign: signal.Signals
) -> None:
    process = start(tmp_path)
    try:
        assert process.stdout is not None
        seen = ""
        for line in process.stdout:
            seen += line
            if line.startswith("The service stays up"):
                break
        all_shown(seen)
        (url,) = re.findall(r"ready at (\S+)", seen)
        (key,) = re.findall(r"analyst key +(\S+)", seen)
        (dataset,) = re.findall(r"data set +\S+/(ds_\S+)", seen)
        headers = {"Authorization": f"Bearer {key}"}
        facts = httpx.get(f"{url}/v1/datasets/{dataset}", headers=headers, timeout=10).json()
        assert facts["rows"] == 235
        time.sleep(0.2)
        process.send_signal(sign)
        rest, _ = process.communicate(timeout=30)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 0, seen + rest
    assert "Traceback" not in rest
    assert gone(url)
    assert list(tmp_path.iterdir()) == []


def test_a_table_pairs_each_number_with_its_interval() -> None:
    release = Release.model_validate(
        {
            "id": "rel_1",
            "dataset": "ds_1",
            "status": "released",
            "epsilon": "1",
            "value": {"cells": [{"cell": {"sea": "near"}, "count": 12}]},
            "noise": {
                "std": {"cells": [{"cell": {"sea": "near"}, "count": 2.5}]},
                "interval_95": {"cells": [{"cell": {"sea": "near"}, "count": [7, 17]}]},
            },
        }
    )
    assert [line.split() for line in table(release)][1] == [
        *("near", "12", "[", "7,", "17]", "std", "2.5")
    ]
