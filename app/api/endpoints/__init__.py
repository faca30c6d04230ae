"""The calls of the contract, a module for each noun; ``app.api.application`` lists their routers.

An endpoint says who may call it, what it takes and what it may refuse, asks one use case, and
hands what comes back to a function of ``app.api.answers``. Nothing else may enter. It may import
all of ``app.api`` but another endpoint.
"""
