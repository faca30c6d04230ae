"""Rows by person: what tells whose a row is, and what of a person's rows is kept.

Everything here is a function of one person's own rows and of the secret key, never of anybody
else's. So adding or removing a person adds or removes what is kept of that person, and nothing
else. What may enter: digests of ids, rows sorted by person on disk, choosing and reducing. What it
may import: the domain, and of :mod:`app.uploads` what knows no format.
"""
