"""What the API and the desk share: both speak HTTP, and neither knows the other.

The state that every request sees, the public clock that holds an answer until it may leave, the
bound on connections, and ``requests``, which reads what was asked. Whatever speaks of one kind of
answer, JSON or a page, may not enter. It may import services and what is below them.
"""
