"""What a statistic says of itself: the defaults, and how answers follow from one another.

May enter: facts that classes state, and what several need to state them. May import: the contract
and the public domain; no statistic.
"""
