"""Many margins of one table that agree: how they are measured, estimated and made whole.

:mod:`workload`: which margins of which columns. :mod:`residuals`: sums, contrasts and least squares
of margins, in integers. :mod:`sensitivities`: how far a record moves them. :mod:`laplace`,
:mod:`characters`: noise in pure accounts; :mod:`gaussian`: in zCDP; :mod:`planning` chooses.
:mod:`ranges`: blocks of ordered cells, so that ranges have little noise.
:mod:`records`: whole records whose margins are near the estimates, so that all margins agree.

May enter: what many margins have in common, and laws of noise on all of them at once. May import:
geometry, whose laws describe noise, samplers, and all below them. Nothing here knows a question or
a data set: counts are arrays.
"""
