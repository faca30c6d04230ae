"""Public row-wise maps: a column computed from one row alone, written as an expression.

:mod:`tree` defines an expression and its canonical text, and computes its values.
:mod:`parsing` reads user input and has the error messages, :mod:`ranges` computes the range of
possible values, and :mod:`derived` combines all of it.

May enter: an operation on the cells of one row, with its range. Nothing here sees two rows at
once. May import: the public domain, ``exact`` and ``words``; no statistic and no data source.
"""
