"""Numbers that are certain: balls, rationals, proved floats, certified rounding.

:mod:`balls` and :mod:`fractions` hold every helper for FLINT's types, once; :mod:`fractions` reads
and writes decimals too. :mod:`floats` has functions with proved errors and turns balls into grid
points. :mod:`continuous` adds bits until an answer is certain, and holds random reals whose bits
are drawn when they are read.

May enter: arithmetic that is independent of privacy and statistics. May import: ``randomness``.
"""
