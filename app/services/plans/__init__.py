"""Plans: from a question to the mechanism that answers it, its cost and its deadline.

What may enter: what is decided by public facts alone; nothing here reads a row. What it may
import: people, data sets, the store and the domain, and ``mechanisms``.
"""
