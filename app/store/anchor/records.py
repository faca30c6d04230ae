"""What anchors write: states and transactions as JSON objects, and results as they are."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any

from app.store.anchor.standing import LedgerState, Step
from app.store.ledger.entries import Move, Position

Results = Mapping[str, bytes | None]
_NONE: Results = {}


def state_record(state: LedgerState | None) -> dict[str, Any]:
    """Return a whole state, or the lack of one."""
    if state is None:
        return {"state": None}
    return {
        "state": {
            "ledger": state.ledger,
            "epoch": state.epoch,
            "unfinished": state.unfinished,
            "accounts": _listed(state.accounts),
        }
    }


def state_of(fields: dict[str, Any] | None) -> LedgerState | None:
    """Return the state that was written."""
    if fields is None:
        return None
    return LedgerState(**{**fields, "accounts": positions_of(fields["accounts"])})


def step_record(step: Step, *, kept: bool) -> dict[str, Any]:
    """Return a transaction but for its results; ``kept``: the one before it was committed."""
    return {
        "kept": kept,
        "moves": _listed({name: move.pending for name, move in step.moves.items()}),
        "unfinished": step.unfinished_change,
    }


def step_of(record: dict[str, Any], before: Mapping[str, Position]) -> Step:
    """Return the transaction that was written, its results in bytes, given where accounts were."""
    pending = positions_of(record["moves"])
    return Step(
        moves={name: Move(before.get(name), at) for name, at in pending.items()},
        unfinished_change=record["unfinished"],
        results=record["results"],
    )


def as_bytes(record: Mapping[str, Any], results: Results = _NONE) -> bytes:
    """Return a record as a line of JSON, which says how long results are, and after it those."""
    sizes = {name: None if result is None else len(result) for name, result in results.items()}
    line = json.dumps({**record, "results": sizes}, separators=(",", ":")).encode()
    # JSON escapes line breaks, so the first one ends the line whatever the results hold.
    return b"".join((line, b"\n", *filter(None, results.values())))


def from_bytes(content: bytes) -> dict[str, Any]:
    """Return the record that was written, with its results."""
    line, _, rest = content.partition(b"\n")
    record: dict[str, Any] = json.loads(line)
    at, results = 0, {}
    for name, size in record["results"].items():
        results[name] = None if size is None else rest[at : at + size]
        at += size or 0
    return {**record, "results": results}


def as_text(record: Mapping[str, Any], results: Results = _NONE) -> str:
    """Return a record as JSON throughout, its results in Base64."""
    encoded = {
        name: None if result is None else base64.b64encode(result).decode()
        for name, result in results.items()
    }
    return json.dumps({**record, "results": encoded})


def from_text(text: str | bytes) -> dict[str, Any]:
    """Return the record that was written, with its results."""
    record: dict[str, Any] = json.loads(text)
    results = {
        name: None if result is None else base64.b64decode(result)
        for name, result in record.get("results", {}).items()
    }
    return {**record, "results": results}


def positions_of(accounts: Mapping[str, Any]) -> dict[str, Position]:
    """Return where accounts are."""
    return {name: Position(*at) for name, at in accounts.items()}


def _listed(accounts: Mapping[str, Position]) -> dict[str, tuple[int, str, int]]:
    return {name: (at.seq, at.head, at.spent) for name, at in accounts.items()}
