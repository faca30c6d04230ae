"""What columns are declared with: when two texts are one, patterns of dates, and typical values.

What may enter: pure rules about declarations. What it may import: the standard library.
"""
