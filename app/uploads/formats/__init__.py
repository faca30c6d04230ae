"""Formats of files: which one a file has, by its first bytes, and Excel workbooks.

What may enter: what is recognised without a declaration of columns. What it may import: limits and
refusals of uploads.
"""
