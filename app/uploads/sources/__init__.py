"""Files that lie where a curator names them: finding, opening, watching and handing them over.

What may enter: another place where files lie (beside ``folders``), and what is said between the
process that opens files (``feeding``) and the one that reads them (``fed``). What it may import:
the domain, and of :mod:`app.uploads` what knows no format.
"""
