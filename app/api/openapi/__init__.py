"""The OpenAPI document of the service: what it says, and its snapshot.

``python -m app.api.openapi FILE`` writes it; ``tests/contract/openapi.json`` is kept that way.
What describes the contract as a whole may enter. An endpoint describes itself, in its module. It
may import the bare application, whose routes it reads.
"""
