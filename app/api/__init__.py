"""The HTTP contract: from a request's bytes to an answer's, and the use case between.

What speaks of HTTP may enter. It may import services, the domain and the mechanisms' public
types; never the store or the engine. Here: the application and its routes, what an endpoint is,
and what it asks for.

``connections`` and ``middleware`` are below the application. ``answers`` writes the bodies
of answers; those of requests are read in ``app.web``. ``endpoints`` are the contract's calls, one
module for each noun. ``pages`` are for readers. ``openapi`` describes all of it.
"""
