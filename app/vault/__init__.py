"""Where rows and row digests are stored on disk, next to the database.

What may enter: files that are hashed, flushed, shown by a rename, and erased. What it may import:
the domain. It does not know what the numbers in the files mean.
"""
