"""``release-desk demo``: real data in, sanitized numbers out, over HTTP, with every step shown.

The demo is a client like any other. It starts a service in a process of its own over a fresh
directory, makes a curator's and an analyst's key, uploads two data sets with public bounds, and
prints each request with its answer.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import httpx

from app.client import Dataset, ProblemError, Release, ReleaseDesk
from app.client.questions import question
from app.client.tables import MEASURES

DEMO_DATA = Path(__file__).parent / "demo_data"

ENGEL: dict[str, Any] = {
    "name": "Engel food expenditure",
    "description": "235 Belgian working-class households, 1857: income and food expenditure.",
    "adjacency": "replace_one",
    "columns": {
        "income": {"type": "number", "lower": 0, "upper": 5000},
        "foodexp": {"type": "number", "lower": 0, "upper": 2500},
    },
    "budget": {"epsilon": "6"},
    "same_people": "no",
}

HOUSING: dict[str, Any] = {
    "name": "California housing 1990",
    "description": "20,640 block groups of the 1990 US census.",
    "adjacency": "replace_one",
    "columns": {
        "longitude": {
            "type": "number",
            "lower": -124.5,
            "upper": -114,
            "typical": {"mean": -119.6, "std": 2},
        },
        "latitude": {
            "type": "number",
            "lower": 32,
            "upper": 42,
            "typical": {"mean": 35.6, "std": 2.1},
        },
        "housing_median_age": {
            "type": "number",
            "lower": 0,
            "upper": 60,
            "typical": {"mean": 29, "std": 13},
        },
        "total_rooms": {
            "type": "number",
            "lower": 0,
            "upper": 40000,
            "typical": {"mean": 2600, "std": 2200},
        },
        "total_bedrooms": {
            "type": "number",
            "lower": 0,
            "upper": 7000,
            "missing": 0,
            "typical": {"mean": 540, "std": 420},
        },
        "population": {
            "type": "number",
            "lower": 0,
            "upper": 36000,
            "typical": {"mean": 1400, "std": 1100},
        },
        "households": {
            "type": "number",
            "lower": 0,
            "upper": 6500,
            "typical": {"mean": 500, "std": 380},
        },
        "median_income": {
            "type": "number",
            "lower": 0,
            "upper": 15,
            "typical": {"mean": 3.9, "std": 1.9},
        },
        "median_house_value": {
            "type": "number",
            "lower": 0,
            "upper": 500001,
            "typical": {"mean": 207000, "std": 115000},
        },
        "ocean_proximity": {
            "type": "category",
            "values": ["<1H OCEAN", "INLAND", "ISLAND", "NEAR BAY", "NEAR OCEAN"],
            "typical": {
                "<1H OCEAN": 0.4427,
                "INLAND": 0.3174,
                "ISLAND": 0.0003,
                "NEAR BAY": 0.1109,
                "NEAR OCEAN": 0.1287,
            },
        },
    },
    "budget": {"epsilon": "5"},
    "same_people": "no",
}

MEANS = {"kind": "mean", "columns": ["income", "foodexp"]}
QUANTILES = {"kind": "quantile", "column": "income", "levels": [0.1, 0.5, 0.9]}
FOOD_ON_INCOME = {
    "kind": "linear_regression",
    "target": "foodexp",
    "features": ["income"],
    "bound": 2,
}
PROXIMITY = {"kind": "histogram", "columns": ["ocean_proximity"]}
BY_COAST = {
    "kind": "mean",
    "columns": ["median_house_value"],
    "where": [{"column": "median_income", "op": ">", "value": 3}],
    "by": ["ocean_proximity"],
}
LOG_VALUE = {
    "kind": "linear_regression",
    "formula": "log(median_house_value + 1) ~ median_income + inland",
    "derive": {"inland": 'ocean_proximity == "INLAND"'},
    "bound": 3,
}
HOUSE_VALUE = {
    "kind": "linear_regression",
    "target": "median_house_value",
    "features": ["median_income", "housing_median_age", "total_rooms"],
}
DEAR_HOUSES = {
    "kind": "logistic_regression",
    "target": {"column": "median_house_value", "op": ">=", "value": 200000},
    "features": ["median_income", "housing_median_age", "total_rooms"],
}


@dataclass(frozen=True, slots=True)
class Question:
    """One release of the demo: a title, a remark, and the request."""

    title: str
    remark: str
    statistic: Mapping[str, object]
    epsilon: str
    mechanism: str = "auto"
    norm: str = "auto"


ENGEL_QUESTIONS = (
    *(
        Question(f"Means of income and food expenditure, {norm} noise", "", MEANS, "0.5", norm=norm)
        for norm in ("l1", "l2", "linf")
    ),
    Question("Quantiles of income", "", QUANTILES, "1"),
    Question(
        "Food expenditure on income: linear regression",
        "The mechanism is chosen by a public simulation of its errors.",
        FOOD_ON_INCOME,
        "2",
    ),
)
HOUSING_QUESTIONS = (
    Question("Histogram of ocean_proximity", "", PROXIMITY, "0.5"),
    Question(
        "Mean house value by the kind of coast, where the median income is above 3",
        "All groups together cost one epsilon. Few blocks are islands, so their mean is noise.",
        BY_COAST,
        "0.5",
    ),
    Question(
        "House value on income and distance from the coast, by a formula as in R",
        "Coefficients are differences of logarithms: -0.5 is about 40% less.",
        LOG_VALUE,
        "1",
    ),
    Question(
        "House value on income, age and rooms: linear regression",
        "At the default bound, by the mechanism that a public simulation of errors chooses.",
        HOUSE_VALUE,
        "1",
    ),
    Question(
        "Is a block's median house value at least 200,000? Objective-perturbation logistic "
        "regression",
        "Coefficients are log-odds per unit of the column.",
        DEAR_HOUSES,
        "1",
        mechanism="objective_perturbation",
    ),
)


# The demo's lines: answers as aligned tables


def table(release: Release) -> Iterator[str]:
    """Yield aligned lines: each released number, its 95% noise interval and its noise's std."""
    rows = {_label(row): row for row in release.rows()}
    width = max(map(len, rows), default=0)
    yield f"{'':<{width}} {'released':>14}   95% noise interval"
    for label, row in rows.items():
        line = f"{label:<{width}} {_number(row['value']):>14}"
        if row["noise_low"] is None:
            line += "   depends on the data"
        else:
            low, high = _number(row["noise_low"]), _number(row["noise_high"])
            line += f"   [{low:>14}, {high:>14}]   std {_number(row['noise'])}"
        yield line


def _label(row: Mapping[str, Any]) -> str:
    """Return what a number is called: its group, and its term where the group does not say all."""
    group = [str(row[name]) for name in row if name not in MEASURES]
    term = row["term"]
    return ", ".join(group if group and term == "count" else [*group, term])


def _number(value: float | None) -> str:
    """Return a number to a readable count of digits."""
    if value is None:
        return "-"
    if value == int(value):
        return f"{value:,.0f}"
    return f"{value:,.2f}" if abs(value) >= 100 else f"{value:.4g}"


def heading(text: str) -> None:
    """Open a step."""
    click.echo(f"\n== {text}")


def compact(body: Mapping[str, object]) -> str:
    """Return a request body as one line of JSON."""
    return json.dumps(body)


# The demo's own service: a process started, awaited and stopped in order

_START_TIMEOUT_S = 60.0  # a first start makes a database, on a machine that may be busy
_STOP_TIMEOUT_S = 10.0


def free_port() -> int:
    """Return 8000, or any free port when it is taken."""
    for wanted in (8000, 0):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", wanted))
            except OSError:
                continue
            return int(probe.getsockname()[1])
    raise click.ClickException("no free port on 127.0.0.1")


@contextmanager
def directory_for_demo(chosen: Path | None) -> Iterator[Path]:
    """Yield an empty directory: the chosen one, kept, or a temporary one, removed."""
    if chosen is not None:
        chosen.mkdir(parents=True, exist_ok=True)
        if any(chosen.iterdir()):
            raise click.ClickException("the demo wants an empty data directory")
        yield chosen
        return
    made = Path(tempfile.mkdtemp(prefix="release-desk-demo-"))
    try:
        yield made
    finally:
        shutil.rmtree(made, ignore_errors=True)


@contextmanager
def running(directory: Path, port: int) -> Iterator[tuple[str, str]]:
    """Start a server process; yield its URL and the admin key; stop it in the end."""
    url, key = f"http://127.0.0.1:{port}", secrets.token_urlsafe(32)
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("RELEASE_DESK_")}
    environment = {
        **inherited,
        "RELEASE_DESK_DATA_DIR": str(directory / "data"),
        "RELEASE_DESK_BOOTSTRAP_KEY": key,
    }
    heading("Start the service")
    click.echo(f"  release-desk serve --host 127.0.0.1 --port {port}   over {directory}")
    log_path = directory / "server.log"
    with log_path.open("wb") as log:
        process = subprocess.Popen(  # noqa: S603
            [sys.executable, "-m", "app.cli", "serve", "--host", "127.0.0.1", "--port", str(port)],
            env=environment,
            stdout=log,
            stderr=log,
            # A Ctrl-C at the terminal reaches us alone; we then stop the server in order.
            start_new_session=True,
        )
    try:
        taken_s = _await_ready(url, lambda: process.poll() is not None, log_path)
        click.echo(f"  -> ready at {url} ({taken_s:.1f} s)")
        yield url, key
    finally:
        process.terminate()
        try:
            process.wait(_STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _await_ready(url: str, ended: Callable[[], bool], log: Path) -> float:
    started = time.monotonic()
    while time.monotonic() < started + _START_TIMEOUT_S and not ended():
        try:
            if httpx.get(f"{url}/readyz", timeout=2).is_success:
                return time.monotonic() - started
        except httpx.TransportError:
            pass
        time.sleep(0.05)
    tail = log.read_text(errors="replace").splitlines()[-20:]
    raise click.ClickException("the service did not start:\n" + "\n".join(tail))


def wait_for_interrupt() -> None:
    """Sleep until Ctrl-C or, inside :func:`terminating`, SIGTERM."""
    try:
        while True:
            time.sleep(3600)
    except KeyboardInterrupt:
        return


@contextmanager
def terminating() -> Iterator[None]:
    """Treat SIGTERM as Ctrl-C, so that the server process and its directory are cleaned up."""
    previous = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous)


def run(*, once: bool, port: int | None = None, data_dir: Path | None = None) -> None:
    """Run the demo; with ``once`` the service is stopped at the end, else kept until Ctrl-C.

    ``data_dir`` is kept afterwards; without one a temporary directory is used and removed.
    """
    with (
        terminating(),
        directory_for_demo(data_dir) as directory,
        running(directory, port or free_port()) as (url, key),
    ):
        with ReleaseDesk(url, key) as admin:
            curator = _key(admin, "demo curator", "curator")
            analyst = _key(admin, "demo analyst", "analyst")
        with ReleaseDesk(url, curator) as desk, ReleaseDesk(url, analyst) as asking:
            engel = _show(desk, asking, url)
        if not once:
            _farewell(url, engel, {"admin": key, "curator": curator, "analyst": analyst})
            click.echo("The service stays up. Ctrl-C stops it.")
            wait_for_interrupt()
            click.echo("\nStopping ...")
    if once:
        heading("Done")
        click.echo("  The service of this demo has stopped. Without --once it stays up for you;")
        click.echo("  docs/tutorials/quickstart.md starts one of your own.")


def _show(desk: ReleaseDesk, asking: ReleaseDesk, url: str) -> Dataset:
    engel = _upload(desk, "engel.csv", ENGEL)
    housing = _upload(desk, "california_housing.csv", HOUSING)
    _advise(asking, engel)
    for item in ENGEL_QUESTIONS:
        _ask(asking, engel, item)
    for item in HOUSING_QUESTIONS:
        _ask(asking, housing, item)
    _ledger(desk, engel)
    _refusal(asking, engel)
    _replay(asking, engel)
    verification = desk.verification()
    heading("The chain of the ledger, verified")
    click.echo(f"  GET {url}/v1/ledger/verification")
    click.echo(f"  ok {verification.ok}, {verification.entries} entries, head {verification.head}")
    return engel


# Steps


def _upload(desk: ReleaseDesk, file: str, spec: Mapping[str, Any]) -> Dataset:
    heading(f"Upload {file}")
    click.echo("  POST /v1/datasets   bounds are public knowledge, never read off the rows:")
    for name, column in spec["columns"].items():
        fill = f", missing cells become {column['missing']}" if "missing" in column else ""
        bounds = (
            f"{column['lower']:>8} .. {column['upper']}"
            if column["type"] == "number"
            else ", ".join(column["values"])
        )
        click.echo(f"    {name:<20} {column['type']:<9} {bounds}{fill}")
    started = time.perf_counter()
    dataset = desk.upload(DEMO_DATA / file, spec)
    taken_s = time.perf_counter() - started
    budget = desk.budget(dataset).epsilon.total
    click.echo(
        f"  -> 201 {dataset.id}: {dataset.rows:,} rows, budget epsilon {budget} ({taken_s:.2f} s)"
    )
    return dataset


def _advise(desk: ReleaseDesk, dataset: Dataset) -> None:
    heading("Which norm? A preview is free and reads no data")
    preview = desk.preview(dataset, MEANS, epsilon="0.5")
    click.echo(
        f"  POST /v1/datasets/{dataset.id}/previews\n  {compact(question(MEANS, '0.5'))}\n"
        f"  -> the advisor chooses {preview.mechanism}, norm {preview.norm}"
    )
    extras = preview.model_extra or {}
    if extras.get("reason"):
        click.echo(f"     {extras['reason']}")
    for other in extras.get("alternatives") or ():
        std = f"   std {other['std']:.6g}" if other.get("std") is not None else ""
        click.echo(f"     {other['mechanism']} {other['norm']}: {other['comparison']}{std}")


def _ask(desk: ReleaseDesk, dataset: Dataset, item: Question) -> None:
    heading(item.title)
    body = question(item.statistic, item.epsilon, item.mechanism, item.norm)
    click.echo(f"  POST /v1/datasets/{dataset.id}/releases\n  {compact(body)}")
    started = time.perf_counter()
    release = desk.release(
        dataset, item.statistic, epsilon=item.epsilon, mechanism=item.mechanism, norm=item.norm
    )
    taken_ms = (time.perf_counter() - started) * 1000
    norm = f", norm {release.norm}" if release.norm else ""
    click.echo(f"  -> 201 {release.mechanism}{norm}, epsilon {release.epsilon} ({taken_ms:.0f} ms)")
    if item.remark:
        click.echo(f"     {item.remark}")
    for line in table(release):
        click.echo(f"     {line}")


def _ledger(desk: ReleaseDesk, dataset: Dataset) -> None:
    heading("The ledger of the Engel data set")
    click.echo(f"  GET /v1/datasets/{dataset.id}/ledger")
    click.echo(f"     {'seq':>3}  {'kind':<8} {'amount':>8} {'spent':>8} {'total':>8}  hash")
    for entry in desk.ledger(dataset):
        extra = entry.model_extra or {}
        click.echo(
            f"     {entry.seq:>3}  {entry.kind:<8} {extra.get('amount', ''):>8}"
            f" {extra.get('spent_after', ''):>8} {extra.get('total_after', ''):>8}"
            f"  {entry.hash[:16]}..."
        )
    left = desk.budget(dataset).epsilon
    click.echo(f"     spent {left.spent} of {left.total}, {left.remaining} remains")


def _refusal(desk: ReleaseDesk, dataset: Dataset) -> None:
    heading("A request that the budget does not cover")
    click.echo(f"  POST /v1/datasets/{dataset.id}/releases\n  {compact(question(MEANS, '4'))}")
    try:
        desk.release(dataset, MEANS, epsilon="4")
    except ProblemError as problem:
        click.echo(f"  -> {problem.status} {problem.code}: {problem.detail}")
        click.echo(f"     {compact(problem.extras)}")
        if problem.code == "budget-exceeded":
            return
    raise click.ClickException("the request was not refused for its budget")


def _replay(desk: ReleaseDesk, dataset: Dataset) -> None:
    heading("The same Idempotency-Key twice: one charge, one answer")
    key = f"demo-{secrets.token_hex(8)}"
    before = desk.budget(dataset).epsilon.remaining
    first = desk.release(dataset, MEANS, epsilon="0.1", idempotency_key=key)
    second = desk.release(dataset, MEANS, epsilon="0.1", idempotency_key=key)
    after = desk.budget(dataset).epsilon.remaining
    same = first.body == second.body
    click.echo(f"  POST /v1/datasets/{dataset.id}/releases   Idempotency-Key: {key}   (twice)")
    click.echo(f"  -> {first.id} and {second.id}: {len(first.body)} bytes, equal: {same}")
    click.echo(f"     remaining before {before}, after both {after}")
    if not same:
        raise click.ClickException("the replayed answer differs from the first")


def _farewell(url: str, dataset: Dataset, keys: Mapping[str, str]) -> None:
    heading("Now you")
    for what, path in (
        ("docs", "/docs"),
        ("catalog", "/v1/catalog"),
        ("OpenAPI", "/openapi.json"),
        ("ready", "/readyz"),
        ("data set", f"/v1/datasets/{dataset.id}"),
    ):
        click.echo(f"  {what:<10} {url}{path}")
    for role, secret in keys.items():
        click.echo(f"  {role + ' key':<12} {secret}")
    click.echo(
        f"\n  curl -s {url}/v1/datasets/{dataset.id}/releases \\\n"
        f"    -H 'Authorization: Bearer {keys['analyst']}' \\\n"
        f"    -H 'Idempotency-Key: my-first-question' -H 'Content-Type: application/json' \\\n"
        f"    -d '{compact({'statistic': MEANS, 'epsilon': '0.2'})}'\n"
    )


def _key(admin: ReleaseDesk, name: str, role: str) -> str:
    secret = admin.create_key(name=name, role=role).secret
    if secret is None:
        raise click.ClickException("the service made a key without a secret")
    return secret
