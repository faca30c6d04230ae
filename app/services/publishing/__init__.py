"""Publication: making releases public, and how a public release reads, cites and exports.

May enter: what is read without a key. May import: ``app.domain``, ``app.store``, and the other
services but those that build them.
"""
