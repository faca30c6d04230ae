"""The bodies of answers about budgets, the ledger, its public log and its receipts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Literal, cast

from starlette.responses import Response

from app.api.answers.paging import Answer
from app.domain.access import AccessList, Group
from app.domain.ledger import Balance, Entry, EntryKind
from app.domain.upload_reports import UploadProgress
from app.services.audit import Verification
from app.services.datasets.accounting import Meter, in_epsilons
from app.services.datasets.budgets import BudgetView, CapRecord
from app.services.releases.jobs import PauseRecord
from app.services.releases.receipts import Finding, PublicKey
from app.services.transparency.log import InclusionProof, VerifierKey
from app.services.transparency.stamps import REPLY_TYPE
from mechanisms.exact.fractions import decimal_text


class BalanceAnswer(Answer):
    """Amounts of an account, each as the shortest decimal text."""

    total: str
    """What the account may spend in all."""
    spent: str
    """What its releases have cost."""
    reserved: str
    """What is reserved for releases that wait for a review."""
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


class BudgetAnswer(DatasetBudgetAnswer):
    """A budget, and the caller's part of it."""

    yours: dict[Literal["spent", "cap", "remaining"], str]
    """What the caller's own releases have cost; under a cap also the cap, and the largest epsilon
    that a release of the caller's may still have."""


class CapAnswer(Answer):
    """What one person may use of an account, and has used, in epsilons as decimal text."""

    person: str
    """Whose releases it limits: the `person` of a key."""
    epsilon: str | None
    """The cap; null once the limit is removed."""
    used: str
    """Spent, and reserved for a review."""


class AccessAnswer(Answer):
    """Who may see a data set, next to admins and auditors."""

    persons: list[str]
    """The `person` of keys."""
    groups: list[str]
    """Names of groups; a provider's have its id and a colon before their name."""


class DatasetAccessAnswer(Answer):
    """Who may see the data sets of an account."""

    access: AccessAnswer | None
    """null: everyone whose role allows it."""


class GroupAnswer(Answer):
    """Persons under one name."""

    name: str
    """What it is called."""
    persons: list[str]
    """All who are in it."""


def access_answer(listed: AccessList | None) -> DatasetAccessAnswer:
    """Return who may see a data set."""
    if listed is None:
        return DatasetAccessAnswer(access=None)
    access = AccessAnswer(persons=[*listed.persons], groups=[*listed.groups])
    return DatasetAccessAnswer(access=access)


def group_answer(group: Group) -> GroupAnswer:
    """Return a group."""
    return GroupAnswer(name=group.name, persons=[*group.persons])


def budget_answer(view: BudgetView) -> BudgetAnswer:
    """Return a budget."""
    meter, cap = view.meter, None if view.cap is None else view.cap.amount
    yours: dict[Literal["spent", "cap", "remaining"], str]
    yours = {"spent": str(meter.epsilon(view.yours))}
    if cap is not None:
        yours["cap"] = str(meter.epsilon(cap))
        yours["remaining"] = str(meter.affordable(view.remaining))
    return BudgetAnswer(**budget_fields(view.balance, meter), yours=yours)


def cap_answer(record: CapRecord, meter: Meter) -> CapAnswer:
    """Return a cap."""
    epsilon = None if record.amount is None else str(meter.epsilon(record.amount))
    return CapAnswer(person=record.person, epsilon=epsilon, used=str(meter.epsilon(record.used)))


def balance_answer(balance: Balance, text: Callable[[int], str]) -> BalanceAnswer:
    """Return a balance as decimal texts."""
    return BalanceAnswer(
        total=text(balance.total),
        spent=text(balance.spent),
        reserved=text(balance.reserved),
        remaining=text(balance.remaining),
    )


def target_answer(balance: Balance, meter: Meter) -> BalanceAnswer:
    """Return a balance in epsilons."""
    amounts = in_epsilons(balance, meter)
    return BalanceAnswer(
        total=str(amounts.total),
        spent=str(amounts.spent),
        reserved=str(amounts.reserved),
        remaining=str(amounts.remaining),
    )


def budget_fields(balance: Balance, meter: Meter) -> dict[str, Any]:
    """Return what everyone may see of a budget."""
    in_rho = meter.delta is not None
    return {
        "epsilon": target_answer(balance, meter),
        "accounting": meter.kind,
        "delta": None if meter.delta is None else decimal_text(meter.delta),
        "rho": balance_answer(balance, meter.text) if in_rho else None,
    }


# The bodies of answers about pauses


class PauseAnswer(Answer):
    """A person or a data set that is paused."""

    what: Literal["person", "dataset"]
    """Which of the two it is."""
    name: str
    """The `person` of keys, or the id of the data set."""
    reason: str
    """Why."""
    paused_by: str
    """The person who paused it."""
    paused_at: str
    """When (UTC)."""


class SetPauseAnswer(Answer):
    """What has been paused or resumed."""

    what: Literal["person", "dataset"]
    """Which of the two it is."""
    name: str
    """The `person` of keys, or the id of the data set."""
    paused: bool
    """Whether it is paused now."""
    cancelled: int
    """How many releases that waited for a review have been rejected."""


def pause_answer(record: PauseRecord) -> PauseAnswer:
    """Return a pause."""
    return PauseAnswer(
        what=_what(record.what),
        name=record.name,
        reason=record.reason,
        paused_by=record.paused_by,
        paused_at=record.paused_at,
    )


def set_pause_answer(record: PauseRecord, cancelled: int) -> SetPauseAnswer:
    """Return a pause just made."""
    what = _what(record.what)
    return SetPauseAnswer(what=what, name=record.name, paused=True, cancelled=cancelled)


def resumed_answer(what: str, name: str) -> SetPauseAnswer:
    """Return what has just been resumed."""
    return SetPauseAnswer(what=_what(what), name=name, paused=False, cancelled=0)


def _what(what: str) -> Literal["person", "dataset"]:
    return cast(Literal["person", "dataset"], what)


# The body of an answer about uploads that are being read


class ReadingAnswer(Answer):
    """How far an upload of yours is."""

    reading: str
    """The `Reading` that it was sent with."""
    rows: int
    """Rows that have been read."""
    bytes: int
    """Bytes that have been read. Of Parquet it is the part that its rows are of all rows."""
    of_bytes: int | None
    """Of how many, all files of a source together; null while that is not known."""


class ReadingsAnswer(Answer):
    """Those of your uploads that are being read."""

    items: list[ReadingAnswer]
    """In no order."""


def readings_answer(found: Sequence[UploadProgress]) -> ReadingsAnswer:
    """Return the body about uploads."""
    return ReadingsAnswer(
        items=[
            ReadingAnswer(
                reading=each.reading,
                rows=each.rows,
                bytes=each.read_bytes,
                of_bytes=each.total_bytes,
            )
            for each in found
        ]
    )


# The bodies of answers about the ledger, its verification and its receipts


class EntryAnswer(Answer):
    """One entry of the ledger. Amounts are decimal text in ``unit``: epsilons, or zCDP's rho."""

    account: str
    """The budget account whose chain it belongs to."""
    unit: Literal["epsilon", "rho"]
    """What the amounts are counted in."""
    seq: int
    """Its place in the account's chain, from 1."""
    epoch: int
    """The ledger's epoch; a reconciliation after a restored backup begins a new one."""
    kind: str
    """`open` and `grant` raise the total, `expire` lowers it, `debit` spends, `reserve` and
    `unreserve` reserve budget and return it, `burn` spends what a restored ledger had forgotten."""
    principal: str
    """The person who caused it."""
    release: str | None
    """The release it is about, if any."""
    idem: str | None
    """The `Idempotency-Key` of the request, if any."""
    fingerprint: str | None
    """SHA-256 of what was asked or done, if any."""
    note: str | None
    """The reason that was given, or what the entry adds."""
    amount: str
    """What the entry moves."""
    total_after: str
    """The account's total after it."""
    spent_after: str
    """What the account has spent after it."""
    reserved_after: str
    """What the account has reserved after it."""
    at: str
    """When it was written (UTC)."""
    prev: str
    """The hash of the account's entry before it."""
    hash: str
    """SHA-256 over every member of this entry and the hash before it."""
    key: str | None
    """The id of the key that it was made by; null for what the service does by itself."""
    role: str | None
    """The role that the key was used in, or `system`; null for entries of version 0.1."""
    approved_by: list[str]
    """The people who approved the release that it charges for. `principal`, `key` and `role` are
    the requester's; empty where there was no review."""


class VerificationAnswer(Answer):
    """Whether all hash chains and totals of the ledger are correct, and it matches its anchor."""

    ok: bool
    """Whether no fault was found."""
    entries: int
    """How many entries there are, those aside that seal results or keep checkpoints."""
    head: str
    """SHA-256 over the sorted last hashes of all accounts, entries that seal results or keep
    checkpoints aside."""
    anchor: str | None
    """Whether the ledger matches its anchor; null where they were not compared."""
    faults: list[str]
    """What was found to be wrong, one sentence each."""
    since: int | None
    """How many entries of the public log an earlier verification covered, and this one did not read
    again; null where everything was checked."""


class ReceiptFactsAnswer(Answer):
    """What a receipt says: this ledger charged for this answer in this entry."""

    ledger: str
    """The ledger's id."""
    epoch: int
    """The ledger's epoch when it signed."""
    account: str
    """The account that was charged."""
    seq: int
    """The place of the charge in the account's chain."""
    entry: str
    """The entry's hash."""
    release: str
    """The release that was answered."""
    answer: str
    """SHA-256 of the answer's bytes without its receipt."""


class ReceiptCheckAnswer(Answer):
    """What this ledger makes of a receipt; without a good signature it says no more."""

    ok: bool
    """Whether signature, entry and answer all hold."""
    signature: bool
    """Whether a key of this ledger signed the receipt."""
    sent: bool | None
    """Whether the answer that was sent is the signed one; null: it was not sent."""
    entry: bool | None
    """Whether this ledger has the entry in its place."""
    stored: bool | None
    """Whether the stored answer is the signed one."""
    forgotten: bool | None
    """Whether the entry is missing and of an epoch that a reconciliation has ended, as when a
    restored database did not know it yet."""
    receipt: ReceiptFactsAnswer | None
    """What the receipt says; null without a good signature."""


class PublicKeyAnswer(Answer):
    """A public key as a JSON Web Key (RFC 8037), and since when the ledger has it."""

    kty: Literal["OKP"] = "OKP"
    """Key type: octet key pair."""
    crv: Literal["Ed25519"] = "Ed25519"
    """Curve."""
    alg: Literal["EdDSA"] = "EdDSA"
    """Algorithm of the signatures."""
    use: Literal["sig"] = "sig"
    """The key signs."""
    kid: str
    """The key's name, its RFC 7638 thumbprint; a receipt's header holds it."""
    x: str
    """The public key, base64url."""
    since: str
    """When the ledger recorded it (UTC)."""


class PublicKeysAnswer(Answer):
    """The keys that sign this ledger's receipts, the present one first: a JSON Web Key set."""

    ledger: str
    """The ledger's id."""
    keys: list[PublicKeyAnswer]
    """The present key, then earlier ones."""


def entry_answer(entry: Entry, meter: Meter, approvals: Mapping[str, Sequence[str]]) -> EntryAnswer:
    """Return a ledger entry; ``approvals`` are the people who approved releases."""
    approved = approvals.get(entry.release or "", ()) if entry.kind == EntryKind.DEBIT else ()
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
        key=entry.key,
        role=entry.role,
        approved_by=list(approved),
    )


def verification_answer(found: Verification) -> VerificationAnswer:
    """Return what walking the ledger has found."""
    return VerificationAnswer(
        ok=found.ok,
        entries=found.entries,
        head=found.head,
        anchor=found.anchored and str(found.anchored),
        faults=list(found.faults),
        since=found.since,
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


# The bodies of answers about the public log

NOTE_TYPE = "text/plain; charset=utf-8"
STAMP_TYPE = REPLY_TYPE


class InclusionAnswer(Answer):
    """A proof that a leaf is in the tree of the first `size` leaves. Hashes are SHA-256, in hex."""

    index: int
    """The leaf's place in the log, from 0."""
    size: int
    """How many leaves the tree has."""
    leaf: str
    """The leaf's hash."""
    path: list[str]
    """What the root is computed from, in addition to the leaf: nearest first (RFC 9162, 2.1.3)."""


class ConsistencyAnswer(Answer):
    """That a tree begins with the leaves of a smaller one. Hashes are SHA-256, in hex."""

    before: int
    """How many leaves the smaller tree has."""
    size: int
    """How many leaves the larger tree has."""
    path: list[str]
    """What both roots are computed from (RFC 9162, 2.1.4)."""


class LogKeyAnswer(Answer):
    """A key that checkpoints may be signed with, and since when the ledger has it."""

    kid: str
    """The key's name, as receipts and `/v1/ledger/public-keys` have it."""
    verifier: str
    """The public key as tools for signed notes take it: name, key hash and key."""
    since: str
    """When the ledger recorded it (UTC)."""


class LogKeysAnswer(Answer):
    """The name of the log, which is the first line of its checkpoints, and its keys."""

    origin: str
    """The log's name: the ledger's id and its epoch are in it."""
    keys: list[LogKeyAnswer]
    """The present key, then earlier ones."""


def checkpoint_answer(note: str) -> Response:
    """Return a signed checkpoint, which is text."""
    return Response(note, media_type=NOTE_TYPE)


def stamp_answer(stamp: bytes) -> Response:
    """Return a time stamp, as the authority has answered it."""
    return Response(stamp, media_type=STAMP_TYPE)


def inclusion_answer(proof: InclusionProof) -> InclusionAnswer:
    """Return an inclusion proof."""
    return InclusionAnswer(
        index=proof.index, size=proof.size, leaf=proof.leaf.hex(), path=_texts(proof.path)
    )


def consistency_answer(before: int, size: int, path: Sequence[bytes]) -> ConsistencyAnswer:
    """Return a consistency proof."""
    return ConsistencyAnswer(before=before, size=size, path=_texts(path))


def log_keys_answer(origin: str, keys: Iterable[VerifierKey]) -> LogKeysAnswer:
    """Return the log's keys."""
    shown = [LogKeyAnswer(kid=key.name, verifier=key.text, since=key.since) for key in keys]
    return LogKeysAnswer(origin=origin, keys=shown)


def _texts(path: Iterable[bytes]) -> list[str]:
    return [each.hex() for each in path]
