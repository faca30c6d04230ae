"""The HTTP contract: from a request's bytes to an answer's, and the use case between.

What speaks of HTTP may enter. It may import services, the domain and the mechanisms' public
types; never the store or the engine. Here: the application and its routes, what an endpoint is,
what it asks for, and the state it sees.

``serving`` is below the application: connections, the clock that holds answers, the log line.
``requests`` reads bodies, ``answers`` writes them. ``endpoints`` are the contract's calls, one
module for each noun. ``pages`` are for people. ``openapi`` describes all of it.
"""
