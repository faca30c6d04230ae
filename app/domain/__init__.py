"""The rules as pure functions and frozen records: no input or output, no clock, no database.

What may enter: what a ledger entry is and what may follow it, the states of a release, policies,
roles, what a data set's declaration means, every refusal. What it may import: the standard
library, ``mechanisms.privacy``, ``mechanisms.domain`` and ``mechanisms.domain``.
"""
