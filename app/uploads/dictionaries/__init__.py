"""Dictionaries: documents by a file's publisher that describe its columns.

What may enter: readers of Frictionless table schemas, CSVW metadata, DDI codebooks, and the
metadata of files of SPSS, Stata and SAS. A dictionary is from an untrusted client, so it is read
with bounds, without the network and without entities. What it may import: the domain.
"""
