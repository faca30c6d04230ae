"""The use cases: what analysts and curators may do, said without HTTP and without processes.

What lives here: one service for each kind of use case, in rooms for people, data sets, plans and
releases; ``build`` puts them together. What may enter: rules that need the store or the data, and
protocols of what others do for them. What it may import: uploads, the engine, the store, the
vault and the domain; never ``app.api`` nor ``app.processes``.
"""
