"""What is noted outside the database, so that an older copy of it is noticed.

What may enter: places that remember how far the ledger has come, and the comparison with it. What
it may import: the domain, the ledger and the database, and the store's errors.
"""
