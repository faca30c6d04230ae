"""Other libraries on their own ground, in one run: error, time and audited epsilon.

``make peers`` runs it. The peers live in an environment of their own, ``.venv-peers``, and are
asked over a pipe (:mod:`studies.peers.asking`); what they run there is :mod:`studies.peers.there`.
"""
