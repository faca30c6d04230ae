"""The one path from an answer to rows that people and programs read.

    answer (JSON)  --keys-->  numbers by key  --rows-->  value, noise and inference, joined by key
                                              --names-> labels, made last

The desk, public pages, CSV files and the Python client show these rows, and the R package follows
the same rules. A number's key is its place in the answer's ``value``. What an answer says of a
number elsewhere, in ``noise``, ``at_edge``, ``at_most`` and ``inference``, is found by that place
and never by a text.

May enter: pure functions of one answer. May import: the standard library alone, since the client is
installed without the service.
"""
