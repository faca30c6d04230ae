"""The repositories bundled for reading and for writing, and the only commit.

Entries of every account for people to read: by who, what and where, newest first.

Entries that seal results or keep checkpoints are left out, and so they are over HTTP
(:mod:`app.store.ledger.releases`): their time would reveal how long a draw took.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from sqlalchemy import (
    ColumnElement,
    Connection,
    RootTransaction,
    and_,
    bindparam,
    func,
    select,
    text,
)
from sqlalchemy.exc import DBAPIError

from app.domain.ledger import SYSTEM_ACCOUNT, Entry, EntryKind
from app.domain.policies import SERVICE, Acting
from app.domain.reviews import Decision
from app.store.anchor.standing import Witness
from app.store.database import tables
from app.store.database.postgresql import has_committed, numbered
from app.store.desk import Forms, FormsWriter, Sessions, SessionsWriter
from app.store.ledger.access import AccessEntries, AccessWriter, is_seen
from app.store.ledger.accounts import Accounts, AccountsWriter
from app.store.ledger.commands import RatesWriter
from app.store.ledger.datasets import Datasets, DatasetsWriter, Uploads, UploadsWriter
from app.store.ledger.entries import Changes, Entries, EntriesWriter, LedgerIdentity, entry_of
from app.store.ledger.jobs import WorkersWriter
from app.store.ledger.keys import Keys, KeysWriter
from app.store.ledger.pauses import Pauses, PausesWriter
from app.store.ledger.records import RELEASE_ID_LENGTH
from app.store.ledger.releases import RESULT, Releases, ReleasesWriter
from app.store.ledger.reviewing.notices import Notices, NoticesWriter
from app.store.ledger.reviewing.study_plans import StudyPlans, StudyPlansWriter
from app.store.ledger.reviewing.votes import (
    Comments,
    CommentsWriter,
    Views,
    ViewsWriter,
    Votes,
    VotesWriter,
)
from app.store.ledger.reviews import APPROVED, Reviews, ReviewsWriter
from app.store.merkle_log import CHECKPOINT, Log, LogWriter, Stamps, StampsWriter
from app.store.publishing import Publications, PublicationsWriter
from app.store.verification.marks import Mark
from app.store.verification.verify import Progress, Verification, verify

_entry, _release, _dataset = tables.entry.c, tables.release.c, tables.dataset.c
_TOLD = select(tables.entry).where(_entry.kind.not_in([RESULT, CHECKPOINT]))
_AT = (
    select(tables.entry)
    .where(
        _entry.account == bindparam("of"),
        _entry.seq.in_(bindparam("places", expanding=True)),
    )
    .order_by(_entry.seq)
)

_APPROVED = select(_entry.principal, _entry.note, _entry.at).where(
    _entry.account == SYSTEM_ACCOUNT,
    _entry.kind == APPROVED,
    text(tables.ACTS),
    _entry.at.in_(bindparam("times", expanding=True)),
)


def _is_of_none(hidden: Collection[str]) -> ColumnElement[bool]:
    """Return the condition on the system's entries that their notes name nothing of an account.

    A note about a release begins with its id, or is JSON that does. Others have the id of a data
    set or an account in them.
    """
    accounts = sorted(hidden)
    places = (1, 1 + len('{"release": "'))
    release = _release.id.in_(
        [func.substr(_entry.note, place, RELEASE_ID_LENGTH) for place in places]
    )
    dataset = _entry.note.contains(_dataset.id)
    return and_(
        ~select(_release.id).where(_release.account.in_(accounts), release).exists(),
        ~select(_dataset.id).where(_dataset.account.in_(accounts), dataset).exists(),
        *(func.coalesce(_entry.note, "").not_like(f"%{each}%") for each in accounts),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Which entries: of one account, kind or person, and none after a time; None: of all.

    ``kinds`` are several kinds, none: all of them.
    """

    account: str | None = None
    kind: str | None = None
    kinds: Collection[str] = ()
    person: str | None = None
    until: str | None = None
    hidden: Collection[str] = ()
    """Accounts of which nothing is shown, and nothing of the system's about them."""


class Journal:
    """The ledger as people read it."""

    __slots__ = ("_connection",)

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def page(self, wanted: Wanted, *, skip: int, limit: int) -> tuple[Entry, ...]:
        """Return entries, newest first, after the first ``skip`` of them."""
        query = _TOLD
        for column, value in (
            (_entry.account, wanted.account),
            (_entry.kind, wanted.kind),
            (_entry.principal, wanted.person),
        ):
            if value is not None:
                query = query.where(column == value)
        kinds = {*wanted.kinds, *filter(None, [wanted.kind])}
        if wanted.account is None and kinds and not kinds & {*EntryKind}:
            # Only the system has these: its acts have an index, and need not be looked for in all.
            query = query.where(_entry.account == SYSTEM_ACCOUNT, text(tables.ACTS))
        if wanted.kinds:
            query = query.where(_entry.kind.in_([*wanted.kinds]))
        if wanted.until is not None:
            query = query.where(_entry.at <= wanted.until)
        if wanted.hidden:
            query = query.where(is_seen(_entry.account, wanted.hidden), _is_of_none(wanted.hidden))
        # By time, then account and number: within one transaction all times are equal.
        if wanted.account is None:
            query = query.order_by(_entry.at.desc(), _entry.account)
        rows = self._connection.execute(query.order_by(_entry.seq.desc()).offset(skip).limit(limit))
        return tuple(entry_of(row) for row in rows)

    def approvals(self, entries: Sequence[Entry]) -> Mapping[str, tuple[str, ...]]:
        """Return who approved the releases that entries charge for, by release.

        An approval is an entry of the system account, of the same moment as the charge.
        """
        charged = {
            each.release: each.at
            for each in entries
            if each.kind == EntryKind.DEBIT and each.idem is None and each.release is not None
        }
        if not charged:
            return {}
        times = sorted(set(charged.values()))
        found = {}
        for row in self._connection.execute(_APPROVED, {"times": times}):
            release = (row.note or "").partition(":")[0]
            if charged.get(release) == row.at:
                found[release] = self._approvers(release, row.principal)
        return found

    def _approvers(self, release: str, last: str) -> tuple[str, ...]:
        """Return all whose votes let a release be charged, the one that decided last."""
        votes = Votes(self._connection).of(release)
        stand = {each.person: each.decision for each in votes if each.turn == votes[-1].turn}
        others = [person for person, vote in stand.items() if vote is Decision.APPROVE]
        return (*(person for person in others if person != last), last)

    def at(self, account: str, places: Sequence[int]) -> tuple[Entry, ...]:
        """Return an account's entries in these places, oldest first."""
        rows = self._connection.execute(_AT, {"of": account, "places": places})
        return tuple(entry_of(row) for row in rows)


# The repositories bundled for reading and for writing, and the only commit


class Reader:
    """All repositories over one snapshot of the database."""

    __slots__ = (
        "access",
        "accounts",
        "comments",
        "connection",
        "datasets",
        "entries",
        "forms",
        "journal",
        "keys",
        "log",
        "notices",
        "pauses",
        "publications",
        "releases",
        "reviews",
        "sessions",
        "stamps",
        "study_plans",
        "uploads",
        "views",
        "votes",
    )

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.access = AccessEntries(connection)
        self.accounts = Accounts(connection)
        self.datasets = Datasets(connection)
        self.entries = Entries(connection)
        self.forms = Forms(connection)
        self.journal = Journal(connection)
        self.keys = Keys(connection)
        self.log = Log(connection)
        self.pauses = Pauses(connection)
        self.publications = Publications(connection)
        self.releases = Releases(connection)
        self.reviews = Reviews(connection)
        self.sessions = Sessions(connection)
        self.comments = Comments(connection)
        self.notices = Notices(connection)
        self.views = Views(connection)
        self.stamps = Stamps(connection)
        self.study_plans = StudyPlans(connection)
        self.votes = Votes(connection)
        self.uploads = Uploads(connection)

    def verify(
        self,
        *,
        signed: bool = False,
        witness: Witness | None = None,
        marked: bool = False,
        since: Mark | None = None,
        progress: Progress | None = None,
    ) -> Verification:
        """Walk every chain, sum and result; ``signed``: their receipts too. Ends the snapshot.

        With ``marked`` it says where a later one may go on from; ``since`` goes on from there.
        """
        return verify(
            self.connection,
            signed=signed,
            may_end=True,
            witness=witness,
            marked=marked,
            since=since,
            progress=progress,
        )


class UnitOfWork:
    """All repositories with their writing verbs, inside one transaction of the writer."""

    __slots__ = (
        "access",
        "accounts",
        "changes",
        "comments",
        "connection",
        "datasets",
        "entries",
        "forms",
        "keys",
        "log",
        "notices",
        "pauses",
        "publications",
        "rates",
        "releases",
        "require_clock",
        "reviews",
        "sessions",
        "stamps",
        "study_plans",
        "uploads",
        "views",
        "votes",
        "workers",
    )

    def __init__(self, connection: Connection, identity: LedgerIdentity) -> None:
        self.connection = connection
        self.changes = Changes(connection)
        self.entries = EntriesWriter(connection, identity, self.changes)
        self.accounts = AccountsWriter(connection, self.entries)
        self.access = AccessWriter(connection, self.accounts)
        self.datasets = DatasetsWriter(connection, self.accounts)
        self.keys = KeysWriter(connection, self.accounts)
        self.log = LogWriter(connection, self.entries)
        self.pauses = PausesWriter(connection, self.accounts)
        self.publications = PublicationsWriter(connection, self.accounts)
        self.releases = ReleasesWriter(connection, self.accounts, self.entries)
        self.comments = CommentsWriter(connection)
        self.notices = NoticesWriter(connection)
        self.views = ViewsWriter(connection)
        self.stamps = StampsWriter(connection)
        self.study_plans = StudyPlansWriter(connection, self.accounts, self.notices)
        self.votes = VotesWriter(connection, self.accounts)
        self.reviews = ReviewsWriter(
            connection, self.entries, self.accounts, self.releases, self.notices
        )
        self.uploads = UploadsWriter(connection)
        self.rates = RatesWriter(connection)
        self.workers = WorkersWriter(connection)
        self.sessions = SessionsWriter(connection)
        self.forms = FormsWriter(connection)
        self.require_clock: Callable[[], None] = _any_clock

    def by(self, acting: Acting, *, urgent: bool = False) -> UnitOfWork:
        """Return this, whose entries are made by a key from now on, to the function's end.

        What is ``urgent`` is written whatever the clock says.

        Raises
        ------
        Problem
            ``clock-behind``, where the clock may not date entries.
        """
        if not urgent:
            self.require_clock()
        self.changes.acting = acting
        return self

    def by_service(self) -> UnitOfWork:
        """Return this for a function, whose entries are made by the service itself.

        Whom it acts for it says itself: nothing of what was done before it stays.
        """
        self.changes.acting = SERVICE
        self.changes.rows.write()  # which it may read
        return self

    @contextmanager
    def transaction(self) -> Iterator[UnitOfWork]:
        """Do what :func:`transaction` does, with the bookkeeping of this."""
        with transaction(self.connection):
            self.changes.begin()
            yield self


def _any_clock() -> None:
    """Pass: nothing says what the clock has to be compared with."""


@contextmanager
def transaction(connection: Connection) -> Iterator[None]:
    """Begin, and at the end commit; whatever goes wrong, the commit included, undoes it all.

    Where the connection is lost during COMMIT the server is asked what became of it.

    Raises
    ------
    UnknownCommitError
        The outcome is unknown; what was written must not be written again.
    """
    outer = connection.begin()
    try:
        yield
    except BaseException:
        _undo(connection, outer)
        raise
    try:
        outer.commit()
    except BaseException as error:
        _undo(connection, outer)
        # Only a lost connection leaves it open; every other error means that nothing was committed.
        lost = isinstance(error, DBAPIError) and error.connection_invalidated
        known = numbered(connection) if lost else None
        if known is None or not has_committed(connection.engine, known):
            raise


def _undo(connection: Connection, outer: RootTransaction) -> None:
    outer.rollback()
    # After a failed COMMIT SQLAlchemy counts the transaction as over and SQLite does not,
    # so the driver rolls back as well. A connection that is gone has nothing to roll back.
    if not connection.invalidated:
        connection.connection.rollback()
