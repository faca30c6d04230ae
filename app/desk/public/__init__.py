"""The pages that anybody may read: what is public, each release with all that explains it.

No key, no cookie, nobody is signed in; a cache may keep them. The same releases in forms for
programs are the API's. May enter, and may import: what :mod:`app.desk` says, but for sessions.
"""
