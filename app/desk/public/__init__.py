"""The pages that everyone may read: what is public, each release with all that explains it.

No key, no cookie, no sign-in; a cache may store them. The same releases in forms for
programs are the API's. May enter, and may import: what :mod:`app.desk` says, but for sessions.
"""
