"""Budgets: what is left, and granting more."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter

from app.api.answers import BudgetAnswer, EntryAnswer, budget_answer, entry_answer
from app.api.dependencies import Analyst, Curator, Id, State, body_of, json_body
from app.api.problems import documented
from app.api.schemas import GrantRequest

router = APIRouter(prefix="/v1/datasets/{dataset}", tags=["budgets"])


@router.get(
    "/budget",
    operation_id="getBudget",
    response_model=BudgetAnswer,
    responses=documented("unauthorized", "not-found"),
)
def get_budget(caller: Analyst, dataset: Id, state: State) -> BudgetAnswer:
    """Show what is left of a data set's budget."""
    return budget_answer(state.services.budgets.view(dataset, caller=caller))


@router.post(
    "/grants",
    operation_id="grantBudget",
    status_code=201,
    response_model=EntryAnswer,
    openapi_extra=body_of(GrantRequest),
    responses=documented("unauthorized", "forbidden", "not-found", "invalid-request", "busy"),
)
async def grant_budget(
    caller: Curator,
    dataset: Id,
    body: Annotated[GrantRequest, json_body(GrantRequest)],
    state: State,
) -> EntryAnswer:
    """Raise a data set's total budget; the entry and its reason stay (curators)."""
    entry = await state.services.budgets.grant(dataset, body.epsilon, body.reason, caller=caller)
    return entry_answer(entry, state.services.datasets.facts(dataset).meter)
