"""Rows by person: who each row belongs to, and which of a person's rows are stored.

Everything here is a function of one person's own rows and of the secret key, never of other
people's rows. So adding or removing a person adds or removes what is kept of that person, and
nothing else. What may enter: digests of ids, rows sorted by person on disk, choosing and reducing.
What it may import: the domain, and of :mod:`app.uploads` what knows no format.
"""
