"""Numbers that are certain: balls, rationals, proved floats, certified rounding.

:mod:`balls` and :mod:`fractions` hold every helper for FLINT's types, once; :mod:`decimals` reads
and writes decimals, :mod:`floats` has functions with proved errors, :mod:`arrays` names arrays,
:mod:`rounding` turns balls into grid points, :mod:`certainty` asks until an answer is certain,
:mod:`continuous` holds random reals of which only the bits looked at are drawn.

May enter: arithmetic that knows nothing of privacy or statistics. May import: ``randomness``.
"""
