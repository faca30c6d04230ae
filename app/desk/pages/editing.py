"""Editing what is said of a data set: its policy and words, never its bounds."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from app.desk.forms import NONE, Faults, Form, act_once, faulted, read_as, read_form
from app.desk.lists import address
from app.desk.rendering import page, path_of
from app.desk.routes import CuratorVisitor, State, router_of, state_of
from app.domain.datasets import columns_json
from app.domain.problems import Problem, invalid_request, invalid_requests
from app.services.datasets.datasets import DatasetFacts
from app.services.datasets.policies import policy_json
from app.services.plans.questions import POLICY_KINDS
from app.web.requests.reviews import DatasetEdit

router = router_of("editing")

_COLUMN = "column."
_ONE_OF = re.compile(r"(labels|notices|checklist)\[(\d+)\]", re.ASCII)
_RENAMED = {
    "policy.review": "review",
    "policy.reviewers": "reviewers",
    "policy.max_epsilon_per_release": "max_epsilon_per_release",
    "policy.allowed": "allowed",
}
_LABELS = {"reviewers": "Who decides", "allowed": "Statistics that may be asked"}
_CHOICES: Mapping[str, Any] = {
    "reviews": [(each, each) for each in ("never", "always", "above")],
    "reviewers": [("1", "one"), ("2", "two, who do not see each other’s vote")],
    "kinds": [(kind, kind.replace("_", " ")) for kind in POLICY_KINDS],
}


@router.get("/datasets/{dataset}/edit")
def show_edit(request: Request, visitor: CuratorVisitor, dataset: str) -> Response:
    """Show what may be edited, as it is."""
    del visitor
    return _shown(request, dataset)


@router.post("/datasets/{dataset}/edit")
async def edit(request: Request, visitor: CuratorVisitor, state: State, dataset: str) -> Response:
    """Change what differs from what is there; the reason stays in the ledger."""
    form = await read_form(request)
    labelled: list[str] = []

    async def act() -> str:
        there = _present(await state.services.datasets.present(dataset))
        changed = dict(_changes(_given(form), there))
        labelled.extend(changed.get("labels", ()))
        asked = read_as(DatasetEdit, {**changed, "reason": form.text("reason")})
        if not changed:
            raise invalid_request("reason", "explains nothing: no field was changed")
        await state.services.editing.edit(dataset, asked.edit, reason=asked.reason, caller=visitor)
        return address(path_of("datasets", dataset), done="edited")

    try:
        return await act_once(request, form, caller=visitor, act=act)
    except Problem as problem:
        above = {"policy.review": "review_above"} if form.text("review") == "above" else {}
        faults = Faults(_at_fields(problem, form, labelled), {**_RENAMED, **above})
        return await run_in_threadpool(_shown, request, dataset, form, faults)


def _at_fields(problem: Problem, form: Form, labelled: Sequence[str]) -> Problem:
    """Return a refusal by fields of the form; ``labelled`` are the columns whose labels were sent.

    A fault in one of several lines is reported with the line's number.
    """
    if problem.code != "invalid-request":
        return problem
    return invalid_requests([_at_field(*each, form, labelled) for each in Faults(problem).all])


def _at_field(place: str, message: str, form: Form, labelled: Sequence[str]) -> tuple[str, str]:
    if (found := _ONE_OF.fullmatch(place)) is None:
        return place, message
    name, at = found[1], int(found[2])
    if name == "labels":
        column = next(each for each, value in form.pairs if value == labelled[at] and _names(each))
        return f"label.{column.removeprefix(_COLUMN)}", message
    numbered = enumerate(form.text(name).splitlines(), start=1)
    return name, f"line {[number for number, line in numbered if line.strip()][at]} {message}"


def _names(field: str) -> bool:
    return field.startswith(_COLUMN)


def _present(facts: DatasetFacts) -> Mapping[str, Any]:
    """Return what may be edited, as the request of a program says it."""
    columns = columns_json(facts.columns)
    return {
        "description": facts.description,
        "notices": list(facts.notices),
        "checklist": list(facts.checklist),
        "policy": policy_json(facts.policy),
        "labels": {name: column.get("label") for name, column in columns.items()},
    }


def _given(form: Form) -> Mapping[str, Any]:
    """Return what a form says, in the same way."""
    review = form.text("review")
    reviewers = form.text("reviewers")
    return {
        "description": form.text("description"),
        "notices": _lines(form.text("notices")),
        "checklist": _lines(form.text("checklist")),
        "policy": {
            "review": f"above:{form.text('review_above')}" if review == "above" else review,
            "reviewers": int(reviewers) if reviewers in ("1", "2") else reviewers,
            "max_epsilon_per_release": form.text("max_epsilon_per_release") or None,
            "allowed": form.texts("allowed") or None,
        },
        "labels": {
            column: form.text(f"label.{name.removeprefix(_COLUMN)}") or None
            for name, column in form.pairs
            if _names(name)
        },
    }


def _changes(given: Mapping[str, Any], there: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield what a form would change: of a policy and of labels, only the members that differ."""
    for name, value in given.items():
        if isinstance(value, dict):
            differs = {each: said for each, said in value.items() if said != there[name].get(each)}
            if differs:
                yield name, differs
        elif value != there[name]:
            yield name, value


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip()]


def _filled(there: Mapping[str, Any]) -> Form:
    """Return the form that says what is there."""
    policy = there["policy"]
    review, _, above = policy["review"].partition(":")
    pairs = [
        ("description", there["description"]),
        ("notices", "\n".join(there["notices"])),
        ("checklist", "\n".join(there["checklist"])),
        ("review", review),
        ("review_above", above),
        ("reviewers", str(policy["reviewers"])),
        ("max_epsilon_per_release", policy["max_epsilon_per_release"] or ""),
        *(("allowed", kind) for kind in policy["allowed"] or ()),
    ]
    for place, (name, label) in enumerate(there["labels"].items()):
        pairs += [(f"{_COLUMN}{place}", name), (f"label.{place}", label or "")]
    return Form(pairs)


def _shown(
    request: Request, dataset: str, form: Form | None = None, faults: Faults = NONE
) -> Response:
    facts = state_of(request).services.datasets.view(dataset).facts
    columns = list(enumerate(columns_json(facts.columns)))
    return page(
        request,
        "edit.html",
        status=faulted(request, faults),
        facts=facts,
        form=form or _filled(_present(facts)),
        columns=columns,
        faults=faults,
        labels={**_LABELS, **{f"label.{at}": f"{name} label" for at, name in columns}},
        **_CHOICES,
    )
