"""Texts of files: their encoding, and which value a cell is that is not spelt as programs do."""
