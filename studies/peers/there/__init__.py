"""The peers' side, run by their own Python: it imports them, and nothing else of the project."""
