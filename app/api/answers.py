"""The bodies of answers, and how they are made from what the services return."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from app.domain.datasets import columns_json
from app.domain.ledger import Balance, Entry
from app.services.datasets.accounting import Meter
from app.services.datasets.datasets import DatasetView, policy_json
from app.services.people.keys import KeyRecord
from app.services.releases.receipts import Finding, PublicKey
from mechanisms.accounting import decimal_text
from mechanisms.privacy import Epsilon


class Answer(BaseModel):
    """A body of an answer."""

    model_config = ConfigDict(frozen=True)


class BalanceAnswer(Answer):
    """Amounts of an account, each as the shortest decimal text."""

    total: str
    spent: str
    reserved: str
    remaining: str


class DatasetBudgetAnswer(Answer):
    """The budget as part of a data set's public facts.

    An account in zCDP has a ``delta``: ``epsilon`` is then what its ``rho``, the sums that the
    ledger keeps, comes to at that delta.
    """

    epsilon: BalanceAnswer
    accounting: Literal["pure", "zcdp"]
    delta: str | None
    rho: BalanceAnswer | None


class DatasetAnswer(Answer):
    """The public facts of a data set."""

    id: str
    name: str
    description: str
    adjacency: Literal["replace_one", "add_remove"]
    rows: int | None = Field(description="Public under replace_one, null under add_remove.")
    max_rows: int | None
    columns: dict[str, dict[str, Any]]
    status: Literal["active", "archived"]
    account: str
    budget: DatasetBudgetAnswer
    policy: dict[str, Any]
    created_at: str


class GuaranteeAnswer(Answer):
    """What a release promises, and by which theorem."""

    definition: str
    epsilon: str
    adjacency: Literal["replace_one", "add_remove"]
    sensitivity: str
    sensitivity_unit: str
    theorem: str
    exact: bool


class NoiseAnswer(Answer):
    """The law of the noise; both members mirror the shape of the value."""

    std: dict[str, Any]
    interval_95: dict[str, Any]


class ReviewAnswer(Answer):
    """What became of the review of a release; nulls while it waits for one."""

    decided_at: str | None
    reason: str | None = Field(
        description="Why it was not approved. The reason of an approval is in the ledger."
    )


class ReleaseAnswer(Answer):
    """A release. `value` is null while it has no result."""

    id: str
    dataset: str
    status: str
    statistic: dict[str, Any]
    mechanism: str
    norm: str | None
    epsilon: str
    value: dict[str, Any] | None
    noise: NoiseAnswer | None
    guarantee: GuaranteeAnswer
    grid: dict[str, Any]
    details: dict[str, Any]
    reason: str
    requested_by: str
    created_at: str
    released_at: str | None
    citation: str | None
    review: ReviewAnswer | None = Field(
        default=None,
        description="Null where there is none to wait for; absent once it has a result.",
    )
    receipt: str | None = Field(
        description="A signature (compact JWS, EdDSA) that anybody can check offline; last member."
    )


class DerivationAnswer(Answer):
    """A statistic computed from a release that is out: post-processing, free."""

    derived_from: str = Field(description="The release whose numbers it was computed from.")
    dataset: str
    statistic: dict[str, Any]
    value: dict[str, Any]
    noise: NoiseAnswer | None
    guarantee: GuaranteeAnswer = Field(description="That of the release it was derived from.")
    cost: str
    reason: str


class AlternativeAnswer(Answer):
    """A choice that was compared."""

    mechanism: str
    norm: str | None
    comparison: str
    std: float | None


class AccuracyAnswer(Answer):
    """The epsilon a wanted accuracy takes; null where no law says, or none is enough."""

    wanted: float
    epsilon: str | None


class FigureAnswer(Answer):
    """What one person can change, and the norm balls around it, as a picture."""

    svg: str


class ChargeAnswer(Answer):
    """What a release takes from its account, in the account's unit."""

    amount: str
    unit: Literal["epsilon", "rho"]


class JobAnswer(Answer):
    """A release that is drawn in the background."""

    deadline_s: int = Field(
        description="Its outcome is shown this many seconds after the charge, or at the next "
        "doubling of that time."
    )


class PreviewAnswer(Answer):
    """What a release would be like."""

    dataset: str
    statistic: dict[str, Any]
    cost: str = Field(description="The release's epsilon.")
    charge: ChargeAnswer
    mechanism: str
    norm: str | None
    epsilon: str
    reason: str
    guarantee: GuaranteeAnswer
    grid: dict[str, Any]
    details: dict[str, Any]
    review: bool = Field(
        description="Whether it would wait for a curator's approval. Nothing is charged before; "
        "then it is a job."
    )
    job: JobAnswer | None = Field(
        description="Null where the release would be answered while its client waits."
    )
    noise: NoiseAnswer | None
    alternatives: list[AlternativeAnswer]
    adjacent_output_space: FigureAnswer | None = Field(
        description="For statistics of two coordinates by k_norm; null otherwise."
    )
    accuracy: AccuracyAnswer | None
    notice: str


class EntryAnswer(Answer):
    """One entry of the ledger. Amounts are decimal text in ``unit``: epsilons, or zCDP's rho."""

    account: str
    unit: Literal["epsilon", "rho"]
    seq: int
    epoch: int
    kind: str
    principal: str
    release: str | None
    idem: str | None
    fingerprint: str | None
    note: str | None
    amount: str
    total_after: str
    spent_after: str
    reserved_after: str
    at: str
    prev: str
    hash: str


class VerificationAnswer(Answer):
    """Whether every chain and sum of the ledger holds, and how it stands to its anchor."""

    ok: bool
    entries: int
    head: str
    anchor: str | None = Field(
        description="How the ledger stands to its anchor; null where they were not compared."
    )
    faults: list[str]


class ReceiptFactsAnswer(Answer):
    """What a receipt says: this ledger charged for this answer in this entry."""

    ledger: str
    epoch: int
    account: str
    seq: int
    entry: str = Field(description="The entry's hash.")
    release: str
    answer: str = Field(description="SHA-256 of the answer's bytes without its receipt.")


class ReceiptCheckAnswer(Answer):
    """What this ledger makes of a receipt; without a good signature it says no more."""

    ok: bool
    signature: bool = Field(description="Whether a key of this ledger signed the receipt.")
    sent: bool | None = Field(
        description="Whether the answer that was sent is the signed one; null: it was not sent."
    )
    entry: bool | None = Field(description="Whether this ledger has the entry in its place.")
    stored: bool | None = Field(description="Whether the stored answer is the signed one.")
    forgotten: bool | None = Field(
        description="Whether the entry is missing and of an epoch that a reconciliation has ended, "
        "as when a restored database did not know it yet."
    )
    receipt: ReceiptFactsAnswer | None


class PublicKeyAnswer(Answer):
    """A public key as a JSON Web Key (RFC 8037), and since when the ledger has it."""

    kty: Literal["OKP"] = "OKP"
    crv: Literal["Ed25519"] = "Ed25519"
    alg: Literal["EdDSA"] = "EdDSA"
    use: Literal["sig"] = "sig"
    kid: str
    x: str
    since: str


class PublicKeysAnswer(Answer):
    """The keys that sign this ledger's receipts, the present one first: a JSON Web Key set."""

    ledger: str
    keys: list[PublicKeyAnswer]


class KeyAnswer(Answer):
    """A key, without its secret."""

    id: str
    name: str
    role: Literal["admin", "curator", "analyst"]
    expires: str | None
    created_at: str
    created_by: str
    revoked_at: str | None
    person: str = Field(description="Who releases made with this key belong to.")
    last_used_at: str | None = Field(description="To the minute; null before the first use.")


class NewKeyAnswer(KeyAnswer):
    """A key just made; the secret is shown this once."""

    secret: str


class StatusAnswer(Answer):
    """The answer of a probe."""

    status: str


class ReadinessAnswer(StatusAnswer):
    """The answer of a service that can make releases.

    ``anchor`` says what would notice an older database put in place of this one:
    a ``directory``, one ``inside the data directory``, a ``database``, or none (``off``).
    """

    anchor: str


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


def entry_answer(entry: Entry, meter: Meter) -> EntryAnswer:
    """Return a ledger entry."""
    return EntryAnswer(
        account=entry.account,
        unit=meter.unit,
        seq=entry.seq,
        epoch=entry.epoch,
        kind=entry.kind,
        principal=entry.principal,
        release=entry.release,
        idem=entry.idem,
        fingerprint=entry.fingerprint,
        note=entry.note,
        amount=meter.text(entry.amount),
        total_after=meter.text(entry.total_after),
        spent_after=meter.text(entry.spent_after),
        reserved_after=meter.text(entry.reserved_after),
        at=entry.at,
        prev=entry.prev,
        hash=entry.hash,
    )


def receipt_check_answer(finding: Finding) -> ReceiptCheckAnswer:
    """Return what was found of a receipt."""
    said = finding.receipt
    return ReceiptCheckAnswer(
        ok=finding.ok,
        signature=finding.signature,
        sent=finding.sent,
        entry=finding.entry,
        stored=finding.stored,
        forgotten=finding.forgotten,
        receipt=None if said is None else ReceiptFactsAnswer(**asdict(said)),
    )


def public_keys_answer(ledger: str, keys: Iterable[PublicKey]) -> PublicKeysAnswer:
    """Return public keys as a JSON Web Key set."""
    shown = [PublicKeyAnswer(kid=key.name, x=key.public, since=key.since) for key in keys]
    return PublicKeysAnswer(ledger=ledger, keys=shown)


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
