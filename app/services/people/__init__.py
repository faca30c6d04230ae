"""Who asks, and how often: keys, roles and rates.

What may enter: what is known of a caller. What it may import: the store and the domain.
"""
