"""The public log: who keeps it, and what it proves to strangers.

What may enter: what everyone may check. What it may import: the store, what makes and checks notes,
and ``rfc3161_client``; no web framework.
"""
