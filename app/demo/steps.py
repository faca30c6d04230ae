"""The demo step by step: each prints a request and its sanitized answer."""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from app.client import Dataset, ProblemError, ReleaseDesk
from app.client.questions import question
from app.demo.questions import (
    DEMO_DATA,
    ENGEL,
    ENGEL_QUESTIONS,
    HOUSING,
    HOUSING_QUESTIONS,
    MEANS,
    Question,
)
from app.demo.server import (
    compact,
    directory_for_demo,
    free_port,
    heading,
    running,
    table,
    terminating,
    wait_for_interrupt,
)


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
