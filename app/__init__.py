"""The service: data sets in, noisy answers out, and a ledger of every charge between.

What lives here: commands, the entry points of a server and a worker, settings, logs, and the
rooms below. May enter: a room for a concept of its own; what is private mathematics belongs in
``mechanisms``. A layer's modules may import those of the layers below it; the order is a contract
in ``pyproject.toml``.
"""
