"""Drafts of specs: what a file's header, its format and a dictionary say of its columns.

What may enter: guesses of types and of how a file is written, and dictionaries. It never proposes
bounds, a category's values or shares from rows: they would be public, and what rows hold is not.
What it may import: what reads files, and the domain.
"""
