"""The bodies of answers about data sets, keys and the service, and how they are made.

Those about releases are in :mod:`app.api.release_answers`, about the ledger in
:mod:`app.api.ledger_answers`. The text below a member is what the OpenAPI document says of it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from app.domain.datasets import columns_json
from app.domain.ledger import Balance
from app.services.datasets.accounting import Meter
from app.services.datasets.datasets import DatasetView, policy_json
from app.services.people.keys import KeyRecord
from mechanisms.exact.decimals import decimal_text
from mechanisms.privacy import Epsilon


class Answer(BaseModel):
    """A body of an answer."""

    model_config = ConfigDict(frozen=True, use_attribute_docstrings=True)


class BalanceAnswer(Answer):
    """Amounts of an account, each as the shortest decimal text."""

    total: str
    """What the account may spend in all."""
    spent: str
    """What its releases have cost."""
    reserved: str
    """What is set aside for releases that wait for a review."""
    remaining: str
    """What further releases may still cost."""


class DatasetBudgetAnswer(Answer):
    """The budget as part of a data set's public facts.

    An account in zCDP has a ``delta``: ``epsilon`` is then what its ``rho``, the sums that the
    ledger keeps, comes to at that delta.
    """

    epsilon: BalanceAnswer
    """The account's amounts as epsilons."""
    accounting: Literal["pure", "zcdp"]
    """How costs add up: as epsilons, or as zCDP's rho."""
    delta: str | None
    """The delta of the account's target; null where epsilons add up."""
    rho: BalanceAnswer | None
    """The account's amounts as zCDP's rho; null where epsilons add up."""


class DatasetAnswer(Answer):
    """The public facts of a data set."""

    id: str
    """Names the data set in addresses."""
    name: str
    """What the curator called it."""
    description: str
    """What the curator says of it."""
    adjacency: Literal["replace_one", "add_remove"]
    """Which data sets count as neighbours."""
    rows: int | None
    """Public under replace_one, null under add_remove."""
    max_rows: int | None
    """The declared bound on the row count; null where none was declared."""
    columns: dict[str, dict[str, Any]]
    """The declared columns by name, as in the spec."""
    status: Literal["active", "archived"]
    """Archived: its rows are erased, and its releases stay."""
    account: str
    """The budget account that releases are charged to; data sets about the same people share it."""
    budget: DatasetBudgetAnswer
    """What is left to spend."""
    policy: dict[str, Any]
    """What one release may ask for, as in the spec."""
    created_at: str
    """When it was uploaded (UTC)."""


class KeyAnswer(Answer):
    """A key, without its secret."""

    id: str
    """Names the key in addresses."""
    name: str
    """What its maker called it."""
    role: Literal["admin", "curator", "analyst"]
    """What it may do; each role may also do what a later one here may."""
    expires: str | None
    """When it ends by itself (UTC); null for never."""
    created_at: str
    """When it was made (UTC)."""
    created_by: str
    """The person who made it."""
    revoked_at: str | None
    """When it was revoked (UTC); null while it is good."""
    person: str
    """Who releases made with this key belong to."""
    last_used_at: str | None
    """To the minute; null before the first use."""


class NewKeyAnswer(KeyAnswer):
    """A key just made; the secret is shown this once."""

    secret: str
    """The text to send as `Authorization: Bearer`."""


class StatusAnswer(Answer):
    """The answer of a probe."""

    status: str
    """One word: what the probe found."""


class ReadinessAnswer(StatusAnswer):
    """The answer of a service that can make releases."""

    anchor: str
    """What would notice an older database put in place of this one: a `directory`, one
    `inside the data directory`, a `database`, or none (`off`)."""


def balance_answer(balance: Balance, text: Callable[[int], str]) -> BalanceAnswer:
    """Return a balance as decimal texts."""
    return BalanceAnswer(
        total=text(balance.total),
        spent=text(balance.spent),
        reserved=text(balance.reserved),
        remaining=text(balance.remaining),
    )


def target_answer(balance: Balance, meter: Meter) -> BalanceAnswer:
    """Return a balance in epsilons: what is left is the total less what all charges come to."""
    total, spent = meter.epsilon(balance.total), meter.epsilon(balance.spent)
    taken = meter.epsilon(balance.spent + balance.reserved)
    return BalanceAnswer(
        total=str(total),
        spent=str(spent),
        reserved=_text(taken.nanos - spent.nanos),
        remaining=_text(max(total.nanos - taken.nanos, 0)),
    )


def budget_fields(balance: Balance, meter: Meter) -> dict[str, Any]:
    """Return what everybody may see of a budget."""
    in_rho = meter.delta is not None
    return {
        "epsilon": target_answer(balance, meter),
        "accounting": meter.kind,
        "delta": None if meter.delta is None else decimal_text(meter.delta),
        "rho": balance_answer(balance, meter.text) if in_rho else None,
    }


def dataset_answer(view: DatasetView) -> DatasetAnswer:
    """Return the public facts of a data set."""
    facts, record = view.facts, view.facts.record
    return DatasetAnswer(
        id=record.id,
        name=record.name,
        description=facts.description,
        adjacency=facts.schema.adjacency.value,
        rows=record.rows,
        max_rows=facts.columns.max_rows,
        columns=columns_json(facts.columns),
        status=record.status.value,
        account=record.account,
        budget=DatasetBudgetAnswer(**budget_fields(view.balance, facts.meter)),
        policy=policy_json(facts.policy),
        created_at=record.created_at,
    )


def key_answer(record: KeyRecord) -> KeyAnswer:
    """Return a key without its secret."""
    return KeyAnswer(**_key_fields(record))


def new_key_answer(record: KeyRecord, secret: str) -> NewKeyAnswer:
    """Return a key with its secret."""
    return NewKeyAnswer(**_key_fields(record), secret=secret)


def _key_fields(record: KeyRecord) -> dict[str, Any]:
    return {
        "id": record.id,
        "name": record.name,
        "role": record.role.value,
        "expires": record.expires_at,
        "created_at": record.created_at,
        "created_by": record.created_by,
        "revoked_at": record.revoked_at,
        "person": record.person,
        "last_used_at": record.used_at,
    }


def _text(nanos: int) -> str:
    return str(Epsilon(nanos))
