"""The questions that can be asked: one module per statistic.

A statistic is a frozen dataclass: its fields are the request's, ``mechanisms`` says what releases
it by which norms, ``check`` refuses what does not fit a schema. An additive one also says what it
sums and what a record can change (:mod:`additive`, :mod:`second_order`). :mod:`registry` lists
them all, :mod:`stack` holds several, :mod:`designs` scales the columns of regressions.

May enter: what is public about a question, its exact sum, and its sensitivity; no noise. May
import: the contract, ``geometry``, ``objectives`` and below; no mechanism.
"""
