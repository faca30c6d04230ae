"""What the service answers, as typed values. Members added later are kept, not refused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from app.client.answers import Answer, Numbers
from app.client.errors import ClientError
from app.client.tables import Row, typed_columns, typed_frame_of
from app.tidy.names import words


@dataclass(frozen=True, slots=True, kw_only=True)
class Balance(Answer):
    """Amounts of an account, each as exact decimal text."""

    total: str
    spent: str
    reserved: str
    remaining: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget(Answer):
    """A data set's balance and what of it the caller may still use.

    An account in zCDP has a ``delta``; ``rho`` is what its ledger sums.
    """

    epsilon: Balance
    accounting: str = "pure"
    delta: str | None = None
    rho: Balance | None = None
    yours: Any = None

    parts: ClassVar[Mapping[str, type[Answer]]] = {"epsilon": Balance, "rho": Balance}


@dataclass(frozen=True, slots=True, kw_only=True)
class Cap(Answer):
    """What one person may use of a budget (None: no cap any more), and has used."""

    person: str
    epsilon: str | None
    used: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Access(Answer):
    """Who may see a data set, next to admins and auditors."""

    persons: list[str]
    groups: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Group(Answer):
    """Persons under one name, whom lists of access may name."""

    name: str
    persons: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause(Answer):
    """A person or a data set (``what``) that an operator has paused."""

    what: str
    name: str
    reason: str
    paused_by: str
    paused_at: str


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Preview(Numbers):
    """What a release would cost and how noisy it would be; no data was read.

    ``review`` says whether it would await a curator's approval, ``job`` about how long a release
    takes that is drawn in the background, and by when it is shown; None: it is answered at once.
    ``expected_error`` has the shape of the value, and ``usefulness`` a verdict and its reason.
    """

    mechanism: str
    norm: str | None = None
    epsilon: str
    expected_error: dict[str, Any] | None = None
    usefulness: dict[str, Any] | None = None
    assume: dict[str, Any] | None = None
    review: bool = False
    job: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyPlan(Answer):
    """What several questions would cost together; nothing is charged or set aside.

    ``questions`` are their previews. ``charge`` and ``remaining`` are amounts with a ``unit``, and
    ``fits`` says whether the one is within the other. ``unpriced`` has the places, from 0, of
    questions whose accuracy has no known epsilon.
    """

    questions: Sequence[Preview] = field(repr=False)
    charge: Mapping[str, str]
    remaining: Mapping[str, str]
    fits: bool
    unpriced: Sequence[int] = ()

    @classmethod
    def _read(cls, name: str, value: Any) -> Any:
        return [Preview.model_validate(each) for each in value] if name == "questions" else value

    def rows(self) -> list[dict[str, str]]:
        """Return a row for each question, and one for all: what it asks, its price and verdict."""
        rows = [
            {
                "question": asked_in(each.statistic),
                "epsilon": each.epsilon,
                "charge": f"{each.charge['amount']} {each.charge['unit']}",
                "verdict": (each.usefulness or {}).get("verdict") or "",
            }
            for each in self.questions
        ]
        total = f"{self.charge['amount']} {self.charge['unit']}"
        left = f"of {self.remaining['amount']}" if self.fits else "more than is left"
        return [*rows, {"question": "all", "epsilon": "", "charge": total, "verdict": left}]


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedPlan(Answer):
    """A saved study plan: questions that are reviewed as one, and drawn one by one.

    ``questions`` have their ``statistic``, ``epsilon``, ``charge``, and their ``release`` once they
    are paid for. ``charge``, ``paid`` and ``remaining`` are amounts with a ``unit``. A plan
    reserves nothing: ``fits`` says whether what is unpaid is within what remains now. ``turn`` is
    how often it has come before its reviewers. ``edited``: the owner has changed it since, and has
    not sent it. ``reason`` is that of the last decision.
    """

    id: str
    dataset: str
    name: str
    purpose: str | None
    status: str
    turn: int
    edited: bool
    reason: str | None
    etag: str
    requested_by: str
    expires_at: str | None
    questions: Sequence[Mapping[str, Any]] = field(repr=False)
    charge: Mapping[str, str]
    paid: Mapping[str, str]
    remaining: Mapping[str, str]
    fits: bool

    def rows(self) -> list[dict[str, str]]:
        """Return a row for each question: what it asks, its price, and its release."""
        return [
            {
                "question": f"{place}: {asked_in(each['statistic'])}",
                "epsilon": each["epsilon"],
                "charge": f"{each['charge']['amount']} {each['charge']['unit']}",
                "release": each["release"] or "",
            }
            for place, each in enumerate(self.questions)
        ]


def asked_in(statistic: Mapping[str, Any]) -> str:
    """Return a question in short: its kind, formula or columns, and groups.

    >>> asked_in({"kind": "mean", "columns": ["income"], "by": ["sex"]})
    'mean of income by sex'
    """
    pair = [statistic[name] for name in ("time", "event", "score", "label") if name in statistic]
    columns = statistic.get("columns") or pair
    about = statistic.get("formula") or ", ".join(map(str, columns))
    groups = ", ".join(map(_group_in, statistic.get("by") or []))
    kind = words(str(statistic["kind"]))
    return f"{kind}{f' of {about}' if about else ''}{f' by {groups}' if groups else ''}"


def _group_in(group: Any) -> str:
    return str(group.get("column", group)) if isinstance(group, Mapping) else str(group)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class DryRun(Numbers):
    """What a release on synthetic rows came to: free, and without real people.

    It has a release's members; ``synthetic`` is true, and there is no receipt. ``rows`` says
    on how many rows, of the population that ``assume`` describes.
    """

    dataset: str
    mechanism: str | None = None
    norm: str | None = None
    epsilon: str
    synthetic: bool = True
    assume: dict[str, Any] | None = None
    usefulness: dict[str, Any] | None = None
    guarantee: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Release(Numbers):
    """A sanitized answer. ``body`` holds the bytes exactly as the service stored them.

    ``value`` is None while a release is not ``released``. ``noise`` is None
    where the law of the noise depends on the data. ``usefulness`` holds a verdict, ``good``,
    ``weak`` or ``noise``, and its reason in a ``sentence``; ``assume`` says of what population.
    ``review`` says why one that needed a review was not approved. ``job`` says how long one takes
    that is not drawn yet.
    """

    id: str
    dataset: str
    status: str
    mechanism: str | None = None
    norm: str | None = None
    epsilon: str
    purpose: str | None = None
    usefulness: dict[str, Any] | None = None
    assume: dict[str, Any] | None = None
    guarantee: dict[str, Any] | None = None
    requested_by: str | None = None
    review: dict[str, Any] | None = None
    job: dict[str, Any] | None = None
    body: bytes = field(default=b"", repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Publication(Answer):
    """A release that is public (``status``: ``published``), or was (``withdrawn``).

    ``address`` is the path of its page; with ``.json`` or ``.csv`` at its end, that form.
    """

    release: str
    status: str
    address: str
    reason: str
    published_by: str
    published_at: str
    withdrawn_by: str | None = None
    withdrawn_at: str | None = None
    note: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt(Answer):
    """What a receipt says: this ledger charged for this answer in this entry.

    ``entry`` is the entry's hash, ``answer`` the SHA-256 of the answer without its receipt.
    """

    ledger: str
    epoch: int
    account: str
    seq: int
    entry: str
    release: str
    answer: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiptCheck(Answer):
    """What the service makes of a receipt; without a good signature it says no more.

    ``sent``: whether the answer that was sent is the signed one (None: it was not sent).
    ``entry``: whether the ledger has the entry in its place. ``stored``: whether the
    stored answer is the signed one. ``forgotten``: whether the entry is missing
    and of an epoch that a reconciliation has ended, as after a restore.
    """

    ok: bool
    signature: bool
    sent: bool | None = None
    entry: bool | None = None
    stored: bool | None = None
    forgotten: bool | None = None
    receipt: Receipt | None = None

    parts: ClassVar[Mapping[str, type[Answer]]] = {"receipt": Receipt}


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Derivation(Numbers):
    """A statistic computed from the release ``derived_from``: post-processing, free.

    ``together_with`` are the ids of the releases whose numbers were combined with its own.
    """

    derived_from: str
    together_with: list[str] = field(default_factory=list)
    dataset: str
    value: dict[str, Any]
    guarantee: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SyntheticRows(Answer):
    """Synthetic rows of a release of tables: post-processing, free, and of no real person.

    ``body`` is the file, ``guarantee`` the release's. ``tables`` says of every released table how
    far that of the rows is from it, and ``unmeasured`` names pairs of columns without a table.
    """

    release: str
    statement: str
    rows: int
    seed: int
    format: str
    sha256: str
    columns: Sequence[Mapping[str, Any]]
    guarantee: Mapping[str, Any]
    tables: Sequence[Mapping[str, Any]]
    unmeasured: Sequence[Sequence[str]]
    body: bytes = field(default=b"", repr=False, compare=False)

    def records(self) -> list[Row]:
        """Return the rows as dictionaries of texts, booleans, numbers, dates and times.

        Raises
        ------
        ClientError
            The file is not CSV.
        """
        names = [str(each["name"]) for each in self.columns]
        return [dict(zip(names, row, strict=True)) for row in zip(*self._values(), strict=True)]

    def to_frame(self) -> Any:
        """Return the rows as a data frame of pandas.

        Raises
        ------
        MissingPackageError
            pandas is not installed.
        ClientError
            The file is not CSV.
        """
        return typed_frame_of("pandas", "to_frame", self.columns, self._values())

    def to_polars(self) -> Any:
        """Return the rows as a data frame of Polars.

        Raises
        ------
        MissingPackageError
            polars is not installed.
        ClientError
            The file is not CSV.
        """
        return typed_frame_of("polars", "to_polars", self.columns, self._values())

    def _values(self) -> list[list[Any]]:
        if self.format != "csv":
            raise ClientError(f"only CSV is read here: ask for it, or read the {self.format} body")
        return typed_columns(self.body.decode("utf-8"), self.columns)


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry(Answer):
    """One line of the ledger."""

    seq: int
    kind: str
    hash: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification(Answer):
    """The outcome of walking every chain and sum of the ledger.

    ``anchor`` says how the ledger stands to its anchor; None: they were not compared. ``since`` is
    how many entries an earlier verification covered; None: everything was walked.
    """

    ok: bool
    entries: int
    head: str | None = None
    anchor: str | None = None
    since: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Key(Answer):
    """An API key; ``secret`` is present only in the answer that made it."""

    id: str
    name: str
    role: str
    secret: str | None = None
    expires: str | None = None
    person: str | None = None
    last_used_at: str | None = None
    revoked_at: str | None = None
    twins: Sequence[str] = ()
