"""The public log: who keeps it, and what it proves to strangers.

What may enter: the store, and what makes and checks notes; nothing of the web.
"""
