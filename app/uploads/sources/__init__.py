"""Files that lie where a curator names them: finding, opening, watching and handing them over.

What may enter: another kind of store for files (in addition to ``folders``), and the messages
between the process that opens files (``feeding``) and the one that reads them (``fed``). What it
may import: the domain, and of :mod:`app.uploads` what knows no format.
"""
