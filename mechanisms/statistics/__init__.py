"""All statistics, one module each.

A statistic is a frozen dataclass. Its fields are the request's, ``mechanisms`` lists its mechanisms
and their norms, and ``check`` refuses a question that does not fit the schema. An additive one also
defines its sum and the change by one record (:mod:`additive`, :mod:`second_order`).
:mod:`registry` lists all of them, :mod:`stack` combines several, :mod:`designs` scales the columns
of regressions.

May enter: the public facts about a question, its exact sum, and its sensitivity; no noise. May
import: the contract, ``geometry``, ``objectives`` and below; no mechanism.
"""
