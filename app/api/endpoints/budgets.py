"""Budgets: what is left, granting more, and slices for single people."""

from __future__ import annotations

from typing import Annotated

from app.api.answers.budgets import BudgetAnswer, CapAnswer, budget_answer, cap_answer
from app.api.answers.ledger import EntryAnswer, entry_answer
from app.api.answers.paging import Page, Paging, page_of
from app.api.answers.problems import documented
from app.api.dependencies import Analyst, Curator, Id, State, json_body
from app.api.endpoint import router_of
from app.web.requests.schemas import CapRequest, GrantRequest

router = router_of("/v1/datasets/{dataset}", "budgets")


@router.get(
    "/budget",
    operation_id="getBudget",
    responses=documented("not-found"),
)
def get_budget(caller: Analyst, dataset: Id, state: State) -> BudgetAnswer:
    """Show what is left of a data set's budget."""
    return budget_answer(state.services.budgets.view(dataset, caller=caller))


@router.post(
    "/grants",
    operation_id="grantBudget",
    status_code=201,
    responses=documented(
        "not-found", "dataset-archived", "grant-too-large", "target-fixed", "busy", "clock-behind"
    ),
)
async def grant_budget(
    caller: Curator,
    dataset: Id,
    body: Annotated[GrantRequest, json_body(GrantRequest)],
    state: State,
) -> EntryAnswer:
    """Raise a data set's total budget; the entry and its reason stay (curators).

    For accounts where epsilons add up: the target of one in zCDP is fixed when it is opened. One
    grant adds at most what the operator allows (`RELEASE_DESK_MAX_GRANT`).
    """
    entry = await state.services.budgets.grant(
        dataset, body.epsilon, body.reason, caller=caller, expires=body.expires
    )
    facts = await state.services.datasets.present(dataset)
    return entry_answer(entry, facts.meter, {})


@router.put(
    "/caps",
    operation_id="capPerson",
    responses=documented("not-found", "busy", "clock-behind"),
)
async def cap_person(
    caller: Curator,
    dataset: Id,
    body: Annotated[CapRequest, json_body(CapRequest)],
    state: State,
) -> CapAnswer:
    """Cap what one person may use of a data set's budget, or lift the cap (curators)."""
    record = await state.services.budgets.set_cap(
        dataset, body.person, body.epsilon, body.reason, caller=caller
    )
    facts = await state.services.datasets.present(dataset)
    return cap_answer(record, facts.meter)


@router.get(
    "/caps",
    operation_id="listCaps",
    responses=documented("not-found"),
)
def list_caps(caller: Curator, dataset: Id, cut: Paging, state: State) -> Page[CapAnswer]:
    """List the caps on a data set's budget (curators)."""
    del caller
    records = state.services.budgets.caps(dataset, after=cut.position, limit=cut.limit + 1)
    meter = state.services.datasets.facts(dataset).meter
    return page_of([(record.number, cap_answer(record, meter)) for record in records], cut)
