"""Data sets: public facts, rows coming and going, budgets and accounts, common origin.

What may enter: use cases about one data set that draw nothing. What it may import: people, the
store, the domain, and the shapes that uploads and the engine have.
"""
