"""Every figure of the two papers, reproduced by one command, with the papers' claims about it.

``python -m studies.figures`` runs them all; :mod:`studies.figures.registry` lists them. A figure
is a module that defines its cells, how to draw its picture from their results, and the findings on
the paper's claims. To add one, write such a module and list it there.
"""
