"""Comparison with other libraries, in one run: error, time and audited epsilon.

``make peers`` runs it. The peers have an environment of their own, ``.venv-peers``. The study
queries them over a pipe (:mod:`studies.peers.asking`); their side is :mod:`studies.peers.there`.
"""
