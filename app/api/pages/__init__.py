"""Pages for people: documents, the reference and problems, without a script and another host.

A page is made of what the project knows anyway: the Markdown files of ``docs``,
the OpenAPI document and the registry of problems. What a request sends chooses
among known pages and is never part of one. May enter: pages that are the same for
everyone. May import ``app.domain``, ``app.web``, and services
for what is public.
"""
