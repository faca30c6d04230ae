"""The repositories bundled for reading and for writing, and the only commit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from sqlalchemy import Connection, RootTransaction
from sqlalchemy.exc import DBAPIError

from app.domain.policies import SERVICE, Acting
from app.store.anchor.standing import Witness
from app.store.database.postgresql import has_committed, numbered
from app.store.desk import FormsWriter, Sessions, SessionsWriter
from app.store.journal import Journal
from app.store.ledger.accounts import Accounts, AccountsWriter
from app.store.ledger.allowances import RatesWriter
from app.store.ledger.datasets import Datasets, DatasetsWriter, Uploads, UploadsWriter
from app.store.ledger.entries import Entries, EntriesWriter, LedgerIdentity
from app.store.ledger.jobs import WorkersWriter
from app.store.ledger.keys import Keys, KeysWriter
from app.store.ledger.pauses import Pauses, PausesWriter
from app.store.ledger.releases import Releases, ReleasesWriter
from app.store.ledger.reviewing.comments import Comments, CommentsWriter, Sights, SightsWriter
from app.store.ledger.reviewing.notices import Notices, NoticesWriter
from app.store.ledger.reviewing.votes import Votes, VotesWriter
from app.store.ledger.reviews import Reviews, ReviewsWriter
from app.store.merkle_log.parts import Log, LogWriter
from app.store.merkle_log.stamps import Stamps, StampsWriter
from app.store.publishing import Publications, PublicationsWriter
from app.store.seals import seal
from app.store.verification.marks import Mark
from app.store.verification.verify import Verification, verify


class Reader:
    """All repositories over one snapshot of the database."""

    __slots__ = (
        "accounts",
        "comments",
        "connection",
        "datasets",
        "entries",
        "journal",
        "keys",
        "log",
        "notices",
        "pauses",
        "publications",
        "releases",
        "reviews",
        "sessions",
        "sights",
        "stamps",
        "uploads",
        "votes",
    )

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.accounts = Accounts(connection)
        self.datasets = Datasets(connection)
        self.entries = Entries(connection)
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
        self.sights = Sights(connection)
        self.stamps = Stamps(connection)
        self.votes = Votes(connection)
        self.uploads = Uploads(connection)

    def verify(
        self,
        *,
        signed: bool = False,
        witness: Witness | None = None,
        marked: bool = False,
        since: Mark | None = None,
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
        )


class UnitOfWork:
    """All repositories with their writing verbs, inside one transaction of the writer."""

    __slots__ = (
        "accounts",
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
        "sights",
        "stamps",
        "uploads",
        "votes",
        "workers",
    )

    def __init__(self, connection: Connection, identity: LedgerIdentity) -> None:
        self.connection = connection
        self.entries = EntriesWriter(connection, identity)
        self.accounts = AccountsWriter(connection, self.entries)
        self.datasets = DatasetsWriter(connection, self.accounts)
        self.keys = KeysWriter(connection, self.accounts)
        self.log = LogWriter(connection, self.entries)
        self.pauses = PausesWriter(connection, self.accounts)
        self.publications = PublicationsWriter(connection, self.accounts)
        self.releases = ReleasesWriter(connection, self.accounts, self.entries.writes)
        self.comments = CommentsWriter(connection)
        self.notices = NoticesWriter(connection)
        self.sights = SightsWriter(connection)
        self.stamps = StampsWriter(connection)
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
        self.entries.acting = acting
        return self

    def by_service(self) -> UnitOfWork:
        """Return this, whose entries are made by the service itself, to the function's end."""
        self.entries.acting = SERVICE
        return self

    def begin(self) -> None:
        """Begin a transaction's bookkeeping; the writer calls this."""
        self.entries.begin()
        self.releases.begin()

    def seal(self) -> None:
        """Have an entry hold the results stored so far: once before each COMMIT is enough."""
        seal(self.entries, self.connection, self.releases.take_unsealed())

    def mark(self) -> tuple[int, int]:
        """Return how far the transaction's bookkeeping has come."""
        return self.entries.steps, self.releases.settlements

    def forget_since(self, mark: tuple[int, int]) -> None:
        """Forget what was noted after a mark: it has been rolled back."""
        steps, settlements = mark
        self.entries.forget_since(steps)
        self.releases.forget_since(settlements)


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
    # Asked for before COMMIT: afterwards the connection may be gone.
    known = numbered(connection)
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
        if not (lost and known is not None and has_committed(connection.engine, known)):
            raise


def _undo(connection: Connection, outer: RootTransaction) -> None:
    outer.rollback()
    # After a failed COMMIT SQLAlchemy counts the transaction as over and SQLite does not,
    # so the driver rolls back as well. A connection that is gone has nothing to roll back.
    if not connection.invalidated:
        connection.connection.rollback()
