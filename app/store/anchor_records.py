"""What anchors write: states and transactions as JSON objects."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

from app.store.anchor import LedgerState, Step
from app.store.entries import Move, Position


def state_record(state: LedgerState | None) -> dict[str, Any]:
    """Return a whole state, or the lack of one."""
    if state is None:
        return {"state": None}
    return {
        "state": {
            "ledger": state.ledger,
            "epoch": state.epoch,
            "unfinished": state.unfinished,
            "accounts": {n: (at.seq, at.head, at.spent) for n, at in state.accounts.items()},
        }
    }


def state_of(fields: dict[str, Any] | None) -> LedgerState | None:
    """Return the state that was written."""
    if fields is None:
        return None
    return LedgerState(**{**fields, "accounts": positions_of(fields["accounts"])})


def step_record(step: Step, *, kept: bool) -> dict[str, Any]:
    """Return a transaction; ``kept`` is whether the one before it was committed."""
    pending = {name: move.pending for name, move in step.moves.items()}
    return {
        "kept": kept,
        "moves": {name: (at.seq, at.head, at.spent) for name, at in pending.items()},
        "unfinished": step.unfinished_change,
        "results": {
            name: None if result is None else base64.b64encode(result).decode()
            for name, result in step.results.items()
        },
    }


def step_of(record: dict[str, Any], before: Mapping[str, Position]) -> Step:
    """Return the transaction that was written, given where accounts were."""
    pending = positions_of(record["moves"])
    return Step(
        moves={name: Move(before.get(name), at) for name, at in pending.items()},
        unfinished_change=record["unfinished"],
        results={
            name: None if result is None else base64.b64decode(result)
            for name, result in record["results"].items()
        },
    )


def positions_of(accounts: Mapping[str, Any]) -> dict[str, Position]:
    """Return where accounts are."""
    return {name: Position(*at) for name, at in accounts.items()}
