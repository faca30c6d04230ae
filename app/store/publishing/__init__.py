"""What of the releases is public, and what was: rows, and the system account's entries of them.

May enter: those rows. May import: ``sqlalchemy``, ``app.domain``, ``app.store.database``,
``app.store.ledger``.
"""
