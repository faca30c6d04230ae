"""Publication: making releases public, and how a public release reads, cites and exports.

May enter: ``app.domain``, ``app.store``, the other services but those that build them.
"""
