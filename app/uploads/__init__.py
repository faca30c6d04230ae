"""From an uploaded file to the files of a data set: the work that is done inside a process.

What may enter: reading CSV and Parquet into integer codes, sketches, row digests and their
comparison, writing parts. What it may import: the engine, for the stored form, and the domain.
Which process does this work is the matter of :mod:`app.processes`.
"""
