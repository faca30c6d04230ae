"""SQLite and PostgreSQL: connections, locks, the schema, and the rules that triggers hold.

What may enter: whatever differs between the two databases, and what a schema must be. What it
may import: the domain and the store's errors.
"""
