"""Every figure of the two papers, made again by one command, beside what the papers claim of it.

``python -m studies.figures`` runs them all; :mod:`studies.figures.registry` lists them. A figure
is a module that says which cells it consists of, how its picture is drawn of their results, and
what the results say of the paper's claims. To add one, write such a module and list it there.
"""
