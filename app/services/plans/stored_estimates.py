"""The error estimate that a release stores when it is planned, and what its answer shows of it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from app.services.plans.missing import warned
from mechanisms.contract import Json, Outcome
from mechanisms.foresight.foresee import Foresight
from mechanisms.foresight.trees import numbers
from mechanisms.foresight.verdicts import (
    Usefulness,
    judged_by_noise,
    judged_release,
    known_errors,
)

_MOST_KEPT = 256
"""As many expected errors are kept with a release; those of known laws are in its noise."""


def kept_json(found: Foresight, assumed: Json) -> dict[str, object]:
    """Return what a release keeps of it, and of what was assumed, ready for JSON."""
    useful = found.usefulness
    errors = None if useful.estimate == "closed form" else found.expected_error
    if errors is not None and len(list(numbers(errors))) > _MOST_KEPT:
        errors = None
    ranges = None if errors is None else found.possible_range
    stored = {**useful.to_json(), "share": useful.share, "rows": useful.rows}
    return {
        "usefulness": stored,
        "expected_error": errors,
        "possible_range": ranges,
        "assume": assumed,
    }


@lru_cache(maxsize=64)
def _read(plan: str) -> Mapping[str, Any]:
    kept = json.loads(plan)
    return {"foresight": kept.get("foresight"), "details": kept.get("details") or {}}


def _kept(plan: str) -> Mapping[str, Any] | None:
    found: Mapping[str, Any] | None = _read(plan)["foresight"]
    return found


def assumed_of(plan: str) -> dict[str, object]:
    """Return the member that says what was assumed; none for versions that did not store it."""
    found = _kept(plan)
    return {} if found is None or "assume" not in found else {"assume": found["assume"]}


def _of_plan(plan: str) -> tuple[Usefulness, Json | None, Json | None] | None:
    found = _kept(plan)
    if found is None:  # of a version that did not know it
        return None
    useful: Mapping[str, object] = found["usefulness"]
    return Usefulness.from_json(useful), found["expected_error"], found.get("possible_range")


def usefulness_before(plan: str) -> dict[str, object] | None:
    """Return what a release without a result is worth; ``plan`` is the text it keeps."""
    found = _of_plan(plan)
    return None if found is None else warned(found[0], _read(plan)["details"]).to_json()


def usefulness_of(plan: str, kinds: Sequence[str], outcome: Outcome) -> dict[str, object] | None:
    """Return what released numbers are worth: from them, their edges, and public facts."""
    found = _of_plan(plan)
    if found is None:
        return None
    before, errors, ranges = found
    if outcome.noise is not None:
        if errors is not None:
            guessed = before.verdict == "depends"
            known = known_errors(errors, outcome.noise.std, guessed=guessed)
            before, errors = judged_by_noise(before, errors, known, ranges), known
        else:
            errors = outcome.noise.expected_error
    edges = frozenset(edge.place for edge in outcome.edges)
    judged = judged_release(before, kinds, outcome.value, errors, edges=edges)
    return warned(judged, _read(plan)["details"]).to_json()
