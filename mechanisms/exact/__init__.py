"""Numbers that are certain: balls, rationals, proved floats, certified rounding.

:mod:`balls` and :mod:`fractions` hold every helper for FLINT's types, once; :mod:`decimals` reads
and writes decimals, :mod:`floats` has functions with proved errors, :mod:`arrays` names arrays,
:mod:`rounding` turns balls into grid points, :mod:`certainty` adds bits until an answer is certain,
:mod:`continuous` holds random reals whose bits are drawn when they are read.

May enter: arithmetic that is independent of privacy and statistics. May import: ``randomness``.
"""
