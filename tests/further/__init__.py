"""Statistics that are registered with one line, and a walk through all that knows them then."""
