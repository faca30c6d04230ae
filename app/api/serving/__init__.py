"""What every request passes, whichever endpoint it is for.

Connections that wait for nobody, the outermost layer of the application, and the public clock
that holds an answer until it may leave. Nothing about a single endpoint may enter: what the log
needs to know of one, it reads from its route.
"""
