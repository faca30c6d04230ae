"""The public log: the ledger's entries as leaves of one Merkle tree, and its signed checkpoints.

*Order.* Every account has a chain of its own, so something must say which entry of which account
comes next. That is the table of parts: each part is a run of one account's entries, and begins
where the part before it in the tree, and the part before it of its account, have ended. Parts are
appended by the ledger's writer and never changed; on PostgreSQL writers take turns. So the order
is the one in which entries came into the log, the same for everyone, and an account's entries are
in the order of its chain.

*When.* Entries come into the log a little after their commit, so that no charge waits for it. Only
a size that is durable is ever signed. Entries that seal results are left out: their number and
moment would reveal how long a draw took. So are those that keep the log's own checkpoints.

What may enter: rows of the log. What it may import: ``sqlalchemy``, ``app.domain``,
``app.store.database``, ``app.store.ledger``.
"""
