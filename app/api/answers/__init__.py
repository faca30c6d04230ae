"""From what a service returns to an answer, in one way.

A module for each noun. A model says the shape of a body, and documents it. A function named
``..._answer`` makes the body, or the whole response where it has headers of its own. An answer
that is stored is sent as the bytes that were signed. Endpoints make no answer themselves.

May enter: shapes of bodies, and nothing that decides. It may import services and the domain, for
what they return; never an endpoint.
"""
