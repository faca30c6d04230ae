"""Adjacent output spaces (what one person can change), and the norm balls of the noise.

:mod:`spaces` holds adjacent output spaces with their exact sensitivities, and products of balls;
:mod:`advisor` picks a ball for one, :mod:`laws` says how wide the noise is. The balls:
:mod:`smooth` for the l_p norms, and the hulls :mod:`histograms`, :mod:`second_moments`,
:mod:`joint_moments`, :mod:`polytopes`, cut by :mod:`cuts`.

May enter: a set of differences with its norm, membership and draw; nothing that reads data.
May import: ``samplers`` and below.
"""
