"""Releases: charged, drawn once, stored, shown when their moment has come, and reviewed.

What may enter: what happens to a release after its plan. What it may import: people, data sets
and plans, and all below them. A draw is made by ``charged_draws`` alone.
"""
