"""The desk: what people see in a browser.

Pages over the same services as the API, which they do not know. They are rendered here, complete
without script. What speaks of pages, forms and sessions may enter; it may import ``app.web``,
services, and what is below them; never the store or the engine.
"""
