"""What the desk remembers of browsers: sessions, and forms that were sent.

Nothing of the ledger may enter: a session names a key, and a form names where its act is shown.
It may import ``app.store.database``.
"""
