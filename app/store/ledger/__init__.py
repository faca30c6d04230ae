"""The ledger: entries, accounts, releases and what belongs to them, as rows.

What may enter: a table's reader and writer, and the commands that the writer does many at a time.
What it may import: the domain, :mod:`app.store.database`, and the store's errors.
"""
