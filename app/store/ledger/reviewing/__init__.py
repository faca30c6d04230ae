"""What is said while releases wait: turns, votes, comments and notices, and who saw what.

May enter: rows of those tables. Budgets are moved elsewhere, in :mod:`app.store.ledger.reviews`.
May import: what :mod:`app.store.ledger` may.
"""
