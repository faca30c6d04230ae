"""What reviewers work with: the sheet, the inbox and what it sends, edits, and who saw what.

May enter: use cases about reviews that :mod:`app.services.releases` can do without. May import:
that, and what it may import.
"""
