"""What every request passes, whichever endpoint it is for.

Connections with deadlines, and the outermost layer of the application. Nothing about a
single endpoint may enter: what the log needs to know of one, it reads from its route. It may
import ``app.web``, the answers to refusals and the domain, and no use case.
"""
