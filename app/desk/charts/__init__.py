"""Charts: SVG that our style sheet paints, with every number also in a table next to it.

A chart has no style of its own and no script. What it is of is its accessible name. May enter:
pictures of numbers that are given. May import: words for numbers; no request and no service.
"""
