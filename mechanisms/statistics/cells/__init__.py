"""Public cells of a record, from its own values: for histograms and groups.

:mod:`axes` cuts one column, :mod:`parting` combines columns and conditions into the parts of the
rows that a question is about.

May enter: maps from one record to a cell. May import: the contract, the public domain, and
conditions; no statistic.
"""
