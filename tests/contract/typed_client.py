"""What an analyst writes, and the types that an editor shows for it.

Type checkers read this file, and a test runs it: what is asserted here holds for both.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, assert_type

from app.client import (
    AsyncDataset,
    AsyncDesk,
    Balance,
    Budget,
    Dataset,
    Derivation,
    DryRun,
    Entry,
    Preview,
    ProblemError,
    ReceiptCheck,
    Release,
    ReleaseDesk,
    Verification,
)


def analyse(desk: ReleaseDesk, name: str) -> Release:
    """Look around, preview, release, derive and check, as the tutorial does."""
    assert_type(desk.datasets(), Iterator[Dataset])
    dataset = assert_type(desk.dataset(name), Dataset)
    assert_type(dataset.columns, dict[str, Any])
    budget = assert_type(desk.budget(dataset), Budget)
    assert_type(budget.epsilon, Balance)

    mean = {"kind": "mean", "columns": ["income"]}
    preview = assert_type(dataset.preview(mean, epsilon="0.1"), Preview)
    assert_type(preview.noise, dict[str, Any] | None)
    assert_type(desk.dry_run(dataset, mean, epsilon="0.1"), DryRun)

    assert_type(dataset.mean("income", epsilon="0.1"), Release)
    assert_type(dataset.median("income", epsilon="0.1"), Release)

    moments = assert_type(dataset.moments("income", "food", epsilon="1"), Release)
    assert_type(moments.value, dict[str, Any] | None)
    assert_type(moments.body, bytes)
    assert_type(moments.rows(), list[dict[str, Any]])
    spread = {"kind": "variance", "columns": ["income"]}
    assert_type(desk.derive(moments, spread), Derivation)
    assert_type(desk.check_receipt(moments), ReceiptCheck)

    assert_type(desk.releases(), Iterator[Release])
    try:
        dataset.release(mean, epsilon="1000")
    except ProblemError as refused:
        assert_type(refused.code, str)
    return moments


def look(desk: ReleaseDesk, name: str) -> None:
    """Look at the ledger, as a curator does."""
    assert_type(desk.ledger(name), Iterator[Entry])
    assert_type(desk.verification(), Verification)


async def at_once(desk: AsyncDesk, name: str) -> Release:
    """Ask without blocking: the same calls, each awaited."""
    dataset = assert_type(await desk.dataset(name), AsyncDataset)
    async for each in desk.datasets():
        assert_type(each, AsyncDataset)
    return assert_type(await dataset.mean("income", epsilon="0.1"), Release)
