"""Public row-wise maps: a column computed from one row alone, written as an expression.

:mod:`tree` is what an expression is and its one text, :mod:`parsing` reads what people write,
:mod:`refusals` words what is refused, :mod:`ranges` says which values it can have,
:mod:`elementary` and :mod:`evaluation` compute them, and :mod:`derived` puts them together.

May enter: an operation on the cells of one row, with its range. Nothing here sees two rows at
once. May import: the public domain, ``exact`` and ``words``; no statistic and no data source.
"""
